"""Table 3: the next T_f fields of wind from the last T_f; trained on one period, tested on another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ..datasets import WindData, Windows
from ..forecast import FieldForecaster
from ..manifolds import Sphere
from ..nn import RecurrentTNN
from ..timeline import calendar_period
from ..training import fit
from .base import Description, Row, Task, draw
from .networks import NetworkView
from .wind import WindExperiment, WindSites, available, source_of, value_range

HORIZONS = (20, 50, 80)
BATCH, STEPS, PATIENCE = 12, 100, 40
"""Windows in a step of training, steps at most, and steps without improvement after which it ends."""

Forecaster = Callable[[np.ndarray], np.ndarray]
"""From inputs ``(windows, T_f, n, 2)`` to forecasts of the same shape."""


class Forecast(WindExperiment):
    """One task is one draw of points and one horizon."""

    name = "forecast"
    about = Description.named(name)

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        data = self.data or available()
        source = source_of(data)
        horizons = [h for h in HORIZONS if min(len(source.training), len(source.test)) > 2 * h]
        sizes, draws = ((100, 200, 300, 400), 8) if full else ((100,), 1)
        places = [{"n": n, "horizon": h, "sampling": s} for n in sizes for h in horizons for s in range(draws)]
        return [{"data": data, "protocol": protocol, **place} for place in places]

    def run(self, task: Task, seed: int) -> list[Row]:
        sites, training, test = scene(task, seed)
        inputs, targets = test.wind[test.windows.inputs], test.wind[test.windows.targets]
        sizes = {view.name: network(view).num_parameters for view in sites.views("RNN")}
        rows = []
        for method, forecaster in forecasters(sites, training, task, seed).items():
            errors = np.square(forecaster(inputs) - targets).mean(axis=(-1, -2))
            found = {"method": method, "points": sites.count, "parameters": sizes.get(method)}
            rows.append({**task, **found, **_scores(errors, test)})
        return rows


@dataclass(frozen=True, eq=False)
class Period:
    """Wind (east, north) ``(T, n, 2)`` in units of ``unit`` m/s, and its windows."""

    wind: np.ndarray
    filled: np.ndarray
    windows: Windows
    unit: float

    @classmethod
    def of(cls, data: WindData, horizon: int, unit: float) -> Period:
        return cls((data.components / unit).astype(np.float32), data.filled, data.windows(horizon), unit)

    def mean(self) -> np.ndarray:
        """The mean field of the period, of observed fields."""
        return self.wind[~self.filled].mean(axis=0)


def scene(task: Task, seed: int) -> tuple[WindSites, Period, Period]:
    """The points of a task, the training period and the test period there, in units of the former."""
    train, test = source_of(task["data"]).training, source_of(task["data"]).test
    chosen, unit = train.sample(task["n"], draw(seed, "points", task["n"], task["sampling"])), value_range(train)
    here, there = (Period.of(part.at(chosen), task["horizon"], unit) for part in (train, test))
    return WindSites(train.at(chosen)), here, there


def forecasters(sites: WindSites, training: Period, task: Task, seed: int) -> dict[str, Forecaster]:
    """All methods, fitted to the training period."""
    if task["protocol"] == "best":
        fitted = {"FieldForecaster": field_forecaster(sites, training, task)}
    else:
        rng_of = (seed, "weights", task["n"], task["sampling"], task["horizon"])
        fitted = {view.name: recurrent(view, training, draw(*rng_of)) for view in sites.views("RNN")}
    climate = training.mean()
    return fitted | {
        "persistence": lambda x: np.broadcast_to(x[:, -1:], x.shape),
        "damped persistence": damped_persistence(training),
        "climatology": lambda x: np.broadcast_to(climate, x.shape),
        "mean of inputs": lambda x: np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape),
        "zero": np.zeros_like,
    }


def damped_persistence(training: Period) -> Forecaster:
    """The last anomaly about the training mean, times a factor for each lead time, by least squares."""
    climate, windows = training.mean(), training.windows
    last, weight = training.wind[windows.inputs[:, -1]] - climate, windows.scored.astype(np.float32)
    products = [np.einsum("wna,wna->w", last, training.wind[now] - climate) for now in windows.targets.T]
    energy = np.einsum("wna,wna->w", last, last)
    factors = (np.array(products).T * weight).sum(axis=0) / np.maximum(energy @ weight, 1e-12)
    return lambda x: climate + factors[:, None, None].astype(np.float32) * (x[:, -1:] - climate)


def network(view: NetworkView, seed: int = 0) -> RecurrentTNN:
    """The paper's recurrent network of three layers."""
    return RecurrentTNN([view.channels] * 4, view.taps, seed=seed)


def recurrent(view: NetworkView, training: Period, rng: np.random.Generator) -> Forecaster:
    """The paper's recurrent network, trained on windows of the training period; the latest fifth is for validation."""
    wind, windows = torch.from_numpy(training.wind), training.windows
    scored = torch.from_numpy(windows.scored)
    net = network(view, int(rng.integers(2**31)))

    def run(inputs: torch.Tensor) -> torch.Tensor:
        return view.field(net(view.signal(inputs), view.operator)[0])

    def loss(_: torch.nn.Module, numbers: np.ndarray) -> torch.Tensor:
        difference = run(wind[windows.inputs[numbers]]) - wind[windows.targets[numbers]]
        errors = difference.square().sum(dim=-1).mean(dim=-1)
        return (errors * scored[numbers]).sum() / scored[numbers].sum().clamp_min(1)

    def batches(numbers: np.ndarray) -> list[np.ndarray]:
        return [numbers[k : k + BATCH] for k in range(0, len(numbers), BATCH)]

    first = max(1, min(math.ceil(0.8 * len(windows)), len(windows) - 1))
    train, validation = batches(rng.permutation(first)), batches(np.arange(first, len(windows))) or None
    epochs, patience = (math.ceil(steps / len(train)) for steps in (STEPS, PATIENCE))
    fit(net, train, loss, lr=0.03, clip=1.0, epochs=epochs, patience=patience, validation=validation, progress=False)

    def forecast(inputs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return torch.cat([run(part) for part in torch.from_numpy(inputs).split(2 * BATCH)]).numpy()

    return forecast


def field_forecaster(sites: WindSites, training: Period, task: Task) -> Forecaster:
    """The library's estimator, which knows dates."""
    train, test = source_of(task["data"]).training, source_of(task["data"]).test
    observed = ~training.filled
    period = calendar_period(train.times[observed])
    model = FieldForecaster(manifold=Sphere(2), period=period)
    series = sites.ambient(training.wind[observed].astype(float))
    model.fit(sites.points, series, times=train.times[observed])
    times = test.times[test.windows(task["horizon"]).inputs]

    def forecast(inputs: np.ndarray) -> np.ndarray:
        windows = zip(sites.ambient(inputs.astype(float)), times, strict=True)
        futures = [model.predict(recent, task["horizon"], times=when) for recent, when in windows]
        return sites.tangent(np.stack(futures)).astype(np.float32)

    return forecast


def _scores(errors: np.ndarray, test: Period) -> Row:
    """Errors ``(windows, T_f)`` of each field, averaged over observed ones: all, the first day's, each lead time's."""
    scored = test.windows.scored
    mse, by_lead = float(errors[scored].mean()), (errors * scored).sum(axis=0) / np.maximum(scored.sum(axis=0), 1)
    scores = {"mse": mse, "mse_ms": mse * test.unit**2, "mse_first": float(by_lead[:4].mean()) * test.unit**2}
    return {**scores, "by_lead": [round(float(e), 7) for e in by_lead]}
