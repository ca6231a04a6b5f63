"""Orientation of the tangent planes, which curl and rot need, and whether a manifold has a boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from ..diagnostics import confident_edges, cover_signs, orientability, tree_signs
from ..errors import InvalidInputError, NotOrientableError

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MIN_OFFSET, MIN_MEAN_OFFSET, MIN_SHARE = 0.25, 0.15, 0.2
"""A point is at the boundary if the mean of its neighbours lies so many radii off, if these offsets of its neighbours
agree (their mean is so long), and if such a share of its neighbours is at the boundary, too. On a straight edge the
first is 0.38 and the second 0.2; among scattered points inside, both at once are rare, and never in groups."""

MIN_EDGE = 0.1
"""Points at the boundary as a share of all, times the root of points over neighbours: about 0.45 for a square. Less is
a hole of a few neighbourhoods."""


def orientation(bundle: TangentBundle) -> np.ndarray:
    """A sign for each frame ``(n,)``, along the curve: with it, all frames are oriented alike.

    The plane keeps its own orientation, and so do frames that agree already (latitude and longitude, meshes). Otherwise
    surfaces in space are oriented by their outward normals, and other spaces like the frame of their first point; each
    component by itself.
    """
    det, frames = bundle.connection.det, bundle.sorted_frames
    if frames is not None and frames.shape[1] == frames.shape[2]:
        return np.sign(np.linalg.det(frames))
    if frames is None or (det > 0).all():
        return np.ones(bundle.num_points)
    signs = cover_signs(bundle.sorted_graph, det)
    if signs is None:
        if not orientability(bundle)[0]:
            raise NotOrientableError(
                "the tangent planes cannot be oriented alike: the space is not orientable, like a Klein bottle. Curl "
                "and rot need an orientation; gradient, divergence and jacobian do not."
            )
        signs = tree_signs(confident_edges(bundle, facing=0.0))
    labels, points = bundle.sorted_graph.components(), bundle.sorted_points
    if frames.shape[1:] == (3, 2):
        normals = signs[:, None] * np.cross(frames[:, :, 0], frames[:, :, 1])
        centre = np.stack([np.bincount(labels, axis) for axis in points.T], axis=1) / np.bincount(labels)[:, None]
        outward = np.bincount(labels, np.einsum("na,na->n", points - centre[labels], normals))
    else:
        first = np.full(labels.max() + 1, bundle.num_points)
        np.minimum.at(first, labels, bundle.order)
        outward = signs[np.argsort(bundle.order)[first]]
    return signs * np.where(outward < 0, -1.0, 1.0)[labels]


def has_boundary(bundle: TangentBundle) -> bool:
    """Whether the points of a tangent bundle end somewhere, like those of a rectangle or of a region of the Earth."""
    if bundle.mesh is not None:
        return bundle.mesh.boundary > 0
    graph, frames, n = bundle.sorted_graph, bundle.sorted_frames, bundle.num_points
    if frames is None:
        raise InvalidInputError("the scalar bundle has no frames: look for a boundary with the tangent bundle itself.")
    weights = sparse.csr_array((bundle.edge_weights(), graph.indices, graph.indptr), shape=(n, n))
    total, points = weights.sum(axis=1)[:, None], bundle.sorted_points - bundle.sorted_points.mean(axis=0)
    offset = np.einsum("nxa,nx->na", frames, (weights @ points / total - points) / np.sqrt(bundle.eps))
    vectors = np.einsum("nxa,na->nx", frames, offset)
    mean = np.einsum("nxa,nx->na", frames, weights @ (vectors / total) / (weights @ (1 / total)))
    length = np.linalg.norm(mean, axis=1)
    found = (np.einsum("na,na->n", offset, mean) > MIN_OFFSET * length) & (length > MIN_MEAN_OFFSET)
    share = np.add.reduceat(found[graph.indices].astype(float), graph.indptr[:-1]) / graph.degrees
    count = int((found & (share >= MIN_SHARE)).sum())
    return count > MIN_EDGE * float(np.sqrt(n * np.median(graph.degrees)))
