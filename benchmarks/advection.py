"""A nonlinear map learned on few points: the covariant derivative of a field along itself.

Trained on samples of 500 points of spheres, ellipsoids and tori; tested on more points, on rotated
samples, and on surfaces that are not in the training set. Points and vectors are given, tangent
planes are estimated. Errors are relative to the size of the answer, so that predicting zero has 1.
``python -m benchmarks advection``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.spatial import cKDTree

import tangentbundle as tb
from harness.records import Row
from harness.timing import baseline
from tangentbundle import nn
from tangentbundle.operators import Identity
from tangentbundle.testing import random_orthogonal

from .growth import genus_two

POINTS, SIZES, SEEDS, EPOCHS, NEIGHBORS = 500, (500, 2_000, 20_000), 3, 100, 16
Level = Callable[[torch.Tensor], torch.Tensor]


def torus(x: torch.Tensor, R: float, r: float) -> torch.Tensor:
    return (x[:2].norm() - R) ** 2 + x[2] ** 2 - r**2


def ellipsoid(x: torch.Tensor, axes: tuple[float, float, float]) -> torch.Tensor:
    return (x / torch.tensor(axes, dtype=x.dtype)).square().sum() - 1


def eight(x: torch.Tensor) -> torch.Tensor:
    return (x[0] ** 2 - x[0] ** 4 - x[1] ** 2) ** 2 + x[2] ** 2 - 0.02


@dataclass(frozen=True)
class Surface:
    """A level set, with a sampler ``(n, rng) -> (n, 3)``."""

    level: Level
    sample: Callable[[int, np.random.Generator], np.ndarray]


def _torus(R: float, r: float) -> Surface:
    return Surface(
        partial(torus, R=R, r=r), lambda n, rng: tb.manifolds.Torus(R, r).sample(n, seed=rng)
    )


def _ellipsoid(*axes: float) -> Surface:
    return Surface(
        partial(ellipsoid, axes=axes),
        lambda n, rng: tb.manifolds.Ellipsoid(axes).sample(n, seed=rng),
    )


TRAINED = {
    "sphere": _ellipsoid(1.0, 1.0, 1.0),
    "ellipsoid": _ellipsoid(1.0, 0.8, 0.6),
    "torus": _torus(1.0, 0.4),
}
OTHERS = {
    "flat ellipsoid": _ellipsoid(1.2, 0.9, 0.5),
    "thin torus": _torus(0.9, 0.3),
    "genus two": Surface(eight, lambda n, rng: genus_two(n, rng)[0]),
}


@dataclass(eq=False)
class Sample:
    """Points, a field and its derivative along itself, ``(n, 3)`` each, in float32."""

    points: torch.Tensor
    field: torch.Tensor
    answer: torch.Tensor

    def rotated(self, seed: int) -> Sample:
        turn = torch.from_numpy(random_orthogonal(1, 3, seed)[0]).to(self.points)
        return Sample(self.points @ turn.T, self.field @ turn.T, self.answer @ turn.T)

    @cached_property
    def bundle(self) -> tb.TangentBundle:
        return tb.TangentBundle.from_points(self.points, dim=2)

    @cached_property
    def operators(self) -> nn.MixedOperators:
        return nn.MixedOperators.of(self.bundle)

    @cached_property
    def edges(self) -> torch.Tensor:
        """Each point and its nearest neighbours, source above target."""
        nearest = cKDTree(self.points.numpy()).query(self.points.numpy(), NEIGHBORS + 1)[1]
        target = np.repeat(np.arange(len(nearest)), NEIGHBORS + 1)
        return torch.from_numpy(np.stack([nearest.ravel(), target]))


def draw(surface: Surface, n: int, seed: int) -> Sample:
    """A random smooth tangent field: waves of R^3, projected; the derivative is exact, by forward
    differentiation."""
    rng = np.random.default_rng(seed)
    points = torch.from_numpy(surface.sample(n, rng))
    directions, phases = (
        torch.from_numpy(rng.standard_normal((8, 3))),
        torch.from_numpy(rng.uniform(0, 2 * np.pi, 8)),
    )
    weights = torch.from_numpy(rng.standard_normal((8, 3)) / 2)

    def field(x: torch.Tensor) -> torch.Tensor:
        normal = torch.func.grad(surface.level)(x)
        wave = torch.cos(directions @ x + phases) @ weights
        return wave - (wave @ normal) / (normal @ normal) * normal

    def along(x: torch.Tensor) -> torch.Tensor:
        change, normal = (
            torch.func.jvp(field, (x,), (field(x),))[1],
            torch.func.grad(surface.level)(x),
        )
        return change - (change @ normal) / (normal @ normal) * normal

    return Sample(
        *(
            t.float()
            for t in (points, torch.func.vmap(field)(points), torch.func.vmap(along)(points))
        )
    )


class Tangent(torch.nn.Module):
    """A network on tangent coordinates; the answer as ambient vectors."""

    def __init__(self, seed: int, mixed: bool) -> None:
        super().__init__()
        kind = (
            partial(nn.MixedTNN, [0, 16, 16, 1], [1, 16, 16, 1])
            if mixed
            else partial(nn.TNN, [1, 48, 48, 1])
        )
        self.mixed, self.net = mixed, kind(taps=2, step=0.01, seed=seed)

    def forward(self, sample: Sample) -> torch.Tensor:
        x, operators = sample.bundle.to_coordinates(sample.field), sample.operators
        y = self.net(None, x, operators)[1] if self.mixed else self.net(x, operators.fields)
        return sample.bundle.to_ambient(y)


class Ambient(torch.nn.Module):
    """Components of points and vectors as functions: an MNN on the scalar bundle, or on the
    identity an MLP."""

    def __init__(self, seed: int, diffuse: bool) -> None:
        super().__init__()
        channels, taps = ([7, 44, 44, 3], 2) if diffuse else ([7, 64, 64, 3], 1)
        options = {"activation": nn.Coordinatewise(torch.tanh), "seed": seed}
        self.diffuse, self.net = diffuse, nn.TNN(channels, taps, step=0.01, **options)

    def forward(self, sample: Sample) -> torch.Tensor:
        x = torch.cat([sample.points, sample.field, torch.ones_like(sample.field[:, :1])], dim=1)[
            :, None
        ]  # with a bias
        operator = (
            sample.operators.functions if self.diffuse else Identity.of(len(x), dtype=x.dtype)
        )
        return self.net(x, operator)[:, 0]


class PointNetwork(torch.nn.Module):
    """PyTorch Geometric's PointNet layers on a graph of nearest neighbours."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        layers = baseline("torch_geometric.nn")
        perceptron = lambda wide: layers.MLP([wide + 3, 40, 40], norm=None)  # noqa: E731
        self.layers = torch.nn.ModuleList(layers.PointNetConv(perceptron(wide)) for wide in (3, 40))
        self.head = torch.nn.Linear(40, 3)

    def forward(self, sample: Sample) -> torch.Tensor:
        x = sample.field
        for layer in self.layers:
            x = torch.tanh(layer(x, sample.points, sample.edges))
        return self.head(x)


NETWORKS: dict[str, Callable[[int], torch.nn.Module]] = {
    "MixedTNN": partial(Tangent, mixed=True),
    "TNN": partial(Tangent, mixed=False),
    "MNN, ambient components": partial(Ambient, diffuse=True),
    "MLP": partial(Ambient, diffuse=False),
    "PointNet, PyTorch Geometric": PointNetwork,
}


def error(net: torch.nn.Module, sample: Sample) -> float:
    with torch.no_grad():
        return float((net(sample) - sample.answer).norm() / sample.answer.norm())


def train(net: torch.nn.Module, samples: list[Sample], seed: int) -> None:
    """Adam with a cosine schedule; the last weights are used."""
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    order = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        for k in order.permutation(len(samples)):
            optimizer.zero_grad()
            sample = samples[k]
            ((net(sample) - sample.answer).square().sum() / sample.answer.square().sum()).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        schedule.step()


def task(name: str, seed: int) -> list[Row]:
    """One trained network and its errors."""
    torch.set_num_threads(1)
    samples = [
        draw(surface, POINTS, 100 * seed + k) for surface in TRAINED.values() for k in range(8)
    ]
    net = NETWORKS[name](seed)
    train(net, samples, seed)
    base = {"network": name, "parameters": sum(p.numel() for p in net.parameters()), "seed": seed}
    rows = []
    for surface, n in [(s, n) for s in TRAINED for n in SIZES] + [(s, SIZES[-1]) for s in OTHERS]:
        sample = draw({**TRAINED, **OTHERS}[surface], n, 10_000 + seed)
        errors = {"error": error(net, sample), "rotated": error(net, sample.rotated(seed))}
        rows.append({**base, "surface": surface, "n": n, **errors})
    return rows


def run() -> list[Row]:
    """Means over seeds."""
    tasks = [(name, seed) for name in NETWORKS for seed in range(SEEDS)]
    parts = Parallel(n_jobs=int(os.environ.get("ADVECTION_JOBS", "-1")))(
        delayed(task)(*one) for one in tasks
    )
    cells: dict[tuple, list[Row]] = {}
    for row in (row for part in parts for row in part):
        cells.setdefault((row["network"], row["parameters"], row["surface"], row["n"]), []).append(
            row
        )
    return [
        {
            **dict(zip(("network", "parameters", "surface", "n"), key, strict=True)),
            **{k: float(np.mean([r[k] for r in rows])) for k in ("error", "rotated")},
            "std": float(np.std([r["error"] for r in rows])),
            "seeds": len(rows),
        }
        for key, rows in cells.items()
    ]
