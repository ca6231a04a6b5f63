r"""Operators known by their exponentials :math:`e^{t\Delta}`: the degenerate cases of the
framework.

On them the same filters and networks are ordinary ones: no diffusion makes a tangent bundle network
a plain perceptron, translation along a path makes a filter the usual convolution in time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch.nn.functional import pad

from ..errors import InvalidInputError
from .base import SquareOperator
from .methods import Method
from .response import Response

SPACING_ROUNDING = 1e-9
"""How far a time may be from a multiple of the spacing, in units of it."""


@dataclass(frozen=True)
class Exponentials(Method):
    """Filters with point impulses on a ``Semigroup``, by its exponentials; they are exact.

    It is the method of every ``Semigroup``, whatever the method asked for, and of no other
    operator.

    >>> import torch, tangentbundle as tb
    >>> path = tb.operators.DirectedPath.of(3)
    >>> tb.Heat(1.0)(path, torch.tensor([[[1.0]], [[2.0]], [[3.0]]]).double()).ravel().tolist()
    [0.0, 1.0, 2.0]
    """

    has_operator_gradients: ClassVar[bool] = True

    def apply(self, filters: Sequence[Response], operator: Any, x: torch.Tensor) -> torch.Tensor:
        if not isinstance(operator, Semigroup):
            raise InvalidInputError(
                f"Exponentials() is the method of a Semigroup, got {type(operator).__name__}. Use "
                "Exact(), Dense() or Chebyshev()."
            )
        return torch.stack([self._filtered(filter, operator, x) for filter in filters])

    def _filtered(self, filter: Response, operator: Semigroup, x: torch.Tensor) -> torch.Tensor:
        impulses = filter.impulses()
        if impulses is None:
            raise InvalidInputError(
                f"{filter} has no impulse response, and {operator} is known by its exponentials "
                "alone. Use Heat, FIR or ImpulseResponse."
            )
        total = torch.zeros_like(x)
        for time, weight in zip(impulses.times, impulses.weights.to(x), strict=True):
            total = total + weight * operator.exponential(time, x)
        return total


class Semigroup(SquareOperator):
    """An operator that supplies ``exponential``.

    Filters that are sums of point impulses are evaluated by these exponentials, exactly and
    whatever the method; others are refused.
    """

    @abstractmethod
    def exponential(self, t: float | torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        r""":math:`e^{t\Delta} x` for a signal ``(..., n, d, c)``."""

    def resolve_method(self, method: Method | None) -> Method:
        """Exponentials, whatever the method asked for."""
        super().resolve_method(method)
        return Exponentials()


@dataclass(eq=False)
class Identity(Semigroup):
    r"""No diffusion: :math:`\Delta = 0`, so that :math:`e^{t\Delta}` is the identity.

    >>> import torch, tangentbundle as tb
    >>> x = torch.randn(5, 1, 2)
    >>> bool(torch.equal(tb.Heat(3.0)(Identity.of(5, 1), x), x))
    True
    """

    mass: torch.Tensor
    rank: int
    sizes: tuple[int, ...] = ()
    any_precision: bool = False

    def __post_init__(self) -> None:
        if not self.sizes:
            self.sizes = (len(self.mass),)

    @classmethod
    def of(cls, num_points: int, rank: int = 1, dtype: torch.dtype | None = None) -> Identity:
        """The identity on ``num_points`` points with fibres of dimension ``rank``, all points of
        equal mass.

        Without a ``dtype`` it takes signals, and networks, in float32 and float64 alike.
        """
        any_precision = dtype is None
        if dtype is None:
            dtype = torch.float64
        mass = torch.full((num_points,), 1.0 / num_points, dtype=dtype)
        return cls(mass, rank, any_precision=any_precision)

    @property
    def dimensionless(self) -> Identity:
        """The identity itself: it has no times."""
        return self

    @property
    def adjoint(self) -> Identity:
        return self

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return 0.0 * x  # zeros that remember x, for gradients

    def exponential(self, t: float | torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Identity:
        """The same operator on another device or in another precision."""
        mass = self.mass.to(device=device, dtype=dtype)
        return replace(self, mass=mass, any_precision=self.any_precision and dtype is None)


@dataclass(eq=False)
class DirectedPath(Semigroup):
    r"""Translation along equally spaced points: :math:`\Delta = -\partial/\partial x`.

    Then :math:`(e^{t\Delta} f)(x) = f(x - t)`. Zeros enter at the open end. Exponentials are exact
    for integer multiples of the spacing, and refused otherwise; ``apply`` is the upwind difference,
    which only approximates the derivative.

    >>> import numpy as np, tangentbundle as tb
    >>> f, h = np.array([1.0, 2.0, 3.0, 4.0]), [0.5, 0.25]
    >>> tb.FIR(h)(DirectedPath.of(4), f.reshape(4, 1, 1)).ravel().tolist() == np.convolve(f, h)[
    ...     :4
    ... ].tolist()
    True
    """

    mass: torch.Tensor
    spacing: float = 1.0
    forward: bool = True
    rank: int = 1

    @classmethod
    def of(
        cls, num_points: int, spacing: float = 1.0, dtype: torch.dtype = torch.float64
    ) -> DirectedPath:
        """A path of ``num_points`` points."""
        if num_points < 1 or not spacing > 0:
            raise InvalidInputError(
                f"a path needs points and a positive spacing, got {num_points} and {spacing}."
            )
        return cls(torch.full((num_points,), 1.0 / num_points, dtype=dtype), spacing)

    @property
    def adjoint(self) -> DirectedPath:
        return replace(self, forward=not self.forward)

    def _translate(self, steps: int, x: torch.Tensor) -> torch.Tensor:
        ahead = min(steps, self.num_points)
        if not self.forward:
            ahead = -ahead
        # what is padded at one end is cut off at the other
        return pad(x, (0, 0, 0, 0, ahead, -ahead))

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return (self._translate(1, x) - x) / self.spacing

    def exponential(self, t: float | torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if isinstance(t, torch.Tensor):
            t = t.detach()  # nothing is differentiable in it
        time = float(t)
        steps = round(time / self.spacing)
        error = abs(steps * self.spacing - time)
        if steps < 0 or error > SPACING_ROUNDING * max(time, self.spacing):
            raise InvalidInputError(
                f"a path with spacing {self.spacing:g} can be translated by integer multiples of "
                f"it, not by {time:g}."
            )
        return self._translate(steps, x)
