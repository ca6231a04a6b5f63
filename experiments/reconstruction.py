"""Table 2: wind at masked points, from the wind at the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor

from harness.ledger import Row, Task
from tangentbundle.datasets import WindData
from tangentbundle.earth.covariances import Earth
from tangentbundle.estimators import FieldInterpolator

from .base import Description, Form, draw
from .baselines import AmbientProcess, ComponentProcess, InverseDistance, Mean, ThinPlate, Zero
from .networks import NetworkView, reproduce_inputs
from .wind import WindExperiment, WindSites, available, source_of, value_range

SHARES = (0.5, 0.3, 0.1)
"""Of the points, masked."""

FULL = Form(sizes=(100, 200, 300, 400), draws=8)
QUICK = Form(sizes=(100, 400), draws=2)
EPOCHS = 300

Interpolation = Callable[[WindSites, np.ndarray], np.ndarray]
"""From sites and wind (east, north) there ``(n, 2)``, NaN where it is masked, to wind at all of
them."""


def projected(estimator: Any) -> Interpolation:
    """A regressor of vectors of R^3, whose predictions are projected on the tangent planes."""

    def interpolate(sites: WindSites, wind: np.ndarray) -> np.ndarray:
        observed = ~np.isnan(wind[:, 0])
        vectors = sites.ambient(wind)
        model = clone(estimator).fit(sites.points[observed], vectors[observed])
        return sites.tangent(model.predict(sites.points))

    return interpolate


def mean_of_components(sites: WindSites, wind: np.ndarray) -> np.ndarray:
    """The means of east and of north, as in the paper."""
    return np.broadcast_to(np.nanmean(wind, axis=0), wind.shape)


INTERPOLATIONS: dict[str, Interpolation] = {
    "zero": projected(Zero()),
    "mean": projected(Mean()),
    "mean of components": mean_of_components,
    "nearest neighbour": projected(KNeighborsRegressor(1)),
    "inverse distance": projected(InverseDistance()),
    "thin-plate spline": projected(ThinPlate()),
}


def estimators(past: WindData) -> dict[str, Interpolation]:
    """Of the protocol ``best``: Gaussian processes on the tangent bundle, alone and with past
    fields, and in R^3."""
    fields = past.ambient[~past.filled]
    model = FieldInterpolator(manifold=Earth())
    informed = clone(model).set_params(history=fields, history_points=past.points)
    mean = KNeighborsRegressor(1).fit(past.points, fields.mean(axis=0))
    return {
        "FieldInterpolator": projected(model),
        "FieldInterpolator, history": projected(informed),
        "mean of the history": lambda sites, _: sites.tangent(mean.predict(sites.points)),
        "ambient Gaussian process": projected(AmbientProcess()),
        "process per component": projected(ComponentProcess()),
    }


class Reconstruction(WindExperiment):
    """One task is one draw of points; networks for all masks on it are trained together."""

    name = "reconstruction"
    about = Description.named(name)
    training = f"{EPOCHS} epochs"

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        form = FULL if full else QUICK
        masks = form.draws
        if protocol == "best":
            masks = 1  # Gaussian processes for each take their time
        data = self.data or available()
        _ = source_of(data).field  # downloads come before any file of results
        common: Task = {"data": data, "protocol": protocol, "masks": masks}
        return [
            {**common, "n": n, "sampling": sampling}
            for n in form.sizes
            for sampling in range(form.draws)
        ]

    def run(self, task: Task, seed: int) -> list[Row]:
        scene = Scene(task, seed)
        winds = scene.observed()
        rows = []
        methods = dict(INTERPOLATIONS)
        if task["protocol"] == "paper":
            for view in scene.sites.views("MLP"):
                rows += network_rows(scene, view, winds, seed)
        else:
            methods |= estimators(source_of(task["data"]).past)
        for name, method in methods.items():
            answers = np.stack([method(scene.sites, wind) for wind in winds])
            rows += scene.rows(name, answers)
        return rows


class Scene:
    """The draws of a task: sites, true wind ``(n, 2)``, and masks ``(shares x masks, n)``."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        n = task["n"]
        sampling = task["sampling"]
        data = source_of(task["data"]).field
        chosen = data.at(data.sample(n, draw(seed, "points", n, sampling)))
        self.unit = value_range(data)
        self.sites = WindSites(chosen)
        self.truth = chosen.components[0]
        self.cases = [(share, number) for share in SHARES for number in range(task["masks"])]
        self.masks = []
        for share, number in self.cases:
            rng = draw(seed, "mask", n, sampling, share, number)
            self.masks.append(_mask(rng, share, len(self.truth)))

    def observed(self) -> np.ndarray:
        """What methods may see: wind ``(masks, n, 2)``, NaN where it is masked."""
        return np.where(np.stack(self.masks)[:, :, None], np.nan, self.truth)

    def rows(
        self,
        method: str,
        winds: np.ndarray,
        oracle: np.ndarray | None = None,
        parameters: int | None = None,
    ) -> list[Row]:
        """Both metrics of a method for every mask, and those of its oracle epoch."""
        rows = []
        for case, (share, number) in enumerate(self.cases):
            masked = self.masks[case]
            row = {
                "n": self.task["n"],
                "masked": share,
                "sampling": self.task["sampling"],
                "method": method,
                "mask": number,
                "points": len(masked),
                "data": self.task["data"],
                "parameters": parameters,
            }
            row["per_node"], row["paper_metric"] = self._errors(winds[case], masked)
            if oracle is not None:
                errors = self._errors(oracle[case], masked)
                row["oracle_per_node"], row["oracle_paper_metric"] = errors
            rows.append(row)
        return rows

    def _errors(self, wind: np.ndarray, masked: np.ndarray) -> tuple[float, float]:
        """The mean squared error at masked points, and the paper's metric: the sum over masked
        points, divided by the number of all."""
        squares = np.square(wind - self.truth)[masked].sum(axis=1) / self.unit**2
        return float(squares.mean()), float(squares.sum() / len(masked))


def network_rows(scene: Scene, view: NetworkView, winds: np.ndarray, seed: int) -> list[Row]:
    """The rows of one of the paper's networks."""
    rng = draw(seed, "weights", view.name, scene.task["n"], scene.task["sampling"])
    weights_seed = int(rng.integers(2**31))
    answers, oracle = reconstruct(view, scene.sites, winds, scene.truth, weights_seed)
    parameters = view.network().num_parameters
    return scene.rows(view.name, answers, oracle=oracle, parameters=parameters)


def reconstruct(
    view: NetworkView, sites: WindSites, winds: np.ndarray, truth: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's network for each mask: wind ``(masks, n, 2)``, and that of the oracle epoch."""
    highest = np.nanmax(winds, axis=(1, 2), keepdims=True)
    lowest = np.nanmin(winds, axis=(1, 2), keepdims=True)
    scale = highest - lowest
    masked = np.isnan(winds)
    means = np.stack([INTERPOLATIONS["mean"](sites, wind) for wind in winds])
    filled = np.where(masked, means, winds)
    hidden = masked[..., 0]
    answers, oracle = reproduce_inputs(
        view,
        inputs=filled / scale,
        observed=~hidden,
        truth=truth / scale,
        scored=hidden,
        seed=seed,
        epochs=EPOCHS,
    )
    return answers * scale, oracle * scale


def _mask(rng: np.random.Generator, share: float, n: int) -> np.ndarray:
    """Each point masked or not on its own, and at least one of either kind."""
    while True:
        masked = rng.random(n) < share
        if 0 < masked.sum() < n:
            return masked
