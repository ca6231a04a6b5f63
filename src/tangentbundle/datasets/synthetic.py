"""The paper's synthetic data: a field on a torus, and clouds of tori and Klein bottles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..arrays import generator, positive, whole
from ..errors import InvalidInputError
from ..manifolds import ClassicalKleinBottle, KleinBottle, Torus
from ..manifolds.surfaces import _grid

POPULATION = 10_000
"""Points of which each is kept with probability n / POPULATION, so that n is the expected count."""

Seed = int | np.random.Generator | None


class TorusField(Protocol):
    """Ambient vectors ``(n, 3)`` at points ``(n, 3)`` of a torus."""

    def __call__(self, torus: Torus, points: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class PaperField:
    """(-sin theta, cos theta, 0), theta around the tube, as printed: a quarter of its energy is normal."""

    def __call__(self, torus: Torus, points: np.ndarray) -> np.ndarray:
        return torus.paper_field(points)


@dataclass(frozen=True)
class TangentField:
    """(-sin phi, cos phi, 0), phi around the axis: the tangent field that the paper means."""

    def __call__(self, torus: Torus, points: np.ndarray) -> np.ndarray:
        return torus.tangent_field(points)


@dataclass(frozen=True, eq=False)
class FieldSample:
    """Points ``(n, 3)``, exact frames ``(n, 3, 2)`` and ambient vectors ``(n, 3)``."""

    points: np.ndarray
    frames: np.ndarray
    vectors: np.ndarray

    def noisy(self, tau: float, seed: Seed = None) -> FieldSample:
        """The same with white Gaussian noise of standard deviation tau in each of the three ambient directions."""
        noise = positive(tau, "tau") * generator(seed).standard_normal(self.vectors.shape)
        return replace(self, vectors=self.vectors + noise)


def torus_field(
    n: float, field: TorusField | None = None, *, seed: Seed = None, torus: Torus | None = None
) -> FieldSample:
    r"""The paper's denoising data: a field at random points of a torus with radii b = 0.3 and a = 0.1,

    .. math:: ((b + a \cos\theta) \cos\phi,\; (b + a \cos\theta) \sin\phi,\; a \sin\theta)

    (the paper prints r for the last a). Points are uniform by area, and n is their *expected* number: it is binomial.

    Args:
        field: ``PaperField()`` (default), ``TangentField()``, or any function of torus and points.

    >>> sample = torus_field(400, TangentField(), seed=0)
    >>> sample.points.shape, sample.frames.shape, sample.vectors.shape
    ((425, 3), (425, 3, 2), (425, 3))
    >>> bool(np.allclose(np.einsum("nda,nea,ne->nd", sample.frames, sample.frames, sample.vectors), sample.vectors))
    True
    """
    rng, torus = generator(seed), torus or Torus()
    points = torus.sample(int(_counts(n, 1, rng)[0]), rng)
    return FieldSample(points, torus.frames(points), (field or PaperField())(torus, points))


@dataclass(frozen=True, eq=False)
class Clouds:
    """Clouds of points ``(n_i, 3)`` with exact frames ``(n_i, 3, 2)``; label 0 is a torus, 1 a Klein bottle."""

    points: list[np.ndarray]
    frames: list[np.ndarray]
    labels: np.ndarray

    names = ("torus", "Klein bottle")

    def __len__(self) -> int:
        return len(self.points)

    def vectors(self, i: int) -> np.ndarray:
        """The uninformative field of cloud i: (1, 1, 1) at each point, ``(n_i, 3)``; project it by the frames used."""
        return np.ones_like(self.points[i])

    def split(self, share: float = 0.8, seed: Seed = None) -> tuple[Clouds, Clouds]:
        """Random training and test sets; ``share`` of the clouds are for training."""
        if not 0 < share < 1:
            raise InvalidInputError(f"share must lie between 0 and 1, got {share!r}.")
        order = generator(seed).permutation(len(self))
        cut = round(share * len(self))
        return self._take(order[:cut]), self._take(order[cut:])

    def _take(self, numbers: np.ndarray) -> Clouds:
        return Clouds([self.points[i] for i in numbers], [self.frames[i] for i in numbers], self.labels[numbers])


@dataclass(frozen=True)
class LongestSide:
    """Divide all axes by the longest of the sides ``(3,)`` of a box: it fits the unit cube in its proportions."""

    def __call__(self, sides: np.ndarray) -> np.ndarray:
        return np.full_like(sides, sides.max())


@dataclass(frozen=True)
class EachAxis:
    """Divide each axis by its own side: the box becomes the unit cube, and the surface in it is stretched."""

    def __call__(self, sides: np.ndarray) -> np.ndarray:
        return sides


def torus_klein_clouds(
    count: int = 2000,
    points: float = 100,
    seed: Seed = None,
    *,
    torus: Torus | None = None,
    klein: KleinBottle | ClassicalKleinBottle | None = None,
    cube: LongestSide | EachAxis | None = None,
) -> Clouds:
    """The paper's classification data: clouds of a torus or an immersed Klein bottle, by the toss of a fair coin.

    Points are uniform by area, and then each *surface*, not each cloud, is centred and scaled into the unit cube.
    ``points`` is their expected number in a cloud. The paper adds no noise.

    Args:
        torus, klein: the surfaces, default ``Torus()`` and ``KleinBottle(3)``. The paper prints no radii, and does not
            say which immersion it means: see also ``ClassicalKleinBottle()``.
        cube: how surfaces are scaled, which the paper does not say: ``LongestSide()`` (default) or ``EachAxis()``.

    >>> clouds = torus_klein_clouds(20, points=100, seed=0)
    >>> len(clouds), int(clouds.labels.sum()), clouds.points[0].shape
    (20, 14, (110, 3))
    """
    rng = generator(seed)
    surfaces = (torus or Torus(), klein or KleinBottle(3))
    if surfaces[1].ambient_dim != 3:
        raise InvalidInputError("expected a Klein bottle immersed in R^3, got one in R^4. Use KleinBottle(3).")
    labels = rng.integers(0, 2, whole(count, "count"))
    counts = _counts(points, len(labels), rng)
    cloud: list[np.ndarray] = [np.empty(0)] * len(labels)
    frames = list(cloud)
    for label, surface in enumerate(surfaces):
        mine = np.flatnonzero(labels == label)
        if not len(mine):
            continue
        all_points, params = surface.sample_with_parameters(int(counts[mine].sum()), rng)
        cuts = np.cumsum(counts[mine])[:-1]
        box = np.stack(surface._point(*_grid(360).T), axis=1)
        unit = (cube or LongestSide())(np.ptp(box, axis=0))
        scaled = (all_points - (box.min(axis=0) + box.max(axis=0)) / 2) / unit
        bases, _ = np.linalg.qr(surface.frames(all_points, params) / unit[:, None])
        for i, p, f in zip(mine, np.split(scaled, cuts), np.split(bases, cuts), strict=True):
            cloud[i], frames[i] = p, f
    return Clouds(cloud, frames, labels)


def _counts(n: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """Binomial counts with mean n; at least one point each."""
    if positive(n, "the expected number of points") < 1:
        raise InvalidInputError(f"the expected number of points must be at least 1, got {n!r}.")
    population = max(POPULATION, 10 * int(np.ceil(n)))
    return np.maximum(rng.binomial(population, n / population, size), 1)
