"""Table 4, by two readings of the paper's text: is a cloud of points a torus or a Klein bottle?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness.ledger import Row, Task
from tangentbundle import estimators, nn
from tangentbundle.batch import Clouds
from tangentbundle.datasets import torus_klein_clouds
from tangentbundle.geometry.frames import PCASettings
from tangentbundle.geometry.kernels import Gaussian
from tangentbundle.geometry.scale import Radius
from tangentbundle.nn.base import generator
from tangentbundle.training import fit

from .base import Description, Experiment, Form, draw

BATCH = 32
"""Clouds in a step of training."""

EPOCHS = 150
"""Most epochs of training."""

PATIENCE = 15
"""Training ends after so many epochs without a lower validation loss."""

CLIP = 1.0
"""Largest norm of a gradient."""

FULL = Form(sizes=(2000,), draws=8)
"""Clouds of a data set, and data sets."""

QUICK = Form(sizes=(600,), draws=1)
POINTS = 100
"""Of each cloud."""

TRAINING_END = 0.64
"""Share of the clouds, in their random order, that is for training."""

VALIDATION_END = 0.8
"""Share for training and validation; the last fifth is for the test."""

STRETCHED = {"base": True, "longest side": False}
"""Two readings of the paper's text: whether clouds are scaled to the unit cube along each axis, or
by the longest."""

Batch = tuple[Any, ...]
"""Inputs of a network for several clouds, and their labels."""


class Classification(Experiment):
    """Accuracy of telling tori from immersed Klein bottles, clouds of 100 points in the unit cube.

    >>> Classification().tasks(full=False, protocol="best")
    [{'protocol': 'best', 'reading': 'longest side', 'dataset': 0, 'clouds': 600}]
    """

    name = "classification"
    about = Description.named(name)

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        form = FULL if full else QUICK
        if protocol == "best":
            readings = ["longest side"]
        elif full:
            readings = list(STRETCHED)
        else:
            readings = ["base"]
        return [
            {"protocol": protocol, "reading": reading, "dataset": number, "clouds": clouds}
            for clouds in form.sizes
            for number in range(form.draws)
            for reading in readings
        ]

    def run(self, task: Task, seed: int) -> list[Row]:
        number = task["dataset"]
        reading = task["reading"]
        sample = Sample.drawn(
            task["clouds"], draw(seed, self.name, number), stretch=STRETCHED[reading]
        )
        if task["protocol"] == "paper":
            rules = {}
            if reading == "base":
                rules = SIGN_RULES
            rows = network_rows(sample, number, rules, draw(seed, "signs", number))
        else:
            rows = estimator_rows(sample)
        rows += baseline_rows(sample)
        return [{"reading": reading, "dataset": number, **row} for row in rows]

    def conditions(self, rows: Sequence[Row], full: bool, protocol: str) -> str:
        form = FULL if full else QUICK
        sets = len({row["dataset"] for row in rows if "dataset" in row}) or form.draws
        sentences = f"Data: {sets} data sets of {form.sizes[0]} clouds."
        if protocol == "paper":
            sentences += (
                f" Training: at most {EPOCHS} epochs, stopped after {PATIENCE} without improvement."
            )
        return sentences

    def published(self) -> list[Row]:
        """The paper's numbers, repeated for every reading."""
        rows = super().published()
        return [{**row, "reading": reading} for reading in STRETCHED for row in rows]


@dataclass(frozen=True, eq=False)
class Sample:
    """Clouds ``(n_i, 3)`` and labels in random order: 64 % for training, 16 % for validation, 20 %
    for the test."""

    points: list[np.ndarray]
    labels: np.ndarray

    @classmethod
    def drawn(cls, count: int, rng: np.random.Generator, stretch: bool) -> Sample:
        """Random clouds, half of them tori."""
        clouds, labels = torus_klein_clouds(count, POINTS, rng, stretch=stretch)
        return cls([points.astype(np.float32) for points in clouds], labels)

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """The clouds for training, for validation and for the test."""
        count = len(self.labels)
        validation_start = round(TRAINING_END * count)
        test_start = round(VALIDATION_END * count)
        return (
            slice(0, validation_start),
            slice(validation_start, test_start),
            slice(test_start, None),
        )

    def batches(self, inputs: Callable[[slice], Batch]) -> Batches:
        """Batches of training; validation and test are one batch each."""
        training, validation, test = self.parts
        labels = torch.from_numpy(self.labels)

        def batch(part: slice) -> Batch:
            return (*inputs(part), labels[part])

        training_batches = []
        for start in range(0, training.stop, BATCH):
            training_batches.append(batch(slice(start, min(start + BATCH, training.stop))))
        return Batches(training_batches, batch(validation), batch(test))

    def score(self, model: Any, features: Any) -> float:
        """Accuracy of an estimator on the test clouds after fitting it to all others."""
        start = self.parts[2].start
        model.fit(features[:start], self.labels[:start])
        return float(model.score(features[start:], self.labels[start:]))


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches ``(*inputs, labels)`` for training, and one each for validation and test."""

    training: list[Batch]
    validation: Batch
    test: Batch

    def with_inputs(self, inputs: Callable[[Clouds], Batch]) -> Batches:
        """The same batches, whose clouds have become the inputs of a network."""

        def changed(batch: Batch) -> Batch:
            clouds, labels = batch
            return (*inputs(clouds), labels)

        return Batches(
            [changed(batch) for batch in self.training],
            changed(self.validation),
            changed(self.test),
        )


SignRule = Callable[[torch.Tensor, np.random.Generator], torch.Tensor]
"""From frames ``(n, D, d)`` to a sign for each of their vectors ``(n, d)``."""


def random_signs(frames: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Independent signs."""
    shape = (frames.shape[0], frames.shape[2])
    return torch.from_numpy(rng.choice([-1.0, 1.0], shape))


def signs_by_direction(frames: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Signs by which all vectors make acute angles with one random direction."""
    direction = torch.from_numpy(rng.standard_normal(frames.shape[1]))
    products = torch.einsum("nia,i->na", frames, direction)
    return torch.where(products < 0, -1.0, 1.0)


SIGN_RULES: dict[str, SignRule] = {
    "DD-TNN, random signs": random_signs,
    "DD-TNN, signs by a direction": signs_by_direction,
}
"""Other signs of the vectors of the frames than the library's, on which the sum of coordinates
depends."""


def with_signs(clouds: Clouds, rule: SignRule, rng: np.random.Generator) -> Clouds:
    """The same clouds in frames whose vectors have the signs of a rule."""
    matrices = clouds.frames.matrices
    turned = matrices * rule(matrices, rng)[:, None, :]
    return replace(clouds, frames=replace(clouds.frames, matrices=turned))


ACTIVATIONS: dict[str, Callable[[], nn.Activation]] = {
    "Id": nn.NoActivation,
    "Tanh": lambda: nn.Coordinatewise(torch.tanh),
}


def network_rows(
    sample: Sample, seed: int, rules: dict[str, SignRule], rng: np.random.Generator
) -> list[Row]:
    """The paper's networks; the first also in frames whose signs follow other ``rules``."""
    clouds = sample.batches(lambda part: (paper_clouds(sample.points[part]),))
    tangent_channels = [1, 8, 4, 1]
    tangent = clouds.with_inputs(tangent_inputs)
    rows = paper_network_rows("DD-TNN", tangent_channels, 2, tangent, seed)
    for method, rule in rules.items():
        flipped = clouds.with_inputs(partial(inputs_with_signs, rule=rule, rng=rng))
        rows += paper_network_rows(method, tangent_channels, 2, flipped, seed)
    rows += paper_network_rows("MNN", [3, 8, 4, 3], 1, clouds.with_inputs(scalar_inputs), seed)
    grids = torch.stack([occupancy(points) for points in sample.points])
    data = sample.batches(lambda part: (grids[part],))
    for activation in ACTIVATIONS:
        rows.append(trained_row("3D-CNN", activation, voxel_network(activation, seed), data, seed))
    return rows


def paper_network_rows(
    method: str, channels: list[int], dim: int, data: Batches, seed: int
) -> list[Row]:
    """The paper's network on fibres of dimension ``dim``, with every activation."""
    rows = []
    for activation in ACTIVATIONS:
        net = paper_network(channels, activation, seed, dim)
        rows.append(trained_row(method, activation, net, data, seed))
    return rows


def paper_network(channels: list[int], activation: str, seed: int, dim: int) -> nn.TNN:
    """The paper's network on fibres of dimension ``dim``; its readout is a sum over the points."""
    source = generator(seed)
    readout = nn.SumReadout(channels[-1], 2, rank=dim, seed=source)
    return nn.TNN(
        channels, taps=2, activation=ACTIVATIONS[activation](), readout=readout, seed=source
    )


def paper_clouds(points: list[np.ndarray]) -> Clouds:
    """Clouds ``(n_i, 3)`` at the paper's scales."""
    sizes = [len(cloud) for cloud in points]
    batch = np.repeat(np.arange(len(points)), sizes)
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


def inputs_with_signs(clouds: Clouds, rule: SignRule, rng: np.random.Generator) -> Batch:
    """The inputs of a network on tangent vectors, in frames whose signs follow a rule."""
    return tangent_inputs(with_signs(clouds, rule, rng))


def scalar_inputs(clouds: Clouds) -> Batch:
    """The same vectors, projected on the tangent planes, as functions ``(n, 1, 3)``, and the
    Laplacians of these."""
    matrices = clouds.frames.matrices
    projected = matrices @ matrices.sum(1)[:, :, None]
    return projected.mT.float(), clouds.scalar_laplacian(calibrate=False)


def occupancy(points: np.ndarray, resolution: int = 6) -> torch.Tensor:
    """Which cells of the bounding cube of a cloud ``(n, 3)`` hold points: ``(1, r, r, r)`` of zeros
    and ones."""
    lowest = points.min(axis=0)
    length = np.ptp(points, axis=0).max()
    sides = [(start, start + length) for start in lowest]
    counts, _ = np.histogramdd(points, resolution, sides)
    return torch.from_numpy(counts > 0).float()[None]


def voxel_network(activation: str, seed: int) -> torch.nn.Module:
    """A 3D-CNN on occupancy grids: two convolutions, a mean over the grid, and a linear
    classifier."""
    bend: torch.nn.Module = torch.nn.Tanh()
    if activation == "Id":
        bend = torch.nn.Identity()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Conv3d(1, 2, 3, padding=1),
            bend,
            torch.nn.Conv3d(2, 2, 3, padding=1),
            bend,
            torch.nn.AdaptiveAvgPool3d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(2, 2),
        )


def trained_row(
    method: str, activation: str, net: torch.nn.Module, data: Batches, seed: int
) -> Row:
    """Train a network, and return its accuracy on the test clouds."""
    fit(
        net,
        data.training,
        F.cross_entropy,
        validation=[data.validation],
        epochs=EPOCHS,
        patience=PATIENCE,
        clip=CLIP,
        seed=seed,
        progress=False,
    )
    return {
        "method": method,
        "activation": activation,
        "accuracy": accuracy(net, data.test),
        "validation": accuracy(net, data.validation),
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
    }


def accuracy(net: torch.nn.Module, batch: Batch) -> float:
    """The share of clouds of a batch that a network classifies correctly."""
    *inputs, labels = batch
    with torch.no_grad():
        answers = net(*inputs).argmax(dim=-1)
    return float((answers == labels).double().mean())


def estimator_rows(sample: Sample) -> list[Row]:
    """The library's estimator, with linear filters and with tanh of the lengths of vectors."""
    rows = []
    for name, activation in {"Id": nn.NoActivation(), "Tanh": nn.NormTanh()}.items():
        model = estimators.ManifoldClassifier(activation, dim=2, random_state=0)
        score = sample.score(model, sample.points)
        rows.append(
            {
                "method": "ManifoldClassifier",
                "activation": name,
                "accuracy": score,
                "parameters": model.network_.num_parameters,
            }
        )
    return rows


def baseline_rows(sample: Sample) -> list[Row]:
    """The majority class, and second moments of the coordinates."""
    moments = np.stack([second_moments(points) for points in sample.points])
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return [
        {
            "method": "majority class",
            "activation": "-",
            "accuracy": sample.score(DummyClassifier(), moments),
            "parameters": 1,
        },
        {
            "method": "logistic regression on moments",
            "activation": "-",
            "accuracy": sample.score(logistic, moments),
            "parameters": moments.shape[1] + 1,
        },
    ]


def second_moments(points: np.ndarray) -> np.ndarray:
    """The entries on and above the diagonal of the covariance of a cloud ``(n, 3)``."""
    return np.cov(points.T.astype(float))[np.triu_indices(3)]
