r"""Distances and their gradients, carried from point to point in the order in which heat arrives.

The distance r from the sources grows along the unit vectors g in which heat falls off. A point i
takes both from its warmer neighbours j, which are nearer to a source and have them already:

.. math:: r_i = \frac{\sum_j w_{ij} \big( r_j - \tfrac12 (g_i + O_{ij}\, g_j) \cdot y_{ij} \big)}
                     {\sum_j w_{ij}}, \qquad
          w_{ij} = q_{ij}\, (u_j - u_i)\, \max(0,\, g_i \cdot O_{ij}\, g_j)^{16} .

The weight is the flow of heat u along the edge with the step :math:`y_{ij}`, at the rate
:math:`q_{ij}` of the stencil; the power leaves out edges across the cut locus, where directions at
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

from ..geometry.stencils import Stencils

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

    def advance(self, stencils: Stencils, heat: np.ndarray, is_bent: np.ndarray) -> Front:
        """The front at all points that ``heat`` (n,) reaches.

        ``directions`` of unknown points are kept, except where ``is_bent`` (n,).
        """
        distances = self.distances.copy()
        directions = self.directions.copy()
        is_reached = heat > 0
        order = np.argsort(-heat, kind="stable")
        _advance(
            order[is_reached[order] & ~self.is_known[order]],
            stencils.indptr.numpy(),
            stencils.columns.numpy(),
            stencils.rates.numpy(),
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
    order, indptr, columns, rates, steps, maps, heat, is_bent, distances, directions
):  # pragma: no cover - compiled
    """Distances of the points in this ``order``, and directions where heat is bent."""
    most = np.diff(indptr).max()
    rank = directions.shape[1]
    flows = np.empty(most)
    arriving = np.empty((most, rank))
    for i in order:
        start = indptr[i]
        count = indptr[i + 1] - start
        strongest = 0
        for k in range(count):
            j = columns[start + k]
            flows[k] = rates[start + k] * max(0.0, heat[j] / heat[i] - 1.0)
            for a in range(rank):
                arriving[k, a] = 0.0
                for b in range(rank):
                    arriving[k, a] += maps[start + k, a, b] * directions[j, b]
            if flows[k] > flows[strongest]:
                strongest = k
        if is_bent[i]:
            from_sources = directions[i]
            from_sources[:] = 0.0
            for k in range(count):
                weight = flows[k] * _agreement(arriving[strongest], arriving[k])
                radius = distances[columns[start + k]]
                if weight > 0.0:
                    for a in range(rank):
                        from_sources[a] += weight * (radius * arriving[k, a] - steps[start + k, a])
            length = np.sqrt((from_sources**2).sum())
            if length > 0.0:
                from_sources /= length
        total = 0.0
        mean = 0.0
        lowest = 0.0
        highest = np.inf
        for k in range(count):
            if flows[k] > 0.0:
                radius = distances[columns[start + k]]
                weight = flows[k] * _agreement(directions[i], arriving[k])
                growth = 0.0
                square = 0.0
                for a in range(rank):
                    step = steps[start + k, a]
                    growth -= 0.5 * (directions[i, a] + arriving[k, a]) * step
                    square += step * step
                total += weight
                mean += weight * (radius + growth)
                lowest = max(lowest, radius - np.sqrt(square))
                highest = min(highest, radius + np.sqrt(square))
        if total > 0.0:
            distances[i] = min(max(mean / total, lowest), highest)
        else:
            distances[i] = np.inf


@njit(cache=True, nogil=True)
def _agreement(first, second):  # pragma: no cover - compiled
    """How far two unit vectors agree, from ``LEAST_AGREEMENT`` to 1."""
    cosine = 0.0
    for a in range(len(first)):
        cosine += first[a] * second[a]
    return max(max(cosine, 0.0) ** AGREEMENT_POWER, LEAST_AGREEMENT)
