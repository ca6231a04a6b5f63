"""How a filter is evaluated: exactly by eigenfields, by Chebyshev polynomials, or by cached matrices."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch

from ..arrays import is_batched
from ..errors import InvalidInputError
from ..memory import require_memory
from ..operators import ConnectionLaplacian, Joined, LinearOperator
from .chebyshev import band_of, bank, merge
from .expansion import MAX_NODES, MIN_TOLERANCE, check_precision, expand, fixed_order, require_finite

if TYPE_CHECKING:
    from .base import Filter

MAX_CACHED_BANKS = 64
"""Banks of filters whose coefficients or matrices are cached on an operator."""

EXACT_SIZE = 600
"""Up to this many rows (n d) the default is the exact eigendecomposition, cached on the operator."""

_writing = threading.Lock()


class Method(ABC):
    """A way to apply a bank of filters to a signal ``(n, d, c)``."""

    joins = False
    """Whether it takes a joined operator at once; others take its parts one by one."""

    @abstractmethod
    def apply(self, filters: Sequence[Filter], operator: Any, x: torch.Tensor) -> torch.Tensor:
        """Outputs ``(k, n, d, c)``, differentiable in x and in the filters' parameters."""

    def merge(self, filters: Sequence[Filter], operator: Any, y: torch.Tensor) -> torch.Tensor:
        """The sum ``(n, d, c)`` of the filters, each on its own signal ``y`` (k, n, d, c)."""
        outputs = [self.apply([f], operator, part)[0] for f, part in zip(filters, y, strict=True)]
        return torch.stack(outputs).sum(0)

    def remember(self, filters: Sequence[Filter], operator: LinearOperator, compute: Callable) -> torch.Tensor:
        """The result of ``compute()``, cached on the operator under the values of the filters' parameters."""
        signatures = tuple(f.signature() for f in filters)
        key = None if None in signatures else (self, signatures)
        banks = operator.cache.setdefault("banks", {})
        if key is not None and (found := banks.get(key)) is not None:
            return found
        with torch.inference_mode(False), torch.enable_grad():  # a cached result must serve training, too
            result = compute()
        if key is not None:
            with _writing:
                while len(banks) >= MAX_CACHED_BANKS:
                    del banks[next(iter(banks))]
                banks[key] = result
        return result


@dataclass(frozen=True)
class Exact(Method):
    """By the full eigendecomposition, computed once and cached on the operator: for n d up to 5 000."""

    def apply(self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
        values, fields = operator.eigenbasis
        flat = fields.flatten(0, 1)
        weights = operator.mass.repeat_interleave(operator.dim)[:, None]
        spectrum = flat.T @ (weights * x.flatten(0, 1))
        responses = torch.stack([f.evaluate(values) for f in filters])
        if responses.device.type == "cpu" and not is_batched(responses):
            require_finite(responses, float(values[-1]))
            check_precision(filters, operator, float(values[-1]))
        return (flat @ (responses.to(x)[:, :, None] * spectrum)).unflatten(1, x.shape[:2])


@dataclass(frozen=True)
class Chebyshev(Method):
    r"""By Chebyshev polynomials: :math:`\|y - y_{exact}\| \le \text{tol} \cdot \max|\hat h| \cdot \|x\|` (mass norm).

    In float32 ``tol`` is at least 1e-6, and rounding adds what a shift of the eigenvalues by
    :math:`\epsilon \lambda_{max}/\sqrt{n d}` changes in the response; if that is more than 1e-3 there is an
    ``AccuracyWarning``.

    The order follows from the responses and the operator's spectral interval; for heat it is about :math:`\sqrt{2 t
    \lambda_{max} \log(2/\text{tol})}`. With ``order`` it is fixed instead: for learnable times on a GPU, where reading
    a parameter means waiting.
    """

    tol: float = 1e-6
    order: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.tol < 1.0:
            raise InvalidInputError(f"tol must lie between 0 and 1, got {self.tol}.")
        if self.order is not None and not (isinstance(self.order, Integral) and 0 <= self.order <= MAX_NODES):
            raise InvalidInputError(f"order must be an integer from 0 to {MAX_NODES}, got {self.order}.")

    def coefficients(self, filters: Sequence[Filter], operator: ConnectionLaplacian) -> torch.Tensor:
        """Expansion coefficients ``(k, m)`` in the operator's precision, on its device."""
        band = band_of(operator)
        if any(is_batched(p) for f in filters for p in f.parameters()):
            raise InvalidInputError(
                "filters whose parameters differ between replicas have no common expansion: use method=Exact() (small "
                "operators), fixed times, or train the replicas one by one."
            )

        def compute() -> torch.Tensor:
            if self.order is None:
                if self.tol < MIN_TOLERANCE[operator.dtype]:
                    raise InvalidInputError(
                        f"tol={self.tol:g} is below what float32 can give, {MIN_TOLERANCE[operator.dtype]:g}. Use a "
                        "larger tol, or float64: operator.to(dtype=torch.float64)."
                    )
                a = expand(filters, band, self.tol)
                check_precision(filters, operator, band.top)
            else:
                a = fixed_order(filters, band, self.order + 1)
            return a.to(operator.device, operator.dtype)

        return self.remember(filters, operator, compute)

    def apply(self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor) -> torch.Tensor:
        band = band_of(operator)
        return bank(*operator.curve, x, self.coefficients(filters, operator), band.middle, band.radius)

    def merge(self, filters: Sequence[Filter], operator: ConnectionLaplacian, y: torch.Tensor) -> torch.Tensor:
        band = band_of(operator)
        return merge(*operator.curve, y, self.coefficients(filters, operator), band.middle, band.radius)


def _product(matrices: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Square matrices ``(..., m, m)`` times signals ``(..., m, c)``."""
    few = x.device.type == "cpu" and x.shape[-1] <= 8  # CPU libraries are 2 to 5 times as fast with them as rows
    return (x.mT @ matrices.mT).mT if few else matrices @ x


@dataclass(frozen=True)
class Dense(Method):
    """By the filters' matrices ``(n d, n d)``, computed once and cached on the operator.

    The fastest for small operators that meet the same few filters again and again, as in the training of a network:
    one matrix product instead of many. A joined operator has one matrix a bundle, and multiplies them as a batch.
    Filters that learn, or are Python functions, have no matrix to cache: they are evaluated exactly.
    """

    joins = True

    def apply(self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
        outputs = _product(self.matrices(filters, operator), _to_blocks(x, operator))
        return torch.stack([_from_blocks(y, operator) for y in outputs])

    def merge(self, filters: Sequence[Filter], operator: LinearOperator, y: torch.Tensor) -> torch.Tensor:
        outputs = _product(self.matrices(filters, operator), torch.stack([_to_blocks(part, operator) for part in y]))
        return _from_blocks(outputs.sum(0), operator)

    def matrices(self, filters: Sequence[Filter], operator: LinearOperator) -> torch.Tensor:
        """The matrices ``(k, bundles, size, size)``, those of smaller bundles padded with zeros."""

        def compute() -> torch.Tensor:
            if isinstance(operator, Joined):
                size = max(operator.sizes) * operator.dim
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
    need, what = 8.0 * (2 * len(filters) + 3) * size**2, f"{len(filters)} dense filters of {size} rows"
    require_memory(need, what, "Use method=Chebyshev(), which forms no matrix.")
    double: LinearOperator = operator
    method: Method = Exact()
    if isinstance(operator, ConnectionLaplacian):
        double = operator.to(dtype=torch.float64)
        double.largest_deficit = operator.largest_deficit
        method = Chebyshev(1e-12) if size > EXACT_SIZE else method
    unit = torch.eye(size, dtype=double.dtype, device=operator.device).reshape(operator.num_points, -1, size)
    columns = method.apply(filters, double, unit).detach()
    check_precision(filters, operator, operator.spectral_interval[1])
    return columns.reshape(len(filters), 1, size, size).to(operator.dtype)


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
    rows = y.reshape(y.shape[0] * y.shape[1] // operator.dim, operator.dim, y.shape[-1])
    return rows[operator.slots] if isinstance(operator, Joined) and len(set(operator.sizes)) > 1 else rows
