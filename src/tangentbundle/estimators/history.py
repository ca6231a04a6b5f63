r"""Covariances learned from past fields.

The anomalies :math:`a_t` of T past fields about their mean :math:`\mu` give the localised empirical covariance
:math:`\frac1T \sum_t a_t(x) a_t(y)^T \rho(|x - y|/L)`, with Gaspari and Cohn's taper :math:`\rho` (1999), which is
zero from 2 L on. A parametric covariance scaled by the anomalies' local size fills in what T samples cannot tell, and
a slowly varying factor of the mean allows for a change of season; ``seasons`` says what is expected of the mean then.

Nearby places have similar statistics, so that T fields tell more than T samples of each: a shifted field is another
sample. With displacements h, normalised anomalies :math:`\tilde a_t = a_t / s` of local size one, and
:math:`x + h` for x moved along its tangent space by h's tangent part,

.. math:: a_{t,h}(x) = B(x)\, O_x^T\, \tilde a_t(x + h), \qquad
          C(x, y) = \frac{1}{M} \sum_{t,h} a_{t,h}(x) a_{t,h}(y)^T ,

where B(x) makes C(x, x) what it is without displacements: these tell of correlations, not of local sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..errors import NonFiniteError, ShapeError
from .covariance import Covariance, Sites, blocks, distances, pairs
from .seasons import change
from .tangents import evenly
from .zonal import Axis

LEAST = 8
"""Fewest past fields."""

MEMBERS, COPIES, TURNS = 2000, 12, 8
"""Past fields and shifted ones wanted in all, shifted ones of each field at most, and sets of displacements."""


def gaspari_cohn(z: torch.Tensor) -> torch.Tensor:
    """The compactly supported correlation of Gaspari and Cohn, equation (4.10): one at 0, zero from 2 on.

    >>> (24 * gaspari_cohn(torch.tensor([0.0, 1.0, 2.0]))).round().tolist()
    [24.0, 5.0, 0.0]
    """
    near = 1 + z.square() * (-5 / 3 + z * (5 / 8 + z * (1 / 2 - z / 4)))
    w = z.clamp(1.0, 2.0)
    far = 4 + w * (-5 + w * (5 / 3 + w * (5 / 8 + w * (-1 / 2 + w / 12)))) - 2 / (3 * w)
    return torch.where(z < 1, near, torch.where(z < 2, far, torch.zeros_like(z)))


@dataclass(frozen=True)
class Empirical(Covariance):
    r"""The localised empirical covariance :math:`\sigma^2 \rho(|x_i - x_j|/L) \frac1T \sum_t a_{ti} a_{tj}^T`."""

    names = ("amplitude", "length")
    start = (0.0, -0.7)

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        taper = gaspari_cohn(distances(a, b) * torch.exp(-theta[1]))
        return torch.exp(2 * theta[0]) * blocks(taper, a.dim) * pairs(a, b).together

    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        assert a.past is not None
        return torch.exp(2 * theta[0]) * torch.einsum("tnd,tne->nde", a.past, a.past) / len(a.past)


@dataclass(frozen=True)
class Modulated(Covariance):
    """Another covariance times the local size of past anomalies at both sites."""

    base: Covariance

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.base.names

    @property
    def start(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.base.start

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        return self.base(theta, a, b) * blocks(a.size[:, None] * b.size, a.dim)

    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        return self.base.diagonal(theta, a) * a.size.square()[:, None, None]


def learned(base: Covariance, axis: Axis | None = None) -> Covariance:
    """The covariance used with a history: empirical, a modulated ``base``, and changes of season."""
    return Empirical() + Modulated(base) + change(axis)


@dataclass(frozen=True, eq=False)
class Past:
    """Past ambient fields ``(T, m, D)`` at points ``(m, D)``, their mean ``(m, D)`` and a search tree of the points.

    ``shifts (g, s, D)``, if given, are displacements: field t is seen with those of set t modulo g, too. ``expected
    (m, D)`` is the mean that is expected now, if it is another one.
    """

    points: np.ndarray
    fields: np.ndarray
    mean: np.ndarray
    tree: cKDTree
    shifts: np.ndarray | None = None
    expected: np.ndarray | None = None

    @classmethod
    def of(cls, points: np.ndarray, fields: np.ndarray) -> Past:
        fields = np.asarray(fields, dtype=float)
        if fields.ndim != 3 or fields.shape[1:] != points.shape:
            raise ShapeError(
                f"history must have shape (T, m, D) = (T, {points.shape[0]}, {points.shape[1]}), past ambient vectors "
                f"at the history_points (default: the training points), got {fields.shape}."
            )
        if len(fields) < LEAST:
            raise ShapeError(f"a covariance needs at least {LEAST} past fields, got {len(fields)}. Give more, or none.")
        if not np.isfinite(fields).all():
            raise NonFiniteError("history holds NaN or infinite values. Drop those fields, or fill them.")
        return cls(points, fields, fields.mean(axis=0), cKDTree(points))

    def scaled(self, factor: float) -> Past:
        return replace(self, fields=self.fields * factor, mean=self.mean * factor)

    def part(self, times: slice) -> Past:
        """The past of some times only."""
        return Past.of(self.points, self.fields[times])

    def spread(self, count: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """Some of the points, drawn evenly over the manifold of dimension ``d`` however dense they are."""
        m = len(self.points)
        if m <= count:
            return np.arange(m)
        return np.sort(rng.choice(m, count, replace=False, p=evenly(self.tree, d)))

    def interpolate(self, points: np.ndarray, fields: np.ndarray) -> np.ndarray:
        """Ambient fields ``(T, m, D)`` at other points ``(T, n, D)``, from their four nearest."""
        weights, index = self._nearest(points)
        out = np.zeros((len(fields), len(points), fields.shape[2]))
        for j in range(index.shape[1]):
            out += weights[None, :, j, None] * fields[:, index[:, j]]
        return out

    def _nearest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights and numbers ``(n, k)`` of the four nearest history points."""
        k = min(4, len(self.points))
        away, index = (a.reshape(len(points), k) for a in self.tree.query(points, k=k))
        weights = 1.0 / np.maximum(np.square(away), 1e-24 * max(float(np.square(away).max()), 1e-300))
        return weights / weights.sum(axis=1, keepdims=True), index

    @cached_property
    def normalised(self) -> list[np.ndarray]:
        """Normalised anomalies ``(m, D, T')``, those of each set of displacements."""
        assert self.shifts is not None
        anomalies, sets = normalised((self.fields - self.mean).transpose(1, 2, 0)), len(self.shifts)
        return [np.ascontiguousarray(anomalies[:, :, turn::sets]) for turn in range(sets)]

    def shifted(self, reach: float, d: int, rng: np.random.Generator) -> Past:
        """Seen also with random displacements of up to about ``reach`` along the manifold of dimension ``d``.

        >>> import tangentbundle as tb
        >>> points, rng = tb.manifolds.Sphere(2).sample(50, seed=0), np.random.default_rng(0)
        >>> Past.of(points, rng.standard_normal((20, 50, 3))).shifted(0.3, 2, rng).shifts.shape
        (8, 12, 3)
        """
        D, half = self.points.shape[1], min(COPIES, MEMBERS // len(self.fields)) // 2
        if not half:
            return self
        radii = (np.arange(half) + (np.arange(TURNS)[:, None] + 0.5) / TURNS) * reach / half
        bases = np.linalg.qr(rng.standard_normal((TURNS, -(-half // D), D, D)))[0].reshape(TURNS, -1, D)[:, :half]
        vectors = np.sqrt(D / d) * radii[:, :, None] * bases
        return replace(self, shifts=np.concatenate([vectors, -vectors], axis=1))

    def attach(self, sites: Sites, points: np.ndarray) -> Sites:
        """The sites with past anomalies and mean in their bases."""
        frames = sites.frames.numpy()
        values = np.einsum("nij,tni->tnj", frames, self.interpolate(points, self.fields))
        mean = expected = values.mean(axis=0)
        values -= mean
        if self.expected is not None:
            expected = np.einsum("nij,ni->nj", frames, self.interpolate(points, self.expected[None])[0])
        if self.shifts is not None:
            same = normalised(values.transpose(1, 2, 0)).transpose(2, 0, 1)
            values = recoloured(np.concatenate([same, *self._displaced(points, frames)]), values)
        known = {"past": values, "mean": mean, "expected": expected}
        return replace(sites, **{k: torch.from_numpy(v) for k, v in known.items()})

    def _displaced(self, points: np.ndarray, frames: np.ndarray) -> Iterator[np.ndarray]:
        """Normalised anomalies of displaced points, in the bases of the points themselves."""
        assert self.shifts is not None
        for vectors, fields in zip(self.shifts, self.normalised, strict=True):
            for vector in vectors:
                there = points + (frames @ np.einsum("nij,i->nj", frames, vector)[:, :, None])[:, :, 0]
                weights, index = self._nearest(there)
                moved: Any = sum(w[:, None, None] * fields[i] for w, i in zip(weights.T, index.T, strict=True))
                yield (frames.transpose(0, 2, 1) @ moved).transpose(2, 0, 1)


def normalised(anomalies: np.ndarray) -> np.ndarray:
    """Vectors ``(m, D, T)`` over their root mean square length at each of m places."""
    size = np.sqrt(np.square(anomalies).sum(axis=1).mean(axis=1))
    return anomalies / np.maximum(size, 1e-12 * max(float(size.max()), 1e-300))[:, None, None]


def recoloured(values: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Values ``(M, n, d)`` times matrices that give them at each place the second moments of ``own (T, n, d)``.

    >>> values, own = np.random.default_rng(0).standard_normal((2, 50, 1, 2)) * [[[[1.0]]], [[[3.0]]]]
    >>> new = recoloured(values, own)[:, 0]
    >>> np.allclose(new.T @ new, own[:, 0].T @ own[:, 0])
    True
    """
    stacked, own = (np.ascontiguousarray(v.transpose(1, 2, 0)) for v in (values, own))
    color, white = (_root(v @ v.transpose(0, 2, 1) / v.shape[2], p) for v, p in ((own, 0.5), (stacked, -0.5)))
    return np.ascontiguousarray((color @ white @ stacked).transpose(2, 0, 1))


def _root(matrices: np.ndarray, power: float) -> np.ndarray:
    """Powers of symmetric positive semidefinite matrices ``(n, d, d)``."""
    values, vectors = np.linalg.eigh(matrices)
    floor = 1e-12 * np.maximum(values[:, -1:], 1e-300)
    return (vectors * np.maximum(values, floor)[:, None] ** power) @ vectors.transpose(0, 2, 1)
