"""The paper's Table 3: the next T_f fields of wind from the last T_f; trained on one period, tested on another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..datasets import WindData, Windows
from ..datasets.timeline import calendar_period
from ..errors import InvalidInputError
from ..forecast import FieldForecaster
from ..manifolds import Sphere
from ..nn import RecurrentTNN
from ..training import fit
from .base import Column, Experiment, Row, Task, draw
from .wind import SOURCES, Sites, View, available, source_of, value_range

HORIZONS = (20, 50, 80)
BATCH, STEPS, PATIENCE = 12, 100, 40
"""Windows of a step of training, steps at most, and steps without improvement after which it ends."""

FIRST = 4
"""Steps of the first leads' own column: a day of six-hourly fields."""

HELD_OUT = 0.2
"""Share of the training windows, the latest, that choose the weights."""


class Forecast(Experiment):
    """One task is one draw of points and one horizon."""

    name = "forecast"
    title = "Wind field forecasting"
    cell = ("n", "horizon")
    columns = (
        Column("mse", "mean squared error", headline=True),
        Column("mse_ms", "(m/s)²"),
        Column("mse_first", "first 4 steps, (m/s)²"),
        Column("parameters", "parameters"),
    )
    sources = tuple(SOURCES)

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        if protocol not in ("paper", "best"):
            raise InvalidInputError(f"the protocols are 'paper' and 'best', got {protocol!r}.")
        data = self.data or available()
        source = source_of(data)
        horizons = [h for h in HORIZONS if min(len(source.training), len(source.test)) > 2 * h]
        sizes, draws = ((100, 200, 300, 400), 8) if full else ((100,), 1)
        places = [{"n": n, "horizon": h, "sampling": s} for n in sizes for h in horizons for s in range(draws)]
        return [{"data": data, "protocol": protocol, **place} for place in places]

    def run(self, task: Task, seed: int) -> list[Row]:
        sites, training, test = scene(task, seed)
        inputs, targets = test.inputs(), test.targets()
        sizes = {view.name: network(view).num_parameters for view in sites.views("RNN")}
        rows = []
        for method, forecaster in forecasters(sites, training, task, seed).items():
            errors = np.square(forecaster(inputs) - targets).mean(axis=(-1, -2))
            found = {"method": method, "points": sites.count, "parameters": sizes.get(method)}
            rows.append({**task, **found, **_scores(errors, test)})
        return rows

    def notes(self, rows: Sequence[Row], protocol: str) -> str:
        data = "; ".join(SOURCES[name].about for name in dict.fromkeys(row["data"] for row in rows))
        common = (
            f"Data: {data}. Errors are averaged over components, points, lead times and windows of the test period, "
            "in units of the range of the training period (largest minus least component), as in the paper. One factor "
            "scales both periods and nothing is shifted; the authors' code shifts the test period by half its range, "
            "and their errors mostly measure that. Analyses that were missing are not scored. No run is discarded."
            "\n\n"
        )
        if protocol == "best":
            return common + (
                "`FieldForecaster, all places` has learnt from the training period on the whole grid; the other rows "
                "know the drawn points alone. Rows of networks, where shown, are those of the paper's protocol."
            )
        return common + (
            "As in the paper, a network's output at input step t is its forecast of step t + T_f. MNN and RNN see east "
            f"and north as two channels. Training: at most {STEPS} steps of {BATCH} windows. The latest fifth of the "
            f"training windows chooses the weights and ends training after {PATIENCE} steps without improvement; the "
            "paper's patience of 5 epochs watches the test year."
        )

    def figures(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        from .figures import forecast_figures

        return forecast_figures(rows, folder)


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

    @property
    def horizon(self) -> int:
        return self.windows.inputs.shape[1]

    def inputs(self) -> np.ndarray:
        """``(windows, T_f, n, 2)``."""
        return self.wind[self.windows.inputs]

    def targets(self) -> np.ndarray:
        return self.wind[self.windows.targets]

    def mean(self) -> np.ndarray:
        """The mean field of the period, of what was observed."""
        return self.wind[~self.filled].mean(axis=0)


Forecaster = Callable[[np.ndarray], np.ndarray]
"""From inputs ``(windows, T_f, n, 2)`` to forecasts of the same shape."""


def scene(task: Task, seed: int) -> tuple[Sites, Period, Period]:
    """The points of a task, the training period and the test period there, in units of the former."""
    source = source_of(task["data"])
    train, test = source.training, source.test
    chosen = train.sample(task["n"], draw(seed, "points", task["n"], task["sampling"]))
    unit = value_range(train)
    here, there = (Period.of(part.at(chosen), task["horizon"], unit) for part in (train, test))
    return Sites(train.at(chosen)), here, there


def forecasters(sites: Sites, training: Period, task: Task, seed: int) -> dict[str, Forecaster]:
    """All methods, ready to forecast; networks and fitted ones have seen the training period alone."""
    place = task["n"], task["sampling"], task["horizon"]
    fitted: dict[str, Forecaster]
    if task["protocol"] == "best":
        fitted = {
            "FieldForecaster": best(sites, training, task, seed),
            "FieldForecaster, all places": best(sites, training, task, seed, everywhere=True),
        }
    else:
        fitted = {v.name: recurrent(v, training, draw(seed, "weights", *place)) for v in sites.views("RNN")}
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
    last = training.wind[windows.inputs[:, -1]] - climate
    scored = windows.scored[:, :, None, None]
    factors = []
    for lead in range(training.horizon):
        later = (training.wind[windows.targets[:, lead]] - climate) * scored[:, lead]
        factors.append(float((last * later).sum() / max(float((last * last * scored[:, lead]).sum()), 1e-12)))
    shrink = np.array(factors, np.float32)[:, None, None]
    return lambda x: climate + shrink * (x[:, -1:] - climate)


def network(view: View, seed: int = 0) -> RecurrentTNN:
    """The paper's recurrent network of three layers."""
    return RecurrentTNN([view.channels] * 4, view.taps, seed=seed)


def recurrent(view: View, training: Period, rng: np.random.Generator) -> Forecaster:
    """The paper's recurrent network, trained on windows of the training period."""
    wind, windows = torch.from_numpy(training.wind), training.windows
    scored = torch.from_numpy(windows.scored)
    net = network(view, int(rng.integers(2**31)))

    def run(inputs: torch.Tensor) -> torch.Tensor:
        return view.wind(net(view.signal(inputs), view.operator)[0])

    def loss(_: torch.nn.Module, numbers: np.ndarray) -> torch.Tensor:
        difference = run(wind[windows.inputs[numbers]]) - wind[windows.targets[numbers]]
        errors = difference.square().sum(dim=-1).mean(dim=-1)
        return (errors * scored[numbers]).sum() / scored[numbers].sum().clamp_min(1)

    keep = math.ceil(len(windows) * (1 - HELD_OUT)) - (len(windows) > 1) * (len(windows) < 1 / HELD_OUT)
    shuffled = rng.permutation(keep)
    batches = [shuffled[k : k + BATCH] for k in range(0, keep, BATCH)]
    held_out = np.arange(keep, len(windows))
    later = [held_out[k : k + BATCH] for k in range(0, len(held_out), BATCH)] or None
    passes, patience = (math.ceil(steps / len(batches)) for steps in (STEPS, PATIENCE))
    fit(net, batches, loss, lr=0.03, clip=1.0, epochs=passes, patience=patience, validation=later, progress=False)

    def forecast(inputs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return torch.cat([run(part) for part in torch.from_numpy(inputs).split(2 * BATCH)]).numpy()

    return forecast


def best(sites: Sites, training: Period, task: Task, seed: int, everywhere: bool = False) -> Forecaster:
    """The library's estimator, which knows dates and so the time of day or year; it sees one window at a time.

    With ``everywhere`` it learns from the training period at all points of the grid; it forecasts from the sites alone.
    """
    source = source_of(task["data"])
    train, test = source.training, source.test
    seen = ~training.filled
    series = np.einsum("nda,tna->tnd", sites.frames, training.wind[seen].astype(float))
    times, support = train.times[seen], None
    if everywhere:
        support = train.points, train.ambient[seen] / training.unit
    model = FieldForecaster(manifold=Sphere(2), period=calendar_period(times), random_state=seed)
    model.fit(sites.points, series, times=times, support=support)
    numbers = test.windows(training.horizon).inputs

    def forecast(inputs: np.ndarray) -> np.ndarray:
        ambient = np.einsum("nda,wtna->wtnd", sites.frames, inputs.astype(float))
        futures = [
            model.predict(recent, training.horizon, times=test.times[window])
            for recent, window in zip(ambient, numbers, strict=True)
        ]
        return np.einsum("nda,wtnd->wtna", sites.frames, np.stack(futures)).astype(np.float32)

    return forecast


def _scores(errors: np.ndarray, test: Period) -> Row:
    """Errors ``(windows, T_f)`` of each field, averaged over observed ones: all, and for each lead time."""
    scored = test.windows.scored
    mse = float(errors[scored].mean())
    by_lead = (errors * scored).sum(axis=0) / np.maximum(scored.sum(axis=0), 1)
    first = float(by_lead[:FIRST].mean()) * test.unit**2
    scores = {"mse": mse, "mse_ms": mse * test.unit**2, "mse_first": first}
    return {**scores, "by_lead": [round(float(e), 7) for e in by_lead]}
