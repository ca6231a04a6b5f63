r"""Wind at stations, from the wind at other stations: does a network that has seen many fields beat
kriging with history?

Everything is learned from one block of analyses (spring): the climatology, the covariances of
``FieldInterpolator`` with history, and the networks. The first part of another block (summer) is
for validation, the last part for test. Of 400 random stations, even on the sphere, half are
observed; the others are wanted. Errors are squared lengths, over those of the climatology.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from harness.ledger import Row, Task
from tangentbundle import TangentBundle
from tangentbundle.earth.covariances import Earth
from tangentbundle.errors import InvalidInputError
from tangentbundle.estimators import FieldInterpolator
from tangentbundle.filters import Heat
from tangentbundle.nn import TNN, Configured, MixedOperators, ResidualMixedTNN

from .base import SEEDS, Benchmark, Score

TRAINING_BLOCK = "gfs_10m_2p5deg_6h_blockA.nc"
OTHER_BLOCK = "gfs_10m_2p5deg_6h_blockB.nc"
THINNING = 2
"""Every second row and column of the grid of 2.5 degrees: 5 degrees."""

VALIDATION_TIMES = slice(0, 60)
TEST_TIMES = slice(-67, None)
"""Of the other block; the 15 days between them are not used."""

NUM_STATIONS = 400
OBSERVED_SHARE = 0.5
NUM_LAYOUTS = {"training": 60, "validation": 12, "test": 24}
"""Random sets of stations; each of validation and test has one time of its own."""

BATCH = 4
"""Times of one layout in a batch."""

UPDATES = 600
QUICK_UPDATES = 5
CHECK_EVERY = 50
LEARNING_RATE = 3e-3

DIFFUSION_TIMES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
"""Of the filters, on the unit sphere."""


@dataclass(frozen=True, eq=False)
class WindFields:
    """Wind (east, north) of the training block ``(T, n, 2)`` and of the other one, on a grid with
    ``area`` (n,)."""

    lat: np.ndarray
    lon: np.ndarray
    area: np.ndarray
    training: np.ndarray
    other: np.ndarray

    @property
    def climatology(self) -> np.ndarray:
        """The mean of the training block, ``(n, 2)``."""
        return self.training.mean(axis=0)


def write_fields(blocks: Path, folder: Path) -> None:
    """The fields of both blocks on the thinned grid, as ``wind.npz``."""
    import xarray

    from tangentbundle.datasets import load_wind

    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for name, block in (("training", TRAINING_BLOCK), ("other", OTHER_BLOCK)):
        with xarray.open_dataset(blocks / block) as ds:
            thinned = ds.isel(lat=slice(None, None, THINNING), lon=slice(None, None, THINNING))
            data = load_wind(thinned.load())
        hundredths = np.round(100 * data.components[~data.filled])
        arrays[name] = hundredths.astype(np.int16)
        arrays |= {"lat": data.lat, "lon": data.lon, "area": data.area}
    np.savez_compressed(folder / "wind.npz", **arrays)


@cache
def read_fields(path: Path) -> WindFields:
    """The fields of a file."""
    with np.load(path) as stored:
        return WindFields(
            lat=stored["lat"],
            lon=stored["lon"],
            area=stored["area"],
            training=stored["training"] / 100,
            other=stored["other"] / 100,
        )


class Layout:
    """A random set of stations: their numbers on the grid, points, frames, and operators."""

    def __init__(self, fields: WindFields, rng: np.random.Generator, device: str) -> None:
        shares = fields.area / fields.area.sum()
        chosen = rng.choice(len(shares), NUM_STATIONS, replace=False, p=shares)
        self.numbers = np.sort(chosen)
        lat = np.radians(fields.lat[self.numbers])
        lon = np.radians(fields.lon[self.numbers])
        self.points = np.stack(
            [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1
        )
        east = np.stack([-np.sin(lon), np.cos(lon), np.zeros_like(lon)], axis=1)
        north = np.cross(self.points, east)
        self.frames = np.stack([east, north], axis=-1)
        bundle = TangentBundle.from_frames(self.points, self.frames)
        self.operators = MixedOperators.of(bundle, oriented=True).to(device, torch.float32)
        self.still = self._still(fields, device)

    def _still(self, fields: WindFields, device: str) -> Tensor:
        """What does not change, ``(n, 1, 2)``: the sine of latitude and its square."""
        sine = self.points[:, 2]
        values = np.stack([sine, sine**2], axis=-1)[:, None, :]
        return torch.tensor(values, dtype=torch.float32, device=device)


@dataclass(frozen=True, eq=False)
class Case:
    """Wind ``(n, 2)`` at the stations of a layout, which of them are ``observed``, and the
    climatology there."""

    layout: Layout
    wind: np.ndarray
    observed: np.ndarray
    climatology: np.ndarray


def draw_observed(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Which stations are observed."""
    return rng.random((*shape, NUM_STATIONS)) < OBSERVED_SHARE


@cache
def cases(path: Path, part: str, device: str) -> list[Case]:
    """The cases of validation or test: layouts at times evenly through the period."""
    fields = read_fields(path)
    period = {"validation": VALIDATION_TIMES, "test": TEST_TIMES}[part]
    series = fields.other[period]
    count = NUM_LAYOUTS[part]
    drawn = []
    for number, when in enumerate(np.linspace(0, len(series) - 1, count).astype(int)):
        rng = np.random.default_rng([{"validation": 1, "test": 2}[part], number])
        layout = Layout(fields, rng, device)
        wind = series[when, layout.numbers]
        climatology = fields.climatology[layout.numbers]
        drawn.append(Case(layout, wind, draw_observed(rng), climatology))
    return drawn


# Methods without a network.

Estimate = Callable[[Case], np.ndarray]
"""From a case, of which only the observed wind may be used, to wind at all stations ``(n, 2)``."""


def climatology(case: Case) -> np.ndarray:
    """The mean of the training block."""
    return case.climatology


def kriging(model: FieldInterpolator) -> Estimate:
    """A Gaussian process on the tangent bundle."""

    def estimate(case: Case) -> np.ndarray:
        layout = case.layout
        vectors = np.einsum("nda,na->nd", layout.frames, case.wind)
        fitted = model.fit(layout.points[case.observed], vectors[case.observed])
        return np.einsum("nda,nd->na", layout.frames, fitted.predict(layout.points))

    return estimate


def with_history(fields: WindFields) -> FieldInterpolator:
    """``FieldInterpolator`` that knows the training block."""
    lat = np.radians(fields.lat)
    lon = np.radians(fields.lon)
    points = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    east = np.stack([-np.sin(lon), np.cos(lon), np.zeros_like(lon)], axis=1)
    frames = np.stack([east, np.cross(points, east)], axis=-1)
    history = np.einsum("nda,tna->tnd", frames, fields.training)
    return FieldInterpolator(manifold=Earth(), history=history, history_points=points)


def relative_error(estimate: Estimate, drawn: list[Case]) -> float:
    """The squared errors at the stations that are not observed, over those of the climatology."""
    errors = 0.0
    unit = 0.0
    for case in drawn:
        hidden = ~case.observed
        errors += float(((estimate(case) - case.wind)[hidden] ** 2).sum())
        unit += float(((case.climatology - case.wind)[hidden] ** 2).sum())
    return errors / unit


# Networks: from anomalies at the observed stations to anomalies at all.


class VectorNetwork(Configured):
    """A ``TNN`` with diffusion at six scales."""

    def __init__(self, width: int = 48, seed: int = 0) -> None:
        super().__init__()
        flows = [Heat(t) for t in DIFFUSION_TIMES]
        self.net = TNN([2, width, width, 1], filters=flows, seed=seed)

    def forward(self, fields: Tensor, functions: Tensor, operators: MixedOperators) -> Tensor:
        return self.net(fields, operators.fields)


class MixedNetwork(Configured):
    """A ``ResidualMixedTNN``, which also sees what is observed, and the latitude."""

    def __init__(self, width: int = 20, seed: int = 0) -> None:
        super().__init__()
        self.net = ResidualMixedTNN(
            [3, width, 1], [2, width, 1], layers=4, taps=3, step=0.02, oriented=True, seed=seed
        )

    def forward(self, fields: Tensor, functions: Tensor, operators: MixedOperators) -> Tensor:
        return self.net(functions, fields, operators)[1]


NETWORKS: dict[str, Callable[[int], Configured]] = {
    "TNN": lambda seed: VectorNetwork(seed=seed),
    "ResidualMixedTNN": lambda seed: MixedNetwork(seed=seed),
}
"""The networks of the table, from a seed."""

SCALE = 5.0
"""Metres a second; the size of anomalies."""


def apply(
    net: Configured, layout: Layout, wind: Tensor, observed: Tensor, climatology: Tensor
) -> Tensor:
    """Wind ``(..., n, 2)`` at all stations, from what is observed."""
    anomalies = (wind - climatology) / SCALE * observed[..., None]
    steady = (climatology / SCALE).expand_as(anomalies)
    fields = torch.stack([anomalies, steady], dim=-1)
    still = layout.still.expand(*observed.shape, 1, 2)
    functions = torch.cat([observed[..., None, None].to(fields), still], dim=-1)
    change = net(fields, functions, layout.operators)[..., 0]
    return climatology + SCALE * change


def estimate_by(net: Configured, device: str) -> Estimate:
    """The estimate of a network."""

    def estimate(case: Case) -> np.ndarray:
        single_precision = partial(torch.tensor, dtype=torch.float32, device=device)
        wind = single_precision(np.where(case.observed[:, None], case.wind, 0.0))
        observed = torch.tensor(case.observed, device=device)
        steady = single_precision(case.climatology)
        with torch.no_grad():
            outputs = apply(net, case.layout, wind[None], observed[None], steady)
        return outputs[0].cpu().double().numpy()

    return estimate


@cache
def training_layouts(path: Path, device: str) -> list[Layout]:
    """The layouts of training."""
    fields = read_fields(path)
    return [
        Layout(fields, np.random.default_rng([0, number]), device)
        for number in range(NUM_LAYOUTS["training"])
    ]


def train(
    net: Configured, path: Path, validation: list[Case], updates: int, seed: int, device: str
) -> tuple[Configured, float]:
    """The weights with the least error on the validation cases, of another season; and that
    error."""
    fields = read_fields(path)
    layouts = training_layouts(path, device)
    rng = np.random.default_rng(seed)
    single_precision = partial(torch.tensor, dtype=torch.float32, device=device)
    series = single_precision(fields.training)
    steady = single_precision(fields.climatology)
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=updates)
    best = relative_error(estimate_by(net, device), validation)
    weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    for update in range(1, updates + 1):
        layout = layouts[rng.integers(len(layouts))]
        times = torch.tensor(rng.integers(0, len(series), BATCH), device=device)
        numbers = torch.tensor(layout.numbers, device=device)
        wind = series[times][:, numbers]
        observed = torch.tensor(draw_observed(rng, BATCH), device=device)
        outputs = apply(net, layout, wind, observed, steady[numbers])
        errors = (outputs - wind).square().sum(-1) / SCALE**2
        loss = errors[~observed].mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if update % CHECK_EVERY == 0:
            error = relative_error(estimate_by(net, device), validation)
            if error < best:
                best = error
                weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.load_state_dict(weights)
    return net.eval(), best


class WindStations(Benchmark):
    """Wind at stations that are not observed, in a season that was not seen."""

    name = "stations"
    title = "Wind at hidden stations in another season: squared error over that of climatology"
    scores = (
        Score("error", "test"),
        Score("validation", "validation"),
    )
    data_source = (
        "Make wind.npz with python -m experiments.published.make stations FOLDER BLOCKS, from two "
        f"blocks of analyses, {TRAINING_BLOCK} and {OTHER_BLOCK}."
    )

    @classmethod
    def make_data(cls, folder: Path, source: Path | None) -> None:
        if source is None:
            raise InvalidInputError(f"give the folder of the blocks. {cls.data_source}")
        write_fields(source, folder)

    def tasks(self, full: bool) -> list[Task]:
        limits = {} if full else {"updates": QUICK_UPDATES}
        tasks: list[Task] = [{"method": "no network", **limits}]
        for method in NETWORKS:
            tasks += [{"method": method, "seed": seed, **limits} for seed in SEEDS]
        return tasks

    def run(self, task: Task) -> list[Row]:
        path = self.file("wind.npz")
        validation = cases(path, "validation", self.device)
        test = cases(path, "test", self.device)
        if task["method"] == "no network":
            estimates = {
                "climatology": ("trivial", climatology),
                "FieldInterpolator": ("classical", kriging(FieldInterpolator(manifold=Earth()))),
                "FieldInterpolator, history": (
                    "classical",
                    kriging(with_history(read_fields(path))),
                ),
            }
            rows = []
            for method, (kind, estimate) in estimates.items():
                error = relative_error(estimate, test)
                on_validation = relative_error(estimate, validation)
                row = {"method": method, "kind": kind, "error": error, "validation": on_validation}
                rows.append(row)
            return rows
        net = NETWORKS[task["method"]](task["seed"]).to(self.device)
        updates = task.get("updates", UPDATES)
        start = time.perf_counter()
        net, on_validation = train(net, path, validation, updates, task["seed"], self.device)
        seconds = time.perf_counter() - start
        row = {
            "method": task["method"],
            "kind": "ours",
            "error": relative_error(estimate_by(net, self.device), test),
            "validation": on_validation,
            "seed": task["seed"],
            "parameters": net.num_parameters,
            "seconds": seconds,
        }
        self.keep(net, task)
        return [row]
