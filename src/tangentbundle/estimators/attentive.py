r"""Forecasts by a network that attends to the points around each point.

For a point i with neighbours j it sees the latest anomalies here, those of the neighbours carried over by the
connection, where they are, the mean field and the size of anomalies at both, and, on a surface with an axis, how far
along it the point lies; it gives the next anomalies here, several leads at once. One network serves all points: it
learns from neighbourhoods of random sets of points, those of ``more`` where there are any.

Vectors are seen in coordinates around and along the axis, and mirrored (with the side of the equator) half the time.
Without an axis no basis is special: each step of training turns all of them at random, and forecasts are the mean of
several turns.

Two networks are trained, without the first quarter of times and without the last. Their mean is the forecast, and what
each says of the quarter it has not seen tells how good it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..errors import InvalidInputError
from ..training import fit
from .attention import NeighborAttention
from .forecasting import Direct, ForecastMethod, Record, held_apart
from .tangents import TangentSpaces

HELD_OUT = 0.25
"""Share of the times, the first and the last, that a network does not see."""

LEAST = 40
"""Fewest times to learn from."""

EARLIER = 4
"""Fields of the neighbours that are seen, the latest."""

VIEWS = 20_000
"""Neighbourhoods to learn from, about."""

KEPT = 0.4
"""Share of the points that a random set of them has at least, where they are all there is."""

TURNS = 4
"""Turns of the bases whose forecasts are averaged, without an axis."""

EPOCHS, DROPOUT, DECAY = 30, 0.1, 0.1
"""Of the training: stretches of one rate, share of numbers left out, and decay of weights."""

CHUNK = 8192
"""Points forecast at a time."""


@dataclass(frozen=True)
class AttentionNetwork(ForecastMethod):
    """Method of ``FieldForecaster``: a network that attends to neighbours, trained on anomalies.

    Args:
        width, layers: of the network.
        neighbors: that it sees.
        window: recent fields it sees.
        reach: leads it gives; anomalies are zero beyond.
        steps, batch, lr: of the training.
    """

    width: int = 64
    layers: int = 1
    neighbors: int = 8
    window: int = 8
    reach: int = 8
    steps: int = 1000
    batch: int = 512
    lr: float = 0.004

    def fit(self, record: Record) -> AttentionForecast:
        origins = record.origins(1, self.window)
        origins = origins[origins < len(record.anomalies) - self.reach]
        if len(origins) < LEAST:
            raise InvalidInputError(
                f"the series gives {len(origins)} times with {self.window} fields up to them and {self.reach} to follow; "
                f"this network needs {LEAST}. Give a longer series, a smaller window and reach, or use Autoregression()."
            )
        everywhere = World.of(record if record.more is None else record.more, record.spaces.spacing)
        here = everywhere.part(len(record.spaces.points))
        views = everywhere.views(list(self._sets(record)), self.neighbors)
        span, part = self.window + self.reach, int(HELD_OUT * len(origins))
        nets, guesses = [], []
        held = origins[:part], origins[-part:]
        for times in held:
            kept = origins[held_apart(origins, times[0], times[-1] + 1, span)]
            nets.append(self._train(everywhere, views, kept, record))
            model = AttentionForecast(self, record, here, nets[-1:])
            guesses += [model.raw(record.anomalies[: t + 1], record.mean) for t in times]
        model = AttentionForecast(self, record, here, nets)
        model.held, model.guesses = np.concatenate(held), np.stack(guesses, axis=1)
        return model

    def _sets(self, record: Record) -> Iterator[np.ndarray]:
        """Random sets of points: as many of ``more`` as there are points, evenly drawn, or some of the points."""
        rng, n = record.rng, len(record.spaces.points)
        evenly = None if record.more is None else record.more.spaces.evenly
        for _ in range(max(VIEWS // n, 8)):
            if evenly is None:
                yield rng.choice(n, max(int(rng.uniform(KEPT, 1) * n), min(self.neighbors + 2, n)), replace=False)
            else:
                yield rng.choice(len(evenly), n, replace=False, p=evenly)

    def _train(self, world: World, views: Views, times: np.ndarray, record: Record) -> NeighborAttention:
        d, ahead = world.mean.shape[1], torch.arange(1, self.reach + 1)
        rng, origins, fine = record.rng, torch.from_numpy(times), torch.from_numpy(record.observed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            own, token = d * (self.window + 1) + 1 + world.heights.shape[1], d * (EARLIER + 2) + 2
            k = views.near.shape[1] - 1
            net = NeighborAttention(own, token, k, d * self.reach, self.width, self.layers, DROPOUT)

            def loss(net: torch.nn.Module, _: int) -> torch.Tensor:
                view = views[torch.randint(len(views.near), (self.batch,))]
                t = origins[torch.randint(len(origins), (self.batch,))]
                turn = world.turn(rng)
                later = world.anomalies[t[:, None] + ahead, view.near[:, :1]] @ turn.T
                seen = world.features(world.anomalies, world.mean, view, t, self.window, turn)
                error = (net(*seen).view(-1, self.reach, d) - later).square().mean(dim=2)
                return (error * fine[t[:, None] + ahead]).mean()

            passes = min(EPOCHS, self.steps)
            fit(
                net,
                range(-(-self.steps // passes)),
                loss,
                epochs=passes,
                clip=1.0,
                optimizer=lambda p: torch.optim.AdamW(p, lr=self.lr, weight_decay=DECAY, foreach=True),
                schedule=lambda epoch: min((epoch + 1) / 3, 0.5 + 0.5 * math.cos(math.pi * epoch / passes)),
                progress=False,
            )
        return net


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
        turns, heights = directed(spaces)
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

    def turn(self, rng: np.random.Generator) -> torch.Tensor:
        """A random turn ``(d, d)`` of all bases: along an axis back to front or not, otherwise any."""
        d = self.mean.shape[1]
        if self.heights.shape[1]:
            return torch.diag(torch.tensor([1.0, rng.choice([-1.0, 1.0])], dtype=torch.float32))
        q, r = np.linalg.qr(rng.standard_normal((d, d)))
        q *= np.sign(np.diag(r))
        if self.spaces.oriented and np.linalg.det(q) < 0:
            q[0] *= -1
        return torch.from_numpy(q.astype(np.float32))

    def features(
        self, fields: torch.Tensor, mean: torch.Tensor, view: Views, t: torch.Tensor, window: int, turn: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of points ``(B, own)`` and neighbours ``(B, k, token)``, all vectors turned; fields up to times ``(B,)``."""
        here, there = view.near[:, 0], view.near[:, 1:]
        own = torch.cat([fields[t[:, None] - torch.arange(window), here[:, None]], mean[here][:, None]], dim=1) @ turn.T
        side = torch.tensor([turn[-1, -1], 1.0])[: self.heights.shape[1]]
        lags = fields[(t[:, None] - torch.arange(EARLIER))[:, None], there[:, :, None]]  # (B, k, lags, d)
        carried = torch.cat([lags, mean[there][:, :, None]], dim=2) @ view.maps.mT
        vectors = torch.cat([carried, view.steps[:, :, None]], dim=2) @ turn.T
        tokens = [vectors.flatten(2), view.away[..., None], self.sizes[there][..., None]]
        return (
            torch.cat([own.flatten(1), self.sizes[here][:, None], self.heights[here] * side], dim=1),
            torch.cat(tokens, dim=2),
        )


def directed(spaces: TangentSpaces) -> tuple[np.ndarray, np.ndarray]:
    """Turns ``(n, d, d)`` of the bases to around and along an axis, and heights along it and their sizes ``(n, 2)``.

    Without an axis, and at its ends, bases stay as they are.

    >>> import tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> spaces = TangentSpaces.of(sphere.sample(5, seed=0), manifold=sphere)
    >>> turns, heights = directed(spaces)
    >>> around, along = np.moveaxis(spaces.frames @ turns.transpose(0, 2, 1), 2, 0)
    >>> bool(np.abs(around[:, 2]).max() < 1e-12), bool((along[:, 2] > 0).all()), heights.shape
    (True, True, (5, 2))
    """
    n, d = len(spaces.points), spaces.dim
    if spaces.axis is None:
        return np.broadcast_to(np.eye(d), (n, d, d)).copy(), np.zeros((n, 0))
    axis = np.asarray(spaces.axis) / np.linalg.norm(spaces.axis)
    along = np.einsum("nia,i->na", spaces.frames, axis)
    length = np.linalg.norm(along, axis=1, keepdims=True)
    along = np.where(length > 1e-6, along / np.maximum(length, 1e-300), [0.0, 1.0])
    turns = np.stack([np.stack([along[:, 1], -along[:, 0]], axis=1), along], axis=1)
    height = spaces.points @ axis
    height = height / max(float(np.abs(height).max()), 1e-300)
    return turns, np.stack([height, np.abs(height)], axis=1)


@dataclass(eq=False)
class AttentionForecast(Direct):
    """Trained networks and the world of their points."""

    method: AttentionNetwork
    record: Record = field(repr=False)
    world: World = field(repr=False)
    nets: list[NeighborAttention] = field(repr=False)

    def __post_init__(self) -> None:
        self.least = self.method.window
        self.views = self.world.views([np.arange(len(self.world.mean))], self.method.neighbors)
        rng = np.random.default_rng(0)
        self.turns = [self.world.turn(rng) for _ in range(TURNS)]
        if self.world.heights.shape[1]:
            self.turns = [torch.diag(torch.tensor([1.0, side])) for side in (1.0, -1.0)]

    def raw(self, recent: np.ndarray, mean: np.ndarray) -> np.ndarray:
        few = max(self.method.window - len(recent), 0)  # the first is then repeated
        recent = np.concatenate([recent[:1].repeat(few, axis=0), recent[-self.method.window :]])
        fields, now = (self._directed(x) for x in (recent, mean))
        parts = [self._ahead(fields, now, self.views[a : a + CHUNK]) for a in range(0, len(now), CHUNK)]
        return (torch.cat(parts) @ self.world.turns).transpose(0, 1).double().numpy()

    @torch.no_grad()
    def _ahead(self, fields: torch.Tensor, mean: torch.Tensor, view: Views) -> torch.Tensor:
        """The networks' mean answer ``(B, reach, d)`` at some points, over all turns."""
        t, answers = torch.full((len(view.near),), len(fields) - 1), []
        for turn in self.turns:
            seen = self.world.features(fields, mean, view, t, self.method.window, turn)
            answers += [net(*seen).view(len(t), self.method.reach, -1) @ turn for net in self.nets]
        return torch.stack(answers).mean(dim=0)

    def _directed(self, vectors: np.ndarray) -> torch.Tensor:
        """Vectors ``(..., n, d)`` in directed coordinates."""
        x = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
        return (self.world.turns @ x[..., None])[..., 0]
