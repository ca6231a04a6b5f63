"""Data: wind on the Earth, and the paper's synthetic fields and clouds. See docs/data.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .arrays import positive, positive_integer
from .download import fetch
from .earth.sources import fetch_ncep, load_wind, wind_folder
from .earth.wind import WindData
from .errors import InvalidInputError
from .manifolds import KleinBottle, Torus
from .manifolds.surfaces import _grid
from .timeline import Timeline, Windows, regular

__all__ = [
    "FieldSample",
    "Timeline",
    "WindData",
    "Windows",
    "fetch",
    "fetch_ncep",
    "load_wind",
    "regular",
    "torus_field",
    "torus_klein_clouds",
    "wind_folder",
]

Seed = int | np.random.Generator | None
TorusField = Callable[[Torus, np.ndarray], np.ndarray]
"""Ambient vectors ``(n, 3)`` at points ``(n, 3)`` of a torus."""


@dataclass(frozen=True, eq=False)
class FieldSample:
    """Points ``(n, 3)``, exact frames ``(n, 3, 2)`` and ambient vectors ``(n, 3)``."""

    points: np.ndarray
    frames: np.ndarray
    vectors: np.ndarray

    def noisy(self, tau: float, seed: Seed = None) -> FieldSample:
        """The same with white Gaussian noise of standard deviation tau in each of the three ambient
        directions."""
        rng = np.random.default_rng(seed)
        noise = positive(tau, "tau") * rng.standard_normal(self.vectors.shape)
        return replace(self, vectors=self.vectors + noise)


def torus_field(
    n: float, field: TorusField = Torus.paper_field, *, seed: Seed = None
) -> FieldSample:
    r"""The paper's denoising data: a field at random points of a torus with radii b = 0.3 and a =
    0.1,

    .. math:: ((b + a \cos\theta) \cos\phi,\; (b + a \cos\theta) \sin\phi,\; a \sin\theta)

    (the paper prints r for the last a). Points are uniform by area, and n is their *expected*
    number: it is binomial.

    Args:
        field: ``Torus.paper_field``, (-sin theta, cos theta, 0) as printed, of which a quarter of
            the energy is normal; ``Torus.tangent_field``, (-sin phi, cos phi, 0); or any function
            of torus and points.

    >>> sample = torus_field(400, Torus.tangent_field, seed=0)
    >>> sample.points.shape, sample.frames.shape, sample.vectors.shape
    ((425, 3), (425, 3, 2), (425, 3))
    >>> bool(
    ...     np.allclose(
    ...         np.einsum("nda,nea,ne->nd", sample.frames, sample.frames, sample.vectors),
    ...         sample.vectors,
    ...     )
    ... )
    True
    """
    rng = np.random.default_rng(seed)
    torus = Torus()
    points = torus.sample(int(_counts(n, 1, rng)[0]), rng)
    return FieldSample(points, torus.frames(points), field(torus, points))


def torus_klein_clouds(
    count: int = 2000, points: float = 100, seed: Seed = None, *, stretch: bool = False
) -> tuple[list[np.ndarray], np.ndarray]:
    """The paper's classification data: clouds of a torus or an immersed Klein bottle, by the toss
    of a fair coin.

    Points are uniform by area, and then each *surface*, not each cloud, is centred and scaled into
    the unit cube. ``points`` is their expected number in a cloud. The paper adds no noise. It
    prints no radii, and does not say which immersion it means: here these are ``Torus()`` and
    ``KleinBottle(3)``.

    Args:
        stretch: scale each axis on its own, so that the surface fills the unit cube, instead of all
            by the longest side. The paper does not say which.

    Returns: clouds ``(n_i, 3)``, and labels ``(count,)``, 0 for a torus and 1 for a Klein bottle.

    >>> clouds, labels = torus_klein_clouds(20, points=100, seed=0)
    >>> len(clouds), int(labels.sum()), clouds[0].shape
    (20, 14, (110, 3))
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, positive_integer(count, "count"))
    counts = _counts(points, len(labels), rng)
    clouds: list[np.ndarray] = []
    for label, surface in enumerate((Torus(), KleinBottle(3))):
        sizes = counts[labels == label]
        if not len(sizes):
            continue
        grid = np.stack(surface._point(*_grid(360).T), axis=1)
        middle = (grid.min(axis=0) + grid.max(axis=0)) / 2
        sides = np.ptp(grid, axis=0)
        if not stretch:
            sides = sides.max()
        scaled = (surface.sample(int(sizes.sum()), rng) - middle) / sides
        clouds += np.split(scaled, np.cumsum(sizes)[:-1])
    by_label = np.argsort(labels, kind="stable")
    return [clouds[place] for place in np.argsort(by_label)], labels


def _counts(n: float, size: int, rng: np.random.Generator, population: int = 10_000) -> np.ndarray:
    """Binomial counts with mean n, at least one each: every point of a population is drawn with
    equal probability."""
    if positive(n, "the expected number of points") < 1:
        raise InvalidInputError(f"the expected number of points must be at least 1, got {n!r}.")
    population = max(population, 10 * int(np.ceil(n)))
    return np.maximum(rng.binomial(population, n / population, size), 1)
