"""Nonlinearities.

All but ``Coordinatewise`` are independent of the frames, and all but ``AmbientThenProject`` commute with rotations of
the ambient space. On scalar bundles (rank 1) they are pointwise functions; ``AmbientThenProject`` needs frames.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from ..errors import InvalidInputError
from ..operators import LinearOperator
from .base import Configured

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    f.__name__: f for f in (torch.tanh, torch.relu, torch.sigmoid, torch.sin, F.silu, F.softplus, F.elu)
}
"""Pointwise functions that can be saved with a network, by name."""


class Activation(Configured):
    """A pointwise map on signals ``(..., n, d, c)``."""

    gauge_equivariant = True
    rotation_equivariant = True

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        raise NotImplementedError


class Linear(Activation):
    """The identity: no nonlinearity."""

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        return x


class _Pointwise(Activation):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor] = torch.tanh) -> None:
        super().__init__()
        if not callable(function):
            raise InvalidInputError(f"an activation needs a function such as torch.tanh, got {function!r}.")
        self.function = function

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


class Coordinatewise(_Pointwise):
    """A function of each coordinate, as in the paper's experiments. **Not** independent of the choice of frames.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.Coordinatewise(torch.tanh)(torch.zeros(4, 2, 1), None).shape
    torch.Size([4, 2, 1])
    """

    gauge_equivariant = False

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        return self.function(x)


class AmbientThenProject(_Pointwise):
    r"""The paper's definition: :math:`\sigma(f)_i = O_i^T\, \tilde\sigma(O_i f_i)`, a function of ambient coordinates.

    The result of :math:`\tilde\sigma` need not be tangent, so it is projected (the paper assumes that it is).
    Independent of the frames, but not of the axes of the ambient space.
    """

    rotation_equivariant = False

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        try:
            frames: torch.Tensor = operator.frames  # type: ignore[attr-defined]
        except (AttributeError, InvalidInputError) as error:
            raise InvalidInputError(
                f"AmbientThenProject needs frames, and this {type(operator).__name__} has none. Use the Laplacian of a "
                "tangent bundle, or Coordinatewise on functions."
            ) from error
        ambient = torch.einsum("nij,...njc->...nic", frames, x)
        return torch.einsum("nij,...nic->...njc", frames, self.function(ambient))


def squared_norm(x: torch.Tensor) -> torch.Tensor:
    """Squared lengths of the vectors of a signal, ``(..., n, 1, c)``."""
    return x.square().sum(dim=-2, keepdim=True)


class NormTanh(Activation):
    r"""Shortens vectors and keeps their directions: :math:`f \mapsto \tanh(|f|)\, f/|f|`, smooth at zero.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.NormTanh()(torch.tensor([[[3.0], [4.0]]]), None).flatten()
    tensor([0.5999, 0.7999])
    """

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        s = squared_norm(x)
        small = s < 1e-3
        r = torch.where(small, 1.0, s).sqrt()
        series = 1 + s * (-1 / 3 + s * (2 / 15 + s * (-17 / 315 + s * (62 / 2835))))
        return x * torch.where(small, series, torch.tanh(r) / r)
