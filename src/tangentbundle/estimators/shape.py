"""Geometric features of clouds of points: spectra, holonomy and curvature. None depends on the choice of frames."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch

from ..arrays import positive_integer
from ..bundle import TangentBundle
from ..diagnostics import confident_edges, orientability
from ..errors import DisconnectedWarning, GlobalNeighborhoodWarning, IsolatedPointsError, TooFewPointsError
from ..geometry.scale import target_neighbors
from ..operators import ConnectionLaplacian


class CloudBundle:
    """The bundle of a cloud, and its Laplacians on fields and on functions."""

    def __init__(self, bundle: TangentBundle) -> None:
        self.bundle, self.fields, self.functions = bundle, bundle.laplacian(), bundle.scalar().laplacian()

    @classmethod
    def from_points(cls, points: np.ndarray, dim: int, neighbors: int | None = None) -> CloudBundle:
        """The cloud centred and scaled to root mean square radius one; more neighbours if a point would have none."""
        centred = points - points.mean(axis=0)
        radius = np.sqrt(np.square(centred).sum(axis=1).mean())
        if not radius > 1e-12 * np.abs(points).max(initial=0.0):
            raise TooFewPointsError(f"all {len(points)} points coincide; there is no manifold to describe.")
        count = min(neighbors or target_neighbors(len(points), dim), len(points) - 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisconnectedWarning)
            warnings.simplefilter("ignore", GlobalNeighborhoodWarning)
            while True:
                try:
                    return cls(TangentBundle.from_points(centred / radius, dim=dim, neighbors=count))
                except IsolatedPointsError:
                    if count == len(points) - 1:
                        raise
                    count = min(2 * count, len(points) - 1)

    def curvature(self) -> np.ndarray:
        """The share of the variance of every neighbourhood that lies off its tangent space, ``(n,)``."""
        pca = self.bundle.pca
        return np.zeros(self.bundle.num_points) if pca is None else self.bundle._unsorted(pca.residual(self.bundle.dim))

    def signal(self) -> np.ndarray:
        r"""Input fields ``(n, d, 3)``: tangential parts of x, :math:`|x|^2 x` and :math:`10 c\, x`, c the curvature."""
        points = np.asarray(self.bundle.points)
        lengths = np.square(points).sum(axis=1)
        weights = np.stack([np.ones_like(lengths), lengths, 10 * self.curvature()], axis=-1)
        return self.bundle.to_coordinates(points[:, :, None] * weights[:, None, :])


class CloudFeature(ABC):
    """Numbers that describe a cloud, always equally many, for ``ManifoldClassifier(geometry=...)``.

    They must not depend on frames, on the order of points, or on rotations.
    """

    @abstractmethod
    def __call__(self, cloud: CloudBundle) -> list[float]: ...


@dataclass(frozen=True)
class LowSpectrum(CloudFeature):
    r"""The lowest ``count`` eigenvalues of :math:`-\Delta` on fields, and as many on functions without the constant."""

    count: int = 8

    def __call__(self, cloud: CloudBundle) -> list[float]:
        count = positive_integer(self.count, "count")
        return [*_lowest(cloud.fields, count), *_lowest(cloud.functions, count + 1)[1:]]


def _lowest(laplacian: ConnectionLaplacian, count: int) -> np.ndarray:
    """The lowest eigenvalues; a cloud with fewer repeats its last."""
    size = laplacian.shape[0]
    values = laplacian.eigenbasis[0] if size <= 2_000 else laplacian.spectrum(min(count, size))[0]  # filters need it
    values = torch.as_tensor(values).double().numpy()[:count]
    return np.pad(np.maximum(values, 0.0), (0, count - len(values)), mode="edge")


@dataclass(frozen=True)
class Holonomy(CloudFeature):
    """How far frames can be made to agree: four numbers.

    Whether the space is orientable, the share of edges that contradict the best orientation, the share of edges whose
    planes face each other, and the share of triangles of these that reverse the orientation.
    """

    def __call__(self, cloud: CloudBundle) -> list[float]:
        edges = confident_edges(cloud.bundle)
        if edges.num_edges == 0:
            return [0.0, 0.0, 0.0, 0.0]
        orientable, _, frustration = orientability(cloud.bundle)
        signs = edges.to_scipy()
        signs.data = np.sign(signs.data)
        around, count = (float((a @ a).multiply(a).sum()) for a in (signs, abs(signs)))
        reversed_share = 0.5 * (1.0 - around / count) if count else 0.0
        return [float(orientable), frustration, edges.num_edges / cloud.bundle.sorted_graph.num_edges, reversed_share]


@dataclass(frozen=True)
class Neighborhoods(CloudFeature):
    """Six numbers: radius, relative spread of degrees, and mean, deviation, median and maximum of the curvature."""

    def __call__(self, cloud: CloudBundle) -> list[float]:
        degrees, curvature = cloud.bundle.sorted_graph.degrees, cloud.curvature()
        shares = [float(f(curvature)) for f in (np.mean, np.std, np.median, np.max)]
        return [cloud.bundle.eps**0.5, float(degrees.std() / degrees.mean()), *shares]
