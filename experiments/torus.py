"""Table 1: denoising a field on the torus."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import manifolds
from ..bundle import TangentBundle
from ..datasets import FieldSample, TorusField, torus_field
from ..errors import GlobalNeighborhoodWarning
from ..estimators import FieldDenoiser
from ..geometry.kernels import Gaussian
from ..operators import Identity, Negated, Symmetric
from .base import Description, Experiment, Row, Task, draw
from .baselines import AmbientProcess, denoised, smoothers
from .networks import NetworkView, reproduce_inputs

TAUS = (0.01, 0.1, 0.3)
FIELDS: dict[str, TorusField] = {
    "as printed": manifolds.Torus.paper_field,
    "tangent": manifolds.Torus.tangent_field,
}
EPOCHS, QUICK_EPOCHS = 3_000, 1_000
"""Epochs of training, in the full and in the quick form."""


class Torus(Experiment):
    """Mean squared error of denoised fields, :math:`|f - f^o|^2 / n`."""

    name = "torus"
    about = Description.named(name)

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        sizes, count, epochs = (
            ((100, 200, 300, 400), 8, EPOCHS) if full else ((100, 400), 2, QUICK_EPOCHS)
        )
        fields = ("as printed",) if protocol == "paper" else tuple(FIELDS)
        common = {"noises": count, "protocol": protocol} | (
            {"epochs": epochs} if protocol == "paper" else {}
        )
        return [
            {"field": f, "n": n, "sampling": s, **common}
            for f in fields
            for n in sizes
            for s in range(count)
        ]

    def run(self, task: Task, seed: int) -> list[Row]:
        data = Draw.of(task, seed)
        frames, answers = (
            paper_answers(data, task["epochs"])
            if task["protocol"] == "paper"
            else best_answers(data)
        )
        common = {"field": task["field"], "n": task["n"], "sampling": task["sampling"]}
        common |= {
            "points": len(data.sample.points),
            "angle": _mean_angle(frames, data.sample.frames),
        }
        rows = []
        for method, answer in answers.items():
            scores = answer.scores(data.sample.vectors, frames)
            for r, (tau, noise) in enumerate(data.cases):
                own = {
                    "tau": tau,
                    "noise": noise,
                    "method": method,
                    "parameters": answer.parameters,
                }
                rows.append(common | own | {score: values[r] for score, values in scores.items()})
        return rows

    def conditions(self, rows: Sequence[Row], full: bool, protocol: str) -> str:
        samplings = len({row.get("sampling") for row in rows})
        noises = len({row.get("noise") for row in rows})
        draws = f"{samplings} samplings of the torus with {noises} noises each"
        if protocol != "paper":
            return f"Data: {draws}."
        return f"Data: {draws}. Training: {EPOCHS if full else QUICK_EPOCHS} epochs."


@dataclass(frozen=True)
class Draw:
    """One sampling of the torus, its noisy fields ``(cases, n, 3)``, and the noise level and number
    of each."""

    sample: FieldSample
    noisy: np.ndarray
    cases: list[tuple[float, int]]

    @classmethod
    def of(cls, task: Task, seed: int) -> Draw:
        place = (task["field"], task["n"], task["sampling"])
        sample = torus_field(task["n"], FIELDS[task["field"]], seed=draw(seed, "torus", *place))
        cases = [(tau, r) for tau in TAUS for r in range(task["noises"])]
        noisy = [sample.noisy(tau, draw(seed, "noise", *place, tau, r)).vectors for tau, r in cases]
        return cls(sample, np.stack(noisy), cases)


@dataclass(frozen=True)
class Answer:
    """Denoised ambient fields ``(cases, n, 3)`` of a method; a network on ambient components is
    scored in these."""

    fields: np.ndarray
    oracle: np.ndarray | None = None  # of the epoch nearest to the clean field
    parameters: int | None = None
    ambient: bool = False

    def scores(self, clean: np.ndarray, frames: np.ndarray) -> dict[str, list]:
        """Mean squared errors of every field, by name of the score, in frames ``(n, 3, 2)`` and in
        space."""

        def errors(fields: np.ndarray) -> list[list]:
            parts = np.einsum("nij,rni->rnj", frames, fields - clean), fields - clean
            return [np.square(part).sum(axis=2).mean(axis=1).tolist() for part in parts]

        found = errors(self.fields)
        scores = {"mse": found[0], "own_metric": found[self.ambient], "ambient": found[1]}
        if self.oracle is not None:
            found = errors(self.oracle)
            scores |= {"oracle": found[0], "oracle_own": found[self.ambient]}
        return scores


def paper_answers(data: Draw, epochs: int) -> tuple[np.ndarray, dict[str, Answer]]:
    """The paper's frames, and answers of its networks and of simple methods."""
    points, clean = data.sample.points.astype(np.float32), data.sample.vectors
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", GlobalNeighborhoodWarning
        )  # the paper's scales; said in the notes
        bundle = TangentBundle.from_points(points, dim=2, eps=0.5, eps_pca=0.8)
        # the authors' code has exp(-|x - y|^2 / 2) between all pairs
        cloud = TangentBundle.from_frames(
            points, bundle.frames, eps=1.0, kernel=Gaussian(0.5)
        ).scalar()
    frames, normalized = np.asarray(bundle.frames, dtype=float), cloud.graph_laplacian(Symmetric())
    tangent = torch.from_numpy(frames).float()
    plane, line = (Identity.of(len(points), dim, torch.float32) for dim in (2, 1))
    options: dict[str, Any] = {
        "epochs": epochs,
        "optimizer": lambda parameters: torch.optim.Adam(
            parameters, lr=0.03, betas=(0.9, 0.99), foreach=True
        ),
        "schedule": lambda epoch: 0.01 ** (epoch / epochs),
    }
    everywhere, answers = np.ones(data.noisy.shape[:2]), {}
    for view in (
        NetworkView("DD-TNN", bundle.laplacian(calibrate=False), 2, 3, tangent),
        NetworkView("MNN", bundle.scalar().laplacian(calibrate=False), 2, 3),
        NetworkView("MNN, L_sym, exp(-L)", normalized, 2, 3),
        NetworkView("MNN, L_sym, exp(+L)", Negated(normalized), 2, 3),
        NetworkView("MLP", plane, 1, 3, tangent),
        NetworkView("MLP, ambient", line, 1, 3),
    ):
        outputs = reproduce_inputs(view, data.noisy, everywhere, clean, everywhere, **options)
        answers[view.name] = Answer(*outputs, view.network().num_parameters, view.frames is None)
    return frames, answers | simple_answers(data, smoothers())


def best_answers(data: Draw) -> tuple[np.ndarray, dict[str, Answer]]:
    """The local frames of ``FieldDenoiser``, and answers of field estimators and simple methods."""
    denoiser = FieldDenoiser(dim=2, random_state=0)
    models = {
        "FieldDenoiser": denoiser,
        "ambient Gaussian process": AmbientProcess(),
        **smoothers(),
    }
    answers = simple_answers(data, models)
    return denoiser.frames_, answers


def simple_answers(data: Draw, models: dict[str, Any]) -> dict[str, Answer]:
    """Answers of estimators, which see one noisy field at a time."""
    return {
        name: Answer(denoised(model, data.sample.points, data.noisy))
        for name, model in models.items()
    }


def _mean_angle(bases: np.ndarray, exact: np.ndarray) -> float:
    """Mean angle in degrees between two families of planes: the larger principal one."""
    cosine = np.linalg.svd(np.einsum("nij,nik->njk", bases, exact), compute_uv=False).min(axis=1)
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))).mean())
