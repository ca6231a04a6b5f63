r"""The Helmholtz-Hodge decomposition of vector fields: :math:`v = \nabla a + \operatorname{rot} b + r`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from ..arrays import Array, finite, positive
from ..errors import BoundaryError, ConvergenceError, NotOrientableError
from ..operators.laplacian import fold, unfold
from .curvature import fit_surface
from .derivatives import Derivatives
from .fit import Piece, default_neighbors, join_fits, local_fits, monomials
from .maps import to_tensor
from .topology import has_boundary

if TYPE_CHECKING:
    from ..bundle import TangentBundle

CHANNELS = 16
"""Fields that are decomposed at a time."""

DEPENDENT = 1e-13
"""Relative size of squared lengths below which parts are rounding errors."""

NEIGHBORS_PER_COEFFICIENT = 6
"""Least number for second derivatives: with fewer, the operator has eigenvalues of both signs."""

PIECE = 15
"""Points of a piece of the coarse problem: of consecutive ones along the curve, those of one component."""

RELAXATION = 0.7
"""Factor of a step of Jacobi's method."""

RESTART, MAX_CYCLES = 100, 10
"""Steps of BiCGStab between restarts, and the most restarts; one is usual."""


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
            "would need a condition. Use divergence() and curl(), or data that cover the complete manifold."
        )
    signs, order = None, divergence.order
    if bundle.dim == 2:
        with suppress(NotOrientableError):
            signs = torch.from_numpy(calculus.signs).to(x.device)[:, None, None]
    calculus = replace(calculus)  # without its fit, which takes memory
    split = _Split(gradient.matrix.double(), divergence.matrix.double(), signs, Poisson.of(calculus, x.device))
    chunks = [split(part, positive(tol, "tol")) for part in fold(x.detach()).double()[order].split(CHANNELS, dim=2)]
    places, found = torch.argsort(order), {}
    for name in chunks[0]:
        part = torch.cat([chunk[name] for chunk in chunks], dim=2)[places]
        found[name] = unfold(part, torch.Size((*x.shape[:-2], part.shape[1], x.shape[-1])))
    parts = [name for name in ("gradient", "rotational", "remainder") if name in found]
    squares = [torch.einsum("n,...ndc->...c", divergence.mass.double(), found[name].square()) for name in parts]
    total = torch.stack(squares).sum(0).clamp_min(torch.finfo(torch.float64).tiny)
    energies = {str(name): kind.wrap(square / total) for name, square in zip(parts, squares, strict=True)}
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
        sources, rest = self._sources(field), field
        potentials = torch.zeros_like(sources)
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
        assert self.signs is not None
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


def laplace_beltrami(bundle: TangentBundle, degree: int) -> sparse.csr_array:
    r"""The Laplacian of functions by a local fit of polynomials of a degree, ``(n, n)`` along the curve.

    It is :math:`g^{ab} (\partial_{ab} f - \Gamma^c_{ab} \partial_c f)`. Unlike an average over neighbours it is
    accurate at each point, so that solutions of its equations have accurate gradients; it is not symmetric.
    """
    d, pairs = bundle.dim, monomials(bundle.dim, 2)[bundle.dim :]
    count = d + len(pairs)
    neighbors = max(NEIGHBORS_PER_COEFFICIENT * count, default_neighbors(d, degree))

    def combined(piece: Piece) -> Piece:
        first, second = fit_surface(bundle, piece)
        inverse = np.linalg.inv(first.transpose(0, 2, 1) @ first)
        contracted = np.einsum("nab,nxab->nx", inverse, second)
        drift = np.einsum("nab,nxb,nx->na", inverse, first, contracted)
        factors = np.concatenate([-drift, 2 * inverse[:, pairs[:, 0], pairs[:, 1]]], axis=1)
        return *piece[:2], piece[2] @ factors[:, :, None]

    fit = join_fits(map(combined, local_fits(bundle, degree, neighbors, keep=count)), bundle.num_points)
    return fit.matrix(fit.weights[:, :, None])


@dataclass(frozen=True, eq=False)
class Poisson:
    """Solves for functions ``(n, c)`` along the curve, in float64, on each component of the graph by itself.

    By BiCGStab with a two-level preconditioner: relaxation at each point, and a coarse problem whose unknowns are
    constants on ``pieces`` (n,) of the space-filling curve, factorised once. ``labels`` (n,) number the components,
    whose masses are ``totals``.
    """

    coarse: SuperLU
    matrix: torch.Tensor
    diagonal: torch.Tensor
    mass: torch.Tensor
    labels: torch.Tensor
    pieces: torch.Tensor
    totals: torch.Tensor

    @classmethod
    def of(cls, calculus: Derivatives, device: torch.device) -> Poisson:
        """The solver for the bundle and the degree of the fit of some derivatives."""
        matrix, mass = laplace_beltrami(calculus.bundle, calculus.degree or 2), calculus.mass
        labels = calculus.bundle.sorted_graph.components()
        n = len(labels)
        pieces = np.unique(labels * n + np.arange(n) // PIECE, return_inverse=True)[1].reshape(-1)
        spread = sparse.csr_array((np.ones(n), pieces, np.arange(n + 1)), shape=(n, int(pieces.max()) + 1))
        gather = (sparse.diags_array(mass) @ spread).T
        coarse = (gather @ matrix @ spread).tocsc()
        coarse -= sparse.diags_array(1e-10 * np.abs(coarse.diagonal())).tocsc()  # constants are in the kernel
        arrays = matrix.diagonal()[:, None], mass, labels, pieces, np.bincount(labels, mass)
        diagonal, *others = (torch.from_numpy(a).to(device) for a in arrays)
        return cls(splu(coarse), to_tensor(matrix, diagonal), diagonal, *others)

    def centred(self, x: torch.Tensor) -> torch.Tensor:
        """A function ``(n, c)`` less its mean over each component."""
        sums = x.new_zeros((len(self.totals), x.shape[1])).index_add_(0, self.labels, self.mass[:, None] * x)
        return x - (sums / self.totals[:, None])[self.labels]

    def _precondition(self, r: torch.Tensor) -> torch.Tensor:
        z = RELAXATION * r / self.diagonal
        rest = self.mass[:, None] * (r - self.matrix @ z)
        sums = r.new_zeros((self.coarse.shape[0], r.shape[1])).index_add_(0, self.pieces, rest)
        z = z + torch.from_numpy(self.coarse.solve(sums.cpu().numpy())).to(r)[self.pieces]
        return self.centred(z + RELAXATION * (r - self.matrix @ z) / self.diagonal)

    def solve(self, source: torch.Tensor, tol: float) -> torch.Tensor:
        r"""The functions a ``(n, c)`` of mean zero with :math:`\Delta a = s`, up to a constant on each component."""
        source = self.centred(source)
        goal, x = tol * torch.linalg.vector_norm(source, dim=0), torch.zeros_like(source)
        for _ in range(MAX_CYCLES):
            r = source - self.centred(self.matrix @ x)
            if bool((torch.linalg.vector_norm(r, dim=0) <= goal).all()):
                return x
            x = x + self._cycle(r, goal)
        raise ConvergenceError(
            f"the solver did not reach a relative residual of {tol:g} in {MAX_CYCLES} cycles of {RESTART} steps. "
            "Loosen tol; if points lie very unevenly, give more of them."
        )

    def _cycle(self, r: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        """Steps of BiCGStab, right preconditioned, for all channels at once; those that reach the goal stand still."""
        shadow, x, p, v = r, torch.zeros_like(r), torch.zeros_like(r), torch.zeros_like(r)
        before = alpha = omega = torch.ones_like(goal)
        for _ in range(RESTART):
            active = torch.linalg.vector_norm(r, dim=0) > 0.5 * goal
            if not bool(active.any()):
                break

            def quotient(a: torch.Tensor, b: torch.Tensor, active: torch.Tensor = active) -> torch.Tensor:
                return torch.where(active & (b != 0), a / b, 0.0)

            rho = (shadow * r).sum(0)
            p = r + quotient(rho * alpha, before * omega) * (p - omega * v)
            y = self._precondition(p)
            v = self.centred(self.matrix @ y)
            alpha, before = quotient(rho, (shadow * v).sum(0)), rho
            s = r - alpha * v
            z = self._precondition(s)
            t = self.centred(self.matrix @ z)
            omega = quotient((t * s).sum(0), (t * t).sum(0))
            x, r = x + alpha * y + omega * z, s - omega * t
        return x
