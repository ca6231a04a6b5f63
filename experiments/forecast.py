"""Table 3: the next T_f fields of wind from the last T_f; trained on one period, tested on
another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from harness.ledger import Row, Task
from tangentbundle.datasets import WindData, Windows
from tangentbundle.earth import Earth
from tangentbundle.forecast import FieldForecaster
from tangentbundle.nn import GatedTNN, RecurrentTNN
from tangentbundle.nn.models import Recurrent
from tangentbundle.timeline import calendar_period
from tangentbundle.training import BatchLoss, fit

from .base import Description, Form, draw
from .networks import NetworkView
from .wind import WindExperiment, WindSites, available, source_of, value_range

HORIZONS = (20, 50, 80)
FULL = Form(sizes=(100, 200, 300, 400), draws=8)
QUICK = Form(sizes=(100,), draws=1)

RATE = 0.1
"""Rate of Adam."""

CLIP = 1.0
"""Largest norm of a gradient."""

BATCH = 12
"""Windows in a step of training."""

# One rule ends the training of all networks; the weights with the least validation error are kept.

STEPS = 600
"""Most steps of training."""

PATIENCE = 60
"""Training ends after so many steps in which the validation error has not fallen by
``LEAST_GAIN``."""

LEAST_GAIN = 1e-5

INTERVAL = 10
"""Least steps between two computations of the validation error."""

TRAINING_SHARE = 0.8
"""Of the windows of the training period; the latest others are for validation."""

FIRST_DAY = 4
"""Lead times of the first day, of analyses every six hours."""

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
        shortest = min(len(source.training), len(source.test))
        horizons = [horizon for horizon in HORIZONS if shortest > 2 * horizon]
        form = FULL if full else QUICK
        common: Task = {"data": data, "protocol": protocol}
        return [
            {**common, "n": n, "horizon": horizon, "sampling": sampling}
            for sampling in range(form.draws)
            for n in form.sizes
            for horizon in horizons
        ]

    def run(self, task: Task, seed: int) -> list[Row]:
        sites, training, test = scene(task, seed)
        inputs = test.wind[test.windows.inputs]
        targets = test.wind[test.windows.targets]
        rows = []
        for method, forecaster in forecasters(sites, training, task, seed).items():
            errors = np.square(forecaster(inputs) - targets).mean(axis=(-1, -2))
            row = {**task, "method": method, "points": sites.count, "parameters": None}
            if isinstance(forecaster, TrainedNetwork):
                row["parameters"] = forecaster.net.num_parameters
                row["steps"] = forecaster.steps
            rows.append(row | _scores(errors, test))
        return rows


@dataclass(frozen=True, eq=False)
class Period:
    """Wind (east, north) ``(T, n, 2)`` in units of ``unit`` m/s, and its windows.

    ``filled (T,)`` says which fields are missing analyses.
    """

    wind: np.ndarray
    filled: np.ndarray
    windows: Windows
    unit: float

    @classmethod
    def of(cls, data: WindData, horizon: int, unit: float) -> Period:
        """The period of a data set, for forecasts of ``horizon`` fields."""
        wind = (data.components / unit).astype(np.float32)
        return cls(wind, data.filled, data.windows(horizon), unit)

    def mean(self) -> np.ndarray:
        """The mean field of the period, of observed fields."""
        return self.wind[~self.filled].mean(axis=0)


def scene(task: Task, seed: int) -> tuple[WindSites, Period, Period]:
    """The points of a task, the training period and the test period there, in units of the
    former."""
    source = source_of(task["data"])
    rng = draw(seed, "points", task["n"], task["sampling"])
    chosen = source.training.sample(task["n"], rng)
    unit = value_range(source.training)
    training = source.training.at(chosen)
    test = source.test.at(chosen)
    horizon = task["horizon"]
    sites = WindSites(training)
    return sites, Period.of(training, horizon, unit), Period.of(test, horizon, unit)


def forecasters(sites: WindSites, training: Period, task: Task, seed: int) -> dict[str, Forecaster]:
    """All methods, fitted to the training period."""
    if task["protocol"] == "best":
        fitted = {"FieldForecaster": field_forecaster(sites, training, task)}
    else:
        fitted = trained_networks(sites, training, task, seed)
    return fitted | simple_forecasters(training)


def trained_networks(
    sites: WindSites, training: Period, task: Task, seed: int
) -> dict[str, Forecaster]:
    """The paper's networks, and one with gates."""
    views = sites.views("RNN")
    networks: dict[str, Forecaster] = {}
    for view in views:
        networks[view.name] = recurrent(network, view, training, _weights_rng(task, seed))
    networks["GatedTNN"] = recurrent(gated_network, views[0], training, _weights_rng(task, seed))
    return networks


def _weights_rng(task: Task, seed: int) -> np.random.Generator:
    """The generator of the weights and batches of a network, the same for all networks."""
    return draw(seed, "weights", task["n"], task["sampling"], task["horizon"])


def simple_forecasters(training: Period) -> dict[str, Forecaster]:
    """Methods that need no space."""
    climate = training.mean()
    return {
        "persistence": lambda x: np.broadcast_to(x[:, -1:], x.shape),
        "damped persistence": damped_persistence(training),
        "climatology": lambda x: np.broadcast_to(climate, x.shape),
        "mean of inputs": lambda x: np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape),
        "zero": np.zeros_like,
    }


def damped_persistence(training: Period) -> Forecaster:
    """The last anomaly about the training mean, times a factor for each lead time, by least
    squares."""
    climate = training.mean()
    windows = training.windows
    weight = windows.scored.astype(np.float32)
    last = training.wind[windows.inputs[:, -1]] - climate
    products = []
    for fields in windows.targets.T:
        products.append(np.einsum("wna,wna->w", last, training.wind[fields] - climate))
    energy = np.einsum("wna,wna->w", last, last)
    covariances = (np.array(products).T * weight).sum(axis=0)
    variances = np.maximum(energy @ weight, 1e-12)
    factors = (covariances / variances)[:, None, None].astype(np.float32)
    return lambda x: climate + factors * (x[:, -1:] - climate)


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
            forecasts = [self.outputs(windows) for windows in on_device.split(2 * BATCH)]
        return torch.cat(forecasts).cpu().numpy()


def recurrent(
    make: Callable[[NetworkView, int], Recurrent],
    view: NetworkView,
    training: Period,
    rng: np.random.Generator,
) -> TrainedNetwork:
    """A network trained on windows of the training period, on the device of the operator."""
    device = view.operator.device
    windows = training.windows
    wind = torch.from_numpy(training.wind).to(device)
    scored = torch.from_numpy(windows.scored).to(device)
    net = make(view, int(rng.integers(2**31))).to(device)
    untrained = TrainedNetwork(net, view, steps=0)

    def loss(_: torch.nn.Module, numbers: np.ndarray) -> torch.Tensor:
        forecasts = untrained.outputs(wind[windows.inputs[numbers]])
        difference = forecasts - wind[windows.targets[numbers]]
        errors = difference.square().sum(dim=-1).mean(dim=-1)
        return (errors * scored[numbers]).sum() / scored[numbers].sum().clamp_min(1)

    count = len(windows)
    validation_start = max(1, min(math.ceil(TRAINING_SHARE * count), count - 1))
    batches = _batches(rng.permutation(validation_start))
    epoch = batches * math.ceil(INTERVAL / len(batches))
    result = fit(
        net,
        epoch,
        BatchLoss(loss),
        lr=RATE,
        clip=CLIP,
        epochs=math.ceil(STEPS / len(epoch)),
        patience=math.ceil(PATIENCE / len(epoch)),
        min_delta=LEAST_GAIN,
        validation=_batches(np.arange(validation_start, count)) or None,
        progress=False,
    )
    return TrainedNetwork(net, view, steps=result.epochs * len(epoch))


def _batches(numbers: np.ndarray) -> list[np.ndarray]:
    """Numbers of windows, some for each step of training."""
    return [numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH)]


def field_forecaster(sites: WindSites, training: Period, task: Task) -> Forecaster:
    """The library's estimator, which knows dates."""
    source = source_of(task["data"])
    observed = ~training.filled
    times = source.training.times[observed]
    model = FieldForecaster(manifold=Earth(), period=calendar_period(times))
    series = sites.ambient(training.wind[observed].astype(float))
    model.fit(sites.points, series, times=times)
    input_times = source.test.times[source.test.windows(task["horizon"]).inputs]

    def forecast(inputs: np.ndarray) -> np.ndarray:
        windows = sites.ambient(inputs.astype(float))
        futures = []
        for window, when in zip(windows, input_times, strict=True):
            futures.append(model.predict(window, task["horizon"], times=when))
        return sites.tangent(np.stack(futures)).astype(np.float32)

    return forecast


def _scores(errors: np.ndarray, test: Period) -> Row:
    """Errors ``(windows, T_f)`` of each field, averaged over observed ones: all, the first day's,
    each lead time's."""
    scored = test.windows.scored
    mse = float(errors[scored].mean())
    counts = np.maximum(scored.sum(axis=0), 1)
    by_lead = (errors * scored).sum(axis=0) / counts
    return {
        "mse": mse,
        "mse_ms": mse * test.unit**2,
        "mse_first": float(by_lead[:FIRST_DAY].mean()) * test.unit**2,
        "by_lead": [round(float(error), 7) for error in by_lead],
    }
