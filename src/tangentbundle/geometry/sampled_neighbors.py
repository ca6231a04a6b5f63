"""Sampled points of a cloud with their nearest neighbours: what a scale is estimated from.

These are all the questions about a whole cloud that ``reach.py``, ``scale.py`` and ``widening.py``
ask; what follows are computations on NumPy arrays of the sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import host
from ..errors import TooFewPointsError
from .cloud import MIN_SAMPLED_NEIGHBORS, SAMPLE_SIZE, PointCloud


@dataclass(frozen=True, eq=False)
class SampledNeighbors:
    """``rows`` (m,) of sampled points, and ``distances`` and ``indices`` (m, k) of their k nearest
    other points, nearest first.

    >>> import torch
    >>> sample = SampledNeighbors.of(PointCloud(torch.arange(4.0)[:, None] ** 2), 2)
    >>> sample.rows.tolist(), sample.indices[3].tolist(), sample.distances[3].tolist()
    ([0, 1, 2, 3], [2, 1], [5.0, 8.0])
    """

    rows: np.ndarray
    distances: np.ndarray
    indices: np.ndarray

    @classmethod
    def of(cls, cloud: PointCloud, k: int) -> SampledNeighbors:
        """Search for the neighbours of a sample of a cloud.

        Distances of the k-th neighbour vary as the root of 1/k, so that fewer points do where k is
        large.
        """
        if len(cloud) <= k:
            raise TooFewPointsError(
                f"{k} neighbours per point need at least {k + 1} points, got {len(cloud)}."
            )
        if len(cloud) <= SAMPLE_SIZE or k < 2 * MIN_SAMPLED_NEIGHBORS:
            rows = cloud.sample_rows()
            distances, indices = cloud.sampled_nearest(k)
        else:
            rows = cloud.sample_rows(SAMPLE_SIZE * MIN_SAMPLED_NEIGHBORS // k)
            distances, indices = cloud.nearest(k, rows)
        return cls(host(rows), host(distances), host(indices))

    def __len__(self) -> int:
        return len(self.rows)
