"""Table 3: the next T_f fields of wind from the last T_f; trained on one period, tested on
another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ..datasets import WindData, Windows
from ..forecast import FieldForecaster
from ..manifolds import Sphere
from ..nn import GatedTNN, RecurrentTNN
from ..nn.models import Recurrent
from ..timeline import calendar_period
from ..training import fit
from .base import Description, Row, Task, draw
from .networks import NetworkView
from .wind import WindExperiment, WindSites, available, source_of, value_range

HORIZONS = (20, 50, 80)
RATE, CLIP, BATCH = 0.1, 1.0, 12
"""Rate of Adam, largest norm of a gradient, and windows in a step of training."""

STEPS, PATIENCE, LEAST_GAIN, INTERVAL = 600, 60, 1e-5, 10
"""One rule for all networks: every ``INTERVAL`` steps or more the error on the validation windows
is computed; training ends after ``PATIENCE`` steps in which it has not fallen by ``LEAST_GAIN``, or
after ``STEPS``; the weights with the least validation error are kept."""

GATED_WIDTHS = (4,)
"""States of the layers of the gated network."""

Forecaster = Callable[[np.ndarray], np.ndarray]
"""From inputs ``(windows, T_f, n, 2)`` to forecasts of the same shape."""


class Forecast(WindExperiment):
    """One task is one draw of points and one horizon."""

    name = "forecast"
    about = Description.named(name)
    training = f"at most {STEPS} steps, stopped after {PATIENCE} without improvement"

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        data = self.data or available()
        source = source_of(data)
        horizons = [h for h in HORIZONS if min(len(source.training), len(source.test)) > 2 * h]
        sizes, draws = ((100, 200, 300, 400), 8) if full else ((100,), 1)
        places = [
            {"n": n, "horizon": h, "sampling": s}
            for s in range(draws)
            for n in sizes
            for h in horizons
        ]
        return [{"data": data, "protocol": protocol, **place} for place in places]

    def run(self, task: Task, seed: int) -> list[Row]:
        sites, training, test = scene(task, seed)
        inputs, targets = test.wind[test.windows.inputs], test.wind[test.windows.targets]
        rows = []
        for method, forecaster in forecasters(sites, training, task, seed).items():
            errors = np.square(forecaster(inputs) - targets).mean(axis=(-1, -2))
            details = {"method": method, "points": sites.count, "parameters": None}
            if isinstance(forecaster, TrainedNetwork):
                details |= {"parameters": forecaster.net.num_parameters, "steps": forecaster.steps}
            rows.append({**task, **details, **_scores(errors, test)})
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
        return cls(
            (data.components / unit).astype(np.float32), data.filled, data.windows(horizon), unit
        )

    def mean(self) -> np.ndarray:
        """The mean field of the period, of observed fields."""
        return self.wind[~self.filled].mean(axis=0)


def scene(task: Task, seed: int) -> tuple[WindSites, Period, Period]:
    """The points of a task, the training period and the test period there, in units of the
    former."""
    train, test = source_of(task["data"]).training, source_of(task["data"]).test
    chosen, unit = (
        train.sample(task["n"], draw(seed, "points", task["n"], task["sampling"])),
        value_range(train),
    )
    here, there = (Period.of(part.at(chosen), task["horizon"], unit) for part in (train, test))
    return WindSites(train.at(chosen)), here, there


def forecasters(sites: WindSites, training: Period, task: Task, seed: int) -> dict[str, Forecaster]:
    """All methods, fitted to the training period."""
    if task["protocol"] == "best":
        fitted = {"FieldForecaster": field_forecaster(sites, training, task)}
    else:
        place = (seed, "weights", task["n"], task["sampling"], task["horizon"])
        views = sites.views("RNN")
        fitted = {view.name: recurrent(network, view, training, draw(*place)) for view in views}
        fitted["GatedTNN"] = recurrent(gated_network, views[0], training, draw(*place))
    climate = training.mean()
    return fitted | {
        "persistence": lambda x: np.broadcast_to(x[:, -1:], x.shape),
        "damped persistence": damped_persistence(training),
        "climatology": lambda x: np.broadcast_to(climate, x.shape),
        "mean of inputs": lambda x: np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape),
        "zero": np.zeros_like,
    }


def damped_persistence(training: Period) -> Forecaster:
    """The last anomaly about the training mean, times a factor for each lead time, by least
    squares."""
    climate, windows = training.mean(), training.windows
    last, weight = training.wind[windows.inputs[:, -1]] - climate, windows.scored.astype(np.float32)
    products = [
        np.einsum("wna,wna->w", last, training.wind[now] - climate) for now in windows.targets.T
    ]
    energy = np.einsum("wna,wna->w", last, last)
    factors = (np.array(products).T * weight).sum(axis=0) / np.maximum(energy @ weight, 1e-12)
    return lambda x: climate + factors[:, None, None].astype(np.float32) * (x[:, -1:] - climate)


def network(view: NetworkView, seed: int = 0) -> RecurrentTNN:
    """The paper's recurrent network of three layers."""
    return RecurrentTNN([view.channels] * 4, view.taps, seed=seed)


def gated_network(view: NetworkView, seed: int = 0) -> GatedTNN:
    """A recurrent network with gates, whose absence the paper names as the reason for losing at
    long horizons."""
    return GatedTNN([view.channels, *GATED_WIDTHS, view.channels], view.taps, seed=seed)


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """Forecasts of a network that was trained for a number of ``steps``."""

    net: Recurrent
    view: NetworkView
    steps: int

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """Forecasts of inputs ``(windows, T_f, n, 2)``."""
        signals, _ = self.net(self.view.signal(inputs), self.view.operator)
        return self.view.field(signals)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        on_device = torch.from_numpy(inputs).to(self.view.operator.device)
        with torch.no_grad():
            parts = [self.outputs(part) for part in on_device.split(2 * BATCH)]
        return torch.cat(parts).cpu().numpy()


def recurrent(
    make: Callable[[NetworkView, int], Recurrent],
    view: NetworkView,
    training: Period,
    rng: np.random.Generator,
) -> TrainedNetwork:
    """A network trained on windows of the training period, on the device of the operator.

    The latest fifth of the windows is for validation.
    """
    device = view.operator.device
    windows = training.windows
    wind = torch.from_numpy(training.wind).to(device)
    scored = torch.from_numpy(windows.scored).to(device)
    net = make(view, int(rng.integers(2**31))).to(device)
    untrained = TrainedNetwork(net, view, 0)

    def loss(_: torch.nn.Module, numbers: np.ndarray) -> torch.Tensor:
        difference = (
            untrained.outputs(wind[windows.inputs[numbers]]) - wind[windows.targets[numbers]]
        )
        errors = difference.square().sum(dim=-1).mean(dim=-1)
        return (errors * scored[numbers]).sum() / scored[numbers].sum().clamp_min(1)

    def batches(numbers: np.ndarray) -> list[np.ndarray]:
        return [numbers[k : k + BATCH] for k in range(0, len(numbers), BATCH)]

    first = max(1, min(math.ceil(0.8 * len(windows)), len(windows) - 1))
    train = batches(rng.permutation(first))
    epoch = train * math.ceil(INTERVAL / len(train))
    result = fit(
        net,
        epoch,
        loss,
        lr=RATE,
        clip=CLIP,
        epochs=math.ceil(STEPS / len(epoch)),
        patience=math.ceil(PATIENCE / len(epoch)),
        min_delta=LEAST_GAIN,
        validation=batches(np.arange(first, len(windows))) or None,
        progress=False,
    )
    return TrainedNetwork(net, view, result.epochs * len(epoch))


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
    """Errors ``(windows, T_f)`` of each field, averaged over observed ones: all, the first day's,
    each lead time's."""
    scored = test.windows.scored
    mse, by_lead = (
        float(errors[scored].mean()),
        (errors * scored).sum(axis=0) / np.maximum(scored.sum(axis=0), 1),
    )
    scores = {
        "mse": mse,
        "mse_ms": mse * test.unit**2,
        "mse_first": float(by_lead[:4].mean()) * test.unit**2,
    }
    return {**scores, "by_lead": [round(float(e), 7) for e in by_lead]}
