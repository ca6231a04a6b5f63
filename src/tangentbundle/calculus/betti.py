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

from ..arrays import host
from ..errors import (
    AccuracyWarning,
    NotOrientableError,
    TangentBundleError,
    UndeterminedError,
    warn,
)
from .curvature import hodge_laplacian
from .derivatives import Derivatives
from .topology import consistent_signs, has_boundary

if TYPE_CHECKING:
    from ..bundle import TangentBundle

HAS_BOUNDARY = (
    "the manifold has a boundary, where the Hodge Laplacian has a condition of its own: the "
    "number of its harmonic fields is not a Betti number."
)
NOT_ORIENTABLE = (
    "the surface is not orientable, or noise hides its orientation: fields with small eigenvalues "
    "that are not harmonic may be counted."
)

MAX_EULER_POINTS = 10_000
"""The largest number of points of which the Betti number is computed unasked: ten seconds or so."""

MAX_LEVEL = 2.0
"""Gradients count up to so many times the upper end of the gap: the errors of eigenvalues grow with
them."""

MIN_CAPTURED = 0.1
"""A gradient counts if the eigenfields that were computed have this share of its energy, also where
some of its own level are missing."""


@dataclass(frozen=True)
class BettiEstimate:
    """The result of ``estimate_betti_number``.

    Attributes: ``number``, the first Betti number, None if it is undetermined; ``confidence``, from
    0 to 1: how far the eigenvalue next to the threshold is from it, in halves of the gap, after the
    uncertainty of the eigenvalues; ``reason``, why the number is undetermined, or without
    confidence; ``shift``, by how much the eigenvalues of fields are too large, in units of the gap.
    """

    number: int | None
    confidence: float
    reason: str
    shift: float

    def __str__(self) -> str:
        if self.number is None:
            return f"undetermined: {self.reason}"
        note = f"; {self.reason}" if self.reason else ""
        return f"{self.number} (confidence {self.confidence:.2f}{note})"


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
    for each function below.

    Noise shifts the eigenvalues of fields. The shift is measured on gradients of eigenfunctions,
    whose eigenvalues are known, and subtracted. Its spread among these, and a share of it, since
    noise does not shift all fields alike, are the uncertainty of an eigenvalue. The number is
    undetermined where an eigenvalue is too near to the threshold for ``min_confidence``, or where
    the number of harmonic fields of a closed oriented surface would be odd. On spaces with a
    boundary, and on surfaces that are not orientable, small eigenvalues are counted with an
    ``AccuracyWarning``, and the confidence is zero.

    Args:
        most: the number is at most this; a third of so many eigenvalues of functions are looked at.
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
    components = bundle.sorted_graph.num_components
    is_closed = not has_boundary(bundle)
    values, functions = (
        bundle.scalar().laplacian().spectrum(components + max(1, most // 3), tol=1e-6)
    )
    levels = host(values)[components - 1 :]
    is_orientable = _is_orientable(bundle)
    pairs_below = 0
    if bundle.dim == 2 and is_closed and is_orientable:
        pairs_below = int(np.argmax(np.diff(levels)))
    gap = _Gap(float(levels[pairs_below]), float(levels[pairs_below + 1]), pairs_below)
    values, fields = hodge_laplacian(bundle).spectrum(most + 2 * pairs_below, tol=1e-6)
    if not is_closed or not is_orientable:
        reason = NOT_ORIENTABLE if is_closed else HAS_BOUNDARY
        warn(reason, AccuracyWarning)
        return BettiEstimate(int((host(values) < gap.middle).sum()), 0.0, reason, float("nan"))
    counted = levels[1:] <= MAX_LEVEL * gap.high
    gradients = Derivatives(bundle).gradient() @ functions[..., components:][..., counted]
    shifts = _shifts_of_gradients(bundle, levels[1:][counted], gradients, host(values), fields)
    if not len(shifts):
        reason = (
            "no gradient of a function is among the eigenfields of the Hodge Laplacian. Use "
            "more points."
        )
        return BettiEstimate(None, 0.0, reason, float("nan"))
    shift = float(np.median(shifts))
    uncertainty = float(np.abs(shifts - shift).max()) + shift_error * abs(shift)
    corrected = host(values) - shift
    margin = float(np.abs(corrected - gap.middle).min()) - uncertainty
    confidence = float(np.clip(2 * margin / gap.width, 0.0, 1.0))
    number = int((corrected < gap.middle).sum()) - 2 * pairs_below
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
    if reason:
        reason += (
            f"Gradients of functions have eigenvalues that are off by {shift / gap.width:.2g} "
            f"times the gap, give or take {uncertainty / gap.width:.2g}: the points are noisy, or "
            "too few for their curvature. Use more points, denoise them, or give exact frames and "
            "curvature (from_frames with second_form)."
        )
    return BettiEstimate(None if reason else number, confidence, reason, shift / gap.width)


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
