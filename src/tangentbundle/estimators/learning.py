"""What a history teaches before a field is seen: parameters of its covariance, and how far its fields are shifted."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from .covariance import Covariance, terms_of
from .history import Past, learned
from .likelihood import NOISE_START, PRIOR, Evidence, maximise
from .problem import Problem
from .seasons import KEPT, faded
from .tangents import evenly

HISTORY_SITES, HISTORY_FIELDS = 150, 24
"""Points and fields of a history that hyperparameters are learned from."""

REACH = 1.0
"""Of displacements of past fields, in units of the length of the localised covariance."""

ADJUST, SEASON = 0.2, 0.3
"""Widths of priors once a history has been learned from; the last of a change of season, of which one tells little."""

CHANGE = 4.0
"""Logarithm of the odds of another season before the field is seen: a wrong guess of no change costs more."""


class Season(NamedTuple):
    """What may hold of a field: means and widths of the prior on its parameters, the noise last, its past, and the
    logarithm of how likely that is.
    """

    center: np.ndarray
    width: np.ndarray
    past: Past
    likely: float


def learn(base: Covariance, problem: Problem, past: Past) -> tuple[Covariance, Season, Season]:
    """The covariance with a history, and what holds of a new field in the same season and in another.

    In the same season parameters are those by which the first two thirds of the fields predict the last third best,
    and past fields are displaced where it helps to; of another season a history does not tell.
    """
    covariance, theta, past = _within(base, problem, past)
    terms = terms_of(covariance)
    seasonal = np.array([*(term.seasonal for term in terms for _ in term.start), False])
    other = np.where(seasonal, [*(s for term in terms for s in term.start), NOISE_START], theta)
    width = np.where(seasonal, SEASON, ADJUST)
    return covariance, Season(theta, width, past, 0.0), Season(other, width, _changed(problem, past), CHANGE)


def _changed(problem: Problem, past: Past) -> Past:
    """The history, with the mean that is expected in another season."""
    points, spaces = past.points, problem.spaces
    if spaces.axis is None:
        return replace(past, expected=KEPT * past.mean)
    weights = evenly(past.tree, spaces.dim)
    return replace(past, expected=faded(past.mean, points, spaces.at(points), weights, spaces.axis))


def _within(base: Covariance, problem: Problem, past: Past) -> tuple[Covariance, np.ndarray, Past]:
    """The covariance, its parameters in the season of the history, and the history with displacements."""
    covariance, split = learned(base, problem.spaces.axis), 2 * len(past.fields) // 3
    index = past.spread(HISTORY_SITES, problem.spaces.dim, problem.rng)
    points, earlier = past.points[index], past.part(slice(split))
    frames = problem.spaces.at(points)
    later = past.fields[split:][:: max(1, (len(past.fields) - split) // HISTORY_FIELDS)][:, index]
    center = np.array([*covariance.start, NOISE_START])

    def fitted(given: Past, start: np.ndarray) -> tuple[np.ndarray, float]:
        sites = problem.sites(points, frames, given)
        assert sites.expected is not None
        fields = torch.from_numpy(np.einsum("nij,tni->njt", frames, later)) - sites.expected[:, :, None]
        return maximise(covariance, [Evidence(sites, fields.reshape(-1, len(later)))], center, PRIOR, start)

    theta, loss = fitted(earlier, center)
    length = problem.unit * float(np.exp(theta[covariance.names.index("empirical length")]))
    shifted = earlier.shifted(REACH * length, problem.spaces.dim, problem.rng)
    if shifted.shifts is None:
        return covariance, theta, past
    told, new = fitted(shifted, theta)
    return (covariance, told, replace(past, shifts=shifted.shifts)) if new < loss else (covariance, theta, past)
