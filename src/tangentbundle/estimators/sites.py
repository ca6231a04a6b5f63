"""Sites of vectors, and what covariances need of two sets of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

QUARTER_TURN = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)

SQUARE_FLOOR = 1e-16
"""Added to squared distances, so that their roots are differentiable."""


@dataclass(frozen=True, eq=False)
class PastAtSites:
    """What a history says of n sites, in their bases."""

    mean: Tensor  # of the past fields (..., n, p)
    anomalies: Tensor  # about it (..., n, p, T)
    displaced: Tensor  # these and displaced ones, of the same second moments (..., n, p, S)


@dataclass(frozen=True, eq=False)
class Sites:
    """Points with bases, as tensors; any leading axes are batches. ``past`` is that of a
    history."""

    points: Tensor  # (..., n, D)
    bases: Tensor  # (..., n, D, p), or (D, p): the same everywhere
    principal: Tensor  # the points along up to three principal axes of the cloud (..., n, k)
    past: PastAtSites | None = None

    @property
    def count(self) -> int:
        return self.points.shape[-2]

    @property
    def dim(self) -> int:
        return self.bases.shape[-1]

    @property
    def ambient_dim(self) -> int:
        return self.bases.shape[-2]

    @cached_property
    def each_basis(self) -> Tensor:
        """The basis of every site ``(..., n, D, p)``."""
        return self.bases.expand(*self.points.shape[:-1], *self.bases.shape[-2:])

    @cached_property
    def rows(self) -> Tensor:
        """The bases as rows ``(..., p n, D)``, component by component."""
        return self.each_basis.movedim(-1, -3).flatten(-3, -2)

    @cached_property
    def turned(self) -> Sites:
        """With every basis of a surface turned by a quarter."""
        return replace(self, bases=self.bases @ QUARTER_TURN)


class Pairs:
    """What covariances need of two sets of sites whatever the parameters, computed when first
    needed.

    Blocks of n and m sites have shape ``(..., p, n, p, m)``, and kernels ``(..., 1, n, 1, m)``.
    """

    def __init__(self, a: Sites, b: Sites) -> None:
        self.a = a
        self.b = b

    @cached_property
    def squares(self) -> Tensor:
        """Squared distances."""
        distances = torch.cdist(
            self.a.points, self.b.points, compute_mode="donot_use_mm_for_euclid_dist"
        )
        return (distances.square() + SQUARE_FLOOR)[..., None, :, None, :]

    @cached_property
    def principal_squares(self) -> Tensor:
        """Squared distances along each principal axis and across them all ``(g, ..., n, m)``."""
        differences = self.a.principal[..., :, None, :] - self.b.principal[..., None, :, :]
        along = differences.square().movedim(-1, 0)
        if self.a.principal.shape[-1] == self.a.points.shape[-1]:
            return along
        across = (self.squares[..., 0, :, 0, :] - along.sum(0)).clamp_min(0.0)
        return torch.cat([along, across[None]])

    @cached_property
    def overlaps(self) -> Tensor:
        """``B_i^T B_j``."""
        return self.blocks(self.a.rows @ self.b.rows.mT)

    @cached_property
    def outer(self) -> Tensor:
        """``B_i^T x x^T B_j`` with ``x = x_i - x_j``."""
        left = _differences(self.a, self.b)
        right = -_differences(self.b, self.a).movedim(-1, -3)
        return left[..., :, :, None, :] * right[..., None, :, :, :]

    @cached_property
    def squares_along(self) -> Tensor:
        """Squared distances along bases that are the same everywhere."""
        return self.outer.diagonal(dim1=-4, dim2=-2).sum(-1)[..., None, :, None, :]

    @cached_property
    def products_of_anomalies(self) -> Tensor:
        """The second moments of past anomalies."""
        assert self.a.past is not None and self.b.past is not None
        return self._second_moments(self.a.past.anomalies, self.b.past.anomalies)

    @cached_property
    def products_of_displaced(self) -> Tensor:
        """The second moments of past anomalies and displaced ones."""
        assert self.a.past is not None and self.b.past is not None
        return self._second_moments(self.a.past.displaced, self.b.past.displaced)

    def _second_moments(self, first: Tensor, second: Tensor) -> Tensor:
        """Of samples ``(..., n, p, S)`` and ``(..., m, p, S)``."""
        rows = first.movedim(-2, -3).flatten(-3, -2)
        columns = second.movedim(-2, -3).flatten(-3, -2)
        return self.blocks(rows @ columns.mT / first.shape[-1])

    @cached_property
    def turned(self) -> Pairs:
        """With the bases of surfaces turned by a quarter."""
        if self.a is self.b:
            return Pairs(self.a.turned, self.a.turned)
        return Pairs(self.a.turned, self.b.turned)

    def spread(self, kernel: Tensor) -> Tensor:
        """A kernel for all components, one axis after the other: the sums of its gradient are 20
        times as fast."""
        columns = kernel.expand(*kernel.shape[:-2], self.b.dim, -1)
        return columns.expand(*kernel.shape[:-4], self.a.dim, -1, -1, -1)

    def blocks(self, matrix: Tensor) -> Tensor:
        """A matrix ``(..., p n, p m)`` as blocks."""
        columns = matrix.unflatten(-1, (self.b.dim, self.b.count))
        return columns.unflatten(-3, (self.a.dim, self.a.count))


def _differences(a: Sites, b: Sites) -> Tensor:
    """``B_i^T (x_i - x_j)`` in the bases of the first sites, ``(..., p, n, m)``."""
    own = (a.points[..., None, :] @ a.bases)[..., 0, :].mT
    return own[..., None] - (a.rows @ b.points.mT).unflatten(-2, (a.dim, a.count))
