"""Nonlinearities.

All but ``Coordinatewise`` are independent of the frames, and all but ``AmbientThenProject`` commute
with rotations of the ambient space. On scalar bundles (rank 1) they are pointwise functions;
``AmbientThenProject`` needs frames.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch

from ..arrays import positive_integer
from ..errors import InvalidInputError, ShapeError, TangentBundleError
from ..operators import SquareOperator
from .base import Configured


class Activation(Configured):
    """A pointwise map on signals ``(..., n, d, c)``.

    Every layer of a network has its own copy, ``activation.sized(channels)``, so that weights are
    not shared. Override ``sized`` for an activation with weights for each channel:

    >>> import torch, tangentbundle as tb
    >>> class Scaled(tb.nn.Activation):
    ...     def __init__(self, channels=1):
    ...         super().__init__()
    ...         self.scale = torch.nn.Parameter(torch.ones(channels))
    ...
    ...     def sized(self, channels):
    ...         return Scaled(channels)
    ...
    ...     def forward(self, x, operator):
    ...         return self.scale * x / (1 + x.square().sum(dim=-2, keepdim=True))
    >>> tb.nn.TNN([1, 8, 4, 1], activation=Scaled()).num_parameters
    100
    """

    gauge_equivariant = True
    rotation_equivariant = True

    def sized(self, channels: int) -> Activation:
        """This activation for a layer of so many channels, with weights of its own: by default a
        copy."""
        return copy.deepcopy(self)

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        raise NotImplementedError


def activate(activation: Activation, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """The activation of a signal, refused by name if its weights do not fit the channels."""
    try:
        y = activation(x, operator)
    except RuntimeError as error:
        has_weights = next(activation.parameters(), None) is not None
        if has_weights and not isinstance(error, TangentBundleError):
            raise _unfit_error(activation, x, str(error)) from error
        raise
    if y.shape != x.shape:
        raise _unfit_error(activation, x, f"it returned {tuple(y.shape)}")
    return y


def sized_activation(activation: Activation, channels: int) -> Activation:
    """The activation of a layer with so many channels, with weights of its own."""
    try:
        own = activation.sized(channels)
    except TypeError as error:
        raise InvalidInputError(
            f"every layer needs its own {type(activation).__name__}, which cannot be copied "
            f"({error}). Give it a method sized(channels) that returns another one."
        ) from error
    if not isinstance(own, Activation):
        raise InvalidInputError(
            f"{type(activation).__name__}.sized must return an Activation, got {own!r}."
        )
    return own


def _unfit_error(activation: Activation, x: torch.Tensor, reason: str) -> ShapeError:
    return ShapeError(
        f"the activation {type(activation).__name__} does not fit a layer with {x.shape[-1]} "
        f"channels, signal (..., n, d, c) = {tuple(x.shape)}: {reason}. Weights for each channel "
        "need a method sized(channels), which returns an activation with as many."
    )


class NoActivation(Activation):
    """No nonlinearity: the signal as it is, for linear networks and last layers.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.NoActivation()(torch.ones(4, 2, 1), None).sum()
    tensor(8.)
    """

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        return x


class _Pointwise(Activation):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor] = torch.tanh) -> None:
        super().__init__()
        if not callable(function):
            raise InvalidInputError(
                f"an activation needs a function such as torch.tanh, got {function!r}."
            )
        self.function = function

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


class Coordinatewise(_Pointwise):
    """A function of each coordinate, as in the paper's experiments. **Not** independent of the
    choice of frames.

    Functions that are not odd depend even on the signs of the columns, which
    ``TangentBundle.from_points`` states.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.Coordinatewise(torch.tanh)(torch.zeros(4, 2, 1), None).shape
    torch.Size([4, 2, 1])
    """

    gauge_equivariant = False

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        return self.function(x)


class AmbientThenProject(_Pointwise):
    r"""The paper's definition: :math:`\sigma(f)_i = O_i^T\, \tilde\sigma(O_i f_i)`, a function of
    ambient coordinates.

    The result of :math:`\tilde\sigma` need not be tangent, so it is projected (the paper assumes
    that it is). Independent of the frames, but not of the axes of the ambient space.
    """

    rotation_equivariant = False

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        try:
            frames: torch.Tensor = operator.frames  # type: ignore[attr-defined]
        except (AttributeError, InvalidInputError) as error:
            raise InvalidInputError(
                f"AmbientThenProject needs frames, and this {type(operator).__name__} has none. "
                "Use the Laplacian of a tangent bundle, or Coordinatewise on functions."
            ) from error
        ambient = torch.einsum("nij,...njc->...nic", frames, x)
        return torch.einsum("nij,...nic->...njc", frames, self.function(ambient))


def squared_norm(x: torch.Tensor) -> torch.Tensor:
    """Squared lengths of the vectors of a signal, ``(..., n, 1, c)``."""
    return x.square().sum(dim=-2, keepdim=True)


class NormTanh(Activation):
    r"""Shortens vectors and keeps their directions: :math:`f \mapsto \tanh(|f|)\, f/|f|`, smooth at
    zero.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.NormTanh()(torch.tensor([[[3.0], [4.0]]]), None).flatten()
    tensor([0.5999, 0.7999])
    """

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        square = squared_norm(x)
        is_small = square < SMALL_SQUARE
        length = torch.where(is_small, 1.0, square).sqrt()
        small_square = torch.where(is_small, square, 0.0)  # powers of long vectors are infinite
        series = tanh_ratio_series(small_square)
        return x * torch.where(is_small, series, torch.tanh(length) / length)


class NormGate(Activation):
    r"""Gates: each channel times a number between 0 and 2 that the lengths of all channels decide.

    .. math:: f_c \mapsto 2\,\sigma\Big(\sum_{c'} W_{cc'}\, \ell(f_{c'}) + b_c\Big)\, f_c,
              \qquad \ell(f) = \sqrt{1 + |f|^2} - 1 .

    It is the nonlinearity by which the channels of a point see each other. At first W is the
    identity and b zero: long vectors grow, as by a smooth ReLU.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.TNN([1, 8, 1], activation=tb.nn.NormGate()).num_parameters
    104
    """

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.channels = positive_integer(channels, "channels")
        self.weight = torch.nn.Parameter(torch.eye(self.channels))
        self.shift = torch.nn.Parameter(torch.zeros(self.channels))

    def sized(self, channels: int) -> NormGate:
        return NormGate(channels)

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        lengths = (1.0 + squared_norm(x)).sqrt() - 1.0
        return 2.0 * torch.sigmoid(lengths @ self.weight.T + self.shift) * x


SMALL_SQUARE = 1e-3
"""Squared lengths below which ``NormTanh`` uses a series: it has no root, whose derivative at zero
is infinite, and its first missing term is below the rounding of float64."""


def tanh_ratio_series(square: torch.Tensor) -> torch.Tensor:
    r"""The series of :math:`\tanh(r)/r` in :math:`r^2`, by Horner's rule."""
    total = square * (62 / 2835)
    for coefficient in (-17 / 315, 2 / 15, -1 / 3):
        total = square * (coefficient + total)
    return 1 + total
