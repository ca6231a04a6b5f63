"""Where the points of people's data lie: a cloud, a mesh, the globe, or a known manifold.

Every space answers the same questions:

* ``points`` ``(n, D)``, and ``coordinates`` ``(n, k)``, the numbers that people give for each
  point, with their ``names`` and ``units``;
* ``frames`` ``(n, D, d)``, orthonormal tangent bases where they are known exactly, otherwise None;
* ``to_ambient`` and ``to_components``, between vectors of the ambient space and the components in
  which people give vectors;
* ``bundle()``, the tangent bundle.

torch is imported when geometry is computed, so that files with mistakes are refused at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import NotManifoldError, RankDeficientError, Remedy
from .upright import upright_axis

if TYPE_CHECKING:
    from .bundle import TangentBundle
    from .manifolds import Manifold


DEGREE_DIGITS = 9
"""Digits of points on the unit sphere that tell places apart: a centimetre on the Earth."""


class Space(ABC):
    """Points of people's data, and what is known of the space they lie on.

    Attributes:
        points: ``(n, D)``.
        names: of the coordinates, which are those of the points unless a space has others.
        dim: the dimension d, if it is known.
        manifold: the manifold, if it is known.
        frames: exact tangent bases ``(n, D, d)``, if they are known.
        faces: triangles ``(f, 3)`` between the points, if there are any.
        up: the axis that figures show as up.
    """

    points: np.ndarray
    names: tuple[str, ...]
    dim: int | None = None
    manifold: Manifold | None = None
    frames: np.ndarray | None = None
    faces: np.ndarray | None = None
    up: str = "z"

    @property
    @abstractmethod
    def coordinates(self) -> np.ndarray:
        """The numbers ``(n, len(names))`` that people give for each point."""

    @property
    @abstractmethod
    def attributes(self) -> tuple[dict[str, str], ...]:
        """CF attributes of each coordinate in datasets."""

    @property
    @abstractmethod
    def vector_names(self) -> tuple[str, ...]:
        """Names of the components of vectors, for data that bring none."""

    @abstractmethod
    def bundle(self, dim: int | None = None, **scale: Any) -> TangentBundle:
        """The tangent bundle; ``scale`` are options such as ``neighbors``. A known dimension stays
        as it is."""

    @abstractmethod
    def select(self, rows: np.ndarray) -> Space:
        """The space of chosen points."""

    @abstractmethod
    def to_ambient(self, components: np.ndarray) -> np.ndarray:
        """Components ``(T, n, c)`` as people give them to ambient vectors ``(T, n, D)``."""

    @abstractmethod
    def to_components(self, vectors: np.ndarray) -> np.ndarray:
        """Ambient vectors ``(T, n, D)`` to components ``(T, n, c)``."""

    @abstractmethod
    def std_of_components(self, covariances: np.ndarray) -> np.ndarray:
        """Standard deviations ``(n, c)`` of the components, from ambient covariances
        ``(n, D, D)``."""

    @property
    def places(self) -> np.ndarray:
        """The points ``(n, D)`` as numbers that are equal where two points are at one place."""
        return self.points

    @property
    def units(self) -> tuple[str, ...]:
        """Of the coordinates; "" where they have none."""
        return tuple(attributes.get("units", "") for attributes in self.attributes)

    def __len__(self) -> int:
        return len(self.points)


class AmbientSpace(Space):
    """A space whose points and vectors are given by their components in the ambient space."""

    @property
    def coordinates(self) -> np.ndarray:
        return self.points

    @property
    def attributes(self) -> tuple[dict[str, str], ...]:
        return ({},) * len(self.names)

    @property
    def vector_names(self) -> tuple[str, ...]:
        return tuple(f"v{name}" for name in self.names)

    def to_ambient(self, components: np.ndarray) -> np.ndarray:
        return components

    def to_components(self, vectors: np.ndarray) -> np.ndarray:
        return vectors

    def std_of_components(self, covariances: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(np.einsum("nii->ni", covariances), 0.0))


class Cloud(AmbientSpace):
    """Bare points ``(n, D)``: tangent spaces and dimension are estimated.

    >>> cloud = Cloud(np.eye(3), ("x", "y", "z"))
    >>> len(cloud), cloud.dim, cloud.vector_names
    (3, None, ('vx', 'vy', 'vz'))
    """

    def __init__(self, points: np.ndarray, names: tuple[str, ...]) -> None:
        self.points = points
        self.names = names

    def bundle(self, dim: int | None = None, **scale: Any) -> TangentBundle:
        from .bundle import TangentBundle

        return TangentBundle.from_points(self.points, dim=dim, **scale)

    def select(self, rows: np.ndarray) -> Cloud:
        return Cloud(self.points[rows], self.names)

    def __str__(self) -> str:
        return f"{len(self)} points in R^{self.points.shape[1]}"


class Mesh(AmbientSpace):
    """A triangle mesh in space with ``points`` (n, 3) and ``faces`` (f, 3): its triangles give the
    tangent planes.

    ``bundle()`` is that of the surface; with ``neighbors`` or ``eps``, that of the vertices as a
    cloud of points, whose tangent planes are estimated: the triangles are not used, and need not
    form a surface.
    """

    dim = 2
    names = ("x", "y", "z")
    faces: np.ndarray

    def __init__(self, points: np.ndarray, faces: np.ndarray) -> None:
        self.points = points
        self.faces = faces
        self.up = upright_axis(points)

    @property
    def vertices(self) -> Cloud:
        """The vertices without triangles."""
        return Cloud(self.points, self.names)

    def bundle(self, dim: int | None = None, **scale: Any) -> TangentBundle:
        from .bundle import TangentBundle

        if scale:
            return self.vertices.bundle(self.dim, **scale)
        remedy = Remedy("Clean the mesh, or use its vertices only: {neighbors}.", neighbors=20)
        try:
            return TangentBundle.from_mesh(self.points, self.faces)
        except NotManifoldError as error:
            raise NotManifoldError(error.problem, remedy).at_edges(error.edges) from error
        except RankDeficientError as error:
            raise RankDeficientError(error.problem, remedy) from error

    def select(self, rows: np.ndarray) -> Cloud:
        """The chosen vertices, without triangles."""
        return self.vertices.select(rows)

    def __str__(self) -> str:
        return f"a mesh of {len(self)} vertices and {len(self.faces)} triangles"


class OnManifold(AmbientSpace):
    """Points ``(n, D)`` of a known manifold, with its exact tangent bases; vectors have ambient
    components.

    >>> from tangentbundle.manifolds import Sphere
    >>> sphere = Sphere(2)
    >>> space = OnManifold(sphere, sphere.sample(50, seed=0), ("x", "y", "z"))
    >>> space.dim, space.frames.shape
    (2, (50, 3, 2))
    """

    def __init__(self, manifold: Manifold, points: np.ndarray, names: tuple[str, ...]) -> None:
        self.points = points
        self.names = names
        self.manifold = manifold
        self.dim = manifold.dim
        self.frames = manifold.frames(points)

    def bundle(self, dim: int | None = None, **scale: Any) -> TangentBundle:
        from .bundle import TangentBundle

        assert self.frames is not None
        return TangentBundle.from_frames(self.points, self.frames, **scale)

    def select(self, rows: np.ndarray) -> OnManifold:
        assert self.manifold is not None
        return OnManifold(self.manifold, self.points[rows], self.names)

    def __str__(self) -> str:
        return f"{len(self)} points of {self.manifold}"


class Globe(Space):
    """Latitudes and longitudes ``(n,)`` in degrees, as points of the unit sphere; vectors have the
    components east and north.

    >>> globe = Globe(np.array([0.0, 60.0]), np.array([90.0, 0.0]))
    >>> globe.points.round(3).tolist(), globe.units
    ([[0.0, 1.0, 0.0], [0.5, 0.0, 0.866]], ('degrees_north', 'degrees_east'))
    >>> globe.to_ambient(np.array([[[1.0, 0.0], [0.0, 2.0]]])).round(3).tolist()
    [[[-1.0, 0.0, 0.0], [-1.732, 0.0, 1.0]]]
    """

    dim = 2
    frames: np.ndarray

    def __init__(
        self, lat: np.ndarray, lon: np.ndarray, names: tuple[str, ...] = ("lat", "lon")
    ) -> None:
        from .geometry.known_frames import latlon_frames
        from .manifolds import Sphere

        self.lat = lat
        self.lon = lon
        self.names = names
        self.points, self.frames, _ = latlon_frames(lat, lon)
        self.manifold = Sphere(2)

    @property
    def coordinates(self) -> np.ndarray:
        return np.stack([self.lat, self.lon], axis=1)

    @property
    def places(self) -> np.ndarray:
        """Rounded: the same place may have several longitudes."""
        return np.round(self.points, DEGREE_DIGITS)

    @property
    def attributes(self) -> tuple[dict[str, str], ...]:
        return (
            {"standard_name": "latitude", "units": "degrees_north"},
            {"standard_name": "longitude", "units": "degrees_east"},
        )

    @property
    def vector_names(self) -> tuple[str, ...]:
        return ("u", "v")

    def bundle(self, dim: int | None = None, **scale: Any) -> TangentBundle:
        from .bundle import TangentBundle

        return TangentBundle.from_latlon(self.lat, self.lon, **scale)

    def select(self, rows: np.ndarray) -> Globe:
        return Globe(self.lat[rows], self.lon[rows], self.names)

    def to_ambient(self, components: np.ndarray) -> np.ndarray:
        return np.einsum("nda,tna->tnd", self.frames, components)

    def to_components(self, vectors: np.ndarray) -> np.ndarray:
        return np.einsum("nda,tnd->tna", self.frames, vectors)

    def std_of_components(self, covariances: np.ndarray) -> np.ndarray:
        variances = np.einsum("nda,ndf,nfa->na", self.frames, covariances, self.frames)
        return np.sqrt(np.maximum(variances, 0.0))

    def __str__(self) -> str:
        return f"{len(self)} points on the globe"
