"""Where the points of a file live: a cloud, the globe, or a mesh; each knows its bundle and its components."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import NotManifoldError

if TYPE_CHECKING:  # torch is loaded when geometry is computed: files with mistakes are refused before
    from ..bundle import TangentBundle


class Space(ABC):
    """Points of a file ``(n, D)``. Vectors have the file's components; ``ambient`` and ``components`` translate."""

    points: np.ndarray
    names: tuple[str, ...]
    manifold: Any = None

    def __len__(self) -> int:
        return len(self.points)

    @property
    def dim(self) -> int | None:
        """The dimension, where it is known."""
        return None

    @property
    def coordinates(self) -> np.ndarray:
        """The numbers that the file gives for each point, ``(n, len(names))``."""
        return self.points

    @property
    def vector_names(self) -> tuple[str, ...]:
        """Usual names of components, for files that bring none."""
        return tuple(f"v{name}" for name in self.names)

    def bundle(self, **scale: Any) -> TangentBundle:
        """The tangent bundle; ``scale`` are options such as ``neighbors``."""
        from ..bundle import TangentBundle

        return TangentBundle.from_points(self.points, **scale)

    def ambient(self, values: np.ndarray) -> np.ndarray:
        """Components ``(T, n, c)`` as the file has them to ambient vectors ``(T, n, D)``."""
        return values

    def components(self, vectors: np.ndarray) -> np.ndarray:
        """Ambient vectors ``(T, n, D)`` to components ``(T, n, c)``."""
        return vectors

    def spread(self, covariances: np.ndarray) -> np.ndarray:
        """Standard deviations ``(n, c)`` of the components, from ambient covariances ``(n, D, D)``."""
        return np.sqrt(np.maximum(np.einsum("nii->ni", covariances), 0.0))

    def select(self, rows: np.ndarray) -> Space:
        """The space of chosen points."""
        raise NotImplementedError


def _without_dim(scale: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scale.items() if name != "dim"}


@cache
def _earth() -> Any:
    from ..manifolds import Sphere

    return Sphere(2)


@dataclass(frozen=True, eq=False)
class Cloud(Space):
    """Bare points ``(n, D)``: tangent spaces and dimension are estimated."""

    points: np.ndarray
    names: tuple[str, ...]

    def select(self, rows: np.ndarray) -> Cloud:
        return Cloud(self.points[rows], self.names)

    def __str__(self) -> str:
        return f"{len(self)} points in R^{self.points.shape[1]}"


@dataclass(frozen=True, eq=False)
class Mesh(Space):
    """A triangle mesh in space, with tangent planes from its triangles.

    ``bundle()`` is that of the surface; with ``neighbors`` or ``eps``, that of the vertices as a cloud of points.
    """

    points: np.ndarray
    faces: np.ndarray
    names: tuple[str, ...] = ("x", "y", "z")
    dim = 2

    def bundle(self, **scale: Any) -> TangentBundle:
        from ..bundle import TangentBundle
        from ..geometry.halfedges import check_faces
        from ..geometry.known_frames import mesh_frames

        if not scale.keys() <= {"dim"}:
            frames = mesh_frames(self.points, check_faces(self.faces, self.points))
            return TangentBundle.from_frames(self.points, frames, **_without_dim(scale))
        try:
            return TangentBundle.from_mesh(self.points, self.faces)
        except NotManifoldError as error:
            problem = str(error).partition(". ")[0]
            raise NotManifoldError(f"{problem}. Clean the mesh, or use its vertices only: neighbors=20.") from error

    def __str__(self) -> str:
        return f"a mesh of {len(self)} vertices and {len(self.faces)} triangles"


@dataclass(frozen=True, eq=False)
class Globe(Space):
    """Latitudes and longitudes in degrees: exact frames on the unit sphere, components are (east, north)."""

    lat: np.ndarray
    lon: np.ndarray
    names: tuple[str, ...] = ("lat", "lon")
    dim = 2
    vector_names = ("u", "v")

    @property
    def manifold(self) -> Any:
        return _earth()

    @cached_property
    def _geometry(self) -> tuple[np.ndarray, np.ndarray]:
        from ..geometry.known_frames import latlon_frames

        return latlon_frames(self.lat, self.lon)[:2]

    @property
    def points(self) -> np.ndarray:  # type: ignore[override]
        return self._geometry[0]

    @property
    def frames(self) -> np.ndarray:
        """Unit vectors (east, north), ``(n, 3, 2)``."""
        return self._geometry[1]

    @property
    def coordinates(self) -> np.ndarray:
        return np.stack([self.lat, self.lon], axis=1)

    def bundle(self, **scale: Any) -> TangentBundle:
        from ..bundle import TangentBundle

        return TangentBundle.from_latlon(self.lat, self.lon, **_without_dim(scale))

    def ambient(self, values: np.ndarray) -> np.ndarray:
        return np.einsum("nda,tna->tnd", self.frames, values)

    def components(self, vectors: np.ndarray) -> np.ndarray:
        return np.einsum("nda,tnd->tna", self.frames, vectors)

    def spread(self, covariances: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(np.einsum("nda,ndf,nfa->na", self.frames, covariances, self.frames), 0.0))

    def select(self, rows: np.ndarray) -> Globe:
        return Globe(self.lat[rows], self.lon[rows], self.names)

    def __str__(self) -> str:
        return f"{len(self)} points on the globe"
