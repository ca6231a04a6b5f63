"""Beyond the paper: denoising and interpolation of four other kinds of data.

Attitudes of a free rigid body (d = 3, D = 9), a surface in 60 dimensions, an unevenly and inexactly
sampled sphere, and a rolled-up sheet with a boundary; several draws each, all methods on the same
ones. Nothing is known but points and noisy vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tangentbundle as tb
from harness.ledger import Row, Task

from .base import Column, Description, Experiment, draw
from .baselines import (
    AmbientProcess,
    ComponentProcess,
    InverseDistance,
    Mean,
    ThinPlate,
    Zero,
    smoothing_spline,
)

OBSERVED = 150
"""Points with noisy vectors."""

HELD_OUT = 150
"""Points at which fields are predicted."""

FULL_DRAWS = 16
QUICK_DRAWS = 1
NOISE = 0.2
"""Standard deviation of the noise, relative to the root mean square of the field's components."""

HALF_WIDTHS = {50: 0.6745, 90: 1.6449}
"""Of central intervals of 50 and 90 % of a Gaussian, in standard deviations."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points ``(n, D)``, vectors ``(n, D)`` and exact tangent bases ``(n, D, d)``."""

    points: np.ndarray
    field: np.ndarray
    frames: np.ndarray

    def part(self, rows: slice) -> Cloud:
        """Some of the points."""
        return Cloud(self.points[rows], self.field[rows], self.frames[rows])


def attitudes(n: int, rng: np.random.Generator) -> Cloud:
    """Rotations as matrices, moving as a free rigid body: ``dR/dt = R [J^-1 R^T L]``."""
    rotations = np.linalg.qr(rng.standard_normal((n, 3, 3)))[0]
    rotations *= np.sign(np.linalg.det(rotations))[:, None, None]
    momentum = [1.0, 0.4, -0.3]
    inertia = np.array([1.0, 2.0, 3.0])
    rates = np.einsum("nji,j->ni", rotations, momentum) / inertia
    cross = cross_matrices()
    turning = np.einsum("nij,ajk->nika", rotations, cross)
    frames = turning.reshape(n, 9, 3) / np.sqrt(2)
    motion = np.einsum("nij,njk->nik", rotations, np.einsum("na,ajk->njk", rates, cross))
    return Cloud(rotations.reshape(n, 9), motion.reshape(n, 9), frames)


def cross_matrices() -> np.ndarray:
    """Three matrices ``(3, 3, 3)``, those of the cross products with the axes."""
    matrices = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        matrices[i, k, j] = 1.0
        matrices[i, j, k] = -1.0
    return matrices


def bent_torus(n: int, rng: np.random.Generator) -> Cloud:
    """A torus bent into 60 dimensions by waves of fixed directions, with the image of a tangent
    field."""
    fixed = np.random.default_rng(60)
    waves = 2.0 * fixed.standard_normal((3, 60))
    phases = fixed.uniform(0, 2 * np.pi, 60)
    torus = tb.manifolds.Torus(1.0, 0.4)
    points = torus.sample(n, seed=rng)
    angles = points @ waves + phases
    jacobians = -np.sin(angles)[:, :, None] * waves.T  # (n, 60, 3)
    field = np.einsum("nij,nj->ni", jacobians, torus.tangent_field(points))
    frames = np.linalg.qr(jacobians @ torus.frames(points))[0]
    return Cloud(np.cos(angles), field, frames)


def uneven_sphere(n: int, rng: np.random.Generator) -> Cloud:
    """A sphere ten times denser on one side, its points off by two per cent of the radius."""
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample_nonuniform(n, 10.0, seed=rng)
    inexact = points + 0.02 * rng.standard_normal(points.shape)
    return Cloud(inexact, sphere.gradient_field(points, 3), sphere.frames(points))


def sheet(n: int, rng: np.random.Generator) -> Cloud:
    """A rolled-up sheet, whose vectors follow a wave across it."""
    roll = tb.manifolds.SwissRoll((0.5, 1.0), 3.0)
    points = roll.sample(n, seed=rng)
    frames = roll.frames(points)
    angles = 2.0 * points[:, 2]
    field = frames[:, :, 0] * np.cos(angles)[:, None] + frames[:, :, 1] * np.sin(angles)[:, None]
    return Cloud(points, field, frames)


@dataclass(frozen=True)
class Case:
    """A kind of data, and the dimension of its space."""

    sample: Callable[[int, np.random.Generator], Cloud]
    dim: int


CASES = {
    "attitudes, d = 3, D = 9": Case(attitudes, dim=3),
    "surface in D = 60": Case(bent_torus, dim=2),
    "uneven, noisy points": Case(uneven_sphere, dim=2),
    "sheet with boundary": Case(sheet, dim=2),
}


class General(Experiment):
    """Squared errors of exact tangent parts, relative to the noise's (denoising) or the field's
    (interpolation)."""

    name = "general"
    protocols = ("best",)
    about = Description(
        "Beyond wind and torus",
        cell=("case", "job"),
        columns=(
            Column("error", "relative squared error", headline=True),
            Column("in50", "components in 50 % intervals"),
            Column("in90", "in 90 %"),
            Column("measured50", "held-out measurements in 50 %"),
            Column("measured90", "in 90 %"),
            Column("exact50", "exact tangent parts in 50 %"),
            Column("exact90", "in 90 %"),
        ),
    )

    def published(self) -> list[Row]:
        """The paper has no such table."""
        return []

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        draws = FULL_DRAWS if full else QUICK_DRAWS
        return [{"case": case, "draw": number} for number in range(draws) for case in CASES]

    def run(self, task: Task, seed: int) -> list[Row]:
        scene = Scene.of(task, seed)
        return scene.denoising_rows() + scene.interpolation_rows()

    def notes(self, rows: Sequence[Row], protocol: str) -> str:
        return (
            f"{OBSERVED} points with vectors, noise of {NOISE:.0%} of the field in every "
            "component. Denoising: error at these points over that of doing nothing; "
            f"interpolation: at {HELD_OUT} others, over that of predicting zero. Errors are those "
            "of exact tangent parts; tangent planes are estimated. Intervals: of each component of "
            "the field by its standard deviation (Gaussian), of measurements at the other points "
            "by `predict_interval`, and of the field's parts along the exact tangent planes. "
            "Everything is chosen from the noisy data; no run is discarded."
        )


@dataclass(frozen=True, eq=False)
class Scene:
    """One draw: observed points with noisy vectors ``y``, and held-out points with
    ``measurements``."""

    task: Task
    dim: int
    observed: Cloud
    held_out: Cloud
    noise: np.ndarray
    y: np.ndarray
    measurements: np.ndarray

    @classmethod
    def of(cls, task: Task, seed: int) -> Scene:
        """The draw of a task."""
        case = CASES[task["case"]]
        rng = draw(seed, "general", task["case"], task["draw"])
        cloud = case.sample(OBSERVED + HELD_OUT, rng)
        size = float(np.sqrt(np.square(cloud.field).mean()))
        noise = NOISE * size * rng.standard_normal(cloud.field.shape)
        noisy = cloud.field + noise
        return cls(
            task=task,
            dim=case.dim,
            observed=cloud.part(slice(OBSERVED)),
            held_out=cloud.part(slice(OBSERVED, None)),
            noise=noise[:OBSERVED],
            y=noisy[:OBSERVED],
            measurements=noisy[OBSERVED:],
        )

    def denoising_rows(self) -> list[Row]:
        """Errors at the observed points, relative to the noise's."""
        x = self.observed.points
        denoiser = tb.FieldDenoiser(dim=self.dim, random_state=0).fit(x, self.y)
        answers = {
            "FieldDenoiser": denoiser.predict(x),
            "identity": self.y,
            "thin plate, cross-validated": smoothing_spline().fit(x, self.y).predict(x),
            "ambient process": AmbientProcess().fit(x, self.y).predict(x),
        }
        rows = []
        for method, answer in answers.items():
            row = self._row("denoise", method, self.observed, answer, unit=self.noise)
            if method == "FieldDenoiser":
                row |= covered(denoiser, self.observed)
            rows.append(row)
        return rows

    def interpolation_rows(self) -> list[Row]:
        """Errors at the held-out points, relative to the field's size."""
        models: dict[str, Any] = {
            "FieldInterpolator": tb.FieldInterpolator(dim=self.dim, random_state=0),
            "zero": Zero(),
            "mean": Mean(),
            "inverse distance": InverseDistance(),
            "thin plate": ThinPlate(),
            "ambient process": AmbientProcess(),
            "process per component": ComponentProcess(),
        }
        rows = []
        for method, model in models.items():
            model.fit(self.observed.points, self.y)
            answer = model.predict(self.held_out.points)
            row = self._row("interpolate", method, self.held_out, answer, unit=self.held_out.field)
            if method == "FieldInterpolator":
                row |= covered(model, self.held_out)
                row |= measured(model, self.held_out.points, self.measurements)
            rows.append(row)
        return rows

    def _row(
        self, job: str, method: str, cloud: Cloud, answer: np.ndarray, *, unit: np.ndarray
    ) -> Row:
        """The error of an answer along the exact tangent planes, relative to the size of
        ``unit``."""
        error = in_frames(cloud.frames, answer) - in_frames(cloud.frames, cloud.field)
        size = np.square(in_frames(cloud.frames, unit)).sum()
        return {
            "case": self.task["case"],
            "job": job,
            "draw": self.task["draw"],
            "method": method,
            "error": float(np.square(error).sum() / size),
        }


def covered(model: tb.FieldDenoiser, cloud: Cloud) -> dict[str, float]:
    """Shares of components, and of parts along exact frames, that lie inside 50 and 90 %
    intervals."""
    mean, covariances = model.predict(cloud.points, return_cov=True)
    errors = mean - cloud.field
    variances = np.einsum("nii->ni", covariances)
    along = np.einsum("nij,nik,nkj->nj", cloud.frames, covariances, cloud.frames)
    components = shares_inside(errors, np.sqrt(np.maximum(variances, 0.0)))
    tangent = shares_inside(in_frames(cloud.frames, errors), np.sqrt(np.maximum(along, 0.0)))
    shares = {f"in{level}": share for level, share in components.items()}
    return shares | {f"exact{level}": share for level, share in tangent.items()}


def measured(
    model: tb.FieldInterpolator, points: np.ndarray, vectors: np.ndarray
) -> dict[str, float]:
    """Shares of components of noisy vectors inside the intervals for them."""
    shares = {}
    for level in HALF_WIDTHS:
        lower, upper = model.predict_interval(points, level / 100)
        shares[f"measured{level}"] = float(np.mean((lower < vectors) & (vectors < upper)))
    return shares


def shares_inside(errors: np.ndarray, std: np.ndarray) -> dict[int, float]:
    """Shares of errors inside Gaussian intervals, by the level of these in per cent."""
    shares = {}
    for level, width in HALF_WIDTHS.items():
        shares[level] = float(np.mean(np.abs(errors) < width * std))
    return shares


def in_frames(frames: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Coordinates of vectors ``(n, D)`` in frames ``(n, D, d)``."""
    return np.einsum("nij,ni->nj", frames, vectors)
