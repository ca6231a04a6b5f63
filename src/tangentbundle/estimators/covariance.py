r"""Covariances of vector fields, as small objects that add.

The block of two points is :math:`B_i^T K(x_i, x_j) B_j` for bases :math:`B_i` ``(D, p)``: tangent
ones, or the same directions of ambient space everywhere. With a radial correlation k of length
:math:`\ell`, of which :math:`-\ell^2 \nabla\nabla^T k = a I - b\,\delta\delta^T/\ell^2` for
:math:`\delta = x_i - x_j`,

.. math:: \text{Tangent, Ambient: } k\,I, \qquad
          \text{CurlFree: } a I - b\,\frac{\delta\delta^T}{\ell^2}, \qquad
          \text{DivergenceFree: } \frac{\operatorname{tr}(C) I - C}{p - 1}, \; C = \text{CurlFree}.

The last two are gradients of random functions and fields without divergence (Narcowich and Ward,
1994); on an oriented surface the latter are gradients turned by a quarter. Parameters are
logarithms, in units in which the points have root mean square distance one from their centre and
the data root mean square component one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidInputError
from .sites import Pairs, Sites


@dataclass(frozen=True)
class Matern:
    """The radial correlation of Matern, of smoothness 1/2, 3/2, 5/2, or infinity: the Gaussian one.

    >>> Matern(1.5)(torch.tensor([0.0, 1.0]).double()).round(decimals=4).tolist()
    [1.0, 0.4834]
    """

    smoothness: float = 1.5

    def __post_init__(self) -> None:
        if self.smoothness not in (0.5, 1.5, 2.5, np.inf):
            raise InvalidInputError(
                f"smoothness must be 0.5, 1.5, 2.5 or infinity, got {self.smoothness!r}."
            )

    def __str__(self) -> str:
        return f"{self.smoothness:g}"

    def __call__(self, squares: Tensor) -> Tensor:
        """At squared distances in units of the length."""
        if self.smoothness == np.inf:
            return torch.exp(
                -(squares / 2).clamp_max(150.0)
            )  # smaller numbers are denormal, and slow
        s = (2 * self.smoothness * squares).sqrt()
        factor = {0.5: torch.ones_like(s), 1.5: 1 + s, 2.5: 1 + s + s.square() / 3}[self.smoothness]
        return factor * torch.exp(-s)

    def second_derivatives(self, squares: Tensor) -> tuple[Tensor, Tensor]:
        """``a`` and ``b`` of the module's text, a being one at zero."""
        if self.smoothness == np.inf:
            return (k := self(squares)), k
        s = (5 * squares).sqrt()
        return (1 + s) * torch.exp(-s), 5 * torch.exp(-s)


class Covariance(ABC):
    """A covariance of fields. ``ambient`` says in which bases: those of ambient space, or the
    tangent ones."""

    ambient: bool = False

    def __str__(self) -> str:
        kernel = getattr(self, "kernel", None)
        return type(self).__name__ if kernel is None else f"{type(self).__name__}({kernel})"

    @abstractmethod
    def parameters(self, ambient_dim: int, dim: int) -> dict[str, float]:
        """The names of the parameters, and the logarithms they start from, for D = ``ambient_dim``,
        p = ``dim``."""

    @abstractmethod
    def __call__(self, theta: Tensor, pairs: Pairs) -> Tensor:
        """Blocks ``(..., p, n, p, m)``, or ``(..., p, n, m)`` if components are ``independent``."""

    def diagonal(self, theta: Tensor, sites: Sites) -> Tensor:
        """The blocks ``(..., n, p, p)`` of each site with itself."""
        one = torch.exp(2 * theta[0]) * torch.eye(sites.dim, dtype=torch.float64)
        return one.expand(*sites.points.shape[:-1], -1, -1)

    @property
    def independent(self) -> bool:
        """Whether components along the bases, the same everywhere, are independent."""
        return False

    def check(self, ambient_dim: int, dim: int, oriented: bool) -> None:  # noqa: B027
        """Raise if there is no such covariance on these spaces."""

    def __add__(self, other: Covariance) -> Covariance:
        return (
            CovarianceSum((*terms_of(self), *terms_of(other)))
            if isinstance(other, Covariance)
            else NotImplemented
        )


def terms_of(covariance: Covariance) -> tuple[Covariance, ...]:
    """Those of a sum, or the covariance itself."""
    return covariance.terms if isinstance(covariance, CovarianceSum) else (covariance,)


@dataclass(frozen=True)
class CovarianceSum(Covariance):
    """The covariance of a sum of independent fields."""

    terms: tuple[Covariance, ...]

    def __post_init__(self) -> None:
        if len({term.ambient for term in self.terms}) > 1:
            raise InvalidInputError(
                f"a sum needs terms of one kind, all ambient or all tangent, got {self.terms}."
            )

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))

    @property
    def ambient(self) -> bool:  # type: ignore[override]
        return self.terms[0].ambient

    @property
    def independent(self) -> bool:
        return all(term.independent for term in self.terms)

    def check(self, ambient_dim: int, dim: int, oriented: bool) -> None:
        for term in self.terms:
            term.check(ambient_dim, dim, oriented)

    def parameters(self, ambient_dim: int, dim: int) -> dict[str, float]:
        share = -0.5 * np.log(len(self.terms))
        return {
            f"{type(term).__name__} {number + 1} {name}": start + share * (name == "amplitude")
            for number, term in enumerate(self.terms)
            for name, start in term.parameters(ambient_dim, dim).items()
        }

    def _parts(self, theta: Tensor, sites: Sites) -> Sequence[tuple[Covariance, Tensor]]:
        sizes = [len(term.parameters(sites.points.shape[-1], sites.dim)) for term in self.terms]
        return list(zip(self.terms, torch.split(theta, sizes), strict=True))

    def __call__(self, theta: Tensor, pairs: Pairs) -> Tensor:
        return sum(self._blocks(term, part, pairs) for term, part in self._parts(theta, pairs.a))  # type: ignore[return-value]

    def _blocks(self, term: Covariance, theta: Tensor, pairs: Pairs) -> Tensor:
        """Those of a term, with zeros between components that are independent in it but not in the
        sum."""
        blocks = term(theta, pairs)
        if term.independent and not self.independent:
            return torch.diag_embed(blocks.movedim(-3, -1)).movedim(-2, -4).movedim(-1, -2)
        return blocks

    def diagonal(self, theta: Tensor, sites: Sites) -> Tensor:
        return sum(term.diagonal(part, sites) for term, part in self._parts(theta, sites))  # type: ignore[return-value]


@dataclass(frozen=True)
class Tangent(Covariance):
    r"""Tangent fields :math:`\sigma^2 k(|x_i - x_j| / \ell)\, O_i^T O_j`: alike where points are
    near.

    >>> Tangent(Matern(1.5)) + Tangent(Matern(0.5))
    CovarianceSum(terms=(Tangent(kernel=Matern(smoothness=1.5)),
    Tangent(kernel=Matern(smoothness=0.5))))
    """

    kernel: Matern = Matern(1.5)

    def parameters(self, ambient_dim: int, dim: int) -> dict[str, float]:
        return {"amplitude": 0.0, "length": -1.0}

    def __call__(self, theta: Tensor, pairs: Pairs) -> Tensor:
        kernel = torch.exp(2 * theta[0]) * self.kernel(pairs.squares * torch.exp(-2 * theta[1]))
        return pairs.spread(kernel) * pairs.overlaps


@dataclass(frozen=True)
class Ambient(Covariance):
    """Independent ambient components, each with its own variance; a length scale for each principal
    axis."""

    kernel: Matern = Matern(1.5)
    ambient = True
    independent = True

    def parameters(self, ambient_dim: int, dim: int) -> dict[str, float]:
        amplitudes = {f"amplitude {component + 1}": 0.0 for component in range(dim)}
        return amplitudes | {f"length {axis + 1}": -0.5 for axis in range(min(ambient_dim, 4))}

    def __call__(self, theta: Tensor, pairs: Pairs) -> Tensor:
        sizes, lengths = theta[: pairs.a.dim], theta[pairs.a.dim :]
        squares = torch.tensordot(torch.exp(-2 * lengths), pairs.principal_squares, 1)
        return torch.exp(2 * sizes)[:, None, None] * self.kernel(squares + 1e-16)[..., None, :, :]

    def diagonal(self, theta: Tensor, sites: Sites) -> Tensor:
        return torch.diag(torch.exp(2 * theta[: sites.dim])).expand(
            *sites.points.shape[:-1], -1, -1
        )


@dataclass(frozen=True)
class CurlFree(Covariance):
    """Gradients of random functions, along the tangent planes or, if ``ambient``, of ambient space.

    The functions of ambient space have a length of their own across the directions that vectors
    have.
    """

    kernel: Matern = Matern(2.5)
    ambient: bool = False

    def __post_init__(self) -> None:
        if self.kernel.smoothness < 2.5:
            raise InvalidInputError(
                f"gradients need a kernel of smoothness 2.5 or infinity, got {self.kernel}."
            )

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.kernel}{', ambient' if self.ambient else ''})"

    def parameters(self, ambient_dim: int, dim: int) -> dict[str, float]:
        return {"amplitude": 0.0, "length": -0.5} | (
            {"length across": -0.5} if self.ambient else {}
        )

    def __call__(self, theta: Tensor, pairs: Pairs) -> Tensor:
        a, b, _ = self._derivatives(theta, pairs)
        return pairs.spread(a) * pairs.overlaps - pairs.spread(b) * pairs.outer

    def _derivatives(self, theta: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
        """``a`` and ``b`` with the amplitude, b over the squared length, and squared distances
        along the bases."""
        per_length = torch.exp(-2 * theta[1])
        along = pairs.squares_along if self.ambient else pairs.squares
        squares = along * per_length
        if self.ambient:
            squares = squares + (pairs.squares - along).clamp_min(0.0) * torch.exp(-2 * theta[2])
        a, b = self.kernel.second_derivatives(squares)
        size = torch.exp(2 * theta[0])
        return size * a, size * per_length * b, along


@dataclass(frozen=True)
class DivergenceFree(CurlFree):
    """Fields without divergence: on oriented surfaces, or if ``ambient`` of ambient space."""

    def __call__(self, theta: Tensor, pairs: Pairs) -> Tensor:
        if not self.ambient:
            return super().__call__(theta, pairs.turned)
        a, b, along = self._derivatives(theta, pairs)
        others = max(
            pairs.a.dim - 1, 1
        )  # on a line only constants have no divergence: there it is any field
        turned = b / others
        return (
            pairs.spread(a - turned * along) * pairs.overlaps + pairs.spread(turned) * pairs.outer
        )

    def check(self, ambient_dim: int, dim: int, oriented: bool) -> None:
        if not self.ambient and not (dim == 2 and oriented):
            raise InvalidInputError(
                "DivergenceFree() along tangent planes needs an oriented surface, but here d = "
                f"{dim} and the frames {'agree' if oriented else 'do not agree'}. Use "
                "DivergenceFree(ambient=True), or CurlFree()."
            )


def helmholtz_covariance() -> Covariance:
    """Fields without divergence, without curl, and rough ones, each with a scale of its own: wind
    and currents."""
    return DivergenceFree() + CurlFree() + Tangent(Matern(0.5))
