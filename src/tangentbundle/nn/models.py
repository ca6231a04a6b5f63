r"""Tangent bundle neural networks.

.. math:: X_{l+1} = \sigma\Big(\sum_{k=0}^{K-1} (e^{T_s\Delta})^k X_l H_{l,k}\Big).

One class, several systems: on the Laplacian of a tangent bundle it is the paper's DD-TNN, on that
of the scalar bundle a manifold (graph) network, MNN, on the identity a perceptron, MLP. Recurrent
networks add a filter of the state,

.. math:: z_{l,t} = \sigma\Big(\sum_k e^{kT_s\Delta} z_{l-1,t} H_{l,k}
          + \sum_k e^{kT_s\Delta} z_{l,t-1} W_{l,k}\Big),
          \qquad z_{0,t} = f_t, \quad z_{l,0} = 0,

or a gated cell. The inputs ``(..., T, n, d, c)`` of a layer are filtered for all times at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch

from ..errors import InvalidInputError, ShapeError
from ..filters import Filter, Method
from ..operators import SquareOperator
from .activations import Activation, Coordinatewise, Linear, NormTanh, activate, sized, squared_norm
from .base import Configured, generator, part, widths
from .conv import BundleConv, with_parameters
from .readouts import Readout

Layers = Callable[[int, int], BundleConv]
States = list[torch.Tensor]


def layers_of(
    taps: int,
    step: float,
    filters: Sequence[Filter] | None,
    method: Method | None,
    seed: int | torch.Generator,
) -> Layers:
    """Makes layers ``(in, out)`` from one generator, each with its own copy of the parameters of
    the filters."""
    options: dict[str, Any] = {"method": method, "seed": generator(seed)}
    return lambda a, b: BundleConv(
        a, b, taps, step, filters=with_parameters(filters, copy.deepcopy), **options
    )


class TNN(Configured):
    r"""A network on signals ``(..., n, d, channels[0])`` with outputs
    ``(..., n, d, channels[-1])``.

    Args:
        channels: widths, input first: ``[1, 8, 4, 1]`` is the paper's.
        taps: K, counted from the identity tap k = 0.
        step: sampling interval :math:`T_s`.
        filters: instead of taps and step, the filters of every layer (a D-TNN); each learns its own
            copy of their parameters.
        activation: nonlinearity of the hidden layers, default ``NormTanh()``, which depends on no
            frames; the paper's experiments use ``Coordinatewise(torch.tanh)``. Each layer has its
            own copy, see ``Activation``.
        output: nonlinearity of the last layer, default none.
        readout: such as ``SumReadout`` or ``InvariantReadout``, for numbers or classes instead of
            fields.
        method: how filters are evaluated; by default the operator's size decides.
        seed: of the initial weights.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(
    ...     torch.from_numpy(tb.manifolds.Torus().sample(400, seed=0)).float()
    ... )
    >>> net = tb.nn.TNN(channels=[1, 8, 4, 1], taps=2)
    >>> net.num_parameters, net(torch.randn(400, 2, 1), bundle.laplacian()).shape
    (88, torch.Size([400, 2, 1]))
    """

    def __init__(
        self,
        channels: Iterable[int],
        taps: int = 2,
        *,
        step: float = 1.0,
        filters: Sequence[Filter] | None = None,
        activation: Activation | None = None,
        output: Activation | None = None,
        readout: Readout | None = None,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        channels = widths(channels, least=2)
        layers = layers_of(taps, step, filters, method, seed)
        hidden = part(
            activation, NormTanh(), Activation, "NormTanh() or Coordinatewise(torch.tanh)"
        )
        final = part(output, Linear(), Activation, "NormTanh() or Coordinatewise(torch.tanh)")
        self.layers = torch.nn.ModuleList()
        for level, (wide, high) in enumerate(pairwise(channels), start=2):
            activation = sized(final if level == len(channels) else hidden, high)
            self.layers.append(
                torch.nn.ModuleDict({"conv": layers(wide, high), "activation": activation})
            )
        self.readout = part(readout, None, Readout, "SumReadout(channels=1, outputs=2)")

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        layer: Any
        for layer in self.layers:
            x = activate(layer.activation, layer.conv(x, operator), operator)
        return x if self.readout is None else self.readout(x, operator)


class RecurrentCell(torch.nn.Module):
    """One layer of the paper's recurrence: a filter of the input, a filter of the state, a
    nonlinearity."""

    def __init__(self, conv: Layers, wide: int, high: int, activation: Activation) -> None:
        super().__init__()
        self.width, self.drive, self.feedback, self.activation = (
            high,
            conv(wide, high),
            conv(high, high),
            activation,
        )

    def step(
        self, driven: torch.Tensor, state: torch.Tensor, operator: SquareOperator
    ) -> torch.Tensor:
        """The next state, from the filtered input ``driven`` and the state."""
        return activate(self.activation, driven + self.feedback(state, operator), operator)


class GatedCell(torch.nn.Module):
    r"""A gated recurrent unit whose gates depend on lengths alone, and so on no frames.

    With :math:`a, r, c` filters of input and state, gates
    :math:`u = \mathrm{sigmoid}(\alpha \sqrt{1 + |a|^2} + \beta)`, likewise :math:`\rho` from r, and
    :math:`z' = (1 - u)\, z + u\, \sigma(c_x + W(\rho z))`.
    """

    def __init__(self, conv: Layers, wide: int, high: int, activation: Activation) -> None:
        super().__init__()
        self.width, self.activation = high, activation
        self.drive, self.gates, self.feedback = (
            conv(wide, 3 * high),
            conv(high, 2 * high),
            conv(high, high),
        )
        self.slope = torch.nn.Parameter(torch.ones(2 * high))
        self.shift = torch.nn.Parameter(torch.full((2 * high,), -1.0))

    def step(
        self, driven: torch.Tensor, state: torch.Tensor, operator: SquareOperator
    ) -> torch.Tensor:
        to_gates, to_candidate = driven.split([2 * self.width, self.width], dim=-1)
        lengths = (1 + squared_norm(to_gates + self.gates(state, operator))).sqrt()
        update, reset = torch.sigmoid(self.slope * lengths + self.shift).chunk(2, dim=-1)
        candidate = activate(
            self.activation, to_candidate + self.feedback(reset * state, operator), operator
        )
        return state + update * (candidate - state)


class Recurrent(Configured):
    """A stack of recurrent cells, and a linear output layer if the last of ``channels`` is the
    number of outputs.

    Args as of ``TNN``.
    """

    cell: type[RecurrentCell | GatedCell]
    default_activation: Activation
    has_head: bool

    def __init__(
        self,
        channels: Iterable[int],
        taps: int = 2,
        *,
        step: float = 1.0,
        filters: Sequence[Filter] | None = None,
        activation: Activation | None = None,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        sizes, conv = (
            widths(channels, least=2 + self.has_head),
            layers_of(taps, step, filters, method, seed),
        )
        act = part(
            activation,
            self.default_activation,
            Activation,
            "NormTanh() or Coordinatewise(torch.tanh)",
        )
        states = pairwise(sizes[:-1] if self.has_head else sizes)
        self.cells = torch.nn.ModuleList(
            self.cell(conv, wide, high, sized(act, high)) for wide, high in states
        )
        self.head = conv(sizes[-2], sizes[-1]) if self.has_head else None

    def forward(
        self, sequence: torch.Tensor, operator: SquareOperator, states: States | None = None
    ) -> tuple[torch.Tensor, States]:
        """Outputs ``(..., T, n, d, c)`` at every time, and the states of the layers after the
        last."""
        if sequence.ndim < 4 or sequence.shape[-4] < 1:
            raise ShapeError(
                "a sequence has shape (..., T, n, d, channels) with T of at least 1, got "
                f"{tuple(sequence.shape)}."
            )
        if states is not None and len(states) != len(self.cells):
            raise InvalidInputError(
                f"a network of {len(self.cells)} recurrent layers needs as many states, got "
                f"{len(states)}."
            )
        ends = []
        cell: RecurrentCell | GatedCell
        for level, cell in enumerate(self.cells):  # type: ignore[assignment]
            driven = cell.drive(sequence, operator)
            start = driven.new_zeros((*driven.shape[:-4], *driven.shape[-3:-1], cell.width))
            state = start if states is None else states[level]
            path = []
            for now in driven.unbind(-4):
                state = cell.step(now, state, operator)
                path.append(state)
            sequence = torch.stack(path, dim=-4)
            ends.append(state)
        return (sequence if self.head is None else self.head(sequence, operator)), ends


class RecurrentTNN(Recurrent):
    """The paper's multi-layer recurrent network; its outputs are the states of the last layer.

    ``channels`` lists input and states: ``[1, 1, 1, 1]`` is the paper's three layers. The
    activation acts on every layer, the last included; default coordinatewise tanh, as in the paper
    (which depends on the frames; ``NormTanh()`` does not).

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(100, seed=0).astype("float32")
    ... ).laplacian()
    >>> net = tb.nn.RecurrentTNN(channels=[1, 1, 1, 1], taps=2)
    >>> outputs, states = net(torch.randn(6, 20, 100, 2, 1), lap)
    >>> outputs.shape, len(states), net.num_parameters
    (torch.Size([6, 20, 100, 2, 1]), 3, 12)
    """

    cell, default_activation, has_head = RecurrentCell, Coordinatewise(torch.tanh), False


class GatedTNN(Recurrent):
    """A gated recurrent network (ConvGRU) on the bundle: ``channels`` lists input, states, and the
    linear output.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(100, seed=0).astype("float32")
    ... ).laplacian()
    >>> net = tb.nn.GatedTNN(channels=[1, 8, 1], taps=2, step=0.1)
    >>> net(torch.randn(6, 10, 100, 2, 1), lap)[0].shape
    torch.Size([6, 10, 100, 2, 1])
    """

    cell, default_activation, has_head = GatedCell, NormTanh(), True
