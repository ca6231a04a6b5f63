r"""Numbers that describe a bundle as a whole and depend on no frames: what tells one manifold from another.

Clouds are brought to root mean square radius one first, so that size tells nothing.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..arrays import whole
from ..bundle import TangentBundle
from ..diagnostics import confident_edges, orientability
from ..errors import DisconnectedWarning, GlobalNeighborhoodWarning, IsolatedPointsError, TooFewPointsError
from ..geometry.scale import target_neighbors
from ..operators import ConnectionLaplacian

SMALL = 2_000
"""Up to this many rows (n d) the whole spectrum is computed, which filters need in any case."""

FIELDS = 3
"""Fields that are given to the network."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A cloud at root mean square radius one: its bundle, and the Laplacians on fields and on functions."""

    bundle: TangentBundle
    fields: ConnectionLaplacian
    functions: ConnectionLaplacian

    @classmethod
    def of(cls, bundle: TangentBundle) -> Shape:
        return cls(bundle, bundle.laplacian(), bundle.scalar().laplacian())

    def signal(self) -> np.ndarray:
        r"""Fields ``(n, d, 3)`` that turn along with the cloud: tangential parts of x, :math:`|x|^2 x` and :math:`c x`.

        c is ten times the share of the neighbourhood's variance off the tangent space, a measure of curvature.
        """
        points, pca = np.asarray(self.bundle.points), self.bundle.pca
        lengths = np.square(points).sum(axis=1)
        off = 0 * lengths if pca is None else self.bundle._unsorted(pca.residual(self.bundle.dim))
        weights = np.stack([np.ones_like(lengths), lengths, 10 * off], axis=-1)
        return self.bundle.to_coordinates(points[:, :, None] * weights[:, None, :])


def unit_cloud(points: np.ndarray) -> np.ndarray:
    """Centred at the mean, at root mean square radius one."""
    centred = points - points.mean(axis=0)
    radius = np.sqrt(np.square(centred).sum(axis=1).mean())
    if not radius > 1e-12 * np.abs(points).max(initial=0.0):
        raise TooFewPointsError(f"all {len(points)} points coincide; there is no manifold to describe.")
    return centred / radius


def local_bundle(points: np.ndarray, dim: int, neighbors: int | None = None) -> TangentBundle:
    """The bundle at a scale that follows from distances alone; wider where a point would have no neighbour."""
    count = min(neighbors or target_neighbors(len(points), dim), len(points) - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedWarning)
        warnings.simplefilter("ignore", GlobalNeighborhoodWarning)
        while True:
            try:
                return TangentBundle.from_points(points, dim=dim, neighbors=count)
            except IsolatedPointsError:
                if count == len(points) - 1:
                    raise
                count = min(2 * count, len(points) - 1)


class Geometry(ABC):
    """Some numbers of a shape, always equally many."""

    @abstractmethod
    def __call__(self, shape: Shape) -> Sequence[float]:
        """The numbers, independent of frames, of the order of points and of rotations."""


@dataclass(frozen=True)
class LowSpectrum(Geometry):
    r"""The lowest eigenvalues of :math:`-\Delta` on fields and on functions, ``2 count`` of them.

    A parallel field (flat torus) shows as a zero, the length of the longest closed way as the first on functions.
    """

    count: int = 8

    def __call__(self, shape: Shape) -> Sequence[float]:
        count = whole(self.count, "count")
        functions = _lowest(shape.functions, count + 1)[1:]  # constants are harmonic on every cloud
        return np.concatenate([_lowest(shape.fields, count), functions]).tolist()


def _lowest(laplacian: ConnectionLaplacian, count: int) -> np.ndarray:
    """The lowest eigenvalues; a cloud with fewer repeats its last."""
    size = laplacian.shape[0]
    have = min(count, size)
    values = laplacian.eigenbasis[0] if size <= SMALL else laplacian.spectrum(have)[0]
    values = torch.as_tensor(values).double().numpy()[:have]
    return np.pad(np.maximum(values, 0.0), (0, count - have), mode="edge")


@dataclass(frozen=True)
class Holonomy(Geometry):
    """How far frames can be made to agree.

    Four numbers: whether the space seems orientable, the share of edges no flipping of frames mends, the share of edges
    whose planes face each other, and the share of triangles among those around which orientation is reversed.
    """

    def __call__(self, shape: Shape) -> Sequence[float]:
        edges = confident_edges(shape.bundle)
        total = shape.bundle.sorted_graph.num_edges
        if edges.num_edges == 0:
            return [0.0, 0.0, 0.0, 0.0]
        orientable, _, frustration = orientability(shape.bundle)
        signs = edges.to_scipy()
        signs.data = np.sign(signs.data)
        around, count = (float((a @ a).multiply(a).sum()) for a in (signs, abs(signs)))
        reversed_share = 0.5 * (1.0 - around / count) if count else 0.0
        return [float(orientable), frustration, edges.num_edges / total, reversed_share]


@dataclass(frozen=True)
class Neighborhoods(Geometry):
    """Scale, spread of degrees, and curvature: what share of a neighbourhood lies off its tangent space.

    Six numbers: the radius of the balls, the degrees' standard deviation relative to their mean, and the mean, standard
    deviation, median and greatest of the shares.
    """

    def __call__(self, shape: Shape) -> Sequence[float]:
        bundle = shape.bundle
        degrees = bundle.sorted_graph.degrees
        off = np.zeros(1) if bundle.pca is None else bundle.pca.residual(bundle.dim)
        shares = [float(f(off)) for f in (np.mean, np.std, np.median, np.max)]
        return [bundle.eps**0.5, float(degrees.std() / degrees.mean()), *shares]
