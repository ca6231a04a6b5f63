"""Where the points of a file live: a cloud, the globe, or a mesh; each knows its bundle and its
components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import (
    NotManifoldError,
    RankDeficientError,
    Remedy,
)

# torch is loaded when geometry is computed: files with mistakes are refused before
if TYPE_CHECKING:
    from ..bundle import TangentBundle


class Cloud:
    """Bare points ``(n, D)``: tangent spaces and dimension are estimated, and vectors have the
    components of points.

    Other spaces know more: the dimension, the manifold, and the ``frames`` ``(n, D, c)`` in which a
    file gives vectors, if these are not ambient. ``coordinates`` ``(n, len(names))`` are the
    numbers that the file gives for each point, ``vector_names`` those of components for files that
    bring none, ``attributes`` those of the coordinates in datasets, ``up`` is the axis that figures
    show as up.
    """

    dim: int | None = None
    manifold: Any = None
    frames: np.ndarray | None = None
    up: str = "z"

    def __init__(self, points: np.ndarray, names: tuple[str, ...]) -> None:
        self.points = points
        self.coordinates = points
        self.names = names
        self.vector_names = tuple(f"v{name}" for name in names)
        self.attributes: tuple[dict[str, str], ...] = ({},) * len(names)

    def __len__(self) -> int:
        return len(self.points)

    def bundle(self, dim: int | None = None, **scale: Any) -> TangentBundle:
        """The tangent bundle; ``scale`` are options such as ``neighbors``. A known dimension stays
        as it is."""
        from ..bundle import TangentBundle

        return TangentBundle.from_points(self.points, dim=dim, **scale)

    def ambient(self, values: np.ndarray) -> np.ndarray:
        """Components ``(T, n, c)`` as the file has them to ambient vectors ``(T, n, D)``."""
        if self.frames is None:
            return values
        return np.einsum("nda,tna->tnd", self.frames, values)

    def components(self, vectors: np.ndarray) -> np.ndarray:
        """Ambient vectors ``(T, n, D)`` to components ``(T, n, c)``."""
        if self.frames is None:
            return vectors
        return np.einsum("nda,tnd->tna", self.frames, vectors)

    def spread(self, covariances: np.ndarray) -> np.ndarray:
        """Standard deviations ``(n, c)`` of the components, from ambient covariances
        ``(n, D, D)``."""
        if self.frames is None:
            variances = np.einsum("nii->ni", covariances)
        else:
            variances = np.einsum("nda,ndf,nfa->na", self.frames, covariances, self.frames)
        return np.sqrt(np.maximum(variances, 0.0))

    def select(self, rows: np.ndarray) -> Cloud:
        """The space of chosen points."""
        return Cloud(self.points[rows], self.names)

    def __str__(self) -> str:
        return f"{len(self)} points in R^{self.points.shape[1]}"


class Mesh(Cloud):
    """A triangle mesh in space, with tangent planes from its triangles.

    ``bundle()`` is that of the surface; with ``neighbors`` or ``eps``, that of the vertices as a
    cloud of points, whose tangent planes are estimated: the triangles are not used, and need not
    form a surface.
    """

    dim = 2

    def __init__(self, points: np.ndarray, faces: np.ndarray) -> None:
        super().__init__(points, ("x", "y", "z"))
        self.faces = faces

    def bundle(self, dim: int | None = None, **scale: Any) -> TangentBundle:
        from ..bundle import TangentBundle

        if scale:
            return super().bundle(self.dim, **scale)
        try:
            return TangentBundle.from_mesh(self.points, self.faces)
        except (NotManifoldError, RankDeficientError) as error:
            remedy = Remedy("Clean the mesh, or use its vertices only: {neighbors}.", neighbors=20)
            raise type(error)(error.problem, remedy) from error

    def __str__(self) -> str:
        return f"a mesh of {len(self)} vertices and {len(self.faces)} triangles"


class Globe(Cloud):
    """Latitudes and longitudes in degrees: exact frames on the unit sphere, components are (east,
    north)."""

    dim = 2

    def __init__(
        self, lat: np.ndarray, lon: np.ndarray, names: tuple[str, ...] = ("lat", "lon")
    ) -> None:
        from ..geometry.known_frames import latlon_frames
        from ..manifolds import Sphere

        points, self.frames, _ = latlon_frames(lat, lon)
        super().__init__(points, names)
        self.lat = lat
        self.lon = lon
        self.coordinates = np.stack([lat, lon], axis=1)
        self.manifold = Sphere(2)
        self.vector_names = ("u", "v")
        self.attributes = (
            {"standard_name": "latitude", "units": "degrees_north"},
            {"standard_name": "longitude", "units": "degrees_east"},
        )

    def bundle(self, dim: int | None = None, **scale: Any) -> TangentBundle:
        from ..bundle import TangentBundle

        return TangentBundle.from_latlon(self.lat, self.lon, **scale)

    def select(self, rows: np.ndarray) -> Globe:
        return Globe(self.lat[rows], self.lon[rows], self.names)

    def __str__(self) -> str:
        return f"{len(self)} points on the globe"
