r"""Deep networks: blocks that add to their input.

.. math:: X_{l+1} = X_l + D\Big(\sigma\Big(\sum_k h_k(\Delta)\, N(X_l)\, H_{l,k}\Big) W_l\Big)

with a normalisation N, a bank of filters, gates :math:`\sigma`, a matrix W that mixes channels, and
dropout D of whole vectors. Every part commutes with changes of frames, and so does the network. The
sum lets gradients reach the first block as they are, whatever the depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from ..arrays import positive_integer
from ..errors import InvalidInputError
from ..filters import Filter, Method
from ..operators import SquareOperator
from .activations import Activation, NormGate, activate, sized_activation
from .base import (
    Configured,
    check_channels,
    check_part,
    check_signal,
    generator,
    uniform_weights,
)
from .constraints import Constraint
from .conv import ConvFactory
from .dropout import VectorDropout
from .norms import FieldNorm, PointNorm
from .readouts import Readout


class ResidualBlock(Configured):
    """A block ``(..., n, d, channels) -> (..., n, d, channels)`` for deep networks, the input plus
    a change.

    Args:
        channels: of signals before and after.
        taps, step, filters, constraints, method: of the filter bank, as of ``BundleConv``.
        norm: of the signals that are filtered, default ``PointNorm()``. ``CloudNorm()`` where the
            strength of a field at a point matters, ``NoNorm()`` for none.
        activation: default ``NormGate()``, gates that depend on the lengths of all channels.
        dropout: probability with which a vector of the change is left out in training.
        seed: of the initial weights.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(100, seed=0).astype("float32")
    ... ).laplacian()
    >>> tb.nn.ResidualBlock(8, step=0.1)(torch.randn(100, 2, 8), lap).shape
    torch.Size([100, 2, 8])
    """

    def __init__(
        self,
        channels: int,
        taps: int = 2,
        step: float = 1.0,
        *,
        filters: Sequence[Filter] | None = None,
        constraints: Sequence[Constraint] = (),
        norm: FieldNorm | None = None,
        activation: Activation | None = None,
        dropout: float = 0.0,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.channels = positive_integer(channels, "channels")
        source = generator(seed)
        chosen_norm = check_part(norm, PointNorm(), FieldNorm, "PointNorm() or CloudNorm()")
        chosen_activation = check_part(activation, NormGate(), Activation, "NormGate()")
        self.norm = chosen_norm.sized(self.channels)
        convs = ConvFactory(
            taps=taps,
            step=step,
            filters=filters,
            constraints=constraints,
            method=method,
            source=source,
        )
        self.conv = convs.make(channels, channels)
        self.activation = sized_activation(chosen_activation, self.channels)
        self.mix = uniform_weights(channels, channels, fan_in=channels, source=source)
        self.dropout = VectorDropout(dropout)

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        filtered = self.conv(self.norm(x, operator), operator)
        change = activate(self.activation, filtered, operator) @ self.mix
        return x + self.dropout(change)


class ResidualTNN(Configured):
    """A deep network of residual blocks on signals ``(..., n, d, channels[0])`` with outputs
    ``(..., n, d, channels[2])``.

    A matrix mixes the input into ``channels[1]`` channels, those of all blocks, and another one
    these into the output.

    Args:
        channels: of the input, of all blocks, of the output, such as ``[1, 16, 1]``.
        layers: number of blocks; 20 can be trained.
        readout: of the output, as of ``TNN``.
        others: as of ``ResidualBlock``.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(100, seed=0).astype("float32")
    ... ).laplacian()
    >>> net = tb.nn.ResidualTNN([1, 16, 1], layers=20, step=0.1)
    >>> net(torch.randn(100, 2, 1), lap).shape
    torch.Size([100, 2, 1])
    """

    def __init__(
        self,
        channels: Iterable[int],
        layers: int = 4,
        taps: int = 2,
        *,
        step: float = 1.0,
        filters: Sequence[Filter] | None = None,
        constraints: Sequence[Constraint] = (),
        norm: FieldNorm | None = None,
        activation: Activation | None = None,
        dropout: float = 0.0,
        readout: Readout | None = None,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        widths = check_channels(channels, minimum=3)
        if len(widths) != 3:
            raise InvalidInputError(
                f"channels must be those of input, blocks and output, such as [1, 16, 1], got "
                f"{widths}. The number of blocks is layers={len(widths) - 2}."
            )
        in_channels, width, out_channels = widths
        source = generator(seed)
        self.in_channels = in_channels
        self.lift = uniform_weights(in_channels, width, fan_in=in_channels, source=source)
        self.blocks = torch.nn.ModuleList()
        for _ in range(positive_integer(layers, "layers")):
            block = ResidualBlock(
                width,
                taps,
                step,
                filters=filters,
                constraints=constraints,
                norm=norm,
                activation=activation,
                dropout=dropout,
                method=method,
                seed=source,
            )
            self.blocks.append(block)
        self.head = uniform_weights(width, out_channels, fan_in=width, source=source)
        self.readout = check_part(readout, None, Readout, "InvariantReadout(8, 3)")

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        x = check_signal(x, operator, self.in_channels, self.lift) @ self.lift
        for block in self.blocks:
            x = block(x, operator)
        x = x @ self.head
        if self.readout is None:
            return x
        return self.readout(x, operator)
