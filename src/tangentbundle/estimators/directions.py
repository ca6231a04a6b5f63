r"""Directions of errors in many dimensions, learnt from vectors that are left out.

A process of independent components along fixed axes knows of no direction that changes from point to point. But a
tangent field is missed more along its tangent spaces than across, and more where it differs from the vectors nearby.
With the process's own variances, S(x) of what the field may be and N(x) of the noise it lets through, errors have

.. math:: C(x) = a\, S + \operatorname{tr} S\, (b\, P / d + c\, Y) + e\, N,

where P projects to the tangent space and Y, of trace one, is the scatter of the nearest vectors about the prediction.
The factors are the likeliest ones for errors of vectors left out one at a time, with a prior around those of the
process itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from .tangents import TangentSpaces

NEAREST = 20
"""Vectors that tell how the field varies."""

ENOUGH = 400
"""Left-out vectors to learn from."""

CENTER, WIDTH = np.array([0.0, -3.0, -3.0, 0.0]), np.array([0.5, 3.0, 3.0, 0.3])
"""Prior of the logarithms of factors: own variance, tangent spaces, scatter, noise."""


@dataclass(frozen=True, eq=False)
class Directions:
    """Factors of the terms above, and what these are made of; vectors are components ``(n, D)`` along ``axes``."""

    spaces: TangentSpaces = field(repr=False)
    axes: np.ndarray = field(repr=False)
    components: np.ndarray = field(repr=False)
    tree: cKDTree = field(repr=False)
    factors: np.ndarray

    @classmethod
    def learn(
        cls,
        spaces: TangentSpaces,
        axes: np.ndarray,
        components: np.ndarray,
        left_out: np.ndarray,
        own: np.ndarray,
        noise: np.ndarray,
        *,
        known_noise: bool,
    ) -> Directions:
        """From errors ``left_out (n, D)`` along the axes, of variances ``own + noise``."""
        n = len(components)
        tree = cKDTree(spaces.points[:n])
        some = np.unique(np.linspace(0, n - 1, min(n, ENOUGH)).astype(int))
        prior = cls(spaces, axes, components, tree, np.exp(CENTER))
        terms = prior._terms(tree.data[some], (components - left_out)[some])
        errors, own, noise = left_out[some], own[some], noise[some]
        free = slice(len(CENTER) - known_noise)

        def made(theta: np.ndarray) -> Directions:
            return replace(prior, factors=np.exp(np.concatenate([theta, CENTER[len(theta) :]])))

        def loss(theta: np.ndarray) -> float:
            distance = np.square((theta - CENTER[free]) / WIDTH[free]).sum()
            return 0.5 * (_minus_log_density(errors, *made(theta)._spread(terms, own, noise)) + distance)

        bounds = [(m - 6, m + 6) for m in CENTER[free]]
        return made(minimize(loss, CENTER[free], method="L-BFGS-B", bounds=bounds).x)

    @property
    def noise(self) -> float:
        """The factor of the noise's variance."""
        return float(self.factors[3])

    def covariance(self, points: np.ndarray, mean: np.ndarray, own: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """``(m, D, D)`` along the axes, of errors of predictions ``mean (m, D)`` with variances ``own + noise``."""
        variance, wide = self._spread(self._terms(points, mean), own, noise)
        return wide @ wide.transpose(0, 2, 1) + variance[:, :, None] * np.eye(own.shape[1])

    def variances(self, points: np.ndarray, mean: np.ndarray, own: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """``(m, D)`` along the coordinates."""
        variance, wide = self._spread(self._terms(points, mean), own, noise)
        return variance @ np.square(self.axes.T) + np.square(self.axes @ wide).sum(axis=2)

    def _spread(
        self, terms: tuple[np.ndarray, np.ndarray], own: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Variances ``(m, D)`` along the axes, and the root ``(m, D, d + k)`` of what is added to them."""
        a, b, c, e = self.factors
        tangent, scatter = terms
        root = np.sqrt(own.sum(axis=1))[:, None, None]
        return a * own + e * noise, root * np.concatenate([np.sqrt(b) * tangent, np.sqrt(c) * scatter], axis=2)

    def _terms(self, points: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Roots ``(m, D, d)`` of P / d, and ``(m, D, k)`` of Y, along the axes; a point's own vector does not count."""
        tangent = np.einsum("ia,mij->maj", self.axes, self.spaces.at(points)) / np.sqrt(self.spaces.dim)
        k = min(NEAREST, len(self.components) - 1)
        away, index = self.tree.query(points, k=k + 1)
        index = np.where(away[:, :1] == 0.0, index[:, 1:], index[:, :-1])
        off = self.components[index] - mean[:, None]
        size = np.sqrt(np.square(off).sum(axis=(1, 2), keepdims=True))
        return tangent, (off / np.maximum(size, np.finfo(float).tiny)).transpose(0, 2, 1)


def _minus_log_density(errors: np.ndarray, variance: np.ndarray, wide: np.ndarray) -> float:
    """Twice that of errors ``(n, D)`` with covariances ``diag(variance) + wide wide^T``, less a constant."""
    scaled = wide / variance[:, :, None]
    inner = np.linalg.cholesky(np.eye(wide.shape[2]) + wide.transpose(0, 2, 1) @ scaled)
    along = np.linalg.solve(inner, np.einsum("nar,na->nr", scaled, errors)[:, :, None])
    volume = np.log(variance).sum() + 2 * np.log(np.einsum("nrr->nr", inner)).sum()
    return float(volume + (np.square(errors) / variance).sum() - np.square(along).sum())
