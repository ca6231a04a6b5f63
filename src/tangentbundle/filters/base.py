r"""A filter :math:`\int_0^\infty \tilde h(t)\, e^{t\Delta}\, dt` of the Laplacian, seen by its
frequency response.

The response at an eigenvalue of :math:`-\Delta` is
:math:`\hat h(\lambda) = \int_0^\infty \tilde h(t)\, e^{-t\lambda}\, dt`. Filters add, scale and
compose; composition multiplies responses and convolves impulse responses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, TypeVar

import torch

from ..arguments import record_arguments
from ..arrays import Array, finite_where_seen, float_tensor, half_precision
from ..errors import InvalidInputError, NonFiniteError
from ..operators import SquareOperator
from ..operators.methods import Method
from ..operators.response import Impulses
from ..transforms import is_batched, is_transformed
from .accuracy import warn_below_tolerance
from .properties import Interval, Properties, interval_of, measure

Class = TypeVar("Class")
Number = float | torch.Tensor
Numbers = tuple[float, ...] | torch.Tensor


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

    def gain_bound(self) -> torch.Tensor:
        r"""A bound of :math:`|\hat h(\lambda)|` for all :math:`\lambda \ge 0`, differentiable in
        the parameters: by default :math:`\int |\tilde h(t)|\, dt`, where the impulse response is
        known.

        >>> import tangentbundle as tb
        >>> (tb.Heat(0.1) - 0.5 * tb.Heat(0.2)).gain_bound().item()
        1.5
        """
        impulses = self.impulses()
        if impulses is None:
            raise InvalidInputError(
                f"the gain of {self} is not known: it has no impulse response. Use a filter that "
                "has one, or define gain_bound() in a class of your own."
            )
        return impulses.weights.abs().sum()

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
        signal = x
        if half_precision(x) is not None:
            signal = torch.as_tensor(x).float()
        finite_where_seen(float_tensor(signal, "signal")[0], "signal")
        output = operator.evaluate([self], x, method)[0]
        if signal is x:  # half precision is rounded more coarsely anyway
            method = operator.resolve_method(method)
            warn_below_tolerance(operator, x, output, method, method.errors(self, operator))
        return output

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


# Parameters: numbers are copied, tensors held by reference, so that filters follow an optimiser.


def scalar(value: Array, name: str, bound: str = "") -> Number:
    """One number, as a float or as the tensor given; ``bound`` may be "positive" or "at least
    0"."""
    if isinstance(value, float) and math.isfinite(value):
        _require_bound(value, name, bound)
        return float(value)
    tensor = _checked(value, name)
    if tensor.ndim != 0:
        raise InvalidInputError(f"{name} must be one number, got shape {tuple(tensor.shape)}.")
    learns = tensor.requires_grad  # and acts by its absolute value: see ``half_line``
    if not learns and _is_readable(tensor):
        _require_bound(float(tensor), name, bound)
    if tensor is value:
        return tensor
    return float(tensor)


def _require_bound(number: float, name: str, bound: str) -> None:
    """Refuse a number that is not "positive", or not "at least 0"."""
    if (bound == "positive" and not number > 0) or (bound == "at least 0" and not number >= 0):
        raise InvalidInputError(f"{name} must be {bound}, got {number:.6g}.")


nonnegative_scalar = partial(scalar, bound="at least 0")
positive_scalar = partial(scalar, bound="positive")


def vector(values: Array | Sequence[float], name: str) -> Numbers:
    """A non-empty list of numbers, as a tuple or as the tensor given."""
    tensor = _checked(values, name)
    if tensor.ndim != 1 or len(tensor) == 0:
        raise InvalidInputError(
            f"{name} must be a non-empty list of numbers, got shape {tuple(tensor.shape)}."
        )
    if tensor is values:
        return tensor
    return tuple(tensor.tolist())


def _checked(value: Array, name: str) -> torch.Tensor:
    """A float tensor, finite where its values can be read."""
    tensor, _ = float_tensor(value, name)
    if _is_readable(tensor) and not bool(torch.isfinite(tensor).all()):
        bad = int((~torch.isfinite(tensor)).sum())
        raise NonFiniteError(
            f"{name} must be finite, got {tensor.detach()} ({bad} of {tensor.numel()} values)."
        )
    return tensor


def _is_readable(tensor: torch.Tensor) -> bool:
    """Whether reading values costs nothing: not on a GPU, nor inside ``torch.vmap``."""
    return tensor.device.type == "cpu" and not is_batched(tensor)


def half_line(*names: str) -> Callable[[type[Class]], type[Class]]:
    r"""A class whose parameters of these names act by their absolute values where they are tensors.

    An optimiser moves a tensor freely along the line; the filter, and ``filter.name``, have
    :math:`|t|`. So times stay on the half line whatever the optimiser and its steps, and no
    gradient vanishes at a bound: on the other side of zero it has the other sign.
    ``vars(filter)[name]`` and ``filter.parameters()`` are the tensors as they were given.

    >>> import torch, tangentbundle as tb
    >>> t = torch.nn.Parameter(torch.tensor(0.25))
    >>> heat = tb.Heat(t)
    >>> with torch.no_grad():
    ...     t -= 1.0  # too large a step of an optimiser
    >>> t.item(), heat.t.item()
    (-0.75, 0.75)
    """

    def decorate(cls: type[Class]) -> type[Class]:
        for name in names:
            setattr(cls, name, _half_line_property(name))
        return cls

    return decorate


def _half_line_property(name: str) -> property:
    def read(instance: Any) -> Number:
        value = vars(instance)[name]
        if isinstance(value, torch.Tensor):
            return torch.where(value < 0, -value, value)
        return value

    def write(instance: Any, value: Number) -> None:
        vars(instance)[name] = value

    return property(read, write)


def current_values(parameter: Number | Numbers) -> float | tuple[float, ...] | None:
    """The value of a parameter now, for the key of a cache; None for tensors that learn or cannot
    be read cheaply."""
    if not isinstance(parameter, torch.Tensor):
        return parameter
    if parameter.requires_grad or is_transformed(parameter) or not _is_readable(parameter):
        return None
    return tuple(parameter.reshape(-1).tolist())


def as_double(parameter: Number | Numbers) -> torch.Tensor:
    """A parameter as a float64 tensor; differentiable."""
    return torch.as_tensor(parameter, dtype=torch.float64)


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

    def parameters(self) -> list[torch.Tensor]:
        as_given = [vars(self)[f.name] for f in fields(self)]  # type: ignore[arg-type]
        return [value for value in as_given if isinstance(value, torch.Tensor)]

    def signature(self) -> tuple | None:
        if any(parameter.requires_grad for parameter in self.parameters()):
            return None
        effective = [getattr(self, f.name) for f in fields(self)]  # type: ignore[arg-type]
        values = [current_values(value) for value in effective]
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

    def gain_bound(self) -> torch.Tensor:
        return self.first.gain_bound() + self.second.gain_bound()

    def _combine(self, a: Impulses, b: Impulses) -> Impulses:
        return Impulses(torch.cat([a.times, b.times]), torch.cat([a.weights, b.weights]))


class Composition(Combination):
    """One filter after another; impulse responses are convolved."""

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return self.first.evaluate(lam) * self.second.evaluate(lam)

    def gain_bound(self) -> torch.Tensor:
        return self.first.gain_bound() * self.second.gain_bound()

    def _combine(self, a: Impulses, b: Impulses) -> Impulses:
        times = (a.times[:, None] + b.times).flatten()
        weights = (a.weights[:, None] * b.weights).flatten()
        return Impulses(times, weights)
