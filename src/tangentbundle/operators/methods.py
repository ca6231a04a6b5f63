"""How a bank of filters is evaluated on an operator: by eigenfields, Chebyshev polynomials, or
cached matrices.

A bank is several filters on one signal (``apply``), or their sum on several signals (``merge``). A
method knows an operator by the hooks of ``SquareOperator``: its ``eigenbasis`` (``Exact``), its
``band`` and recurrences (``Chebyshev``), and its ``parts``, which ``Dense`` multiplies as a batch.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from ..arrays import outside_autocast
from ..errors import InvalidInputError
from ..memory import require_memory
from ..parallel import threads_for
from ..transforms import is_batched, is_seen
from .expansion import (
    MAX_NODES,
    MIN_TOLERANCE,
    check_precision,
    expand,
    fixed_length,
    require_finite,
)
from .response import Response

if TYPE_CHECKING:
    from .base import SquareOperator

MAX_CACHED_BANKS = 64
"""Banks of filters whose coefficients or matrices are cached on an operator."""

EXACT_SIZE = 600
"""Up to this many rows (n d) the default is the exact eigendecomposition, cached on the
operator."""

MAX_DENSE_SIZE = 5_000
"""Most rows (n d) of an operator whose full eigendecomposition is computed."""

MAX_NARROW_CHANNELS = 8
"""Up to so many channels CPU libraries are 2 to 5 times as fast with the channels as rows."""

FLOAT64_ERROR = 4e-15
"""Error of ``Exact`` and of the most exact expansions relative to the input: some twenty roundings
of float64, which is the most that was seen for vectors at single points."""

DENSE_TOLERANCE = 1e-12
"""Tolerance of matrices that are computed by Chebyshev polynomials."""

_writing = threading.Lock()
"""Held while a bank is added to an operator's cache."""


class Method(ABC):
    """A way to apply a bank of filters to a signal ``(n, d, c)``.

    The method that is asked for is used, or refused with an ``InvalidInputError``. A ``Semigroup``
    alone has its own way, its exponentials, which are exact.
    """

    has_operator_gradients: ClassVar[bool] = False
    """Whether results have gradients in the operator itself, where it learns."""

    @abstractmethod
    def apply(
        self, filters: Sequence[Response], operator: SquareOperator, x: torch.Tensor
    ) -> torch.Tensor:
        """Outputs ``(k, n, d, c)``, differentiable in x and in the filters' parameters."""

    def merge(
        self, filters: Sequence[Response], operator: SquareOperator, y: torch.Tensor
    ) -> torch.Tensor:
        """The sum ``(n, d, c)`` of the filters, each on its own signal ``y`` (k, n, d, c)."""
        outputs = [
            self.apply([filter], operator, signal)[0]
            for filter, signal in zip(filters, y, strict=True)
        ]
        return torch.stack(outputs).sum(0)

    def apply_to_parts(
        self, filters: Sequence[Response], operator: SquareOperator, x: torch.Tensor
    ) -> torch.Tensor:
        """The same as ``apply``, on the ``parts`` of an operator one after the other."""
        if len(operator.parts) == 1:
            return self.apply(filters, operator.parts[0], x)
        outputs = [
            self.apply(filters, part, signal)
            for part, signal in zip(operator.parts, operator.split(x), strict=True)
        ]
        return torch.cat(outputs, dim=-3)

    def merge_on_parts(
        self, filters: Sequence[Response], operator: SquareOperator, y: torch.Tensor
    ) -> torch.Tensor:
        """The same as ``merge``, on the ``parts`` of an operator one after the other."""
        if len(operator.parts) == 1:
            return self.merge(filters, operator.parts[0], y)
        outputs = [
            self.merge(filters, part, signals)
            for part, signals in zip(operator.parts, operator.split(y), strict=True)
        ]
        return torch.cat(outputs, dim=-3)

    @property
    def relative_error(self) -> float | None:
        """The error of outputs relative to the input; None for methods that promise none."""
        return None

    def errors(self, filter: Response, operator: SquareOperator) -> list[float] | None:
        r"""The largest error of outputs relative to the input, on each part of an operator:
        :math:`\text{tol} \cdot \max|\hat h|`; None where nothing is promised, or values are not
        looked at."""
        tol = self.relative_error
        if tol is None or not is_seen(operator.mass):
            return None
        errors = []
        with torch.no_grad():
            for part in operator.parts:
                responses = filter.evaluate(self.eigenvalues_for_gain(part))
                errors.append(tol * float(responses.abs().max()))
        return errors

    def eigenvalues_for_gain(self, operator: SquareOperator) -> torch.Tensor:
        """Eigenvalues at which the largest response on an operator is looked for: a few of every
        size."""
        lowest, highest = operator.spectral_interval
        shares = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 40)])
        return torch.from_numpy(np.concatenate([lowest * shares, highest * shares]))


def cached_bank(
    method: Method,
    filters: Sequence[Response],
    operator: SquareOperator,
    compute: Callable[[], torch.Tensor],
) -> torch.Tensor:
    """The result of ``compute()``, cached on the operator under the values of the filters'
    parameters."""
    signatures = tuple(filter.signature() for filter in filters)
    if None in signatures:
        return computed_for_training(compute)
    key = method, signatures
    banks = operator.cache.setdefault("banks", {})
    result = banks.get(key)
    if result is None:
        result = computed_for_training(compute)
        with _writing:
            while len(banks) >= MAX_CACHED_BANKS:
                del banks[next(iter(banks))]
            banks[key] = result
    return result


def computed_for_training(compute: Callable[[], torch.Tensor]) -> torch.Tensor:
    """A result with its gradients, which serves training, too, if it is cached."""
    with torch.inference_mode(False), torch.enable_grad():
        return compute()


@dataclass(frozen=True)
class Exact(Method):
    """By the full eigendecomposition, computed once and cached on the operator: for n d up to 5
    000.

    The sums over eigenfields are in float64 and rounded once at the end, also for operators in
    float32. Outputs that are smaller than the input by more than 14 digits, as far from the only
    point where the input is not zero, are sums of which nothing but rounding is left.

    Eigenfields have no gradients. Where gradients in the operator itself are wanted, as of a
    learned sheaf, this method is refused.
    """

    def apply(
        self, filters: Sequence[Response], operator: SquareOperator, x: torch.Tensor
    ) -> torch.Tensor:
        values, fields = operator.in_double.eigenbasis
        flat = fields.flatten(0, 1)
        weights = operator.mass.double().repeat_interleave(operator.rank)[:, None]
        spectrum = flat.T @ (weights * x.double().flatten(0, 1))
        responses = torch.stack([filter.evaluate(values) for filter in filters])
        if responses.device.type == "cpu" and not is_batched(responses):
            largest = float(values[-1])
            require_finite(responses, largest)
            check_precision(filters, operator, largest)
        outputs = flat @ (responses.to(spectrum)[:, :, None] * spectrum)
        return outputs.to(x.dtype).unflatten(1, x.shape[:2])

    @property
    def relative_error(self) -> float:
        return FLOAT64_ERROR

    def eigenvalues_for_gain(self, operator: SquareOperator) -> torch.Tensor:
        """All eigenvalues, which are known, and may all be far from zero."""
        return operator.in_double.eigenbasis[0]


@dataclass(frozen=True)
class Chebyshev(Method):
    r"""By Chebyshev polynomials:
    :math:`\|y - y_{exact}\| \le \text{tol} \cdot \max|\hat h| \cdot \|x\|` (mass norm).

    The bound is relative to the input and holds for the field as a whole. Outputs at single points
    that are smaller, as far from the only point where the input is not zero, have no correct digit:
    they need a smaller ``tol``.

    In float32 ``tol`` is at least 1e-6, and rounding adds what a shift of the eigenvalues by
    :math:`\epsilon \lambda_{max}/\sqrt{n d}` changes in the response; if that is more than 1e-3
    there is an ``AccuracyWarning``.

    The degree follows from the responses and the operator's spectral interval; for heat it is about
    :math:`\sqrt{2 t \lambda_{max} \log(2/\text{tol})}`. With ``degree`` it is fixed instead: for
    learnable times on a GPU, where reading a parameter means waiting.
    """

    tol: float = 1e-6
    degree: int | None = None

    has_operator_gradients: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.tol < 1.0:
            raise InvalidInputError(f"tol must lie between 0 and 1, got {self.tol}.")
        if self.degree is None:
            return
        if not isinstance(self.degree, Integral) or not 0 <= self.degree <= MAX_NODES:
            raise InvalidInputError(
                f"degree must be an integer from 0 to {MAX_NODES}, got {self.degree}."
            )

    def apply(
        self, filters: Sequence[Response], operator: SquareOperator, x: torch.Tensor
    ) -> torch.Tensor:
        return operator.chebyshev_bank(self.coefficients(filters, operator), x)

    def merge(
        self, filters: Sequence[Response], operator: SquareOperator, y: torch.Tensor
    ) -> torch.Tensor:
        return operator.chebyshev_merge(self.coefficients(filters, operator), y)

    def coefficients(self, filters: Sequence[Response], operator: SquareOperator) -> torch.Tensor:
        """Expansion coefficients ``(k, m)`` in the operator's precision, on its device."""
        return cached_bank(self, filters, operator, lambda: self._expand(filters, operator))

    def _expand(self, filters: Sequence[Response], operator: SquareOperator) -> torch.Tensor:
        if any(is_batched(p) for filter in filters for p in filter.parameters()):
            raise InvalidInputError(
                "filters whose parameters differ between replicas have no common expansion: use "
                "method=Exact() (small operators), fixed times, or train the replicas one by one."
            )
        band = operator.band
        if self.degree is not None:
            coefficients = fixed_length(filters, band, self.degree + 1)
            return coefficients.to(operator.device, operator.dtype)
        least = MIN_TOLERANCE[operator.dtype]
        if self.tol < least:
            raise InvalidInputError(
                f"tol={self.tol:g} is below what float32 can give, {least:g}. Use a larger tol, or "
                "float64: operator.to(dtype=torch.float64)."
            )
        coefficients = expand(filters, band, self.tol)
        check_precision(filters, operator, band.top)
        return coefficients.to(operator.device, operator.dtype)

    @property
    def relative_error(self) -> float | None:
        if self.degree is not None:
            return None
        return max(self.tol, FLOAT64_ERROR)


@dataclass(frozen=True)
class Dense(Method):
    """By the filters' matrices ``(n d, n d)``, computed once and cached on the operator.

    The fastest for small operators that meet the same few filters again and again, as in the
    training of a network: one matrix product instead of many. A joined operator has one matrix a
    bundle, and multiplies them as a batch. The matrices of filters that learn, or are Python
    functions, cannot be cached: they are computed every time, and ``Exact`` is faster. Gradients in
    the operator itself are refused.
    """

    def apply(
        self, filters: Sequence[Response], operator: SquareOperator, x: torch.Tensor
    ) -> torch.Tensor:
        matrices = self.matrices(filters, operator)
        with threads_for(matrices.numel()), outside_autocast(operator.device):
            outputs = _product(matrices, _to_blocks(x, operator))
        return torch.stack([_from_blocks(y, operator) for y in outputs])

    def merge(
        self, filters: Sequence[Response], operator: SquareOperator, y: torch.Tensor
    ) -> torch.Tensor:
        matrices = self.matrices(filters, operator)
        with threads_for(matrices.numel()), outside_autocast(operator.device):
            blocks = torch.stack([_to_blocks(signal, operator) for signal in y])
            outputs = _product(matrices, blocks)
        return _from_blocks(outputs.sum(0), operator)

    def apply_to_parts(
        self, filters: Sequence[Response], operator: SquareOperator, x: torch.Tensor
    ) -> torch.Tensor:
        """All parts at once: their matrices form a batch."""
        return self.apply(filters, operator, x)

    def merge_on_parts(
        self, filters: Sequence[Response], operator: SquareOperator, y: torch.Tensor
    ) -> torch.Tensor:
        """All parts at once: their matrices form a batch."""
        return self.merge(filters, operator, y)

    def matrices(self, filters: Sequence[Response], operator: SquareOperator) -> torch.Tensor:
        """The matrices ``(k, parts, size, size)``, those of smaller parts padded with zeros."""
        return cached_bank(self, filters, operator, lambda: self._padded(filters, operator))

    def _padded(self, filters: Sequence[Response], operator: SquareOperator) -> torch.Tensor:
        if operator.parts == (operator,):
            return _dense_filters(filters, operator)[:, None]
        size = max(operator.sizes) * operator.rank
        shape = (len(filters), len(operator.parts), size, size)
        padded = operator.mass.new_zeros(shape)
        for number, part in enumerate(operator.parts):
            rows = part.shape[0]
            padded[:, number, :rows, :rows] = self.matrices(filters, part)[:, 0]
        return padded


def _dense_filters(filters: Sequence[Response], operator: SquareOperator) -> torch.Tensor:
    """Matrices ``(k, n d, n d)`` of filters, computed in float64."""
    size = operator.shape[0]
    require_memory(
        8.0 * (2 * len(filters) + 3) * size**2,
        f"{len(filters)} dense filters of {size} rows",
        "Use method=Chebyshev(), which forms no matrix.",
    )
    are_fixed = all(filter.signature() is not None for filter in filters)
    double = operator.in_double
    method: Method = Exact()
    if size > MAX_DENSE_SIZE or (size > EXACT_SIZE and are_fixed and operator.has_fast_products):
        method = Chebyshev(max(DENSE_TOLERANCE, MIN_TOLERANCE[double.dtype]))
    unit = torch.eye(size, dtype=double.dtype, device=operator.device)
    columns = method.apply(filters, double, unit.reshape(operator.num_points, -1, size))
    if are_fixed:
        columns = columns.detach()
    check_precision(filters, operator, operator.spectral_interval[1])
    return columns.reshape(len(filters), size, size).to(operator.dtype)


def _product(matrices: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Square matrices ``(..., m, m)`` times signals ``(..., m, c)``."""
    if x.device.type == "cpu" and x.shape[-1] <= MAX_NARROW_CHANNELS:
        return (x.mT @ matrices.mT).mT
    return matrices @ x


def _to_blocks(x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """A signal ``(n, d, c)`` of all parts to ``(parts, size, c)``, padded with zeros."""
    sizes = operator.sizes
    largest = max(sizes)
    shape = (len(sizes), largest * x.shape[1], x.shape[2])
    if len(set(sizes)) == 1:
        return x.reshape(shape)
    padded = x.new_zeros((len(sizes) * largest, *x.shape[1:]))
    return padded.index_copy(0, operator.slots, x).reshape(shape)


def _from_blocks(y: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """Undo ``_to_blocks``."""
    rows = y.reshape(y.shape[0] * y.shape[1] // operator.rank, operator.rank, y.shape[-1])
    if len(set(operator.sizes)) == 1:
        return rows
    return rows[operator.slots]


def method_with_gradients(operator: SquareOperator) -> Method:
    """As exact as the precision allows, with gradients in the operator."""
    if operator.dtype == torch.float32:
        return Chebyshev(1e-6)
    return Chebyshev(1e-12)
