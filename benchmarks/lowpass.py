"""What the lowpass filters of Theorem 1 cost in denoising: layers with and without the identity
tap.

Two tasks. "reproduce" is that of the paper's Table 1: its scales, a network trained to reproduce
the noisy field, and the error of the epoch that is nearest to the clean field. "denoise" trains on
noisy copies of a tangent field with the clean one as target, at the automatic scale, and is scored
on other copies.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import tangentbundle as tb
from experiments.networks import NetworkView, reproduce_inputs
from experiments.torus import TAUS, Draw
from harness.records import Row

POINTS, SAMPLINGS, NOISES = 200, 4, 4
EPOCHS, TARGET_EPOCHS = 1_000, 300
"""Epochs of training, to reproduce the input and with the clean field as target."""

COPIES = 8
"""Noisy copies to train on, and as many to score."""


def banks(time: float) -> dict[str, list[tb.filters.Filter]]:
    """Filters of a layer: the paper's taps, of which the identity is not lowpass, and two pairs of
    heat flows."""
    return {
        "identity and heat": [tb.Heat(0.0), tb.Heat(time)],
        "lowpass": [tb.Heat(time), tb.Heat(2 * time)],
        "lowpass, a tenth of the time": [tb.Heat(time / 10), tb.Heat(time)],
    }


@dataclass(frozen=True, eq=False)
class FilterView(NetworkView):
    """The paper's network with other filters."""

    filters: tuple[tb.filters.Filter, ...] = ()

    def network(self, seed: int = 0) -> tb.nn.TNN:
        activation = tb.nn.Coordinatewise(torch.tanh)
        return tb.nn.TNN([1, 8, 4, 1], filters=list(self.filters), activation=activation, seed=seed)


def reproduce(sampling: int) -> list[Row]:
    """The errors of Table 1 on one sampling of the torus."""
    data = Draw.of({"field": "as printed", "n": POINTS, "sampling": sampling, "noises": NOISES}, 0)
    points = data.sample.points.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.errors.GlobalNeighborhoodWarning)
        bundle = tb.TangentBundle.from_points(points, dim=2, eps=0.5, eps_pca=0.8)
    frames = np.asarray(bundle.frames, dtype=float)
    lap, tangent = bundle.laplacian(calibrate=False), torch.from_numpy(frames).float()
    everywhere = np.ones(data.noisy.shape[:2])
    rows = []
    for name, filters in banks(1.0).items():
        view = FilterView(name, lap, 2, 3, tangent, tuple(filters))
        _, oracle = reproduce_inputs(
            view,
            data.noisy,
            everywhere,
            data.sample.vectors,
            everywhere,
            epochs=EPOCHS,
            lr=0.03,
            schedule=_decay(EPOCHS),
        )
        errors = _errors(oracle, data.sample.vectors, frames)
        noisy = _errors(data.noisy, data.sample.vectors, frames)
        for (tau, _), error, input_error in zip(data.cases, errors, noisy, strict=True):
            rows.append(
                {
                    "task": "reproduce",
                    "tau": tau,
                    "filters": name,
                    "mse": error,
                    "input": input_error,
                }
            )
    return rows


def denoise(sampling: int) -> list[Row]:
    """Errors on new noise of networks that learned from noisy copies of a field and the clean
    one."""
    torus = tb.manifolds.Torus()
    points = torus.sample(POINTS, seed=sampling)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    lap, clean = bundle.laplacian(), torus.tangent_field(points)
    rng = np.random.default_rng(sampling)
    target = torch.from_numpy(bundle.to_coordinates(clean))
    rows = []
    for tau in TAUS:
        noisy = clean + tau * rng.standard_normal((2 * COPIES, *clean.shape))
        signals = torch.stack([torch.from_numpy(bundle.to_coordinates(field)) for field in noisy])
        train, test = signals[:COPIES], signals[COPIES:]
        for name, filters in banks(0.001).items():
            net = tb.nn.TNN([1, 8, 4, 1], filters=filters, seed=sampling).double()
            batch = (train, lap, target.expand_as(train))
            tb.fit(
                net,
                [batch],
                epochs=TARGET_EPOCHS,
                lr=0.03,
                schedule=_decay(TARGET_EPOCHS),
                progress=False,
            )
            with torch.no_grad():
                error, given = (
                    (y - target).square().sum((-2, -1)).mean() for y in (net(test, lap), test)
                )
            rows.append(
                {
                    "task": "denoise",
                    "tau": tau,
                    "filters": name,
                    "mse": float(error),
                    "input": float(given),
                }
            )
    return rows


def _decay(epochs: int) -> Callable[[int], float]:
    """A rate that falls to one hundredth."""
    return lambda epoch: 0.01 ** (epoch / epochs)


def _errors(fields: np.ndarray, clean: np.ndarray, frames: np.ndarray) -> list[float]:
    """Mean squared lengths of the differences of fields ``(r, n, 3)`` in the frames."""
    parts = np.einsum("nij,rni->rnj", frames, fields - clean)
    return np.square(parts).sum(axis=2).mean(axis=1).tolist()


def run() -> list[Row]:
    """One row for each task, noise level and bank: mean and spread of the error over all draws."""
    runs: list[Row] = []
    for sampling in range(SAMPLINGS):
        runs += reproduce(sampling) + denoise(sampling)
        print(f"sampling {sampling + 1} of {SAMPLINGS}", flush=True)
    rows = []
    for key in dict.fromkeys((run["task"], run["tau"], run["filters"]) for run in runs):
        group = [run for run in runs if (run["task"], run["tau"], run["filters"]) == key]
        errors = [run["mse"] for run in group]
        row = dict(zip(("task", "tau", "filters"), key, strict=True))
        row |= {"mse": float(np.mean(errors)), "std": float(np.std(errors)), "draws": len(errors)}
        rows.append(row | {"input": float(np.mean([run["input"] for run in group]))})
    return rows
