"""What one draws of a flow: its singular points with their index, and streamlines."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import Array, ArrayKind, host, points_array, positive, positive_integer
from ..errors import AccuracyWarning, InvalidInputError, ShapeError, warn
from ..parallel import threads_by_size
from .betti import EulerCharacteristic, euler_characteristic
from .derivatives import Derivatives
from .topology import has_boundary

if TYPE_CHECKING:
    from ..bundle import TangentBundle

_EULER: WeakKeyDictionary[TangentBundle, EulerCharacteristic] = WeakKeyDictionary()
"""Euler characteristics of bundles, which are immutable."""

NEWTON_STEPS = 8
"""From a point to the one that is nearest to the zero of the linear field around it; few are
needed."""


@dataclass(frozen=True, eq=False)
class SingularPoints:
    """Zeros of a field: ``positions`` (m, D), ``index`` (m,) +1 (source, sink, vortex) or -1
    (saddle).

    ``euler`` is the Euler characteristic that the indices were compared with, None if it is not
    known, and ``check`` says what came out of it.
    """

    positions: np.ndarray
    index: np.ndarray
    euler: int | None = None
    check: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether the indices sum to the Euler characteristic; None if that is not known."""
        return None if self.euler is None else int(self.index.sum()) == self.euler


def _linear_flow(bundle: TangentBundle, field: Array) -> tuple[np.ndarray, np.ndarray, ArrayKind]:
    """Values ``(n, d)`` and covariant derivatives ``(n, d, d)`` of a field, which is linear near
    each point."""
    jacobian = Derivatives(bundle).jacobian()
    x, kind = jacobian.check(field, "field")
    if x.ndim != 3 or x.shape[2] != 1:
        raise ShapeError(
            f"expected one field (n, d, 1), got shape {tuple(x.shape)}. Choose a time and a "
            "channel."
        )
    values, slopes = (host(part)[:, :, 0] for part in (x.detach(), jacobian @ x.detach()))
    return values, slopes.reshape(-1, bundle.dim, bundle.dim), kind


@threads_by_size
def singular_points(
    bundle: TangentBundle, field: Array, *, euler: int | None = None
) -> SingularPoints:
    r"""Zeros of a field ``(n, 2, 1)`` on a surface, each with the sign of :math:`\det \nabla v` as
    its index.

    On a closed surface the indices sum to its Euler characteristic (Poincaré and Hopf), if all
    zeros are resolved and none is degenerate. The sum is compared with ``euler``, or with
    ``euler_characteristic(bundle)`` if that is not given. An ``AccuracyWarning`` says that they
    differ, or that the characteristic of a closed surface is not known. Without zeros to check, and
    on surfaces with a boundary, there is no warning; ``check`` of the result says what was
    compared.

    >>> import numpy as np, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(2000, seed=0))
    >>> height = bundle.to_coordinates(np.tile([0.0, 0.0, 1.0], (2000, 1)))  # a source and a sink
    >>> singular_points(bundle, height).index.tolist()
    [1, 1]
    """
    if bundle.dim != 2:
        raise InvalidInputError(
            f"singular points are found on surfaces, d = 2, and here d = {bundle.dim}."
        )
    values, slopes, _ = _linear_flow(bundle, field)
    points, radius, det = (
        bundle._unsorted(bundle.sorted_points),
        np.sqrt(bundle.eps),
        np.linalg.det(slopes),
    )
    regular = np.abs(det) > 1e-9 * np.square(slopes).sum(axis=(1, 2))
    steps = np.full_like(values, np.inf)  # to the zero of the linear field around each point
    steps[regular] = -np.linalg.solve(slopes[regular], values[regular][:, :, None])[:, :, 0]
    distances, tree = np.linalg.norm(steps, axis=1), cKDTree(points)
    found = np.flatnonzero(values.any(axis=1) & (distances < radius))
    steps[distances >= radius] = 0.0
    places = points + np.einsum("nxa,na->nx", bundle._unsorted(bundle.sorted_frames), steps)
    for _ in range(NEWTON_STEPS):
        found = np.unique(tree.query(places[found])[1]) if len(found) else found
        found = found[distances[found] < radius]
    distinct: list[int] = []
    for i in found[
        np.argsort(distances[found])
    ]:  # zeros that are seen from several points count once
        near = np.linalg.norm(places[distinct] - places[i], axis=1) < radius / 2
        if not (near & (det[distinct] * det[i] > 0)).any():
            distinct.append(i)
    index = np.sign(det[distinct]).astype(int)
    return SingularPoints(places[distinct], index, *_checked(bundle, index, euler))


def _checked(bundle: TangentBundle, index: np.ndarray, euler: int | None) -> tuple[int | None, str]:
    """The Euler characteristic, if it is known, and how the sum of the indices compares with it."""
    total = int(index.sum())
    known = EulerCharacteristic(euler) if euler is not None else _euler_characteristic(bundle)
    if known.number is None:
        check = f"the sum of the indices, {total}, is not checked: {known.reason}"
        closed = bundle.mesh is None and not has_boundary(bundle)
        if len(index) and closed:
            warn(f"zeros may be missing or spurious: {check}.", AccuracyWarning)
    elif total == known.number:
        check = f"the indices sum to {total}, the Euler characteristic"
    else:
        check = (
            f"the indices of the {len(index)} zeros sum to {total}, and those of all zeros to the "
            f"Euler characteristic, {known.number}: zeros are missing or spurious. The field or "
            "the points are noisy, or too coarse for the field: denoise them, or use more points"
        )
        warn(f"{check}.", AccuracyWarning)
    return known.number, check


def _euler_characteristic(bundle: TangentBundle) -> EulerCharacteristic:
    """That of the bundle, computed once for all its fields."""
    if bundle not in _EULER:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)  # the reason says it
            _EULER[bundle] = euler_characteristic(bundle)
    return _EULER[bundle]


@threads_by_size
def streamlines(
    bundle: TangentBundle,
    field: Array,
    starts: Array,
    *,
    steps: int = 100,
    step: float | None = None,
) -> Array:
    """Lines ``(m, steps + 1, D)`` that follow the direction of a field ``(n, d, 1)`` from starting
    points ``(m, D)``.

    Each step goes a fixed length along the field (midpoint rule), which is linear around each
    sampled point, and back onto its tangent plane; default a quarter of the bundle's radius. Lines
    stop where the field vanishes.
    """
    values, slopes, kind = _linear_flow(bundle, field)
    x, _ = points_array(starts, "starts")
    if x.shape[1] != bundle.ambient_dim:
        raise ShapeError(
            f"starts must have shape (m, D) = (m, {bundle.ambient_dim}), got {x.shape}."
        )
    length = np.sqrt(bundle.eps) / 4 if step is None else positive(step, "step")
    points, frames = (bundle._unsorted(a) for a in (bundle.sorted_points, bundle.sorted_frames))
    tree, least = cKDTree(points), 1e-12 * np.abs(values).max() + 1e-300

    def land(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest place on the tangent planes, and the direction of the field there."""
        i = tree.query(x)[1]
        y = np.einsum("nxa,nx->na", frames[i], x - points[i])
        here, v = (
            np.einsum("nxa,na->nx", frames[i], z)
            for z in (y, values[i] + np.einsum("nab,nb->na", slopes[i], y))
        )
        return points[i] + here, v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), least)

    lines = [land(x)]
    for _ in range(positive_integer(steps, "steps")):
        x, direction = lines[-1]
        lines.append(land(x + length * land(x + length / 2 * direction)[1]))
    return kind.wrap(np.stack([x for x, _ in lines], axis=1))
