r"""A filter :math:`\int_0^\infty \tilde h(t)\, e^{t\Delta}\, dt` of the Laplacian, seen by its
frequency response.

The response at an eigenvalue of :math:`-\Delta` is
:math:`\hat h(\lambda) = \int_0^\infty \tilde h(t)\, e^{-t\lambda}\, dt`. Filters add, scale and
compose; composition multiplies responses and convolves impulse responses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch

from ..arguments import record_arguments
from ..arrays import Array, finite_where_seen, float_tensor, half_precision
from ..errors import InvalidInputError, NonFiniteError
from ..operators import LinearOperator
from ..transforms import is_batched, is_transformed
from .accuracy import warn_below_tolerance
from .banks import Method, apply_bank
from .properties import Interval, Properties, interval_of, measure

Kind = TypeVar("Kind")
Number = float | torch.Tensor
Numbers = tuple[float, ...] | torch.Tensor


class Impulses(NamedTuple):
    """A sum of point impulses: ``sum_k weights_k delta(t - times_k)``; tensors ``(k,)``."""

    times: torch.Tensor
    weights: torch.Tensor


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

    def __call__(self, operator: LinearOperator, x: Array, method: Method | None = None) -> Array:
        """Filter a signal ``(..., n, d, c)``; the same kind of array comes back.

        ``method`` is ``Exact()``, ``Dense()`` or ``Chebyshev(tol)``; by default the size decides.
        The tolerance is relative to the input, not to the output at each point: where outputs are
        smaller than that, as far from the points at which the input is not zero, they have no
        correct digit. On CPUs there is an ``AccuracyWarning`` if that is so at more than 1 % of the
        points.
        """
        finite_where_seen(
            torch.as_tensor(x).float() if half_precision(x) else float_tensor(x, "signal")[0],
            "signal",
        )
        y = apply_bank([self], operator, x, method)[0]
        warn_below_tolerance(self, operator, x, y, method)
        return y

    def properties(self, on: Interval | LinearOperator | None = None) -> Properties:
        """Lowpass, Lipschitz constant and largest gain, measured on an interval of eigenvalues, or
        on an operator's.

        Lowpass is judged by the last decade of the interval: the response must fall at least as
        fast as one over lambda squared, or be negligible there. The Lipschitz constant is infinite
        where the response visibly jumps between two nodes.
        """
        return measure(self, interval_of(on))

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
        return Sum(self, other) if isinstance(other, Filter) else NotImplemented

    def __mul__(self, factor: float) -> Filter:
        return (
            Composition(Constant(factor), self)
            if not isinstance(factor, Filter)
            else NotImplemented
        )

    __rmul__ = __mul__

    def __neg__(self) -> Filter:
        return -1.0 * self

    def __sub__(self, other: Filter) -> Filter:
        return self + (-other)

    def __matmul__(self, other: Filter) -> Filter:
        """Composition: one filter after the other, in any order."""
        return Composition(self, other) if isinstance(other, Filter) else NotImplemented


# Parameters: numbers are copied, tensors held by reference, so that filters follow an optimiser.


def scalar(value: Array, name: str, bound: str = "") -> Number:
    """One number, as a float or as the tensor given; ``bound`` may be "positive" or "at least
    0"."""
    tensor = _checked(value, name)
    if tensor.ndim != 0:
        raise InvalidInputError(f"{name} must be one number, got shape {tuple(tensor.shape)}.")
    learned = tensor.requires_grad  # and acts by its absolute value: see ``half_line``
    if (
        bound
        and not learned
        and _is_readable(tensor)
        and not (tensor > 0 if bound == "positive" else tensor >= 0)
    ):
        raise InvalidInputError(f"{name} must be {bound}, got {float(tensor):.6g}.")
    return tensor if tensor is value else float(tensor)


nonnegative_scalar = partial(scalar, bound="at least 0")
positive_scalar = partial(scalar, bound="positive")


def half_line(*names: str) -> Callable[[type[Kind]], type[Kind]]:
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

    def parameter(name: str) -> property:
        def read(instance: Any) -> Number:
            value = vars(instance)[name]
            return (
                torch.where(value < 0, -value, value) if isinstance(value, torch.Tensor) else value
            )

        return property(read, lambda instance, value: vars(instance).__setitem__(name, value))

    def decorate(cls: type[Kind]) -> type[Kind]:
        for name in names:
            setattr(cls, name, parameter(name))
        return cls

    return decorate


def vector(values: Array | Sequence[float], name: str) -> Numbers:
    """A non-empty list of numbers, as a tuple or as the tensor given."""
    tensor = _checked(values, name)
    if tensor.ndim != 1 or len(tensor) == 0:
        raise InvalidInputError(
            f"{name} must be a non-empty list of numbers, got shape {tuple(tensor.shape)}."
        )
    return tensor if tensor is values else tuple(tensor.tolist())


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

    def _fields(self) -> list[Any]:
        """The parameters as they were given."""
        return [vars(self)[f.name] for f in fields(self)]  # type: ignore[arg-type]

    def parameters(self) -> list[torch.Tensor]:
        return [p for p in self._fields() if isinstance(p, torch.Tensor)]

    def signature(self) -> tuple | None:
        values = [*map(current_values, self._fields())]
        return None if None in values else (type(self), *values)


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
        parts = self.first.signature(), self.second.signature()
        return None if None in parts else (type(self), *parts)

    def impulses(self) -> Impulses | None:
        a, b = self.first.impulses(), self.second.impulses()
        return None if a is None or b is None else self._combine(a, b)

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
        return Impulses(
            (a.times[:, None] + b.times).flatten(), (a.weights[:, None] * b.weights).flatten()
        )
