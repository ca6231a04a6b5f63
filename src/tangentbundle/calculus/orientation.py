"""One orientation for all tangent planes: what curl and rot need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ..diagnostics import orientability
from ..errors import NotOrientableError
from ..geometry.graph import NeighborGraph

if TYPE_CHECKING:
    from ..bundle import TangentBundle


def orientation(bundle: TangentBundle) -> np.ndarray:
    """A sign for each frame ``(n,)``, along the curve: with it, all frames are oriented alike.

    Frames that agree already (latitude and longitude, meshes) keep their orientation. Otherwise surfaces in space are
    oriented by their outward normals, and other spaces like the frame of their first point; each component by itself.
    """
    det = bundle.connection.det
    if bundle.sorted_frames is None or (det > 0).all():
        return np.ones(bundle.num_points)
    signs = _cover_signs(bundle.sorted_graph, det)
    if signs is None:
        if not orientability(bundle)[0]:
            raise NotOrientableError(
                "the tangent planes cannot be oriented alike: the space is not orientable, like a Klein bottle. Curl "
                "and rot need an orientation; gradient, divergence and jacobian do not."
            )
        signs = _tree_signs(bundle.sorted_graph, bundle.sorted_frames)
    return signs * _outward(bundle, signs)


def _cover_signs(graph: NeighborGraph, det: np.ndarray) -> np.ndarray | None:
    """Signs with ``s_i det_ij s_j = 1`` on all edges, from the double cover; None if there are none."""
    n = graph.num_points
    indptr = np.concatenate([graph.indptr, graph.indptr[1:] + graph.num_edges])
    indices = np.concatenate([graph.indices + n * (det < 0), graph.indices + n * (det > 0)])
    labels = NeighborGraph(indptr, indices, np.empty(0)).components()
    sheet, other = labels[:n], labels[n:]
    return None if (sheet == other).any() else np.where(sheet < other, 1.0, -1.0)


def _tree_signs(graph: NeighborGraph, frames: np.ndarray) -> np.ndarray:
    """Signs that agree along a spanning tree of the edges whose tangent planes face each other best."""
    det = np.linalg.det(frames[graph.rows].transpose(0, 2, 1) @ frames[graph.indices])
    n = graph.num_points
    cost = sparse.csr_array((1.0 + 1e-9 - np.abs(det), graph.indices, graph.indptr), shape=(n, n))
    tree = csgraph.minimum_spanning_tree(cost).tocoo()
    sign = np.linalg.det(frames[tree.row].transpose(0, 2, 1) @ frames[tree.col])
    ends = np.stack([tree.row, tree.col]), np.stack([tree.col, tree.row])
    both = sparse.csr_array((np.tile(np.sign(sign), 2), (ends[0].ravel(), ends[1].ravel())), shape=(n, n))
    flips = NeighborGraph(both.indptr.astype(np.int64), both.indices.astype(np.int32), both.data)
    found = _cover_signs(flips, both.data)
    assert found is not None, "a tree can be oriented"
    return found


def _outward(bundle: TangentBundle, signs: np.ndarray) -> np.ndarray:
    """A sign for each point, the same in a component: the one that makes normals point outwards."""
    labels, frames = bundle.sorted_graph.components(), bundle.sorted_frames
    assert frames is not None
    if frames.shape[1:] == (3, 2):
        normals = signs[:, None] * np.cross(frames[:, :, 0], frames[:, :, 1])
        counts = np.bincount(labels)[:, None]
        centre = np.stack([np.bincount(labels, axis) for axis in bundle.sorted_points.T], axis=1) / counts
        flux = np.einsum("na,na->n", bundle.sorted_points - centre[labels], normals)
        total = np.bincount(labels, flux)
    else:
        first = np.full(labels.max() + 1, bundle.num_points)
        np.minimum.at(first, labels, bundle.order)
        total = signs[np.argsort(bundle.order)[first]]
    return np.where(total < 0, -1.0, 1.0)[labels]
