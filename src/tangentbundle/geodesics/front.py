r"""Distances and their gradients, carried from point to point in the order in which heat arrives.

The distance r from the sources grows along the unit vectors g in which heat falls off. A point i
takes both from its warmer neighbours j, which are nearer to a source and have them already:

.. math:: r_i = \frac{\sum_j w_{ij} \big( r_j - \tfrac12 (g_i + O_{ij}\, g_j) \cdot y_{ij} \big)}
                     {\sum_j w_{ij}}, \qquad
          w_{ij} = a_{ij}\, (u_j - u_i)\, \max(0,\, g_i \cdot O_{ij}\, g_j)^{16} .

The weight is the flow of heat u along the edge with the step :math:`y_{ij}`, with the jumps
:math:`a_{ij}` of ``heat``; the power leaves out edges across the cut locus, where directions at
both ends disagree. By the triangle inequality :math:`r_i` is between :math:`r_j - |y_{ij}|` and
:math:`r_j + |y_{ij}|` for all of these. Each point is visited once, so nothing is solved.

Next to a boundary heat falls off in other directions than it came. There

.. math:: g_i = -\frac{s_i}{|s_i|}, \qquad
          s_i = \sum_j w_{ij}\, (y_{ij} - r_j\, O_{ij}\, g_j) ,

where :math:`s_i` points to the source as its neighbours see it, in flat space exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from .heat import HeatEquation

AGREEMENT_POWER = 16
"""Power of the cosine between directions at both ends of an edge in its weight: at 30 degrees, a
tenth."""

LEAST_AGREEMENT = 1e-3
"""Share of its weight that every edge keeps: on the cut locus itself no directions agree."""


@dataclass(frozen=True, eq=False)
class Front:
    """``distances`` (n,) and their gradients, unit vectors ``directions`` (n, d), where they
    ``is_known`` (n,)."""

    distances: np.ndarray
    directions: np.ndarray
    is_known: np.ndarray

    def advance(self, equation: HeatEquation, heat: np.ndarray, is_bent: np.ndarray) -> Front:
        """The front at all points that ``heat`` (n,) reaches.

        ``directions`` of unknown points are kept, except where ``is_bent`` (n,).
        """
        stencils = equation.stencils
        distances = self.distances.copy()
        directions = self.directions.copy()
        is_reached = heat > 0
        order = np.argsort(-heat, kind="stable")
        _advance(
            order[is_reached[order] & ~self.is_known[order]],
            stencils.indptr.numpy(),
            stencils.columns.numpy(),
            equation.jumps,
            stencils.steps.numpy(),
            stencils.maps.numpy(),
            heat,
            is_bent,
            distances,
            directions,
        )
        distances[~is_reached] = np.inf
        return Front(distances, directions, is_reached)


@njit(cache=True, nogil=True)
def _advance(
    order, indptr, columns, jumps, steps, maps, heat, is_bent, distances, directions
):  # pragma: no cover - compiled
    """Distances of the points in this ``order``, and directions where heat is bent."""
    most = np.diff(indptr).max()
    flows = np.empty(most)
    radii = np.empty(most)
    arriving = np.empty((most, directions.shape[1]))
    for i in order:
        edges = slice(indptr[i], indptr[i + 1])
        count = indptr[i + 1] - indptr[i]
        neighbors = columns[edges]
        for k in range(count):
            j = neighbors[k]
            flows[k] = jumps[indptr[i] + k] * max(0.0, heat[j] / heat[i] - 1.0)
            radii[k] = distances[j]
            _multiply(maps[indptr[i] + k], directions[j], arriving[k])
        if is_bent[i]:
            _away_from_sources(
                flows[:count], radii[:count], arriving[:count], steps[edges], directions[i]
            )
        distances[i] = _distance(
            flows[:count], radii[:count], arriving[:count], steps[edges], directions[i]
        )


@njit(cache=True, nogil=True)
def _away_from_sources(flows, radii, arriving, steps, direction):  # pragma: no cover - compiled
    """The ``direction`` (d,) away from the source as its warmer neighbours see it: those whose
    directions ``arriving`` (k, d) agree with that of the strongest of the ``flows`` (k,)."""
    strongest = arriving[np.argmax(flows)]
    direction[:] = 0.0
    for k in range(len(flows)):
        if flows[k] > 0.0:
            weight = flows[k] * _agreement(strongest, arriving[k])
            for a in range(len(direction)):
                direction[a] += weight * (radii[k] * arriving[k, a] - steps[k, a])
    length = np.sqrt((direction**2).sum())
    if length > 0.0:
        direction /= length


@njit(cache=True, nogil=True)
def _distance(flows, radii, arriving, steps, direction):  # pragma: no cover - compiled
    """The mean of the distances ``radii`` (k,) of warmer neighbours and the growth along the steps
    from them, within the triangle inequality; infinite without such neighbours."""
    total = 0.0
    mean = 0.0
    lowest = 0.0
    highest = np.inf
    for k in range(len(flows)):
        if flows[k] > 0.0:
            weight = flows[k] * _agreement(direction, arriving[k])
            growth = 0.0
            square = 0.0
            for a in range(len(direction)):
                growth -= 0.5 * (direction[a] + arriving[k, a]) * steps[k, a]
                square += steps[k, a] ** 2
            total += weight
            mean += weight * (radii[k] + growth)
            lowest = max(lowest, radii[k] - np.sqrt(square))
            highest = min(highest, radii[k] + np.sqrt(square))
    if total == 0.0:
        return np.inf
    return min(max(mean / total, lowest), highest)


@njit(cache=True, nogil=True)
def _multiply(matrix, vector, product):  # pragma: no cover - compiled
    """The ``product`` (d,) of a matrix and a vector."""
    for a in range(len(product)):
        product[a] = 0.0
        for b in range(len(vector)):
            product[a] += matrix[a, b] * vector[b]


@njit(cache=True, nogil=True)
def _agreement(first, second):  # pragma: no cover - compiled
    """How far two unit vectors agree, from ``LEAST_AGREEMENT`` to 1."""
    cosine = 0.0
    for a in range(len(first)):
        cosine += first[a] * second[a]
    return max(max(cosine, 0.0) ** AGREEMENT_POWER, LEAST_AGREEMENT)
