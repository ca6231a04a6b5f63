r"""The equation :math:`\Delta a = s` for functions on scattered points.

The Laplacian is that of the local fit, :math:`g^{ab} (\partial_{ab} f - \Gamma^c_{ab} \partial_c f)`. Unlike an average
over neighbours it is accurate at each point, so that its solutions have accurate gradients; it is not symmetric. The
solver is BiCGStab with a two-level preconditioner: relaxation at each point, and a coarse problem whose unknowns are
constants on pieces of the space-filling curve, factorised once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from ..errors import ConvergenceError
from .curvature import fit_surface
from .fit import default_neighbors, local_fit, monomials
from .maps import to_tensor

if TYPE_CHECKING:
    from ..bundle import TangentBundle

NEIGHBORS_PER_COEFFICIENT = 6
"""Least number for second derivatives: with fewer, the operator has eigenvalues of both signs."""

PIECE = 15
"""Points of a piece of the coarse problem: of consecutive ones along the curve, those of one component."""

RELAXATION = 0.7
"""Factor of a step of Jacobi's method."""

RESTART, MAX_CYCLES = 100, 10
"""Steps of BiCGStab between restarts, and the most restarts; one is usual."""


def laplace_beltrami(bundle: TangentBundle, degree: int) -> sparse.csr_array:
    """The Laplacian of functions by a local fit of polynomials of a degree, ``(n, n)`` along the curve."""
    d, pairs = bundle.dim, monomials(bundle.dim, 2)[bundle.dim :]
    count = d + len(pairs)
    neighbors = max(NEIGHBORS_PER_COEFFICIENT * count, default_neighbors(d, degree))
    fit = local_fit(bundle, degree, neighbors, keep=count)
    first, second = fit_surface(bundle, fit)
    inverse = np.linalg.inv(first.transpose(0, 2, 1) @ first)
    contracted = np.einsum("nab,nxab->nx", inverse, second)
    drift = np.einsum("nab,nxb,nx->na", inverse, first, contracted)
    factors = np.concatenate([-drift, 2 * inverse[:, pairs[:, 0], pairs[:, 1]]], axis=1)
    weights = sum(np.repeat(f, fit.graph.degrees) * w for f, w in zip(factors.T, fit.weights.T, strict=True))
    return fit.matrix(weights[:, None, None])


@dataclass(frozen=True, eq=False)
class Poisson:
    """Solves for functions ``(n, c)`` along the curve, in float64, on each component of the graph by itself.

    ``pieces`` (n,) numbers the unknowns of the coarse problem, ``labels`` (n,) the components; ``coarse`` is the
    factorised coarse matrix.
    """

    matrix: torch.Tensor
    diagonal: torch.Tensor
    mass: torch.Tensor
    labels: torch.Tensor
    pieces: torch.Tensor
    coarse: SuperLU

    @classmethod
    def of(cls, bundle: TangentBundle, degree: int, mass: np.ndarray, device: torch.device) -> Poisson:
        """The solver for a bundle and degree of the fit."""
        matrix, labels = laplace_beltrami(bundle, degree), bundle.sorted_graph.components()
        n = len(labels)
        pieces = np.unique(labels * n + np.arange(n) // PIECE, return_inverse=True)[1].reshape(-1)
        spread = sparse.csr_array((np.ones(n), pieces, np.arange(n + 1)), shape=(n, int(pieces.max()) + 1))
        gather = (sparse.diags_array(mass) @ spread).T
        coarse = (gather @ matrix @ spread).tocsc()
        coarse -= sparse.diags_array(1e-10 * np.abs(coarse.diagonal())).tocsc()  # constants are in the kernel
        arrays = matrix.diagonal(), mass, labels, pieces
        diagonal, *others = (torch.from_numpy(a).to(device) for a in arrays)
        return cls(to_tensor(matrix, diagonal), diagonal[:, None], *others, splu(coarse))

    def centred(self, x: torch.Tensor) -> torch.Tensor:
        """A function ``(n, c)`` less its mean over each component."""
        count, ones = int(self.labels.max()) + 1, torch.ones_like(x[:, :1])
        weighted = self.mass[:, None] * torch.cat([x, ones], dim=1)
        sums = x.new_zeros((count, weighted.shape[1])).index_add_(0, self.labels, weighted)
        return x - (sums[:, :-1] / sums[:, -1:])[self.labels]

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
