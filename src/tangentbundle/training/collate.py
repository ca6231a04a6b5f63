"""Batches of several samples, for loaders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import InvalidInputError
from ..nn import MixedOperators
from ..operators import SquareOperator, join

Operator = SquareOperator | MixedOperators

Sample = Sequence[Any]
"""Such as ``(x, operator, target)``: operators, tensors and numbers."""


def collate(samples: Sequence[Sample]) -> tuple[Any, ...]:
    """One batch of clouds of any sizes, ``DataLoader(..., collate_fn=collate)``.

    Operators become one joined operator, and tensors follow each other: fields ``(n, d, c)`` along
    the points, and what is of a whole cloud, ``(1, k)``, along the clouds. Single numbers become
    ``(clouds,)``. For many fields on one cloud ``collate_fields`` is faster.

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
    return _collate(samples, _join, _concatenate)


def collate_fields(samples: Sequence[Sample]) -> tuple[Any, ...]:
    """One batch of fields on one cloud: all have the same operator, and tensors are stacked,
    ``(samples, n, d, c)``.

    >>> import torch, tangentbundle as tb
    >>> operator = tb.operators.Identity.of(50, 2)
    >>> samples = [(torch.randn(50, 2, 1), operator, torch.randn(50, 2, 1)) for _ in range(6)]
    >>> loader = torch.utils.data.DataLoader(samples, 6, collate_fn=tb.training.collate_fields)
    >>> next(iter(loader))[0].shape
    torch.Size([6, 50, 2, 1])
    """
    return _collate(samples, _only, torch.stack)


def _collate(
    samples: Sequence[Sample],
    merge_operators: Callable[[Sequence[Any]], Operator],
    merge_tensors: Callable[[list[torch.Tensor]], torch.Tensor],
) -> tuple[Any, ...]:
    """What all samples have at each place, merged."""
    columns = list(zip(*samples, strict=True))
    merged: dict[int, Any] = {}
    for place, column in enumerate(columns):
        if isinstance(column[0], Operator):
            merged[place] = merge_operators(column)
    if not merged:
        raise InvalidInputError(
            "samples to collate have an operator, such as (x, laplacian, target), got "
            f"{[type(value).__name__ for value in samples[0]]}."
        )
    for place, column in enumerate(columns):
        if place not in merged:
            merged[place] = merge_tensors([torch.as_tensor(value) for value in column])
    return tuple(merged[place] for place in range(len(columns)))


def _join(operators: Sequence[Any]) -> Operator:
    if isinstance(operators[0], MixedOperators):
        return MixedOperators.join(operators)
    return join(operators)


def _only(operators: Sequence[Any]) -> Operator:
    """The operator that all samples share."""
    if any(operator is not operators[0] for operator in operators):
        raise InvalidInputError(
            "fields are stacked if all are on one operator, and these samples have several. Use "
            "training.collate, which joins them."
        )
    return operators[0]


def _concatenate(tensors: list[torch.Tensor]) -> torch.Tensor:
    if tensors[0].ndim == 0:
        return torch.stack(tensors)
    return torch.cat(tensors)
