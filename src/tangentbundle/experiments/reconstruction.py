"""Table 2: wind at masked points, from the wind at the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor

from ..datasets import WindData
from ..earth.covariances import planetary
from ..estimators import FieldInterpolator, helmholtz_covariance
from ..manifolds import Sphere
from .base import Description, Row, Task, draw
from .baselines import AmbientProcess, ComponentProcess, InverseDistance, Mean, ThinPlate, Zero
from .networks import NetworkView, reproduce_inputs
from .wind import WindExperiment, WindSites, available, source_of, value_range

SHARES = (0.5, 0.3, 0.1)
EPOCHS = 300


@dataclass(frozen=True, eq=False)
class Stations:
    """All a method may see: sites, and wind (east, north) ``(n, 2)`` that is NaN at masked ones."""

    sites: WindSites
    wind: np.ndarray

    @property
    def observed(self) -> np.ndarray:
        return ~np.isnan(self.wind[:, 0])


Interpolation = Callable[[Stations], np.ndarray]
"""From what is seen to wind (east, north) at all points."""


def projected(estimator: Any) -> Interpolation:
    """A regressor of vectors of R^3, whose predictions are projected on the tangent planes."""

    def interpolate(stations: Stations) -> np.ndarray:
        sites, observed = stations.sites, stations.observed
        model = clone(estimator).fit(sites.points[observed], sites.ambient(stations.wind)[observed])
        return sites.tangent(model.predict(sites.points))

    return interpolate


INTERPOLATIONS: dict[str, Interpolation] = {
    "zero": projected(Zero()),
    "mean": projected(Mean()),
    "mean of components": lambda s: np.broadcast_to(np.nanmean(s.wind, axis=0), s.wind.shape),  # as in the paper
    "nearest neighbour": projected(KNeighborsRegressor(1)),
    "inverse distance": projected(InverseDistance()),
    "thin-plate spline": projected(ThinPlate()),
}


def estimators(past: WindData) -> dict[str, Interpolation]:
    """Of the protocol ``best``: Gaussian processes on the tangent bundle, alone and with past fields, and in R^3."""
    fields = past.ambient[~past.filled]
    known: dict[str, Any] = {
        "covariance": [planetary(), helmholtz_covariance()],
        "manifold": Sphere(2),
        "random_state": 0,
    }
    mean = KNeighborsRegressor(1).fit(past.points, fields.mean(axis=0))
    return {
        "FieldInterpolator": projected(FieldInterpolator(**known)),
        "FieldInterpolator, history": projected(FieldInterpolator(**known, history=fields, history_points=past.points)),
        "mean of the history": lambda stations: stations.sites.tangent(mean.predict(stations.sites.points)),
        "ambient Gaussian process": projected(AmbientProcess()),
        "a process a component": projected(ComponentProcess()),
    }


class Reconstruction(WindExperiment):
    """One task is one draw of points; networks for all masks on it are trained together."""

    name = "reconstruction"
    about = Description.named(name)

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        sizes, draws = ((100, 200, 300, 400), 8) if full else ((100, 400), 2)
        masks = 1 if protocol == "best" else draws  # Gaussian processes for each take their time
        data = self.data or available()
        _ = source_of(data).field  # downloads come before any file of results
        same = {"data": data, "protocol": protocol, "masks": masks}
        return [{**same, "n": n, "sampling": sampling} for n in sizes for sampling in range(draws)]

    def run(self, task: Task, seed: int) -> list[Row]:
        scene = Scene(task, seed)
        stations, rows = scene.stations(), []
        if task["protocol"] == "paper":
            for view in scene.sites.views("MLP"):
                weights = draw(seed, "weights", view.name, task["n"], task["sampling"]).integers(2**31)
                winds, oracle = reconstruct(view, stations, scene.truth, int(weights))
                rows += scene.rows(view.name, winds, oracle, parameters=view.network().num_parameters)
        methods = INTERPOLATIONS | (estimators(source_of(task["data"]).past) if task["protocol"] == "best" else {})
        for name, method in methods.items():
            rows += scene.rows(name, np.stack([method(station) for station in stations]))
        return rows


class Scene:
    """The draws of a task: sites, true wind ``(n, 2)``, and masks ``(shares x masks, n)``."""

    def __init__(self, task: Task, seed: int) -> None:
        data, n, sampling = source_of(task["data"]).field, task["n"], task["sampling"]
        chosen = data.at(data.sample(n, draw(seed, "points", n, sampling)))
        self.task, self.unit = task, value_range(data)
        self.sites, self.truth = WindSites(chosen), chosen.components[0]
        self.cases = [(share, mask) for share in SHARES for mask in range(task["masks"])]
        self.masks = [_mask(draw(seed, "mask", n, sampling, *case), case[0], len(self.truth)) for case in self.cases]

    def stations(self) -> list[Stations]:
        """What methods may see, one for each mask."""
        return [Stations(self.sites, np.where(masked[:, None], np.nan, self.truth)) for masked in self.masks]

    def rows(
        self, method: str, winds: np.ndarray, oracle: np.ndarray | None = None, parameters: int | None = None
    ) -> list[Row]:
        """Both metrics of a method for every mask, and those of its oracle epoch."""
        rows = []
        for number, ((share, mask), masked) in enumerate(zip(self.cases, self.masks, strict=True)):
            row = {"n": self.task["n"], "masked": share, "sampling": self.task["sampling"], "method": method}
            row |= {"mask": mask, "points": len(masked), "data": self.task["data"], "parameters": parameters}
            for prefix, found in (("", winds), ("oracle_", oracle)):
                if found is not None:
                    errors = np.square(found[number] - self.truth)[masked].sum(axis=1) / self.unit**2
                    row[f"{prefix}per_node"] = float(errors.mean())
                    row[f"{prefix}paper_metric"] = float(errors.sum() / len(masked))
            rows.append(row)
        return rows


def reconstruct(
    view: NetworkView, stations: Sequence[Stations], truth: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's network for each mask: wind ``(masks, n, 2)``, and that of the oracle epoch."""
    observed = np.stack([s.observed for s in stations])
    scale = np.array([np.ptp(s.wind[s.observed]) for s in stations])[:, None, None]
    mean = INTERPOLATIONS["mean"]
    filled = np.stack([np.where(s.observed[:, None], s.wind, mean(s)) for s in stations])
    winds = reproduce_inputs(view, filled / scale, observed, truth / scale, ~observed, seed, epochs=EPOCHS)
    return winds[0] * scale, winds[1] * scale


def _mask(rng: np.random.Generator, share: float, n: int) -> np.ndarray:
    """Each point masked or not on its own, and at least one of either kind."""
    while not 0 < (masked := rng.random(n) < share).sum() < n:
        pass
    return masked
