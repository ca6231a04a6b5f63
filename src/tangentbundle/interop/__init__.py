"""Other libraries: PyTorch Geometric, meshio, and xarray in ``xarray``.

``operator.to_scipy()`` is the way to scipy.
"""

from ..io.meshes import from_meshio, to_meshio
from .pyg import AttachBundle, laplacian_of, to_pyg

__all__ = [
    "AttachBundle",
    "from_meshio",
    "laplacian_of",
    "to_meshio",
    "to_pyg",
]
