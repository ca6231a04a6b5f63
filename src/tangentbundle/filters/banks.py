"""Banks: several filters on one signal, or their sum on several signals, and the methods that
evaluate them.

These are exact by eigenfields, Chebyshev polynomials, and cached matrices.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ..arrays import Array, outside_autocast
from ..errors import InvalidInputError, ShapeError
from ..memory import require_memory
from ..operators import ConnectionLaplacian, Joined, LinearOperator, Semigroup
from ..operators.base import MAX_DENSE_SIZE
from ..operators.laplacian import fold, unfold
from ..parallel import threads_by_size, threads_for
from ..transforms import is_batched
from .chebyshev import band_of, bank, merge
from .expansion import (
    MAX_NODES,
    MIN_TOLERANCE,
    check_precision,
    expand,
    fixed_degree,
    require_finite,
)

if TYPE_CHECKING:
    from .base import Filter

MAX_CACHED_BANKS = 64
"""Banks of filters whose coefficients or matrices are cached on an operator."""

EXACT_SIZE = 600
"""Up to this many rows (n d) the default is the exact eigendecomposition, cached on the
operator."""

_writing = threading.Lock()


class Method(ABC):
    """A way to apply a bank of filters to a signal ``(n, d, c)``.

    The method that is asked for is used, or refused with an ``InvalidInputError``. A ``Semigroup``
    alone has its own way, its exponentials, which are exact.
    """

    has_operator_gradients: ClassVar[bool] = False
    """Whether results have gradients in the operator itself, where it learns."""

    @abstractmethod
    def apply(self, filters: Sequence[Filter], operator: Any, x: torch.Tensor) -> torch.Tensor:
        """Outputs ``(k, n, d, c)``, differentiable in x and in the filters' parameters."""

    def merge(self, filters: Sequence[Filter], operator: Any, y: torch.Tensor) -> torch.Tensor:
        """The sum ``(n, d, c)`` of the filters, each on its own signal ``y`` (k, n, d, c)."""
        outputs = [self.apply([f], operator, part)[0] for f, part in zip(filters, y, strict=True)]
        return torch.stack(outputs).sum(0)

    def remember(
        self, filters: Sequence[Filter], operator: LinearOperator, compute: Callable
    ) -> torch.Tensor:
        """The result of ``compute()``, cached on the operator under the values of the filters'
        parameters."""
        signatures = tuple(f.signature() for f in filters)
        key = None if None in signatures else (self, signatures)
        banks = operator.cache.setdefault("banks", {})
        if key is not None and (found := banks.get(key)) is not None:
            return found
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
        ):  # a cached result must serve training, too
            result = compute()
        if key is not None:
            with _writing:
                while len(banks) >= MAX_CACHED_BANKS:
                    del banks[next(iter(banks))]
                banks[key] = result
        return result


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
        self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor
    ) -> torch.Tensor:
        values, fields = in_double(operator).eigenbasis
        flat = fields.flatten(0, 1)
        weights = operator.mass.double().repeat_interleave(operator.rank)[:, None]
        spectrum = flat.T @ (weights * x.double().flatten(0, 1))
        responses = torch.stack([f.evaluate(values) for f in filters])
        if responses.device.type == "cpu" and not is_batched(responses):
            require_finite(responses, float(values[-1]))
            check_precision(filters, operator, float(values[-1]))
        outputs = flat @ (responses.to(spectrum)[:, :, None] * spectrum)
        return outputs.to(x.dtype).unflatten(1, x.shape[:2])


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
        if self.degree is not None and not (
            isinstance(self.degree, Integral) and 0 <= self.degree <= MAX_NODES
        ):
            raise InvalidInputError(
                f"degree must be an integer from 0 to {MAX_NODES}, got {self.degree}."
            )

    def coefficients(
        self, filters: Sequence[Filter], operator: ConnectionLaplacian
    ) -> torch.Tensor:
        """Expansion coefficients ``(k, m)`` in the operator's precision, on its device."""
        band = band_of(operator)
        if any(is_batched(p) for f in filters for p in f.parameters()):
            raise InvalidInputError(
                "filters whose parameters differ between replicas have no common expansion: use "
                "method=Exact() (small operators), fixed times, or train the replicas one by one."
            )

        def compute() -> torch.Tensor:
            if self.degree is None:
                if self.tol < MIN_TOLERANCE[operator.dtype]:
                    raise InvalidInputError(
                        f"tol={self.tol:g} is below what float32 can give, "
                        f"{MIN_TOLERANCE[operator.dtype]:g}. Use a larger tol, or float64: "
                        "operator.to(dtype=torch.float64)."
                    )
                a = expand(filters, band, self.tol)
                check_precision(filters, operator, band.top)
            else:
                a = fixed_degree(filters, band, self.degree + 1)
            return a.to(operator.device, operator.dtype)

        return self.remember(filters, operator, compute)

    def apply(
        self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor
    ) -> torch.Tensor:
        band = band_of(operator)
        return bank(
            *operator.curve, x, self.coefficients(filters, operator), band.middle, band.radius
        )

    def merge(
        self, filters: Sequence[Filter], operator: ConnectionLaplacian, y: torch.Tensor
    ) -> torch.Tensor:
        band = band_of(operator)
        return merge(
            *operator.curve, y, self.coefficients(filters, operator), band.middle, band.radius
        )


def _product(matrices: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Square matrices ``(..., m, m)`` times signals ``(..., m, c)``."""
    few = (
        x.device.type == "cpu" and x.shape[-1] <= 8
    )  # CPU libraries are 2 to 5 times as fast with them as rows
    return (x.mT @ matrices.mT).mT if few else matrices @ x


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
        self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor
    ) -> torch.Tensor:
        matrices = self.matrices(filters, operator)
        with threads_for(matrices.numel()), outside_autocast(operator.device):
            outputs = _product(matrices, _to_blocks(x, operator))
        return torch.stack([_from_blocks(y, operator) for y in outputs])

    def merge(
        self, filters: Sequence[Filter], operator: LinearOperator, y: torch.Tensor
    ) -> torch.Tensor:
        matrices = self.matrices(filters, operator)
        with threads_for(matrices.numel()), outside_autocast(operator.device):
            outputs = _product(matrices, torch.stack([_to_blocks(part, operator) for part in y]))
        return _from_blocks(outputs.sum(0), operator)

    def matrices(self, filters: Sequence[Filter], operator: LinearOperator) -> torch.Tensor:
        """The matrices ``(k, bundles, size, size)``, those of smaller bundles padded with zeros."""

        def compute() -> torch.Tensor:
            if isinstance(operator, Joined):
                size = max(operator.sizes) * operator.rank
                out = operator.mass.new_zeros((len(filters), len(operator.parts), size, size))
                for b, part in enumerate(operator.parts):
                    end = part.shape[0]
                    out[:, b, :end, :end] = self.matrices(filters, part)[:, 0]
                return out
            return _matrices(filters, operator)

        return self.remember(filters, operator, compute)


def _matrices(filters: Sequence[Filter], operator: LinearOperator) -> torch.Tensor:
    """Matrices ``(k, 1, n d, n d)`` of filters, computed in float64."""
    size = operator.shape[0]
    fixed = all(f.signature() is not None for f in filters)
    need, what = (
        8.0 * (2 * len(filters) + 3) * size**2,
        f"{len(filters)} dense filters of {size} rows",
    )
    require_memory(need, what, "Use method=Chebyshev(), which forms no matrix.")
    double: LinearOperator = operator
    method: Method = Exact()
    if isinstance(operator, ConnectionLaplacian):
        double = in_double(operator)
        if size > EXACT_SIZE and (fixed or size > MAX_DENSE_SIZE):
            method = Chebyshev(1e-12)
    unit = torch.eye(size, dtype=double.dtype, device=operator.device).reshape(
        operator.num_points, -1, size
    )
    columns = method.apply(filters, double, unit)
    if fixed:
        columns = columns.detach()
    check_precision(filters, operator, operator.spectral_interval[1])
    return columns.reshape(len(filters), 1, size, size).to(operator.dtype)


def in_double(operator: LinearOperator) -> LinearOperator:
    """A Laplacian in float64, cached on the one in float32: so are its eigenfields.

    Other operators are returned as they are: their eigenfields are in float64 anyway.
    """
    if not isinstance(operator, ConnectionLaplacian) or operator.dtype == torch.float64:
        return operator
    cached = operator.cache.get("double")
    if cached is None:
        with torch.inference_mode(False):
            cached = operator.to(dtype=torch.float64)
        operator.cache["double"] = cached
    return cached


def _to_blocks(x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
    """A signal ``(n, d, c)`` of all bundles to ``(bundles, size, c)``, padded with zeros."""
    sizes = operator.sizes
    shape = (len(sizes), max(sizes) * x.shape[1], x.shape[2])
    if not isinstance(operator, Joined) or len(set(sizes)) == 1:
        return x.reshape(shape)
    padded = x.new_zeros((len(sizes) * max(sizes), *x.shape[1:]))
    return padded.index_copy(0, operator.slots, x).reshape(shape)


def _from_blocks(y: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
    """Undo ``_to_blocks``."""
    rows = y.reshape(y.shape[0] * y.shape[1] // operator.rank, operator.rank, y.shape[-1])
    return (
        rows[operator.slots]
        if isinstance(operator, Joined) and len(set(operator.sizes)) > 1
        else rows
    )


def default_method(operator: LinearOperator) -> Method:
    """Exact for small operators, Chebyshev otherwise, and for those that learn."""
    if max(operator.sizes) * operator.rank > EXACT_SIZE:
        return Chebyshev()
    return method_with_gradients(operator) if operator.requires_grad else Exact()


def method_with_gradients(operator: LinearOperator) -> Method:
    """As exact as the precision allows, with gradients in the operator."""
    return Chebyshev(1e-6 if operator.dtype == torch.float32 else 1e-12)


@threads_by_size
def apply_bank(
    filters: Sequence[Filter], operator: LinearOperator, signal: Array, method: Method | None = None
) -> list[Array]:
    """Apply several filters to one signal ``(..., n, d, c)``, sharing all work; one output a
    filter."""
    method = resolve_method(operator, method)
    x, kind = operator.check(signal)
    if len(filters) == 0:
        return []
    if isinstance(operator, Semigroup):
        outputs = [_by_impulses(f, operator, x) for f in filters]
    else:
        outputs = [
            unfold(y, x.shape) for y in _by_parts(method, method.apply, filters, operator, fold(x))
        ]
    return [kind.wrap(y) for y in outputs]


@threads_by_size
def merge_bank(
    filters: Sequence[Filter],
    operator: LinearOperator,
    signals: Sequence[Array],
    method: Method | None = None,
) -> Array:
    """The sum of several filters, each on its own signal ``(..., n, d, c)``, sharing all work.

    The transpose of ``apply_bank``: with fewer channels out than in, mixing channels first and
    merging is cheaper.
    """
    method = resolve_method(operator, method)
    if len(filters) == 0 or len(filters) != len(signals):
        raise InvalidInputError(
            f"one signal a filter is needed, got {len(signals)} for {len(filters)} filters."
        )
    tensors, kinds = zip(*(operator.check(signal) for signal in signals), strict=True)
    if len({tensor.shape for tensor in tensors}) > 1:
        raise ShapeError(
            f"signals to merge must share a shape, got {[tuple(t.shape) for t in tensors]}."
        )
    if isinstance(operator, Semigroup):
        total = sum(_by_impulses(f, operator, x) for f, x in zip(filters, tensors, strict=True))
    else:
        y = torch.stack([fold(x) for x in tensors])
        total = unfold(_by_parts(method, method.merge, filters, operator, y), tensors[0].shape)
    return kinds[0].wrap(total)


def _by_parts(
    method: Method,
    evaluate: Callable,
    filters: Sequence[Filter],
    operator: LinearOperator,
    x: torch.Tensor,
) -> torch.Tensor:
    """Evaluate filters; the parts of a joined operator one by one, unless their matrices form a
    batch."""
    if not isinstance(operator, Joined) or isinstance(method, Dense):
        return evaluate(filters, operator, x)
    pieces = zip(operator.parts, operator.split(x), strict=True)
    return torch.cat([evaluate(filters, part, piece) for part, piece in pieces], dim=-3)


def resolve_method(operator: LinearOperator, method: Method | None) -> Method:
    """The method asked for, or a default where there is none; what an operator does not have is
    refused."""
    if not isinstance(operator, LinearOperator):
        raise InvalidInputError(
            "expected filter(operator, signal) with an operator such as bundle.laplacian(), got "
            f"{type(operator)}."
        )
    if not (method is None or isinstance(method, Method)):
        raise InvalidInputError(f"method must be Exact(), Dense() or Chebyshev(), got {method!r}.")
    method = default_method(operator) if method is None else method
    if not isinstance(operator, (ConnectionLaplacian, Joined, Semigroup)) and not isinstance(
        method, (Exact, Dense)
    ):
        raise InvalidInputError(
            f"{type(operator).__name__} is filtered with method=Exact() (small operators); "
            f"{method} needs a ConnectionLaplacian."
        )
    if operator.requires_grad and torch.is_grad_enabled() and not method.has_operator_gradients:
        raise InvalidInputError(
            f"{method} has no gradients in the operator, and this {type(operator).__name__} needs "
            "some: it depends on tensors that learn. Use method=Chebyshev(), or compute under "
            "torch.no_grad()."
        )
    return method


def _by_impulses(filter: Filter, operator: Semigroup, x: torch.Tensor) -> torch.Tensor:
    """A filter with point impulses, through an operator that is known by its exponentials."""
    impulses = filter.impulses()
    if impulses is None:
        raise InvalidInputError(
            f"{filter} has no impulse response, and {operator} is known by its exponentials "
            "alone. Use Heat, FIR or ImpulseResponse."
        )
    terms = zip(impulses.times, impulses.weights.to(x), strict=True)
    return sum((weight * operator.exponential(t, x) for t, weight in terms), torch.zeros_like(x))
