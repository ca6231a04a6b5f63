"""Table 1: denoising a field on the torus."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harness.ledger import Row, Task
from tangentbundle import TangentBundle, manifolds
from tangentbundle.datasets import FieldSample, TorusField, torus_field
from tangentbundle.errors import GlobalNeighborhoodWarning
from tangentbundle.estimators import FieldDenoiser
from tangentbundle.geometry.kernels import Gaussian
from tangentbundle.operators import Identity, Negated, Symmetric

from .base import Description, Experiment, Form, draw
from .baselines import AmbientProcess, denoised, smoothers
from .networks import NetworkView, reproduce_inputs

TAUS = (0.01, 0.1, 0.3)
FIELDS: dict[str, TorusField] = {
    "as printed": manifolds.Torus.paper_field,
    "tangent": manifolds.Torus.tangent_field,
}
FULL = Form(sizes=(100, 200, 300, 400), draws=8)
QUICK = Form(sizes=(100, 400), draws=2)

EPOCHS = 3_000
"""Epochs of training in the full form."""

QUICK_EPOCHS = 1_000
"""Epochs of training in the quick form."""

RATE = 0.03
"""Rate of Adam in the first epoch."""

LAST_RATE = 0.01
"""Rate in the last epoch, relative to that in the first."""


class Torus(Experiment):
    """Mean squared error of denoised fields, :math:`|f - f^o|^2 / n`."""

    name = "torus"
    about = Description.named(name)

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        form = FULL if full else QUICK
        common: Task = {"noises": form.draws, "protocol": protocol}
        fields = list(FIELDS)
        if protocol == "paper":
            common["epochs"] = EPOCHS if full else QUICK_EPOCHS
            fields = ["as printed"]
        return [
            {"field": field, "n": n, "sampling": sampling, **common}
            for field in fields
            for n in form.sizes
            for sampling in range(form.draws)
        ]

    def run(self, task: Task, seed: int) -> list[Row]:
        data = Draw.of(task, seed)
        if task["protocol"] == "paper":
            bundle = paper_bundle(data)
            frames = np.asarray(bundle.frames, dtype=float)
            answers = paper_answers(data, bundle, task["epochs"])
        else:
            denoiser = FieldDenoiser(dim=2, random_state=0)
            answers = best_answers(data, denoiser)
            frames = denoiser.frames_
        common = {
            "field": task["field"],
            "n": task["n"],
            "sampling": task["sampling"],
            "points": len(data.sample.points),
            "angle": mean_angle(frames, data.sample.frames),
        }
        rows = []
        for method, answer in answers.items():
            scores = answer.scores(data.sample.vectors, frames)
            for case, (tau, noise) in enumerate(data.cases):
                row = {**common, "tau": tau, "noise": noise, "method": method}
                row["parameters"] = answer.parameters
                for score, values in scores.items():
                    row[score] = values[case]
                rows.append(row)
        return rows

    def conditions(self, rows: Sequence[Row], full: bool, protocol: str) -> str:
        samplings = len({row.get("sampling") for row in rows})
        noises = len({row.get("noise") for row in rows})
        sentences = f"Data: {samplings} samplings of the torus with {noises} noises each."
        if protocol == "paper":
            epochs = EPOCHS if full else QUICK_EPOCHS
            sentences += f" Training: {epochs} epochs."
        return sentences


@dataclass(frozen=True)
class Draw:
    """One sampling of the torus, its noisy fields ``(cases, n, 3)``, and the noise level and number
    of each."""

    sample: FieldSample
    noisy: np.ndarray
    cases: list[tuple[float, int]]

    @classmethod
    def of(cls, task: Task, seed: int) -> Draw:
        """The draw of a task."""
        field = task["field"]
        n = task["n"]
        sampling = task["sampling"]
        sample = torus_field(n, FIELDS[field], seed=draw(seed, "torus", field, n, sampling))
        cases = [(tau, number) for tau in TAUS for number in range(task["noises"])]
        noisy = []
        for tau, number in cases:
            rng = draw(seed, "noise", field, n, sampling, tau, number)
            noisy.append(sample.noisy(tau, rng).vectors)
        return cls(sample, np.stack(noisy), cases)


@dataclass(frozen=True)
class Answer:
    """Denoised ambient fields ``(cases, n, 3)`` of a method.

    ``oracle`` are those of the epoch nearest to the clean field. A network on ``ambient``
    components is scored in these.
    """

    fields: np.ndarray
    oracle: np.ndarray | None = None
    parameters: int | None = None
    ambient: bool = False

    def scores(self, clean: np.ndarray, frames: np.ndarray) -> dict[str, list[float]]:
        """Mean squared errors of every field, by name of the score, in frames ``(n, 3, 2)`` and in
        space."""
        in_frames = tangent_errors(self.fields, clean, frames)
        in_space = mean_squares(self.fields - clean)
        own = in_space if self.ambient else in_frames
        scores = {"mse": in_frames, "own_metric": own, "ambient": in_space}
        if self.oracle is not None:
            scores["oracle"] = tangent_errors(self.oracle, clean, frames)
            scores["oracle_own"] = scores["oracle"]
            if self.ambient:
                scores["oracle_own"] = mean_squares(self.oracle - clean)
        return scores


def tangent_errors(fields: np.ndarray, clean: np.ndarray, frames: np.ndarray) -> list[float]:
    """Mean squared errors of fields ``(r, n, 3)`` along frames ``(n, 3, 2)``."""
    return mean_squares(np.einsum("nij,rni->rnj", frames, fields - clean))


def mean_squares(fields: np.ndarray) -> list[float]:
    """The mean squared length of the vectors of each field ``(r, n, c)``."""
    return np.square(fields).sum(axis=2).mean(axis=1).tolist()


def paper_bundle(data: Draw) -> TangentBundle:
    """The bundle at the paper's scales, at which nearly all points are neighbours."""
    points = data.sample.points.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GlobalNeighborhoodWarning)  # the notes of the table say so
        return TangentBundle.from_points(points, dim=2, eps=0.5, eps_pca=0.8)


def paper_views(data: Draw, bundle: TangentBundle) -> list[NetworkView]:
    """How the paper's networks see the field, and those of the authors' code."""
    frames = torch.from_numpy(np.asarray(bundle.frames, dtype=float)).float()
    count = len(data.sample.points)
    lap = bundle.laplacian(calibrate=False)
    cloud_lap = bundle.scalar().laplacian(calibrate=False)
    normalized = authors_laplacian(data, bundle)
    plane = Identity.of(count, 2, torch.float32)
    line = Identity.of(count, 1, torch.float32)
    return [
        NetworkView("DD-TNN", lap, taps=2, components=3, frames=frames),
        NetworkView("MNN", cloud_lap, taps=2, components=3),
        NetworkView("MNN, L_sym, exp(-L)", normalized, taps=2, components=3),
        NetworkView("MNN, L_sym, exp(+L)", Negated(normalized), taps=2, components=3),
        NetworkView("MLP", plane, taps=1, components=3, frames=frames),
        NetworkView("MLP, ambient", line, taps=1, components=3),
    ]


def authors_laplacian(data: Draw, bundle: TangentBundle) -> Any:
    """The Laplacian of the authors' code: weights exp(-|x - y|^2 / 2) between all pairs."""
    points = data.sample.points.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GlobalNeighborhoodWarning)
        cloud = TangentBundle.from_frames(points, bundle.frames, eps=1.0, kernel=Gaussian(0.5))
    return cloud.scalar().graph_laplacian(Symmetric())


def paper_answers(data: Draw, bundle: TangentBundle, epochs: int) -> dict[str, Answer]:
    """Answers of the paper's networks and of simple methods."""
    clean = data.sample.vectors
    everywhere = np.ones(data.noisy.shape[:2])
    answers = {}
    for view in paper_views(data, bundle):
        fields, oracle = reproduce_inputs(
            view,
            inputs=data.noisy,
            observed=everywhere,
            truth=clean,
            scored=everywhere,
            epochs=epochs,
            optimizer=_adam,
            schedule=falling_rate(epochs),
        )
        answers[view.name] = Answer(
            fields,
            oracle=oracle,
            parameters=view.network().num_parameters,
            ambient=view.frames is None,
        )
    return answers | simple_answers(data, smoothers())


def _adam(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Adam with the rate and betas of Table 1."""
    return torch.optim.Adam(parameters, lr=RATE, betas=(0.9, 0.99), foreach=True)


def falling_rate(epochs: int) -> Callable[[int], float]:
    """A schedule by which the rate falls exponentially to one hundredth."""
    return lambda epoch: LAST_RATE ** (epoch / epochs)


def best_answers(data: Draw, denoiser: FieldDenoiser) -> dict[str, Answer]:
    """Answers of field estimators and simple methods; the denoiser is fitted."""
    models = {"FieldDenoiser": denoiser, "ambient Gaussian process": AmbientProcess()}
    return simple_answers(data, models | smoothers())


def simple_answers(data: Draw, models: dict[str, Any]) -> dict[str, Answer]:
    """Answers of estimators, which see one noisy field at a time."""
    answers = {}
    for name, model in models.items():
        answers[name] = Answer(denoised(model, data.sample.points, data.noisy))
    return answers


def mean_angle(bases: np.ndarray, exact: np.ndarray) -> float:
    """Mean angle in degrees between two families of planes: the larger principal one."""
    products = np.einsum("nij,nik->njk", bases, exact)
    cosines = np.linalg.svd(products, compute_uv=False).min(axis=1)
    return float(np.degrees(np.arccos(np.clip(cosines, -1, 1))).mean())
