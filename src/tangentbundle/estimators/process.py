r"""Gaussian processes of vector fields: one likelihood, one posterior, one leave-one-out.

.. math:: y = B f + \eta, \qquad
          E[f_* | y] = K_{*}(K + N)^{-1} y, \quad \mathrm{Cov}[f_* | y] = K_{**} - K_* (K + N)^{-1} K_*^T,

with f the coordinates of the field in bases B of the points, and N the variance of the noise. What is measured across
the bases is noise and, where they are estimated, a share of the field. With few points a prediction uses all of them;
with many, the nearest ones and the means of cells of further ones: observations of the field at the centre of the
cell, with the noise of a mean and the variance of the difference between the field's mean and its value there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .covariance import Covariance, Pairs, Sites
from .history import from_history
from .likelihood import NOISE_START, PRIOR_WIDTH, Evidence, maximize, stacked
from .neighborhoods import Neighborhoods
from .observations import JITTER, Model, Observations, Places, Posterior, Prediction

SIGNIFICANT = 3.0
"""Standard deviations by which components of neighbours must agree for their axis to have a signal."""

MAX_ROWS = 600
"""Most rows of the matrix of a likelihood, which is factored some twenty times."""

MIN_POINTS_PER_ANGLE = 10
"""With fewer points for each angle between D axes, axes fitted to noisy vectors mistake noise for signal."""

HISTORY_WIDTH = 0.3
"""Standard deviation of the prior around logarithms of parameters that were fitted to a history."""

MAX_AXES = 64
"""Most axes of ambient vectors: each has a linear system of its own."""


@dataclass(frozen=True)
class GaussianProcess(Model):
    """A Gaussian process of tangent or of ambient vectors.

    Args:
        covariance: such as ``Tangent()``, ``Ambient()``, ``DivergenceFree() + CurlFree()``; with a history it is
            ``from_history(covariance)``, and the field's mean is that of the history.
        sites: predictions use so many observations, half of them near and one by one, half of them means of cells
            further away; hyperparameters are fitted to at most so many. Default: 640 where components are independent,
            otherwise 320.
    """

    covariance: Covariance
    sites: int | None = None
    uses_history = True

    def __str__(self) -> str:
        return f"GaussianProcess({self.covariance})"

    def quick(self, factor: int) -> GaussianProcess:
        return replace(self, sites=(self.sites or 320) // factor)

    def fit(
        self, observations: Observations, rng: np.random.Generator, start: Posterior | None = None
    ) -> GaussianPosterior:
        self.covariance.check(observations.frames.shape[2], observations.oriented)
        bases = signal_axes(observations) if self.covariance.ambient else observations.frames
        data = FieldInBases(observations, bases)
        covariance = self.covariance if observations.history is None else from_history(self.covariance)
        sites = self.sites or (640 if covariance.independent else 320)
        index = data.sample(min(sites, MAX_ROWS // (1 if covariance.independent else bases.shape[-1])), rng)
        names = covariance.parameters(*bases.shape[-2:])
        center, width = np.array([*names.values(), NOISE_START]), np.full(len(names) + 1, PRIOR_WIDTH)
        if observations.history is not None:
            past = maximize(covariance, data.past_evidence(index), center, width)
            steady = np.array([*(not name.startswith("ScaledMean") for name in names), False])
            center, width = np.where(steady, past, center), np.where(steady, HISTORY_WIDTH, width)
        begin = start.theta if isinstance(start, GaussianPosterior) else None
        theta = maximize(covariance, data.evidence(index), center, width, data.max_noise, begin)
        parameters = dict(zip([*names, "noise"], np.exp(theta).tolist(), strict=True))
        parts = Neighborhoods.of(observations.points, sites - sites // 2, sites // 2)
        return GaussianPosterior(covariance, theta, data, parts, parameters)


def signal_axes(observations: Observations) -> np.ndarray:
    """Principal axes ``(D, p)`` along which neighbours' vectors agree more than noise would; at least one.

    They are those of the vectors, or of the points where there are too few to fit them to noisy vectors.
    """
    vectors = observations.vectors
    n, D = vectors.shape
    enough = n >= MIN_POINTS_PER_ANGLE * D * (D - 1) / 2
    axes = np.linalg.svd(vectors if enough else observations.points, full_matrices=False)[2].T
    components = vectors @ axes
    nearest = observations.tree.query(observations.points, k=2)[1][:, 1]
    energy = np.square(components).sum(axis=0)
    agreement = (components * components[nearest]).sum(axis=0) / np.maximum(energy, 1e-300)
    signal = (agreement * np.sqrt(n) > SIGNIFICANT) & (energy > JITTER * n)
    signal[np.argmax(agreement * energy)] = True
    signal[np.flatnonzero(signal)[MAX_AXES:]] = False
    return np.ascontiguousarray(axes[:, signal])


@dataclass(frozen=True, eq=False)
class FieldInBases:
    """Observations in the bases of a process: ``(D, p)`` for all points, or ``(n, D, p)``."""

    observations: Observations
    bases: np.ndarray

    @cached_property
    def vectors(self) -> np.ndarray:
        """Ambient vectors ``(n, D)``, less the mean of the history: its tangent part where that is known."""
        observations = self.observations
        if observations.history is None:
            return observations.vectors
        mean = observations.history.mean(observations.points)
        if observations.exact:
            mean = _ambient(observations.frames, _coordinates(observations.frames, mean))
        return observations.vectors - mean

    @cached_property
    def values(self) -> np.ndarray:
        """Coordinates ``(n, p)``."""
        return _coordinates(self.bases, self.vectors)

    @cached_property
    def across(self) -> np.ndarray:
        """What vectors have across the bases ``(n, D)``."""
        return self.vectors - _ambient(self.bases, self.values)

    @cached_property
    def variance_across(self) -> float:
        """The mean square of each component across the bases."""
        D, p = self.bases.shape[-2:]
        return float(np.square(self.across).sum() / (len(self.across) * (D - p))) if p < D else 0.0

    @property
    def measured_across(self) -> bool:
        """Whether vectors have components across the bases at all: exactly tangent ones do not."""
        return self.variance_across > 100 * JITTER

    @property
    def max_noise(self) -> float:
        """The noise is not larger than what is measured across tangent bases."""
        return float(np.sqrt(self.variance_across)) if self.measured_across and self.bases.ndim == 3 else np.inf

    def sites(self, points: np.ndarray, bases: np.ndarray) -> Sites:
        """Points ``(..., D)`` with bases, as tensors, with their history where there is one."""
        history = self.observations.history
        past = mean = None
        if history is not None:
            fields = history.at(points.reshape(-1, points.shape[-1]))  # (T, n, D)
            flat = bases if bases.ndim == 2 else bases.reshape(-1, *bases.shape[-2:])
            own = np.stack([_coordinates(flat, one) for one in fields], axis=-1)
            own = own.reshape(*points.shape[:-1], *own.shape[1:])  # (..., p, T)
            mean = own.mean(axis=-1)
            past, mean = torch.from_numpy(own - mean[..., None]), torch.from_numpy(mean)
        principal = points @ self.observations.axes
        return Sites(_tensor(points), _tensor(bases), _tensor(principal), past, mean)

    def at(self, index: np.ndarray) -> Sites:
        """The sites of some of the observations."""
        bases = self.bases if self.bases.ndim == 2 else self.bases[index]
        return self.sites(self.observations.points[index], bases)

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """At most ``size`` observations, in groups of four neighbours: these tell short lengths from noise."""
        points = self.observations.points
        index = np.arange(len(points))
        if len(points) <= size:
            return index
        order = rng.permutation(len(points))
        near = self.observations.tree.query(points[order[: size // 2]], k=4)[1]
        found = np.concatenate([near.reshape(-1), order])  # groups of four, then any others
        _, first = np.unique(found, return_index=True)
        return np.sort(found[np.sort(first)[:size]])

    def evidence(self, index: np.ndarray) -> Evidence:
        """These observations; what is across exact or ambient bases is noise alone."""
        observations = self.observations
        noise = None if observations.noise is None else _tensor(observations.noise[index])
        D, p = self.bases.shape[-2:]
        white = (0, 0.0)
        if self.measured_across and noise is None and (self.bases.ndim == 2 or observations.exact):
            white = len(index) * (D - p), float(np.square(self.across[index]).sum())
        return Evidence(self.at(index), _tensor(self.values[index])[..., None], noise, white)

    def past_evidence(self, index: np.ndarray, most: int = 24) -> Evidence:
        """The last third of the history, at most so many fields of it, at these points, given the first two thirds."""
        history = self.observations.history
        assert history is not None
        split = 2 * len(history.fields) // 3
        earlier, later = (
            replace(history, fields=history.fields[:split]),
            replace(history, fields=history.fields[split:]),
        )
        given = replace(self, observations=replace(self.observations, history=earlier))
        points = self.observations.points[index]
        bases = self.bases if self.bases.ndim == 2 else self.bases[index]
        fields = later.at(points)[:: -(-len(later.fields) // most)] - earlier.mean(points)
        values = np.stack([_coordinates(bases, one) for one in fields], axis=-1)
        return Evidence(given.at(index), _tensor(values))


def _coordinates(bases: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return vectors @ bases if bases.ndim == 2 else np.einsum("nij,ni->nj", bases, vectors)


def _ambient(bases: np.ndarray, values: np.ndarray) -> np.ndarray:
    return values @ bases.T if bases.ndim == 2 else np.einsum("nij,nj->ni", bases, values)


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


@dataclass(frozen=True, eq=False)
class System:
    """The linear system of a group: observations ``members`` one by one, then means of cells."""

    members: np.ndarray
    sites: Sites
    factor: Tensor
    weights: Tensor


@dataclass(frozen=True, eq=False)
class GaussianPosterior(Posterior):
    """A Gaussian process given observations; ``theta`` are the logarithms of its parameters, the noise last."""

    covariance: Covariance
    theta: np.ndarray
    data: FieldInBases = field(repr=False)
    parts: Neighborhoods = field(repr=False)
    parameters: dict[str, float]

    @property
    def noise(self) -> float:  # type: ignore[override]
        known = self.data.observations.noise
        return float(np.exp(self.theta[-1])) if known is None else float(np.sqrt(known.mean()))

    @property
    def noise_across(self) -> float:  # type: ignore[override]
        return min(self.noise**2, self.data.variance_across)

    @cached_property
    def _hyper(self) -> Tensor:
        return torch.from_numpy(self.theta)

    def _variances(self) -> np.ndarray:
        """Of the noise at every observation ``(n,)``."""
        known = self.data.observations.noise
        n = len(self.data.observations.points)
        return np.full(n, np.exp(2 * self.theta[-1])) if known is None else known

    @cached_property
    def _whole_system(self) -> System:
        return self._make_system(0)

    def _system(self, group: int) -> System:
        return self._whole_system if self.parts.exact else self._make_system(group)

    def _make_system(self, group: int) -> System:
        members, cells = self.parts.around(group)
        observations, bases, values = self.data.observations, self.data.bases, self.data.values[members]
        points, noise = observations.points[members], self._variances()[members]
        own = bases if bases.ndim == 2 else bases[members]
        if len(cells):
            center, middle, means, variances = self._pooled(cells)
            points, values = np.concatenate([points, center]), np.concatenate([values, means])
            noise = np.concatenate([noise, variances])
            own = bases if bases.ndim == 2 else np.concatenate([own, middle])
        seen = Evidence(self.data.sites(points, own), _tensor(values)[..., None], _tensor(noise))
        with torch.no_grad():
            factor = torch.linalg.cholesky(seen.matrix(self.covariance, self._hyper))
            weights = torch.cholesky_solve(seen.columns(self.covariance), factor)
        return System(members, seen.sites, factor, weights)

    def _pooled(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Centres ``(c, D)``, bases there, mean vectors in them ``(c, p)``, and variances of their errors ``(c,)``.

        These are those of a mean of the noise, and of the difference between the mean of the field over a cell and the
        field at its centre.
        """
        observations, bases = self.data.observations, self.data.bases
        index = [self.parts.cells[cell] for cell in cells]
        least = min(map(len, index))
        table = np.stack([cell[:least] for cell in index])  # (c, b)
        centers = self.parts.centers[cells]
        nearest = np.square(observations.points[table] - centers[:, None]).sum(axis=2).argmin(axis=1)
        middle = bases if bases.ndim == 2 else bases[table[np.arange(len(table)), nearest]]
        means = np.stack([self.data.vectors[cell].mean(axis=0) for cell in index])
        noise = np.array([self._variances()[cell].mean() / len(cell) for cell in index])
        flat = self.data.sites(
            np.concatenate([centers[:, None], observations.points[table]], axis=1),
            bases if bases.ndim == 2 else np.concatenate([middle[:, None], bases[table]], axis=1),
        )
        with torch.no_grad():
            blocks = self.covariance(self._hyper[:-1], Pairs(flat, flat))  # (c, p, b + 1, p, b + 1)
            independent = self.covariance.independent
            trace = blocks.mean(1) if independent else blocks.diagonal(dim1=1, dim2=3).mean(-1)  # (c, b + 1, b + 1)
            difference = trace[:, 0, 0] - 2 * trace[:, 0, 1:].mean(1) + trace[:, 1:, 1:].mean((1, 2))
        return centers, middle, _coordinates(middle, means), noise + difference.clamp_min(0.0).numpy()

    def predict(self, places: Places, spread: bool = True) -> Prediction:
        observations, bases = self.data.observations, self.data.bases
        m = len(places.points)
        here = bases if bases.ndim == 2 else places.frames
        p = here.shape[-1]
        values, blocks = np.empty((m, p)), np.zeros((m, p, p))
        away, nearest = observations.tree.query(places.points)

        def work(job: tuple[int, np.ndarray]) -> None:
            group, rows = job
            sites = self.data.sites(places.points[rows], here if here.ndim == 2 else here[rows])
            values[rows], blocks[rows] = self._conditional(self._system(group), sites, spread)

        _run(work, _by_group(self.parts.group_of[nearest]))
        mean, across = _ambient(here, values), np.full(m, self._hidden(self.noise**2))
        known = np.flatnonzero(away == 0.0)
        if self._hidden(0.0) > 0.0 and len(known):  # at observations the field across the bases is measured
            noise = self._variances()[nearest[known]]
            share = self._hidden(noise) / self.data.variance_across
            mean[known] += share[:, None] * self.data.across[nearest[known]]
            across[known] = share * noise
        found = Prediction(mean, here, blocks, across + np.square(values) @ self._angle_variances)
        history = observations.history
        if history is None:
            return found
        missed = history.missed_variance(places.points)
        return replace(found, mean=mean + history.mean(places.points)).widened(missed, 0.0)

    @cached_property
    def _angle_variances(self) -> np.ndarray:
        """Of the angles ``(p,)`` by which axes that were fitted to noisy vectors are off."""
        n, p = self.data.values.shape
        fitted = self.data.bases.ndim == 2 and p < len(self.data.bases)
        return fitted * self.noise**2 / (n * np.maximum(np.square(self.data.values).mean(axis=0), JITTER))

    def _hidden(self, noise: Any) -> Any:
        """The variance of the field across the bases, with noise of these variances."""
        return np.maximum(self.data.variance_across - noise, 0.0)

    def _conditional(self, system: System, sites: Sites, spread: bool) -> tuple[Any, Any]:
        """Mean ``(m, p)`` and covariances ``(m, p, p)`` of the field at sites."""
        m, p = sites.count, sites.dim
        with torch.no_grad():
            cross = stacked(self.covariance(self._hyper[:-1], Pairs(sites, system.sites)))
            mean = (cross @ system.weights).reshape(p, m).T
            if not spread:
                return mean.numpy(), 0.0
            half = torch.linalg.solve_triangular(system.factor, cross.mT, upper=False)
            prior = self.covariance.diagonal(self._hyper[:-1], sites)
        return mean.numpy(), (prior - _products(half, p)).numpy()

    def left_out(self, index: np.ndarray) -> Prediction:
        r"""With :math:`P = (K + N)^{-1}` the error at site i is :math:`P_{ii}^{-1} (P y)_i`, of covariance
        :math:`P_{ii}^{-1}`.
        """
        bases = self.data.bases
        p = bases.shape[-1]
        errors, blocks = np.empty((len(index), p)), np.empty((len(index), p, p))

        def work(job: tuple[int, np.ndarray]) -> None:
            group, rows = job
            errors[rows], blocks[rows] = self._errors(self._system(group), index[rows])

        _run(work, _by_group(self.parts.group_of[index]))
        here = bases if bases.ndim == 2 else bases[index]
        observations, history = self.data.observations, self.data.observations.history
        rest = observations.vectors[index] - self.data.vectors[index]
        mean = _ambient(here, self.data.values[index] - errors) + rest
        found = Prediction(mean, here, blocks, np.full(len(index), self.data.variance_across))
        if history is None:
            return found
        missed = history.missed_variance(observations.points[index], left_out=True)
        return found.widened(missed, 0.0)

    def _errors(self, system: System, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(system.members)
        rows = torch.from_numpy(order[np.searchsorted(system.members, index, sorter=order)])
        p, n, m = system.sites.dim, system.sites.count, len(rows)
        units = torch.zeros(p, n, p, m, dtype=torch.float64)
        units[torch.arange(p)[:, None], rows, torch.arange(p)[:, None], torch.arange(m)] = 1.0
        with torch.no_grad():
            right = units.diagonal(dim1=0, dim2=2).movedim(-1, 0) if self.covariance.independent else stacked(units)
            half = torch.linalg.solve_triangular(system.factor, right, upper=False)
            blocks = torch.linalg.inv(_products(half, p))
            weights = system.weights.reshape(p, n)[:, rows].T
            return (blocks @ weights[:, :, None])[:, :, 0].numpy(), blocks.numpy()


def _products(half: Tensor, p: int) -> Tensor:
    """Sums over rows of products of columns ``(g, N, M)`` that belong to the same of m sites, ``(m, p, p)``."""
    if len(half) == 1:
        columns = half[0].unflatten(1, (p, half.shape[2] // p)).movedim(2, 0)
        return columns.mT @ columns
    return torch.diag_embed(half.square().sum(1).T)


def _by_group(groups: np.ndarray, most: int = 1024) -> Iterator[tuple[int, np.ndarray]]:
    """Each group that occurs, with at most so many of the rows it occurs in at a time."""
    order = np.argsort(groups, kind="stable")
    found, starts = np.unique(groups[order], return_index=True)
    for group, rows in zip(found, np.split(order, starts[1:]), strict=True):
        for start in range(0, len(rows), most):
            yield int(group), rows[start : start + most]


def _run(work: Callable[[Any], None], jobs: Iterator[Any]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(work, jobs):
            pass
