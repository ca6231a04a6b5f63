"""Table 2: wind at masked points, from the wind at the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor

from ..datasets import WindData
from ..earth.covariances import Earth
from ..estimators import FieldInterpolator
from .base import Description, Row, Task, draw
from .baselines import AmbientProcess, ComponentProcess, InverseDistance, Mean, ThinPlate, Zero
from .networks import NetworkView, reproduce_inputs
from .wind import WindExperiment, WindSites, available, source_of, value_range

SHARES = (0.5, 0.3, 0.1)
EPOCHS = 300


Interpolation = Callable[[WindSites, np.ndarray], np.ndarray]
"""From sites and wind (east, north) there ``(n, 2)``, NaN where it is masked, to wind at all of
them."""


def projected(estimator: Any) -> Interpolation:
    """A regressor of vectors of R^3, whose predictions are projected on the tangent planes."""

    def interpolate(sites: WindSites, wind: np.ndarray) -> np.ndarray:
        observed = ~np.isnan(wind[:, 0])
        model = clone(estimator).fit(sites.points[observed], sites.ambient(wind)[observed])
        return sites.tangent(model.predict(sites.points))

    return interpolate


INTERPOLATIONS: dict[str, Interpolation] = {
    "zero": projected(Zero()),
    "mean": projected(Mean()),
    "mean of components": lambda _, wind: np.broadcast_to(
        np.nanmean(wind, axis=0), wind.shape
    ),  # as in the paper
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
        sizes, draws = ((100, 200, 300, 400), 8) if full else ((100, 400), 2)
        masks = 1 if protocol == "best" else draws  # Gaussian processes for each take their time
        data = self.data or available()
        _ = source_of(data).field  # downloads come before any file of results
        same = {"data": data, "protocol": protocol, "masks": masks}
        return [{**same, "n": n, "sampling": sampling} for n in sizes for sampling in range(draws)]

    def run(self, task: Task, seed: int) -> list[Row]:
        scene = Scene(task, seed)
        winds, rows = scene.observed(), []
        if task["protocol"] == "paper":
            for view in scene.sites.views("MLP"):
                weights = draw(seed, "weights", view.name, task["n"], task["sampling"]).integers(
                    2**31
                )
                found, oracle = reconstruct(view, scene.sites, winds, scene.truth, int(weights))
                rows += scene.rows(
                    view.name, found, oracle, parameters=view.network().num_parameters
                )
        methods = INTERPOLATIONS | (
            estimators(source_of(task["data"]).past) if task["protocol"] == "best" else {}
        )
        for name, method in methods.items():
            rows += scene.rows(name, np.stack([method(scene.sites, wind) for wind in winds]))
        return rows


class Scene:
    """The draws of a task: sites, true wind ``(n, 2)``, and masks ``(shares x masks, n)``."""

    def __init__(self, task: Task, seed: int) -> None:
        data, n, sampling = source_of(task["data"]).field, task["n"], task["sampling"]
        chosen = data.at(data.sample(n, draw(seed, "points", n, sampling)))
        self.task, self.unit = task, value_range(data)
        self.sites, self.truth = WindSites(chosen), chosen.components[0]
        self.cases = [(share, mask) for share in SHARES for mask in range(task["masks"])]
        self.masks = [
            _mask(draw(seed, "mask", n, sampling, *case), case[0], len(self.truth))
            for case in self.cases
        ]

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
        for number, ((share, mask), masked) in enumerate(zip(self.cases, self.masks, strict=True)):
            row = {
                "n": self.task["n"],
                "masked": share,
                "sampling": self.task["sampling"],
                "method": method,
            }
            row |= {
                "mask": mask,
                "points": len(masked),
                "data": self.task["data"],
                "parameters": parameters,
            }
            for prefix, found in (("", winds), ("oracle_", oracle)):
                if found is not None:
                    errors = (
                        np.square(found[number] - self.truth)[masked].sum(axis=1) / self.unit**2
                    )
                    row[f"{prefix}per_node"] = float(errors.mean())
                    row[f"{prefix}paper_metric"] = float(errors.sum() / len(masked))
            rows.append(row)
        return rows


def reconstruct(
    view: NetworkView, sites: WindSites, winds: np.ndarray, truth: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's network for each mask: wind ``(masks, n, 2)``, and that of the oracle epoch."""
    masked = np.isnan(winds)
    scale = np.nanmax(winds, axis=(1, 2), keepdims=True) - np.nanmin(
        winds, axis=(1, 2), keepdims=True
    )
    filled = np.where(
        masked, np.stack([INTERPOLATIONS["mean"](sites, wind) for wind in winds]), winds
    )
    hidden = masked[..., 0]
    found = reproduce_inputs(
        view, filled / scale, ~hidden, truth / scale, hidden, seed, epochs=EPOCHS
    )
    return found[0] * scale, found[1] * scale


def _mask(rng: np.random.Generator, share: float, n: int) -> np.ndarray:
    """Each point masked or not on its own, and at least one of either kind."""
    while not 0 < (masked := rng.random(n) < share).sum() < n:
        pass
    return masked
