r"""Operators known by their exponentials :math:`e^{t\Delta}`: the degenerate cases of the
framework.

On them the same filters and networks are ordinary ones: no diffusion makes a tangent bundle network
a plain perceptron, translation along a path makes a filter the usual convolution in time.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import pad

from ..errors import InvalidInputError
from .base import LinearOperator


class Semigroup(LinearOperator):
    """An operator that supplies ``exponential``; filters with impulse responses use it directly."""

    @abstractmethod
    def exponential(self, t: float | torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        r""":math:`e^{t\Delta} x` for a signal ``(..., n, d, c)``."""


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
        self.sizes = self.sizes or (len(self.mass),)

    @classmethod
    def of(cls, num_points: int, rank: int = 1, dtype: torch.dtype | None = None) -> Identity:
        """The identity on ``num_points`` points with fibres of dimension ``rank``, all points of
        equal mass.

        Without a ``dtype`` it takes signals, and networks, in float32 and float64 alike.
        """
        precision = torch.float64 if dtype is None else dtype
        mass = torch.full((num_points,), 1.0 / num_points, dtype=precision)
        return cls(mass, rank, any_precision=dtype is None)

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
        any_precision = self.any_precision and dtype is None
        return replace(
            self, mass=self.mass.to(device=device, dtype=dtype), any_precision=any_precision
        )


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
        ahead = min(steps, self.num_points) * (1 if self.forward else -1)
        return pad(
            x, (0, 0, 0, 0, ahead, -ahead)
        )  # what is padded at one end is cut off at the other

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return (self._translate(1, x) - x) / self.spacing

    def exponential(self, t: float | torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        t = float(
            t.detach() if isinstance(t, torch.Tensor) else t
        )  # nothing is differentiable in it
        steps = round(t / self.spacing)
        if steps < 0 or abs(steps * self.spacing - t) > 1e-9 * max(t, self.spacing):
            raise InvalidInputError(
                f"a path with spacing {self.spacing:g} can be translated by integer multiples of "
                f"it, not by {t:g}."
            )
        return self._translate(steps, x)
