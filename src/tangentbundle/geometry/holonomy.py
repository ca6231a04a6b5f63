r"""Holonomy: how much a vector turns that is carried around a triangle of neighbours.

On a well sampled manifold it is the curvature inside the triangle, and small. Where the points are
too sparse for the shape, tangent spaces at neighbouring points are tilted at random, and vectors
turn at random, too. Every field then varies along edges, even the slowest ones.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..arrays import host
from ..errors import AccuracyWarning, warn
from .cloud import PointCloud
from .graph import NeighborGraph
from .reach import MIN_WARNED_POINTS
from .transport import connect

SAMPLED_TRIANGLES = 20_000
"""Triangles that are looked at: some hundreds in each of the parts."""

NUM_PARTS = 40
"""Parts of the cloud that are compared. A field avoids flaws in some parts, such as a sharp tip,
but not those in most parts."""

MAX_CORNER_NUMBERS = 2**22
"""Coordinates of frames at the corners of triangles that are gathered at once."""

MAX_ADDED_ENERGY = 1 / 3
"""Energy that holonomy adds to fields, in units of the energy of the slowest fields, above which
the points are too sparse: the first eigenvalues are off by a third."""


def sampled_triangles(cloud: PointCloud, graph: NeighborGraph, radius: float) -> Tensor:
    """Points ``(m, 3)`` of up to ``SAMPLED_TRIANGLES`` triangles: a random edge, and a random
    neighbour of its start that is also one of its end."""
    generator = np.random.default_rng(0)
    numbers = generator.integers(0, graph.num_edges, SAMPLED_TRIANGLES)
    shares = generator.uniform(size=SAMPLED_TRIANGLES)
    edges = torch.from_numpy(numbers).to(graph.device)
    first = torch.searchsorted(graph.indptr, edges, right=True) - 1
    degrees = graph.degrees[first]
    places = (torch.from_numpy(shares).to(graph.device) * degrees).long()
    second = graph.indices[edges].long()
    third = graph.indices[graph.indptr[first] + places].long()
    sides = torch.linalg.vector_norm(cloud.points[second] - cloud.points[third], dim=1)
    closed = (second != third) & (sides <= radius)
    return torch.stack([first, second, third], dim=1)[closed]


def turns_around_triangles(frames: Tensor, triangles: Tensor) -> np.ndarray:
    r"""Mean of :math:`1 - \cos` of the angles by which vectors turn around triangles, ``(m,)``.

    It is :math:`1 - \mathrm{tr}(O_{ij} O_{jk} O_{ki}) / d`, with frames ``(n, D, d)``.

    >>> flat = torch.eye(3).double()[:, :2].expand(3, 3, 2)
    >>> turns_around_triangles(flat, torch.tensor([[0, 1, 2]])).tolist()
    [0.0]
    """
    rows = max(1, MAX_CORNER_NUMBERS // (3 * frames.shape[1] * frames.shape[2]))
    turns = [turns_between_corners(frames[part.flatten()]) for part in triangles.split(rows)]
    return host(torch.cat(turns))


def turns_between_corners(corners: Tensor) -> Tensor:
    """The same for the frames at the corners of triangles, ``(3 m, D, d)``."""
    count = len(corners)
    starts = torch.arange(count, device=corners.device)
    ends = starts + 1
    ends[2::3] -= 3
    sides = NeighborGraph(
        indptr=torch.arange(count + 1, device=corners.device),
        indices=ends.int(),
        distances=torch.zeros(count, dtype=torch.float64, device=corners.device),
    )
    maps = connect(corners, sides).blocks()
    around = maps[0::3] @ maps[1::3] @ maps[2::3]
    traces = around.diagonal(dim1=1, dim2=2).sum(dim=1)
    return 1.0 - traces / corners.shape[2]


def turns_on_sphere(
    cloud: PointCloud, triangles: Tensor, extents: np.ndarray, dim: int
) -> np.ndarray:
    r"""The same as ``turns_around_triangles``, on the round sphere of squared radius ``extents``.

    There a vector turns by :math:`A / s^2` in the plane of a triangle of area A.
    """
    if dim == 1:
        return np.zeros(len(triangles))
    corners = cloud.points[triangles]
    one_side = corners[:, 1] - corners[:, 0]
    other_side = corners[:, 2] - corners[:, 0]
    products = (one_side * other_side).sum(dim=1)
    squares = one_side.square().sum(dim=1) * other_side.square().sum(dim=1)
    areas = host((squares - products.square()).clamp_min(0).sqrt() / 2)
    return 2 / dim * (1 - np.cos(areas / extents))


def squared_extents(cloud: PointCloud, graph: NeighborGraph) -> Tensor:
    """Mean squared distance from the centroid, of the connected component of each point, ``(n,)``.

    The slowest fields on a component have about the inverse of it as energy: exactly so on round
    spheres.
    """
    points = cloud.points
    labels = graph.components
    members = torch.bincount(labels).to(points)
    sums = points.new_zeros((len(members), cloud.ambient_dim)).index_add_(0, labels, points)
    centroids = sums / members[:, None]
    squares = (points - centroids[labels]).square().sum(dim=1)
    extents = points.new_zeros(len(members)).index_add_(0, labels, squares) / members
    return extents[labels]


def added_energy(cloud: PointCloud, frames: Tensor, graph: NeighborGraph, radius: float) -> float:
    r"""Energy that holonomy adds to every field, in units of the energy of the slowest fields.

    Let a field be parallel along the edges from a point to its neighbours. Then it changes along
    an edge between two of these neighbours by its holonomy H. With the mean over the ball of
    :math:`r^2 = \epsilon`, in d dimensions, the Laplacian :math:`2 (d + 2) (1 - P) / \epsilon` of
    such a field has the energy

    .. math:: E = \frac{2 (d + 2)}{\epsilon} \, \mathrm{mean} (1 - \mathrm{tr} H / d).

    Curvature is no flaw: what the round sphere of the same extent has is subtracted. The slowest
    fields have about the energy :math:`1 / s^2`, with the mean squared distance :math:`s^2` from
    the centroid. The answer is the median of :math:`E s^2` over ``NUM_PARTS`` parts of the cloud,
    which are consecutive points along the space-filling curve.
    """
    triangles = sampled_triangles(cloud, graph, radius)
    if len(triangles) == 0:
        return 0.0
    dim = frames.shape[2]
    extents = host(squared_extents(cloud, graph)[triangles[:, 0]])
    turns = turns_around_triangles(frames, triangles)
    excess = turns - turns_on_sphere(cloud, triangles, extents, dim)
    energies = 2 * (dim + 2) / radius**2 * excess * extents
    part_of_triangle = host(triangles[:, 0]) * NUM_PARTS // graph.num_points
    counts = np.bincount(part_of_triangle, minlength=NUM_PARTS)
    sums = np.bincount(part_of_triangle, weights=energies, minlength=NUM_PARTS)
    is_sampled = counts > 0
    return float(np.median(sums[is_sampled] / counts[is_sampled]))


def warn_of_holonomy(
    cloud: PointCloud, frames: Tensor, graph: NeighborGraph, radius: float
) -> None:
    """Warn if tangent spaces are so uncertain that the slowest fields are wrong."""
    if graph.num_points < MIN_WARNED_POINTS:
        return
    added = added_energy(cloud, frames, graph, radius)
    if added > MAX_ADDED_ENERGY:
        warn(
            "tangent spaces are uncertain: vectors carried around triangles of neighbours turn, "
            f"which adds {added:.2g} times the energy of the slowest fields to every field "
            f"(expected: at most {MAX_ADDED_ENERGY:.2g}), so that the first eigenvalues are too "
            "large. The points are too sparse for the shape, or too noisy, or its dimension is "
            f"not {frames.shape[2]}: give more points, remove noise, or give another dim.",
            AccuracyWarning,
        )
