r"""Covariances of vector fields, as small objects that add.

The block of two points is :math:`B_i^T K(x_i, x_j) B_j` for bases :math:`B_i` ``(D, p)``: tangent
ones, or the same directions of ambient space everywhere. With a radial correlation k of length
:math:`\ell`, of which :math:`-\ell^2 \nabla\nabla^T k = a I - b\,\delta\delta^T/\ell^2` for
:math:`\delta = x_i - x_j`,

.. math:: \text{Tangent, Ambient: } k\,I, \qquad
          \text{CurlFree: } a I - b\,\frac{\delta\delta^T}{\ell^2}, \qquad
          \text{DivergenceFree: } \frac{\operatorname{tr}(C) I - C}{p - 1}, \; C = \text{CurlFree}.

The last two are gradients of random functions and fields without divergence (Narcowich and Ward,
1994); on an oriented surface the latter are gradients turned by a quarter. Parameters are positive
numbers, in units in which the points have root mean square distance one from their centre and the
data root mean square component one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidInputError
from .bases import PRINCIPAL_AXES, Directions
from .sites import SQUARE_FLOOR, Pairs, Sites


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
            # smaller numbers than this are denormal, and slow
            return torch.exp(-(squares / 2).clamp_max(150.0))
        s = (2 * self.smoothness * squares).sqrt()
        if self.smoothness == 0.5:
            return torch.exp(-s)
        if self.smoothness == 1.5:
            return (1 + s) * torch.exp(-s)
        return (1 + s + s.square() / 3) * torch.exp(-s)

    def second_derivatives(self, squares: Tensor) -> tuple[Tensor, Tensor]:
        """``a`` and ``b`` of the module's text, a being one at zero."""
        if self.smoothness == np.inf:
            correlation = self(squares)
            return correlation, correlation
        s = (5 * squares).sqrt()
        decay = torch.exp(-s)
        return (1 + s) * decay, 5 * decay


class Role(Enum):
    """What a parameter is, which decides how it is fitted."""

    AMPLITUDE = "amplitude"  # standard deviation of the field
    LENGTH = "length"  # over which the field changes
    RATIO = "ratio"  # of two lengths
    NOISE = "noise"  # standard deviation of the noise


@dataclass(frozen=True)
class Parameter:
    """A positive number to be fitted, with the value at which its prior is centred."""

    name: str
    start: float
    role: Role


NOISE = Parameter("noise", 0.135, Role.NOISE)


class Covariance(ABC):
    """A covariance of fields, of components along tangent bases or, if ``ambient``, along
    ``directions`` that are the same everywhere."""

    ambient: bool = False
    directions: Directions = PRINCIPAL_AXES

    def __str__(self) -> str:
        kernel = getattr(self, "kernel", None)
        if kernel is None:
            return type(self).__name__
        return f"{type(self).__name__}({kernel})"

    @abstractmethod
    def parameters(self, ambient_dim: int, dim: int) -> tuple[Parameter, ...]:
        """The parameters for D = ``ambient_dim``, p = ``dim``."""

    @abstractmethod
    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        """Blocks ``(..., p, n, p, m)``, or ``(..., p, n, m)`` if components are ``independent``.

        ``values`` are those of the parameters, in their order.
        """

    @abstractmethod
    def diagonal(self, values: Tensor, sites: Sites) -> Tensor:
        """The blocks ``(..., n, p, p)`` of each site with itself."""

    @property
    def independent(self) -> bool:
        """Whether components along the bases, the same everywhere, are independent."""
        return False

    def check(self, ambient_dim: int, dim: int, oriented: bool) -> None:  # noqa: B027
        """Raise if there is no such covariance on these spaces."""

    def __add__(self, other: Covariance) -> Covariance:
        if not isinstance(other, Covariance):
            return NotImplemented
        return CovarianceSum((*terms_of(self), *terms_of(other)))


def terms_of(covariance: Covariance) -> tuple[Covariance, ...]:
    """Those of a sum, or the covariance itself."""
    if isinstance(covariance, CovarianceSum):
        return covariance.terms
    return (covariance,)


def multiples_of_identity(variance: Tensor, sites: Sites) -> Tensor:
    """The block ``variance I`` for every site ``(..., n, p, p)``."""
    block = variance * torch.eye(sites.dim, dtype=torch.float64)
    return block.expand(*sites.points.shape[:-1], -1, -1)


@dataclass(frozen=True)
class CovarianceSum(Covariance):
    """The covariance of a sum of independent fields."""

    terms: tuple[Covariance, ...]

    def __post_init__(self) -> None:
        if len({term.ambient for term in self.terms}) > 1:
            raise InvalidInputError(
                f"a sum needs terms of one kind, all ambient or all tangent, got {self.terms}."
            )
        if self.ambient and len({term.directions for term in self.terms}) > 1:
            raise InvalidInputError(
                f"the terms of a sum need the same directions of ambient space, got {self.terms}."
            )

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))

    @property
    def ambient(self) -> bool:  # type: ignore[override]
        return self.terms[0].ambient

    @property
    def directions(self) -> Directions:  # type: ignore[override]
        return self.terms[0].directions

    @property
    def independent(self) -> bool:
        return all(term.independent for term in self.terms)

    def check(self, ambient_dim: int, dim: int, oriented: bool) -> None:
        for term in self.terms:
            term.check(ambient_dim, dim, oriented)

    def parameters(self, ambient_dim: int, dim: int) -> tuple[Parameter, ...]:
        """Those of all terms, whose variances add up to one where they start."""
        parameters = []
        for number, term in enumerate(self.terms, start=1):
            for parameter in term.parameters(ambient_dim, dim):
                name = f"{type(term).__name__} {number} {parameter.name}"
                start = parameter.start
                if parameter.role is Role.AMPLITUDE:
                    start = start / len(self.terms) ** 0.5
                parameters.append(replace(parameter, name=name, start=start))
        return tuple(parameters)

    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        total = torch.zeros(())
        for term, own_values in self._terms_with_values(values, pairs.a):
            blocks = term(own_values, pairs)
            if term.independent and not self.independent:
                blocks = with_zeros_between_components(blocks)
            total = total + blocks
        return total

    def diagonal(self, values: Tensor, sites: Sites) -> Tensor:
        total = torch.zeros(())
        for term, own_values in self._terms_with_values(values, sites):
            total = total + term.diagonal(own_values, sites)
        return total

    def _terms_with_values(
        self, values: Tensor, sites: Sites
    ) -> Iterator[tuple[Covariance, Tensor]]:
        counts = [len(term.parameters(sites.ambient_dim, sites.dim)) for term in self.terms]
        return zip(self.terms, torch.split(values, counts), strict=True)


def with_zeros_between_components(blocks: Tensor) -> Tensor:
    """Blocks ``(..., p, n, m)`` of independent components as ``(..., p, n, p, m)``."""
    return torch.diag_embed(blocks.movedim(-3, -1)).movedim(-2, -4).movedim(-1, -2)


@dataclass(frozen=True)
class Tangent(Covariance):
    r"""Tangent fields :math:`\sigma^2 k(|x_i - x_j| / \ell)\, O_i^T O_j`: alike where points are
    near.

    >>> Tangent(Matern(1.5)) + Tangent(Matern(0.5))
    CovarianceSum(terms=(Tangent(kernel=Matern(smoothness=1.5)),
    Tangent(kernel=Matern(smoothness=0.5))))
    """

    kernel: Matern = Matern(1.5)

    def parameters(self, ambient_dim: int, dim: int) -> tuple[Parameter, ...]:
        return (
            Parameter("amplitude", 1.0, Role.AMPLITUDE),
            Parameter("length", 0.37, Role.LENGTH),
        )

    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        amplitude, length = values
        kernel = amplitude.square() * self.kernel(pairs.squares / length.square())
        return pairs.spread(kernel) * pairs.overlaps

    def diagonal(self, values: Tensor, sites: Sites) -> Tensor:
        return multiples_of_identity(values[0].square(), sites)


@dataclass(frozen=True)
class Ambient(Covariance):
    """Independent ambient components, each with its own variance; a length scale for each of the
    first principal axes of the points.

    The components are those along ``directions``: ``PrincipalAxes()``, or ``Coordinates()`` where
    coordinates are quantities of their own.

    >>> from tangentbundle.estimators import Coordinates
    >>> print(Ambient(Matern(2.5), Coordinates()))
    Ambient(2.5, coordinates)
    """

    kernel: Matern = Matern(1.5)
    directions: Directions = PRINCIPAL_AXES
    ambient = True
    independent = True

    def __str__(self) -> str:
        if self.directions == PRINCIPAL_AXES:
            return f"Ambient({self.kernel})"
        return f"Ambient({self.kernel}, {self.directions})"

    def parameters(self, ambient_dim: int, dim: int) -> tuple[Parameter, ...]:
        amplitudes = [
            Parameter(f"amplitude {component + 1}", 1.0, Role.AMPLITUDE) for component in range(dim)
        ]
        lengths = [
            Parameter(f"length {axis + 1}", 0.6, Role.LENGTH) for axis in range(min(ambient_dim, 4))
        ]
        return (*amplitudes, *lengths)

    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        amplitudes = values[: pairs.a.dim]
        lengths = values[pairs.a.dim :]
        squares = torch.tensordot(lengths.square().reciprocal(), pairs.principal_squares, 1)
        kernel = self.kernel(squares + SQUARE_FLOOR)
        return amplitudes.square()[:, None, None] * kernel[..., None, :, :]

    def diagonal(self, values: Tensor, sites: Sites) -> Tensor:
        variances = torch.diag(values[: sites.dim].square())
        return variances.expand(*sites.points.shape[:-1], -1, -1)


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
        if self.ambient:
            return f"{type(self).__name__}({self.kernel}, ambient)"
        return f"{type(self).__name__}({self.kernel})"

    def parameters(self, ambient_dim: int, dim: int) -> tuple[Parameter, ...]:
        along = (
            Parameter("amplitude", 1.0, Role.AMPLITUDE),
            Parameter("length", 0.6, Role.LENGTH),
        )
        if not self.ambient:
            return along
        return (*along, Parameter("length across", 0.6, Role.LENGTH))

    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        a, b, _ = self._derivatives(values, pairs)
        return pairs.spread(a) * pairs.overlaps - pairs.spread(b) * pairs.outer

    def diagonal(self, values: Tensor, sites: Sites) -> Tensor:
        return multiples_of_identity(values[0].square(), sites)

    def _derivatives(self, values: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
        """``a`` and ``b`` with the amplitude, b over the squared length, and squared distances
        along the bases."""
        variance = values[0].square()
        squared_length = values[1].square()
        if self.ambient:
            along = pairs.squares_along
            across = (pairs.squares - along).clamp_min(0.0)
            squares = along / squared_length + across / values[2].square()
        else:
            along = pairs.squares
            squares = along / squared_length
        a, b = self.kernel.second_derivatives(squares)
        return variance * a, variance / squared_length * b, along


@dataclass(frozen=True)
class DivergenceFree(CurlFree):
    """Fields without divergence: on oriented surfaces, or if ``ambient`` of ambient space."""

    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        if not self.ambient:
            return super().__call__(values, pairs.turned)
        a, b, along = self._derivatives(values, pairs)
        # on a line only constants have no divergence: there it is any field
        others = max(pairs.a.dim - 1, 1)
        turned = b / others
        straight = pairs.spread(a - turned * along) * pairs.overlaps
        return straight + pairs.spread(turned) * pairs.outer

    def check(self, ambient_dim: int, dim: int, oriented: bool) -> None:
        if not self.ambient and not (dim == 2 and oriented):
            agreement = "agree" if oriented else "do not agree"
            raise InvalidInputError(
                "DivergenceFree() along tangent planes needs an oriented surface, but here d = "
                f"{dim} and the frames {agreement}. Use DivergenceFree(ambient=True), or "
                "CurlFree()."
            )


def helmholtz_covariance() -> Covariance:
    """Fields without divergence, without curl, and rough ones, each with a scale of its own: wind
    and currents."""
    return DivergenceFree() + CurlFree() + Tangent(Matern(0.5))
