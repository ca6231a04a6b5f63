"""Commands that say what was not seen: interpolate, forecast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .job import Dim, Job, Output, Source, command

if TYPE_CHECKING:
    from tangentbundle.io import Field

WINDOW = 60
"""Most recent fields that a forecast starts from."""

Std = Annotated[bool, typer.Option("--std", help="also write the standard deviation of each component")]
Seed = Annotated[int, typer.Option(help="of what is random")]


def known(field: Field, dim: int | None) -> dict[str, Any]:
    """What an estimator may know of a file's space."""
    return {"dim": field.space.dim if dim is None else dim, "manifold": field.space.manifold}


def check_output_early(output: Path, field: Field | None = None) -> None:
    """Refuse an output that cannot be written before the work is done."""
    from tangentbundle.io import check_output

    check_output(field, output)


def at_every_time(
    job: Job, estimator: Any, field: Field, target: Field, noise: float | None, std: bool
) -> tuple[Field, list[float]]:
    """Fit to each field of a file and predict at the points of ``target``; also the noise levels."""
    import numpy as np

    points, places, vectors = field.space.points, target.space.points, field.vectors
    made, spreads, levels = [], [], []
    with job.steps(len(vectors), "field") as step:
        for number, one in enumerate(vectors):
            step(f"field {number + 1}")
            estimator.fit(points, one, noise_std=noise)
            levels.append(float(estimator.noise_))
            if std:
                mean, covariance = estimator.predict(places, return_cov=True)
                spreads.append(target.space.spread(covariance))
            else:
                mean = estimator.predict(places)
            made.append(mean)
            if number == 0 and job.report is not None and target is not field:
                job.summary.fitted = field.with_vectors(estimator.predict(points)[None])
    names = field.names if len(field.names) == len(target.names) else target.names
    result = replace(target, names=names, units=field.units, times=field.times)
    return result.with_vectors(np.stack(made), std=np.stack(spreads) if std else None), levels


@command
def interpolate(
    job: Job,
    file: Source,
    at: Annotated[Path, typer.Option(help="file with the points to predict at; its vectors, if any, are not read")],
    output: Output,
    std: Std = False,
    noise: Annotated[
        float | None, typer.Option(help="known standard deviation of the noise; default estimated")
    ] = None,
    dim: Dim = None,
    seed: Seed = 0,
) -> None:
    """Predict a field at other points, with its uncertainty.

    Examples:
        tangentbundle interpolate stations.csv --at grid.csv -o wind.nc --std
        tangentbundle interpolate stations.csv --at grid.nc -o wind.nc
    """
    from tangentbundle import FieldInterpolator
    from tangentbundle.errors import InvalidInputError
    from tangentbundle.io import read_field

    check_output_early(output)
    field = job.read(file)
    places = read_field(at, job.request(only_points=True, points=(), latlon=(), time=""))
    job.summary.tell("at", f"{at.name}: {places}", places=len(places.space))
    job.summary.notes += [f"{at.name}: {note}" for note in places.notes]
    if (field.space.manifold, field.space.points.shape[1]) != (places.space.manifold, places.space.points.shape[1]):
        raise InvalidInputError(
            f"{file.name} holds {field.space}, but {at.name} {places.space}. Give both in the same coordinates."
        )
    check_output_early(output, places)
    estimator = FieldInterpolator(**known(field, dim), random_state=seed)
    made, levels = at_every_time(job, estimator, field, places, noise, std)
    share = float(estimator.normal_share_)
    job.summary.tell("normal part", f"{share:.1%} of the vectors' energy, left out", normal_share=share)
    level = sum(levels) / len(levels)
    unit = f" {field.units}" if field.units else ""
    job.summary.tell("noise", f"{level:.4g}{unit} in each component ({'given' if noise else 'estimated'})", noise=level)
    if made.std is not None:
        typical = float(made.std.mean())
        job.summary.tell("standard deviation", f"{typical:.4g}{unit} on average", mean_std=typical)
    job.write(made, output)


@command
def forecast(
    job: Job,
    file: Source,
    horizon: Annotated[int, typer.Option(min=1, help="steps ahead")],
    output: Output,
    std: Std = False,
    dim: Dim = None,
    seed: Seed = 0,
) -> None:
    """Predict the next fields of a series in time.

    A series is a NetCDF or Zarr file with a time axis, a table with a row for each time and place, or an NPZ file with
    vectors (T, n, D).

    Examples:
        tangentbundle forecast series.nc --horizon 20 -o next.nc --std
        tangentbundle forecast series.csv --time day --horizon 5 -o next.csv
    """
    import numpy as np

    from tangentbundle import FieldForecaster
    from tangentbundle.datasets.timeline import regular
    from tangentbundle.errors import InvalidInputError

    check_output_early(output)
    field = job.read(file)
    check_output_early(output, replace(field, values=np.zeros((horizon, len(field.space), len(field.names)))))
    if len(field) < 2:
        raise InvalidInputError(f"a forecast needs a series in time; {file.name} holds one field.")
    vectors, times = field.vectors, field.times
    last = slice(0, len(vectors)) if times is None else regular(times).segments()[-1]
    recent = slice(max(last.start, len(vectors) - WINDOW), len(vectors))
    with job.steps(2) as step:
        step("learning")
        estimator = FieldForecaster(**known(field, dim), random_state=seed).fit(field.space.points, vectors, times)
        step("forecasting")
        told = None if times is None else times[recent]
        future, spread = estimator.predict(vectors[recent], horizon, told, return_std=True)
    later = None
    if times is not None:
        line, ahead = regular(times), [times[-1:]]
        for _ in range(horizon):
            ahead.append(line.next(ahead[-1]))
        later = np.concatenate(ahead[1:])
        job.summary.tell("from, to", f"{later[0].astype('datetime64[m]')}, {later[-1].astype('datetime64[m]')}")
    job.summary.tell("learned from", f"{len(vectors)} fields, started from the last {len(vectors[recent])}")
    job.summary.tell("steps", str(horizon), horizon=horizon)
    spreads = np.stack([_component_spread(field, one) for one in spread]) if std else None
    unit = f" {field.units}" if field.units else ""
    first, final = (float(np.sqrt(np.square(spread[k]).mean())) for k in (0, -1))
    text = f"{first:.3g}{unit} at the first step, {final:.3g}{unit} at the last"
    job.summary.tell("standard deviation", text, first_std=first, last_std=final)
    job.write(replace(field.with_vectors(future), std=spreads, times=later), output)


def _component_spread(field: Field, std: Any) -> Any:
    """Standard deviations of the file's components, from those of ambient ones that are alike in all directions."""
    import numpy as np

    if std.shape[1] == len(field.names):
        return std
    level = np.sqrt(np.square(std).sum(axis=1) / len(field.names))
    return np.repeat(level[:, None], len(field.names), axis=1)
