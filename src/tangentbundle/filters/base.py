r"""A filter :math:`\int_0^\infty \tilde h(t)\, e^{t\Delta}\, dt` of the Laplacian, seen by its
frequency response.

The response at an eigenvalue of :math:`-\Delta` is
:math:`\hat h(\lambda) = \int_0^\infty \tilde h(t)\, e^{-t\lambda}\, dt`. Filters add, scale and
compose; composition multiplies responses and convolves impulse responses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch

from ..arguments import record_arguments
from ..arrays import Array, finite_where_seen, float_tensor
from ..errors import InvalidInputError
from ..operators import SquareOperator
from ..operators.methods import Method
from ..operators.response import Impulses
from .accuracy import warn_below_tolerance
from .parameters import as_double, current_values, scalar
from .properties import Interval, Properties, interval_of, measure


class Filter(ABC):
    """A function of the Laplacian. Subclasses define ``evaluate``, the response as a torch
    function.

    (Filters and operators are not frozen dataclasses: torch.compile takes those for values and
    rebuilds them from its proxies in ``factor * filter`` and ``operator @ x``.)
    """

    __array_ufunc__ = None  # NumPy leaves products with filters to them

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        record_arguments(cls, "_arguments")  # of constructors that are no dataclass's, for saving

    @abstractmethod
    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        """The response at a float64 tensor of eigenvalues of minus Delta; differentiable in the
        parameters."""

    def parameters(self) -> list[torch.Tensor]:
        """The tensors that the response depends on."""
        return []

    def signature(self) -> tuple | None:
        """All numbers that determine the response, as they are now; results are cached under them.

        None if they cannot be listed, and nothing is cached: a Python function may give another
        answer at any time, and tensors that learn will change.
        """
        return None

    def impulses(self) -> Impulses | None:
        """The impulse response, where it is a sum of point impulses (or a quadrature of one);
        otherwise None."""
        return None

    def response(self, lam: Array) -> Array:
        """The frequency response at eigenvalues ``lam >= 0``, in the kind they come in.

        >>> import numpy as np, tangentbundle as tb
        >>> tb.Heat(2.0).response(np.array([0.0, 0.5])).round(4).tolist()
        [1.0, 0.3679]
        """
        tensor, kind = float_tensor(lam, "lam")
        if not bool((tensor >= 0).all()):
            raise InvalidInputError(
                "responses are functions of the eigenvalues of -Delta, which are numbers >= 0."
            )
        return kind.wrap(self.evaluate(tensor.double()))

    def __call__(self, operator: SquareOperator, x: Array, method: Method | None = None) -> Array:
        """Filter a signal ``(..., n, d, c)``; the same kind of array comes back.

        This is ``operator.evaluate([self], x, method)[0]``, with checks of the values. ``method``
        is ``Exact()``, ``Dense()`` or ``Chebyshev(tol)``; by default the size decides. The
        tolerance is relative to the input, not to the output at each point: where outputs are
        smaller than that, as far from the points at which the input is not zero, they have no
        correct digit. On CPUs there is an ``AccuracyWarning`` if that is so at more than 1 % of the
        points.
        """
        if not isinstance(operator, SquareOperator):
            raise InvalidInputError(
                "expected filter(operator, signal) with an operator such as bundle.laplacian(), "
                f"got {type(operator)}."
            )
        signal, kind = operator.check(x)
        finite_where_seen(signal, "signal")
        method = operator.resolve_method(method)
        output = operator.evaluate([self], signal, method)[0]
        if kind.dtype == signal.dtype:  # half precision is rounded more coarsely anyway
            warn_below_tolerance(self, operator, signal, output, method)
        return kind.wrap(output)

    def properties(self, on: Interval | SquareOperator | None = None) -> Properties:
        """Lowpass, Lipschitz constant and largest gain, measured on an interval of eigenvalues, or
        on an operator's.

        Lowpass is judged by the last decade of the interval: the response must fall at least as
        fast as one over lambda squared, or be negligible there. The Lipschitz constant is infinite
        where the response visibly jumps between two nodes.
        """
        return measure(self, interval_of(on))

    def is_lowpass(self, on: Interval | SquareOperator | None = None) -> bool:
        r"""Whether :math:`\hat h(\lambda) = O(\lambda^{-2})`, the paper's definition."""
        return self.properties(on).lowpass

    def lipschitz(self, on: Interval | SquareOperator | None = None) -> float:
        r"""The least C with :math:`|\hat h(a) - \hat h(b)| \le C |a - b|`."""
        return self.properties(on).lipschitz

    def is_nonamplifying(self, on: Interval | SquareOperator | None = None) -> bool:
        r"""Whether :math:`|\hat h(\lambda)| \le 1` everywhere."""
        return self.properties(on).gain <= 1.0 + 1e-12

    def __add__(self, other: Filter) -> Filter:
        if not isinstance(other, Filter):
            return NotImplemented
        return Sum(self, other)

    def __mul__(self, factor: float) -> Filter:
        if isinstance(factor, Filter):
            return NotImplemented
        return Composition(Constant(factor), self)

    __rmul__ = __mul__

    def __neg__(self) -> Filter:
        return -1.0 * self

    def __sub__(self, other: Filter) -> Filter:
        return self + (-other)

    def __matmul__(self, other: Filter) -> Filter:
        """Composition: one filter after the other, in any order."""
        if not isinstance(other, Filter):
            return NotImplemented
        return Composition(self, other)


class Parametric(Filter):
    """A filter whose dataclass fields are all that its response depends on: numbers, or tensors to
    learn.

    ``checks`` are functions ``check(value, name)`` of these fields, which return what is stored,
    whenever a field is set.
    Parameters that must not be negative are named in ``half_line``, above ``dataclass``.
    """

    checks: ClassVar[tuple[Callable[..., Any], ...]] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a parameter, checked as by the constructor."""
        names = [f.name for f in fields(self)]  # type: ignore[arg-type]
        for parameter, check in zip(names, self.checks, strict=False):
            if parameter == name:
                value = check(value, name)
        super().__setattr__(name, value)

    def _fields(self) -> list[Any]:
        """The parameters as they were given."""
        return [vars(self)[f.name] for f in fields(self)]  # type: ignore[arg-type]

    def parameters(self) -> list[torch.Tensor]:
        return [p for p in self._fields() if isinstance(p, torch.Tensor)]

    def signature(self) -> tuple | None:
        values = [current_values(value) for value in self._fields()]
        if None in values:
            return None
        return type(self), *values


@dataclass(eq=False)
class Constant(Parametric):
    """The identity times a number."""

    factor: Any
    checks = (scalar,)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return self.factor * torch.ones_like(lam)

    def impulses(self) -> Impulses:
        weight = as_double(self.factor)[None]
        return Impulses(torch.zeros_like(weight), weight)


@dataclass(eq=False)
class Combination(Filter):
    """A filter that consists of two others."""

    first: Filter
    second: Filter

    def __setattr__(self, name: str, value: Any) -> None:
        """Set one of the two, which must be a filter."""
        if name in ("first", "second") and not isinstance(value, Filter):
            raise InvalidInputError(
                f"{type(self).__name__} combines two filters such as Heat(0.1), got {value!r} as "
                f"the {name}."
            )
        super().__setattr__(name, value)

    def parameters(self) -> list[torch.Tensor]:
        return self.first.parameters() + self.second.parameters()

    def signature(self) -> tuple | None:
        signatures = (self.first.signature(), self.second.signature())
        if None in signatures:
            return None
        return type(self), *signatures

    def impulses(self) -> Impulses | None:
        first = self.first.impulses()
        second = self.second.impulses()
        if first is None or second is None:
            return None
        return self._combine(first, second)

    @abstractmethod
    def _combine(self, a: Impulses, b: Impulses) -> Impulses: ...


class Sum(Combination):
    """The sum of two filters."""

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return self.first.evaluate(lam) + self.second.evaluate(lam)

    def _combine(self, a: Impulses, b: Impulses) -> Impulses:
        return Impulses(torch.cat([a.times, b.times]), torch.cat([a.weights, b.weights]))


class Composition(Combination):
    """One filter after another; impulse responses are convolved."""

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return self.first.evaluate(lam) * self.second.evaluate(lam)

    def _combine(self, a: Impulses, b: Impulses) -> Impulses:
        times = (a.times[:, None] + b.times).flatten()
        weights = (a.weights[:, None] * b.weights).flatten()
        return Impulses(times, weights)
