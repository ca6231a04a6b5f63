"""Directions with n representatives as powers of complex numbers, and back."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def power_of_vectors(x: Tensor, order: int) -> Tensor:
    """The n-th powers ``(..., 2)`` of vectors ``(..., 2)``, with the lengths of the vectors.

    >>> power_of_vectors(torch.tensor([3.0, 0.0]), 2).tolist()
    [3.0, 0.0]
    """
    angles = order * torch.atan2(x[..., 1], x[..., 0])
    lengths = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return lengths * torch.stack([angles.cos(), angles.sin()], dim=-1)


def representatives(powers: Tensor, order: int) -> Tensor:
    """The n unit vectors ``(order, ..., 2)`` whose n-th power is along ``powers`` (..., 2); zero
    where these are zero.

    >>> representatives(torch.tensor([-3.0, 0.0]), 2)[:, 1].tolist()  # second components
    [1.0, -1.0]
    """
    first_angle = torch.atan2(powers[..., 1], powers[..., 0]) / order
    steps = 2 * np.pi / order * torch.arange(order).to(powers)
    angles = first_angle + steps.reshape(-1, *[1] * first_angle.ndim)
    vectors = torch.stack([angles.cos(), angles.sin()], dim=-1)
    is_direction = powers.any(dim=-1, keepdim=True)
    return torch.where(is_direction, vectors, 0.0)
