r"""Gradients of functions from the neighbours of neighbours, unfolded into the tangent space.

From point i the neighbours of its neighbours are reached by the steps

.. math:: y_{ij}, \qquad y_{ijk} = y_{ij} + O_{ij}\, y_{jk},

in the coordinates of its tangent space, since the second step is transported to it. To the
differences of a function along these steps a quadratic polynomial is fitted,

.. math:: \min_{g, H} \; \sum_y w(y)\, \big( f(y) - f_i - g \cdot y - \tfrac12\, y^T H y \big)^2,
          \qquad w(y) = \Big( 1 - \frac{|y|^2}{(1.1\, y_{\max})^2} \Big)^2 .

All steps are along the manifold, so points that are near in ambient space alone, as those on the
other side of a thin wall, are not among them.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy import sparse

from ..geometry.stencils import Stencils, num_equations
from ..parallel import run_ranges

RIM = 1.1
"""Radius, in longest steps, where weights vanish: the longest step keeps some weight."""

RIDGE_OF_SLOPES = 1e-12
"""Added to the normal equations of g, relative to the sum of weights: they can be solved where all
neighbours lie on a line."""

RIDGE_OF_CURVATURES = 1e-4
"""The same of H: where few neighbours do not determine the curvature of a function, it is small,
and the gradient is that of a plane."""


def gradient_matrix(stencils: Stencils) -> sparse.bsr_array:
    """The gradient of functions as a matrix ``(n d, n)`` along the curve.

    >>> import torch
    >>> from tangentbundle.geometry.cloud import PointCloud
    >>> from tangentbundle.geometry.stencils import positive_stencils
    >>> places = np.random.default_rng(0).random((300, 2))
    >>> cloud = PointCloud(torch.from_numpy(places))
    >>> stencils = positive_stencils(cloud, torch.eye(2).repeat(300, 1, 1))
    >>> heights = cloud.points.numpy() @ [3.0, -2.0]
    >>> slopes = (gradient_matrix(stencils) @ heights).reshape(300, 2)
    >>> bool(np.abs(slopes - [3.0, -2.0]).max() < 1e-3)
    True
    """
    n = stencils.num_points
    dim = stencils.steps.shape[1]
    indptr = stencils.indptr.numpy()
    columns = stencils.columns.numpy()
    degrees = np.diff(indptr)
    of_neighbors = np.bincount(stencils.rows.numpy(), weights=degrees[columns], minlength=n)
    counts = 1 + degrees + of_neighbors.astype(np.int64)
    row_ends = np.append(0, np.cumsum(counts))
    points = np.empty(row_ends[-1], np.int32)
    weights = np.empty((row_ends[-1], dim))
    run_ranges(
        _fit_rows,
        n,
        indptr,
        columns,
        stencils.steps.numpy(),
        stencils.maps.numpy(),
        num_equations(dim),
        row_ends,
        points,
        weights,
        grain=512,
    )
    return sparse.bsr_array((weights[:, :, None], points, row_ends), shape=(n * dim, n))


@njit(cache=True, nogil=True)
def _fit_rows(start, stop, indptr, columns, steps, maps, num_monomials, row_ends, points, weights):
    # pragma: no cover - compiled
    """The ``points`` (m,) that the gradients of rows ``start`` to ``stop`` are taken from, the row
    itself first, and their ``weights`` (m, d)."""
    most = np.diff(row_ends).max()
    unfolded = np.empty((most, steps.shape[1]))
    monomials = np.empty((most, num_monomials))
    shares = np.empty(most)
    for i in range(start, stop):
        first = row_ends[i]
        last = row_ends[i + 1]
        count = last - first - 1
        weights[first] = 0.0
        points[first] = i
        if count == 0:
            continue
        _unfold(i, indptr, columns, steps, maps, unfolded, points[first + 1 : last])
        radius = RIM * np.sqrt((unfolded[:count] ** 2).sum(axis=1).max())
        for k in range(count):
            shares[k] = _evaluate(unfolded[k], radius, monomials[k])
        _solve(shares[:count], monomials[:count], radius, weights[first + 1 : last])
        for k in range(first + 1, last):
            weights[first] -= weights[k]


@njit(cache=True, nogil=True)
def _unfold(i, indptr, columns, steps, maps, unfolded, points):  # pragma: no cover - compiled
    """Write the steps from point i to its neighbours and to theirs, and the ``points`` (k,) where
    they end."""
    dim = steps.shape[1]
    count = 0
    for e in range(indptr[i], indptr[i + 1]):
        j = columns[e]
        unfolded[count] = steps[e]
        points[count] = j
        count += 1
        for f in range(indptr[j], indptr[j + 1]):
            for a in range(dim):
                unfolded[count, a] = steps[e, a]
                for b in range(dim):
                    unfolded[count, a] += maps[e, a, b] * steps[f, b]
            points[count] = columns[f]
            count += 1


@njit(cache=True, nogil=True)
def _evaluate(step, radius, monomials):  # pragma: no cover - compiled
    """Write the ``monomials`` of a step in units of the radius; returns its share in the fit. Mixed
    products are scaled so that the fit does not depend on the frames."""
    dim = len(step)
    square = 0.0
    place = dim
    for a in range(dim):
        monomials[a] = step[a] / radius
        square += monomials[a] ** 2
        for b in range(a + 1):
            monomials[place] = monomials[a] * monomials[b]
            if a != b:
                monomials[place] *= np.sqrt(2.0)
            place += 1
    return (1.0 - square) ** 2


@njit(cache=True, nogil=True)
def _solve(shares, monomials, radius, weights):  # pragma: no cover - compiled
    """The ``weights`` (k, d) of differences along steps in the gradient of the polynomial that fits
    them."""
    count, size = monomials.shape
    dim = weights.shape[1]
    gram = np.zeros((size, size))
    for k in range(count):
        for p in range(size):
            share = shares[k] * monomials[k, p]
            for q in range(size):
                gram[p, q] += share * monomials[k, q]
    total = shares.sum()
    for p in range(size):
        if p < dim:
            gram[p, p] += RIDGE_OF_SLOPES * total
        else:
            gram[p, p] += RIDGE_OF_CURVATURES * total
    slopes = np.linalg.solve(gram, np.eye(size)[:, :dim].copy())
    for k in range(count):
        for a in range(dim):
            weights[k, a] = 0.0
            for p in range(size):
                weights[k, a] += shares[k] * monomials[k, p] * slopes[p, a] / radius
