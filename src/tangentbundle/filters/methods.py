"""How a filter is evaluated: exactly, by Chebyshev polynomials, or by Lanczos iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import torch

from ..arrays import Array, is_batched, whole
from ..errors import InvalidInputError, ShapeError
from ..operators import ConnectionLaplacian, Joined, LinearOperator, Semigroup
from ..operators.laplacian import fold, unfold
from .base import Filter
from .chebyshev import bank, merge, recurrence_map
from .exact import Dense, Exact, Method
from .expansion import MAX_NODES, expand, fixed_order
from .lanczos import lanczos_bank
from .precision import check_precision, require_tolerance

EXACT_SIZE = 600
"""Up to this many rows (n d) the default is the exact eigendecomposition, kept on the operator."""


@dataclass(frozen=True)
class Chebyshev(Method):
    r"""By Chebyshev polynomials: :math:`\|y - y_{exact}\| \le \text{tol} \cdot \max|\hat h| \cdot \|x\|` in the mass
    norm.

    In float32 ``tol`` is at least 1e-6, and rounding adds what a shift of the eigenvalues by
    :math:`\epsilon \lambda_{max}/\sqrt{n d}` changes in the response; if that is more than 1e-3 there is a
    ``PrecisionWarning``.

    The order follows from the responses and the operator's spectral interval; for heat it is about :math:`\sqrt{2 t
    \lambda_{max} \log(2/\text{tol})}`. With ``order`` it is fixed instead, which needs no look at the parameters: for
    learnable times on a GPU, where looking means waiting.
    """

    tol: float = 1e-6
    order: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.tol < 1.0:
            raise InvalidInputError(f"tol must lie between 0 and 1, got {self.tol}.")
        if self.order is not None and not (isinstance(self.order, Integral) and 0 <= self.order <= MAX_NODES):
            raise InvalidInputError(f"order must be a whole number from 0 to {MAX_NODES}, got {self.order}.")

    def coefficients(self, filters: Sequence[Filter], operator: ConnectionLaplacian) -> torch.Tensor:
        """Expansion coefficients ``(k, m)`` in the operator's precision, on its device."""
        interval = recurrence_map(operator)[0]
        if any(is_batched(p) for f in filters for p in f.parameters()):
            raise InvalidInputError(
                "filters whose parameters differ between replicas have no common expansion: use method=Exact() (small "
                "operators), fixed times, or train the replicas one by one."
            )

        def compute() -> torch.Tensor:
            if self.order is None:
                a = expand(filters, interval, require_tolerance(self.tol, operator))
                check_precision(filters, operator, interval[1])
            else:
                a = fixed_order(filters, interval, self.order + 1)
            return a.to(operator.device, operator.dtype)

        return self.remember(filters, operator, compute)

    def apply(self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor) -> torch.Tensor:
        return bank(*operator.curve, x, self.coefficients(filters, operator), *recurrence_map(operator)[1:])

    def merge(self, filters: Sequence[Filter], operator: ConnectionLaplacian, y: torch.Tensor) -> torch.Tensor:
        return merge(*operator.curve, y, self.coefficients(filters, operator), *recurrence_map(operator)[1:])


@dataclass(frozen=True)
class Lanczos(Method):
    r"""By Lanczos iteration from each channel: adapts to the signal, and copes with responses that are not smooth.

    Stops when a bound of the error is below ``tol`` times the norm of the input, or after ``max_steps``. Needs memory
    for all steps, so it suits few channels.
    """

    tol: float = 1e-6
    max_steps: int = 200

    def __post_init__(self) -> None:
        if not 0.0 < self.tol < 1.0:
            raise InvalidInputError(f"tol must lie between 0 and 1, got {self.tol}.")
        whole(self.max_steps, "max_steps")

    def apply(self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor) -> torch.Tensor:
        return lanczos_bank(filters, operator, x, require_tolerance(self.tol, operator), self.max_steps)


def default_method(operator: LinearOperator) -> Method:
    """Exact for small operators, Chebyshev otherwise."""
    return Exact() if max(operator.sizes) * operator.dim <= EXACT_SIZE else Chebyshev()


def apply_bank(
    filters: Sequence[Filter], operator: LinearOperator, signal: Array, method: Method | None = None
) -> list[Array]:
    """Apply several filters to one signal ``(..., n, d, c)``, sharing all work; one output a filter."""
    operator, method = _resolve(operator, method)
    x, kind = operator.check(signal)
    if len(filters) == 0:
        return []
    if isinstance(operator, Semigroup):
        outputs = [_by_impulses(f, operator, x) for f in filters]
    else:
        outputs = [unfold(y, x.shape) for y in method.apply(filters, operator, fold(x))]  # type: ignore[arg-type]
    return [kind.wrap(y) for y in outputs]


def merge_bank(
    filters: Sequence[Filter], operator: LinearOperator, signals: Sequence[Array], method: Method | None = None
) -> Array:
    """The sum of several filters, each on its own signal ``(..., n, d, c)``, sharing all work.

    The transpose of ``apply_bank``: with fewer channels out than in, mixing channels first and merging is cheaper.
    """
    operator, method = _resolve(operator, method)
    if len(filters) == 0 or len(filters) != len(signals):
        raise InvalidInputError(f"one signal a filter is needed, got {len(signals)} for {len(filters)} filters.")
    tensors, kinds = zip(*(operator.check(signal) for signal in signals), strict=True)
    if len({tensor.shape for tensor in tensors}) > 1:
        raise ShapeError(f"signals to merge must share a shape, got {[tuple(t.shape) for t in tensors]}.")
    if isinstance(operator, Semigroup):
        total = sum(_by_impulses(f, operator, x) for f, x in zip(filters, tensors, strict=True))
    else:
        y = torch.stack([fold(x) for x in tensors])
        total = unfold(method.merge(filters, operator, y), tensors[0].shape)  # type: ignore[arg-type]
    return kinds[0].wrap(total)


def _resolve(operator: LinearOperator, method: Method | None) -> tuple[LinearOperator, Method]:
    """Check the two, and choose a method where none is given; joined operators are taken in the form it needs."""
    if not isinstance(operator, LinearOperator):
        raise InvalidInputError(f"filters act through an operator such as bundle.laplacian(), got {type(operator)}.")
    if not (method is None or isinstance(method, Method)):
        raise InvalidInputError(f"method must be Exact(), Dense(), Chebyshev() or Lanczos(), got {method!r}.")
    method = default_method(operator) if method is None else method
    if isinstance(operator, Joined) and not isinstance(method, (Exact, Dense)):
        operator = operator.merged
    if not isinstance(operator, (ConnectionLaplacian, Joined, Semigroup)) and not isinstance(method, (Exact, Dense)):
        raise InvalidInputError(
            f"{type(operator).__name__} is filtered with method=Exact() (small operators); {method} needs a "
            "ConnectionLaplacian."
        )
    return operator, method


def _by_impulses(filter: Filter, operator: Semigroup, x: torch.Tensor) -> torch.Tensor:
    """A filter with point impulses, through an operator that is known by its exponentials."""
    impulses = filter.impulses()
    if impulses is None:
        raise InvalidInputError(
            f"{filter} has no impulse response, and {operator} is known by its exponentials alone. Use Heat, FIR or "
            "ImpulseResponse."
        )
    total = torch.zeros_like(x)
    for t, weight in zip(impulses.times, impulses.weights.to(x), strict=True):
        total = total + weight * operator.exponential(t, x)
    return total
