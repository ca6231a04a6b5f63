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

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from ..errors import InvalidInputError
from .attention import NeighborAttention, train
from .forecasting import Direct, ForecastMethod, Record, held_apart
from .surroundings import EARLIER, Views, World
from .tangents import evenly

HELD_OUT = 0.25
"""Share of the times, the first and the last, that a network does not see."""

LEAST, ASKED = 40, 250
"""Fewest times to learn from, and most of each end that a network is asked for."""

VIEWS = 20_000
"""Neighbourhoods to learn from, about."""

KEPT = 0.4
"""Share of the points that a random set of them has at least, where they are all there is."""

DROPOUT = 0.1

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
                f"the series gives {len(origins)} times with {self.window} fields up to them and {self.reach} to "
                f"follow; this network needs {LEAST}. Give a longer series, or use Autoregression()."
            )
        everywhere = World.of(record if record.more is None else record.more, record.spaces.spacing)
        here = everywhere.part(len(record.spaces.points))
        views = everywhere.views(list(self._sets(record)), self.neighbors)
        span, part = self.window + self.reach, int(HELD_OUT * len(origins))
        nets, asked, guesses = [], [], []
        for times in (origins[:part], origins[-part:]):
            kept = origins[held_apart(origins, times[0], times[-1] + 1, span)]
            nets.append(self._train(everywhere, views, kept, record))
            model = AttentionForecast(self, record, here, nets[-1:])
            asked.append(times[:: -(-len(times) // ASKED)])
            guesses += [model.raw(record.anomalies[t - self.window + 1 : t + 1], record.mean) for t in asked[-1]]
        model = AttentionForecast(self, record, here, nets)
        model.held, model.guesses = np.concatenate(asked), np.stack(guesses, axis=1)
        return model

    def _sets(self, record: Record) -> Iterator[np.ndarray]:
        """Random sets of points: as many of ``more`` as there are points, evenly drawn, or some of the points."""
        rng, n = record.rng, len(record.spaces.points)
        even = None if record.more is None else evenly(record.more.spaces.tree, record.spaces.dim)
        for _ in range(max(VIEWS // n, 8)):
            if even is None:
                yield rng.choice(n, max(int(rng.uniform(KEPT, 1) * n), min(self.neighbors + 2, n)), replace=False)
            else:
                yield rng.choice(len(even), n, replace=False, p=even)

    def _train(self, world: World, views: Views, times: np.ndarray, record: Record) -> NeighborAttention:
        d, ahead = world.mean.shape[1], torch.arange(1, self.reach + 1)
        symmetry, rng = world.symmetry, record.rng
        origins, fine = torch.from_numpy(times), torch.from_numpy(record.observed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            own, token = d * (self.window + 1) + 1 + world.heights.shape[1], d * (EARLIER + 2) + 2
            k = views.near.shape[1] - 1
            net = NeighborAttention(own, token, k, d * self.reach, self.width, self.layers, DROPOUT)

            def loss(net: torch.nn.Module, _: int) -> torch.Tensor:
                view = views[torch.randint(len(views.near), (self.batch,))]
                t = origins[torch.randint(len(origins), (self.batch,))]
                turn = symmetry.random(rng)
                later = world.anomalies[t[:, None] + ahead, view.near[:, :1]] @ turn.T
                seen = world.features(world.anomalies, world.mean, view, t, self.window, turn)
                error = (net(*seen).view(-1, self.reach, d) - later).square().mean(dim=2)
                return (error * fine[t[:, None] + ahead]).mean()

            train(net, loss, self.steps, self.lr)
        return net


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
        self.turns = self.world.symmetry.some()

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
