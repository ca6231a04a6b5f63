"""Batches of several samples, for loaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import InvalidInputError
from ..nn import MixedOperators
from ..operators import SquareOperator, join

Operator = SquareOperator | MixedOperators


def collate(samples: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """One batch of samples such as ``(x, operator, target)``, for a ``DataLoader``.

    Samples on different operators, clouds of any size, become one joined operator, and their
    tensors follow each other: fields ``(n, d, c)`` along the points, and what is of a whole cloud,
    ``(1, k)``, along the clouds. Samples that share one operator are fields on one cloud:
    their tensors are stacked, ``(samples, n, d, c)``. Single numbers become ``(samples,)``.

    >>> import torch, tangentbundle as tb
    >>> samples = []
    >>> for n in (80, 120):
    ...     cloud = tb.manifolds.Sphere(2).sample(n, seed=n).astype("float32")
    ...     lap = tb.TangentBundle.from_points(cloud, dim=2).laplacian().dimensionless
    ...     samples.append((torch.randn(n, 2, 1), lap, n % 3))
    >>> loader = torch.utils.data.DataLoader(samples, 2, collate_fn=tb.training.collate)
    >>> x, operator, labels = next(iter(loader))
    >>> x.shape, operator.sizes, labels
    (torch.Size([200, 2, 1]), (80, 120), tensor([2, 0]))
    """
    columns = list(zip(*samples, strict=True))
    operators = [column for column in columns if isinstance(column[0], Operator)]
    if not operators:
        raise InvalidInputError(
            "samples to collate have an operator, such as (x, laplacian, target), got "
            f"{[type(value).__name__ for value in samples[0]]}."
        )
    share_operators = all(_is_same(column) for column in operators)
    return tuple(_collate_column(column, stacks=share_operators) for column in columns)


def _is_same(column: Sequence[Any]) -> bool:
    """Whether all samples have one and the same object."""
    return all(value is column[0] for value in column)


def _collate_column(column: Sequence[Any], stacks: bool) -> Any:
    """What all samples have at one place: an operator, tensors or numbers."""
    first = column[0]
    if isinstance(first, Operator):
        return first if stacks else _join(column)
    tensors = [torch.as_tensor(value) for value in column]
    if stacks or tensors[0].ndim == 0:
        return torch.stack(tensors)
    return torch.cat(tensors)


def _join(operators: Sequence[Any]) -> Operator:
    if isinstance(operators[0], MixedOperators):
        return MixedOperators.join(operators)
    return join(operators)
