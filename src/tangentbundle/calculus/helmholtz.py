r"""The Helmholtz-Hodge decomposition of vector fields:
:math:`v = \nabla a + \operatorname{rot} b + r`."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu

from ..arrays import Array, finite, outside_functional_transform, positive
from ..errors import (
    AccuracyWarning,
    BoundaryError,
    ConvergenceError,
    NotOrientableError,
    RankDeficientError,
    warn,
)
from ..operators.base import fold, unfold
from ..parallel import threads_by_size
from .curvature import fit_surface
from .derivatives import Derivatives, to_tensor
from .fit import Piece, default_neighbors, join_fits, local_fits, monomials
from .topology import has_boundary

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MAX_EXCESS = 1.5
"""Energy of the parts over that of the field above which there is a warning; errors are then 20 to
90 %."""

MAX_VALUES = 2**20
"""Points times fields that are decomposed at a time: the solver stores some eighty vectors of this
size."""

DEPENDENT = 1e-13
"""Relative size of squared lengths below which parts are rounding errors."""

NEIGHBORS_PER_COEFFICIENT = 6
"""Least number for second derivatives: with fewer, the operator has eigenvalues of both signs."""

PIECE = 15
"""Points of a piece of the coarse problem: of consecutive ones along the curve, those of one
component."""

RELAXATION = 0.7
"""Factor of a step of relaxation; more than about 0.8 amplifies what varies from point to point."""

MAX_STEPS, MAX_DIRECTIONS = 500, 20
"""Steps of the solver, of which 20 to 40 are usual, and earlier directions that a new one is made
orthogonal to."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The parts of a field, of the kind and shape of the field, ``(..., n, d, c)``; they are
    pairwise orthogonal.

    Attributes: ``gradient`` = grad ``potential``; ``rotational`` = rot ``stream``; ``remainder``,
    all the rest. It has the harmonic part, of which there is none on a sphere, and what potentials
    on these points do not resolve, such as noise. On spaces that are no oriented surfaces
    ``rotational``, ``stream`` and ``vorticity`` are None, and the remainder is the part without
    divergence. Potentials ``(..., n, 1, c)`` have mean zero on each component of the graph.
    ``divergence`` and ``vorticity`` are those of the field. ``energies`` are the shares of the
    squared mass norm by part, ``(..., c)``: they sum to one.
    """

    gradient: Array
    remainder: Array
    potential: Array
    divergence: Array
    energies: dict[str, Array]
    rotational: Array | None = None
    stream: Array | None = None
    vorticity: Array | None = None


@threads_by_size
def helmholtz(
    bundle: TangentBundle, field: Array, *, degree: int | None = None, tol: float = 1e-7
) -> Decomposition:
    r"""Split fields ``(..., n, d, c)`` into a gradient, a rotated gradient and a remainder.

    The potentials solve :math:`\Delta a = \operatorname{div} v` and
    :math:`\Delta b = \operatorname{curl} v`, on each component of the graph by itself. What the
    remainder still has of both is added once. The parts are made orthogonal by the least change
    that leaves their sum, which vanishes with the distance of the points. Leading axes and
    channels, such as time steps, are decomposed one by one. The manifold must be closed. The solver
    runs on the device of the field; assembly and a coarse problem on the CPU.

    Args:
        degree: of the polynomials of ``Derivatives``.
        tol: relative residual of the solutions.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    >>> bundle = tb.TangentBundle.from_points(points)
    >>> field = bundle.to_coordinates(np.cross([0, 0, 1], points))  # a rotation about the z axis
    >>> {
    ...     part: round(float(share[0]), 3)
    ...     for part, share in tb.helmholtz(bundle, field).energies.items()
    ... }
    {'gradient': 0.0, 'rotational': 1.0, 'remainder': 0.0}
    """
    if isinstance(field, torch.Tensor):
        outside_functional_transform(field, "field")
    if has_boundary(bundle):
        raise BoundaryError(
            "the decomposition is made for closed manifolds, and these points end at a boundary, "
            "where potentials would need a condition. Give data that cover the complete manifold."
        )
    calculus, signs = Derivatives(bundle, degree=degree), None
    gradient, divergence = calculus.gradient(), calculus.divergence()
    x, kind = divergence.check(field, "field")
    finite(x, "field")
    if bundle.dim == 2:
        with suppress(NotOrientableError):
            signs = torch.from_numpy(calculus.signs)[:, None, None].to(x.device)
    order, channels = divergence.curve_order, max(1, MAX_VALUES // bundle.num_points)
    calculus = replace(calculus)  # without its fit, which takes memory
    split = _Split(
        gradient.matrix.double(), divergence.matrix.double(), signs, Poisson(calculus, x.device)
    )
    chunks = [
        split(part, positive(tol, "tol"))
        for part in fold(x.detach()).double()[order].split(channels, dim=2)
    ]
    places, found = torch.argsort(order), {}
    for name in chunks[0]:
        part = torch.cat([chunk[name] for chunk in chunks], dim=2)[places]
        found[name] = unfold(part, torch.Size((*x.shape[:-2], part.shape[1], x.shape[-1])))
    parts = [name for name in ("gradient", "rotational", "remainder") if name in found]
    squares = [
        torch.einsum("n,...ndc->...c", divergence.mass.double(), found[name].square())
        for name in parts
    ]
    total = torch.stack(squares).sum(0).clamp_min(torch.finfo(torch.float64).tiny)
    energies = {
        str(name): kind.wrap(square / total) for name, square in zip(parts, squares, strict=True)
    }
    return Decomposition(
        energies=energies, **{name: kind.wrap(part) for name, part in found.items()}
    )


@dataclass(frozen=True, eq=False)
class _Split:
    """Writes fields ``(n, d, c)`` along the curve as gradients and, on oriented surfaces, as
    rotated gradients.

    ``gradient`` and ``divergence`` are sparse matrices, ``signs`` (n, 1, 1) the orientation of the
    frames, if any.
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
            potentials = potentials + self.solver.solve(
                self._sources(rest).flatten(1), tol
            ).view_as(sources)
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
        """The parts ``(k, n, d, c)`` after the least change that makes them orthogonal and leaves
        their sum."""
        products = torch.einsum("n,kndc,lndc->ckl", self.solver.mass, parts, parts)
        energies, total = (
            products.diagonal(dim1=1, dim2=2).sum(1),
            products.sum(dim=(1, 2)),
        )  # equal if orthogonal
        coarse = energies > MAX_EXCESS * total
        if bool(coarse.any()):
            excess = float((energies / total)[coarse].max())
            warn(
                f"the parts of a field have {excess:.3g} times its energy before they are made "
                "orthogonal; exact ones have once. The points are too few for the field, or for "
                "the curvature of their surface: parts and potentials are off by a fifth of the "
                "field or more. Use more points, or denoise the field first.",
                AccuracyWarning,
            )
        values, vectors = torch.linalg.eigh(products)
        roots = torch.where(values > DEPENDENT * values[:, -1:], values, 0.0).sqrt()[:, None]
        root, inverse = (
            (vectors * r) @ vectors.mT for r in (roots, torch.where(roots > 0, 1 / roots, 0.0))
        )
        return torch.einsum("ckl,cl,kndc->lndc", inverse, root.sum(dim=2), parts)


def laplace_beltrami(bundle: TangentBundle, degree: int) -> sparse.csr_array:
    r"""The Laplacian of functions by a local fit of polynomials of a degree, ``(n, n)`` along the
    curve.

    It is :math:`g^{ab} (\partial_{ab} f - \Gamma^c_{ab} \partial_c f)`. Unlike an average over
    neighbours it is accurate at each point, so that solutions of its equations have accurate
    gradients; it is not symmetric.
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
        return piece._replace(weights=piece.weights @ factors[:, :, None])

    fit = join_fits(
        map(combined, local_fits(bundle, degree, neighbors, keep=count)), bundle.num_points
    )
    return fit.matrix(fit.weights[:, :, None])


class Poisson:
    """Solves for functions ``(n, c)`` along the curve, in float64, on each component of the graph
    by itself.

    By the method of generalised conjugate residuals with a two-level preconditioner: relaxation at
    each point, and a coarse problem, factorised once, whose unknowns are constants on pieces of the
    space-filling curve. These are smoothed by one relaxation (smoothed aggregation): ``spread`` is
    (n, unknowns), ``gather`` sums over pieces. ``labels`` (n,) number the components, whose masses
    are ``totals``. Bundle and degree are those of ``calculus``.
    """

    def __init__(self, calculus: Derivatives, device: torch.device) -> None:
        matrix, mass = laplace_beltrami(calculus.bundle, calculus.degree or 2), calculus.mass
        labels = calculus.bundle.sorted_graph.components()
        n = len(labels)
        sizes = abs(matrix).sum(axis=1)  # twice the diagonal if all other entries are positive
        if few := int((sizes == 0).sum()):
            raise RankDeficientError(
                f"the neighbours of {few} of {n} points do not determine second derivatives, "
                "which a decomposition needs. Use more points."
            )
        step = -2 * RELAXATION / sizes
        pieces = (
            np.unique(labels * n + np.arange(n) // PIECE, return_inverse=True)[1]
            .reshape(-1)
            .astype(np.int32)
        )
        starts, shape = np.arange(n + 1, dtype=np.int32), (n, int(pieces.max()) + 1)
        spread = sparse.csr_array((np.ones(n), pieces, starts), shape=shape)
        gather = sparse.csr_array((mass, pieces, starts), shape=shape).T.tocsr()
        spread = sparse.csr_array(spread - sparse.diags_array(step) @ (matrix @ spread))
        coarse = ((gather @ matrix) @ spread).tocsc()
        coarse -= sparse.diags_array(
            1e-10 * np.abs(coarse.diagonal())
        ).tocsc()  # constants are in the kernel
        self.coarse = splu(
            coarse, "MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options={"SymmetricMode": True}
        )
        arrays = step[:, None], mass, labels, np.bincount(labels, mass)
        self.step, self.mass, self.labels, self.totals = (
            torch.from_numpy(a).to(device) for a in arrays
        )
        self.matrix, self.spread, self.gather = (
            to_tensor(a, self.step) for a in (matrix, spread, gather)
        )

    def centred(self, x: torch.Tensor) -> torch.Tensor:
        """A function ``(n, c)`` less its mean over each component."""
        sums = x.new_zeros((len(self.totals), x.shape[1])).index_add_(
            0, self.labels, self.mass[:, None] * x
        )
        return x - (sums / self.totals[:, None])[self.labels]

    def _precondition(self, r: torch.Tensor) -> torch.Tensor:
        z = self.step * r
        rest = self.gather @ (r - self.matrix @ z)
        z += self.spread @ torch.from_numpy(self.coarse.solve(rest.cpu().numpy())).to(r)
        return self.centred(z + self.step * (r - self.matrix @ z))

    def solve(self, source: torch.Tensor, tol: float) -> torch.Tensor:
        r"""The functions a ``(n, c)`` of mean zero with :math:`\Delta a = s`, up to a constant on
        each component."""
        r = self.centred(source)
        goal, x = tol * torch.linalg.vector_norm(r, dim=0), torch.zeros_like(r)
        directions: deque[tuple[torch.Tensor, torch.Tensor]] = deque(maxlen=MAX_DIRECTIONS)
        for _ in range(MAX_STEPS):
            if bool((torch.linalg.vector_norm(r, dim=0) <= goal).all()):
                return self.centred(x)
            z = self._precondition(r)
            image = self.centred(self.matrix @ z)
            for other, other_image in directions:
                overlap = (other_image * image).sum(0)
                z -= overlap * other
                image -= overlap * other_image
            length = torch.linalg.vector_norm(image, dim=0)
            scale = torch.where(length > 0, 1 / length, 0.0)
            directions.append((z.mul_(scale), image.mul_(scale)))
            share = (image * r).sum(0)
            x += share * z
            r = r - share * image
        raise ConvergenceError(
            f"the solver did not reach a relative residual of {tol:g} in {MAX_STEPS} steps. The "
            "points may be too few for the curvature of their surface, or end at a boundary: give "
            "more of them, or loosen tol."
        )
