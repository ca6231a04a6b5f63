"""The two examples of ``tangentbundle demo``: a noisy field on a torus denoised, and a month of
wind filled in from stations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.interpolate import RBFInterpolator
from sklearn.neighbors import KNeighborsRegressor

from tangentbundle import FieldDenoiser, FieldInterpolator, Heat, TangentBundle, plot
from tangentbundle.datasets import WindData, load_wind
from tangentbundle.earth.covariances import Earth
from tangentbundle.manifolds import Torus

STATIONS = 200
"""Of the example of wind."""

MAX_LENGTH = 1.6
"""End of the colour scale of the arrows on the torus."""

ARROW_SCALE = 0.05
"""Length of the arrows on the torus relative to their vectors."""


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
        errors = {}
        for name, vectors in self.answers.items():
            errors[name] = float(np.sqrt(np.mean((vectors - self.truth) ** 2)) / size)
        return errors


@dataclass(frozen=True, eq=False)
class WindExample(Example):
    """The example of wind, with the data and the indices of the stations."""

    wind: WindData
    stations: np.ndarray


def denoise_torus() -> Example:
    """A tangent field on 400 points of a torus, with noise of 30 % in each component."""
    torus = Torus()
    points = torus.sample(400, seed=0)
    truth = torus.tangent_field(points)
    noisy = truth + 0.3 * np.random.default_rng(0).standard_normal(truth.shape)
    bundle = TangentBundle.from_points(points, dim=2)
    heat = Heat(bundle.eps / 4)
    smooth = heat(bundle.laplacian(), bundle.to_coordinates(noisy))
    answers = {
        "noisy data": noisy,
        "mean of 8 nearest": KNeighborsRegressor(8).fit(points, noisy).predict(points),
        "heat flow on the bundle": bundle.to_ambient(smooth),
        "FieldDenoiser": FieldDenoiser(random_state=0).fit(points, noisy).predict(points),
    }
    return Example("torus, denoised", points, truth, answers)


def fill_wind() -> WindExample:
    """The mean wind of a January, predicted everywhere from 200 stations."""
    wind = load_wind().during(slice(0, 1))
    rng = np.random.default_rng(0)
    stations = np.sort(rng.choice(len(wind.lat), STATIONS, replace=False, p=wind.area))
    truth = wind.ambient[0]
    places = wind.points[stations]
    measured = truth[stations]
    inverse_distance = KNeighborsRegressor(STATIONS, algorithm="brute", weights=inverse_square)
    thin_plate = RBFInterpolator(places, measured)
    interpolator = FieldInterpolator(manifold=Earth())
    answers = {
        "inverse distance": inverse_distance.fit(places, measured).predict(wind.points),
        "thin plate": thin_plate(wind.points),
        "FieldInterpolator": interpolator.fit(places, measured).predict(wind.points),
    }
    return WindExample("wind, filled in", wind.points, truth, answers, wind, stations)


def inverse_square(distances: np.ndarray) -> np.ndarray:
    """Weights of measurements, finite at distance zero."""
    return np.maximum(distances, 1e-12) ** -2.0


def draw(torus: Example, filled: WindExample, path: Path) -> Path:
    """A figure of both examples: observations, prediction, truth."""
    drawing, panels = plot.canvas(2, 3, size=(4.6, 3.2))
    _draw_torus(torus, panels[0])
    _draw_wind(filled, panels[1])
    return plot.save(drawing, path)


def _draw_torus(example: Example, panels: np.ndarray) -> None:
    fields = {
        "noisy": example.answers["noisy data"],
        "FieldDenoiser": example.answers["FieldDenoiser"],
        "true": example.truth,
    }
    surface = Torus().sample(4000, seed=1)
    for axes, (title, vectors) in zip(panels, fields.items(), strict=True):
        plot.field(
            example.points,
            vectors,
            surface=surface,
            title=title,
            axes=axes,
            colorbar=title == "true",
            top=MAX_LENGTH,
            scale=ARROW_SCALE,
        )


def _draw_wind(example: WindExample, panels: np.ndarray) -> None:
    wind = example.wind
    speed = float(np.quantile(np.linalg.norm(example.truth, axis=1), 0.995))
    stations = wind.at(example.stations)
    predicted = np.einsum("nda,nd->na", wind.frames, example.answers["FieldInterpolator"])
    maps = {
        f"{STATIONS} stations": (stations, stations.components[0]),
        "FieldInterpolator": (wind, predicted),
        "true": (wind, wind.components[0]),
    }
    for axes, (title, (places, components)) in zip(panels, maps.items(), strict=True):
        plot.earth_map(
            places.lat,
            places.lon,
            components,
            title=title,
            axes=axes,
            colorbar=title == "true",
            top=speed,
        )
