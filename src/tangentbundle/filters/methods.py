"""How a filter is evaluated: exactly, by Chebyshev polynomials, or by Lanczos iteration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import torch

from ..arrays import Array, whole
from ..errors import InvalidInputError
from ..operators import ConnectionLaplacian, LinearOperator, Semigroup
from ..operators.laplacian import fold, unfold
from .base import Filter
from .chebyshev import bank
from .expansion import expand, fixed_order, require_finite
from .lanczos import lanczos_bank

EXACT_SIZE = 600
"""Up to this many rows (n d) the default is the exact eigendecomposition, kept on the operator."""

KEPT = 64
"""Banks whose coefficients an operator keeps."""


class Method(ABC):
    """A way to apply a bank of filters to a signal ``(n, d, c)``."""

    @abstractmethod
    def apply(self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor) -> torch.Tensor:
        """Outputs ``(k, n, d, c)``, differentiable in x and in the filters' parameters."""


@dataclass(frozen=True)
class Exact(Method):
    """By the full eigendecomposition, computed once and kept on the operator: for small ones (n d up to 5 000)."""

    def apply(self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
        values, fields = operator.eigenbasis
        flat = fields.flatten(0, 1)
        weights = operator.mass.repeat_interleave(operator.dim)[:, None]
        spectrum = flat.T @ (weights * x.flatten(0, 1))
        responses = torch.stack([f.evaluate(values) for f in filters])
        if responses.device.type == "cpu":
            require_finite(responses, float(values[0]), float(values[-1]))
        responses = responses.to(x)
        return (flat @ (responses[:, :, None] * spectrum)).unflatten(1, x.shape[:2])


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
        """Expansion coefficients ``(k, m)`` in the operator's precision, on its device.

        Those of filters that do not learn are kept on the operator, ready for the next call.
        """
        learns = any(p.requires_grad for f in filters for p in f.parameters())
        key = (self, tuple((id(f), *((id(p), _version(p)) for p in f.parameters())) for f in filters))
        kept = operator.cache.setdefault("coefficients", {})
        if not learns and key in kept:
            return kept[key][0]
        interval = operator.spectral_interval
        with torch.inference_mode(False), torch.enable_grad():  # what is kept must serve training too
            if self.order is None:
                a = expand(filters, interval, self.tol)
            else:
                a = fixed_order(filters, interval, self.order + 1)
            a = a.to(operator.device, operator.dtype)
        if not a.requires_grad:
            while len(kept) >= KEPT:
                del kept[next(iter(kept))]
            kept[key] = (a, [(f, f.parameters()) for f in filters])  # keeping them keeps their identities taken
        return a

    def apply(self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor) -> torch.Tensor:
        low, high = operator.spectral_interval
        middle, radius = 1 - operator.scale * (low + high) / 2, operator.scale * (high - low) / 2
        return bank(*operator.curve, x, self.coefficients(filters, operator), middle, radius)


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
    return Exact() if operator.shape[0] <= EXACT_SIZE else Chebyshev()


def apply_bank(
    filters: Sequence[Filter], operator: LinearOperator, signal: Array, method: Method | None = None
) -> list[Array]:
    """Apply several filters to one signal ``(..., n, d, c)``, sharing all work; one output a filter."""
    if not isinstance(operator, LinearOperator):
        raise InvalidInputError(f"filters act through an operator such as bundle.laplacian(), got {type(operator)}.")
    if not (method is None or isinstance(method, Method)):
        raise InvalidInputError(f"method must be Exact(), Chebyshev() or Lanczos(), got {method!r}.")
    x, kind = operator.check(signal)
    if len(filters) == 0:
        return []
    if isinstance(operator, Semigroup):
        outputs = [_by_impulses(f, operator, x) for f in filters]
    else:
        method = default_method(operator) if method is None else method
        if not isinstance(operator, ConnectionLaplacian) and not isinstance(method, Exact):
            raise InvalidInputError(
                f"{type(operator).__name__} is filtered with method=Exact() (small operators); {method} needs a "
                "ConnectionLaplacian."
            )
        folded = method.apply(filters, operator, fold(x))  # type: ignore[arg-type]
        outputs = [unfold(y, x.shape) for y in folded]
    return [kind.wrap(y) for y in outputs]


def _by_impulses(filter: Filter, operator: Semigroup, x: torch.Tensor) -> torch.Tensor:
    """A filter with point impulses, through an operator that is known by its exponentials."""
    impulses = filter.impulses()
    if impulses is None:
        raise InvalidInputError(
            f"{filter} has no impulse response, and {operator} is known by its exponentials alone. Use Heat, FIR or "
            "ImpulseResponse."
        )
    total = torch.zeros_like(x)
    for t, weight in zip(impulses.times.tolist(), impulses.weights.to(x), strict=True):
        total = total + weight * operator.exponential(t, x)
    return total
