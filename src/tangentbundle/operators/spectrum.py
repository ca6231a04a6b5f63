"""Eigenpairs and spectral bounds of a Laplacian, without a dense matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu

from ..errors import ConvergenceError
from ..memory import device_memory, require_memory
from .lanczos import BOUND_MARGIN, ritz_values
from .methods import MAX_DENSE_SIZE
from .product import recurrence, sort_rows, step

if TYPE_CHECKING:
    from .laplacian import Laplacian

DENSE_SIZE = 600
"""Up to this many rows a dense eigensolver is faster and certain."""

GROWTH = 14.0
"""Logarithm of the greatest amplification of one filter: more would cost digits."""

MIN_FILTER_DEGREE = 8
"""Least degree of one filter: fewer products are not worth the orthogonalisation that follows."""

MAX_FILTER_DEGREE = 160
"""Largest degree of one filter: eigenvalues close to the cut are better separated in rounds."""

MAX_FACTORIZED_EDGES = 7.5
"""Stored edges a point up to which an operator is factorized. Meshes have 7 (by Euler's formula),
and small triangles, which products resolve slowly; factors of denser graphs are large."""

MAX_ASYMMETRY = 1e-12
"""Asymmetry of P that rounding in float64 leaves; that of P rounded in float32 is some 1e-8."""

ASYMMETRY_PROBES = 4
"""Pairs of random fields that show an asymmetry: one pair alone may hide it by chance."""

MAX_FILTERS = 200
"""Filters before the eigensolver gives up."""

MIN_TOLERANCE = 1e-13
"""Least residual that is asked of an eigenpair: rounding leaves about this much."""

WEIGHT_ROUNDING = 8.0
"""Rounding of the largest eigenvalue of an average, in units of the precision of its weights: that
of the weights, the masses and the transport maps, and a margin."""


@torch.no_grad()
def lowest_eigenpairs(
    laplacian: Laplacian, k: int, *, tol: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Eigenvalues of :math:`-\Delta` ascending, and mass-orthonormal fields ``(n, d, k)``;
    residuals below tol.

    Those of an average are not negative: what is below zero by no more than the residual or
    rounding is zero. Hodge Laplacians can have negative eigenvalues, where the points do not
    resolve the curvature.
    """
    size = laplacian.shape[0]
    if size <= max(DENSE_SIZE, min(3 * k, MAX_DENSE_SIZE)):
        _require_rows(size, size, k, laplacian.device)
        values, fields = laplacian.to(dtype=torch.float64).signed_eigenpairs()
        rounding = size * torch.finfo(laplacian.dtype).eps * float(values.abs().max())
        return _without_rounding(values[:k], rounding), fields[..., :k].contiguous()
    _require_rows(size, _width(size, k), k, laplacian.device)
    rounding = max(tol, MIN_TOLERANCE, WEIGHT_ROUNDING * torch.finfo(laplacian.dtype).eps)
    laplacian = in_double_precision(laplacian)
    if laplacian.num_edges <= MAX_FACTORIZED_EDGES * laplacian.num_points:
        deficits, fields = _lowest_by_factorization(laplacian, k, tol=tol, seed=seed)
    else:
        deficits, fields = _lowest_by_products(laplacian, k, tol=tol, seed=seed)
    if laplacian.generator.terms > 1 and float(deficits.min()) < -1.0:
        raise ConvergenceError(
            "expected an average with eigenvalues of at most 2, where those of the operator are in "
            f"the opposite order, got {1.0 - float(deficits.min()):.3g}: neighbourhoods are larger "
            "than the radius of negative curvature. Use more points, denoise them, or give ricci."
        )
    return laplacian.generator(_without_rounding(deficits, rounding)), fields


def _lowest_by_factorization(
    laplacian: Laplacian, k: int, *, tol: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The least eigenvalues of I - P and their fields, with a factorization of the matrix."""
    inverse = Inverse(laplacian)
    values, fields = _filtered_subspace(
        inverse, inverse.root, (0.0, 1.0), laplacian.rank, k, tol=tol, seed=seed
    )
    deficits = inverse.shift * (1.0 / values - 1.0)
    return deficits.to(laplacian.device), fields.to(laplacian.device)


def _lowest_by_products(
    laplacian: Laplacian, k: int, *, tol: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The least eigenvalues of I - P and their fields, with products alone."""
    order = laplacian.stored.curve_order
    matrix = laplacian.stored.along_curve()
    root = laplacian.mass.index_select(0, order).sqrt()[:, None, None]
    interval = interval_of_average(laplacian)
    values, fields = _filtered_subspace(
        matrix, root, interval, laplacian.rank, k, tol=tol, seed=seed
    )
    return 1.0 - values, sort_rows(fields, order, back=True)


def _without_rounding(values: torch.Tensor, rounding: float) -> torch.Tensor:
    """Zero for negative values within ``rounding``."""
    return torch.where((values < 0.0) & (values >= -rounding), 0.0, values)


class Inverse:
    r"""The matrix :math:`s (s + I - P)^{-1}` in the user's order, by a sparse factorization on the
    CPU."""

    def __init__(self, laplacian: Laplacian) -> None:
        linear = replace(laplacian.generator, terms=1)
        part = replace(laplacian.to("cpu"), generator=linear)
        rows = part.shape[0]
        self.root = part.mass.sqrt()[:, None, None]
        weights = self.root.flatten().repeat_interleave(part.rank).numpy()
        deficit = (-part.scale * weights[:, None]) * part.to_scipy() / weights
        # about one, in units of one over the area
        self.shift = float(deficit.diagonal() @ weights**2) / rows
        shifted = (deficit + self.shift * sparse.eye_array(rows)).tocsc()
        self.factors = splu(
            shifted,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )


@step.register
def _solve(matrix: Inverse, x, z, out, scalars, sources=None, targets=None) -> None:
    alpha, beta, gamma = scalars
    solved = matrix.factors.solve((x * matrix.root).flatten(0, 1).numpy())
    product = torch.from_numpy(solved).reshape(x.shape) / matrix.root
    torch.add(alpha * matrix.shift * product + beta * x, z, alpha=gamma, out=out)


def _filtered_subspace(
    matrix: Any,
    root: torch.Tensor,
    interval: tuple[float, float],
    d: int,
    k: int,
    *,
    tol: float,
    seed: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The top k eigenpairs of a matrix by Chebyshev-filtered subspace iteration.

    The method is that of Zhou, Saad, Tiago and Chelikowsky (2006). ``root`` (n, 1, 1) holds roots
    of the masses, in the order of the rows; the eigenvalues lie in ``interval``.

    On an oriented surface every eigenvalue is double. Lanczos iteration from one vector (ARPACK)
    can stop with one field of each eigenspace; a block of random fields contains all of them.
    """
    n = len(root)
    width = _width(n * d, k)
    noise = torch.Generator(root.device).manual_seed(seed)
    block = torch.randn((n * d, width), generator=noise, dtype=root.dtype, device=root.device)
    for _ in range(MAX_FILTERS):
        basis = torch.linalg.qr(block)[0]
        fields = (basis.reshape(n, d, width) / root).contiguous()
        images = torch.empty_like(fields)
        step(matrix, fields, fields, images, (1.0, 0.0, 0.0))
        images = (images * root).flatten(0, 1)
        ritz = basis.T @ images
        ascending, vectors = torch.linalg.eigh((ritz + ritz.T) / 2)
        values = ascending.flip(0)
        turn = vectors.flip(1)
        basis = basis @ turn
        residual = torch.linalg.vector_norm(images @ turn[:, :k] - basis[:, :k] * values[:k], dim=0)
        fields = (basis.reshape(n, d, width) / root).contiguous()
        if float(residual.max()) <= max(tol, MIN_TOLERANCE):
            return values[:k], fields[:, :, :k].contiguous()
        block = (_amplify(matrix, fields, interval, float(values[-1])) * root).flatten(0, 1)
        block = block / torch.linalg.vector_norm(block, dim=0)
    raise ConvergenceError(
        f"the eigensolver has {int((residual <= tol).sum())} of {k} eigenpairs after "
        f"{MAX_FILTERS} rounds. Loosen tol, or ask for a few more or fewer: the next eigenvalues "
        "lie too close."
    )


def _width(size: int, k: int) -> int:
    """Fields that are iterated for k eigenpairs: the next eigenvalues too, so that a cluster at k
    is seldom cut."""
    guard = max(12, min(k, 32 + k // 4))
    return min(size, 4 * -(-(k + guard) // 4))


@torch.no_grad()
def asymmetry(laplacian: Laplacian) -> float:
    r"""How far P is from self-adjoint: :math:`|\langle P f, g \rangle - \langle f, P g \rangle|`
    for random fields, in units of their norms and of the mean coupling, which falls as
    :math:`1/\sqrt{n d}`.
    """
    noise = torch.Generator().manual_seed(0)
    shape = (laplacian.num_points, laplacian.rank, ASYMMETRY_PROBES)
    f = torch.randn(shape, generator=noise, dtype=torch.float64).to(laplacian.mass)
    g = torch.randn(shape, generator=noise, dtype=torch.float64).to(laplacian.mass)
    forth = laplacian.inner(laplacian.averaged(f), g)
    back = laplacian.inner(f, laplacian.averaged(g))
    norms = laplacian.norm(f) * laplacian.norm(g)
    return float(((forth - back).abs() / norms).max()) * laplacian.shape[0] ** 0.5


def in_double_precision(laplacian: Laplacian) -> Laplacian:
    r"""The operator in float64, self-adjoint to that precision.

    In float32 P and the masses are rounded separately, and :math:`m_i P_{ij}` differs from
    :math:`m_j P_{ji}^T` by more than eigenpairs may be wrong. Here it is the mean of the two. What
    counts is the asymmetry, not the dtype: an operator in float64 may have been in float32 before.
    """
    double = laplacian.to(dtype=torch.float64)
    if asymmetry(double) <= MAX_ASYMMETRY:
        return double
    average = double.average
    n = double.num_points
    columns = average.columns()
    rows = torch.repeat_interleave(torch.arange(n, device=double.device), average.indptr.diff())
    forward_keys, places = torch.sort(rows * n + columns)
    reversed_keys, sort = torch.sort(columns * n + rows)
    if not torch.equal(reversed_keys, forward_keys):
        return double  # edges in one direction: nothing to compare with
    reverse = torch.empty_like(sort)
    reverse[places] = sort
    mass = double.mass.index_select(0, average.curve_order.long())
    share = (mass[columns] / mass[rows]).reshape(-1, *[1] * (average.values.ndim - 1))
    transposed = average.transposed_values()[reverse]
    values = (average.values + share * transposed) / 2
    return replace(double, average=replace(average, values=values))


def _require_rows(size: int, width: int, k: int, device: torch.device) -> None:
    """Refuse eigenpairs whose six float64 work arrays ``(size, width)`` do not fit."""
    require_memory(
        6 * 8.0 * size * width,
        f"{k} eigenpairs of {size} rows",
        "Ask for fewer, or use fewer points.",
        device_memory(device),
    )


def _amplify(
    matrix: Any, fields: torch.Tensor, interval: tuple[float, float], cut: float
) -> torch.Tensor:
    """A Chebyshev polynomial of a matrix with spectrum in ``interval`` on fields: at most one up to
    ``cut``, steeply growing above."""
    lowest, highest = interval
    middle = (cut + lowest) / 2
    radius = (cut - lowest) / 2
    rate = np.arccosh(max(1.0 + 1e-6, (highest - middle) / radius))
    degree = int(np.clip(GROWTH / rate, MIN_FILTER_DEGREE, MAX_FILTER_DEGREE))
    amplified = fields
    for _, term in recurrence(matrix, fields, fields, range(1, degree + 1), middle, radius):
        amplified = term
    return amplified


def least_average(laplacian: Laplacian) -> float:
    """A lower bound of the spectrum of an average P, which is not below -1."""
    return max(-1.0, interval_of_average(laplacian)[0])


def interval_of_average(laplacian: Laplacian) -> tuple[float, float]:
    """An interval that contains P's spectrum: the least and the largest Ritz value of a short
    Lanczos run, widened by their residuals and a margin.

    It reaches up to one at least. More is needed for Hodge Laplacians, whose P grows where the
    curvature is negative.
    """
    values, residuals = ritz_values(laplacian.averaged, laplacian.mass, laplacian.rank)
    margin = BOUND_MARGIN * (1.0 - values[0])
    lowest = float(values[0] - residuals[0] - margin)
    highest = 1.0
    if values[-1] + residuals[-1] > 1.0 + margin:
        highest = float(values[-1] + residuals[-1])
    return lowest, highest
