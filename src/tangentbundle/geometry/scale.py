r"""Automatic scales: accurate spectrum first, connected graph second, never beyond the reach of the
manifold.

On a round sphere two errors oppose each other (measured, figure in docs/theory/scale.md). The
kernel average differs from the Laplacian by a relative :math:`O(\epsilon)`, and the k random
neighbours in a ball make an uneven medium that conducts less than the even one by :math:`O(1/k)`.
With :math:`\epsilon \propto (k/n)^{2/d}` both are equal at :math:`k \propto n^{2/(d+2)}`: this is
``target_neighbors``. On other shapes the curvature and the distance to other sheets decide;
``Reach`` estimates both from the points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from ..arrays import host
from ..errors import AccuracyWarning, TooFewPointsError, warn
from ..memory import memory_limit
from .frames import LocalPCA, local_pca, pca_of_nearest
from .graph import NeighborGraph
from .search import (
    CHUNK_ROWS,
    MIN_SAMPLED_NEIGHBORS,
    SAMPLE,
    nearest_distances,
    sample_rows,
    sampled_nearest,
    search_tree,
)
from .small_matrices import TINY
from .tensor_cloud import TensorCloud

MAX_NEIGHBORS = 160
"""Cap on the automatic number of neighbours: keeps the cost linear in n (error floor below 1 %)."""

LARGE_CLOUD, MAX_EDGES, MIN_NEIGHBORS = 400_000, 40_000_000, 24
"""Above so many points, so many edges are affordable, but at least so many neighbours: 3.2 GB for a
million points."""


def target_neighbors(n: int, d: int) -> int:
    r"""Neighbours in a ball at the automatic scale: :math:`0.29 \cdot 2^d\, n^{2/(d+2)}`, clipped.

    >>> [target_neighbors(n, 2) for n in (100, 5000, 20000)]
    [12, 82, 160]
    """
    wish = round(0.29 * 2**d * n ** (2 / (d + 2)))
    return min(max(wish, least_neighbors(n, d)), MAX_NEIGHBORS, n - 1)


def affordable_neighbors(n: int) -> int | None:
    """Neighbours with which a large cloud fits a laptop, where the automatic number does not; None
    for others.

    >>> affordable_neighbors(100_000), affordable_neighbors(1_000_000)
    (None, 40)
    """
    return max(MIN_NEIGHBORS, MAX_EDGES // n) if n > LARGE_CLOUD else None


def least_neighbors(n: int, d: int) -> int:
    """Fewest neighbours an automatic scale goes down to."""
    return min(4 * (d + 1), n - 1)


def neighbors_of_sample(points: Any, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of a sample of points, and distances and indices ``(m, k)`` of their k nearest other
    points.

    Distances of the k-th neighbour vary as the root of 1/k, so that fewer points do where k is
    large.
    """
    if len(points) <= k:
        raise TooFewPointsError(
            f"{k} neighbours per point need at least {k + 1} points, got {len(points)}."
        )
    if len(points) <= SAMPLE or k < 2 * MIN_SAMPLED_NEIGHBORS:
        return sample_rows(points), *sampled_nearest(points, k)
    rows = sample_rows(points, SAMPLE * MIN_SAMPLED_NEIGHBORS // k)
    return rows, *nearest_distances(points, k, rows)


def radius_for_neighbors(points: Any, k: int) -> float:
    """The radius within which the median point has ``k`` neighbours.

    >>> radius_for_neighbors(np.arange(100.0)[:, None], 2)
    1.0
    """
    _, distances, _ = neighbors_of_sample(points, k)
    return float(np.median(distances[:, -1]))


RADIUS_STEP = 1.2
"""Ratio of the consecutive radii that are compared when the automatic scale is chosen."""

WEIGHT_REACH = 1.2
"""Radius, in radii of the ball, at which the weights of the local PCA of a ball vanish: its rim
keeps some weight."""

PERPENDICULAR = 2**0.5
r"""Radius times curvature at which tangent spaces at both ends of the radius are perpendicular: the
chord of a right angle. There is no transport between them."""

STEEP_COSINE = 0.5
"""Cosine of the angle to the tangent space above which a chord leads to another sheet."""

MAX_CHORD_NUMBERS = 2**23
"""Coordinates of chords that are compared at once."""

MAX_LISTED_NEIGHBORS = 1000
"""Neighbours of a point among which other sheets are looked for before a scale is widened."""

SHEET_MARGIN = 0.98
"""Share of the least distance to another sheet, among sampled points, that a ball may reach: others
are nearer."""

MIN_WARNED_POINTS = 500
"""In smaller clouds curvature is coarse on most shapes, and no warning is given."""

MAX_UNRESOLVED_SHARE = 0.1
"""Share of points beyond ``PERPENDICULAR`` at the automatic scale above which a cloud counts as too
sparse."""

MIN_BIMODALITY = 0.776
"""Bimodality, (skewness^2 + 1) / kurtosis, above which heights lie on two layers. It is 1 for two
values, 5/9 for uniform heights, and this if the middle third of a uniform distribution is empty:
then the layers are as thick as the gap between them."""

MIN_HEIGHTS = 24
"""Fewest neighbours whose heights are tested for two layers: the standard error of a kurtosis,
sqrt(24 / k), is one."""


def ball_pca(
    points: Any,
    centers: Any,
    distances: np.ndarray,
    indices: np.ndarray,
    radii: np.ndarray,
    dim: int,
) -> LocalPCA:
    """Local PCA of the listed neighbours ``(m, k)``, nearest first, of ``centers`` (m, D) within
    ``radii`` (m,).

    It has one axis more than the tangent space.
    """
    inside = distances <= radii[:, None]
    ends = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    device = points.points.device if isinstance(points, TensorCloud) else None
    edges = (ends, indices[inside].astype(np.int32), distances[inside])
    graph = NeighborGraph(*(torch.as_tensor(values, device=device) for values in edges))  # type: ignore[arg-type]
    reach = torch.as_tensor(WEIGHT_REACH * radii, device=device)
    return local_pca(points, graph, reach, centers=centers, axes=dim + 1)


def curvatures(
    pca: LocalPCA, steps: np.ndarray, distances: np.ndarray, radii: np.ndarray, dim: int
) -> np.ndarray:
    r"""Largest curvature within each ball of ``ball_pca``, ``(m,)``.

    A surface leaves its tangent space by :math:`y = \frac{1}{2} x^T A x`. Let :math:`A = h I +
    A_0`, with the mean h of the principal curvatures and a traceless rest. Under weights that are
    the same in all directions the rest is uncorrelated with the squared distance :math:`s^2` from
    the center, so that a regression of y on it (exact on spheres) gives both,

    .. math::
        h = \frac{2 \, \mathrm{Cov}(y, s^2)}{\mathrm{Var}\,s^2}, \qquad
        \mathrm{Var}\bigl(y - \tfrac{h}{2} s^2\bigr) = \tfrac{1}{2} \|A_0\|^2 E[x_1^2 x_2^2].

    The largest principal curvature is at most :math:`|h| + \sqrt{(d - 1) / d} \, \|A_0\|`, with
    equality for surfaces, spheres and tubes.

    ``steps`` (m, k, d + 1) are coordinates of the neighbours along the axes of the PCA. The
    curvature is NaN where the ball holds too few points, and infinite where the normal variance is
    half of one along the tangent space or more: such a ball has no tangent space.
    """
    weights, slopes, residuals = fit_of_heights(steps, distances, radii, dim)
    curvature = 2 * np.abs(slopes)
    if dim > 1:
        freedom = (pca.counts - dim - 2) / np.maximum(
            pca.counts, 1
        )  # mean, tangent space and slope are fitted
        rest = (weights * residuals**2).sum(axis=1)
        rest = rest / np.where(freedom > 0, freedom, np.nan)
        curvature += np.sqrt((dim - 1) / dim * 2 * rest / mixed_moment(dim))
    enough = pca.counts > dim + 2
    flat = 2 * pca.variances[:, dim] <= pca.variances[:, dim - 1]
    return np.where(enough, np.where(flat, curvature / radii, np.inf), np.nan)


def fit_of_heights(
    steps: np.ndarray, distances: np.ndarray, radii: np.ndarray, dim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Regression of the heights off the tangent space on squared distances, in units of the radius.

    Returns the weights of the neighbours ``(m, k)``, the slopes ``(m,)`` and the residuals
    ``(m, k)``, which are zero outside of the ball. ``steps`` are as of ``curvatures``.
    """
    shares = distances / (WEIGHT_REACH * radii[:, None])
    weights = np.where(distances <= radii[:, None], (1 - shares**2) ** 2, 0.0)
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY)
    heights = steps[:, :, dim] / radii[:, None]
    squares = np.square(distances / radii[:, None])
    heights = heights - (weights * heights).sum(axis=1, keepdims=True)
    squares = squares - (weights * squares).sum(axis=1, keepdims=True)
    slopes = (weights * heights * squares).sum(axis=1) / np.maximum(
        (weights * squares**2).sum(axis=1), TINY
    )
    residuals = np.where(weights > 0, heights - slopes[:, None] * squares, 0.0)
    return weights, slopes, residuals


def on_two_layers(
    steps: np.ndarray, distances: np.ndarray, radii: np.ndarray, dim: int
) -> np.ndarray:
    r"""Which balls ``(m,)`` hold two parallel layers: the heights off the tangent space have a gap.

    The residuals of ``fit_of_heights`` have the bimodality
    :math:`(\gamma_1^2 + 1) / \gamma_2`, with skewness :math:`\gamma_1` and kurtosis
    :math:`\gamma_2`. It is above ``MIN_BIMODALITY``, while noise with one mode has about 5/9 at
    most. Layers whose distance is below that of neighbouring points, :math:`r k^{-1/d}`, are one
    thick layer.
    """
    weights, _, residuals = fit_of_heights(steps, distances, radii, dim)
    variances = (weights * residuals**2).sum(axis=1)
    scaled = residuals / np.sqrt(np.maximum(variances, TINY))[:, None]
    skewness = (weights * scaled**3).sum(axis=1)
    kurtosis = (weights * scaled**4).sum(axis=1)
    bimodal = skewness**2 + 1 > MIN_BIMODALITY * kurtosis
    counts = (distances <= radii[:, None]).sum(axis=1)
    gaps = 2 * np.sqrt(variances)
    spacings = np.maximum(counts, 1) ** (-1 / dim)
    return bimodal & (gaps > spacings) & (counts >= MIN_HEIGHTS)


def mixed_moment(dim: int) -> float:
    """Mean of the product of the squares of two coordinates in the unit ball, weighted as
    ``ball_pca``.

    >>> bool(0.02 < mixed_moment(2) < 1 / 24)  # 1/24 without weights
    True
    """
    rim = 1.0 / WEIGHT_REACH

    def moment(order: int) -> float:
        power = dim + order  # the integral of u^(power - 1) (1 - (rim u)^2)^2 up to one
        return 1 / power - 2 * rim**2 / (power + 2) + rim**4 / (power + 4)

    return moment(4) / (dim * (dim + 2) * moment(0))


def sheet_distances(steps: np.ndarray, distances: np.ndarray, dim: int) -> np.ndarray:
    """Lengths ``(m, k)`` of the chords that lead to another sheet, others infinite; ``steps`` as of
    ``curvatures``.

    They leave the tangent space at more than 60 degrees. On one sheet a chord as long as the radius
    of curvature leaves it at 30 degrees.
    """
    along = np.square(steps[:, :, :dim]).sum(axis=2)
    return np.where(along < STEEP_COSINE**2 * distances**2, distances, np.inf)


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
    >>> reach = Reach.of(tube, 2, target_neighbors(5000, 2))
    >>> bool(reach.num_neighbors < 60), reach.resolved
    (True, True)
    """

    dim: int
    neighbors: np.ndarray
    radii: np.ndarray
    bends: np.ndarray
    layered: np.ndarray

    @classmethod
    def of(cls, points: Any, dim: int, neighbors: int) -> Reach:
        """Compare up to ``neighbors`` neighbours of points ``(n, D)``, an array or a
        ``TensorCloud``."""
        rows, distances, indices = neighbors_of_sample(points, neighbors)
        counts = candidate_neighbors(neighbors, len(points), dim)
        radii = np.median(distances[:, counts - 1], axis=0) * (1 + 1e-6)
        bends = np.zeros((len(counts), len(rows)))
        layered = np.zeros((len(counts), len(rows)), dtype=bool)
        if dim < points.shape[1] and radii[0] > 0:
            step = max(1, MAX_CHORD_NUMBERS // (neighbors * points.shape[1]))
            for start in range(0, len(rows), step):
                some = slice(start, start + step)
                bends[:, some], layered[:, some] = bends_of_balls(
                    points, rows[some], distances[some], indices[some], radii, dim
                )
        return cls(dim, counts, radii, bends, layered.mean(axis=1))

    @property
    def errors(self) -> np.ndarray:
        """Relative error e expected with each number of neighbours, ``(s,)``."""
        known = ~np.isnan(self.bends)
        bending = np.where(known, relative_errors(self.bends, self.dim), 0.0).sum(axis=1)
        shares = np.where(known.any(axis=1), bending / np.maximum(known.sum(axis=1), 1), 1.0)
        return 2 / self.neighbors + shares

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
        known = bends[~np.isnan(bends)]
        if len(known) == 0:
            return 1.0
        return float((known > PERPENDICULAR).mean())

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
        return self.unresolved <= MAX_UNRESOLVED_SHARE or self.best == len(self.neighbors) - 1 > 0

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


def automatic_neighbors(points: Any, dim: int) -> int:
    """The automatic number of neighbours of the median point; warns if the points are too sparse
    for the shape.

    >>> import tangentbundle as tb
    >>> automatic_neighbors(tb.manifolds.Sphere(2).sample(5000, seed=0), 2)
    82
    """
    reach = Reach.of(points, dim, target_neighbors(len(points), dim))
    reach.warn(len(points))
    return reach.num_neighbors


def bends_of_balls(
    points: Any,
    rows: np.ndarray,
    distances: np.ndarray,
    indices: np.ndarray,
    radii: np.ndarray,
    dim: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Radius times curvature of balls of ``radii`` (s,) about ``rows`` (m,), and which hold two
    layers, both ``(s, m)``.

    ``distances`` and ``indices`` (m, k) are those of their nearest neighbours, nearest first.
    """
    centers = points[rows]
    chords = points[indices] - centers[:, None]
    bends = np.empty((len(radii), len(rows)))
    layered = np.empty((len(radii), len(rows)), dtype=bool)
    for size, radius in enumerate(radii):
        within = np.minimum(radius, distances[:, -1])  # the lists may end before the ball does
        within[within == 0] = radius  # all listed points coincide with the center
        most = max(1, int((distances <= radius).sum(axis=1).max()))
        listed = distances[:, :most]
        pca = ball_pca(points, centers, listed, indices[:, :most], within, dim)
        steps = chords[:, :most] @ pca.axes
        sheets = sheet_distances(steps, listed, dim)
        reached = (sheets > radius / 2) & (
            SHEET_MARGIN * sheets <= radius
        )  # noise makes short chords steep
        bends[size] = np.where(
            reached.any(axis=1), np.inf, radius * curvatures(pca, steps, listed, within, dim)
        )
        layered[size] = on_two_layers(steps, listed, within, dim)
    return bends, layered


def candidate_neighbors(most: int, n: int, d: int) -> np.ndarray:
    """Numbers of neighbours that are compared, ascending: their radii grow by ``RADIUS_STEP``.

    >>> candidate_neighbors(82, 5000, 2).tolist()
    [12, 18, 26, 38, 56, 82]
    """
    counts = [most]
    least = min(least_neighbors(n, d), most)
    while counts[-1] > least:
        fewer = min(counts[-1] - 1, int(counts[-1] / RADIUS_STEP**d))
        counts.append(max(least, fewer))
    return np.array(counts[::-1])


def connecting_radius(points: np.ndarray, graph: NeighborGraph, within: float) -> float:
    """The least radius whose ball graph joins all pieces of a graph that radii up to ``within`` can
    join; exact.

    It is the longest edge of a minimum spanning forest. Of all edges up to ``within`` only those
    that leave one of the smaller components of the graph can be missing from it. (Where memory
    would not hold them, nothing is joined.)

    >>> from tangentbundle.geometry.graph import radius_graph
    >>> line = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> [connecting_radius(line, radius_graph(line, 1.0), within) for within in (1.5, 2.0)]
    [1.0, 2.0]
    """
    labels = graph.components()
    tree = search_tree(points)
    small = np.flatnonzero(labels != np.bincount(labels).argmax())
    small_tree = cKDTree(tree.data[small])
    lengths = graph.to_scipy().copy()
    lengths.data = np.maximum(
        lengths.data, np.finfo(float).tiny
    )  # a stored zero, of coincident points, is no edge
    links = lengths
    if 64.0 * small_tree.count_neighbors(tree, within) <= memory_limit():
        near = small_tree.sparse_distance_matrix(tree, within * (1 + 1e-12), output_type="ndarray")
        rows, cols, distances = small[near["i"]], near["j"], near["v"]
        bridging = labels[rows] != labels[cols]
        ends = (rows[bridging], cols[bridging])
        bridges = sparse.csr_array((distances[bridging], ends), shape=(len(points), len(points)))
        links = bridges.maximum(lengths)
    forest = csgraph.minimum_spanning_tree(links)
    return float(forest.data.max(initial=0.0))


def between_sheets(
    points: np.ndarray, rows: np.ndarray, cols: np.ndarray, dim: int, neighbors: int
) -> np.ndarray:
    """Which pairs of points ``(e,)`` lie on different sheets: their chord is steep
    (``STEEP_COSINE``) at both ends.

    Tangent spaces are those of so many nearest neighbours.
    """
    ends, places = np.unique(np.concatenate([rows, cols]), return_inverse=True)
    nearest = nearest_distances(points, neighbors, ends)
    frames = host(pca_of_nearest(points, *nearest, points[ends], axes=dim).axes)
    steep = np.ones(len(rows), dtype=bool)
    for start in range(0, len(rows), CHUNK_ROWS):
        some = slice(start, start + CHUNK_ROWS)
        chords = points[cols[some]] - points[rows[some]]
        squares = np.square(chords).sum(axis=1)
        for side in np.split(places, 2):
            along = np.einsum("ea,ead->ed", chords, frames[side[some]])
            steep[some] &= np.square(along).sum(axis=1) < STEEP_COSINE**2 * squares
    return steep


def sheet_distance(
    points: np.ndarray, radius: float, within: float, dim: int, neighbors: int
) -> float:
    """The least distance, between ``radius`` and ``within``, of a sampled point to another sheet;
    infinite if none is.

    Tangent spaces are those of so many nearest neighbours.
    """
    if dim == points.shape[1]:
        return np.inf
    enough = int(neighbors * 1.5 * (within / radius) ** dim)
    rows, distances, indices = neighbors_of_sample(
        points, min(enough, MAX_LISTED_NEIGHBORS, len(points) - 1)
    )
    sample, places = np.nonzero((distances > radius) & (distances <= within))
    if len(sample) == 0:
        return np.inf
    steep = between_sheets(points, rows[sample], indices[sample, places], dim, neighbors)
    return float(distances[sample, places][steep].min(initial=np.inf))
