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
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Self

import torch

from ..bundle import TangentBundle
from ..calculus import Derivatives, LinearMap
from ..errors import InvalidInputError, ShapeError
from ..operators import SquareOperator
from .activations import NormTanh
from .base import Configured, checked, generator, linear, uniform, widths
from .conv import BundleConv

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class MixedOperators:
    """What a ``MixedTNN`` acts through: two Laplacians and two first derivatives on one bundle.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(300, seed=0))
    >>> MixedOperators.of(bundle).jacobian
    LinearMap(300 points, rank 2 to rank 4, float64, cpu)
    """

    functions: SquareOperator
    fields: SquareOperator
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
        laplacians = bundle.scalar().laplacian(), bundle.laplacian()
        return cls(*laplacians, derivatives.gradient(), derivatives.jacobian())

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """The same operators on another device or in another precision."""
        return type(self)(
            *(getattr(self, name).to(device, dtype) for name in self.__dataclass_fields__)
        )


def is_count(value: object) -> bool:
    """Whether a value is an integer of at least zero."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def differentiate(derivative: LinearMap, x: torch.Tensor) -> torch.Tensor:
    """The derivative of a signal, which autocast may have brought to half precision."""
    tensor, kind = derivative.check(x)
    return kind.wrap(derivative.apply(tensor))


class MixedLayer(torch.nn.Module):
    """One layer of a ``MixedTNN``: ``wide`` and ``high`` count functions and fields, before and
    after."""

    def __init__(
        self, wide: Pair, high: Pair, taps: int, step: float, last: bool, source: torch.Generator
    ) -> None:
        super().__init__()
        (s_in, v_in), (s_out, v_out) = wide, high
        self.left, self.right = (uniform(v_in, v_in, fan_in=v_in, source=source) for _ in range(2))
        self.functions = BundleConv(s_in + 2 * v_in, s_out, taps, step, seed=source)
        self.fields = BundleConv(2 * v_in + s_in, v_out, taps, step, seed=source)
        self.shift = torch.nn.Parameter(torch.zeros(s_out))
        self.gate, self.activation, self.last = linear(s_out, v_out, source), NormTanh(), last

    def forward(
        self, s: torch.Tensor, v: torch.Tensor, operators: MixedOperators
    ) -> tuple[torch.Tensor, torch.Tensor]:
        d, left = v.shape[-2], v @ self.left
        slope = differentiate(operators.jacobian, v).unflatten(
            -2, (d, d)
        )  # (..., n, d, d, c): component, direction
        divergence = torch.einsum("...aac->...c", slope).unsqueeze(-2)
        products = (left * (v @ self.right)).sum(dim=-2, keepdim=True)
        along = torch.einsum("...abc,...bc->...ac", slope @ self.right, left)
        s_next = self.functions(torch.cat([s, divergence, products], dim=-1), operators.functions)
        v_next = self.fields(
            torch.cat([v, differentiate(operators.gradient, s), along], dim=-1), operators.fields
        )
        bounded = torch.tanh(s_next + self.shift)
        v_next = v_next * 2 * torch.sigmoid(self.gate(bounded))
        return (
            (s_next, v_next) if self.last else (bounded, self.activation(v_next, operators.fields))
        )


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
        field_widths = widths(fields, least=2)
        listed = isinstance(functions, Iterable) and not isinstance(functions, str)
        function_widths = list(functions) if listed else []
        count = len(field_widths)
        if len(function_widths) != count or not is_count(function_widths[0]):
            raise InvalidInputError(
                "functions and fields must list the channels of the same levels, such as [0, 8, "
                f"1] and [1, 8, 1], got {functions!r} and {fields!r}."
            )
        self.inputs = int(function_widths[0])
        source = generator(seed)
        levels = zip(
            [self.inputs, *widths(function_widths[1:], least=1)], field_widths, strict=True
        )
        self.layers = torch.nn.ModuleList(
            MixedLayer(wide, high, taps, step, level == count - 1, source)
            for level, (wide, high) in enumerate(pairwise(levels), start=1)
        )

    def forward(
        self, functions: torch.Tensor | None, fields: torch.Tensor, operators: MixedOperators
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not isinstance(operators, MixedOperators):
            raise InvalidInputError(
                f"a MixedTNN acts through MixedOperators.of(bundle), got {type(operators)}."
            )
        first: MixedLayer = self.layers[0]  # type: ignore[assignment]
        v = checked(fields, operators.fields, len(first.left), first.left)
        if functions is None and self.inputs == 0:
            functions = v.new_zeros((*v.shape[:-2], 1, 0))
        if functions is None or functions.shape[:-3] != v.shape[:-3]:
            got = None if functions is None else tuple(functions.shape)
            raise ShapeError(
                f"functions must have shape (..., n, 1, {self.inputs}), as many as fields, got "
                f"{got}."
            )
        s = checked(functions, operators.functions, self.inputs, first.left)
        for layer in self.layers:
            s, v = layer(s, v, operators)
        return s, v
