"""What a point sees around it: its neighbours' places and vectors, in coordinates that mean the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.spatial import cKDTree

from .forecasting import Record
from .tangents import TangentSpaces
from .zonal import Axis

TURNS = 4
"""Turns of bases whose answers are averaged, without an axis."""

EARLIER = 4
"""Fields of the neighbours that are seen, the latest."""


@dataclass(frozen=True, eq=False)
class Views:
    """Neighbourhoods: points ``(m, 1 + k)``, each itself first, maps ``(m, k, d, d)`` of the neighbours' coordinates,
    steps to them ``(m, k, d)`` and distances ``(m, k)``.
    """

    near: torch.Tensor
    maps: torch.Tensor
    steps: torch.Tensor
    away: torch.Tensor

    def __getitem__(self, index: torch.Tensor | slice) -> Views:
        return Views(self.near[index], self.maps[index], self.steps[index], self.away[index])


@dataclass(frozen=True, eq=False)
class World:
    """Anomalies ``(T, n, d)`` and mean ``(n, d)`` in directed bases ``(n, D, d)``, which are ``turns (n, d, d)`` of the
    given ones; logarithms of sizes ``(n,)``; ``heights (n, 2)`` along an axis and their sizes, or ``(n, 0)``. Distances
    are in units of ``unit``.
    """

    spaces: TangentSpaces
    unit: float
    turns: torch.Tensor
    bases: np.ndarray
    anomalies: torch.Tensor
    mean: torch.Tensor
    sizes: torch.Tensor
    heights: torch.Tensor

    @classmethod
    def of(cls, record: Record, unit: float) -> World:
        spaces = record.spaces
        turns, heights = directed(spaces.points, spaces.frames, spaces.axis)
        turned = np.einsum("nab,tnb->tna", turns, record.anomalies)
        sizes = np.sqrt(np.square(turned).mean(axis=(0, 2)))
        sizes = np.log(np.maximum(sizes, 1e-3 * max(float(sizes.max()), 1e-300)))
        bases = spaces.frames @ turns.transpose(0, 2, 1)
        mean = np.einsum("nab,nb->na", turns, record.mean)
        tensors = (torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)) for x in (turned, mean, sizes, heights))
        return cls(spaces, unit, torch.from_numpy(turns.astype(np.float32)), bases, *tensors)

    def part(self, count: int) -> World:
        """The first points only."""
        spaces, n = self.spaces.part(np.arange(count)), slice(count)
        return replace(
            self,
            spaces=spaces,
            turns=self.turns[n],
            bases=self.bases[n],
            anomalies=self.anomalies[:, n],
            mean=self.mean[n],
            sizes=self.sizes[n],
            heights=self.heights[n],
        )

    def views(self, sets: list[np.ndarray], count: int) -> Views:
        """The neighbourhoods of the points of each set within it."""
        points, parts = self.spaces.points, []
        count = min(count, min(map(len, sets)) - 1)
        for chosen in sets:
            index = chosen[cKDTree(points[chosen]).query(points[chosen], k=count + 1)[1]]
            index[:, 0] = chosen
            here, there = index[:, 0], index[:, 1:]
            away = points[there] - points[here][:, None]
            parts.append(
                (
                    index,
                    np.einsum("nia,nkib->nkab", self.bases[here], self.bases[there], optimize=True),
                    np.einsum("nia,nki->nka", self.bases[here], away),
                    np.linalg.norm(away, axis=2),
                )
            )
        near, *others = (np.concatenate(part) for part in zip(*parts, strict=True))
        maps, steps, away = others[0], others[1] / self.unit, others[2] / self.unit
        return Views(torch.from_numpy(near), *(torch.from_numpy(x.astype(np.float32)) for x in (maps, steps, away)))

    @property
    def symmetry(self) -> Symmetry:
        return Symmetry(self.mean.shape[1], self.heights.shape[1] > 0, self.spaces.oriented)

    def features(
        self, fields: torch.Tensor, mean: torch.Tensor, view: Views, t: torch.Tensor, window: int, turn: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of points ``(B, own)`` and neighbours ``(B, k, token)``, all vectors turned; fields up to times ``(B,)``."""
        here, there = view.near[:, 0], view.near[:, 1:]
        own = torch.cat([fields[t[:, None] - torch.arange(window), here[:, None]], mean[here][:, None]], dim=1) @ turn.T
        heights = mirrored(self.heights[here], turn)
        lags = fields[(t[:, None] - torch.arange(EARLIER))[:, None], there[:, :, None]]  # (B, k, lags, d)
        carried = torch.cat([lags, mean[there][:, :, None]], dim=2) @ view.maps.mT
        vectors = torch.cat([carried, view.steps[:, :, None]], dim=2) @ turn.T
        tokens = [vectors.flatten(2), view.away[..., None], self.sizes[there][..., None]]
        return (
            torch.cat([own.flatten(1), self.sizes[here][:, None], heights], dim=1),
            torch.cat(tokens, dim=2),
        )


def directed(points: np.ndarray, frames: np.ndarray, axis: Axis | None) -> tuple[np.ndarray, np.ndarray]:
    """Turns ``(n, d, d)`` of bases ``(n, D, d)`` to around and along an axis, and heights along it and their sizes
    ``(n, 2)``, in units of the greatest of them.

    Without an axis, and at its ends, bases stay as they are.

    >>> import tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> points = sphere.sample(5, seed=0)
    >>> turns, heights = directed(points, sphere.frames(points), sphere.axis)
    >>> around, along = np.moveaxis(sphere.frames(points) @ turns.transpose(0, 2, 1), 2, 0)
    >>> bool(np.abs(around[:, 2]).max() < 1e-12), bool((along[:, 2] > 0).all()), heights.shape
    (True, True, (5, 2))
    """
    n, d = len(points), frames.shape[2]
    if axis is None:
        return np.broadcast_to(np.eye(d), (n, d, d)).copy(), np.zeros((n, 0))
    unit = np.asarray(axis) / np.linalg.norm(axis)
    along = np.einsum("nia,i->na", frames, unit)
    length = np.linalg.norm(along, axis=1, keepdims=True)
    along = np.where(length > 1e-6, along / np.maximum(length, 1e-300), [0.0, 1.0])
    turns = np.stack([np.stack([along[:, 1], -along[:, 0]], axis=1), along], axis=1)
    height = points @ unit
    height = height / max(float(np.abs(height).max()), 1e-300)
    return turns, np.stack([height, np.abs(height)], axis=1)


def mirrored(heights: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Heights ``(B, 2)`` after a turn of all bases that may have put back to front; ``(B, 0)`` stay."""
    return heights * torch.tensor([float(turn[-1, -1]), 1.0])[: heights.shape[1]]


@dataclass(frozen=True)
class Symmetry:
    """Turns of all bases that leave the laws as they are: with an axis the mirror image of both sides of the equator,
    otherwise all rotations, and reflections where the space has no orientation.
    """

    dim: int
    axis: bool
    oriented: bool

    def random(self, rng: np.random.Generator) -> torch.Tensor:
        """One of them ``(d, d)``."""
        if self.axis:
            return torch.diag(torch.tensor([1.0, rng.choice([-1.0, 1.0])], dtype=torch.float32))
        q, r = np.linalg.qr(rng.standard_normal((self.dim, self.dim)))
        q *= np.sign(np.diag(r))
        if self.oriented and np.linalg.det(q) < 0:
            q[0] *= -1
        return torch.from_numpy(q.astype(np.float32))

    def some(self) -> list[torch.Tensor]:
        """All of them if there are two, otherwise a few, the same ones always."""
        if self.axis:
            return [torch.diag(torch.tensor([1.0, side])) for side in (1.0, -1.0)]
        rng = np.random.default_rng(0)
        return [self.random(rng) for _ in range(TURNS)]
