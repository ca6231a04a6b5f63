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
from typing import Any

import numpy as np
import torch
from joblib import cpu_count
from torch import Tensor

from .bases import FieldInBases, ambient_of, as_tensor, coordinates_in, enough_for_axes
from .covariance import Covariance
from .likelihood import Evidence, stacked
from .neighborhoods import Neighborhoods
from .observations import JITTER, Places, Posterior, Prediction
from .sites import Pairs, Sites


@dataclass(frozen=True, eq=False)
class System:
    """The linear system of a group: observations ``members`` one by one, then means of cells."""

    members: np.ndarray
    sites: Sites
    factor: Tensor
    weights: Tensor


@dataclass(eq=False)
class GaussianPosterior(Posterior):
    """A Gaussian process given observations; ``theta`` are the logarithms of its parameters, the
    noise last."""

    covariance: Covariance
    theta: np.ndarray
    data: FieldInBases = field(repr=False)
    parts: Neighborhoods = field(repr=False)
    parameters: dict[str, float]

    def __post_init__(self) -> None:
        known, n = self.data.observations.noise, len(self.data.observations.points)
        self._hyper = torch.from_numpy(self.theta)
        self._variances = (
            np.full(n, np.exp(2 * self.theta[-1])) if known is None else known
        )  # of the noise (n,)
        self.noise = (
            float(np.exp(self.theta[-1])) if known is None else float(np.sqrt(known.mean()))
        )
        self.noise_across = min(self.noise**2, self.data.variance_across)
        self.noise_along = self.noise**2 - self._variance_of_positions

    @cached_property
    def _variance_of_positions(self) -> float:
        """Of a component of the field because points are inexact: part of what is estimated as
        noise."""
        observations = self.data.observations
        if observations.position_variance == 0.0:
            return 0.0
        index = np.unique(np.linspace(0, len(observations.points) - 1, 100).astype(int))
        points, bases = observations.points[index], self.data.bases
        bases = bases if bases.ndim == 2 else bases[index, None]
        moves = np.sqrt(observations.position_variance) * np.random.default_rng(0).standard_normal(
            points.shape
        )
        a, b = (self.data.sites(where[:, None], bases) for where in (points, points + moves))
        with torch.no_grad():
            here, there, both = (
                self.covariance(self._hyper[:-1], Pairs(*two)) for two in ((a, a), (b, b), (a, b))
            )
            blocks = stacked(here + there - 2 * both, self.covariance.independent)
        return min(max(float(blocks.diagonal(dim1=-2, dim2=-1).mean()), 0.0), self.noise**2)

    @cached_property
    def _full_system(self) -> System:
        return self._make_system(0)

    def _solve(self, groups: np.ndarray, work: Callable[[System, np.ndarray], None]) -> None:
        """Call ``work(system, rows)`` on several threads, with the rows of ``groups (m,)`` that
        have one system."""
        full = (
            self._full_system if self.parts.exact else None
        )  # made here once, and not by several threads
        with ThreadPoolExecutor(cpu_count()) as pool:
            list(
                pool.map(
                    lambda job: work(full or self._make_system(job[0]), job[1]), _by_group(groups)
                )
            )

    def _make_system(self, group: int) -> System:
        members, cells = self.parts.around(group)
        observations, bases, values = (
            self.data.observations,
            self.data.bases,
            self.data.values[members],
        )
        points, noise = observations.points[members], self._variances[members]
        own = bases if bases.ndim == 2 else bases[members]
        if len(cells):
            center, middle, means, variances = self._pooled(cells)
            points, values = np.concatenate([points, center]), np.concatenate([values, means])
            noise = np.concatenate([noise, variances])
            own = bases if bases.ndim == 2 else np.concatenate([own, middle])
        evidence = Evidence(
            self.data.sites(points, own), as_tensor(values)[..., None], as_tensor(noise)
        )
        with torch.no_grad():
            blocks, alone = (
                self.covariance(self._hyper[:-1], evidence.pairs),
                self.covariance.independent,
            )
            factor = torch.linalg.cholesky(evidence.matrix(blocks, alone, self._hyper[-1]))
            weights = torch.cholesky_solve(evidence.columns(alone), factor)
        return System(members, evidence.sites, factor, weights)

    @cached_property
    def _pool(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Middle points ``(c,)``, mean ambient vectors ``(c, D)`` and variances ``(c,)`` of cells,
        NaN until needed."""
        count, D = self.parts.centers.shape
        return np.zeros(count, int), np.zeros((count, D)), np.full(count, np.nan)

    def _pooled(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Centres ``(c, D)``, bases there, mean vectors in them ``(c, p)``, and variances of their
        errors ``(c,)``."""
        nearest, means, variances = self._pool
        new = cells[np.isnan(variances[cells])]
        if len(new):  # one that two threads find new has the same values from both
            nearest[new], means[new], variances[new] = self._pool_cells(new)
        middle = self.data.bases if self.data.bases.ndim == 2 else self.data.bases[nearest[cells]]
        return (
            self.parts.centers[cells],
            middle,
            coordinates_in(middle, means[cells]),
            variances[cells],
        )

    def _pool_cells(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The variances are those of a mean of the noise, and of the difference between the mean of
        the field over a cell and the field at its centre.
        """
        observations, bases = self.data.observations, self.data.bases
        table, weights = (a[cells] for a in self.parts.table)  # (c, b)
        points, centers = observations.points[table], self.parts.centers[cells]
        nearest = table[
            np.arange(len(table)), np.square(points - centers[:, None]).sum(axis=2).argmin(axis=1)
        ]
        means = np.einsum("cb,cbi->ci", weights, self.data.vectors[table])
        noise = (np.square(weights) * self._variances[table]).sum(axis=1)
        flat = self.data.sites(
            np.concatenate([centers[:, None], points], axis=1),
            bases if bases.ndim == 2 else bases[np.concatenate([nearest[:, None], table], axis=1)],
        )
        with torch.no_grad():
            blocks = self.covariance(self._hyper[:-1], Pairs(flat, flat))  # (c, p, b + 1, p, b + 1)
            if self.covariance.independent:
                trace = blocks.mean(1)  # (c, b + 1, b + 1)
            else:  # of vectors in the basis of the centre: those of other points may be turned
                carried = torch.eye(flat.dim, dtype=torch.float64).expand(
                    *flat.points.shape[:-1], -1, -1
                )
                carried = carried if flat.constant else flat.bases[:, :1].mT @ flat.bases
                trace = torch.einsum("cjaq,cqjrk,ckar->cjk", carried, blocks, carried) / flat.dim
        signs = np.concatenate([-np.ones((len(cells), 1)), weights], axis=1)
        difference = np.einsum("cj,cjk,ck->c", signs, trace.numpy(), signs)
        return nearest, means, noise + np.maximum(difference, 0.0)

    def predict(self, places: Places, spread: bool = True) -> Prediction:
        observations, bases = self.data.observations, self.data.bases
        m = len(places.points)
        here = bases if bases.ndim == 2 else places.frames
        p = here.shape[-1]
        values, blocks = np.empty((m, p)), np.zeros((m, p, p))
        away, nearest = observations.tree.query(places.points)

        def work(system: System, rows: np.ndarray) -> None:
            sites = self.data.sites(places.points[rows], here if here.ndim == 2 else here[rows])
            values[rows], blocks[rows] = self._conditional(system, sites, spread)

        self._solve(self.parts.group_of[nearest], work)
        mean, across = ambient_of(here, values), np.full(m, self._field_across(self.noise**2))
        known = np.flatnonzero(away == 0.0)
        if self._field_across(0.0) > 0.0 and len(
            known
        ):  # at observations the field across the bases is measured
            noise = self._variances[nearest[known]]
            share = self._field_across(noise) / self.data.variance_across
            mean[known] += share[:, None] * self.data.across[nearest[known]]
            across[known] = share * noise
        across += np.square(values) @ self._angle_variances
        if observations.history is not None:
            mean = mean + observations.history.mean(places.points)
        return Prediction(mean, here, blocks, across).widened(self._variance_of_positions, 0.0)

    @cached_property
    def _angle_variances(self) -> np.ndarray:
        """Of the angles ``(p,)`` by which axes that were fitted to noisy vectors are off."""
        n, p = self.data.values.shape
        D = self.data.bases.shape[-2]
        fitted = self.data.bases.ndim == 2 and p < D and enough_for_axes(n, D)
        return (
            fitted
            * self.noise**2
            / (n * np.maximum(np.square(self.data.values).mean(axis=0), JITTER))
        )

    def _field_across(self, noise: Any) -> Any:
        """The variance of the field across the bases, with noise of these variances: none where all
        there is noise."""
        return np.maximum(self.data.variance_across - noise, 0.0) * (not self.data.white_across)

    def _conditional(self, system: System, sites: Sites, spread: bool) -> tuple[Any, Any]:
        """Mean ``(m, p)`` and covariances ``(m, p, p)`` of the field at sites."""
        m, p = sites.count, sites.dim
        with torch.no_grad():
            cross = stacked(
                self.covariance(self._hyper[:-1], Pairs(sites, system.sites)),
                self.covariance.independent,
            )
            mean = (cross @ system.weights).reshape(p, m).T
            if not spread:
                return mean.numpy(), 0.0
            half = torch.linalg.solve_triangular(system.factor, cross.mT, upper=False)
            prior = self.covariance.diagonal(self._hyper[:-1], sites)
        return mean.numpy(), (prior - _products(half, p)).numpy()

    def left_out(self, index: np.ndarray) -> Prediction:
        bases = self.data.bases
        p = bases.shape[-1]
        errors, blocks = np.empty((len(index), p)), np.empty((len(index), p, p))

        def work(system: System, rows: np.ndarray) -> None:
            errors[rows], blocks[rows] = self._errors(system, index[rows])

        self._solve(self.parts.group_of[index], work)
        here = bases if bases.ndim == 2 else bases[index]
        rest = self.data.observations.vectors[index] - self.data.vectors[index]
        mean = ambient_of(here, self.data.values[index] - errors) + rest
        return Prediction(mean, here, blocks, np.full(len(index), self.data.variance_across))

    def _errors(self, system: System, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(system.members)
        rows = torch.from_numpy(order[np.searchsorted(system.members, index, sorter=order)])
        p, n, m = system.sites.dim, system.sites.count, len(rows)
        units = torch.zeros(p, n, p, m, dtype=torch.float64)
        units[torch.arange(p)[:, None], rows, torch.arange(p)[:, None], torch.arange(m)] = 1.0
        with torch.no_grad():
            alone = self.covariance.independent
            right = stacked(
                units.diagonal(dim1=0, dim2=2).movedim(-1, 0) if alone else units, alone
            )
            half = torch.linalg.solve_triangular(system.factor, right, upper=False)
            blocks = torch.linalg.inv(_products(half, p))
            weights = system.weights.reshape(p, n)[:, rows].T
            return (blocks @ weights[:, :, None])[:, :, 0].numpy(), blocks.numpy()


def _products(half: Tensor, p: int) -> Tensor:
    """Sums over rows of products of columns ``(g, N, M)`` that belong to the same of m sites,
    ``(m, p, p)``."""
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
