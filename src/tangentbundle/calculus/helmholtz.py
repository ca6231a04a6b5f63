r"""The Helmholtz-Hodge decomposition of vector fields: :math:`v = \nabla a + \operatorname{rot} b + h`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..arrays import Array, ArrayKind, finite, positive
from ..errors import BoundaryError, NotOrientableError
from ..operators.laplacian import fold, unfold
from .boundary import has_boundary
from .derivatives import Derivatives
from .maps import LinearMap
from .poisson import Poisson

if TYPE_CHECKING:
    from ..bundle import TangentBundle

Maps = list[tuple[LinearMap, LinearMap]]
"""A map from potentials to fields and one back, for each part."""

TINY = 1e-290

CHANNELS = 16
"""Fields that are decomposed at a time."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The parts of a field, of the kind and shape of the field, ``(..., n, d, c)``; they are pairwise orthogonal.

    Attributes: ``gradient`` = grad ``potential``; ``coclosed``, the rest, which has no divergence. On oriented surfaces
    it is ``rotational`` + ``harmonic``, with ``rotational`` = rot ``stream``; the smaller of gradient and rotational
    part lacks its tiny overlap with the larger one, which makes them orthogonal. Elsewhere ``rotational``, ``harmonic``
    and ``stream`` are None. The harmonic part also holds what potentials on these points do not resolve, such as
    noise. Potentials ``(..., n, 1, c)`` have mean zero on each component of the graph. ``energies`` are the shares of
    the squared mass norm, by part: they sum to one.
    """

    gradient: Array
    coclosed: Array
    potential: Array
    energies: dict[str, Array]
    rotational: Array | None = None
    harmonic: Array | None = None
    stream: Array | None = None


def helmholtz(bundle: TangentBundle, field: Array, *, degree: int = 2, tol: float = 1e-7) -> Decomposition:
    r"""Split fields ``(..., n, d, c)`` into a gradient, a rotated gradient and a harmonic field.

    The potentials solve :math:`\Delta a = \operatorname{div} v` and :math:`\Delta b = \operatorname{curl} v`, on each
    component of the graph by itself; their derivatives are scaled to leave the least rest in the mass norm. Leading
    axes and channels, such as time steps, are decomposed one by one. The manifold must be closed.

    Args:
        degree: of the polynomials of ``Derivatives``; 3 resolves somewhat smaller scales and takes more memory.
        tol: relative residual of the solutions.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    >>> bundle = tb.TangentBundle.from_points(points)
    >>> field = bundle.to_coordinates(np.cross([0, 0, 1], points))           # a rotation about the z axis
    >>> {part: round(float(share[0]), 3) for part, share in tb.helmholtz(bundle, field).energies.items()}
    {'gradient': 0.0, 'rotational': 1.0, 'harmonic': 0.0}
    """
    calculus = Derivatives(bundle, degree=degree)
    x, kind = calculus.divergence().check(field, "field")  # type: ignore[misc]
    finite(x, "field")
    if has_boundary(bundle):
        raise BoundaryError(
            "the decomposition is made for closed manifolds, and these points end at a boundary, where potentials "
            "would need a condition. Use divergence() and curl(), or data that cover the whole manifold."
        )
    split = _Split.of(calculus, x.device)
    with torch.no_grad():
        chunks = [split(part.double(), positive(tol, "tol")) for part in fold(x).split(CHANNELS, dim=2)]
        parts = [unfold(torch.cat(part, dim=2), _like(x, part[0])) for part in zip(*chunks, strict=True)]
        return _decomposition(x.double(), parts, split.gradient.mass, kind)


@dataclass(frozen=True, eq=False)
class _Split:
    """Writes fields ``(n, d, c)`` as gradients and, with an orientation ``signs`` (n,), as rotated gradients."""

    gradient: LinearMap
    divergence: LinearMap
    signs: torch.Tensor | None
    solver: Poisson

    @classmethod
    def of(cls, calculus: Derivatives, device: torch.device) -> _Split:
        signs, bundle = None, calculus.bundle
        if bundle.dim == 2:
            with suppress(NotOrientableError):
                signs = torch.from_numpy(bundle._unsorted(calculus.signs)).to(device)
        gradient, divergence = (m.to(dtype=torch.float64) for m in (calculus.gradient(), calculus.divergence()))
        return cls(gradient, divergence, signs, Poisson.of(calculus, device))

    def _turned(self, field: torch.Tensor) -> torch.Tensor:
        """The field turned by a right angle."""
        assert self.signs is not None
        return self.signs[:, None, None] * torch.stack([-field[:, 1], field[:, 0]], dim=1)

    def __call__(self, field: torch.Tensor, tol: float) -> list[torch.Tensor]:
        """Gradient and potential, then rotated gradient and stream function."""
        sources, order = [self.divergence.apply(field)], self.gradient.order
        if self.signs is not None:
            sources.append(-self.divergence.apply(self._turned(field)))
        along = self.solver.solve(torch.cat(sources, dim=2)[:, 0].index_select(0, order), tol)
        potentials = torch.empty_like(along).index_copy_(0, order, along)[:, None].split(field.shape[2], dim=2)
        first, *second = (self.gradient.apply(potential) for potential in potentials)
        images = [first, *map(self._turned, second)]
        shares = self._least_squares(images, field)
        return [s * part for s, *parts in zip(shares, images, potentials, strict=True) for part in parts]

    def _least_squares(self, images: list[torch.Tensor], field: torch.Tensor) -> torch.Tensor:
        """Shares ``(k, c)`` of the images in each field, by the least rest in the mass norm."""
        root = self.gradient.mass.sqrt()[:, None, None]
        columns = torch.stack([(root * image).flatten(0, 1) for image in images])
        gram = torch.einsum("kmc,lmc->ckl", columns, columns)
        right = torch.einsum("kmc,mc->ck", columns, (root * field).flatten(0, 1))
        return (torch.linalg.pinv(gram, rtol=1e-13, hermitian=True) @ right[..., None])[..., 0].T


def _like(x: torch.Tensor, part: torch.Tensor) -> torch.Size:
    """The shape of a part of a field: that of the field, with fibres of the part's dimension."""
    return torch.Size((*x.shape[:-2], part.shape[1], x.shape[-1]))


def _decomposition(
    field: torch.Tensor, parts: list[torch.Tensor], mass: torch.Tensor, kind: ArrayKind
) -> Decomposition:
    def inner(f: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return torch.einsum("n,...ndc,...ndc->...c", mass, f, g)

    gradient, potential = parts[:2]
    named = {"gradient": gradient, "coclosed": field - gradient}
    potentials = {"potential": potential}
    if len(parts) == 4:
        rotational, stream = parts[2:]
        energy, other = inner(gradient, gradient), inner(rotational, rotational)
        overlap = inner(gradient, rotational) / torch.maximum(energy, other).clamp_min(TINY)
        u = torch.where(energy >= other, overlap, 0.0)[..., None, None, :]  # the overlap belongs to the larger part
        w = overlap[..., None, None, :] - u
        gradient, rotational = (1 + u) * gradient - w * rotational, (1 + w) * rotational - u * gradient
        potentials = {"potential": (1 + u) * potential, "stream": (1 + w) * stream}
        named = {"gradient": gradient, "rotational": rotational, "harmonic": field - gradient - rotational}
    total = inner(field, field).clamp_min(TINY)
    energies = {name: kind.wrap(inner(part, part) / total) for name, part in named.items()}
    named["coclosed"] = field - gradient
    arrays = {name: kind.wrap(part) for name, part in (named | potentials).items()}
    return Decomposition(energies=energies, **arrays)
