r"""Filters that explain examples: the combination of a bank of filters that makes given inputs into
given outputs.

For inputs :math:`x_m`, outputs :math:`y_m` and filters :math:`h_k` the coefficients minimise

.. math:: \sum_m \Big\| \sum_k c_k\, h_k(\Delta)\, x_m - y_m \Big\|^2

in the norm of the operator's masses, by a QR decomposition in float64. They are differentiable in
the inputs, the outputs, and the parameters of filters and operator.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..arrays import Array, finite_where_seen
from ..errors import InvalidInputError, ShapeError
from ..operators import SquareOperator
from ..operators.methods import Method
from ..operators.response import Response
from ..transforms import is_seen

SMALLEST_PIVOT = 1e-10
"""Share of a filtered signal that no other filter explains, below which examples do not tell the
filters apart: rounding is that large."""


def identify(
    operator: SquareOperator,
    filters: Sequence[Response],
    inputs: Array,
    outputs: Array,
    method: Method | None = None,
) -> torch.Tensor:
    """The coefficients ``(..., K)`` in float64 of K filters that make outputs of inputs.

    Inputs and outputs are signals ``(..., m, n, d, c)``: the m examples and c channels of each
    leading index have coefficients of their own.

    >>> import torch, tangentbundle as tb
    >>> from tangentbundle.filters import identify
    >>> points = tb.manifolds.Sphere(2).sample(200, seed=0)
    >>> laplacian = tb.TangentBundle.from_points(points).laplacian()
    >>> x = torch.randn(2, 3, 200, 2, 1, dtype=torch.float64)  # two times three examples
    >>> y = tb.Tikhonov(0.5)(laplacian, x)
    >>> identify(laplacian, [tb.Heat(0.0), tb.Tikhonov(0.5)], x, y).abs().round(decimals=6)
    tensor([[0., 1.],
            [0., 1.]], dtype=torch.float64)
    """
    signal, target = check_examples(operator, inputs, outputs)
    filtered = operator.evaluate(filters, signal, method)
    root_mass = operator.mass.double().sqrt()[:, None, None]
    columns = [(root_mass * output.double()).flatten(-4) for output in filtered]
    design = torch.stack(columns, dim=-1)
    right = (root_mass * target.double()).flatten(-4)
    return _least_squares(design, right)


def mean_frequency(operator: SquareOperator, inputs: Array) -> torch.Tensor:
    r"""The mean eigenvalue :math:`\langle x, -\Delta x \rangle / \langle x, x \rangle` of
    signals."""
    signal, _ = operator.check(inputs, "inputs")
    energy = operator.inner(signal, -operator.apply(signal)).sum()
    frequency = energy / operator.inner(signal, signal).sum()
    if is_seen(frequency) and not bool(frequency > 0):
        raise InvalidInputError(
            "these inputs are zero, or the operator does not change them: no filter follows from "
            "them. Give other examples."
        )
    return frequency


def check_examples(
    operator: SquareOperator, inputs: Array, outputs: Array
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and outputs as tensors ``(..., m, n, d, c)``, checked."""
    signal, _ = operator.check(inputs, "inputs")
    target, _ = operator.check(outputs, "outputs")
    if signal.shape != target.shape:
        raise ShapeError(
            f"each input needs its output: inputs have shape {tuple(signal.shape)}, outputs "
            f"{tuple(target.shape)}."
        )
    finite_where_seen(signal, "inputs")
    finite_where_seen(target, "outputs")
    if signal.ndim == 3:
        return signal[None], target[None]
    return signal, target


def _least_squares(design: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The coefficients c ``(..., K)`` with least ``|design c - right|``, of ``(..., e, K)`` and
    ``(..., e)``."""
    lengths = design.norm(dim=-2, keepdim=True)
    if is_seen(lengths) and not bool((lengths > 0).all()):
        raise InvalidInputError(
            "a filter makes nothing of these inputs: its coefficient does not follow from them. "
            "Give inputs that are not zero, or fewer filters."
        )
    orthogonal, triangle = torch.linalg.qr(design / lengths)
    pivots = triangle.diagonal(dim1=-2, dim2=-1).abs()
    if is_seen(pivots) and not bool((pivots > SMALLEST_PIVOT).all()):
        raise InvalidInputError(
            f"these examples do not tell the {design.shape[-1]} filters apart: on them, one is "
            "nearly a combination of the others. Give fewer filters, filters that differ more "
            "(such as a larger step), or inputs with more frequencies."
        )
    projected = orthogonal.mT @ right[..., None]
    solution = torch.linalg.solve_triangular(triangle, projected, upper=True)
    return (solution / lengths.mT).squeeze(-1)
