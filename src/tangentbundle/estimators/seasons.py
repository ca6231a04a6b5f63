r"""Changes of season: what is left of the mean of past fields in a season that they do not tell of, and how it differs.

The best linear guess of one thing from another is a part of it. Around an axis the parts differ. With z the mean of m
over each circle of latitude and M its mirror image at the equator,

.. math:: m = \underbrace{\tfrac12 (z + M z)}_{\text{of the year}} + \underbrace{\tfrac12 (z - M z)}_{\text{of the
          season}} + \underbrace{(m - z)}_{\text{waves}} .

Half a year later the two sides of the equator have changed places, so the first part stays and the second may turn
round. The third, of land and sea, partly does. What cannot be expected is a covariance: multiples of the past mean,
flows around the axis and along it, and eddies.

Numbers of changes around an axis are near those of a planet where they are best known: surface wind of the Earth,
months a season apart in the eleven years inside the package (``python -m benchmarks.seasons`` prints them). Drifts and
eddies are taken smaller than there, where they have no weather beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import cdist

from .covariance import QUARTER, Covariance, Rotational, Sites, distances, matern, multiples, squares
from .zonal import Axis, Bands, Meridional, Zonal

KEPT = 0.7
"""Share of the past mean that is expected in another season where no axis is known."""

LEFT = 1.0, 0.65, 0.5
"""The same around an axis, of each part: of the year, of the season, of waves."""

WIDTH, CELLS = 0.05, 4
"""Width of circles of latitude in units of the points' distance from the middle, and cells in it."""

TINY = 1e-6
"""Of the weight of a circle of latitude: with less nothing is known of it."""


def faded(
    mean: np.ndarray,
    points: np.ndarray,
    frames: np.ndarray,
    weights: np.ndarray,
    axis: Axis,
    left: tuple[float, float, float] = LEFT,
) -> np.ndarray:
    """What is expected of the past mean ``(m, D)`` at points of a surface around an axis in another season.

    Circles of latitude are those of equal height along the axis and distance from it, so that a torus has two at most
    heights. Where nothing is known of the mirror image both parts of z are half of it.

    Args:
        frames: tangent bases ``(m, D, d)``, all of one orientation.
        weights: ``(m,)``, of each point in means along the circles.
        left: shares of the parts.

    >>> import tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> points = sphere.sample(4000, seed=0)
    >>> around, frames, one = np.cross([0, 0, 1.0], points), sphere.frames(points), np.ones(4000)
    >>> rms = lambda x: float(np.sqrt(np.square(x).sum(axis=1).mean()))
    >>> summer, change = around * points[:, 2:], faded(around, points, frames, one, sphere.axis) - around
    >>> rms(change) < 0.02 * rms(around)
    True
    >>> rms(faded(summer, points, frames, one, sphere.axis) - LEFT[1] * summer) < 0.05 * rms(summer)
    True
    """
    unit = np.asarray(axis) / np.linalg.norm(axis)
    along = np.einsum("nia,i->na", frames, unit)
    fields = np.stack([along @ QUARTER.numpy(), along])  # around the axis and along it (2, m, d)
    height = points @ unit
    place = np.stack([height, np.linalg.norm(points - height[:, None] * unit, axis=1)], axis=1)
    width = WIDTH / CELLS * np.sqrt(np.square(points).sum(axis=1).mean())
    cells, cell = np.unique(np.round(place / width), axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    own = np.einsum("nia,ni->na", frames, mean)
    products = (fields * own).sum(axis=2), np.square(fields).sum(axis=2)
    sums = [np.stack([np.bincount(cell, weights * row, len(cells)) for row in rows]) for rows in products]

    def profile(places: np.ndarray) -> np.ndarray:
        """Multiples ``(2, c)`` of both fields around places in units of cells; none where there are no points."""
        near = np.exp(-0.5 * cdist(places, cells, "sqeuclidean") / CELLS**2)
        told, size = (total @ near.T for total in sums)
        return told / (size + TINY * size.max())

    here, there = profile(cells), profile(cells * [-1, 1]) * [[1.0], [-1.0]]
    year, season, waves = left
    kept = (year - waves) * (here + there) / 2 + (season - waves) * (here - there) / 2
    return waves * mean + np.einsum("nia,kn,kna->ni", frames, kept[:, cell], fields)


@dataclass(frozen=True)
class Seasonal(Covariance):
    r"""The past mean times a slowly varying factor: :math:`k(x_i, x_j)\, \mu_i \mu_j^T`, k Matern 3/2."""

    names = ("amplitude", "length")
    start = (-1.15, -0.3)
    seasonal = True

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        assert a.mean is not None and b.mean is not None
        k = torch.exp(2 * theta[0]) * matern(distances(a, b) * torch.exp(-theta[1]), 1.5)
        return multiples(k, a.mean, b.mean)

    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        assert a.mean is not None
        return torch.exp(2 * theta[0]) * squares(a.mean)


@dataclass(frozen=True)
class SeasonalBands(Bands):
    """The past mean times a factor that is alike along circles of latitude."""

    start = (-1.15, -1.6, 1.6)
    seasonal = True

    def field(self, a: Sites) -> torch.Tensor:
        assert a.mean is not None
        return a.mean


@dataclass(frozen=True)
class DriftAround(Zonal):
    """A change of the field around an axis."""

    start = (-1.25, -1.7, 3.0)
    seasonal = True


@dataclass(frozen=True)
class DriftAlong(Meridional):
    """A change of the field along an axis."""

    start = (-1.9, -1.2, 3.0)
    seasonal = True


@dataclass(frozen=True)
class Eddies(Rotational):
    """A change of the field without divergence, anywhere."""

    start = (-1.3, -1.15)
    seasonal = True


def change(axis: Axis | None = None) -> Covariance:
    """How the mean of another season differs from what is expected of it.

    >>> change().names, [type(term).__name__ for term in change((0, 0, 1)).terms]
    (('amplitude', 'length'), ['SeasonalBands', 'DriftAround', 'DriftAlong', 'Eddies'])
    """
    return Seasonal() if axis is None else SeasonalBands(axis) + DriftAround(axis) + DriftAlong(axis) + Eddies()
