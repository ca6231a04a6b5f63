"""How a filter is evaluated: exactly, by Chebyshev polynomials, or by Lanczos iteration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral

import torch

from ..arrays import Array, is_batched, whole
from ..errors import InvalidInputError, ShapeError
from ..operators import ConnectionLaplacian, Joined, LinearOperator, Semigroup
from ..operators.laplacian import fold, unfold
from .base import Filter
from .chebyshev import bank, merge
from .expansion import expand, fixed_order, require_finite
from .lanczos import lanczos_bank

EXACT_SIZE = 600
"""Up to this many rows (n d) the default is the exact eigendecomposition, kept on the operator."""

KEPT = 64
"""Banks whose coefficients or matrices an operator keeps."""


class Method(ABC):
    """A way to apply a bank of filters to a signal ``(n, d, c)``."""

    @abstractmethod
    def apply(self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor) -> torch.Tensor:
        """Outputs ``(k, n, d, c)``, differentiable in x and in the filters' parameters."""

    def merge(self, filters: Sequence[Filter], operator: ConnectionLaplacian, y: torch.Tensor) -> torch.Tensor:
        """The sum ``(n, d, c)`` of the filters, each on its own signal ``y`` (k, n, d, c)."""
        outputs = [self.apply([f], operator, part)[0] for f, part in zip(filters, y, strict=True)]
        return torch.stack(outputs).sum(0)

    def remember(self, filters: Sequence[Filter], operator: LinearOperator, compute: Callable) -> torch.Tensor:
        """What ``compute()`` gives for filters that do not learn: kept on the operator, ready for the next call."""
        learns = _learn(filters)
        key = (self, tuple((id(f), *((id(p), _version(p)) for p in f.parameters())) for f in filters))
        kept = operator.cache.setdefault("banks", {})
        if not learns and key in kept:
            return kept[key][0]
        with torch.inference_mode(False), torch.enable_grad():  # what is kept must serve training too
            result = compute()
        if not result.requires_grad:
            while len(kept) >= KEPT:
                del kept[next(iter(kept))]
            kept[key] = (result, [(f, f.parameters()) for f in filters])  # keeping them keeps their identities taken
        return result


@dataclass(frozen=True)
class Exact(Method):
    """By the full eigendecomposition, computed once and kept on the operator: for small ones (n d up to 5 000)."""

    def apply(self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
        if isinstance(operator, Joined):
            parts = zip(operator.parts, operator.split(x), strict=True)
            return torch.cat([self.apply(filters, part, piece) for part, piece in parts], dim=1)
        values, fields = operator.eigenbasis
        flat = fields.flatten(0, 1)
        weights = operator.mass.repeat_interleave(operator.dim)[:, None]
        spectrum = flat.T @ (weights * x.flatten(0, 1))
        responses = torch.stack([f.evaluate(values) for f in filters])
        if responses.device.type == "cpu" and not is_batched(responses):
            require_finite(responses, float(values[0]), float(values[-1]))
        responses = responses.to(x)
        return (flat @ (responses[:, :, None] * spectrum)).unflatten(1, x.shape[:2])


@dataclass(frozen=True)
class Dense(Method):
    """By the filters' matrices ``(n d, n d)``, formed once and kept on the operator.

    The fastest for small operators that meet the same few filters again and again, as in the training of a network:
    one matrix product instead of many. A joined operator keeps one matrix a bundle, and multiplies them as a batch.
    Filters that learn have no matrix worth keeping: they are evaluated exactly.
    """

    def apply(self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
        if _learn(filters):
            return Exact().apply(filters, operator, x)
        matrices = self.matrices(filters, operator)
        if isinstance(operator, Joined):
            return _from_blocks(matrices @ _to_blocks(x, operator), operator, x.shape[1])
        return (matrices.flatten(0, 1) @ x.flatten(0, 1)).unflatten(0, (len(filters), *x.shape[:2]))

    def merge(self, filters: Sequence[Filter], operator: LinearOperator, y: torch.Tensor) -> torch.Tensor:
        if _learn(filters):
            return Exact().merge(filters, operator, y)  # type: ignore[arg-type]
        matrices = self.matrices(filters, operator)
        if isinstance(operator, Joined):
            blocks = torch.stack([_to_blocks(part, operator) for part in y])
            return _from_blocks((matrices @ blocks).sum(0), operator, y.shape[2])
        return (matrices @ y.flatten(1, 2)).sum(0).unflatten(0, y.shape[1:3])

    def matrices(self, filters: Sequence[Filter], operator: LinearOperator) -> torch.Tensor:
        """The matrices ``(k, n d, n d)``; of a joined operator ``(k, bundles, size, size)``, padded with zeros."""

        def compute() -> torch.Tensor:
            if isinstance(operator, Joined):
                size = max(operator.sizes) * operator.dim
                out = operator.mass.new_zeros((len(filters), len(operator.parts), size, size))
                for b, part in enumerate(operator.parts):
                    end = part.shape[0]
                    out[:, b, :end, :end] = self.matrices(filters, part)
                return out
            values, fields = operator.__dict__.get("eigenbasis") or operator.decompose()
            flat = fields.double().flatten(0, 1)
            weighted = flat * operator.mass.double().repeat_interleave(operator.dim)[:, None]
            responses = torch.stack([f.evaluate(values) for f in filters]).detach()
            require_finite(responses, float(values[0]), float(values[-1]))
            return ((flat * responses[:, None, :]) @ weighted.T).to(operator.dtype)

        return self.remember(filters, operator, compute)


def _learn(filters: Sequence[Filter]) -> bool:
    return any(p.requires_grad for f in filters for p in f.parameters())


def _to_blocks(x: torch.Tensor, operator: Joined) -> torch.Tensor:
    """A signal ``(n, d, c)`` of all bundles to ``(bundles, size, c)``, padded with zeros."""
    shape = (len(operator.sizes), max(operator.sizes) * x.shape[1], x.shape[2])
    if len(set(operator.sizes)) == 1:
        return x.reshape(shape)
    padded = x.new_zeros((shape[0] * max(operator.sizes), *x.shape[1:]))
    return padded.index_copy(0, operator.slots, x).reshape(shape)


def _from_blocks(y: torch.Tensor, operator: Joined, dim: int) -> torch.Tensor:
    """Undo ``_to_blocks`` for ``(..., bundles, size, c)``."""
    rows = y.reshape(*y.shape[:-3], -1, dim, y.shape[-1])
    return rows if len(set(operator.sizes)) == 1 else rows.index_select(-3, operator.slots)


@dataclass(frozen=True)
class Chebyshev(Method):
    r"""By Chebyshev polynomials: :math:`\|y - y_{exact}\| \le \text{tol} \cdot \max|\hat h| \cdot \|x\|` in the mass
    norm.

    The order follows from the responses and the operator's spectral interval; for heat it is about :math:`\sqrt{2 t
    \lambda_{max} \log(2/\text{tol})}`. With ``order`` it is fixed instead, which needs no look at the parameters: for
    learnable times on a GPU, where looking means waiting.
    """

    tol: float = 1e-6
    order: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.tol < 1.0:
            raise InvalidInputError(f"tol must lie between 0 and 1, got {self.tol}.")
        if self.order is not None and not (isinstance(self.order, Integral) and self.order >= 0):
            raise InvalidInputError(f"order must be a whole number of at least 0, got {self.order}.")

    def coefficients(self, filters: Sequence[Filter], operator: ConnectionLaplacian) -> torch.Tensor:
        """Expansion coefficients ``(k, m)`` in the operator's precision, on its device."""
        interval = operator.spectral_interval
        if any(is_batched(p) for f in filters for p in f.parameters()):
            raise InvalidInputError(
                "filters whose parameters differ between replicas have no common expansion: use method=Exact() (small "
                "operators), fixed times, or train the replicas one by one."
            )

        def compute() -> torch.Tensor:
            if self.order is None:
                a = expand(filters, interval, self.tol)
            else:
                a = fixed_order(filters, interval, self.order + 1)
            return a.to(operator.device, operator.dtype)

        return self.remember(filters, operator, compute)

    def _mapped(self, operator: ConnectionLaplacian) -> tuple[float, float]:
        """Middle and radius of the spectrum of P."""
        low, high = operator.spectral_interval
        return 1 - operator.scale * (low + high) / 2, operator.scale * (high - low) / 2

    def apply(self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor) -> torch.Tensor:
        return bank(*operator.curve, x, self.coefficients(filters, operator), *self._mapped(operator))

    def merge(self, filters: Sequence[Filter], operator: ConnectionLaplacian, y: torch.Tensor) -> torch.Tensor:
        return merge(*operator.curve, y, self.coefficients(filters, operator), *self._mapped(operator))


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
        return lanczos_bank(filters, operator, x, self.tol, self.max_steps)


def _version(tensor: torch.Tensor) -> int:
    """A number that grows when a tensor is changed in place."""
    return 0 if tensor.is_inference() else tensor._version


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
