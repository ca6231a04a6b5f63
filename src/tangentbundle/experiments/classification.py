"""Table 4, by two readings of the paper's text: is a cloud of points a torus or a Klein bottle?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .. import estimators, nn
from ..batch import Clouds
from ..datasets import torus_klein_clouds
from ..estimators.classifier import cross_entropy
from ..geometry.frames import PCASettings
from ..geometry.kernels import Gaussian
from ..geometry.scale import Radius
from ..nn.base import generator
from ..training import fit
from .base import Description, Experiment, Row, Task, draw

BATCH, EPOCHS, PATIENCE = 32, 150, 15
FULL_SETS, FULL_CLOUDS, QUICK_CLOUDS = 8, 2000, 600

Batch = tuple[Any, ...]
"""Inputs of a network for several clouds, and their labels."""


STRETCHED = {"base": True, "longest side": False}
"""Two readings of the paper's text: whether clouds are scaled to the unit cube along each axis, or
by the longest."""


class Classification(Experiment):
    """Accuracy of telling tori from immersed Klein bottles, clouds of 100 points in the unit cube.

    >>> Classification().tasks(full=False, protocol="best")
    [{'protocol': 'best', 'reading': 'longest side', 'dataset': 0, 'clouds': 600}]
    """

    name = "classification"
    about = Description.named(name)

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        count, clouds = (FULL_SETS, FULL_CLOUDS) if full else (1, QUICK_CLOUDS)
        readings = (
            ["longest side"] if protocol == "best" else list(STRETCHED)[: None if full else 1]
        )
        return [
            {"protocol": protocol, "reading": reading, "dataset": dataset, "clouds": clouds}
            for dataset, reading in product(range(count), readings)
        ]

    def run(self, task: Task, seed: int) -> list[Row]:
        number = task["dataset"]
        sample = Sample.drawn(
            task["clouds"], draw(seed, self.name, number), STRETCHED[task["reading"]]
        )
        if task["protocol"] == "paper":
            rules = SIGN_RULES if task["reading"] == "base" else {}
            rows = _networks(sample, number, rules, draw(seed, "signs", number))
        else:
            rows = _classifiers(sample)
        return [
            {"reading": task["reading"], "dataset": number, **row}
            for row in rows + _baselines(sample)
        ]

    def conditions(self, rows: Sequence[Row], full: bool, protocol: str) -> str:
        sets = len({row["dataset"] for row in rows if "dataset" in row}) or (
            FULL_SETS if full else 1
        )
        said = f"Data: {sets} data sets of {FULL_CLOUDS if full else QUICK_CLOUDS} clouds."
        if protocol != "paper":
            return said
        return (
            f"{said} Training: at most {EPOCHS} epochs, stopped after {PATIENCE} without "
            "improvement."
        )

    def published(self) -> list[Row]:
        """The paper's numbers, repeated for every reading."""
        return [
            {**row, "reading": reading} for reading, row in product(STRETCHED, super().published())
        ]


@dataclass(frozen=True, eq=False)
class Sample:
    """Clouds ``(n_i, 3)`` and labels in random order: 64 % for training, 16 % for validation, 20 %
    for the test."""

    points: list[np.ndarray]
    labels: np.ndarray

    @classmethod
    def drawn(cls, count: int, rng: np.random.Generator, stretch: bool) -> Sample:
        clouds, labels = torus_klein_clouds(count, 100, rng, stretch=stretch)
        return cls([points.astype(np.float32) for points in clouds], labels)

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        a, b = round(0.64 * len(self.labels)), round(0.8 * len(self.labels))
        return slice(0, a), slice(a, b), slice(b, None)

    def batches(self, inputs: Callable[[slice], Batch]) -> list[list[Batch]]:
        """Batches ``(*inputs, labels)`` of training; validation and test are one batch each."""
        train, validation, test = self.parts
        starts = [slice(a, min(a + BATCH, train.stop)) for a in range(0, train.stop, BATCH)]
        labels = torch.from_numpy(self.labels)
        return [
            [(*inputs(part), labels[part]) for part in parts]
            for parts in (starts, [validation], [test])
        ]

    def score(self, model: Any, features: Any) -> float:
        """Accuracy of an estimator on the test clouds after fitting it to all others."""
        stop = self.parts[2].start
        return float(
            model.fit(features[:stop], self.labels[:stop]).score(
                features[stop:], self.labels[stop:]
            )
        )


def random_signs(frames: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """A sign for each vector of frames ``(n, D, d)``, ``(n, d)``: independent ones."""
    return torch.from_numpy(rng.choice([-1.0, 1.0], (frames.shape[0], frames.shape[2])))


def signs_by_direction(frames: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """A sign for each vector of frames, ``(n, d)``, by which all make acute angles with one random
    direction."""
    direction = torch.from_numpy(rng.standard_normal(frames.shape[1]))
    products = torch.einsum("nia,i->na", frames, direction)
    return torch.where(products < 0, -1.0, 1.0)


SIGN_RULES: dict[str, Callable[[torch.Tensor, np.random.Generator], torch.Tensor]] = {
    "DD-TNN, random signs": random_signs,
    "DD-TNN, signs by a direction": signs_by_direction,
}
"""Other signs of the vectors of the frames than the library's, on which the sum of coordinates
depends."""


def _inputs_with_signs(clouds: Any, rule: Callable, rng: np.random.Generator) -> Any:
    """The inputs of a network on the tangent bundle, in frames whose signs follow another rule."""
    return tangent_inputs(with_signs(clouds, rule, rng))


def _networks(
    sample: Sample, seed: int, rules: dict[str, Callable], rng: np.random.Generator
) -> list[Row]:
    """The paper's networks; the first also in frames whose signs follow other ``rules``."""
    clouds = sample.batches(lambda part: (_clouds(sample.points[part]),))
    rows = _network_rows("DD-TNN", [1, 8, 4, 1], 2, _map_inputs(clouds, tangent_inputs), seed)
    for method, rule in rules.items():
        flipped = _map_inputs(clouds, partial(_inputs_with_signs, rule=rule, rng=rng))
        rows += _network_rows(method, [1, 8, 4, 1], 2, flipped, seed)
    rows += _network_rows("MNN", [3, 8, 4, 3], 1, _map_inputs(clouds, scalar_inputs), seed)
    grids = torch.stack([occupancy(points) for points in sample.points])
    data = sample.batches(lambda part: (grids[part],))
    for name in ACTIVATIONS:
        rows.append(_trained("3D-CNN", name, voxel_network(name, seed), data, seed))
    return rows


ACTIVATIONS: dict[str, Callable[[], nn.Activation]] = {
    "Id": nn.Linear,
    "Tanh": lambda: nn.Coordinatewise(torch.tanh),
}


def _network_rows(
    method: str, channels: list[int], dim: int, data: list[list[Batch]], seed: int
) -> list[Row]:
    """The paper's network on inputs of fibres of dimension ``dim``, with every activation."""
    rows = []
    for name, activation in ACTIVATIONS.items():
        source = generator(seed)
        readout = nn.SumReadout(channels[-1], 2, rank=dim, seed=source)
        net = nn.TNN(channels, taps=2, activation=activation(), readout=readout, seed=source)
        rows.append(_trained(method, name, net, data, seed))
    return rows


def _map_inputs(clouds: list[list[Batch]], inputs: Callable[[Clouds], Batch]) -> list[list[Batch]]:
    """Batches whose clouds have become the inputs of a network."""
    return [[(*inputs(several), labels) for several, labels in part] for part in clouds]


def with_signs(
    clouds: Clouds,
    rule: Callable[[torch.Tensor, np.random.Generator], torch.Tensor],
    rng: np.random.Generator,
) -> Clouds:
    """The same clouds in frames whose vectors have the signs of a rule."""
    matrices = clouds.frames.matrices
    turned = matrices * rule(matrices, rng)[:, None, :]
    return replace(clouds, frames=replace(clouds.frames, matrices=turned))


def _clouds(points: list[np.ndarray]) -> Clouds:
    """With the paper's scales."""
    batch = np.repeat(np.arange(len(points)), [len(cloud) for cloud in points])
    return Clouds.of(
        np.concatenate(points),
        batch,
        dim=2,
        scale=Radius(eps=0.5),
        settings=PCASettings(eps_pca=0.8),
        kernel=Gaussian(),
    )


def tangent_inputs(clouds: Clouds) -> Batch:
    """The constant vector (1, 1, 1) in the frames, ``(n, 2, 1)``, and the connection Laplacians."""
    constant = clouds.frames.matrices.sum(1)[:, :, None]
    return constant.float(), clouds.laplacian(calibrate=False)


def scalar_inputs(clouds: Clouds) -> Batch:
    """The same vectors, projected on the tangent planes, as functions ``(n, 1, 3)``, and the
    Laplacians of these."""
    matrices = clouds.frames.matrices
    projected = matrices @ matrices.sum(1)[:, :, None]
    return projected.mT.float(), clouds.scalar_laplacian(calibrate=False)


def occupancy(points: np.ndarray, resolution: int = 6) -> torch.Tensor:
    """Which cells of the bounding cube of a cloud ``(n, 3)`` hold points: ``(1, r, r, r)`` of zeros
    and ones."""
    low = points.min(axis=0)
    sides = [(start, start + np.ptp(points, axis=0).max()) for start in low]
    return torch.from_numpy(np.histogramdd(points, resolution, sides)[0] > 0).float()[None]


def voxel_network(activation: str, seed: int) -> torch.nn.Module:
    """A 3D-CNN on occupancy grids: two convolutions, a mean over the grid, and a linear
    classifier."""
    bend = torch.nn.Identity() if activation == "Id" else torch.nn.Tanh()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        first, second = (torch.nn.Conv3d(channels, 2, 3, padding=1) for channels in (1, 2))
        pooled = torch.nn.AdaptiveAvgPool3d(1), torch.nn.Flatten(), torch.nn.Linear(2, 2)
    return torch.nn.Sequential(first, bend, second, bend, *pooled)


def _trained(method: str, activation: str, net: torch.nn.Module, data: list, seed: int) -> Row:
    def accuracy(batch: Batch) -> float:
        with torch.no_grad():
            return float((net(*batch[:-1]).argmax(dim=-1) == batch[-1]).double().mean())

    train, validation, test = data
    limits: Any = {"epochs": EPOCHS, "patience": PATIENCE, "clip": 1.0}
    fit(net, train, cross_entropy, validation=validation, seed=seed, progress=False, **limits)
    scores = {"accuracy": accuracy(test[0]), "validation": accuracy(validation[0])}
    return _row(method, activation, sum(p.numel() for p in net.parameters()), **scores)


def _classifiers(sample: Sample) -> list[Row]:
    """The library's estimator."""
    rows = []
    for name, activation in {"Id": nn.Linear(), "Tanh": nn.NormTanh()}.items():
        model = estimators.ManifoldClassifier(activation, dim=2, random_state=0)
        accuracy = sample.score(model, sample.points)
        rows.append(
            _row("ManifoldClassifier", name, model.network_.num_parameters, accuracy=accuracy)
        )
    return rows


def _baselines(sample: Sample) -> list[Row]:
    moments = np.stack([np.cov(p.T.astype(float))[np.triu_indices(3)] for p in sample.points])
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return [
        _row("majority class", "-", 1, accuracy=sample.score(DummyClassifier(), moments)),
        _row(
            "logistic regression on moments",
            "-",
            moments.shape[1] + 1,
            accuracy=sample.score(logistic, moments),
        ),
    ]


def _row(method: str, activation: str, parameters: int, **scores: float) -> Row:
    return {"method": method, "activation": activation, **scores, "parameters": parameters}
