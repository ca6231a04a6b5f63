"""Torus or Klein bottle? The paper's Table 4: clouds told apart by networks that are given a constant field."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from .. import nn
from ..bundle import TangentBundle
from ..datasets import torus_klein_clouds
from ..errors import GlobalNeighborhoodWarning, InvalidInputError
from ..nn.base import Configured, generator, seeded
from ..nn.models import cloud_means
from ..operators import LinearOperator, join
from ..training import fit
from .base import Column, Experiment, Row, Task, draw
from .runner import timed

EPS, EPS_PCA = 0.5, 0.8
BATCH, EPOCHS, PATIENCE, RATE = 100, 100, 25, 1e-2

Batch = tuple[torch.Tensor, ...]


class Classification(Experiment):
    """Accuracy of telling tori from immersed Klein bottles, clouds of 100 points in the unit cube.

    >>> Classification().tasks(full=False, protocol="paper")
    [{'protocol': 'paper', 'dataset': 0, 'clouds': 300}]
    """

    name = "classification"
    title = "Manifold classification: torus or Klein bottle"
    cell = ("activation",)
    columns = (
        Column("accuracy", "accuracy", headline=True),
        Column("oracle", "accuracy at the best epoch by test data (oracle)"),
        Column("parameters", "parameters"),
        Column("seconds", "seconds"),
    )
    better = "higher"

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        count, clouds = (8, 2000) if full else (1, 300)
        return [{"protocol": protocol, "dataset": dataset, "clouds": clouds} for dataset in range(count)]

    def run(self, task: Task, seed: int) -> list[Row]:
        if task["protocol"] not in ("paper", "best"):
            raise InvalidInputError(f"protocol must be 'paper' or 'best', got {task['protocol']!r}.")
        sample = Sample.drawn(task["clouds"], draw(seed, self.name, task["dataset"]))
        rows = _by_networks(sample, task["dataset"]) if task["protocol"] == "paper" else _by_estimators(sample)
        return rows + _baselines(sample)

    def figures(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        from .figures import classification_figures

        return classification_figures(rows, folder)

    def notes(self, rows: Sequence[Row], protocol: str) -> str:
        return NOTES[protocol] + NOTES["both"]


NOTES = {
    "paper": (
        "Each data set is split once: 64 % train, 16 % choose the epoch, 20 % test. The paper names neither the "
        "pooling of clouds of different sizes nor the width of the classifier: here the outputs' coordinates and "
        "their squares are averaged over each cloud, and 16 hidden units follow. (Of three poolings this one had the "
        "best validation accuracy of the DD-TNN.) The MNN cannot be given the constant (1, 1, 1), which diffusion on "
        "the scalar bundle leaves unchanged, so that all clouds would look the same; it has the projections O_i O_i^T "
        "(1, 1, 1) as three channels, and three outputs as in the denoising task. With eps = 0.5 and eps_PCA = 0.8 "
        "the median ball holds most of a cloud: the frames are nearly the same everywhere, and little of the shape is "
        "left in the Laplacian. Tanh acts on coordinates, so that the DD-TNN depends on the frames' arbitrary signs. "
    ),
    "best": (
        "`ManifoldClassifier` in its local, automatic scale; its networks depend on no frames, and not on position, "
        "orientation or size of a cloud. Id: linear filters only, before an invariant readout. Tanh: of the lengths of "
        "vectors. `fields`: the network alone; `fields and geometry`: with spectra, holonomy and curvature. The "
        "training share is divided again for early stopping; test data choose nothing, so there is no oracle. "
    ),
    "both": (
        "Baselines know nothing of manifolds: the majority class, and a logistic regression on the second moments of "
        "the coordinates, which shows how easy the data are: the surfaces differ in shape enough for their covariances "
        "to tell them apart. The oracle column picks the epoch by the test data, and is no fair score."
    ),
}


@dataclass(frozen=True, eq=False)
class Sample:
    """Clouds ``(n_i, 3)`` and labels in random order: training first, then validation, then test."""

    points: list[np.ndarray]
    labels: np.ndarray

    @classmethod
    def drawn(cls, count: int, rng: np.random.Generator) -> Sample:
        clouds = torus_klein_clouds(count, 100, rng)
        return cls([p.astype(np.float32) for p in clouds.points], clouds.labels)

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """Training, validation and test: 64, 16 and 20 %."""
        a, b = round(0.64 * len(self.labels)), round(0.8 * len(self.labels))
        return slice(0, a), slice(a, b), slice(b, None)

    @property
    def split(self) -> tuple[slice, slice]:
        """All that may be learned from, and the test."""
        return slice(0, self.parts[1].stop), self.parts[2]


# The paper's protocol.


class PooledClassifier(Configured):
    r"""A network on fields, means of its outputs' coordinates and of their squares over each cloud, and a perceptron.

    .. math:: z_b = \tfrac{1}{n_b} \sum_{i \in b} (f_i, f_i^2), \qquad y_b = W_2\, \mathrm{ReLU}(W_1 z_b + c_1) + c_2.
    """

    def __init__(self, channels: Sequence[int], rank: int, activation: nn.Activation, hidden: int = 16, seed: int = 0):
        super().__init__()
        source = generator(seed)
        self.fields = nn.TNN(channels, taps=2, activation=activation, seed=source)
        self.first = seeded(torch.nn.Linear, 2 * rank * channels[-1], hidden, source=source)
        self.second = seeded(torch.nn.Linear, hidden, 2, source=source)

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        y = self.fields(x, operator).flatten(-2)
        return self.second(torch.relu(self.first(cloud_means(torch.cat([y, y.square()], dim=-1), operator))))


def _by_networks(sample: Sample, number: int) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GlobalNeighborhoodWarning)  # the paper's scales are what they are
        bundles = [TangentBundle.from_points(p, dim=2, eps=EPS, eps_pca=EPS_PCA) for p in sample.points]
    inputs = [bundle.to_coordinates(np.ones_like(bundle.points)) for bundle in bundles]
    projected = [b.to_ambient(x)[:, None, :] for b, x in zip(bundles, inputs, strict=True)]
    activations = {"Id": nn.Linear(), "Tanh": nn.Coordinatewise(torch.tanh)}
    rows = []

    data = _field_batches([b.laplacian(calibrate=False) for b in bundles], inputs, sample)
    for name, activation in activations.items():
        net: Configured = PooledClassifier([1, 8, 4, 1], 2, activation, seed=number)
        rows.append(_trained("DD-TNN", name, net, data, number))
    data = _field_batches([b.scalar().laplacian(calibrate=False) for b in bundles], projected, sample)
    for name, activation in activations.items():
        net = PooledClassifier([3, 8, 4, 3], 1, activation, seed=number)
        rows.append(_trained("MNN", name, net, data, number))
    data = _grid_batches(sample)
    for name in activations:
        net = nn.VoxelCNN(2, (2, 2), linear=name == "Id", seed=number)
        rows.append(_trained("3D-CNN", name, net, data, number))
    return rows


def _field_batches(operators: list, inputs: list[np.ndarray], sample: Sample) -> list[list[Batch]]:
    """Batches (signal, joined operator, labels) of training; validation and test are one batch each."""

    def batch(part: slice) -> Any:
        signal = torch.from_numpy(np.concatenate(inputs[part]))
        return signal, join(operators[part]), torch.from_numpy(sample.labels[part])

    return _batches(sample, batch)


def _grid_batches(sample: Sample) -> list[list[Batch]]:
    grids, labels = nn.occupancy(sample.points, resolution=6), torch.from_numpy(sample.labels)
    return _batches(sample, lambda part: (grids[part], labels[part]))


def _batches(sample: Sample, batch) -> list[list[Batch]]:
    train, validation, test = sample.parts
    starts = range(0, train.stop, BATCH)
    return [[batch(slice(a, min(a + BATCH, train.stop))) for a in starts], [batch(validation)], [batch(test)]]


@dataclass
class CrossEntropy:
    """The loss; whenever it judges an epoch it also notes the accuracy on test data, which chooses nothing."""

    test: Batch
    accuracies: list[float] = field(default_factory=list)

    def __call__(self, net: torch.nn.Module, batch: Batch) -> torch.Tensor:
        if not net.training:
            self.accuracies.append(accuracy(net, self.test))
        *inputs, labels = batch
        return F.cross_entropy(net(*inputs), labels)


def accuracy(net: torch.nn.Module, batch: Batch) -> float:
    """The share of clouds whose largest output is the right one."""
    *inputs, labels = batch
    with torch.no_grad():
        return float((net(*inputs).argmax(dim=-1) == labels).double().mean())


def _trained(method: str, activation: str, net: Configured, data: list[list[Batch]], seed: int) -> Row:
    train, validation, (test,) = data
    loss = CrossEntropy(test)

    def train_it():
        return fit(
            net,
            train,
            loss,
            epochs=EPOCHS,
            lr=RATE,
            validation=validation,
            patience=PATIENCE,
            clip=1.0,
            seed=seed,
            progress=False,
        )

    seconds = timed(train_it)[1]
    return _row(method, activation, accuracy(net, test), seconds, max(loss.accuracies), net.num_parameters)


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
            rows.append(_row(method, name, score, seconds, parameters=model.network_.num_parameters))
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
        _row("majority class", "-", majority, 0.0, parameters=1),
        _row("logistic regression on moments", "-", score, seconds, parameters=moments.shape[1] + 1),
    ]


def _row(
    method: str, activation: str, score: float, seconds: float, oracle: float | None = None, parameters: int = 0
) -> Row:
    return {
        "method": method,
        "activation": activation,
        "accuracy": float(score),
        "oracle": oracle,
        "parameters": parameters,
        "seconds": round(seconds, 2),
    }
