r"""Networks on functions and vector fields at once.

Functions s live on the scalar bundle, fields v on the tangent bundle, and each layer lets them
exchange information by products and derivatives that depend on no frames:

.. math:: s' = \sigma\big(A\,[s,\; \operatorname{div} v,\; \langle vL, vR \rangle]\big), \qquad
          v' = \gamma(s')\, B\,[v,\; \nabla s,\; \nabla_{vL}\, vR],

with filter banks A and B of the two Laplacians, matrices L and R that mix channels, and a gate
:math:`\gamma`. Lengths are the inner products with L = R. The covariant derivative is there since
no combination of gradients and divergences gives :math:`\nabla_v v`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import NamedTuple, Self

import torch

from ..bundle import TangentBundle
from ..calculus import Derivatives, LinearMap
from ..errors import InvalidInputError, ShapeError
from ..operators import Laplacian
from .activations import NormTanh
from .base import (
    Configured,
    check_channels,
    check_signal,
    generator,
    linear_layer,
    listed_channels,
    uniform_weights,
)
from .conv import BundleConv


@dataclass(frozen=True, eq=False)
class MixedOperators:
    """What a ``MixedTNN`` acts through: two Laplacians and two first derivatives on one bundle.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(300, seed=0))
    >>> MixedOperators.of(bundle).jacobian
    LinearMap(300 points, rank 2 to rank 4, float64, cpu)
    """

    functions: Laplacian
    fields: Laplacian
    gradient: LinearMap
    jacobian: LinearMap

    @classmethod
    def of(
        cls, bundle: TangentBundle, degree: int = 2, neighbors: int | None = None
    ) -> MixedOperators:
        """The operators of a bundle; arguments are those of ``calculus.Derivatives``.

        Fits are quadratic by default, whereas the default of ``Derivatives`` depends on the number
        of points: weights learned on few points act through the same derivatives on many.
        """
        derivatives = Derivatives(bundle, degree, neighbors)
        return cls(
            functions=bundle.scalar().laplacian(),
            fields=bundle.laplacian(),
            gradient=derivatives.gradient(),
            jacobian=derivatives.jacobian(),
        )

    @cached_property
    def dimensionless(self) -> MixedOperators:
        """The operators in units of the extent of the cloud, see ``Laplacian.dimensionless``."""
        length = self.fields.extent
        return MixedOperators(
            functions=self.functions.dimensionless,
            fields=self.fields.dimensionless,
            gradient=self.gradient.scaled(length),
            jacobian=self.jacobian.scaled(length),
        )

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """The same operators on another device or in another precision."""
        return replace(
            self,
            functions=self.functions.to(device, dtype),
            fields=self.fields.to(device, dtype),
            gradient=self.gradient.to(device, dtype),
            jacobian=self.jacobian.to(device, dtype),
        )


def differentiate(derivative: LinearMap, x: torch.Tensor) -> torch.Tensor:
    """The derivative of a signal, which autocast may have brought to half precision."""
    tensor, kind = derivative.check(x)
    return kind.wrap(derivative.apply(tensor))


class Channels(NamedTuple):
    """Numbers of channels at one level of a ``MixedTNN``."""

    functions: int
    fields: int


class MixedLayer(torch.nn.Module):
    """One layer of a ``MixedTNN``, from the channels of one level to those of the next."""

    def __init__(
        self,
        inputs: Channels,
        outputs: Channels,
        taps: int,
        step: float,
        *,
        is_last: bool,
        source: torch.Generator,
    ) -> None:
        super().__init__()
        num_fields = inputs.fields
        self.left = uniform_weights(num_fields, num_fields, fan_in=num_fields, source=source)
        self.right = uniform_weights(num_fields, num_fields, fan_in=num_fields, source=source)
        self.functions = BundleConv(
            inputs.functions + 2 * num_fields, outputs.functions, taps, step, seed=source
        )
        self.fields = BundleConv(
            2 * num_fields + inputs.functions, outputs.fields, taps, step, seed=source
        )
        self.shift = torch.nn.Parameter(torch.zeros(outputs.functions))
        self.gate = linear_layer(outputs.functions, outputs.fields, source)
        self.activation = NormTanh()
        self.is_last = is_last

    def forward(
        self, s: torch.Tensor, v: torch.Tensor, operators: MixedOperators
    ) -> tuple[torch.Tensor, torch.Tensor]:
        left = v @ self.left
        jacobian = covariant_derivative(v, operators)
        products = (left * (v @ self.right)).sum(dim=-2, keepdim=True)
        derivatives_along_left = torch.einsum("...abc,...bc->...ac", jacobian @ self.right, left)
        gradient = differentiate(operators.gradient, s)
        function_inputs = torch.cat([s, divergence(jacobian), products], dim=-1)
        field_inputs = torch.cat([v, gradient, derivatives_along_left], dim=-1)
        s_next = self.functions(function_inputs, operators.functions)
        bounded = torch.tanh(s_next + self.shift)
        v_next = self.fields(field_inputs, operators.fields) * self._gates(bounded)
        if self.is_last:
            return s_next, v_next
        return bounded, self.activation(v_next, operators.fields)

    def _gates(self, s: torch.Tensor) -> torch.Tensor:
        """Factors of the fields between 0 and 2, ``(..., n, 1, c)``."""
        return 2 * torch.sigmoid(self.gate(s))


def covariant_derivative(v: torch.Tensor, operators: MixedOperators) -> torch.Tensor:
    """The derivative ``(..., n, d, d, c)`` of fields ``(..., n, d, c)``: component, direction,
    channel."""
    rank = v.shape[-2]
    return differentiate(operators.jacobian, v).unflatten(-2, (rank, rank))


def divergence(jacobian: torch.Tensor) -> torch.Tensor:
    """The trace ``(..., n, 1, c)`` of covariant derivatives ``(..., n, d, d, c)``."""
    return torch.einsum("...aac->...c", jacobian).unsqueeze(-2)


def mixed_channels(functions: Iterable[int], fields: Iterable[int]) -> list[Channels]:
    """The channels of all levels of a ``MixedTNN``; only the input may have no functions."""
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


class MixedTNN(Configured):
    r"""A network on functions ``(..., n, 1, a)`` and fields ``(..., n, d, b)``, for any d.

    It commutes with changes of frames and with rotations of space, and its weights belong to no
    cloud.

    Args:
        functions: channels of functions of each level, input first; the input may have none.
        fields: channels of fields of each level.
        taps, step: of the filter banks, as of ``TNN``.
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
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        levels = mixed_channels(functions, fields)
        source = generator(seed)
        self.in_channels = levels[0]
        self.layers = torch.nn.ModuleList()
        for level in range(1, len(levels)):
            is_last = level == len(levels) - 1
            layer = MixedLayer(
                levels[level - 1], levels[level], taps, step, is_last=is_last, source=source
            )
            self.layers.append(layer)

    def forward(
        self, functions: torch.Tensor | None, fields: torch.Tensor, operators: MixedOperators
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not isinstance(operators, MixedOperators):
            raise InvalidInputError(
                f"a MixedTNN acts through MixedOperators.of(bundle), got {type(operators)}."
            )
        weight: torch.Tensor = self.layers[0].left  # type: ignore[assignment]
        v = check_signal(fields, operators.fields, self.in_channels.fields, weight)
        s = self._check_functions(functions, v)
        s = check_signal(s, operators.functions, self.in_channels.functions, weight)
        for layer in self.layers:
            s, v = layer(s, v, operators)
        return s, v

    def _check_functions(self, functions: torch.Tensor | None, v: torch.Tensor) -> torch.Tensor:
        """The functions that come with fields, none where the network takes none."""
        count = self.in_channels.functions
        if functions is None and count == 0:
            return v.new_zeros((*v.shape[:-2], 1, 0))
        if functions is None or functions.shape[:-3] != v.shape[:-3]:
            shape = None if functions is None else tuple(functions.shape)
            raise ShapeError(
                f"functions must have shape (..., n, 1, {count}), as many as fields, got {shape}."
            )
        return functions
