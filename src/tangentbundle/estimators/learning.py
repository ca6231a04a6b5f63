"""What a history teaches before a field is seen: parameters of its covariance, and how far its fields are shifted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from .covariance import Covariance
from .history import Past, learned
from .likelihood import NOISE_START, PRIOR, Evidence, maximise
from .problem import Problem

HISTORY_SITES, HISTORY_FIELDS = 150, 24
"""Points and fields of a history that hyperparameters are learned from."""

REACH = 1.0
"""Of displacements of past fields, in units of the length of the localised covariance."""


def learn(base: Covariance, problem: Problem, past: Past) -> tuple[Covariance, np.ndarray, Past]:
    """The covariance with a history, its parameters, and the history with displacements.

    Parameters are those by which the first two thirds of the fields predict the last third best; displacements are
    used where they help to.
    """
    covariance, split = learned(base), 2 * len(past.fields) // 3
    index = past.spread(HISTORY_SITES, problem.spaces.dim, problem.rng)
    points, earlier = past.points[index], past.part(slice(split))
    frames = problem.spaces.at(points)
    later = past.fields[split:][:: max(1, (len(past.fields) - split) // HISTORY_FIELDS)][:, index]
    center = np.array([*covariance.start, NOISE_START])

    def fitted(given: Past, start: np.ndarray) -> tuple[np.ndarray, float]:
        sites = problem.sites(points, frames, given)
        assert sites.mean is not None
        fields = torch.from_numpy(np.einsum("nij,tni->njt", frames, later)) - sites.mean[:, :, None]
        return maximise(covariance, [Evidence(sites, fields.reshape(-1, len(later)))], center, PRIOR, start)

    theta, loss = fitted(earlier, center)
    length = problem.unit * float(np.exp(theta[covariance.names.index("empirical length")]))
    shifted = earlier.shifted(REACH * length, problem.spaces.dim, problem.rng)
    if shifted.shifts is None:
        return covariance, theta, past
    told, new = fitted(shifted, theta)
    return (covariance, told, replace(past, shifts=shifted.shifts)) if new < loss else (covariance, theta, past)
