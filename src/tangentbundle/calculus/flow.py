"""What one draws of a flow: its singular points with their index, and streamlines."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ..arrays import (
    Array,
    outside_functional_transform,
    points_array,
    positive,
    positive_integer,
)
from ..errors import AccuracyWarning, InvalidInputError, ShapeError, warn
from ..parallel import threads_by_size
from .betti import EulerCharacteristic, euler_characteristic
from .boundary import has_boundary
from .derivatives import Derivatives
from .powers import representatives
from .tracing import Flow, trace

if TYPE_CHECKING:
    from ..bundle import TangentBundle

_EULER: WeakKeyDictionary[TangentBundle, EulerCharacteristic] = WeakKeyDictionary()
"""Euler characteristics of bundles, which are immutable."""

NEWTON_STEPS = 8
"""From a point to the one that is nearest to the zero of the linear field around it; few are
needed."""

MIN_DETERMINANT = 1e-9
"""Determinants below this, in units of the squared derivatives, count as none: the linear field has
no single zero."""

NO_SPEED = 1e-12
"""Vectors shorter than this, in units of the longest component, have no direction."""


@dataclass(frozen=True, eq=False)
class SingularPoints:
    """Where a field has no direction: ``positions`` (m, D) and ``index`` (m,), of vectors +1
    (source, sink, vortex) or -1 (saddle), of directions with n representatives multiples of 1/n.

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
        if self.euler is None:
            return None
        return round(float(self.index.sum()), 6) == self.euler


class _LinearFlow(Flow):
    """A field that is linear on the tangent plane of each point, on the CPU and in the user's
    order: of vectors, or of the powers of directions with ``order`` representatives.

    Attributes: ``points`` (n, D), ``frames`` (n, D, d), ``values`` (n, d) and covariant derivatives
    ``slopes`` (n, d, d) of the field; ``kind``, the kind of array that it came in.
    """

    def __init__(self, bundle: TangentBundle, field: Array, order: int) -> None:
        self.order = positive_integer(order, "order")
        jacobian = Derivatives(bundle).jacobian(order=self.order)
        x, self.kind = jacobian.check(field, "field")
        if x.ndim != 3 or x.shape[2] != 1:
            raise ShapeError(
                f"expected one field (n, d, 1), got shape {tuple(x.shape)}. Choose a time and a "
                "channel."
            )
        x = outside_functional_transform(x.detach(), "field")
        slopes = (jacobian @ x).cpu().double()[:, :, 0]
        cloud = bundle.cloud
        self.values = x.cpu().double()[:, :, 0]
        self.slopes = slopes.unflatten(1, (bundle.dim, bundle.dim))
        self.points = cloud.in_user_order(cloud.points).cpu()
        assert bundle.tangent_frames is not None, "derivatives need frames"
        self.frames = cloud.in_user_order(bundle.tangent_frames.matrices).cpu()
        self._tree = cKDTree(self.points.numpy())
        self._min_speed = NO_SPEED * float(self.values.abs().max()) + 1e-300

    def nearest_points(self, x: Tensor) -> Tensor:
        """The numbers of the points that are nearest to places ``(m, D)``."""
        _, indices = self._tree.query(x.numpy())
        return torch.from_numpy(indices)

    def steps_to_zeros(self) -> tuple[Tensor, Tensor]:
        """From each point to the zero of the linear field around it: coordinates ``(n, d)``,
        infinite where there is no single zero, and the determinants of the derivatives ``(n,)``."""
        determinants = torch.linalg.det(self.slopes)
        squares = self.slopes.square().sum(dim=(1, 2))
        is_regular = determinants.abs() > MIN_DETERMINANT * squares
        steps = torch.full_like(self.values, torch.inf)
        steps[is_regular] = -torch.linalg.solve(self.slopes[is_regular], self.values[is_regular])
        return steps, determinants

    def on_planes(self, numbers: Tensor, coordinates: Tensor) -> Tensor:
        """Displacements ``(m, D)`` with coordinates ``(m, d)`` in the frames of points."""
        return (self.frames[numbers] @ coordinates[:, :, None])[:, :, 0]

    def landed(self, places: np.ndarray) -> np.ndarray:
        """The nearest places on the tangent planes."""
        x = torch.from_numpy(places)
        numbers = self.nearest_points(x)
        return (
            self.points[numbers] + self.on_planes(numbers, self._coordinates(numbers, x))
        ).numpy()

    def directions(self, places: np.ndarray, headings: np.ndarray) -> np.ndarray:
        directions = self.all_directions(places)
        agreement = np.einsum("kmd,md->km", directions, headings)
        return directions[agreement.argmax(axis=0), np.arange(len(places))]

    def all_directions(self, places: np.ndarray) -> np.ndarray:
        """All directions at places as unit vectors ``(order, m, D)``; shorter where the field
        vanishes."""
        x = torch.from_numpy(places)
        numbers = self.nearest_points(x)
        coordinates = self._coordinates(numbers, x)
        values = self.values[numbers] + (self.slopes[numbers] @ coordinates[:, :, None])[:, :, 0]
        speeds = torch.linalg.vector_norm(values, dim=1, keepdim=True)
        if self.order == 1:
            units = values[None] / speeds.clamp_min(self._min_speed)
        else:
            units = (speeds / self._min_speed).clamp_max(1.0) * representatives(values, self.order)
        return torch.stack([self.on_planes(numbers, unit) for unit in units]).numpy()

    def _coordinates(self, numbers: Tensor, x: Tensor) -> Tensor:
        """Places ``(m, D)`` in the tangent planes of points, ``(m, d)``."""
        displacements = x - self.points[numbers]
        return (self.frames[numbers].mT @ displacements[:, :, None])[:, :, 0]


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
    flow = _LinearFlow(bundle, field, order=1)
    radius = bundle.eps**0.5
    steps, determinants = flow.steps_to_zeros()
    distances = torch.linalg.vector_norm(steps, dim=1)
    is_near = distances < radius
    steps[~is_near] = 0.0
    zeros = flow.points + flow.on_planes(torch.arange(len(steps)), steps)
    candidates = (flow.values.any(dim=1) & is_near).nonzero().flatten()
    for _ in range(NEWTON_STEPS):
        if len(candidates):
            candidates = flow.nearest_points(zeros[candidates]).unique()
        candidates = candidates[is_near[candidates]]
    nearest_first = candidates[distances[candidates].argsort(stable=True)]
    distinct = _distinct(nearest_first, zeros, determinants.sign(), radius)
    index = determinants[distinct].sign().long().numpy()
    check = check_indices(bundle, index, euler)
    return SingularPoints(
        positions=zeros[distinct].numpy(), index=index, euler=check.euler, check=check.text
    )


def _distinct(candidates: Tensor, zeros: Tensor, signs: Tensor, radius: float) -> Tensor:
    """The first of all candidates that see the same of the ``zeros`` (n, D): of one sign and half a
    radius apart."""
    distinct: list[int] = []
    for i in candidates.tolist():
        distances = torch.linalg.vector_norm(zeros[distinct] - zeros[i], dim=1)
        is_same = (distances < radius / 2) & (signs[distinct] == signs[i])
        if not bool(is_same.any()):
            distinct.append(i)
    return torch.tensor(distinct, dtype=torch.int64)


@dataclass(frozen=True)
class IndexCheck:
    """The Euler characteristic, if it is known, and how the sum of the indices compares with it."""

    euler: int | None
    text: str


def check_indices(bundle: TangentBundle, index: np.ndarray, euler: int | None) -> IndexCheck:
    """Compare the indices with an Euler characteristic, by default with that of the bundle."""
    total = round(float(index.sum()), 6)
    known = EulerCharacteristic(euler)
    if euler is None:
        known = _euler_characteristic(bundle)
    if known.number is None:
        text = f"the sum of the indices, {total:g}, is not checked: {known.reason}"
        is_closed = bundle.weights.mesh is None and not has_boundary(bundle)
        if len(index) and is_closed:
            warn(f"zeros may be missing or spurious: {text}.", AccuracyWarning)
    elif total == known.number:
        text = f"the indices sum to {total:g}, the Euler characteristic"
    else:
        text = (
            f"the indices of the {len(index)} zeros sum to {total:g}, and those of all zeros to "
            f"the Euler characteristic, {known.number}: zeros are missing or spurious. The field "
            "or the points are noisy, or too coarse for the field: denoise them, or use more points"
        )
        warn(f"{text}.", AccuracyWarning)
    return IndexCheck(known.number, text)


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
    order: int = 1,
    branch: int = 0,
    backward: bool = False,
) -> Array:
    """Lines ``(m, steps + 1, D)`` that follow the direction of a field ``(n, d, 1)`` from starting
    points ``(m, D)``.

    Each step goes a fixed length along the field (midpoint rule), which is linear around each
    sampled point, and back onto its tangent plane; default a quarter of the bundle's radius. Lines
    stop where the field vanishes.

    With an ``order`` n the field are the powers of directions with n representatives; lines begin
    along that of number ``branch`` and go on along the nearest one. ``backward`` lines go against
    the field.
    """
    flow = _LinearFlow(bundle, field, order)
    x, _ = points_array(starts, "starts")
    if x.shape[1] != bundle.ambient_dim:
        raise ShapeError(
            f"starts must have shape (m, D) = (m, {bundle.ambient_dim}), got {x.shape}."
        )
    if not 0 <= branch < flow.order:
        raise InvalidInputError(f"branch must lie between 0 and {flow.order - 1}, got {branch!r}.")
    if step is None:
        length = bundle.eps**0.5 / 4
    else:
        length = positive(step, "step")
    if backward:
        length = -length
    places = flow.landed(x)
    line = trace(
        flow,
        places,
        flow.all_directions(places)[branch],
        steps=positive_integer(steps, "steps"),
        length=length,
    )
    return flow.kind.wrap(torch.from_numpy(np.stack(line, axis=1)))
