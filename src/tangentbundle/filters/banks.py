"""Banks: several filters on one signal, or their sum on several signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from ..arrays import Array
from ..errors import InvalidInputError, ShapeError
from ..operators import ConnectionLaplacian, Joined, LinearOperator, Semigroup
from ..operators.laplacian import fold, unfold
from .methods import EXACT_SIZE, Chebyshev, Dense, Exact, Method

if TYPE_CHECKING:
    from .base import Filter


def default_method(operator: LinearOperator) -> Method:
    """Exact for small operators, Chebyshev otherwise."""
    return Exact() if max(operator.sizes) * operator.dim <= EXACT_SIZE else Chebyshev()


def apply_bank(
    filters: Sequence[Filter], operator: LinearOperator, signal: Array, method: Method | None = None
) -> list[Array]:
    """Apply several filters to one signal ``(..., n, d, c)``, sharing all work; one output a filter."""
    method = _resolve(filters, operator, method)
    x, kind = operator.check(signal)
    if len(filters) == 0:
        return []
    if isinstance(operator, Semigroup):
        outputs = [_by_impulses(f, operator, x) for f in filters]
    else:
        outputs = [unfold(y, x.shape) for y in _by_parts(method, method.apply, filters, operator, fold(x))]
    return [kind.wrap(y) for y in outputs]


def merge_bank(
    filters: Sequence[Filter], operator: LinearOperator, signals: Sequence[Array], method: Method | None = None
) -> Array:
    """The sum of several filters, each on its own signal ``(..., n, d, c)``, sharing all work.

    The transpose of ``apply_bank``: with fewer channels out than in, mixing channels first and merging is cheaper.
    """
    method = _resolve(filters, operator, method)
    if len(filters) == 0 or len(filters) != len(signals):
        raise InvalidInputError(f"one signal a filter is needed, got {len(signals)} for {len(filters)} filters.")
    tensors, kinds = zip(*(operator.check(signal) for signal in signals), strict=True)
    if len({tensor.shape for tensor in tensors}) > 1:
        raise ShapeError(f"signals to merge must share a shape, got {[tuple(t.shape) for t in tensors]}.")
    if isinstance(operator, Semigroup):
        total = sum(_by_impulses(f, operator, x) for f, x in zip(filters, tensors, strict=True))
    else:
        y = torch.stack([fold(x) for x in tensors])
        total = unfold(_by_parts(method, method.merge, filters, operator, y), tensors[0].shape)
    return kinds[0].wrap(total)


def _by_parts(
    method: Method, evaluate: Callable, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor
) -> torch.Tensor:
    """Evaluate filters; the parts of a joined operator one by one unless the method joins them."""
    if not isinstance(operator, Joined) or method.joins:
        return evaluate(filters, operator, x)
    pieces = zip(operator.parts, operator.split(x), strict=True)
    return torch.cat([evaluate(filters, part, piece) for part, piece in pieces], dim=-3)


def _resolve(filters: Sequence[Filter], operator: LinearOperator, method: Method | None) -> Method:
    """Check the two, and choose a method where none is given.

    Filters without a signature have no matrix to cache; operators that learn have no eigenfields to cache either.
    """
    if not isinstance(operator, LinearOperator):
        raise InvalidInputError(f"filters act through an operator such as bundle.laplacian(), got {type(operator)}.")
    if not (method is None or isinstance(method, Method)):
        raise InvalidInputError(f"method must be Exact(), Dense() or Chebyshev(), got {method!r}.")
    method = default_method(operator) if method is None else method
    if not isinstance(operator, (ConnectionLaplacian, Joined, Semigroup)) and not isinstance(method, (Exact, Dense)):
        raise InvalidInputError(
            f"{type(operator).__name__} is filtered with method=Exact() (small operators); {method} needs a "
            "ConnectionLaplacian."
        )
    if operator.requires_grad and not isinstance(method, Chebyshev):
        return Chebyshev(1e-6 if operator.dtype == torch.float32 else 1e-12)
    return Exact() if isinstance(method, Dense) and not all(f.signature() for f in filters) else method


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
