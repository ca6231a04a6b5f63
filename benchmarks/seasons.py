"""How surface wind changes from season to season: ``python -m benchmarks.seasons``, by the record inside the package.

Two months of one year, some months apart, are the mean of a history and the mean of another season. Printed are the
shares by which the parts of the one predict the other best (least squares over all pairs), and the parameters of
``estimators.seasons.change`` that make the differences from ``estimators.seasons.faded`` most likely. The constants of
``estimators.seasons`` are near them. Of the GFS blocks, on which estimators are tested, only ``STEADY`` is used.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from scipy.spatial import cKDTree

import tangentbundle as tb
from tangentbundle.datasets import load_wind
from tangentbundle.estimators import seasons
from tangentbundle.estimators.covariance import Sites
from tangentbundle.estimators.likelihood import NOISE_START, PRIOR, Evidence, maximise
from tangentbundle.estimators.tangents import evenly

from .harness import Row, print_table, save

LAGS = range(1, 7)
"""Months."""

SEASON = (3, 4)
"""Months between seasons, of the covariance."""

PAIRS, PLACES = 40, 150
"""Pairs of months and places of each that parameters are learned from."""

STEADY = 0.6
"""Of the size of six-hourly wind, the part that its mean over six weeks has (GFS blocks)."""


class Record:
    """The months of the record, and what is left of each in another season."""

    def __init__(self) -> None:
        data = load_wind()
        self.sphere, self.points, self.fields, self.area = tb.manifolds.Sphere(2), data.points, data.ambient, data.area
        self.frames, self.weights = self.sphere.frames(self.points), evenly(cKDTree(self.points), 2)

    def faded(self, mean: np.ndarray, left: tuple[float, float, float] = seasons.LEFT) -> np.ndarray:
        return seasons.faded(mean, self.points, self.frames, self.weights, self.sphere.axis, left)

    def pairs(self, lag: int) -> Iterator[tuple[int, int]]:
        """Months so many months apart, in both orders."""
        for t in range(len(self.fields) - lag):
            yield t, t + lag
            yield t + lag, t


def shares(record: Record) -> list[Row]:
    """Shares of the parts of one month that predict another best, and the errors of these and of all alike."""
    root, rows = np.sqrt(record.area)[:, None], []

    def split(mean: np.ndarray) -> list[np.ndarray]:
        return [record.faded(mean, left) for left in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]

    parts = [np.stack([(root * part).ravel() for part in split(field)]) for field in record.fields]
    whole = [(root * field).ravel() for field in record.fields]
    for lag in LAGS:
        gram = sum(parts[a] @ parts[a].T for a, _ in record.pairs(lag))
        side = sum(parts[a] @ whole[b] for a, b in record.pairs(lag))
        energy = sum(float(whole[b] @ whole[b]) for _, b in record.pairs(lag))
        best, alike = np.linalg.solve(gram, side), side.sum() / gram.sum()
        row = dict(zip(("months", "year", "season", "waves"), (lag, *best), strict=True))
        row |= {"error": 1 - best @ side / energy, "alike": alike, "error alike": 1 - alike * side.sum() / energy}
        rows.append({name: float(value) for name, value in row.items()})
    return rows


def changes(record: Record) -> list[Row]:
    """Parameters of what is not expected, in units of the size of one component of wind at one time."""
    rng, seen = np.random.default_rng(0), []
    size = np.sqrt(np.square(record.fields).sum(axis=2).mean() / 2) / STEADY
    pairs = [pair for lag in SEASON for pair in record.pairs(lag)]
    for number in rng.choice(len(pairs), PAIRS, replace=False):
        past, now = (record.fields[t] / size for t in pairs[number])
        index = rng.choice(len(record.points), PLACES, replace=False, p=record.area)
        frames = record.frames[index]
        mean, missed = (
            torch.from_numpy(np.einsum("nij,ni->nj", frames, x[index])) for x in (past, now - record.faded(past))
        )
        places = Sites(torch.from_numpy(record.points[index]), torch.from_numpy(frames), mean=mean)
        seen.append(Evidence(places, missed.reshape(-1, 1)))
    covariance = seasons.change(record.sphere.axis)
    theta, loss = maximise(covariance, seen, np.array([*covariance.start, NOISE_START]), PRIOR)
    names = (*covariance.names, "noise")
    return [{"parameter": name, "logarithm": float(value)} for name, value in zip(names, theta, strict=True)] + [
        {"parameter": "log density of a component", "logarithm": -loss / (2 * PLACES * PAIRS)}
    ]


def main() -> None:
    record = Record()
    rows = []
    for table in (shares(record), changes(record)):
        print_table(table)
        rows += table
    save("seasons", rows)


if __name__ == "__main__":
    main()
