r"""Networks on functions and vector fields at once.

Functions s live on the scalar bundle, fields v on the tangent bundle, and each layer lets them
exchange information by products and derivatives that depend on no frames:

.. math:: s' = \sigma\big(A\,[s,\; \operatorname{div} v,\; \langle vL, vR \rangle]\big), \qquad
          v' = \gamma(s')\, B\,[v,\; \nabla s,\; \nabla_{vL}\, vR],

with filter banks A and B of the two Laplacians, matrices L and R that mix channels, and a gate
:math:`\gamma`. Lengths are the inner products with L = R. The covariant derivative is there since
no combination of gradients and divergences gives :math:`\nabla_v v`.

On an oriented surface fields can be turned by a right angle, J. Networks with ``oriented=True``
have :math:`\operatorname{curl} v` and :math:`\langle vL, J vR \rangle` among the functions, and
every field w with :math:`J w`.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import NamedTuple

import torch

from ..arrays import positive_integer
from ..errors import InvalidInputError, ShapeError
from .activations import NormTanh
from .base import (
    Configured,
    check_channels,
    check_part,
    check_signal,
    generator,
    linear_layer,
    listed_channels,
    uniform_weights,
)
from .conv import BundleConv
from .dropout import VectorDropout
from .mixed_operators import MixedOperators
from .norms import CloudNorm, FieldNorm
from .readouts import MixedReadout

FunctionsAndFields = tuple[torch.Tensor, torch.Tensor]


class Channels(NamedTuple):
    """Numbers of channels at one level of a network on functions and fields."""

    functions: int
    fields: int


def mixed_channels(functions: Iterable[int], fields: Iterable[int]) -> list[Channels]:
    """The channels of all levels of a network; only the input may have no functions."""
    field_channels = check_channels(fields, minimum=2)
    function_channels = listed_channels(functions)
    if len(function_channels) != len(field_channels) or not is_count(function_channels[0]):
        raise InvalidInputError(
            "functions and fields must list the channels of the same levels, such as [0, 8, "
            f"1] and [1, 8, 1], got {functions!r} and {fields!r}."
        )
    first = int(function_channels[0])
    others = check_channels(function_channels[1:], minimum=1)
    return [Channels(*pair) for pair in zip([first, *others], field_channels, strict=True)]


def is_count(value: object) -> bool:
    """Whether a value is an integer of at least zero."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def check_mixed_signals(
    functions: torch.Tensor | None,
    fields: torch.Tensor,
    operators: MixedOperators,
    channels: Channels,
    weight: torch.Tensor,
) -> FunctionsAndFields:
    """Functions and fields that fit the operators and the network; named errors otherwise."""
    if not isinstance(operators, MixedOperators):
        raise InvalidInputError(
            f"a network on functions and fields acts through MixedOperators.of(bundle), got "
            f"{type(operators)}."
        )
    v = check_signal(fields, operators.fields, channels.fields, weight)
    if functions is None and channels.functions == 0:
        functions = v.new_zeros((*v.shape[:-2], 1, 0))
    if functions is None or functions.shape[:-3] != v.shape[:-3]:
        shape = None if functions is None else tuple(functions.shape)
        raise ShapeError(
            f"functions must have shape (..., n, 1, {channels.functions}), as many as fields, got "
            f"{shape}."
        )
    s = check_signal(functions, operators.functions, channels.functions, weight)
    return s, v


class MixedLayer(torch.nn.Module):
    """One layer, from the channels of one level to those of the next."""

    def __init__(
        self,
        inputs: Channels,
        outputs: Channels,
        taps: int,
        step: float,
        *,
        oriented: bool,
        is_last: bool,
        source: torch.Generator,
    ) -> None:
        super().__init__()
        num_fields = inputs.fields
        self.oriented = oriented
        self.is_last = is_last
        num_functions_in = inputs.functions + 2 * num_fields
        num_fields_in = 2 * num_fields + inputs.functions
        if oriented:
            num_functions_in += 2 * num_fields
            num_fields_in *= 2
        self.left = uniform_weights(num_fields, num_fields, fan_in=num_fields, source=source)
        self.right = uniform_weights(num_fields, num_fields, fan_in=num_fields, source=source)
        self.functions = BundleConv(num_functions_in, outputs.functions, taps, step, seed=source)
        self.fields = BundleConv(num_fields_in, outputs.fields, taps, step, seed=source)
        self.shift = torch.nn.Parameter(torch.zeros(outputs.functions))
        self.gate = linear_layer(outputs.functions, outputs.fields, source)
        self.activation = NormTanh()

    def forward(
        self, s: torch.Tensor, v: torch.Tensor, operators: MixedOperators
    ) -> FunctionsAndFields:
        functions, fields = self.exchange(s, v, operators)
        s_next = self.functions(functions, operators.functions)
        bounded = torch.tanh(s_next + self.shift)
        v_next = self.fields(fields, operators.fields) * self._gates(bounded)
        if self.is_last:
            return s_next, v_next
        return bounded, self.activation(v_next, operators.fields)

    def exchange(
        self, s: torch.Tensor, v: torch.Tensor, operators: MixedOperators
    ) -> FunctionsAndFields:
        """What functions and fields tell each other: the inputs of both filter banks."""
        left = v @ self.left
        right = v @ self.right
        jacobian = operators.jacobian_of(v)
        derivatives_along_left = torch.einsum("...abc,...bc->...ac", jacobian @ self.right, left)
        functions = [s, divergence(jacobian), inner_products(left, right)]
        fields = [v, operators.gradient_of(s), derivatives_along_left]
        if self.oriented:
            functions.append(operators.curl(jacobian))
            functions.append(inner_products(left, operators.turn(right)))
            fields.extend([operators.turn(field) for field in fields])
        return torch.cat(functions, dim=-1), torch.cat(fields, dim=-1)

    def _gates(self, s: torch.Tensor) -> torch.Tensor:
        """Factors of the fields between 0 and 2, ``(..., n, 1, c)``."""
        return 2 * torch.sigmoid(self.gate(s))


def divergence(jacobian: torch.Tensor) -> torch.Tensor:
    """The trace ``(..., n, 1, c)`` of covariant derivatives ``(..., n, d, d, c)``."""
    return torch.einsum("...aac->...c", jacobian).unsqueeze(-2)


def inner_products(v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The inner products ``(..., n, 1, c)`` of fields, channel by channel."""
    return (v * w).sum(dim=-2, keepdim=True)


class MixedTNN(Configured):
    r"""A network on functions ``(..., n, 1, a)`` and fields ``(..., n, d, b)``, for any d.

    It commutes with changes of frames and with rotations of space, and its weights belong to no
    cloud.

    Args:
        functions: channels of functions of each level, input first; the input may have none.
        fields: channels of fields of each level.
        taps, step: of the filter banks, as of ``TNN``.
        oriented: whether layers have curls and fields turned by a right angle, on surfaces with
            ``MixedOperators.of(bundle, oriented=True)``. Reflections of space change their sign.
        readout: a ``MixedReadout`` of the outputs, for numbers or classes instead of both.
        seed: of the initial weights.

    ``forward(functions, fields, operators)`` takes ``None`` for no functions, and returns both.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(300, seed=0).astype("float32")
    ... )
    >>> net = MixedTNN(functions=[0, 8, 1], fields=[1, 8, 1], step=0.01)
    >>> functions, fields = net(None, torch.randn(300, 2, 1), MixedOperators.of(bundle))
    >>> functions.shape, fields.shape
    (torch.Size([300, 1, 1]), torch.Size([300, 2, 1]))
    """

    def __init__(
        self,
        functions: Iterable[int],
        fields: Iterable[int],
        taps: int = 2,
        *,
        step: float = 1.0,
        oriented: bool = False,
        readout: MixedReadout | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        levels = mixed_channels(functions, fields)
        oriented = check_part(oriented, False, bool, "oriented=True")
        source = generator(seed)
        self.in_channels = levels[0]
        self.layers = torch.nn.ModuleList()
        for level in range(1, len(levels)):
            layer = MixedLayer(
                levels[level - 1],
                levels[level],
                taps,
                step,
                oriented=oriented,
                is_last=level == len(levels) - 1,
                source=source,
            )
            self.layers.append(layer)
        self.readout = check_part(readout, None, MixedReadout, "MixedReadout(8, 4, 3)")

    def forward(
        self, functions: torch.Tensor | None, fields: torch.Tensor, operators: MixedOperators
    ) -> FunctionsAndFields | torch.Tensor:
        weight: torch.Tensor = self.layers[0].left  # type: ignore[assignment]
        s, v = check_mixed_signals(functions, fields, operators, self.in_channels, weight)
        for layer in self.layers:
            s, v = layer(s, v, operators)
        if self.readout is None:
            return s, v
        return self.readout(s, v, operators)


class MixedBlock(torch.nn.Module):
    """A layer on normalised functions and fields, whose outputs are mixed and added to its
    inputs."""

    def __init__(
        self,
        channels: Channels,
        taps: int,
        step: float,
        *,
        oriented: bool,
        norm: FieldNorm,
        dropout: float,
        source: torch.Generator,
    ) -> None:
        super().__init__()
        num_functions = channels.functions
        num_fields = channels.fields
        self.function_norm = norm.sized(num_functions)
        self.field_norm = norm.sized(num_fields)
        self.layer = MixedLayer(
            channels, channels, taps, step, oriented=oriented, is_last=False, source=source
        )
        self.mix_functions = uniform_weights(
            num_functions, num_functions, fan_in=num_functions, source=source
        )
        self.mix_fields = uniform_weights(num_fields, num_fields, fan_in=num_fields, source=source)
        self.dropout = VectorDropout(dropout)

    def forward(
        self, s: torch.Tensor, v: torch.Tensor, operators: MixedOperators
    ) -> FunctionsAndFields:
        normalized_s = self.function_norm(s, operators.functions)
        normalized_v = self.field_norm(v, operators.fields)
        change_s, change_v = self.layer(normalized_s, normalized_v, operators)
        s_next = s + self.dropout(change_s @ self.mix_functions)
        v_next = v + self.dropout(change_v @ self.mix_fields)
        return s_next, v_next


class ResidualMixedTNN(Configured):
    """A deep network on functions and fields: blocks that add to their input, as of
    ``ResidualTNN``.

    Args:
        functions: channels of functions of the input, which may have none, of all blocks, and of
            the output, such as ``[3, 32, 1]``.
        fields: channels of fields, likewise.
        layers: number of blocks.
        taps, step, oriented: as of ``MixedTNN``.
        norm: of the functions and fields that enter a block, default ``CloudNorm()``, which leaves
            derivatives as they are but for a factor.
        dropout: probability with which a vector or number of a change is left out in training.
        readout: as of ``MixedTNN``.
        seed: of the initial weights.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(300, seed=0).astype("float32")
    ... )
    >>> net = tb.nn.ResidualMixedTNN([3, 16, 1], [1, 8, 1], layers=4, step=0.01, oriented=True)
    >>> operators = tb.nn.MixedOperators.of(bundle, oriented=True)
    >>> s, v = net(torch.randn(300, 1, 3), torch.randn(300, 2, 1), operators)
    >>> s.shape, v.shape
    (torch.Size([300, 1, 1]), torch.Size([300, 2, 1]))
    """

    def __init__(
        self,
        functions: Iterable[int],
        fields: Iterable[int],
        layers: int = 4,
        taps: int = 2,
        *,
        step: float = 1.0,
        oriented: bool = False,
        norm: FieldNorm | None = None,
        dropout: float = 0.0,
        readout: MixedReadout | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        levels = mixed_channels(functions, fields)
        if len(levels) != 3:
            raise InvalidInputError(
                "functions and fields must list the channels of input, blocks and output, such as "
                f"[3, 32, 1] and [1, 16, 1], got {len(levels)} levels."
            )
        inputs, hidden, outputs = levels
        oriented = check_part(oriented, False, bool, "oriented=True")
        norm = check_part(norm, CloudNorm(), FieldNorm, "CloudNorm()")
        source = generator(seed)
        self.in_channels = inputs
        self.lift_functions = linear_layer(inputs.functions, hidden.functions, source)
        self.lift_fields = uniform_weights(
            inputs.fields, hidden.fields, fan_in=inputs.fields, source=source
        )
        self.blocks = torch.nn.ModuleList()
        for _ in range(positive_integer(layers, "layers")):
            block = MixedBlock(
                hidden, taps, step, oriented=oriented, norm=norm, dropout=dropout, source=source
            )
            self.blocks.append(block)
        self.function_head = linear_layer(hidden.functions, outputs.functions, source)
        self.field_head = uniform_weights(
            hidden.fields, outputs.fields, fan_in=hidden.fields, source=source
        )
        self.readout = check_part(readout, None, MixedReadout, "MixedReadout(8, 4, 3)")

    def forward(
        self, functions: torch.Tensor | None, fields: torch.Tensor, operators: MixedOperators
    ) -> FunctionsAndFields | torch.Tensor:
        weight = self.lift_fields
        s, v = check_mixed_signals(functions, fields, operators, self.in_channels, weight)
        s = self.lift_functions(s)
        v = v @ self.lift_fields
        for block in self.blocks:
            s, v = block(s, v, operators)
        s = self.function_head(s)
        v = v @ self.field_head
        if self.readout is None:
            return s, v
        return self.readout(s, v, operators)
