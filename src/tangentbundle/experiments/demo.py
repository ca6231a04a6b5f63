"""A demonstration in half a minute: a noisy field on a torus denoised, a month of wind filled in
from stations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from .. import plot
from ..bundle import TangentBundle
from ..datasets import WindData, load_wind
from ..earth.covariances import Earth
from ..estimators import FieldDenoiser, FieldInterpolator
from ..filters import Heat
from ..manifolds import Torus
from .baselines import InverseDistance, ThinPlate


@dataclass(frozen=True, eq=False)
class Example:
    """Vectors ``(n, 3)`` of every method at ``points``, and the ``truth``; the last method is this
    library's."""

    title: str
    points: np.ndarray
    truth: np.ndarray
    answers: dict[str, np.ndarray]

    def errors(self) -> dict[str, float]:
        """The root-mean-square error of every method, relative to the true field."""
        size = np.sqrt(np.mean(self.truth**2))
        return {
            name: float(np.sqrt(np.mean((v - self.truth) ** 2)) / size)
            for name, v in self.answers.items()
        }


def denoise_torus() -> Example:
    """A tangent field on 400 points of a torus, with noise of 30 % in each component."""
    torus, rng = Torus(), np.random.default_rng(0)
    points = torus.sample(400, seed=0)
    truth = torus.tangent_field(points)
    noisy = truth + 0.3 * rng.standard_normal(truth.shape)
    bundle = TangentBundle.from_points(points, dim=2)
    smooth = bundle.to_ambient(
        Heat(bundle.eps / 4)(bundle.laplacian(), bundle.to_coordinates(noisy))
    )
    answers = {
        "noisy data": noisy,
        "mean of 8 nearest": KNeighborsRegressor(8).fit(points, noisy).predict(points),
        "heat flow on the bundle": smooth,
        "FieldDenoiser": FieldDenoiser(random_state=0).fit(points, noisy).predict(points),
    }
    return Example("torus, denoised", points, truth, answers)


def fill_wind() -> tuple[Example, WindData, np.ndarray]:
    """The mean wind of a January, predicted everywhere from 200 stations; also the data, and the
    stations' indices."""
    wind = load_wind().during(slice(0, 1))
    stations = np.sort(
        np.random.default_rng(0).choice(len(wind.lat), 200, replace=False, p=wind.area)
    )
    points, truth = wind.points, wind.ambient[0]
    methods: dict[str, Any] = {
        "inverse distance": InverseDistance(),
        "thin plate": ThinPlate(),
        "FieldInterpolator": FieldInterpolator(manifold=Earth()),
    }
    answers = {
        name: m.fit(points[stations], truth[stations]).predict(points)
        for name, m in methods.items()
    }
    return Example("wind, filled in", points, truth, answers), wind, stations


def figure(
    torus: Example, filled: Example, wind: WindData, stations: np.ndarray, path: Path
) -> Path:
    """Both examples: observations, prediction, truth."""
    drawing, panels = plot.canvas(2, 3, size=(4.6, 3.2))
    arrows: dict[str, Any] = {"surface": Torus().sample(4000, seed=1), "top": 1.6, "scale": 0.05}
    answers = torus.answers
    fields = {
        "noisy": answers["noisy data"],
        "FieldDenoiser": answers["FieldDenoiser"],
        "true": torus.truth,
    }
    for axes, (name, vectors) in zip(panels[0], fields.items(), strict=True):
        plot.field(torus.points, vectors, title=name, axes=axes, colorbar=name == "true", **arrows)
    speed = float(np.quantile(np.linalg.norm(filled.truth, axis=1), 0.995))
    predicted = np.einsum("nda,nd->na", wind.frames, filled.answers["FieldInterpolator"])
    observed = wind.at(stations)
    maps = {
        f"{len(stations)} stations": (observed, observed.components[0]),
        "FieldInterpolator": (wind, predicted),
        "true": (wind, wind.components[0]),
    }
    for axes, (name, (at, components)) in zip(panels[1], maps.items(), strict=True):
        plot.earth_map(
            at.lat, at.lon, components, title=name, axes=axes, colorbar=name == "true", top=speed
        )
    return plot.save(drawing, path)
