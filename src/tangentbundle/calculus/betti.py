r"""The first Betti number of a closed manifold, as the number of harmonic fields, and how sure it
is.

The gradient of an eigenfunction of functions is an eigenfield of the Hodge Laplacian with the same
eigenvalue. Noise of the points, and curvature that they do not resolve, shift the eigenvalues of
fields nearly alike. The gradients show by how much: their eigenvalues, as the Hodge Laplacian has
them, are compared with those of their functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..arrays import Array, median, positive_integer
from ..errors import (
    ConvergenceError,
    NotOrientableError,
    RankDeficientError,
    TangentBundleError,
    TooFewPointsError,
    UndeterminedError,
)
from ..operators.spectrum import interval_of_average
from .boundary import has_boundary
from .curvature import hodge_laplacian
from .derivatives import Derivatives
from .orientation import consistent_signs

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MAX_LEVEL = 2.0
"""Gradients count up to so many times the upper end of the gap, or until they span the tangent
spaces: the errors of eigenvalues grow with them."""

HAS_BOUNDARY = (
    "the points end at a boundary, where harmonic fields are not counted by a Betti number. Give "
    "points that cover a closed manifold, more of them, or with less noise."
)
NOT_ORIENTABLE = (
    "the surface is not orientable, or noise hides its orientation: its eigenvalues of fields are "
    "not those of functions twice. Give points of an oriented surface, more of them, or with less "
    "noise."
)
NOT_RESOLVED = (
    "the Hodge Laplacian has strongly negative eigenvalues: neighbourhoods are larger than the "
    "radius of the estimated negative curvature. Use more points, denoise them, or give exact "
    "frames and curvature (from_frames with second_form)."
)
NO_GRADIENTS = (
    "gradients of functions are not among the eigenfields of the Hodge Laplacian, which should "
    "have them: the points are noisy, or too few for their curvature. Use more points, denoise "
    "them, or give exact frames and curvature (from_frames with second_form)."
)

NO_SPAN = (
    "gradients of the first functions do not span the tangent spaces, so that the errors of other "
    "fields are not known: the manifold is much thinner in some directions. Use a larger most, "
    "so that more functions are looked at."
)

MAX_EULER_POINTS = 10_000
"""The largest number of points of which the Betti number is computed unasked: ten seconds or so."""

MAX_AVERAGE = 2.0
"""Largest eigenvalue of the average of a Hodge Laplacian: up to it the series of two terms,
(1 - p) + (1 - p)^2 / 2, falls with p, and beyond it would come back to zero."""

MIN_SHARE_OF_GRADIENTS = 0.5
"""Share of the gradients that must count: fewer, and the shift of the others is not known."""

MIN_SPAN = 0.1
"""How evenly gradients must span the tangent spaces: on round spheres one, and on products with a
thin factor nearly zero, as all of them are along the others."""

EIGENPAIR_TOLERANCE = 1e-6
"""Residuals of eigenpairs, in units of an average: far below the errors of sampling."""

MIN_CAPTURED = 0.1
"""A gradient counts if the eigenfields that were computed have this share of its energy, also where
some of its own level are missing."""


@dataclass(frozen=True)
class BettiEstimate:
    """The result of ``estimate_betti_number``.

    Attributes: ``number``, the first Betti number, None if it is undetermined; ``confidence``, from
    0 to 1: how far the eigenvalue next to a threshold is from it, in halves of the gap, after the
    uncertainty of the eigenvalues; ``reason``, why the number is undetermined, otherwise empty;
    ``shift``, by how much the eigenvalues of fields are too large, in units of the gap, NaN where
    it was not measured.
    """

    number: int | None
    confidence: float
    reason: str
    shift: float

    def __str__(self) -> str:
        if self.number is None:
            return f"undetermined: {self.reason}"
        return f"{self.number} (confidence {self.confidence:.2f})"


def _undetermined(reason: str) -> BettiEstimate:
    return BettiEstimate(number=None, confidence=0.0, reason=reason, shift=float("nan"))


def estimate_betti_number(
    bundle: TangentBundle, *, most: int = 12, min_confidence: float = 0.25, shift_error: float = 0.1
) -> BettiEstimate:
    r"""The first Betti number of a closed manifold, the number of independent harmonic fields, with
    its confidence.

    Eigenvalues of the Hodge Laplacian below half of the first positive eigenvalue of functions
    count as zero. On closed oriented surfaces each positive eigenvalue of functions occurs twice:
    there fields are counted up to the middle of the widest gap among the first of these, less two
    for each function below, and all eigenvalues are compared with this pattern.

    Noise shifts the eigenvalues of fields. The shift is measured on gradients of eigenfunctions,
    whose eigenvalues are known, and subtracted. Its spread among these, and a share of it, since
    noise does not shift all fields alike, are the uncertainty of an eigenvalue. The number is
    undetermined, with the reason, where

    * the manifold has a boundary, or is a surface that is not orientable,
    * an eigenvalue is too near to the threshold for ``min_confidence``, or far below zero, where
      the Hodge Laplacian of a manifold has none,
    * the eigenvalues of a surface are not those of its functions twice, or the number of its
      harmonic fields would be odd; or closed curves would not have one each,
    * the Hodge Laplacian has not the gradients of functions among its eigenfields, or its
      eigenfields are not found,
    * beyond surfaces, the gradients do not span all directions.

    Beyond surfaces, eigenvalues of fields that are no gradients are not known from functions: those
    far below the first of functions are taken for zero, as on strongly squashed spheres.

    Args:
        most: the number is at most this; a third of so many eigenvalues of functions are looked
            at, and beyond surfaces up to so many, until their gradients span all directions.
        min_confidence: least confidence of a number.
        shift_error: share of the shift by which those of single fields differ; measured on spheres
            and tori with noise, up to 0.06.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Torus(1.0, 0.4).sample(1500, seed=0)
    >>> estimate_betti_number(tb.TangentBundle.from_points(points, dim=2)).number
    2
    >>> noisy = points + 0.03 * np.random.default_rng(0).standard_normal(points.shape)
    >>> estimate_betti_number(tb.TangentBundle.from_points(noisy, dim=2)).number
    2
    """
    most = positive_integer(most, "most")
    if has_boundary(bundle):
        return _undetermined(HAS_BOUNDARY)
    if not _is_orientable(bundle):
        return _undetermined(NOT_ORIENTABLE)
    try:
        functions = _Functions.of(bundle, most)
        fields = _Fields.of(bundle, most, functions)
        shift = _shift(bundle, most, functions=functions, fields=fields, shift_error=shift_error)
    except (
        ConvergenceError,
        RankDeficientError,
        TooFewPointsError,
        UndeterminedError,
    ) as error:
        return _undetermined(str(error))
    return _compared(functions, fields.values, shift, dim=bundle.dim, min_confidence=min_confidence)


def _is_orientable(bundle: TangentBundle) -> bool:
    """Whether a surface is; other manifolds need not be looked at."""
    if bundle.dim != 2:
        return True
    try:
        consistent_signs(bundle)
    except NotOrientableError:
        return False
    return True


# Eigenvalues of functions and of fields.


@dataclass(frozen=True, eq=False)
class _Functions:
    """The lowest eigenfunctions of a manifold.

    Attributes: ``components``, of which each has a constant; ``levels`` (k,), the eigenvalues, the
    first of them zero; ``fields`` (n, 1, k - 1), the eigenfunctions of the others; ``pairs_below``,
    how many positive levels lie below the gap, in which eigenvalues of fields are told apart.
    """

    components: int
    levels: Tensor
    fields: Tensor
    pairs_below: int

    @classmethod
    def of(cls, bundle: TangentBundle, most: int) -> _Functions:
        """As many as are looked at for up to ``most`` harmonic fields; clouds with fewer points are
        refused."""
        components = bundle.sorted_graph.num_components
        num_levels = _num_levels(bundle.dim, most)
        max_fields = _max_fields(bundle.dim, most)
        has_fields = bundle.num_points * bundle.dim >= max_fields
        has_functions = bundle.num_points >= components + num_levels
        if not (has_fields and has_functions):
            raise TooFewPointsError(
                f"expected {max_fields} eigenvalues of fields and {num_levels} of functions, more "
                f"than {bundle.num_points} points have. Use more points, or a lower number of most."
            )
        laplacian = bundle.scalar().laplacian()
        values, fields = laplacian.spectrum(components - 1 + num_levels, tol=EIGENPAIR_TOLERANCE)
        levels = _cpu_eigenvalues(values)[components - 1 :]
        pairs_below = 0
        if bundle.dim == 2:
            pairs_below = int(levels.diff().argmax())
        return cls(
            components=components,
            levels=levels,
            fields=torch.as_tensor(fields)[..., components:],
            pairs_below=pairs_below,
        )

    @property
    def positive_levels(self) -> Tensor:
        """Eigenvalues ``(k - 1,)`` of functions that are not constant on each component."""
        return self.levels[1:]

    @property
    def lower_end(self) -> float:
        """The level below the gap."""
        return float(self.levels[self.pairs_below])

    @property
    def upper_end(self) -> float:
        """The level above the gap."""
        return float(self.levels[self.pairs_below + 1])

    @property
    def middle_of_gap(self) -> float:
        return (self.lower_end + self.upper_end) / 2

    @property
    def width_of_gap(self) -> float:
        return self.upper_end - self.lower_end


def _num_levels(dim: int, most: int) -> int:
    """How many levels of functions are looked at, zero included."""
    if dim <= 2:
        return 1 + max(1, most // 3)
    return 1 + most


def _max_fields(dim: int, most: int) -> int:
    """The largest number of eigenfields that may be needed."""
    if dim <= 2:
        return most + 2 * (_num_levels(dim, most) - 2)
    return most * dim


@dataclass(frozen=True, eq=False)
class _Fields:
    """The lowest eigenvalues ``values`` (m,) and eigenfields ``fields`` (n, d, m) of the Hodge
    Laplacian."""

    values: Tensor
    fields: Tensor

    @classmethod
    def of(cls, bundle: TangentBundle, most: int, functions: _Functions) -> _Fields:
        """As many as can be harmonic, or belong to levels of functions below the gap."""
        hodge = hodge_laplacian(bundle)
        _, largest_average = interval_of_average(hodge)
        if largest_average > MAX_AVERAGE:
            raise UndeterminedError(NOT_RESOLVED)
        num_fields = _max_fields(bundle.dim, most)
        if bundle.dim == 2:
            num_fields = most + 2 * functions.pairs_below
        values, fields = hodge.spectrum(num_fields, tol=EIGENPAIR_TOLERANCE)
        return cls(values=_cpu_eigenvalues(values), fields=torch.as_tensor(fields).double())


def _cpu_eigenvalues(values: Array) -> Tensor:
    """Eigenvalues as a tensor on the CPU, in float64."""
    return torch.as_tensor(values).double().cpu()


# The shift of the eigenvalues of fields.


@dataclass(frozen=True)
class _Shift:
    """By how much eigenvalues of fields are too large, and how far those of single fields may be
    from it."""

    value: float
    uncertainty: float


def _shift(
    bundle: TangentBundle,
    most: int,
    *,
    functions: _Functions,
    fields: _Fields,
    shift_error: float,
) -> _Shift:
    """The median shift of gradients of functions; their spread, and a share of it."""
    levels = functions.positive_levels
    gradients = torch.as_tensor(Derivatives(bundle).gradient() @ functions.fields).double()
    mass = bundle.laplacian().mass.double()
    are_low = levels[: max(1, most // 3)] <= MAX_LEVEL * functions.upper_end
    num_counted = int(are_low.sum())
    if bundle.dim > 2:
        num_counted = _number_that_spans(mass, gradients, num_counted)
    shifts = _shifts_of_gradients(mass, levels[:num_counted], gradients[..., :num_counted], fields)
    if len(shifts) < MIN_SHARE_OF_GRADIENTS * num_counted:
        raise UndeterminedError(NO_GRADIENTS)
    value = median(shifts)
    spread = float((shifts - value).abs().max())
    return _Shift(value=value, uncertainty=spread + shift_error * abs(value))


def _number_that_spans(mass: Tensor, gradients: Tensor, least: int) -> int:
    """How many of the ``gradients`` (n, d, k), at least ``least``, span the tangent spaces."""
    for number in range(least, gradients.shape[-1] + 1):
        if _span(mass, gradients[..., :number]) >= MIN_SPAN:
            return number
    raise UndeterminedError(NO_SPAN)


def _span(mass: Tensor, fields: Tensor) -> float:
    r"""How evenly fields ``(n, d, k)`` span the tangent spaces, from 0 to 1: the mean of the least
    eigenvalue of :math:`\sum_k v_k v_k^T` over that of its mean eigenvalue, for fields of one
    energy."""
    energies = torch.einsum("n,ndk->k", mass, fields.square())
    tensors = torch.einsum("ndk,nek,k->nde", fields, fields, 1.0 / energies)
    eigenvalues = torch.linalg.eigvalsh(tensors)
    return float(mass @ eigenvalues[:, 0] / (mass @ eigenvalues.mean(dim=1)))


def _shifts_of_gradients(
    mass: Tensor, levels: Tensor, gradients: Tensor, fields: _Fields
) -> Tensor:
    """By how much the eigenvalues of ``gradients`` (n, d, k) exceed those of their functions,
    ``levels`` (k,); of those gradients that count.

    That of a gradient is the median of the eigenvalues of fields, weighted by its energy in each: a
    smaller part, due to errors of the derivatives, does not count.
    """
    products = torch.einsum("n,ndm,ndk->mk", mass, fields.fields, gradients).cpu()
    energies = torch.einsum("n,ndk->k", mass, gradients.square()).cpu()
    captured_by_each = products.square()
    captured = captured_by_each.sum(dim=0)
    counts = captured > MIN_CAPTURED * energies
    shares = captured_by_each[:, counts].cumsum(dim=0) / captured[counts]
    places_of_medians = (shares < 0.5).sum(dim=0)
    return fields.values[places_of_medians] - levels[counts]


# The comparison.


def _compared(
    functions: _Functions, values: Tensor, shift: _Shift, *, dim: int, min_confidence: float
) -> BettiEstimate:
    """The number of harmonic fields from the eigenvalues of fields ``values`` (m,)."""
    corrected = values - shift.value
    width = functions.width_of_gap
    number = int((corrected < functions.middle_of_gap).sum()) - 2 * functions.pairs_below
    margin = _margin(functions, corrected) - shift.uncertainty
    if dim == 2 and number >= 0:
        margin = min(margin, width / 2 - _mismatch_of_pairs(functions, corrected, number))
    confidence = min(max(2 * margin / width, 0.0), 1.0)
    relative_shift = shift.value / width
    contradiction = _contradiction(functions, number, dim=dim)
    if confidence < min_confidence:
        contradiction = (
            "the Hodge Laplacian has eigenvalues where functions have none, so that harmonic "
            f"fields are not separated from others (confidence {confidence:.2f})"
        )
    if contradiction is None:
        return BettiEstimate(number, confidence, reason="", shift=relative_shift)
    reason = (
        f"{contradiction}. Gradients of functions have eigenvalues that are off by "
        f"{relative_shift:.2g} times the gap, give or take {shift.uncertainty / width:.2g}: the "
        "points are noisy, or too few for their curvature. Use more points, denoise them, or give "
        "exact frames and curvature (from_frames with second_form)."
    )
    return BettiEstimate(None, confidence, reason, relative_shift)


def _margin(functions: _Functions, corrected: Tensor) -> float:
    """How far the corrected eigenvalues of fields are, at least, from the middle of the gap, and
    from half a gap below zero."""
    from_middle = float((corrected - functions.middle_of_gap).abs().min())
    from_below = float(corrected.min()) + functions.width_of_gap / 2
    return min(from_middle, from_below)


def _mismatch_of_pairs(functions: _Functions, corrected: Tensor, number: int) -> float:
    """How far the corrected eigenvalues of fields on a closed oriented surface are, at most, from
    those of functions twice, the positive ones up to the gap, after ``number`` zeros."""
    up_to_gap = functions.positive_levels[: functions.pairs_below + 1]
    expected = torch.cat([corrected.new_zeros(number), up_to_gap.repeat_interleave(2)])
    count = min(len(expected), len(corrected))
    return float((corrected[:count] - expected[:count]).abs().max())


def _contradiction(functions: _Functions, number: int, *, dim: int) -> str | None:
    """What speaks against a number of harmonic fields on a closed manifold, if anything does."""
    counted = f"{number} harmonic fields would be counted"
    if number < 0 or (dim == 2 and number % 2 == 1):
        return f"{counted}, and a closed oriented surface has an even number"
    if dim == 1 and number != functions.components:
        return f"{counted}, and {functions.components} closed curves have one each"
    return None


def betti_number(bundle: TangentBundle, *, most: int = 12, min_confidence: float = 0.25) -> int:
    r"""The first Betti number of a closed manifold: the number of independent harmonic fields.

    It raises ``UndeterminedError``, with the reason, where the points do not determine the number;
    ``estimate_betti_number``, which explains the arguments, returns the reason instead, or the
    confidence.

    >>> import tangentbundle as tb
    >>> betti_number(
    ...     tb.TangentBundle.from_points(tb.manifolds.Torus(1.0, 0.4).sample(2000, seed=0))
    ... )
    2
    """
    estimate = estimate_betti_number(bundle, most=most, min_confidence=min_confidence)
    if estimate.number is None:
        raise UndeterminedError(f"the first Betti number is undetermined: {estimate.reason}")
    return estimate.number


@dataclass(frozen=True)
class EulerCharacteristic:
    """The result of ``euler_characteristic``: the ``number``, None if it is not known, and then the
    ``reason``."""

    number: int | None
    reason: str = ""


def euler_characteristic(bundle: TangentBundle) -> EulerCharacteristic:
    r"""The Euler characteristic of a closed surface: 2 for a sphere, 0 for a torus, -2 for two
    handles.

    Of a mesh it is the number of vertices less that of edges plus that of triangles. If the
    curvature is known exactly and positive, each component is a sphere. Otherwise it is twice the
    number of components less the first Betti number, of a cloud with at most ``MAX_EULER_POINTS``
    points.

    >>> import tangentbundle as tb
    >>> euler_characteristic(
    ...     tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(500, seed=0), dim=2)
    ... ).number
    2
    """
    if bundle.dim != 2:
        return EulerCharacteristic(
            None, f"it is looked for on surfaces, d = 2, and here d = {bundle.dim}"
        )
    if has_boundary(bundle):
        return EulerCharacteristic(None, "the surface has a boundary")
    mesh = bundle.weights.mesh
    if mesh is not None:
        num_edges = 3 * len(mesh.faces) // 2
        return EulerCharacteristic(bundle.num_points - num_edges + len(mesh.faces))
    components = bundle.sorted_graph.num_components
    if bundle.second_form is not None:
        gaussian = torch.as_tensor(bundle.curvature().gaussian)
        if bool((gaussian > 0).all()):
            return EulerCharacteristic(2 * components)
    if bundle.num_points > MAX_EULER_POINTS:
        return EulerCharacteristic(None, f"the surface has more than {MAX_EULER_POINTS} points")
    if not _is_orientable(bundle):
        return EulerCharacteristic(None, "the surface is not orientable")
    try:
        estimate = estimate_betti_number(bundle)
    except TangentBundleError as error:  # too few points, or no convergence
        return EulerCharacteristic(None, str(error))
    if estimate.number is None:
        return EulerCharacteristic(
            None, f"the first Betti number is undetermined: {estimate.reason}"
        )
    return EulerCharacteristic(2 * components - estimate.number)
