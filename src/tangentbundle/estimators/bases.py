"""Observations in the bases of a Gaussian process: tangent ones, or axes of ambient space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .likelihood import Evidence
from .observations import JITTER, Observations
from .sites import Sites


def enough_for_axes(n: int, D: int) -> bool:
    """Whether n vectors in D dimensions, ten for each angle between axes, tell axes of the signal
    from noise."""
    return n >= 5 * D * (D - 1)


def signal_axes(observations: Observations, most: int = 64) -> np.ndarray:
    r"""Principal axes ``(D, p)`` along which neighbours' vectors agree more than noise would; at
    least one.

    They are those of the vectors, or of the points where there are too few vectors. Agreement is
    significant above three standard deviations, or :math:`\sqrt{2 \log D}`, which about one of D
    axes of noise exceeds.
    """
    vectors = observations.vectors
    n, D = vectors.shape
    axes = np.linalg.svd(
        vectors if enough_for_axes(n, D) else observations.points, full_matrices=False
    )[2].T
    components = vectors @ axes
    nearest = observations.tree.query(observations.points, k=2)[1][:, 1]
    energy = np.square(components).sum(axis=0)
    agreement = (components * components[nearest]).sum(axis=0) / np.maximum(energy, 1e-300)
    signal = (agreement * np.sqrt(n) > max(3.0, np.sqrt(2 * np.log(D)))) & (energy > JITTER * n)
    signal[np.argmax(agreement * energy)] = True
    signal[np.flatnonzero(signal)[most:]] = False
    return np.ascontiguousarray(axes[:, signal])


@dataclass(frozen=True, eq=False)
class FieldInBases:
    """Observations in the bases of a process: ``(D, p)`` for all points, or ``(n, D, p)``."""

    observations: Observations
    bases: np.ndarray

    @cached_property
    def vectors(self) -> np.ndarray:
        """Ambient vectors ``(n, D)``, less the mean of the history: its tangent part where that is
        known."""
        observations = self.observations
        if observations.history is None:
            return observations.vectors
        mean = observations.history.mean(observations.points)
        if observations.exact:
            mean = ambient_of(observations.frames, coordinates_in(observations.frames, mean))
        return observations.vectors - mean

    @cached_property
    def values(self) -> np.ndarray:
        """Coordinates ``(n, p)``."""
        return coordinates_in(self.bases, self.vectors)

    @cached_property
    def across(self) -> np.ndarray:
        """What vectors have across the bases ``(n, D)``."""
        return self.vectors - ambient_of(self.bases, self.values)

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
    def white_across(self) -> bool:
        """Whether components across the bases are noise alone: those across exact tangent spaces,
        or axes of signal."""
        return self.bases.ndim == 2 or self.observations.exact

    @property
    def max_noise(self) -> float:
        """The noise is not larger than what is measured across tangent bases."""
        return (
            float(np.sqrt(self.variance_across))
            if self.measured_across and self.bases.ndim == 3
            else np.inf
        )

    def sites(self, points: np.ndarray, bases: np.ndarray) -> Sites:
        """Points ``(..., D)`` with bases, as tensors, with their history where there is one."""
        history = self.observations.history
        past = None
        if history is not None:
            fields = history.at(points.reshape(-1, points.shape[-1]))  # (T, n, D)
            flat = bases if bases.ndim == 2 else bases.reshape(-1, *bases.shape[-2:])
            own = np.stack([coordinates_in(flat, one) for one in fields], axis=-1)
            own = own.reshape(*points.shape[:-1], *own.shape[1:])  # (..., p, T)
            past = torch.from_numpy(own - own.mean(axis=-1, keepdims=True))
        principal = points @ self.observations.axes
        return Sites(as_tensor(points), as_tensor(bases), as_tensor(principal), past)

    def at(self, index: np.ndarray) -> Sites:
        """The sites of some of the observations."""
        bases = self.bases if self.bases.ndim == 2 else self.bases[index]
        return self.sites(self.observations.points[index], bases)

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """At most ``size`` observations, half of them groups of four neighbours, to tell short
        lengths from noise."""
        points = self.observations.points
        index = np.arange(len(points))
        if len(points) <= size:
            return index
        order = rng.permutation(len(points))
        near = self.observations.tree.query(points[order[: size // 8]], k=4)[1]
        found = np.concatenate([near.reshape(-1), order])  # groups of four, then any others
        _, first = np.unique(found, return_index=True)
        return np.sort(found[np.sort(first)[:size]])

    def evidence(self, index: np.ndarray) -> Evidence:
        """These observations."""
        observations = self.observations
        noise = None if observations.noise is None else as_tensor(observations.noise[index])
        D, p = self.bases.shape[-2:]
        white = (0, 0.0)
        if self.measured_across and noise is None and self.white_across:
            white = len(index) * (D - p), float(np.square(self.across[index]).sum())
        return Evidence(self.at(index), as_tensor(self.values[index])[..., None], noise, white)

    def past_evidence(self, index: np.ndarray, most: int = 24) -> Evidence:
        """The last third of the history, at most so many fields of it, at these points, given the
        first two thirds."""
        history = self.observations.history
        assert history is not None
        first, last = np.split(history.fields, [2 * len(history.fields) // 3])
        earlier, later = replace(history, fields=first), replace(history, fields=last)
        given = replace(self, observations=replace(self.observations, history=earlier))
        points = self.observations.points[index]
        bases = self.bases if self.bases.ndim == 2 else self.bases[index]
        fields = later.at(points)[:: -(-len(later.fields) // most)] - earlier.mean(points)
        values = np.stack([coordinates_in(bases, one) for one in fields], axis=-1)
        return Evidence(given.at(index), as_tensor(values))


def coordinates_in(bases: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return vectors @ bases if bases.ndim == 2 else np.einsum("nij,ni->nj", bases, vectors)


def ambient_of(bases: np.ndarray, values: np.ndarray) -> np.ndarray:
    return values @ bases.T if bases.ndim == 2 else np.einsum("nij,nj->ni", bases, values)


def as_tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
