r"""The Helmholtz-Hodge decomposition of vector fields: :math:`v = \nabla a + \operatorname{rot} b + r`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..arrays import Array, finite, positive
from ..errors import BoundaryError, NotOrientableError
from ..operators.laplacian import fold, unfold
from .derivatives import Derivatives
from .poisson import Poisson
from .topology import has_boundary

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
    x, kind = divergence.check(field, "field")
    finite(x, "field")
    if has_boundary(bundle):
        raise BoundaryError(
            "the decomposition is made for closed manifolds, and these points end at a boundary, where potentials "
            "would need a condition. Use divergence() and curl(), or data that cover the whole manifold."
        )
    signs, degree, mass, order = None, calculus.degree, calculus.mass, divergence.order
    if bundle.dim == 2:
        with suppress(NotOrientableError):
            signs = torch.from_numpy(calculus.signs).to(x.device)[:, None, None]
    del calculus  # its fit takes memory
    split = _Split(
        gradient.matrix.double(), divergence.matrix.double(), signs, Poisson.of(bundle, degree, mass, x.device)
    )
    chunks = [split(part, positive(tol, "tol")) for part in fold(x.detach()).double()[order].split(CHANNELS, dim=2)]
    places, found = torch.argsort(order), {}
    for name in chunks[0]:
        part = torch.cat([chunk[name] for chunk in chunks], dim=2)[places]
        found[name] = unfold(part, torch.Size((*x.shape[:-2], part.shape[1], x.shape[-1])))
    parts = [name for name in ("gradient", "rotational", "remainder") if name in found]
    squares = [torch.einsum("n,...ndc->...c", divergence.mass.double(), found[name].square()) for name in parts]
    total = torch.stack(squares).sum(0).clamp_min(torch.finfo(torch.float64).tiny)
    energies = {name: kind.wrap(square / total) for name, square in zip(parts, squares, strict=True)}
    return Decomposition(energies=energies, **{name: kind.wrap(part) for name, part in found.items()})


@dataclass(frozen=True, eq=False)
class _Split:
    """Writes fields ``(n, d, c)`` along the curve as gradients and, on oriented surfaces, as rotated gradients.

    ``gradient`` and ``divergence`` are sparse matrices, ``signs`` (n, 1, 1) the orientation of the frames, if any.
    """

    gradient: torch.Tensor
    divergence: torch.Tensor
    signs: torch.Tensor | None
    solver: Poisson

    def __call__(self, field: torch.Tensor, tol: float) -> dict[str, torch.Tensor]:
        """The attributes of a ``Decomposition`` but its energies."""
        sources, potentials, rest = self._sources(field), 0.0, field
        for _ in range(2):  # the second time what the fits had smoothed away
            potentials = potentials + self.solver.solve(self._sources(rest).flatten(1), tol).view_as(sources)
            images = self._images(potentials)
            rest = field - sum(images)
        *parts, rest = self._orthogonal(torch.stack([*images, rest]))
        found = {"remainder": rest}
        names = ("divergence", "potential", "gradient"), ("vorticity", "stream", "rotational")
        for k, (of_one, part) in enumerate(zip(names, parts, strict=False)):
            found |= zip(of_one, (sources[:, k, None], potentials[:, k, None], part), strict=True)
        return found

    def _turned(self, field: torch.Tensor) -> torch.Tensor:
        """The field turned by a right angle."""
        return self.signs * torch.stack([-field[:, 1], field[:, 0]], dim=1)

    def _sources(self, field: torch.Tensor) -> torch.Tensor:
        """Divergence and, on oriented surfaces, vorticity, ``(n, k, c)``."""
        fields = [field] if self.signs is None else [field, -self._turned(field)]
        return torch.stack([self.divergence @ f.flatten(0, 1) for f in fields], dim=1)

    def _images(self, potentials: torch.Tensor) -> list[torch.Tensor]:
        """The gradient of the first potential and the turned one of the second, ``(n, d, c)``."""
        images = [(self.gradient @ p).unflatten(0, (len(p), -1)) for p in potentials.unbind(1)]
        return [images[0], *map(self._turned, images[1:])]

    def _orthogonal(self, parts: torch.Tensor) -> torch.Tensor:
        """The parts ``(k, n, d, c)`` after the least change that makes them orthogonal and leaves their sum."""
        values, vectors = torch.linalg.eigh(torch.einsum("n,kndc,lndc->ckl", self.solver.mass, parts, parts))
        roots = torch.where(values > DEPENDENT * values[:, -1:], values, 0.0).sqrt()[:, None]
        root, inverse = ((vectors * r) @ vectors.mT for r in (roots, torch.where(roots > 0, 1 / roots, 0.0)))
        return torch.einsum("ckl,cl,kndc->lndc", inverse, root.sum(dim=2), parts)
