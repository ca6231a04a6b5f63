r"""A filter is a function of the Laplacian, seen by its frequency response.

.. math:: H(\Delta) = \int_0^\infty \tilde h(t)\, e^{t\Delta}\, dt, \qquad
          \hat h(\lambda) = \int_0^\infty \tilde h(t)\, e^{-t\lambda}\, dt,

with :math:`\lambda \ge 0` the eigenvalues of :math:`-\Delta`. Filters add, scale and compose; composition multiplies
responses and convolves impulse responses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..arrays import Array, finite_where_seen, float_tensor
from ..errors import InvalidInputError
from ..operators import LinearOperator
from .parameters import as_double, current_values, scalar
from .properties import Interval, Properties, numeric_properties

if TYPE_CHECKING:
    from .methods import Method


@dataclass(frozen=True)
class Impulses:
    """A sum of point impulses: ``sum_k weights_k delta(t - times_k)``; tensors ``(k,)``."""

    times: torch.Tensor
    weights: torch.Tensor

    def convolve(self, other: Impulses) -> Impulses:
        """The convolution: all sums of times, all products of weights."""
        times = self.times[:, None] + other.times[None, :]
        weights = self.weights[:, None] * other.weights[None, :]
        return Impulses(times.reshape(-1), weights.reshape(-1))


class Filter(ABC):
    """A function of the Laplacian. Subclasses define ``evaluate``, the response as a torch function.

    (Filters and operators are not frozen dataclasses: torch.compile takes those for values and rebuilds them from its
    proxies in ``factor * filter`` and ``operator @ x``.)
    """

    __array_ufunc__ = None  # NumPy leaves products with filters to them

    @abstractmethod
    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        """The response at a float64 tensor of eigenvalues of minus Delta; differentiable in the parameters."""

    def parameters(self) -> list[torch.Tensor]:
        """The tensors that the response depends on."""
        return []

    def signature(self) -> tuple | None:
        """All numbers that determine the response, as they are now; results are cached under them.

        None if they cannot be listed, and nothing is cached: a Python function may give another answer at any time,
        and tensors that learn will change.
        """
        return None

    def impulses(self) -> Impulses | None:
        """The impulse response, where it is a sum of point impulses (or a quadrature of one); otherwise None."""
        return None

    def response(self, lam: Array) -> Array:
        """The frequency response at eigenvalues ``lam >= 0``, in the kind they come in.

        >>> import numpy as np, tangentbundle as tb
        >>> tb.Heat(2.0).response(np.array([0.0, 0.5])).round(4).tolist()
        [1.0, 0.3679]
        """
        tensor, kind = float_tensor(lam, "lam")
        if not bool((tensor >= 0).all()):
            raise InvalidInputError("responses are functions of the eigenvalues of -Delta, which are numbers >= 0.")
        return kind.wrap(self.evaluate(tensor.double()))

    def __call__(self, operator: LinearOperator, x: Array, method: Method | None = None) -> Array:
        """Filter a signal ``(..., n, d, c)``; the same kind of array comes back.

        ``method`` is ``Exact()``, ``Chebyshev(tol)`` or ``Lanczos(tol)``; by default the size decides.
        """
        from .methods import apply_bank

        finite_where_seen(float_tensor(x, "signal")[0], "signal")
        return apply_bank([self], operator, x, method)[0]

    def properties(self, on: Interval | LinearOperator | None = None) -> Properties:
        """Lowpass, Lipschitz constant and largest gain, with the ground on which they are known.

        Exact where the response has a closed form; otherwise measured on an interval of eigenvalues, ``on``, which
        can be an operator (its spectral interval).
        """
        return numeric_properties(self, on)

    def is_lowpass(self, on: Interval | LinearOperator | None = None) -> bool:
        r"""Whether :math:`\hat h(\lambda) = O(\lambda^{-2})`, the paper's definition."""
        return self.properties(on).lowpass

    def lipschitz(self, on: Interval | LinearOperator | None = None) -> float:
        r"""The least C with :math:`|\hat h(a) - \hat h(b)| \le C |a - b|`."""
        return self.properties(on).lipschitz

    def is_nonamplifying(self, on: Interval | LinearOperator | None = None) -> bool:
        r"""Whether :math:`|\hat h(\lambda)| \le 1` everywhere."""
        return self.properties(on).gain <= 1.0 + 1e-12

    def __add__(self, other: Filter) -> Filter:
        return Sum((self, other)) if isinstance(other, Filter) else NotImplemented

    def __mul__(self, factor: float) -> Filter:
        return Scaled(self, factor) if not isinstance(factor, Filter) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Filter:
        return Scaled(self, -1.0)

    def __sub__(self, other: Filter) -> Filter:
        return self + (-other)

    def __matmul__(self, other: Filter) -> Filter:
        """Composition: one filter after the other, in any order."""
        return Composition((self, other)) if isinstance(other, Filter) else NotImplemented


def joint_signature(kind: type, *parts: Any) -> tuple | None:
    """The signature of a filter made of parts: None if one of them has none."""
    return None if any(part is None for part in parts) else (kind, *parts)


@dataclass(eq=False)
class Sum(Filter):
    """The sum of filters."""

    terms: tuple[Filter, ...]

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return torch.stack([term.evaluate(lam) for term in self.terms]).sum(0)

    def parameters(self) -> list[torch.Tensor]:
        return [p for term in self.terms for p in term.parameters()]

    def signature(self) -> tuple | None:
        return joint_signature(Sum, *(term.signature() for term in self.terms))

    def impulses(self) -> Impulses | None:
        parts = [part for term in self.terms if (part := term.impulses()) is not None]
        if len(parts) < len(self.terms):
            return None
        return Impulses(torch.cat([p.times for p in parts]), torch.cat([p.weights for p in parts]))


@dataclass(eq=False)
class Scaled(Filter):
    """A filter times a number."""

    base: Filter
    factor: Any

    def __post_init__(self) -> None:
        self.factor = scalar(self.factor, "the factor of a filter")

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return self.factor * self.base.evaluate(lam)

    def parameters(self) -> list[torch.Tensor]:
        own = [self.factor] if isinstance(self.factor, torch.Tensor) else []
        return [*own, *self.base.parameters()]

    def signature(self) -> tuple | None:
        return joint_signature(Scaled, current_values(self.factor), self.base.signature())

    def impulses(self) -> Impulses | None:
        part = self.base.impulses()
        return None if part is None else Impulses(part.times, as_double(self.factor) * part.weights)


@dataclass(eq=False)
class Composition(Filter):
    """Filters one after another."""

    factors: tuple[Filter, ...]

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return torch.stack([factor.evaluate(lam) for factor in self.factors]).prod(0)

    def parameters(self) -> list[torch.Tensor]:
        return [p for factor in self.factors for p in factor.parameters()]

    def signature(self) -> tuple | None:
        return joint_signature(Composition, *(factor.signature() for factor in self.factors))

    def impulses(self) -> Impulses | None:
        total: Impulses | None = None
        for factor in self.factors:
            part = factor.impulses()
            if part is None:
                return None
            total = part if total is None else total.convolve(part)
        return total
