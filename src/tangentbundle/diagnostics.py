"""Diagnostics of a bundle: locality of the scale, connectedness, orientability, tangency of a
field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph

from .arrays import Array, float_tensor
from .errors import NotTangentWarning, warn
from .geometry.graph import NeighborGraph

if TYPE_CHECKING:
    from .bundle import TangentBundle

MAJORITY_VOTES = 20
"""Rounds in which every frame adopts the orientation of the majority of its neighbours."""

MIN_CUT = 0.05
"""Smallest share of bad edges of a non-orientable space, in units of the radius of a ball: half of
the value for Klein bottles."""


@dataclass(frozen=True)
class Diagnosis:
    """The result of ``TangentBundle.diagnose``; ``print`` shows it as a table.

    Attributes: ``neighbors`` (smallest, median, largest number), ``components``,
    ``neighborhood_share`` (share of the points in a median neighbourhood), ``dimension_histogram``
    {dimension: number of sampled points}, ``frame_residual`` (median, worst share of a
    neighbourhood's variance normal to the tangent space), ``orientable``, ``consistent`` (frames
    can be flipped so that every transport is a rotation), ``frustration`` (share of edges that
    remain reflections), ``normal_share`` (share of a field's energy that is not tangent), ``mesh``
    (a description, if any).
    """

    num_points: int
    dim: int
    eps: float
    neighbors: tuple[int, float, int]
    components: int
    neighborhood_share: float
    dimension_histogram: dict[int, int] | None
    frame_residual: tuple[float, float] | None
    orientable: bool
    consistent: bool
    frustration: float
    normal_share: float | None
    mesh: str | None = None

    def __str__(self) -> str:
        low, middle, high = self.neighbors
        rows = [
            ("points, dimension", f"{self.num_points}, {self.dim}"),
            ("mesh", self.mesh)
            if self.mesh
            else ("scale eps", f"{self.eps:.4g} (radius {self.eps**0.5:.4g})"),
            ("neighbours per point", f"{low} to {high}, median {middle:.0f}"),
            ("neighbourhood size", f"{self.neighborhood_share:.1%} of the points"),
            ("components", f"{self.components}"),
        ]
        if self.dimension_histogram is not None:
            counts = ", ".join(f"{d}: {c}" for d, c in self.dimension_histogram.items())
            rows.append(("local dimensions", counts))
        if self.frame_residual is not None:
            rows.append(
                ("residual variance", "median {:.2%}, worst {:.2%}".format(*self.frame_residual))
            )
        word = "yes" if self.orientable else "no"
        detail = (
            "consistent frames"
            if self.consistent
            else f"{self.frustration:.2%} of edges remain reflections"
        )
        rows.append(("orientable", f"{word} ({detail})"))
        if self.normal_share is not None:
            rows.append(("normal component", f"{self.normal_share:.1%} of the energy"))
        return "\n".join(f"{name:<26}{value}" for name, value in rows)


def cover_signs(graph: NeighborGraph, det: np.ndarray) -> np.ndarray | None:
    """Return signs ``(n,)`` with ``s_i det_ij s_j > 0`` on all edges, or None if they do not exist.

    They do not exist if a point is connected to its copy in the double cover: two copies of the
    points, in which edges with a negative determinant connect different copies.
    """
    n = graph.num_points
    indptr = np.concatenate([graph.indptr, graph.indptr[1:] + graph.num_edges])
    indices = np.concatenate([graph.indices + n * (det < 0), graph.indices + n * (det > 0)])
    sheet, other = np.split(NeighborGraph(indptr, indices, np.empty(0)).components(), 2)
    return None if (sheet == other).any() else np.where(sheet < other, 1.0, -1.0)


def tree_signs(edges: NeighborGraph) -> np.ndarray:
    """Return signs ``(n,)`` of frames that agree along a spanning tree of edges with similar
    tangent spaces."""
    facing = edges.to_scipy()
    cost = sparse.csr_array(
        (1.0 + 1e-9 - np.abs(facing.data), facing.indices, facing.indptr), shape=facing.shape
    )
    signs = csgraph.minimum_spanning_tree(cost).astype(bool) * facing
    both = sparse.csr_array(signs + signs.T)
    tree = NeighborGraph(both.indptr.astype(np.int64), both.indices.astype(np.int32), both.data)
    found = cover_signs(tree, both.data)
    assert found is not None, "a tree can be oriented"
    return found


def confident_edges(bundle: TangentBundle, facing: float = 0.8) -> NeighborGraph:
    r"""Return the edges with similar tangent spaces, |det O_i^T O_j| > ``facing``; lengths are the
    determinants.

    For very different tangent spaces the sign of the determinant does not determine the
    orientation.
    """
    graph, frames = bundle.sorted_graph, bundle.sorted_frames
    det = bundle.connection.det.astype(float)
    if frames is not None:
        rows, cols = graph.rows, graph.indices
        for a in range(0, graph.num_edges, 2**13):
            part = slice(a, a + 2**13)
            det[part] = np.linalg.det(frames[rows[part]].transpose(0, 2, 1) @ frames[cols[part]])
    keep = np.abs(det) > facing
    indptr = np.concatenate([[0], np.cumsum(keep)])[graph.indptr]
    return NeighborGraph(indptr, graph.indices[keep], det[keep])


def orientability(bundle: TangentBundle) -> tuple[bool, bool, float]:
    r"""Return whether the space is orientable, whether all frames can be made consistent, and the
    share of bad edges.

    If no exact signs exist, those of a spanning tree are improved by majority votes of neighbours.
    The space counts as orientable if fewer edges remain bad than would have to be cut to make a
    non-orientable space orientable: those across a hypersurface, whose share is proportional to the
    radius of a ball. Meshes are always orientable, since others are refused.
    """
    if bundle.mesh is not None:
        return True, True, 0.0
    edges = confident_edges(bundle)
    if cover_signs(edges, edges.distances) is not None:
        return True, True, 0.0
    signs, facing = tree_signs(edges), edges.to_scipy()
    for _ in range(MAJORITY_VOTES):
        signs = np.where(facing @ signs + 1e-9 * signs < 0, -1.0, 1.0)
    bad = float((signs[edges.rows] * edges.distances * signs[edges.indices] < 0).mean())
    share = float(np.median(edges.degrees)) / edges.num_points
    return bool(bad < MIN_CUT * share ** (1 / bundle.dim)), False, bad


def normal_share(bundle: Any, field: Array) -> float:
    """Return the share of a field's energy that is normal to the tangent spaces; warns above a
    tenth."""
    vectors = float_tensor(field, "field")[0]
    tangent = float_tensor(bundle.to_ambient(bundle.to_coordinates(vectors)), "field")[0]
    largest = float(vectors.abs().max()) or 1.0
    total, inside = (float((v.double() / largest).square().sum()) for v in (vectors, tangent))
    share = min(max(1.0 - inside / total, 0.0), 1.0) if total > 0 else 0.0
    if share > 0.1:
        warn(
            f"{share:.0%} of the field's energy is normal to the tangent spaces and is lost by "
            "projection. Check that the vectors are ambient (not components in another frame) and "
            "in the order of the points.",
            NotTangentWarning,
        )
    return share


def diagnose(bundle: TangentBundle, field: Array | None = None) -> Diagnosis:
    """Compute a ``Diagnosis``; see ``TangentBundle.diagnose``."""
    degrees = bundle.sorted_graph.degrees
    middle = float(np.median(degrees))
    orientable, consistent, frustration = orientability(bundle)
    histogram = residual = None
    if bundle.local_dimensions is not None:
        dims, counts = np.unique(bundle.local_dimensions, return_counts=True)
        histogram = dict(zip(dims.tolist(), counts.tolist(), strict=True))
    if bundle.pca is not None:
        off = bundle.pca.residual(bundle.dim)
        residual = (float(np.median(off)), float(off.max()))
    return Diagnosis(
        num_points=bundle.num_points,
        dim=bundle.dim,
        eps=bundle.eps,
        neighbors=(int(degrees.min()), middle, int(degrees.max())),
        components=bundle.sorted_graph.num_components,
        neighborhood_share=middle / (bundle.num_points - 1),
        dimension_histogram=histogram,
        frame_residual=residual,
        orientable=orientable,
        consistent=consistent,
        frustration=frustration,
        normal_share=None if field is None else normal_share(bundle, field),
        mesh=None if bundle.mesh is None else str(bundle.mesh),
    )


def sampling_errors(bundle: TangentBundle, fields: Array) -> np.ndarray:
    r"""Return standard errors ``(k,)`` of eigenvalues with eigenfields ``(n, d, k)``, due to random
    sampling.

    An eigenvalue is a mean over points of the energy density
    :math:`\frac12 \Delta |f|^2 + \lambda |f|^2`, divided by that of :math:`|f|^2`. Its error is
    that of a mean over independent points, so the first term determines it. The bias at a finite
    scale is not included.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(800, seed=0), dim=2)
    >>> values, fields = bundle.laplacian().spectrum(6)
    >>> bool((abs(values - 1) < 3 * sampling_errors(bundle, fields)).all())
    True
    """
    scalar = bundle.scalar().laplacian()
    squares = float_tensor(fields, "fields")[0].square().sum(dim=1, keepdim=True)
    energy = torch.as_tensor(scalar.mass).reshape(-1, 1, 1).to(squares) * (scalar @ squares)
    return np.asarray(0.5 * energy.square().sum(dim=(0, 1)).sqrt().cpu())
