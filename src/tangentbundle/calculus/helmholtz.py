r"""The Helmholtz-Hodge decomposition of vector fields:
:math:`v = \nabla a + \operatorname{rot} b + r`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu
from torch import Tensor

from ..arrays import Array, finite, host, outside_functional_transform, positive
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
from .boundary import has_boundary
from .curvature import fit_surface
from .derivatives import Derivatives, LinearMap, csr_tensor
from .fit import Piece, default_degree, default_neighbors, join_fits, local_fits, monomials

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

REGULARIZATION = 1e-10
"""Share of its diagonal that is taken from the coarse problem, which is singular."""

MAX_STEPS = 500
"""Steps of the solver, of which 20 to 40 are usual."""

MAX_DIRECTIONS = 20
"""Earlier directions of the solver that a new one is made orthogonal to."""


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
    if isinstance(field, Tensor):
        outside_functional_transform(field, "field")
    if has_boundary(bundle):
        raise BoundaryError(
            "the decomposition is made for closed manifolds, and these points end at a boundary, "
            "where potentials would need a condition. Give data that cover the complete manifold."
        )
    maps = _Maps.of(bundle, degree)
    x, kind = maps.divergence.check(field, "field")
    finite(x, "field")
    tol = positive(tol, "tol")
    solver = Poisson(bundle, degree or default_degree(bundle), x.device)
    split = _Split(maps, solver)
    along_curve = fold(x.detach()).double()[maps.divergence.curve_order]
    channels = max(1, MAX_VALUES // bundle.num_points)
    decomposed = _joined([split(chunk, tol) for chunk in along_curve.split(channels, dim=2)])
    places_on_curve = torch.argsort(maps.divergence.curve_order)

    def in_user_order(values: Tensor) -> Tensor:
        """Values ``(n, r, channels)`` along the curve as ``(..., n, r, c)``, like the field."""
        shape = torch.Size((*x.shape[:-2], values.shape[1], x.shape[-1]))
        return unfold(values[places_on_curve], shape)

    fields = {name: in_user_order(part) for name, part in decomposed.fields().items()}
    potentials = {name: in_user_order(part) for name, part in decomposed.potentials().items()}
    wrapped = {name: kind.wrap(values) for name, values in (fields | potentials).items()}
    energies = _shares_of_energy(fields, maps.divergence.mass.double())
    return Decomposition(
        energies={name: kind.wrap(share) for name, share in energies.items()}, **wrapped
    )


def _shares_of_energy(fields: dict[str, Tensor], mass: Tensor) -> dict[str, Tensor]:
    """The share of each of some fields ``(..., n, d, c)`` in their squared mass norms,
    ``(..., c)``."""
    squares = {
        name: torch.einsum("n,...ndc->...c", mass, field.square()) for name, field in fields.items()
    }
    total = torch.stack(list(squares.values())).sum(0)
    total = total.clamp_min(torch.finfo(torch.float64).tiny)
    return {name: square / total for name, square in squares.items()}


@dataclass(frozen=True, eq=False)
class _Parts:
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


def _joined(chunks: list[_Parts]) -> _Parts:
    """The decomposition of the channels of all chunks, one after the other."""
    return _Parts(
        sources=torch.cat([chunk.sources for chunk in chunks], dim=-1),
        solutions=torch.cat([chunk.solutions for chunk in chunks], dim=-1),
        images=torch.cat([chunk.images for chunk in chunks], dim=-1),
        remainder=torch.cat([chunk.remainder for chunk in chunks], dim=-1),
    )


@dataclass(frozen=True, eq=False)
class _Maps:
    """Gradient and divergence of a bundle, and the orientation ``signs`` (n,) of its frames along
    the curve if it is an oriented surface."""

    gradient: LinearMap
    divergence: LinearMap
    signs: Tensor | None

    @classmethod
    def of(cls, bundle: TangentBundle, degree: int | None) -> _Maps:
        """Those by polynomials of a degree."""
        calculus = Derivatives(bundle, degree=degree)
        signs = None
        if bundle.dim == 2:
            try:
                signs = calculus.signs
            except NotOrientableError:
                signs = None  # a gradient and the rest, then
        return cls(gradient=calculus.gradient(), divergence=calculus.divergence(), signs=signs)


class _Split:
    """Writes fields ``(n, d, c)`` along the curve as gradients and, on oriented surfaces, as
    rotated gradients."""

    def __init__(self, maps: _Maps, solver: Poisson) -> None:
        self.gradient = maps.gradient.matrix.double()
        self.divergence = maps.divergence.matrix.double()
        self.solver = solver
        self.signs: Tensor | None = None
        if maps.signs is not None:
            self.signs = maps.signs[:, None, None].to(self.gradient.device)

    def __call__(self, field: Tensor, tol: float) -> _Parts:
        """The parts of a field, whose potentials are solved for with a relative residual."""
        sources = self._sources(field)
        solutions = torch.zeros_like(sources)
        remainder = field
        for _ in range(2):  # the second time what the fits had smoothed away
            right_sides = self._sources(remainder).flatten(1)
            solutions = solutions + self.solver.solve(right_sides, tol).view_as(sources)
            images = self._images(solutions)
            remainder = field - images.sum(dim=0)
        orthogonal = self._orthogonal(torch.cat([images, remainder[None]]))
        return _Parts(
            sources=sources,
            solutions=solutions,
            images=orthogonal[:-1],
            remainder=orthogonal[-1],
        )

    def _turned(self, field: Tensor) -> Tensor:
        """The field turned by a right angle."""
        assert self.signs is not None, "only fields on oriented surfaces are turned"
        return self.signs * torch.stack([-field[:, 1], field[:, 0]], dim=1)

    def _sources(self, field: Tensor) -> Tensor:
        """Divergence and, on oriented surfaces, vorticity, ``(n, k, c)``."""
        sources = [self.divergence @ field.flatten(0, 1)]
        if self.signs is not None:
            sources.append(self.divergence @ -self._turned(field).flatten(0, 1))
        return torch.stack(sources, dim=1)

    def _images(self, potentials: Tensor) -> Tensor:
        """The gradient of the first potential and the turned one of the second,
        ``(k, n, d, c)``."""
        n = len(potentials)
        images = [(self.gradient @ potentials[:, 0]).unflatten(0, (n, -1))]
        if self.signs is not None:
            gradient = (self.gradient @ potentials[:, 1]).unflatten(0, (n, -1))
            images.append(self._turned(gradient))
        return torch.stack(images)

    def _orthogonal(self, fields: Tensor) -> Tensor:
        r"""Fields ``(k, n, d, c)`` after the least change that makes them orthogonal and leaves
        their sum.

        With the matrix G of their inner products, these are :math:`v_l = \sum_k (G^{-1/2})_{kl}\,
        (G^{1/2} 1)_l\, v_k`.
        """
        products = torch.einsum("n,kndc,lndc->ckl", self.solver.mass, fields, fields)
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


def laplace_beltrami(bundle: TangentBundle, degree: int) -> sparse.csr_array:
    r"""The Laplacian of functions by a local fit of polynomials of a degree, ``(n, n)`` along the
    curve.

    It is :math:`g^{ab} (\partial_{ab} f - \Gamma^c_{ab} \partial_c f)`. Unlike an average over
    neighbours it is accurate at each point, so that solutions of its equations have accurate
    gradients; it is not symmetric.
    """
    fit = join_fits(_laplacians_of_pieces(bundle, degree), bundle.num_points)
    return fit.matrix(fit.weights[:, :, None])


def _laplacians_of_pieces(bundle: TangentBundle, degree: int) -> Iterator[Piece]:
    """Fits whose only weights are those of the Laplacian, ``(m, k, 1)``."""
    d = bundle.dim
    count = len(monomials(d, 2))
    neighbors = max(NEIGHBORS_PER_COEFFICIENT * count, default_neighbors(d, degree))
    points = bundle.cloud.points.cpu()
    for piece in local_fits(bundle, degree, neighbors, keep=count):
        first, second = fit_surface(points, piece, d)
        factors = _laplacian_of_coefficients(first, second)
        yield Piece(
            rows=piece.rows,
            lists=piece.lists,
            weights=piece.weights @ factors[:, :, None],
            degree=piece.degree,
        )


def _laplacian_of_coefficients(first: Tensor, second: Tensor) -> Tensor:
    """Factors ``(m, q)`` of the coefficients of a function in its Laplacian, where the surface has
    derivatives ``first`` (m, D, d) and ``second`` (m, D, d, d)."""
    d = first.shape[2]
    inverse_metric = torch.linalg.inv(first.mT @ first)
    contracted = torch.einsum("nab,nxab->nx", inverse_metric, second)
    drift = torch.einsum("nab,nxb,nx->na", inverse_metric, first, contracted)
    pairs = torch.triu_indices(d, d)
    return torch.cat([-drift, 2 * inverse_metric[:, pairs[0], pairs[1]]], dim=1)


class Poisson:
    """Solves for functions ``(n, c)`` along the curve, in float64, on each component of the graph
    by itself.

    By the method of generalised conjugate residuals with a two-level preconditioner: relaxation at
    each point, and a coarse problem, factorised once, whose unknowns are constants on pieces of the
    space-filling curve. These are smoothed by one relaxation (smoothed aggregation): ``spread`` is
    (n, unknowns), ``gather`` sums over pieces. ``labels`` (n,) number the components, whose masses
    are ``totals``. ``degree`` is that of the polynomials.
    """

    def __init__(self, bundle: TangentBundle, degree: int, device: torch.device) -> None:
        matrix = laplace_beltrami(bundle, degree)
        masses = host(bundle.sorted_masses())
        mass = masses / masses.sum()
        labels = host(bundle.sorted_graph.components)
        n = len(labels)
        step = _relaxation_step(matrix)
        pieces = _numbers_of_pieces(labels)
        row_ends = np.arange(n + 1, dtype=np.int32)
        shape = (n, int(pieces.max()) + 1)
        constants = sparse.csr_array((np.ones(n), pieces, row_ends), shape=shape)
        gather = sparse.csr_array((mass, pieces, row_ends), shape=shape).T.tocsr()
        spread = sparse.csr_array(constants - sparse.diags_array(step) @ (matrix @ constants))
        self.coarse = _factorized(((gather @ matrix) @ spread).tocsc())
        self.step = torch.from_numpy(step[:, None]).to(device)
        self.mass = torch.from_numpy(mass).to(device)
        self.labels = torch.from_numpy(labels).to(device)
        self.totals = torch.from_numpy(np.bincount(labels, mass)).to(device)
        self.matrix = csr_tensor(matrix, self.step)
        self.spread = csr_tensor(spread, self.step)
        self.gather = csr_tensor(gather, self.step)

    def centred(self, x: Tensor) -> Tensor:
        """A function ``(n, c)`` less its mean over each component."""
        sums = x.new_zeros((len(self.totals), x.shape[1]))
        sums.index_add_(0, self.labels, self.mass[:, None] * x)
        means = sums / self.totals[:, None]
        return x - means[self.labels]

    def _precondition(self, residual: Tensor) -> Tensor:
        """An approximate solution for a residual: relaxation, the coarse problem, relaxation."""
        x = self.step * residual
        coarse_residual = self.gather @ (residual - self.matrix @ x)
        coarse_solution = torch.from_numpy(self.coarse.solve(coarse_residual.cpu().numpy()))
        x += self.spread @ coarse_solution.to(residual)
        return self.centred(x + self.step * (residual - self.matrix @ x))

    def solve(self, source: Tensor, tol: float) -> Tensor:
        r"""The functions a ``(n, c)`` of mean zero with :math:`\Delta a = s`, up to a constant on
        each component."""
        residual = self.centred(source)
        max_norm = tol * torch.linalg.vector_norm(residual, dim=0)
        x = torch.zeros_like(residual)
        directions: deque[tuple[Tensor, Tensor]] = deque(maxlen=MAX_DIRECTIONS)
        for _ in range(MAX_STEPS):
            if bool((torch.linalg.vector_norm(residual, dim=0) <= max_norm).all()):
                return self.centred(x)
            direction = self._precondition(residual)
            image = self.centred(self.matrix @ direction)
            for earlier, earlier_image in directions:
                overlap = (earlier_image * image).sum(0)
                direction -= overlap * earlier
                image -= overlap * earlier_image
            length = torch.linalg.vector_norm(image, dim=0)
            scale = torch.where(length > 0, 1 / length, 0.0)
            direction *= scale
            image *= scale
            directions.append((direction, image))
            share = (image * residual).sum(0)
            x += share * direction
            residual = residual - share * image
        raise ConvergenceError(
            f"the solver did not reach a relative residual of {tol:g} in {MAX_STEPS} steps. The "
            "points may be too few for the curvature of their surface, or end at a boundary: give "
            "more of them, or loosen tol."
        )


def _relaxation_step(matrix: sparse.csr_array) -> np.ndarray:
    """What a residual is multiplied by in a step of relaxation, at each point ``(n,)``."""
    sizes = abs(matrix).sum(axis=1)  # twice the diagonal if all other entries are positive
    num_empty = int((sizes == 0).sum())
    if num_empty:
        raise RankDeficientError(
            f"the neighbours of {num_empty} of {len(sizes)} points do not determine second "
            "derivatives, which a decomposition needs. Use more points."
        )
    return -2 * RELAXATION / sizes


def _numbers_of_pieces(labels: np.ndarray) -> np.ndarray:
    """The number of the piece of the coarse problem that each point belongs to, ``(n,)`` int32,
    from those of its component."""
    n = len(labels)
    codes = labels * n + np.arange(n) // PIECE
    _, numbers = np.unique(codes, return_inverse=True)
    return numbers.reshape(-1).astype(np.int32)


def _factorized(coarse: sparse.csc_array) -> Any:
    """The factors of the coarse problem; constants, which are in its kernel, are made regular."""
    regular = coarse - sparse.diags_array(REGULARIZATION * np.abs(coarse.diagonal()))
    return splu(
        regular.tocsc(), "MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options={"SymmetricMode": True}
    )
