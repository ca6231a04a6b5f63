"""meshio and PyVista: meshes and clouds with vectors at their vertices, in and out as ``Field``.

``field.space.bundle()`` is the bundle, ``field.vectors`` the vectors ``(1, n, 3)``, and ``field.with_vectors(...)`` the
same mesh with others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..extras import extra
from ..io import Field, Mesh, Request
from ..io.arrays import to_arrays
from ..io.meshes import from_meshio as read_meshio
from ..io.meshes import to_meshio

__all__ = ["from_meshio", "from_pyvista", "to_meshio", "to_pyvista"]


def from_meshio(mesh: Any, vectors: str | None = None) -> Field:
    """The field on a ``meshio.Mesh``: its triangles, or a cloud of points if there are none.

    ``vectors`` names the vertex data that holds them; by default it is guessed, and said in ``field.notes``. Without
    any, ``field.values`` is None.

    >>> import meshio, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(100, seed=0)
    >>> cloud = meshio.Mesh(points, [], {"flow": np.cross(points, [0, 0, 1])})
    >>> field = from_meshio(cloud)
    >>> str(field), field.space.bundle().dim
    ('100 points in R^3', 2)
    """
    return read_meshio(mesh, Request(vectors=() if vectors is None else (vectors,), needs_vectors=vectors is not None))


def from_pyvista(mesh: Any, vectors: str | None = None) -> Field:
    """The field on a PyVista ``PolyData`` or ``UnstructuredGrid``; see ``from_meshio``."""
    return from_meshio(extra("pyvista", "from_pyvista", "pyvista").to_meshio(mesh), vectors)


def to_pyvista(field: Field) -> Any:
    """A PyVista ``PolyData`` with the vectors as point data, and all other point data of the mesh they came from."""
    pyvista = extra("pyvista", "to_pyvista", "pyvista")
    points = np.asarray(field.space.points)
    if isinstance(field.space, Mesh):
        mesh = pyvista.PolyData.from_regular_faces(points, field.space.faces)
    else:
        mesh = pyvista.PolyData(points)
    for name, array in to_arrays(field).items():
        mesh.point_data[name] = array
    return mesh
