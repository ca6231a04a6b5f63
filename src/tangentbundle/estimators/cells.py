"""Means of observations over small cells, which stand for them in predictions from far away."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .bases import Bases, FieldInBases
from .covariance import Covariance
from .neighborhoods import Neighborhoods
from .sites import Pairs


class Means(NamedTuple):
    """Means over c cells: centres ``(c, D)``, bases there, ambient vectors ``(c, D)``, and the
    variances ``(c,)`` of a component's error."""

    points: np.ndarray
    bases: Bases
    vectors: np.ndarray
    variances: np.ndarray


@dataclass(eq=False)
class CellMeans:
    r"""Means of vectors over cells, as measurements of the field at the cell's centre.

    The variance of the error of a mean is that of the mean of the noise, and of the difference
    :math:`\sum_j w_j f(x_j) - f(\bar x)` of the field's mean and its value at the centre.
    """

    data: FieldInBases
    neighborhoods: Neighborhoods
    covariance: Covariance
    values: Tensor
    noise_variances: np.ndarray

    def of(self, cells: np.ndarray) -> Means:
        """The means over numbered cells ``(c,)``, each computed once."""
        new = cells[np.isnan(self._variances[cells])]
        if len(new):  # if two threads compute one, both find the same values
            self._compute(new)
        return Means(
            points=self.neighborhoods.centers[cells],
            bases=self.data.bases.at(self._middle[cells]),
            vectors=self._vectors[cells],
            variances=self._variances[cells],
        )

    @cached_property
    def _middle(self) -> np.ndarray:
        """The observation nearest to the centre of each cell."""
        return np.zeros(len(self.neighborhoods.centers), int)

    @cached_property
    def _vectors(self) -> np.ndarray:
        return np.zeros_like(self.neighborhoods.centers)

    @cached_property
    def _variances(self) -> np.ndarray:
        """NaN until computed."""
        return np.full(len(self.neighborhoods.centers), np.nan)

    def _compute(self, cells: np.ndarray) -> None:
        members = self.neighborhoods.table.members[cells]  # (c, b)
        weights = self.neighborhoods.table.weights[cells]
        points = self.data.observations.points[members]
        centers = self.neighborhoods.centers[cells]
        squares = np.square(points - centers[:, None]).sum(axis=2)
        self._middle[cells] = members[np.arange(len(members)), squares.argmin(axis=1)]
        self._vectors[cells] = np.einsum("cb,cbi->ci", weights, self.data.vectors[members])
        noise = (np.square(weights) * self.noise_variances[members]).sum(axis=1)
        traces = self._traces(np.concatenate([centers[:, None], points], axis=1), cells, members)
        signs = np.concatenate([-np.ones((len(cells), 1)), weights], axis=1)
        difference = np.einsum("cj,cjk,ck->c", signs, traces, signs)
        self._variances[cells] = noise + np.maximum(difference, 0.0)

    def _traces(self, points: np.ndarray, cells: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Mean variances of components ``(c, b + 1, b + 1)`` of the field at the centre and at the
        members of each cell, in the basis of the centre: those of other points may be turned."""
        middle = self._middle[cells]
        bases = self.data.bases.at(np.concatenate([middle[:, None], members], axis=1))
        sites = self.data.sites(points, bases)
        with torch.no_grad():
            blocks = self.covariance(self.values, Pairs(sites, sites))
            if self.covariance.independent:
                return blocks.mean(1).numpy()
            carried = sites.each_basis[:, :1].mT @ sites.each_basis
            traces = torch.einsum("cjaq,cqjrk,ckar->cjk", carried, blocks, carried)
        return (traces / sites.dim).numpy()
