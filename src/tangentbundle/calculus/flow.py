"""What one draws of a flow: its singular points with their index, and streamlines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array, csgraph
from scipy.spatial import cKDTree

from ..arrays import Array, ArrayKind, points_array, positive, positive_integer
from ..errors import InvalidInputError, ShapeError
from .curvature import curvature
from .derivatives import Derivatives

if TYPE_CHECKING:
    from ..bundle import TangentBundle

NEWTON_STEPS = 8
"""From a point to the one that is nearest to the zero of the linear field around it; few are needed."""


@dataclass(frozen=True, eq=False)
class SingularPoints:
    """Zeros of a field: ``positions`` (m, D), ``index`` (m,) +1 (source, sink, vortex) or -1 (saddle), ``nearest`` (m,)
    the number of the nearest sampled point."""

    positions: np.ndarray
    index: np.ndarray
    nearest: np.ndarray


def _linear_flow(bundle: TangentBundle, field: Array) -> tuple[np.ndarray, np.ndarray, ArrayKind]:
    """Values ``(n, d)`` and covariant derivatives ``(n, d, d)`` of a field, which is linear near each point."""
    jacobian = Derivatives(bundle).jacobian()
    x, kind = jacobian.check(field, "field")  # type: ignore[misc]
    if x.ndim != 3 or x.shape[2] != 1:
        raise ShapeError(f"expected one field (n, d, 1), got shape {tuple(x.shape)}. Choose a time and a channel.")
    values, slopes = (part.double().cpu().numpy()[:, :, 0] for part in (x.detach(), jacobian.apply(x.detach())))
    return values, slopes.reshape(-1, bundle.dim, bundle.dim), kind


def singular_points(bundle: TangentBundle, field: Array) -> SingularPoints:
    r"""Zeros of a field ``(n, 2, 1)`` on a surface, each with the sign of :math:`\det \nabla v` as its index.

    On a closed surface the indices sum to its Euler characteristic (Poincaré and Hopf), if all zeros are resolved and
    none is degenerate.

    >>> import numpy as np, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(2000, seed=0))
    >>> height = bundle.to_coordinates(np.tile([0.0, 0.0, 1.0], (2000, 1)))             # a source and a sink
    >>> singular_points(bundle, height).index.tolist()
    [1, 1]
    """
    if bundle.dim != 2:
        raise InvalidInputError(f"singular points are found on surfaces, d = 2, and here d = {bundle.dim}.")
    values, slopes, _ = _linear_flow(bundle, field)
    points, frames, radius = bundle._unsorted(bundle.sorted_points), bundle._bases(), np.sqrt(bundle.eps)
    det, tree = np.linalg.det(slopes), cKDTree(points)
    regular = np.abs(det) > 1e-9 * np.square(slopes).sum(axis=(1, 2))
    zeros = np.full_like(values, np.inf)  # of the linear field around each point
    zeros[regular] = -np.linalg.solve(slopes[regular], values[regular][:, :, None])[:, :, 0]
    distances = np.linalg.norm(zeros, axis=1)
    found = np.flatnonzero(values.any(axis=1))
    for _ in range(NEWTON_STEPS):
        found = np.unique(found[distances[found] < radius])
        places = points[found] + np.einsum("nxa,na->nx", frames[found], zeros[found])
        found = tree.query(places)[1] if len(places) else found
    found = found[distances[found] < radius]
    places = points[found] + np.einsum("nxa,na->nx", frames[found], zeros[found])
    distinct = _merged(places, distances[found], radius / 2, np.sign(det[found]))
    return SingularPoints(places[distinct], np.sign(det[found[distinct]]).astype(int), found[distinct])


def _merged(places: np.ndarray, distances: np.ndarray, radius: float, index: np.ndarray) -> np.ndarray:
    """One of each group of places with the same index: the one closest to its point."""
    if len(places) == 0:
        return np.zeros(0, np.int64)
    pairs = cKDTree(places).query_pairs(radius, output_type="ndarray")
    pairs = pairs[index[pairs[:, 0]] == index[pairs[:, 1]]]
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(places),) * 2)
    labels = csgraph.connected_components(links, directed=False)[1]
    by_label = np.lexsort((distances, labels))
    return by_label[np.unique(labels[by_label], return_index=True)[1]]


def streamlines(
    bundle: TangentBundle, field: Array, starts: Array, *, steps: int = 100, step: float | None = None
) -> Array:
    """Lines ``(m, steps + 1, D)`` that follow the direction of a field ``(n, d, 1)`` from starting points ``(m, D)``.

    Each step goes a fixed length along the field (midpoint rule), which is linear around each sampled point, and back
    onto the quadratic fit of the manifold. Lines stop where the field vanishes.

    Args:
        step: length of a step; default a quarter of the bundle's radius.
    """
    values, slopes, kind = _linear_flow(bundle, field)
    x, _ = points_array(starts, "starts")
    if x.shape[1] != bundle.ambient_dim:
        raise ShapeError(f"starts must have shape (m, D) = (m, {bundle.ambient_dim}), got {x.shape}.")
    length = np.sqrt(bundle.eps) / 4 if step is None else positive(step, "step")
    points, frames = bundle._unsorted(bundle.sorted_points), bundle._bases()
    forms, tree, least = curvature(bundle).forms, cKDTree(points), 1e-12 * np.abs(values).max() + 1e-300

    def land(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest place on the manifold, and the direction of the field there."""
        i = tree.query(x)[1]
        y = np.einsum("nxa,nx->na", frames[i], x - points[i])
        here = points[i] + np.einsum("nxa,na->nx", frames[i], y) + np.einsum("nxab,na,nb->nx", forms[i], y, y) / 2
        v = np.einsum("nxa,na->nx", frames[i], values[i] + np.einsum("nab,nb->na", slopes[i], y))
        return here, v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), least)

    x, direction = land(x)
    lines = [x]
    for _ in range(positive_integer(steps, "steps")):
        _, middle = land(x + length / 2 * direction)
        x, direction = land(x + length * middle)
        lines.append(x)
    return kind.wrap(np.stack(lines, axis=1))
