"""The Helmholtz-Hodge decomposition on clouds of closed manifolds, from polynomials fitted around
each point."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu
from torch import Tensor

from ..arrays import host
from ..errors import ConvergenceError, RankDeficientError
from .curvature import fit_surface
from .derivatives import csr_tensor
from .fit import Piece, default_neighbors, join_fits, local_fits, monomials
from .parts import FieldMaps, Split

if TYPE_CHECKING:
    from ..bundle import TangentBundle

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


class ClosedCloudSplit(Split):
    """Potentials solve Poisson problems at the points."""

    def __init__(self, maps: FieldMaps, solver: Poisson) -> None:
        self.maps = maps
        self.solver = solver
        self.mass = solver.mass

    def step(self, field: Tensor, tol: float) -> tuple[Tensor, Tensor]:
        sources = self.maps.sources(field)
        solutions = self.solver.solve(sources.flatten(1), tol).view_as(sources)
        return solutions, self.maps.images(solutions)


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
