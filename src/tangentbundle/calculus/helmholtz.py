r"""The Helmholtz-Hodge decomposition of vector fields: :math:`v = \nabla a + \operatorname{rot} b + r`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from ..arrays import Array, finite, positive
from ..errors import BoundaryError, NotOrientableError
from ..operators.laplacian import fold, unfold
from .boundary import has_boundary
from .derivatives import Derivatives
from .maps import LinearMap
from .poisson import Poisson

if TYPE_CHECKING:
    from ..bundle import TangentBundle

CHANNELS = 16
"""Fields that are decomposed at a time."""

DEPENDENT = 1e-13
"""Relative size of squared lengths below which parts are rounding errors."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The parts of a field, of the kind and shape of the field, ``(..., n, d, c)``; they are pairwise orthogonal.

    Attributes: ``gradient`` = grad ``potential``; ``rotational`` = rot ``stream``; ``remainder``, all the rest. It has
    the harmonic part, of which there is none on a sphere, and what potentials on these points do not resolve, such as
    noise. On spaces that are no oriented surfaces ``rotational``, ``stream`` and ``vorticity`` are None, and the
    remainder is the part without divergence. Potentials ``(..., n, 1, c)`` have mean zero on each component of the
    graph. ``divergence`` and ``vorticity`` are those of the field. ``energies`` are the shares of the squared mass norm
    by part, ``(..., c)``: they sum to one.
    """

    gradient: Array
    remainder: Array
    potential: Array
    divergence: Array
    energies: dict[str, Array]
    rotational: Array | None = None
    stream: Array | None = None
    vorticity: Array | None = None


def helmholtz(bundle: TangentBundle, field: Array, *, degree: int | None = None, tol: float = 1e-7) -> Decomposition:
    r"""Split fields ``(..., n, d, c)`` into a gradient, a rotated gradient and a remainder.

    The potentials solve :math:`\Delta a = \operatorname{div} v` and :math:`\Delta b = \operatorname{curl} v`, on each
    component of the graph by itself. What the remainder still has of both is added once. The parts are made orthogonal
    by the least change that leaves their sum, which vanishes with the distance of the points. Leading axes and
    channels, such as time steps, are decomposed one by one. The manifold must be closed. The solver runs on the device
    of the field; assembly and a coarse problem on the CPU.

    Args:
        degree: of the polynomials of ``Derivatives``.
        tol: relative residual of the solutions.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    >>> bundle = tb.TangentBundle.from_points(points)
    >>> field = bundle.to_coordinates(np.cross([0, 0, 1], points))           # a rotation about the z axis
    >>> {part: round(float(share[0]), 3) for part, share in tb.helmholtz(bundle, field).energies.items()}
    {'gradient': 0.0, 'rotational': 1.0, 'remainder': 0.0}
    """
    calculus = Derivatives(bundle, degree=degree)
    gradient, divergence = calculus.gradient(), calculus.divergence()
    x, kind = divergence.check(field, "field")  # type: ignore[misc]
    finite(x, "field")
    if has_boundary(bundle):
        raise BoundaryError(
            "the decomposition is made for closed manifolds, and these points end at a boundary, where potentials "
            "would need a condition. Use divergence() and curl(), or data that cover the whole manifold."
        )
    calculus = replace(calculus)  # without its fit, which takes memory
    split = _Split.of(calculus, gradient, divergence)
    with torch.no_grad():
        chunks = [split(part.double(), positive(tol, "tol")) for part in fold(x).split(CHANNELS, dim=2)]
        found = {name: torch.cat([chunk[name] for chunk in chunks], dim=2) for name in chunks[0]}
        for name, part in found.items():
            found[name] = unfold(part, torch.Size((*x.shape[:-2], part.shape[1], x.shape[-1])))
        parts = {name: found[name] for name in ("gradient", "rotational", "remainder") if name in found}
        squares = {name: torch.einsum("n,...ndc->...c", split.gradient.mass, p.square()) for name, p in parts.items()}
        total = torch.stack([*squares.values()]).sum(0).clamp_min(torch.finfo(torch.float64).tiny)
    energies = {str(name): kind.wrap(square / total) for name, square in squares.items()}
    return Decomposition(energies=energies, **{name: kind.wrap(part) for name, part in found.items()})


@dataclass(frozen=True, eq=False)
class _Split:
    """Writes fields ``(n, d, c)`` as gradients and, with an orientation ``signs`` (n,), as rotated gradients."""

    gradient: LinearMap
    divergence: LinearMap
    signs: torch.Tensor | None
    solver: Poisson

    @classmethod
    def of(cls, calculus: Derivatives, gradient: LinearMap, divergence: LinearMap) -> _Split:
        signs, bundle = None, calculus.bundle
        if bundle.dim == 2:
            with suppress(NotOrientableError):
                signs = torch.from_numpy(bundle._unsorted(calculus.signs)).to(divergence.device)
        gradient, divergence = (m.to(dtype=torch.float64) for m in (gradient, divergence))
        return cls(gradient, divergence, signs, Poisson.of(calculus, divergence.device))

    def _turned(self, field: torch.Tensor) -> torch.Tensor:
        """The field turned by a right angle."""
        assert self.signs is not None
        return self.signs[:, None, None] * torch.stack([-field[:, 1], field[:, 0]], dim=1)

    def __call__(self, field: torch.Tensor, tol: float) -> dict[str, torch.Tensor]:
        """The attributes of a ``Decomposition`` but its energies."""
        sources = self._sources(field)
        potentials = self._solve(sources, tol)
        rest = field - self._images(potentials).sum(0)
        potentials = potentials + self._solve(self._sources(rest), tol)  # what the fits had smoothed away
        images = self._images(potentials)
        *parts, rest = self._orthogonal(torch.cat([images, (field - images.sum(0))[None]]))
        names = ("divergence", "potential", "gradient"), ("vorticity", "stream", "rotational")
        found = {"remainder": rest}
        for of_one, *values in zip(names, sources, potentials, parts, strict=False):
            found |= zip(of_one, values, strict=True)
        return found

    def _sources(self, field: torch.Tensor) -> torch.Tensor:
        """Divergence and, on oriented surfaces, vorticity, ``(k, n, 1, c)``."""
        fields = [field] if self.signs is None else [field, -self._turned(field)]
        return torch.stack([self.divergence.apply(f) for f in fields])

    def _solve(self, sources: torch.Tensor, tol: float) -> torch.Tensor:
        """The potentials of the sources, of the same shape."""
        order, (k, n, _, c) = self.gradient.order, sources.shape
        along = self.solver.solve(sources[:, :, 0].movedim(0, 1).reshape(n, k * c).index_select(0, order), tol)
        return torch.empty_like(along).index_copy_(0, order, along).reshape(n, k, 1, c).movedim(1, 0)

    def _images(self, potentials: torch.Tensor) -> torch.Tensor:
        """The gradient of the first potential and the turned one of the second, ``(k, n, d, c)``."""
        first, *second = (self.gradient.apply(potential) for potential in potentials)
        return torch.stack([first, *map(self._turned, second)])

    def _orthogonal(self, parts: torch.Tensor) -> torch.Tensor:
        """The parts ``(k, n, d, c)`` after the least change that makes them orthogonal and leaves their sum."""
        values, vectors = torch.linalg.eigh(torch.einsum("n,kndc,lndc->ckl", self.gradient.mass, parts, parts))
        roots = torch.where(values > DEPENDENT * values[:, -1:], values, 0.0).sqrt()[:, None]
        root, inverse = ((vectors * r) @ vectors.mT for r in (roots, torch.where(roots > 0, 1 / roots, 0.0)))
        return torch.einsum("ckl,cl,kndc->lndc", inverse, root.sum(dim=2), parts)
