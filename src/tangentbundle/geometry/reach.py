r"""The reach of a manifold: how far neighbourhoods may extend before they bend or touch another
sheet.

A ball of more points has a more even medium, and bends more. ``Reach`` compares balls of several
numbers of neighbours at sampled points and says which has the least expected error, and whether
the points are dense enough for the shape at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import AccuracyWarning, warn
from .balls import Balls, Neighborhoods
from .cloud import PointCloud
from .sampled_neighbors import SampledNeighbors

RADIUS_STEP = 1.2
"""Ratio of the consecutive radii that are compared when the automatic scale is chosen."""

PERPENDICULAR = 2**0.5
r"""Radius times curvature at which tangent spaces at both ends of the radius are perpendicular: the
chord of a right angle. There is no transport between them."""

MAX_CHORD_NUMBERS = 2**23
"""Coordinates of chords that are compared at once."""

MIN_WARNED_POINTS = 500
"""In smaller clouds curvature is coarse on most shapes, and no warning is given."""

MAX_UNRESOLVED_SHARE = 0.1
"""Share of points beyond ``PERPENDICULAR`` at the automatic scale above which a cloud counts as too
sparse."""


def least_neighbors(n: int, d: int) -> int:
    """Fewest neighbours an automatic scale goes down to."""
    return min(4 * (d + 1), n - 1)


def candidate_neighbors(largest: int, n: int, d: int) -> np.ndarray:
    """Numbers of neighbours that are compared, ascending: their radii grow by ``RADIUS_STEP``.

    >>> candidate_neighbors(82, 5000, 2).tolist()
    [12, 18, 26, 38, 56, 82]
    """
    counts = [largest]
    smallest = min(least_neighbors(n, d), largest)
    while counts[-1] > smallest:
        fewer = min(counts[-1] - 1, int(counts[-1] / RADIUS_STEP**d))
        counts.append(max(smallest, fewer))
    return np.array(counts[::-1])


def relative_errors(bends: np.ndarray, dim: int) -> np.ndarray:
    r"""Relative error that bending causes at points, from radius times curvature :math:`\kappa r`;
    NaN stays.

    A chord is shorter than the arc along it. At an angle :math:`\theta` to the direction that is
    bent, :math:`r^2 = s^2 (1 - \kappa^2 s^2 \cos^4\theta / 12)`, and the mean of
    :math:`\cos^4\theta` in d dimensions is :math:`3 / (d (d + 2))`. Beyond ``PERPENDICULAR``
    nothing is right any more, and the error is one.

    >>> relative_errors(np.array([0.6, 2.0]), dim=1).round(3).tolist()
    [0.03, 1.0]
    """
    return np.where(bends > PERPENDICULAR, 1.0, bends**2 / (4 * dim * (dim + 2)))


@dataclass(frozen=True)
class Reach:
    r"""How far neighbourhoods may extend: curvature and other sheets, against the number of
    neighbours.

    A ball of k points is wrong by two relative errors. The edges of k random neighbours have
    weights :math:`w_{ij} / (\deg_i \deg_j)`, whose relative variance is :math:`2/k`; by this much a
    network conducts less than its mean weight. The bending of the ball adds ``relative_errors``,
    averaged over points. The automatic scale is the one with the least sum,

    .. math:: e(k) = \frac{2}{k} + \frac{1}{m} \sum_i e_i, \qquad
              e_i = \frac{(\kappa_i r_k)^2}{4 d (d + 2)},

    where :math:`e_i = 1` as soon as :math:`\kappa_i r_k > \sqrt 2` or the ball reaches another
    sheet. Noise, too, fills the directions off the tangent spaces, but the less the wider the ball
    is: then e decreases with k, and noise never makes the scale narrower.

    Attributes: ``dim`` d; ``neighbors`` (s,), numbers of neighbours, ascending; ``radii`` (s,),
    within which the median point has them; ``bends`` (s, m), radius times curvature at m sampled
    points, NaN where a ball holds too few points and infinite where it reaches another sheet;
    ``layered`` (s,), the share of the balls that hold two parallel layers.

    >>> import tangentbundle as tb
    >>> tube = tb.manifolds.Torus(R=1.0, r=0.1).sample(5000, seed=0)
    >>> reach = Reach.of(PointCloud.from_points(tube), 2, 82)
    >>> bool(reach.num_neighbors < 60), reach.resolved
    (True, True)
    """

    dim: int
    neighbors: np.ndarray
    radii: np.ndarray
    bends: np.ndarray
    layered: np.ndarray

    @classmethod
    def of(cls, cloud: PointCloud, dim: int, neighbors: int) -> Reach:
        """Compare up to ``neighbors`` neighbours of the points of a cloud."""
        counts = candidate_neighbors(neighbors, len(cloud), dim)
        sample = SampledNeighbors.of(cloud, neighbors)
        radii = np.median(sample.distances[:, counts - 1], axis=0) * (1 + 1e-6)
        bends = np.zeros((len(counts), len(sample)))
        layered = np.zeros((len(counts), len(sample)), dtype=bool)
        if dim < cloud.ambient_dim and radii[0] > 0:
            chunk_rows = max(1, MAX_CHORD_NUMBERS // (neighbors * cloud.ambient_dim))
            for start in range(0, len(sample), chunk_rows):
                chunk = slice(start, start + chunk_rows)
                neighborhoods = Neighborhoods.of(cloud, sample, chunk)
                for size, radius in enumerate(radii):
                    balls = Balls.of_radius(cloud, neighborhoods, radius=radius, dim=dim)
                    bends[size, chunk] = balls.bends(radius)
                    layered[size, chunk] = balls.on_two_layers()
        return cls(
            dim=dim, neighbors=counts, radii=radii, bends=bends, layered=layered.mean(axis=1)
        )

    @property
    def errors(self) -> np.ndarray:
        """Relative error e expected with each number of neighbours, ``(s,)``."""
        is_known = ~np.isnan(self.bends)
        bending = np.where(is_known, relative_errors(self.bends, self.dim), 0.0).sum(axis=1)
        means = bending / np.maximum(is_known.sum(axis=1), 1)
        return 2 / self.neighbors + np.where(is_known.any(axis=1), means, 1.0)

    @property
    def best(self) -> int:
        """Place of the number of neighbours with the least expected error."""
        return int(np.argmin(self.errors))

    @property
    def num_neighbors(self) -> int:
        """The number of neighbours with the least expected error."""
        return int(self.neighbors[self.best])

    @property
    def unresolved(self) -> float:
        """Share of points whose ball bends by a right angle or more at the best scale."""
        bends = self.bends[self.best]
        known_bends = bends[~np.isnan(bends)]
        if len(known_bends) == 0:
            return 1.0
        return float((known_bends > PERPENDICULAR).mean())

    @property
    def joins_layers(self) -> bool:
        """Whether balls of the best scale hold two parallel layers of points."""
        return bool(self.layered[self.best] > MAX_UNRESOLVED_SHARE)

    @property
    def resolved(self) -> bool:
        """Whether the points are dense enough for curvature and sheets.

        Off the tangent spaces noise looks as curvature does, but bends less in wider balls; it is
        no reason to doubt. Noise does not lie on two layers.
        """
        if self.joins_layers:
            return False
        if self.unresolved <= MAX_UNRESOLVED_SHARE:
            return True
        has_narrower_balls = len(self.neighbors) > 1
        return has_narrower_balls and self.best == len(self.neighbors) - 1

    def warn(self, num_points: int) -> None:
        """Warn if ``num_points`` points are too sparse for curvature and sheets."""
        if num_points < MIN_WARNED_POINTS:
            return
        if self.joins_layers:
            warn(
                f"the points lie on two layers, and {self.layered[self.best]:.0%} of the "
                "neighbourhoods hold both: the layers are too close for the density of the points, "
                "and results mix them. Give more points, or each layer by itself.",
                AccuracyWarning,
            )
        elif not self.resolved:
            warn(
                f"the points are too sparse for the shape: even among {self.num_neighbors} "
                f"neighbours, tangent spaces at {self.unresolved:.0%} of the points turn by more "
                "than a right angle. The surface is too thin or too curved, or sheets are too "
                "close, for results to be trusted; give more points.",
                AccuracyWarning,
            )
