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

import numpy as np
import torch

from ..arrays import host, positive_integer
from ..errors import (
    ConvergenceError,
    NotOrientableError,
    RankDeficientError,
    TangentBundleError,
    TooFewPointsError,
    UndeterminedError,
)
from ..operators.spectrum import interval_of_average
from .curvature import hodge_laplacian
from .derivatives import Derivatives
from .topology import consistent_signs, has_boundary

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
    return BettiEstimate(None, 0.0, reason, float("nan"))


@dataclass(frozen=True)
class _Gap:
    """The eigenvalues of functions between which those of fields are told apart."""

    low: float
    high: float
    pairs_below: int

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def width(self) -> float:
        return self.high - self.low


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
        return _estimate(bundle, most, min_confidence, shift_error)
    except (
        ConvergenceError,
        RankDeficientError,
        TooFewPointsError,
        UndeterminedError,
    ) as error:
        return _undetermined(str(error))


def _estimate(
    bundle: TangentBundle, most: int, min_confidence: float, shift_error: float
) -> BettiEstimate:
    """The estimate for a closed manifold, oriented if it is a surface."""
    components = bundle.sorted_graph.num_components
    num_levels = 1 + max(1, most // 3) if bundle.dim <= 2 else 1 + most
    max_fields = most + 2 * (num_levels - 2) if bundle.dim <= 2 else most * bundle.dim
    if bundle.num_points * bundle.dim < max_fields or bundle.num_points < components + num_levels:
        raise TooFewPointsError(
            f"expected {max_fields} eigenvalues of fields and {num_levels} of functions, more than "
            f"{bundle.num_points} points have. Use more points, or a lower number of most."
        )
    values, functions = (
        bundle.scalar().laplacian().spectrum(components - 1 + num_levels, tol=EIGENPAIR_TOLERANCE)
    )
    levels = host(values)[components - 1 :]
    pairs_below = 0
    num_fields = max_fields
    if bundle.dim == 2:
        pairs_below = int(np.argmax(np.diff(levels)))
        num_fields = most + 2 * pairs_below
    gap = _Gap(float(levels[pairs_below]), float(levels[pairs_below + 1]), pairs_below)
    hodge = hodge_laplacian(bundle)
    if interval_of_average(hodge)[1] > MAX_AVERAGE:
        return _undetermined(NOT_RESOLVED)
    values, fields = hodge.spectrum(num_fields, tol=EIGENPAIR_TOLERANCE)
    levels = levels[1:]
    gradients = Derivatives(bundle).gradient() @ functions[..., components:]
    num_counted = int((levels[: max(1, most // 3)] <= MAX_LEVEL * gap.high).sum())
    if bundle.dim > 2:
        num_counted = _number_that_spans(bundle, gradients, num_counted)
    if num_counted > len(levels):
        return _undetermined(NO_SPAN)
    shifts = _shifts_of_gradients(
        bundle, levels[:num_counted], gradients[..., :num_counted], host(values), fields
    )
    if len(shifts) < MIN_SHARE_OF_GRADIENTS * num_counted:
        return _undetermined(NO_GRADIENTS)
    shift = float(np.median(shifts))
    uncertainty = float(np.abs(shifts - shift).max()) + shift_error * abs(shift)
    corrected = host(values) - shift
    number = int((corrected < gap.middle).sum()) - 2 * pairs_below
    distance_above = float(np.abs(corrected - gap.middle).min())
    distance_below = float(corrected.min()) + gap.width / 2
    margin = min(distance_above, distance_below) - uncertainty
    if bundle.dim == 2 and number >= 0:
        mismatch = _mismatch_of_pairs(corrected, levels[: pairs_below + 1], number)
        margin = min(margin, gap.width / 2 - mismatch)
    confidence = float(np.clip(2 * margin / gap.width, 0.0, 1.0))
    reason = ""
    if confidence < min_confidence:
        reason = (
            "the Hodge Laplacian has eigenvalues where functions have none, so that harmonic "
            f"fields are not separated from others (confidence {confidence:.2f}). "
        )
    elif number < 0 or (bundle.dim == 2 and number % 2 == 1):
        reason = (
            f"{number} harmonic fields would be counted, and a closed oriented surface has "
            "an even number. "
        )
    elif bundle.dim == 1 and number != components:
        reason = (
            f"{number} harmonic fields would be counted, and {components} closed curves have one "
            "each. "
        )
    if reason:
        reason += (
            f"Gradients of functions have eigenvalues that are off by {shift / gap.width:.2g} "
            f"times the gap, give or take {uncertainty / gap.width:.2g}: the points are noisy, or "
            "too few for their curvature. Use more points, denoise them, or give exact frames and "
            "curvature (from_frames with second_form)."
        )
    return BettiEstimate(None if reason else number, confidence, reason, shift / gap.width)


def _number_that_spans(bundle: TangentBundle, gradients: torch.Tensor, least: int) -> int:
    """How many of the ``gradients`` (n, d, k), at least ``least``, span the tangent spaces; k + 1
    if all do not."""
    number = least
    while number <= gradients.shape[-1] and _span(bundle, gradients[..., :number]) < MIN_SPAN:
        number += 1
    return number


def _span(bundle: TangentBundle, gradients: torch.Tensor) -> float:
    r"""How evenly fields ``(n, d, k)`` span the tangent spaces, from 0 to 1: the mean of the least
    eigenvalue of :math:`\sum_k v_k v_k^T` over that of its mean eigenvalue, for fields of one
    energy."""
    mass = torch.as_tensor(bundle.laplacian().mass).double()
    fields = torch.as_tensor(gradients).double()
    energies = torch.einsum("n,ndk->k", mass, fields.square())
    tensors = torch.einsum("ndk,nek,k->nde", fields, fields, 1.0 / energies)
    eigenvalues = torch.linalg.eigvalsh(tensors)
    return float(mass @ eigenvalues[:, 0] / (mass @ eigenvalues.mean(dim=1)))


def _mismatch_of_pairs(values: np.ndarray, levels: np.ndarray, number: int) -> float:
    """How far eigenvalues of fields on a closed oriented surface are, at most, from those of
    functions twice, the positive ``levels`` up to the gap, after ``number`` zeros."""
    expected = np.concatenate([np.zeros(number), np.repeat(levels, 2)])
    count = min(len(expected), len(values))
    return float(np.abs(values[:count] - expected[:count]).max())


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
    components = bundle.sorted_graph.num_components
    if bundle.mesh is not None:
        faces = bundle.mesh.faces
        return EulerCharacteristic(bundle.num_points - 3 * len(faces) // 2 + len(faces))
    if bundle.second_form is not None and bool(
        (torch.as_tensor(bundle.curvature().gaussian) > 0).all()
    ):
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


def _is_orientable(bundle: TangentBundle) -> bool:
    """Whether a surface is; other manifolds need not be looked at."""
    if bundle.dim != 2:
        return True
    try:
        consistent_signs(bundle)
    except NotOrientableError:
        return False
    return True


def _shifts_of_gradients(
    bundle: TangentBundle,
    levels: np.ndarray,
    gradients: torch.Tensor,
    values: np.ndarray,
    fields: torch.Tensor,
) -> np.ndarray:
    """By how much the eigenvalues of ``gradients`` (n, d, k) exceed those of their functions,
    ``levels`` (k,).

    That of a gradient is the median of the ``values`` (m,) of eigenfields, ascending, weighted by
    its energy in each: a smaller part, due to errors of the derivatives, does not count.
    """
    gradients, fields = (torch.as_tensor(part).double() for part in (gradients, fields))
    mass = torch.as_tensor(bundle.laplacian().mass).double()
    products = host(torch.einsum("n,ndm,ndk->mk", mass, fields, gradients))
    energies = host(torch.einsum("n,ndk->k", mass, gradients.square()))
    parts = np.square(products)
    captured = parts.sum(axis=0)
    enough = captured > MIN_CAPTURED * energies
    shares = np.cumsum(parts[:, enough], axis=0) / captured[enough]
    return values[(shares < 0.5).sum(axis=0)] - levels[enough]
