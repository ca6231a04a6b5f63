"""Orientation of the tangent planes, which curl and rot need, and whether a manifold has a
boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from ..diagnostics import confident_edges, cover_signs, orientability, tree_signs
from ..errors import AccuracyWarning, InvalidInputError, NotOrientableError, warn
from ..parallel import threads_by_size

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MIN_OFFSET, MIN_MEAN_OFFSET, MIN_SHARE = 0.25, 0.15, 0.2
"""A point is at the boundary if the mean of its neighbours lies so many radii off, if these offsets
of its neighbours agree (their mean is so long), and if such a share of its neighbours is at the
boundary, too. On a straight edge the first is 0.38 and the second 0.2; among scattered points
inside, both at once are rare, and never in groups."""

MIN_EDGE = 0.1
"""Points at the boundary as a share of all, times the root of points over neighbours: about 0.45
for a square. Less is a hole of a few neighbourhoods."""


MAX_HEIGHT = 4.0
"""Points higher than so many standard deviations count as if they were there: outliers do not
decide."""

MIN_ORIENTATION_ERRORS = 2.0
"""The integral that decides on an orientation is certain if it is so many of its standard errors
away from zero."""

UPWARD = np.array([0.0625, 0.25, 1.0])
"""The direction that surfaces in space face: the third axis; the second if they are vertical, and
then the first."""


@threads_by_size
def orientation(bundle: TangentBundle) -> np.ndarray:
    r"""A sign for each frame ``(n,)``, along the curve: with it, all frames are oriented alike.

    The plane keeps its own orientation, and so do given frames that agree already (latitude and
    longitude, meshes). In all other cases each component of the graph is oriented by an integral
    over the surface, so that other samples of the same surface, in any order and anywhere in space,
    are oriented alike:

    .. math:: \int e^{h \cdot (x - \bar x) / s}\, \langle e_1 \wedge e_2, A \rangle\, dx > 0

    for positively oriented orthonormal tangents :math:`e_1, e_2`, with mean :math:`\bar x`, and s
    the standard deviation of :math:`h \cdot x`. In space
    :math:`\langle e_1 \wedge e_2, A \rangle = h \cdot n` is the product of the normal and a fixed
    direction, nearly that of the third axis (``UPWARD``). By the theorem of Gauss, normals of
    closed surfaces then point outward; those of graphs z = f(x, y) point upward. In more dimensions
    :math:`A = b \wedge c` with :math:`b_k = \cos k`, :math:`c_k = \sin k`,
    :math:`h_k = \cos(2k + 1)` for k = 0, 1...: the plane of the first two axes has its usual
    orientation.

    Where the integral is zero up to its sampling error, other samples may be oriented the other
    way: this gives an ``AccuracyWarning``.
    """
    frames = bundle.sorted_frames
    if frames is not None and frames.shape[1] == frames.shape[2]:
        return np.sign(np.linalg.det(frames))
    are_given = bundle.pca is None
    if frames is None or (are_given and (bundle.connection.det > 0).all()):
        return np.ones(bundle.num_points)
    signs = consistent_signs(bundle)
    labels, points, mass = (
        bundle.sorted_graph.components(),
        bundle.sorted_points,
        bundle.sorted_mass,
    )
    direction, areas = _projected_areas(frames)
    heights = (points - points.mean(axis=0)) @ direction
    sizes = np.bincount(labels, mass)
    heights -= (np.bincount(labels, mass * heights) / sizes)[labels]
    spreads = np.sqrt(np.bincount(labels, mass * np.square(heights)) / sizes)
    standardized = heights / np.maximum(spreads, np.finfo(float).tiny)[labels]
    values = np.exp(np.minimum(standardized, MAX_HEIGHT)) * signs * areas
    integrals = np.bincount(labels, mass * values)
    deviations = values - (integrals / sizes)[labels]
    errors = np.sqrt(np.bincount(labels, np.square(mass * deviations)))
    uncertain = int((np.abs(integrals) < MIN_ORIENTATION_ERRORS * errors).sum())
    if uncertain:
        warn(
            f"the orientation of {uncertain} of {len(sizes)} components of the surface is not "
            "certain: it faces neither side of the direction by which surfaces are oriented, so "
            "that curl, rot and stream functions may have the other sign for another sample. Turn "
            "the surface, or give frames that are oriented alike to from_frames.",
            AccuracyWarning,
        )
    return signs * np.where(integrals < 0, -1.0, 1.0)[labels]


def consistent_signs(bundle: TangentBundle) -> np.ndarray:
    """Signs ``(n,)`` of the frames along the curve that make them agree with their neighbours,
    either way round."""
    signs = cover_signs(bundle.sorted_graph, bundle.connection.det)
    if signs is not None:
        return signs
    if not orientability(bundle)[0]:
        raise NotOrientableError(
            "the tangent planes cannot be oriented alike: the space is not orientable, like a "
            "Klein bottle. Curl and rot need an orientation; gradient, divergence and jacobian do "
            "not."
        )
    return tree_signs(confident_edges(bundle, facing=0.0))


def _projected_areas(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The direction h ``(D,)`` and the products of unit areas ``(n,)`` with A, of
    ``orientation``."""
    if frames.shape[1:] == (3, 2):
        return UPWARD, np.cross(frames[:, :, 0], frames[:, :, 1]) @ UPWARD
    axes = np.arange(frames.shape[1])
    plane = np.stack([np.cos(axes), np.sin(axes)], axis=1)
    return np.cos(2 * axes + 1), np.linalg.det(plane.T @ frames)


@threads_by_size
def has_boundary(bundle: TangentBundle) -> bool:
    """Whether the points of a tangent bundle end somewhere, like those of a rectangle or of a
    region of the Earth."""
    if bundle.mesh is not None:
        return bundle.mesh.boundary > 0
    graph, frames, n = bundle.sorted_graph, bundle.sorted_frames, bundle.num_points
    if frames is None:
        raise InvalidInputError(
            "the scalar bundle has no frames: look for a boundary with the tangent bundle itself."
        )
    weights = sparse.csr_array((bundle.edge_weights(), graph.indices, graph.indptr), shape=(n, n))
    total, points = (
        weights.sum(axis=1)[:, None],
        bundle.sorted_points - bundle.sorted_points.mean(axis=0),
    )
    offset = np.einsum(
        "nxa,nx->na", frames, (weights @ points / total - points) / np.sqrt(bundle.eps)
    )
    vectors = np.einsum("nxa,na->nx", frames, offset)
    mean = np.einsum("nxa,nx->na", frames, weights @ (vectors / total) / (weights @ (1 / total)))
    length = np.linalg.norm(mean, axis=1)
    found = (np.einsum("na,na->n", offset, mean) > MIN_OFFSET * length) & (length > MIN_MEAN_OFFSET)
    share = np.add.reduceat(found[graph.indices].astype(float), graph.indptr[:-1]) / graph.degrees
    count = int((found & (share >= MIN_SHARE)).sum())
    return count > MIN_EDGE * float(np.sqrt(n * np.median(graph.degrees)))
