"""A demonstration in half a minute: a noisy field on a torus denoised, a month of wind filled in from stations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from ..bundle import TangentBundle
from ..datasets import WindData, load_wind
from ..estimators import FieldDenoiser, FieldInterpolator
from ..estimators.baselines import InverseDistance, ThinPlate
from ..filters import Heat
from ..manifolds import Sphere, Torus
from .tables import Table

NOISE, STATIONS = 0.3, 200


@dataclass(frozen=True, eq=False)
class Example:
    """Vectors ``(n, 3)`` of every method at ``points``, and the ``truth``; the last method is this library's."""

    title: str
    points: np.ndarray
    truth: np.ndarray
    answers: dict[str, np.ndarray]

    def rows(self) -> list[list[str]]:
        """Every method with its root-mean-square error, relative to the true field."""
        size = np.sqrt(np.mean(self.truth**2))
        errors = {name: np.sqrt(np.mean((field - self.truth) ** 2)) / size for name, field in self.answers.items()}
        return [[self.title, name, f"{100 * error:.0f} %"] for name, error in errors.items()]


def denoise_torus(seed: int = 0) -> Example:
    """A tangent field on 400 points of a torus, with noise of 30 % in each component."""
    torus, rng = Torus(), np.random.default_rng(seed)
    points = torus.sample(400, seed=seed)
    truth = torus.tangent_field(points)
    noisy = truth + NOISE * rng.standard_normal(truth.shape)
    bundle = TangentBundle.from_points(points, dim=2)
    smooth = bundle.to_ambient(Heat(bundle.eps / 4)(bundle.laplacian(), bundle.to_coordinates(noisy)))
    answers = {
        "noisy data": noisy,
        "mean of 8 nearest": KNeighborsRegressor(8).fit(points, noisy).predict(points),
        "heat flow on the bundle": smooth,
        "FieldDenoiser": FieldDenoiser(random_state=seed).fit(points, noisy).predict(points),
    }
    return Example("torus, denoised", points, truth, answers)


def fill_wind(wind: WindData, seed: int = 0) -> tuple[Example, np.ndarray]:
    """The mean wind of a month, predicted everywhere from 200 stations; also the numbers of the stations."""
    stations = np.sort(np.random.default_rng(seed).choice(len(wind.lat), STATIONS, replace=False, p=wind.area))
    points, truth = wind.points, wind.ambient[0]
    methods: dict[str, Any] = {
        "inverse distance": InverseDistance(),
        "thin plate": ThinPlate(),
        "FieldInterpolator": FieldInterpolator(manifold=Sphere(2), random_state=seed),
    }
    answers = {name: m.fit(points[stations], truth[stations]).predict(points) for name, m in methods.items()}
    return Example("wind, filled in", points, truth, answers), stations


def table(*examples: Example) -> Table:
    """Methods and errors of all examples."""
    body = [row for example in examples for row in example.rows()]
    return Table("Error relative to the true field", ["example", "method", "error"], body)


def figure(torus: Example, filled: Example, wind: WindData, stations: np.ndarray, path: Path) -> Path:
    """Both examples: what was given, what was found, what is true."""
    from .. import plot

    drawing, panels = plot.canvas(2, 3, size=(4.6, 3.2))
    surface, last = Torus().sample(4000, seed=1), panels[:, -1]
    arrows: dict[str, Any] = {"surface": surface, "top": 1.6, "scale": 0.05}
    fields = {
        "noisy": torus.answers["noisy data"],
        "FieldDenoiser": torus.answers["FieldDenoiser"],
        "true": torus.truth,
    }
    for axes, (name, vectors) in zip(panels[0], fields.items(), strict=True):
        plot.field(torus.points, vectors, title=name, axes=axes, colorbar=axes in last, **arrows)
    speed = float(np.quantile(np.linalg.norm(filled.truth, axis=1), 0.995))
    found = np.einsum("nda,nd->na", wind.frames, filled.answers["FieldInterpolator"])
    some, maps = wind.at(stations), {"FieldInterpolator": found, "true": wind.components[0]}
    given = some.components[0]
    label: dict[str, Any] = {"label": "wind speed, m/s", "top": speed}
    plot.wind_map(some.lat, some.lon, given, title=f"{STATIONS} stations", axes=panels[1, 0], colorbar=False, **label)
    for axes, (name, components) in zip(panels[1, 1:], maps.items(), strict=True):
        plot.wind_map(wind.lat, wind.lon, components, title=name, axes=axes, colorbar=axes in last, **label)
    return plot.save(drawing, path)


def january() -> WindData:
    """The first month of the wind inside the package."""
    return load_wind().during(slice(0, 1))
