"""Table 4, by several readings of the paper's text: is a cloud of points a torus or a Klein bottle?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .. import estimators, nn
from ..bundle import TangentBundle
from ..datasets import torus_klein_clouds
from ..errors import GlobalNeighborhoodWarning
from ..manifolds import ClassicalKleinBottle, KleinBottle
from ..nn.base import generator
from ..operators import join
from ..training import fit
from .base import Description, Experiment, Row, Task, draw
from .runner import timed

BATCH, EPOCHS = 32, 150

Batch = tuple[Any, ...]
"""Inputs of a network for several clouds, and their labels."""


@dataclass(frozen=True)
class Reading:
    """Choices that the text leaves open, or makes elsewhere (a patience of 5 epochs for denoising)."""

    klein: KleinBottle | ClassicalKleinBottle
    stretch: bool
    readout: type[nn.SumReadout | nn.MomentReadout]
    patience: int


BASE = Reading(KleinBottle(3), True, nn.SumReadout, patience=15)
READINGS = {
    "base": BASE,
    "classical bottle": replace(BASE, klein=ClassicalKleinBottle()),
    "longest side": replace(BASE, stretch=False),
    "moments": replace(BASE, readout=nn.MomentReadout),
    "patience 5": replace(BASE, patience=5),
}


class Classification(Experiment):
    """Accuracy of telling tori from immersed Klein bottles, clouds of 100 points in the unit cube.

    >>> Classification().tasks(full=False, protocol="best")
    [{'protocol': 'best', 'reading': 'longest side', 'dataset': 0, 'clouds': 600}]
    """

    name = "classification"
    about = Description.named(name)

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        count, clouds = (8, 2000) if full else (1, 600)
        readings = ["longest side"] if protocol == "best" else list(READINGS)[: None if full else 1]
        return [
            {"protocol": protocol, "reading": reading, "dataset": dataset, "clouds": clouds}
            for dataset, reading in product(range(count), readings)
        ]

    def run(self, task: Task, seed: int) -> list[Row]:
        reading, number = READINGS[task["reading"]], task["dataset"]
        sample = Sample.drawn(task["clouds"], draw(seed, self.name, number), reading)
        rows = _networks(sample, reading, number) if task["protocol"] == "paper" else _classifiers(sample)
        return [{"reading": task["reading"], **row} for row in rows + _baselines(sample)]

    def published(self) -> list[Row]:
        """The paper's numbers, repeated for every reading."""
        return [{**row, "reading": reading} for reading, row in product(READINGS, super().published())]

    def facts(self, rows: Sequence[Row]) -> dict[str, Any]:
        return {"batch": BATCH, "epochs": EPOCHS}


@dataclass(frozen=True, eq=False)
class Sample:
    """Clouds ``(n_i, 3)`` and labels in random order: 64 % for training, 16 % for validation, 20 % for the test."""

    points: list[np.ndarray]
    labels: np.ndarray

    @classmethod
    def drawn(cls, count: int, rng: np.random.Generator, reading: Reading) -> Sample:
        clouds = torus_klein_clouds(count, 100, rng, klein=reading.klein, stretch=reading.stretch)
        return cls([p.astype(np.float32) for p in clouds.points], clouds.labels)

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        a, b = round(0.64 * len(self.labels)), round(0.8 * len(self.labels))
        return slice(0, a), slice(a, b), slice(b, None)

    def batches(self, inputs: Callable[[slice], Batch]) -> list[list[Batch]]:
        """Batches ``(*inputs, labels)`` of training; validation and test are one batch each."""
        train, validation, test = self.parts
        starts = [slice(a, min(a + BATCH, train.stop)) for a in range(0, train.stop, BATCH)]
        labels = torch.from_numpy(self.labels)
        return [[(*inputs(part), labels[part]) for part in parts] for parts in (starts, [validation], [test])]

    def score(self, model: Any, features: Any) -> tuple[float, float]:
        """Accuracy of an estimator on the test clouds after fitting it to all others, and the seconds of fitting."""
        stop = self.parts[2].start
        _, seconds = timed(model.fit, features[:stop], self.labels[:stop])
        return float(model.score(features[stop:], self.labels[stop:])), seconds


def _networks(sample: Sample, reading: Reading, seed: int) -> list[Row]:
    """The paper's networks, trained by one reading of its text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GlobalNeighborhoodWarning)  # a consequence of the paper's scales
        bundles = [TangentBundle.from_points(p, dim=2, eps=0.5, eps_pca=0.8) for p in sample.points]
    inputs = [bundle.to_coordinates(np.ones_like(bundle.points)) for bundle in bundles]
    projected = [b.to_ambient(x)[:, None, :] for b, x in zip(bundles, inputs, strict=True)]
    grids = torch.stack([occupancy(points) for points in sample.points])
    activations = {"Id": nn.Linear(), "Tanh": nn.Coordinatewise(torch.tanh)}
    rows = []
    for method, channels, signals, operators in (
        ("DD-TNN", [1, 8, 4, 1], inputs, [b.laplacian(calibrate=False) for b in bundles]),
        ("MNN", [3, 8, 4, 3], projected, [b.scalar().laplacian(calibrate=False) for b in bundles]),
    ):

        def joined(part: slice, signals: list = signals, operators: list = operators) -> Batch:
            return torch.from_numpy(np.concatenate(signals[part])), join(operators[part])

        data = sample.batches(joined)
        for name, activation in activations.items():
            source = generator(seed)
            readout = reading.readout(channels[-1], 2, dim=operators[0].dim, seed=source)
            net = nn.TNN(channels, taps=2, activation=activation, readout=readout, seed=source)
            rows.append(_trained(method, name, net, data, reading.patience, seed))
    data = sample.batches(lambda part: (grids[part],))
    for name in activations:
        rows.append(_trained("3D-CNN", name, voxel_network(name, seed), data, reading.patience, seed))
    return rows


def occupancy(points: np.ndarray, resolution: int = 6) -> torch.Tensor:
    """Which cells of the bounding cube of a cloud ``(n, 3)`` hold points: ``(1, r, r, r)`` of zeros and ones."""
    low = points.min(axis=0)
    sides = [(start, start + np.ptp(points, axis=0).max()) for start in low]
    return torch.from_numpy(np.histogramdd(points, resolution, sides)[0] > 0).float()[None]


def voxel_network(activation: str, seed: int) -> torch.nn.Module:
    """A 3D-CNN on occupancy grids: two convolutions, a mean over the grid, and a linear classifier."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        first, second = (torch.nn.Conv3d(channels, 2, 3, padding=1) for channels in (1, 2))
        classes = torch.nn.Linear(2, 2)
    bend = torch.nn.Identity() if activation == "Id" else torch.nn.Tanh()
    return torch.nn.Sequential(first, bend, second, bend, torch.nn.AdaptiveAvgPool3d(1), torch.nn.Flatten(), classes)


def _trained(method: str, activation: str, net: torch.nn.Module, data: list, patience: int, seed: int) -> Row:
    def loss(net: torch.nn.Module, batch: Batch) -> torch.Tensor:
        return F.cross_entropy(net(*batch[:-1]), batch[-1])

    def accuracy(batch: Batch) -> float:
        with torch.no_grad():
            return float((net(*batch[:-1]).argmax(dim=-1) == batch[-1]).double().mean())

    train, validation, test = data
    limits = {"epochs": EPOCHS, "patience": patience, "clip": 1.0, "seed": seed, "progress": False}
    _, seconds = timed(fit, net, train, loss, validation=validation, **limits)
    scores = {"accuracy": accuracy(test[0]), "validation": accuracy(validation[0])}
    return _row(method, activation, seconds, sum(p.numel() for p in net.parameters()), **scores)


def _classifiers(sample: Sample) -> list[Row]:
    """The library's estimator."""
    rows = []
    for name, activation in {"Id": nn.Linear(), "Tanh": nn.NormTanh()}.items():
        model = estimators.ManifoldClassifier(activation, dim=2, random_state=0)
        accuracy, seconds = sample.score(model, sample.points)
        rows.append(_row("fields", name, seconds, model.network_.num_parameters, accuracy=accuracy))
    return rows


def _baselines(sample: Sample) -> list[Row]:
    moments = np.stack([np.cov(p.T.astype(float))[np.triu_indices(3)] for p in sample.points])
    majority, _ = sample.score(DummyClassifier(), moments)
    accuracy, seconds = sample.score(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), moments)
    return [
        _row("majority class", "-", 0.0, 1, accuracy=majority),
        _row("logistic regression on moments", "-", seconds, moments.shape[1] + 1, accuracy=accuracy),
    ]


def _row(method: str, activation: str, seconds: float, parameters: int, **scores: float) -> Row:
    return {"method": method, "activation": activation, **scores, "parameters": parameters, "seconds": seconds}
