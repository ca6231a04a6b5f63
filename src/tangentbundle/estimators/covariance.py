r"""Covariances of tangent fields, as small objects that add.

A field is modelled as the tangent part of an ambient Gaussian process: with bases :math:`O_i` ``(D, d)`` the block of
two points is :math:`O_i^T K(x_i, x_j) O_j`, positive definite for any bases. Three kinds of K:

.. math:: \text{Isotropic: } k\,I, \qquad \text{Potential: } \nabla\nabla'^T k, \qquad
          \text{Rotational: } J\,\nabla\nabla'^T k\,J^T,

where J is the quarter turn of the tangent planes (d = 2, oriented). The last two are gradients and turned gradients of
random functions: fields without circulation and without divergence, whose sum is a Helmholtz decomposition.

Parameters are logarithms, in units in which the points have root mean square distance one from their centre and the
data root mean square one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..errors import InvalidInputError

SMOOTHNESS = (0.5, 1.5, 2.5, np.inf)
QUARTER = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Sites:
    """Points ``(n, D)`` with bases ``(n, D, d)``; with a history also past anomalies ``(T, n, d)``, the past mean and
    the one expected now, both ``(n, d)``.
    """

    points: torch.Tensor
    frames: torch.Tensor
    past: torch.Tensor | None = None
    mean: torch.Tensor | None = None
    expected: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.points)

    @property
    def dim(self) -> int:
        return self.frames.shape[2]

    @property
    def rows(self) -> torch.Tensor:
        """The bases as rows ``(n d, D)``."""
        return self.frames.mT.reshape(-1, self.frames.shape[1])

    @cached_property
    def turned(self) -> Sites:
        """With every basis turned by a quarter."""
        return replace(self, frames=self.frames @ QUARTER)

    @cached_property
    def size(self) -> torch.Tensor:
        """The root mean square of past anomalies ``(n,)``."""
        assert self.past is not None
        return self.past.square().mean(dim=(0, 2)).sqrt()

    @cached_property
    def with_itself(self) -> Pairs:
        return Pairs(self, self)

    def __getitem__(self, index) -> Sites:
        past = None if self.past is None else self.past[:, index]
        means = (None if mean is None else mean[index] for mean in (self.mean, self.expected))
        return Sites(self.points[index], self.frames[index], past, *means)


class Pairs:
    """What covariances need of two sets of sites whatever the parameters, computed when first asked for."""

    def __init__(self, a: Sites, b: Sites) -> None:
        self.a, self.b = a, b

    @cached_property
    def distances(self) -> torch.Tensor:
        """Ambient distances ``(n, m)``, floored to be differentiable."""
        a, b = self.a.points, self.b.points
        squared = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
        return (squared.clamp_min(0.0) + 1e-16).sqrt()

    @cached_property
    def overlaps(self) -> torch.Tensor:
        """``O_i^T O_j``, as ``(n d, m d)``."""
        return self.a.rows @ self.b.rows.T

    @cached_property
    def along(self) -> torch.Tensor:
        """``O_i^T x x^T O_j`` with ``x = x_i - x_j``, as ``(n d, m d)``."""
        (n, d), m, (a, b) = (len(self.a), self.a.dim), len(self.b), (self.a, self.b)
        left = (a.frames.mT @ a.points[:, :, None]).reshape(n * d, 1) - a.rows @ b.points.T
        right = b.rows @ a.points.T - (b.frames.mT @ b.points[:, :, None]).reshape(m * d, 1)
        left = left[:, :, None].expand(-1, -1, d).reshape(n * d, m * d)
        return left * right.T[:, None, :].expand(-1, d, -1).reshape(n * d, m * d)

    @cached_property
    def squares(self) -> torch.Tensor:
        """``x^T O_i O_j^T x (n, m)``: where all bases are the same, the squared distances along them."""
        n, m, d = len(self.a), len(self.b), self.a.dim
        return self.along.reshape(n, d, m, d).diagonal(dim1=1, dim2=3).sum(-1)

    @cached_property
    def together(self) -> torch.Tensor:
        """Mean products of past anomalies, as ``(n d, m d)``."""
        assert self.a.past is not None and self.b.past is not None
        return self.a.past.flatten(1).T @ self.b.past.flatten(1) / len(self.a.past)


def pairs(a: Sites, b: Sites) -> Pairs:
    """Kept for sites with themselves, of which a likelihood asks again and again."""
    return a.with_itself if a is b else Pairs(a, b)


class _Blocks(torch.autograd.Function):
    """Sums of strided slices: several times faster than torch's own sum over axes of two or three entries."""

    @staticmethod
    def forward(ctx, k: torch.Tensor, d: int) -> torch.Tensor:
        ctx.d, (n, m) = d, k.shape
        return k[:, None, :, None].expand(n, d, m, d).reshape(n * d, m * d)

    @staticmethod
    def backward(ctx, grad: torch.Tensor):
        rows: Any = sum(grad[i :: ctx.d] for i in range(ctx.d))
        return sum(rows[:, i :: ctx.d] for i in range(ctx.d)), None


def blocks(k: torch.Tensor, d: int) -> torch.Tensor:
    """Each entry of ``(n, m)`` as a constant ``d x d`` block: ``(n d, m d)``."""
    return k if d == 1 else _Blocks.apply(k, d)


def multiples(k: torch.Tensor, f: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """The covariance ``(n d, m d)`` of random multiples, of covariance ``k (n, m)``, of fields ``(n, d), (m, d)``."""
    return blocks(k, f.shape[1]) * torch.outer(f.reshape(-1), g.reshape(-1))


def squares(f: torch.Tensor) -> torch.Tensor:
    """``f f^T`` at each site ``(n, d, d)``."""
    return f[:, :, None] * f[:, None, :]


def distances(a: Sites, b: Sites) -> torch.Tensor:
    """Ambient distances ``(n, m)``."""
    return pairs(a, b).distances


def matern(r: torch.Tensor, smoothness: float) -> torch.Tensor:
    """The Matern correlation at distance ``r`` in units of its length."""
    if smoothness == np.inf:
        return torch.exp(-(r.square() / 2).clamp_max(150.0))  # below that numbers are denormal, and slow
    s = np.sqrt(2 * smoothness) * r
    factor = {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s.square() / 3}[smoothness]
    return factor * torch.exp(-s)


class Covariance(ABC):
    """A covariance of tangent fields; ``start`` holds the logarithms its parameters start from, named by ``names``."""

    names: tuple[str, ...]
    start: tuple[float, ...]
    seasonal: bool = False
    """Whether it is of a change since a history was recorded, so that the history tells nothing of its parameters."""

    @abstractmethod
    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        """The matrix ``(n d, m d)`` of two sets of sites."""

    @abstractmethod
    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        """The blocks ``(n, d, d)`` of each site with itself."""

    def __add__(self, other: Covariance) -> Covariance:
        return Sum((*terms_of(self), *terms_of(other))) if isinstance(other, Covariance) else NotImplemented


def terms_of(covariance: Covariance) -> tuple[Covariance, ...]:
    """Those of a sum, or the covariance itself."""
    return covariance.terms if isinstance(covariance, Sum) else (covariance,)


@dataclass(frozen=True)
class Sum(Covariance):
    """The sum of independent fields' covariances."""

    terms: tuple[Covariance, ...]

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"{type(t).__name__.lower()} {name}" for t in self.terms for name in t.names)

    @property
    def start(self) -> tuple[float, ...]:  # type: ignore[override]
        share = -0.5 * np.log(len(self.terms))
        shifts = [
            (s + share * (name == "amplitude")) for t in self.terms for s, name in zip(t.start, t.names, strict=True)
        ]
        return tuple(shifts)

    def parts(self, theta: torch.Tensor) -> Sequence[torch.Tensor]:
        return torch.split(theta, [len(t.start) for t in self.terms])

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        return sum(t(part, a, b) for t, part in zip(self.terms, self.parts(theta), strict=True))  # type: ignore[return-value]

    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        return sum(t.diagonal(part, a) for t, part in zip(self.terms, self.parts(theta), strict=True))  # type: ignore[return-value]


class _Stationary(Covariance):
    """Amplitude and length; the block of a site with itself is ``amplitude^2 I``."""

    names = ("amplitude", "length")

    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        return torch.exp(2 * theta[0]) * torch.eye(a.dim, dtype=a.points.dtype).expand(len(a), -1, -1)


@dataclass(frozen=True)
class Isotropic(_Stationary):
    r""":math:`\sigma^2 k(|x_i - x_j| / \ell)\, O_i^T O_j` with a Matern correlation of smoothness 1/2, 3/2, 5/2 or inf.

    >>> Isotropic(1.5) + Isotropic(0.5)
    Sum(terms=(Isotropic(smoothness=1.5), Isotropic(smoothness=0.5)))
    """

    smoothness: float = 1.5
    start = (0.0, -1.0)

    def __post_init__(self) -> None:
        if self.smoothness not in SMOOTHNESS:
            raise InvalidInputError(f"smoothness must be one of {SMOOTHNESS}, got {self.smoothness!r}.")

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        k = torch.exp(2 * theta[0]) * matern(distances(a, b) * torch.exp(-theta[1]), self.smoothness)
        return blocks(k, a.dim) * pairs(a, b).overlaps


@dataclass(frozen=True)
class Potential(_Stationary):
    r"""Gradients of random functions: :math:`O_i^T \nabla\nabla'^T k\, O_j`, k Matern 5/2, scaled to :math:`\sigma^2
    I` at i = j.

    With :math:`s = \sqrt5 |x_i - x_j| / \ell` the block is :math:`\sigma^2 e^{-s} O_i^T [(1 + s) I - 5 x x^T /
    \ell^2] O_j`.
    """

    start = (-0.5, -0.8)

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        length, near = torch.exp(theta[1]), pairs(a, b)
        s = np.sqrt(5) * near.distances / length
        decay = torch.exp(2 * theta[0] - s)
        straight = blocks(decay * (1 + s), a.dim) * near.overlaps
        return straight - blocks(decay * (5 / length.square()), a.dim) * near.along


@dataclass(frozen=True)
class Rotational(_Stationary):
    """``Potential`` turned by a quarter: fields without divergence on oriented surfaces (d = 2)."""

    start = (0.0, -0.5)

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        return Potential()(theta, a.turned, b.turned)


def Helmholtz() -> Covariance:
    """Rotational, potential and rough isotropic fields with scales of their own: wind and currents.

    >>> [type(term).__name__ for term in Helmholtz().terms]
    ['Rotational', 'Potential', 'Isotropic']
    """
    return Rotational() + Potential() + Isotropic(0.5)
