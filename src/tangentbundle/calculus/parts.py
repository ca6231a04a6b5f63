"""The parts of a field: potentials, their gradients, and what is left, made orthogonal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import AccuracyWarning, NotOrientableError, warn
from .derivatives import Derivatives, LinearMap

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MAX_EXCESS = 1.5
"""Energy of the parts over that of the field above which there is a warning; errors are then 20 to
90 %."""

DEPENDENT = 1e-13
"""Relative size of squared lengths below which parts are rounding errors."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The decomposition of fields ``(n, d, c)`` along the curve.

    Attributes: ``sources`` (n, k, c), the divergence and, if k = 2, the vorticity; ``solutions``
    (n, k, c), the potential and the stream function; ``images`` (k, n, d, c), their gradient and
    rotated gradient; ``remainder`` (n, d, c).
    """

    sources: Tensor
    solutions: Tensor
    images: Tensor
    remainder: Tensor

    def fields(self) -> dict[str, Tensor]:
        """The parts of the field, by their names in ``Decomposition``."""
        fields = {"gradient": self.images[0]}
        if len(self.images) == 2:
            fields["rotational"] = self.images[1]
        fields["remainder"] = self.remainder
        return fields

    def potentials(self) -> dict[str, Tensor]:
        """Potentials and their sources ``(n, 1, c)``, by their names in ``Decomposition``."""
        potentials = {"divergence": self.sources[:, :1], "potential": self.solutions[:, :1]}
        if len(self.images) == 2:
            potentials["vorticity"] = self.sources[:, 1:]
            potentials["stream"] = self.solutions[:, 1:]
        return potentials


def joined(chunks: list[Parts]) -> Parts:
    """The decomposition of the channels of all chunks, one after the other."""
    return Parts(
        sources=torch.cat([chunk.sources for chunk in chunks], dim=-1),
        solutions=torch.cat([chunk.solutions for chunk in chunks], dim=-1),
        images=torch.cat([chunk.images for chunk in chunks], dim=-1),
        remainder=torch.cat([chunk.remainder for chunk in chunks], dim=-1),
    )


class FieldMaps:
    """Gradient, divergence and, on oriented surfaces, vorticity of fields ``(n, d, c)`` along the
    curve, by polynomials of a degree.

    ``signs`` (n,) is the orientation of the frames of oriented surfaces, None of others.
    """

    def __init__(self, bundle: TangentBundle, degree: int | None) -> None:
        calculus = Derivatives(bundle, degree=degree)
        self.gradient_map: LinearMap = calculus.gradient()
        self.divergence_map: LinearMap = calculus.divergence()
        self.gradient_matrix = self.gradient_map.matrix.double()
        self.divergence_matrix = self.divergence_map.matrix.double()
        self.signs: Tensor | None = None
        if bundle.dim == 2:
            try:
                self.signs = calculus.signs.to(self.gradient_matrix.device)
            except NotOrientableError:
                self.signs = None  # a gradient and the rest, then

    def turned(self, field: Tensor) -> Tensor:
        """The field turned by a right angle."""
        assert self.signs is not None, "only fields on oriented surfaces are turned"
        turned = torch.stack([-field[:, 1], field[:, 0]], dim=1)
        return self.signs[:, None, None] * turned

    def sources(self, field: Tensor) -> Tensor:
        """Divergence and, on oriented surfaces, vorticity, ``(n, k, c)``."""
        sources = [self.divergence_matrix @ field.flatten(0, 1)]
        if self.signs is not None:
            sources.append(self.divergence_matrix @ -self.turned(field).flatten(0, 1))
        return torch.stack(sources, dim=1)

    def images(self, potentials: Tensor) -> Tensor:
        """The gradient of the first potential and the turned one of the second,
        ``(k, n, d, c)``."""
        n = len(potentials)
        images = [(self.gradient_matrix @ potentials[:, 0]).unflatten(0, (n, -1))]
        if self.signs is not None:
            gradient = (self.gradient_matrix @ potentials[:, 1]).unflatten(0, (n, -1))
            images.append(self.turned(gradient))
        return torch.stack(images)


class Split(ABC):
    """Writes fields ``(n, d, c)`` along the curve as gradients and, on oriented surfaces, as
    rotated gradients.

    ``mass`` (n,) weighs the inner product in which the parts are orthogonal.
    """

    maps: FieldMaps
    mass: Tensor

    @abstractmethod
    def step(self, field: Tensor, tol: float) -> tuple[Tensor, Tensor]:
        """Potentials ``(n, k, c)`` of a field, with a relative residual, and their gradients
        ``(k, n, d, c)``."""

    def __call__(self, field: Tensor, tol: float) -> Parts:
        """The parts of a field."""
        solutions, images = self.step(field, tol)
        # a second time what was smoothed away on the way to the potentials and back
        more_solutions, more_images = self.step(field - images.sum(dim=0), tol)
        images = images + more_images
        remainder = field - images.sum(dim=0)
        orthogonal = _orthogonal(torch.cat([images, remainder[None]]), self.mass)
        return Parts(
            sources=self.maps.sources(field),
            solutions=solutions + more_solutions,
            images=orthogonal[:-1],
            remainder=orthogonal[-1],
        )


def _orthogonal(fields: Tensor, mass: Tensor) -> Tensor:
    r"""Fields ``(k, n, d, c)`` after the least change that makes them orthogonal and leaves their
    sum.

    With the matrix G of their inner products, these are :math:`v_l = \sum_k (G^{-1/2})_{kl}\,
    (G^{1/2} 1)_l\, v_k`.
    """
    products = torch.einsum("n,kndc,lndc->ckl", mass, fields, fields)
    _warn_of_excess(products)
    values, vectors = torch.linalg.eigh(products)
    is_independent = values > DEPENDENT * values[:, -1:]
    roots = torch.where(is_independent, values, 0.0).sqrt()
    inverse_roots = torch.where(roots > 0, 1 / roots, 0.0)
    root = (vectors * roots[:, None]) @ vectors.mT
    inverse = (vectors * inverse_roots[:, None]) @ vectors.mT
    return torch.einsum("ckl,cl,kndc->lndc", inverse, root.sum(dim=2), fields)


def _warn_of_excess(products: Tensor) -> None:
    """Warn if parts with these inner products ``(c, k, k)`` are far from orthogonal."""
    energies = products.diagonal(dim1=1, dim2=2).sum(1)
    total = products.sum(dim=(1, 2))  # the same if they are orthogonal
    is_coarse = energies > MAX_EXCESS * total
    if bool(is_coarse.any()):
        excess = float((energies / total)[is_coarse].max())
        warn(
            f"the parts of a field have {excess:.3g} times its energy before they are made "
            "orthogonal; exact ones have once. The points are too few for the field, or for "
            "the curvature of their surface: parts and potentials are off by a fifth of the "
            "field or more. Use more points, or denoise the field first.",
            AccuracyWarning,
        )
