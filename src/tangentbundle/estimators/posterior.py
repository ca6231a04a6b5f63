r"""What a Gaussian process knows of a field once it was observed.

With :math:`K + N` the covariance of the observations, P its inverse, the field and left-out errors
are

.. math:: E[f_* | y] = K_* P y, \quad \mathrm{Cov}[f_* | y] = K_{**} - K_* P K_*^T, \qquad
          y_i - E[y_i | y_{-i}] = P_{ii}^{-1} (P y)_i, \quad \mathrm{Cov} = P_{ii}^{-1}.

With many observations those near are used one by one, and those further away as means of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from joblib import cpu_count
from torch import Tensor

from .bases import FieldInBases, as_tensor
from .cells import CellMeans
from .covariance import Covariance
from .likelihood import Evidence, as_matrices, values_and_noise
from .neighborhoods import Neighborhoods
from .observations import JITTER, Places
from .prediction import GaussianPrediction, Posterior
from .sites import Pairs, Sites

ROWS_AT_ONCE = 1024
"""Places that are predicted at a time from one linear system."""

POSITIONS_SAMPLED = 100
"""Observations at which the effect of inexact positions is computed."""


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """The factored ``K + N`` of observations ``members`` one by one, then means of cells."""

    members: np.ndarray
    sites: Sites
    factors: Tensor
    weights: Tensor  # (K + N)^-1 y


@dataclass(eq=False)
class GaussianPosterior(Posterior):
    """A Gaussian process given observations; ``logarithms`` are those of its parameters, the noise
    last.

    ``noise_along`` and ``noise_across`` are variances of the noise of a component, along the bases
    and across them.
    """

    covariance: Covariance
    logarithms: np.ndarray
    data: FieldInBases = field(repr=False)
    neighborhoods: Neighborhoods = field(repr=False)
    parameters: dict[str, float]

    def __post_init__(self) -> None:
        self._values, noise = values_and_noise(self.logarithms)
        known = self.data.observations.noise
        if known is None:
            self.noise = noise
            self.noise_variances = np.full(len(self.data.observations.points), noise**2)
        else:
            self.noise = float(np.sqrt(known.mean()))
            self.noise_variances = known
        # mean squares across the bases, from which it is subtracted, are weighted, too
        self._weighted_noise = self.noise**2
        if known is not None:
            self._weighted_noise = self.data.observations.weighted_noise
        self.noise_across = min(self.noise**2, self.data.variance_across)
        self.noise_along = self.noise**2 - self._variance_of_positions

    # The field at other places

    def predict(self, places: Places, spread: bool = True) -> GaussianPrediction:
        observations = self.data.observations
        bases = self.data.bases.at_places(places)
        count = len(places.points)
        values = np.empty((count, bases.dim))
        blocks = np.zeros((count, bases.dim, bases.dim))
        distances, nearest = observations.tree.query(places.points)

        def predict_rows(system: LinearSystem, rows: np.ndarray) -> None:
            sites = self.data.sites(places.points[rows], bases.at(rows))
            values[rows], blocks[rows] = self._conditional(system, sites, spread)

        self._for_each_system(self.neighborhoods.group_of[nearest], predict_rows)
        mean = bases.ambient(values)
        across = np.full(count, self._variance_across_elsewhere)
        observed = np.flatnonzero(distances == 0.0)
        if not self.data.bases.across_is_noise:
            field_across, across[observed] = self._across_where_observed(nearest[observed])
            mean[observed] += field_across
        angles = self.data.bases.angle_variances(
            self.data.values, observations.weights_of_axes, self.noise_variances
        )
        across += np.square(values) @ angles
        if observations.history is not None:
            mean = mean + observations.history.mean(places.points)
        prediction = GaussianPrediction(mean, bases, blocks, across)
        along = self._variances_of_history(places.points) + self._variance_of_positions
        return prediction.widened(along, 0.0)

    def measurements(self, places: Places) -> GaussianPrediction:
        return self.predict(places).widened(self.noise_along, self.noise_across)

    def _conditional(
        self, system: LinearSystem, sites: Sites, spread: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean ``(m, p)`` and covariances ``(m, p, p)`` of the field at sites."""
        m = sites.count
        p = sites.dim
        with torch.no_grad():
            cross = self._matrices(Pairs(sites, system.sites))
            mean = (cross @ system.weights).reshape(p, m).T
            if not spread:
                return mean.numpy(), np.zeros((m, p, p))
            half = torch.linalg.solve_triangular(system.factors, cross.mT, upper=False)
            prior = self.covariance.diagonal(self._values, sites)
        return mean.numpy(), (prior - _products(half, p)).numpy()

    def _variances_of_history(self, points: np.ndarray) -> np.ndarray | float:
        """Of a component of the field because the history was interpolated to the points."""
        history = self.data.observations.history
        if history is None:
            return 0.0
        # few patterns fit the observations with small amplitudes, however large these are
        observed = float(np.square(self.data.values).mean())
        past = history.variance / self.data.bases.dim
        relative_size = np.sqrt(observed / max(past, JITTER * observed, 1e-300))
        amplitude = max(float(self._values[0]), relative_size)
        return history.variances_between_points(points, amplitude, self.data.bases.dim)

    @property
    def _variance_across_elsewhere(self) -> float:
        """Of each component of the field across the bases, where nothing was observed."""
        if self.data.bases.across_is_noise:
            return 0.0
        return max(self.data.variance_across_elsewhere - self._weighted_noise, 0.0)

    def _across_where_observed(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean ``(m, D)`` and variances ``(m,)`` of the field across the bases at observations,
        where it is measured with noise."""
        total = max(self.data.variance_across, JITTER)
        noise = self.noise_variances[index]
        share = np.maximum(total - noise, 0.0) / total
        return share[:, None] * self.data.across[index], share * noise

    # Measurements that are left out

    def left_out(self, index: np.ndarray) -> GaussianPrediction:
        observations = self.data.observations
        bases = self.data.bases.at(index)
        errors = np.empty((len(index), bases.dim))
        blocks = np.empty((len(index), bases.dim, bases.dim))

        def leave_out_rows(system: LinearSystem, rows: np.ndarray) -> None:
            errors[rows], blocks[rows] = self._left_out_errors(system, index[rows])

        self._for_each_system(self.neighborhoods.group_of[index], leave_out_rows)
        history_mean = observations.vectors[index] - self.data.vectors[index]
        mean = bases.ambient(self.data.values[index] - errors)
        across = self._across_left_out(self.data.variance_across, index)
        prediction = GaussianPrediction(mean, bases, blocks, across)
        if not self.data.bases.across_is_noise:
            prediction = self._in_bases_elsewhere(prediction, index)
        return GaussianPrediction(
            prediction.mean + history_mean, prediction.bases, prediction.blocks, prediction.across
        )

    def _across_left_out(self, mean_variance: float, index: np.ndarray) -> np.ndarray:
        """Variances ``(m,)`` of measurements across the bases, each with its own noise in the place
        of the mean one."""
        if self._weighted_noise == 0.0:
            return np.full(len(index), mean_variance)
        share = min(mean_variance / self._weighted_noise, 1.0)
        return mean_variance + share * (self.noise_variances[index] - self._weighted_noise)

    def _in_bases_elsewhere(
        self, prediction: GaussianPrediction, index: np.ndarray
    ) -> GaussianPrediction:
        """Along bases that are made from the other points, as at a new point."""
        frames = self.data.observations.places_left_out.frames[index]
        projected = prediction.tangent(frames)
        across = self._across_left_out(self.data.variance_across_elsewhere, index)
        return GaussianPrediction(projected.mean, projected.bases, projected.blocks, across)

    def _left_out_errors(
        self, system: LinearSystem, index: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Errors ``(m, p)`` and their covariances ``(m, p, p)`` of observations of a system."""
        order = np.argsort(system.members)
        rows = torch.from_numpy(order[np.searchsorted(system.members, index, sorter=order)])
        p = system.sites.dim
        n = system.sites.count
        m = len(rows)
        components = torch.arange(p)
        with torch.no_grad():
            if self.covariance.independent:
                units = torch.zeros(p, n, m, dtype=torch.float64)
                units[:, rows, torch.arange(m)] = 1.0
            else:
                units = torch.zeros(p, n, p, m, dtype=torch.float64)
                units[components[:, None], rows, components[:, None], torch.arange(m)] = 1.0
            columns = as_matrices(units, self.covariance.independent)
            half = torch.linalg.solve_triangular(system.factors, columns, upper=False)
            blocks = torch.linalg.inv(_products(half, p))
            weights = system.weights.reshape(p, n)[:, rows].T
            errors = (blocks @ weights[:, :, None])[:, :, 0]
        return errors.numpy(), blocks.numpy()

    # Linear systems

    def _for_each_system(
        self, groups: np.ndarray, work: Callable[[LinearSystem, np.ndarray], None]
    ) -> None:
        """Call ``work(system, rows)`` on several threads, with the rows of ``groups (m,)`` that
        have one system."""
        if self.neighborhoods.exact:
            for _, rows in _by_group(groups):
                work(self._exact_system, rows)
            return
        with ThreadPoolExecutor(cpu_count()) as pool:
            jobs = [
                pool.submit(lambda g, r: work(self._system(g), r), group, rows)
                for group, rows in _by_group(groups)
            ]
            for job in jobs:
                job.result()

    @cached_property
    def _exact_system(self) -> LinearSystem:
        return self._system(0)

    def _system(self, group: int) -> LinearSystem:
        members, cells = self.neighborhoods.around(group)
        points = self.data.observations.points[members]
        bases = self.data.bases.at(members)
        values = self.data.values[members]
        variances = self.noise_variances[members]
        if len(cells):
            means = self._cell_means.of(cells)
            points = np.concatenate([points, means.points])
            bases = bases.beside(means.bases)
            values = np.concatenate([values, means.bases.coordinates(means.vectors)])
            variances = np.concatenate([variances, means.variances])
        sites = self.data.sites(points, bases)
        evidence = Evidence(sites, as_tensor(values)[..., None], as_tensor(variances))
        independent = self.covariance.independent
        with torch.no_grad():
            blocks = self.covariance(self._values, evidence.pairs)
            factors = torch.linalg.cholesky(evidence.matrices(blocks, independent, self.noise))
            weights = torch.cholesky_solve(evidence.columns(independent), factors)
        return LinearSystem(members, sites, factors, weights)

    @cached_property
    def _cell_means(self) -> CellMeans:
        return CellMeans(
            data=self.data,
            neighborhoods=self.neighborhoods,
            covariance=self.covariance,
            values=self._values,
            noise_variances=self.noise_variances,
        )

    def _matrices(self, pairs: Pairs) -> Tensor:
        return as_matrices(self.covariance(self._values, pairs), self.covariance.independent)

    @cached_property
    def _variance_of_positions(self) -> float:
        """Of a component of the field because points are inexact: part of what is estimated as
        noise."""
        observations = self.data.observations
        if observations.position_variance == 0.0:
            return 0.0
        last = len(observations.points) - 1
        index = np.unique(np.linspace(0, last, POSITIONS_SAMPLED).astype(int))
        points = observations.points[index, None]  # batches of one site
        bases = self.data.bases.at(index[:, None])
        moves = np.random.default_rng(0).standard_normal(points.shape)
        moved = points + np.sqrt(observations.position_variance) * moves
        here = self.data.sites(points, bases)
        there = self.data.sites(moved, bases)
        with torch.no_grad():
            own = self._matrices(Pairs(here, here)) + self._matrices(Pairs(there, there))
            difference = own - 2 * self._matrices(Pairs(here, there))
        variance = float(difference.diagonal(dim1=-2, dim2=-1).mean())
        return min(max(variance, 0.0), self.noise**2)


def _products(half: Tensor, p: int) -> Tensor:
    """Sums over rows of products of columns ``(g, N, M)`` that belong to the same of m sites,
    ``(m, p, p)``."""
    if len(half) == 1:
        columns = half[0].unflatten(1, (p, half.shape[2] // p)).movedim(2, 0)
        return columns.mT @ columns
    return torch.diag_embed(half.square().sum(1).T)


def _by_group(groups: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each group that occurs, with the rows it occurs in, a limited number at a time."""
    order = np.argsort(groups, kind="stable")
    occurring, starts = np.unique(groups[order], return_index=True)
    for group, rows in zip(occurring, np.split(order, starts[1:]), strict=True):
        for start in range(0, len(rows), ROWS_AT_ONCE):
            yield int(group), rows[start : start + ROWS_AT_ONCE]
