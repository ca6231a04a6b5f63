"""Denoising by a filter of the connection Laplacian, at a cost that grows linearly with the number of points."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from ..bundle import TangentBundle
from ..filters.shrinkage import least_risk
from .bases import FieldInBases, ambient_of, coordinates_in
from .observations import JITTER, Model, Observations, Places, Posterior, Prediction


@dataclass(frozen=True)
class SpectralFilter(Model):
    """The filter of the connection Laplacian with the least estimated risk, of a family of low-pass responses.

    The risk is Stein's unbiased estimate; the noise is given, or read off the highest frequencies.

    Args:
        neighbors: neighbours of the median point in the graph; default automatic.
        probes: random signs from which traces are estimated.
    """

    neighbors: int | None = None
    probes: int = 8

    def fit(self, observations: Observations, rng: np.random.Generator) -> FilteredField:
        frames = observations.frames
        laplacian = TangentBundle.from_frames(observations.points, frames, neighbors=self.neighbors).laplacian()
        x = torch.from_numpy(coordinates_in(frames, observations.vectors))[:, :, None]
        signs = torch.from_numpy(rng.choice([-1.0, 1.0], size=(*x.shape[:2], self.probes)))
        known = observations.noise
        response, variance = least_risk(laplacian, x, signs, None if known is None else torch.from_numpy(known))
        smooth = response(laplacian, torch.cat([x, signs], dim=2)).numpy()
        share = float((smooth[:, :, 1:] * signs.numpy()).mean())
        std = float(np.sqrt(variance if known is None else known.mean()))
        return FilteredField(observations, smooth[:, :, 0], min(share, 0.99), np.square(smooth[:, :, 1:]).mean(), std)


@dataclass(eq=False)
class FilteredField(Posterior):
    """A filtered field ``values (n, d)``, carried to other points by the nearest ones.

    ``share`` is the mean weight of a vector in its own answer, ``passed`` the share of the noise that is left.
    """

    observations: Observations = field(repr=False)
    values: np.ndarray = field(repr=False)
    share: float
    passed: float
    noise: float

    def __post_init__(self) -> None:
        self._across = FieldInBases(self.observations, self.observations.frames).variance_across
        self.noise_across = min(self.noise**2, self._across)
        self.parameters = {"own weight": self.share, "noise": self.noise}

    def predict(self, places: Places, spread: bool = True) -> Prediction:
        m, d = len(places.points), self.values.shape[1]
        k = min(6, len(self.values))
        distances, index = (a.reshape(m, k) for a in self.observations.tree.query(places.points, k=k))
        weights = 1.0 / np.maximum(np.square(distances), 1e-24)
        weights /= weights.sum(axis=1, keepdims=True)
        filtered, frames = ambient_of(self.observations.frames, self.values), places.frames
        ambient = np.einsum("mk,mki->mi", weights, filtered[index])
        mean = np.einsum("mij,mkj,mk->mi", frames, frames, ambient)
        away = np.minimum(distances[:, 0] / max(float(np.median(distances[:, -1])), 1e-300), 1.0)
        variance = self.passed * self.noise**2 + np.square(away) * float(np.square(self.values).mean())
        blocks = (variance + JITTER)[:, None, None] * np.eye(d)
        return Prediction(mean, frames, blocks, np.full(m, max(self._across - self.noise**2, 0.0)))

    def left_out(self, index: np.ndarray) -> Prediction:
        """By the usual formula for linear smoothers: an error over one minus the vector's own weight."""
        observations = self.observations
        frames, d = observations.frames[index], self.values.shape[1]
        own = coordinates_in(frames, observations.vectors[index])
        errors = (own - self.values[index]) / (1 - self.share)
        mean = ambient_of(frames, own - errors)
        blocks = np.broadcast_to(np.square(errors).mean() * np.eye(d), (len(index), d, d))
        return Prediction(mean, frames, blocks, np.full(len(index), self._across))
