"""Other libraries: PyTorch Geometric here, meshio and PyVista in ``meshes``, xarray in ``xarray``.

``operator.to_scipy()`` is the way to scipy.
"""

from .meshes import from_meshio, from_pyvista, to_meshio, to_pyvista
from .pyg import AttachBundle, laplacian_of, to_pyg

__all__ = [
    "AttachBundle",
    "from_meshio",
    "from_pyvista",
    "laplacian_of",
    "to_meshio",
    "to_pyg",
    "to_pyvista",
]
