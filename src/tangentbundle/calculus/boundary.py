"""Does the manifold have a boundary?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MIN_OFFSET, MIN_MEAN_OFFSET, MIN_SHARE = 0.25, 0.15, 0.2
"""A point is at the boundary if the mean of its neighbours lies so many radii off, if these offsets of its neighbours
agree (their mean is so long), and if such a share of its neighbours is at the boundary, too. On a straight edge the
first is 0.38 and the second 0.2; among scattered points inside, both at once are rare, and never in groups."""

MIN_EDGE = 0.1
"""Points at the boundary as a share of all, times the root of points over neighbours: about 0.45 for a square. Less is
a hole of a few neighbourhoods."""


def has_boundary(bundle: TangentBundle) -> bool:
    """Whether the points of a tangent bundle end somewhere, like those of a rectangle or of a region of the Earth."""
    if bundle.mesh is not None:
        return bundle.mesh.boundary > 0
    graph, frames, n = bundle.sorted_graph, bundle.sorted_frames, bundle.num_points
    assert frames is not None
    weights = sparse.csr_array((bundle.edge_weights(), graph.indices, graph.indptr), shape=(n, n))
    total, points = weights.sum(axis=1)[:, None], bundle.sorted_points - bundle.sorted_points.mean(axis=0)
    offset = np.einsum("nxa,nx->na", frames, (weights @ points / total - points) / np.sqrt(bundle.eps))
    laplacian = bundle.laplacian(calibrate=False)  # its average is the same
    signal = torch.from_numpy(bundle._unsorted(offset)[:, :, None]).to(laplacian.mass)
    mean = laplacian.average(signal)[:, :, 0].double().cpu().numpy()[bundle.order]
    length = np.linalg.norm(mean, axis=1)
    found = (np.einsum("na,na->n", offset, mean) > MIN_OFFSET * length) & (length > MIN_MEAN_OFFSET)
    share = np.add.reduceat(found[graph.indices].astype(float), graph.indptr[:-1]) / graph.degrees
    count = int((found & (share >= MIN_SHARE)).sum())
    return count > MIN_EDGE * float(np.sqrt(n * np.median(graph.degrees)))
