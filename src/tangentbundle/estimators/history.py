r"""Covariances learned from past fields.

The anomalies :math:`a_t` of T past fields about their mean :math:`\mu` give the localised empirical covariance
:math:`\frac1T \sum_t a_t(x) a_t(y)^T \rho(|x - y|/L)`, with Gaspari and Cohn's taper :math:`\rho` (1999), which is
zero from 2 L on. A parametric covariance scaled by the anomalies' local size fills in what T samples cannot tell, and
a slowly varying factor of the mean allows for a change of season.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..errors import NonFiniteError, ShapeError
from .covariance import Covariance, Isotropic, Sites, blocks, distances

LEAST = 8
"""Fewest past fields."""


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
        left, right = (s.past.flatten(1) for s in (a, b))  # type: ignore[union-attr]
        taper = gaspari_cohn(distances(a, b) * torch.exp(-theta[1]))
        return torch.exp(2 * theta[0]) * blocks(taper, a.dim) * (left.T @ right) / len(left)

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
        return self.base(theta, a, b) * blocks(_size(a)[:, None] * _size(b), a.dim)

    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        return self.base.diagonal(theta, a) * _size(a).square()[:, None, None]


def _size(sites: Sites) -> torch.Tensor:
    assert sites.past is not None
    return sites.past.square().mean(dim=(0, 2)).sqrt()


@dataclass(frozen=True)
class Seasonal(Covariance):
    r"""The past mean times a slowly varying factor: :math:`k(x_i, x_j)\, \mu_i \mu_j^T`, k Matern 3/2."""

    names = ("amplitude", "length")
    start = (-1.0, -0.3)

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        assert a.mean is not None and b.mean is not None
        k = Isotropic(1.5)(theta, *(replace(s, frames=torch.ones_like(s.points[:, :1, None])) for s in (a, b)))
        return blocks(k, a.dim) * torch.outer(a.mean.reshape(-1), b.mean.reshape(-1))

    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        assert a.mean is not None
        return torch.exp(2 * theta[0]) * a.mean[:, :, None] * a.mean[:, None, :]


def learned(base: Covariance) -> Covariance:
    """The covariance used with a history: empirical, a modulated ``base``, and seasonal."""
    return Empirical() + Modulated(base) + Seasonal()


@dataclass(frozen=True, eq=False)
class Past:
    """Past ambient fields ``(T, m, D)`` at points ``(m, D)``, their mean ``(m, D)`` and a search tree of the points."""

    points: np.ndarray
    fields: np.ndarray
    mean: np.ndarray
    tree: cKDTree

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

    def interpolate(self, points: np.ndarray, fields: np.ndarray) -> np.ndarray:
        """Ambient fields ``(T, m, D)`` at other points ``(T, n, D)``, from their four nearest."""
        k = min(4, len(self.points))
        away, index = (a.reshape(len(points), k) for a in self.tree.query(points, k=k))
        weights = 1.0 / np.maximum(np.square(away), 1e-24 * max(float(np.square(away).max()), 1e-300))
        weights /= weights.sum(axis=1, keepdims=True)
        out = np.zeros((len(fields), len(points), fields.shape[2]))
        for j in range(k):
            out += weights[None, :, j, None] * fields[:, index[:, j]]
        return out

    def attach(self, sites: Sites, points: np.ndarray) -> Sites:
        """The sites with past anomalies and mean in their bases."""
        frames = sites.frames.numpy()
        values = np.einsum("nij,tni->tnj", frames, self.interpolate(points, self.fields))
        mean = values.mean(axis=0)
        return replace(sites, past=torch.from_numpy(values - mean), mean=torch.from_numpy(mean))
