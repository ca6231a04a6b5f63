"""The paper's Table 4: networks that are given a constant field tell tori from Klein bottles, by several readings.

The text leaves open which immersion of the Klein bottle is meant and how surfaces are scaled to the unit cube; of the
readout it says "e.g. sum for classification". A *reading* is one choice of each.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from .. import nn
from ..bundle import TangentBundle
from ..datasets import EachAxis, LongestSide, torus_klein_clouds
from ..errors import GlobalNeighborhoodWarning, InvalidInputError
from ..manifolds import ClassicalKleinBottle, KleinBottle
from ..nn.base import Configured, generator
from ..operators import LinearOperator, join
from ..training import fit
from .base import Column, Experiment, Row, Task, draw
from .runner import timed

EPS, EPS_PCA = 0.5, 0.8
BATCH, EPOCHS, PATIENCE, RATE = 32, 100, 5, 1e-2

BOTTLES: dict[str, Callable] = {"figure-8": partial(KleinBottle, 3), "classical": ClassicalKleinBottle}
CUBES: dict[str, LongestSide | EachAxis] = {"longest side": LongestSide(), "each axis": EachAxis()}
READOUTS = {"sum": nn.SumReadout, "moments": nn.MomentReadout}
ACTIVATIONS = {"Id": nn.Linear(), "Tanh": nn.Coordinatewise(torch.tanh)}

Batch = tuple[Any, ...]


class Classification(Experiment):
    """Accuracy of telling tori from immersed Klein bottles, clouds of 100 points in the unit cube.

    >>> Classification().tasks(full=False, protocol="best")
    [{'protocol': 'best', 'bottle': 'figure-8', 'cube': 'longest side', 'dataset': 0, 'clouds': 300}]
    """

    name = "classification"
    title = "Manifold classification: torus or Klein bottle"
    cell = ("activation", "bottle", "cube")
    columns = (
        Column("accuracy", "test accuracy", headline=True),
        Column("validation", "validation accuracy"),
        Column("parameters", "parameters"),
        Column("seconds", "seconds"),
    )
    better = "higher"

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        count, clouds = (8, 2000) if full else (1, 300)
        shapes = list(product(BOTTLES, CUBES))[: None if protocol == "paper" else 1]
        return [
            {"protocol": protocol, "bottle": bottle, "cube": cube, "dataset": dataset, "clouds": clouds}
            for dataset in range(count)
            for bottle, cube in shapes
        ]

    def run(self, task: Task, seed: int) -> list[Row]:
        if task["protocol"] not in ("paper", "best"):
            raise InvalidInputError(f"protocol must be 'paper' or 'best', got {task['protocol']!r}.")
        shape = {"bottle": task["bottle"], "cube": task["cube"]}
        sample = Sample.drawn(task["clouds"], draw(seed, self.name, task["dataset"]), **shape)
        rows = _by_networks(sample, task["dataset"]) if task["protocol"] == "paper" else _by_estimators(sample)
        return [{**shape, **row} for row in rows + _baselines(sample)]

    def published(self) -> list[Row]:
        """The paper's numbers, repeated for every reading."""
        return [{**row, "bottle": b, "cube": c} for b, c, row in product(BOTTLES, CUBES, super().published())]

    def figures(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        from .figures import classification_figures

        return classification_figures(rows, folder)

    def notes(self, rows: Sequence[Row], protocol: str) -> str:
        return NOTES[protocol] + NOTES["both"]


NOTES = {
    "paper": (
        "Readings of the text: the immersion of the Klein bottle (figure-8 or classical), the scaling to the unit cube "
        "(by the longest side or by each axis) and the readout. The paper suggests a sum over points (`sum`); "
        "`moments` are means of coordinates and of their squares. Both end in a perceptron with 16 hidden units. "
        "Compare readings by validation accuracy. Training: Adam, rate 0.01, batches of 32 clouds, gradients clipped "
        "at norm 1, at most 100 epochs, the paper's patience of 5 epochs on the validation loss; the paper prints "
        "neither rate nor batch size. Each data set is split once: 64 % training, 16 % validation, 20 % test. The "
        "input of the MNN is O_i O_i^T (1, 1, 1), since diffusion leaves the constant itself unchanged. With eps = 0.5 "
        "and eps_PCA = 0.8 the median ball holds most of a cloud: estimated frames are nearly the same everywhere. "
        "Sums, moments and Tanh of coordinates depend on the arbitrary signs of the frames. "
    ),
    "best": (
        "`ManifoldClassifier` at its automatic, local scale. It depends on no frames, nor on position, orientation or "
        "size of a cloud. Id: linear filters before an invariant readout. Tanh: of the lengths of vectors. `fields`: "
        "the network alone; `fields and geometry`: with spectra, holonomy and curvature. The training share is divided "
        "again for early stopping. "
    ),
    "both": (
        "Baselines: the majority class, and a logistic regression on the second moments of the coordinates. The latter "
        "shows how far the covariance of a cloud alone tells the surfaces apart."
    ),
}


@dataclass(frozen=True, eq=False)
class Sample:
    """Clouds ``(n_i, 3)`` and labels in random order: training first, then validation, then test."""

    points: list[np.ndarray]
    labels: np.ndarray

    @classmethod
    def drawn(cls, count: int, rng: np.random.Generator, bottle: str, cube: str) -> Sample:
        clouds = torus_klein_clouds(count, 100, rng, klein=BOTTLES[bottle](), cube=CUBES[cube])
        return cls([p.astype(np.float32) for p in clouds.points], clouds.labels)

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """Training, validation and test: 64, 16 and 20 %."""
        a, b = round(0.64 * len(self.labels)), round(0.8 * len(self.labels))
        return slice(0, a), slice(a, b), slice(b, None)

    @property
    def split(self) -> tuple[slice, slice]:
        """Training and validation together, and the test."""
        return slice(0, self.parts[1].stop), self.parts[2]


# The paper's protocol.


def _by_networks(sample: Sample, number: int) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GlobalNeighborhoodWarning)  # a consequence of the paper's scales
        bundles = [TangentBundle.from_points(p, dim=2, eps=EPS, eps_pca=EPS_PCA) for p in sample.points]
    inputs = [bundle.to_coordinates(np.ones_like(bundle.points)) for bundle in bundles]
    projected = [b.to_ambient(x)[:, None, :] for b, x in zip(bundles, inputs, strict=True)]
    labels, grids = torch.from_numpy(sample.labels), nn.occupancy(sample.points, resolution=6)

    def fields(operators: Sequence[LinearOperator], signals: list[np.ndarray], part: slice) -> Batch:
        return torch.from_numpy(np.concatenate(signals[part])), join(operators[part]), labels[part]

    data = _batches(sample, partial(fields, [b.laplacian(calibrate=False) for b in bundles], inputs))
    rows = _by_fields("DD-TNN", [1, 8, 4, 1], 2, data, number)
    data = _batches(sample, partial(fields, [b.scalar().laplacian(calibrate=False) for b in bundles], projected))
    rows += _by_fields("MNN", [3, 8, 4, 3], 1, data, number)
    data = _batches(sample, lambda part: (grids[part], labels[part]))
    for name in ACTIVATIONS:
        rows.append(_trained("3D-CNN", name, nn.VoxelCNN(2, (2, 2), linear=name == "Id", seed=number), data, number))
    return rows


def _by_fields(method: str, channels: list[int], dim: int, data: list[list[Batch]], number: int) -> list[Row]:
    """Rows of a network on fields of rank ``dim``, with every readout and activation."""
    rows = []
    for (name, readout), (bend, activation) in product(READOUTS.items(), ACTIVATIONS.items()):
        source = generator(number)
        last = readout(channels[-1], 2, dim=dim, seed=source)
        net = nn.TNN(channels, taps=2, activation=activation, readout=last, seed=source)
        rows.append(_trained(f"{method}, {name}", bend, net, data, number))
    return rows


def _batches(sample: Sample, batch: Callable[[slice], Batch]) -> list[list[Batch]]:
    """Batches ``(*inputs, labels)`` of training; validation and test are one batch each."""
    train, validation, test = sample.parts
    starts = range(0, train.stop, BATCH)
    return [[batch(slice(a, min(a + BATCH, train.stop))) for a in starts], [batch(validation)], [batch(test)]]


def cross_entropy(net: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """The loss of a batch ``(*inputs, labels)``."""
    *inputs, labels = batch
    return F.cross_entropy(net(*inputs), labels)


def accuracy(net: torch.nn.Module, batch: Batch) -> float:
    """The share of clouds whose largest output is the right one."""
    *inputs, labels = batch
    with torch.no_grad():
        return float((net(*inputs).argmax(dim=-1) == labels).double().mean())


def _trained(method: str, activation: str, net: Configured, data: list[list[Batch]], seed: int) -> Row:
    train, validation, (test,) = data
    limits = partial(fit, epochs=EPOCHS, patience=PATIENCE, lr=RATE, clip=1.0, seed=seed, progress=False)
    _, seconds = timed(partial(limits, net, train, cross_entropy, validation=validation))
    row = _row(method, activation, accuracy(net, test), seconds, net.num_parameters)
    return {**row, "validation": accuracy(net, validation[0])}


# The best protocol, and what both are compared with.


def _by_estimators(sample: Sample) -> list[Row]:
    from ..estimators import ManifoldClassifier

    train, test = sample.split
    rows = []
    for name, activation in {"Id": nn.Linear(), "Tanh": nn.NormTanh()}.items():
        for method, geometry in {"fields": (), "fields and geometry": None}.items():
            model = ManifoldClassifier(activation, geometry=geometry, dim=2, random_state=0)
            seconds = timed(model.fit, sample.points[train], sample.labels[train])[1]
            score = model.score(sample.points[test], sample.labels[test])
            rows.append(_row(method, name, score, seconds, model.network_.num_parameters))
    return rows


def _baselines(sample: Sample) -> list[Row]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, test = sample.split
    labels, upper = sample.labels, np.triu_indices(3)
    majority = np.mean(labels[test] == np.bincount(labels[train]).argmax())
    moments = np.stack([np.cov(p.T.astype(float))[upper] for p in sample.points])
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    seconds = timed(model.fit, moments[train], labels[train])[1]
    score = model.score(moments[test], labels[test])
    return [
        _row("majority class", "-", majority, 0.0, 1),
        _row("logistic regression on moments", "-", score, seconds, moments.shape[1] + 1),
    ]


def _row(method: str, activation: str, score: float, seconds: float, parameters: int) -> Row:
    return {
        "method": method,
        "activation": activation,
        "accuracy": float(score),
        "parameters": parameters,
        "seconds": round(seconds, 2),
    }
