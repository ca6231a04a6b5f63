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

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch

from ..errors import InvalidInputError, ShapeError
from ..filters import Filter, Method
from ..operators import SquareOperator
from .activations import (
    Activation,
    Coordinatewise,
    NoActivation,
    NormTanh,
    activate,
    sized_activation,
    squared_norm,
)
from .base import Configured, check_channels, check_part, generator
from .constraints import Constraint
from .conv import BundleConv, ConvFactory
from .readouts import Readout

ACTIVATION_EXAMPLE = "NormTanh() or Coordinatewise(torch.tanh)"

States = list[torch.Tensor]


class TNNLayer(torch.nn.Module):
    """A filter bank, then a nonlinearity."""

    def __init__(self, conv: BundleConv, activation: Activation) -> None:
        super().__init__()
        self.conv = conv
        self.activation = activation

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        return activate(self.activation, self.conv(x, operator), operator)


class TNN(Configured):
    r"""A network on signals ``(..., n, d, channels[0])`` with outputs
    ``(..., n, d, channels[-1])``.

    Args:
        channels: of every level, input first: ``[1, 8, 4, 1]`` is the paper's.
        taps: K, counted from the identity tap k = 0.
        step: sampling interval :math:`T_s`.
        filters: instead of taps and step, the filters of every layer (a D-TNN); each learns its own
            copy of their parameters.
        constraints: of the filters of every layer, such as ``[Lowpass(0.01), NonAmplifying()]``.
        activation: nonlinearity of the hidden layers, default ``NormTanh()``, which depends on no
            frames; the paper's experiments use ``Coordinatewise(torch.tanh)``. Each layer has its
            own copy, see ``Activation``.
        output: nonlinearity of the last layer, default ``NoActivation()``.
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
        constraints: Sequence[Constraint] = (),
        activation: Activation | None = None,
        output: Activation | None = None,
        readout: Readout | None = None,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        widths = check_channels(channels, minimum=2)
        convs = ConvFactory(
            taps=taps,
            step=step,
            filters=filters,
            constraints=constraints,
            method=method,
            source=generator(seed),
        )
        hidden_activation = check_part(activation, NormTanh(), Activation, ACTIVATION_EXAMPLE)
        last_activation = check_part(output, NoActivation(), Activation, ACTIVATION_EXAMPLE)
        num_layers = len(widths) - 1
        activations = [hidden_activation] * (num_layers - 1) + [last_activation]
        self.layers = torch.nn.ModuleList()
        for (in_channels, out_channels), nonlinearity in zip(
            pairwise(widths), activations, strict=True
        ):
            own_activation = sized_activation(nonlinearity, out_channels)
            self.layers.append(TNNLayer(convs.make(in_channels, out_channels), own_activation))
        self.readout = check_part(readout, None, Readout, "SumReadout(1, 2)")

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, operator)
        if self.readout is None:
            return x
        return self.readout(x, operator)


# Recurrent networks.


class RecurrentCell(torch.nn.Module):
    """One layer of the paper's recurrence: a filter of the input, a filter of the state, a
    nonlinearity."""

    def __init__(
        self, convs: ConvFactory, in_channels: int, state_channels: int, activation: Activation
    ) -> None:
        super().__init__()
        self.state_channels = state_channels
        self.drive = convs.make(in_channels, state_channels)
        self.feedback = convs.make(state_channels, state_channels)
        self.activation = activation

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

    def __init__(
        self, convs: ConvFactory, in_channels: int, state_channels: int, activation: Activation
    ) -> None:
        super().__init__()
        self.state_channels = state_channels
        self.activation = activation
        self.drive = convs.make(in_channels, 3 * state_channels)
        self.gates = convs.make(state_channels, 2 * state_channels)
        self.feedback = convs.make(state_channels, state_channels)
        self.slope = torch.nn.Parameter(torch.ones(2 * state_channels))
        self.shift = torch.nn.Parameter(torch.full((2 * state_channels,), -1.0))

    def step(
        self, driven: torch.Tensor, state: torch.Tensor, operator: SquareOperator
    ) -> torch.Tensor:
        """The next state, from the filtered input ``driven`` and the state."""
        to_gates, to_candidate = driven.split(
            [2 * self.state_channels, self.state_channels], dim=-1
        )
        lengths = (1 + squared_norm(to_gates + self.gates(state, operator))).sqrt()
        gates = torch.sigmoid(self.slope * lengths + self.shift)
        update, reset = gates.chunk(2, dim=-1)
        remembered = self.feedback(reset * state, operator)
        candidate = activate(self.activation, to_candidate + remembered, operator)
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
        constraints: Sequence[Constraint] = (),
        activation: Activation | None = None,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        widths = check_channels(channels, minimum=2 + self.has_head)
        convs = ConvFactory(
            taps=taps,
            step=step,
            filters=filters,
            constraints=constraints,
            method=method,
            source=generator(seed),
        )
        nonlinearity = check_part(
            activation, self.default_activation, Activation, ACTIVATION_EXAMPLE
        )
        state_widths = widths[:-1] if self.has_head else widths
        self.cells = torch.nn.ModuleList()
        for in_channels, state_channels in pairwise(state_widths):
            own_activation = sized_activation(nonlinearity, state_channels)
            self.cells.append(self.cell(convs, in_channels, state_channels, own_activation))
        self.head = convs.make(widths[-2], widths[-1]) if self.has_head else None

    def forward(
        self, sequence: torch.Tensor, operator: SquareOperator, states: States | None = None
    ) -> tuple[torch.Tensor, States]:
        """Outputs ``(..., T, n, d, c)`` at every time, and the states of the layers after the
        last."""
        self._check_sequence(sequence, states)
        last_states = []
        cell: RecurrentCell | GatedCell
        for level, cell in enumerate(self.cells):  # type: ignore[assignment]
            driven = cell.drive(sequence, operator)
            if states is None:
                state = zero_state(driven, cell.state_channels)
            else:
                state = states[level]
            states_in_time = unroll(cell, driven, state, operator)
            last_states.append(states_in_time[-1])
            sequence = torch.stack(states_in_time, dim=-4)
        if self.head is not None:
            sequence = self.head(sequence, operator)
        return sequence, last_states

    def _check_sequence(self, sequence: torch.Tensor, states: States | None) -> None:
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


def zero_state(driven: torch.Tensor, channels: int) -> torch.Tensor:
    """The state before the first time, zeros ``(..., n, d, channels)``, for inputs
    ``(..., T, n, d, c)``."""
    *batch, _, num_points, rank, _ = driven.shape
    return driven.new_zeros((*batch, num_points, rank, channels))


def unroll(
    cell: RecurrentCell | GatedCell,
    driven: torch.Tensor,
    state: torch.Tensor,
    operator: SquareOperator,
) -> States:
    """The state ``(..., n, d, c)`` of a cell at every time, from its filtered inputs
    ``(..., T, n, d, c)``."""
    states_in_time = []
    for driven_now in driven.unbind(-4):
        state = cell.step(driven_now, state, operator)
        states_in_time.append(state)
    return states_in_time


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

    cell = RecurrentCell
    default_activation = Coordinatewise(torch.tanh)
    has_head = False


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

    cell = GatedCell
    default_activation = NormTanh()
    has_head = True
