r"""Likelihoods of independent processes that share one correlation, through its eigenvectors.

With :math:`K = V \Lambda V^T` the components :math:`y_a \sim N(0, \alpha_a K + s I)` have

.. math:: -\log p = \tfrac12 \sum_{a,i} \Big[\log D_{ai} + \frac{(v_i \cdot y_a)^2}{D_{ai}}\Big] + \text{const},
          \qquad D_{ai} = \alpha_a \lambda_i + s,

so that one decomposition serves all sizes :math:`\alpha_a`, all noise levels s, and all fields at the same points.
Lengths, one for each principal axis of the points, are therefore sought on a lattice of logarithms, whose
decompositions are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

LENGTHS = range(-8, 15, 4)
"""The lattice's first tries, in steps, the same for all axes."""

STEP = 0.25
AXES = 4

START, WIDTH, UNEQUAL = -1.0, 3.0, 1.0
"""Prior of logarithms of lengths: mean and width of their mean, width of their differences from it."""

KEPT_BYTES = 2**28
LEAST = 1e-8
"""Added to the diagonal, in units of the data's variance."""


def matern(squared: np.ndarray, smoothness: float) -> np.ndarray:
    """The Matern correlation at squared distances in units of its length.

    >>> matern(np.array([0.0, 1.0]), np.inf).round(4).tolist()
    [1.0, 0.6065]
    """
    if smoothness == np.inf:
        return np.exp(-np.minimum(squared / 2, 150.0))  # below that numbers are denormal, and slow
    s = np.sqrt(2 * smoothness * squared)
    factor = {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s * s / 3}[smoothness]
    return factor * np.exp(-s)


@dataclass(frozen=True)
class Shape:
    """A correlation: its smoothness, and lengths in steps of the lattice, one for each group of axes."""

    smoothness: float
    steps: tuple[int, ...]

    def moved(self, move: tuple[int, ...]) -> Shape:
        return Shape(self.smoothness, tuple(a + b for a, b in zip(self.steps, move, strict=True)))

    @property
    def penalty(self) -> float:
        """Minus the logarithm of the prior of its lengths."""
        logs = STEP * np.array(self.steps)
        mean = float(logs.mean())
        return 0.5 * ((mean - START) / WIDTH) ** 2 + 0.5 * float(np.square((logs - mean) / UNEQUAL).sum())


class Correlations:
    """Correlations of points ``(n, D)``, in units in which their root mean square distance from the centre is one.

    ``noise (n,)``, if known, are variances: decomposed is then :math:`N^{-1/2} K N^{-1/2}`. The first ``axes``
    principal axes have a length of their own, further ones share one.
    """

    def __init__(self, points: np.ndarray, noise: np.ndarray | None = None, axes: int = AXES) -> None:
        self.center = points.mean(axis=0)
        centred = points - self.center
        self.unit = float(np.sqrt(np.square(centred).sum(axis=1).mean())) or 1.0
        self.axes = np.linalg.svd(centred, full_matrices=False)[2].T / self.unit
        self.root = np.ones(len(points)) if noise is None else np.sqrt(noise + LEAST)
        self.places = centred @ self.axes
        self.groups = min(self.axes.shape[1], axes + 1)
        self._kept: OrderedDict[Shape, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": OrderedDict()}

    def stretched(self, places: np.ndarray, shape: Shape) -> np.ndarray:
        """Places along the axes in units of the lengths."""
        steps = np.array([*shape.steps, *[shape.steps[-1]] * (self.axes.shape[1] - self.groups)])
        return places * np.exp(-STEP * steps)

    def cross(self, points: np.ndarray, shape: Shape) -> np.ndarray:
        """Correlations ``(m, n)`` of other points with these, divided by the noise's size at these."""
        there = self.stretched((points - self.center) @ self.axes, shape)
        return matern(cdist(there, self.stretched(self.places, shape), "sqeuclidean"), shape.smoothness) / self.root

    def decomposed(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues ``(n,)`` and eigenvectors ``(n, n)``."""
        if shape not in self._kept:
            place = self.stretched(self.places, shape)
            matrix = matern(cdist(place, place, "sqeuclidean"), shape.smoothness) / np.outer(self.root, self.root)
            values, vectors = eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
            self._kept[shape] = np.maximum(values, 0.0), vectors
            while len(self._kept) > max(1, KEPT_BYTES // vectors.nbytes):
                self._kept.popitem(last=False)
        self._kept.move_to_end(shape)
        return self._kept[shape]

    def profile(self, shape: Shape, values: np.ndarray, prior: Prior, start: np.ndarray | None = None) -> Profile:
        """The most likely sizes and noise for components ``values (n, c)``; one size for all if the prior has one."""
        spectrum, vectors = self.decomposed(shape)
        powers = np.square(vectors.T @ (values / self.root[:, None]))
        if len(prior.center) == 2:
            spectrum, powers = np.repeat(spectrum, powers.shape[1]), powers.reshape(-1, 1)
        return Profile.of(shape, spectrum, powers, prior, start)

    def best(self, smoothness: tuple[float, ...], values: np.ndarray, prior: Prior) -> Profile:
        """The most likely of all: a scan of equal lengths for each smoothness, then moves on the lattice."""
        scan = (Shape(nu, (k,) * self.groups) for nu in smoothness for k in LENGTHS)
        best = min((self.profile(shape, values, prior) for shape in scan), key=lambda p: p.loss)
        for size in (2, 1):
            best = self._descend(best, size, values, prior)
        return best

    def _descend(self, best: Profile, size: int, values: np.ndarray, prior: Prior) -> Profile:
        """Moves of one size, of all lengths together or one at a time, while they help."""
        moved = True
        while moved:
            moved = False
            for move in moves(self.groups, size):
                trial = self.profile(best.shape.moved(move), values, prior, best.theta)
                if trial.loss < best.loss - 1e-3:
                    best, moved = trial, True
        return best


def moves(groups: int, size: int) -> Iterator[tuple[int, ...]]:
    """All lengths together, then one at a time, up and down.

    >>> list(moves(2, 1))
    [(1, 1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1)]
    """
    for k in range(-1, groups if groups > 1 else 0):
        for sign in (size, -size):
            yield tuple(sign if k < 0 or k == j else 0 for j in range(groups))


@dataclass(frozen=True)
class Prior:
    """Weak normal priors of logarithms of standard deviations: means ``(c + 1,)``, the noise last, and their width.

    A known noise is held at its mean: one, in units of what is known.
    """

    center: np.ndarray
    width: float = WIDTH
    known_noise: bool = False


@dataclass(frozen=True)
class Profile:
    """A shape with its most likely logarithms ``theta (c + 1,)`` of standard deviations, and minus the log posterior.

    ``density`` is the log density of the values, in units of the known noise where there is one.
    """

    shape: Shape
    theta: np.ndarray
    loss: float
    density: float
    spectrum: np.ndarray = field(repr=False)

    @classmethod
    def of(
        cls, shape: Shape, spectrum: np.ndarray, powers: np.ndarray, prior: Prior, start: np.ndarray | None = None
    ) -> Profile:
        """By Fisher scoring; ``powers (n, c)`` are squared coefficients of the components."""
        theta = prior.center if start is None else start
        loss = likelihood(theta, spectrum, powers) + _distance(theta, prior)
        for _ in range(60):
            gradient, fisher = slope(theta, spectrum, powers)
            gradient += (theta - prior.center) / prior.width**2
            fisher += np.eye(len(theta)) / prior.width**2
            if prior.known_noise:
                gradient, fisher = gradient[:-1], fisher[:-1, :-1]
            step = np.zeros_like(theta)
            step[: len(gradient)] = np.clip(-np.linalg.solve(fisher, gradient), -1.5, 1.5)
            for _ in range(12):
                new = likelihood(theta + step, spectrum, powers) + _distance(theta + step, prior)
                if new < loss:
                    break
                step /= 3
            else:
                break
            theta, gain, loss = theta + step, loss - new, new
            if gain < 1e-4:
                break
        return cls(shape, theta, loss + shape.penalty, -likelihood(theta, spectrum, powers), spectrum)

    @property
    def noise(self) -> float:
        """The noise's variance."""
        return float(np.exp(2 * self.theta[-1])) + LEAST

    @property
    def sizes(self) -> np.ndarray:
        """The components' variances ``(c,)``."""
        return np.exp(2 * self.theta[:-1])


def _distance(theta: np.ndarray, prior: Prior) -> float:
    return 0.5 * float(np.square((theta - prior.center) / prior.width).sum())


def likelihood(theta: np.ndarray, spectrum: np.ndarray, powers: np.ndarray) -> float:
    """Minus the log density."""
    variance = np.outer(spectrum, np.exp(2 * theta[:-1])) + np.exp(2 * theta[-1]) + LEAST
    return 0.5 * float((np.log(2 * np.pi * variance) + powers / variance).sum())


def slope(theta: np.ndarray, spectrum: np.ndarray, powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradient ``(c + 1,)`` of minus the log density, and Fisher's information ``(c + 1, c + 1)``."""
    signal, noise = np.outer(spectrum, np.exp(2 * theta[:-1])), float(np.exp(2 * theta[-1]))
    variance = signal + noise + LEAST
    excess = (1 - powers / variance) / variance
    ratio, white = signal / variance, noise / variance
    gradient = np.append((signal * excess).sum(axis=0), noise * excess.sum())
    own, both = 2 * np.square(ratio).sum(axis=0), 2 * (ratio * white).sum(axis=0)
    fisher = np.diag(np.append(own, 2 * np.square(white).sum()))
    fisher[-1, :-1] = fisher[:-1, -1] = both
    return gradient, fisher
