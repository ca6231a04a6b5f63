"""Commands that say what was not seen: interpolate, forecast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .job import Dim, Job, Output, Overwrite, Source, command

if TYPE_CHECKING:
    from tangentbundle.io import Field

Std = Annotated[bool, typer.Option("--std", help="also write the standard deviation of each component")]
Seed = Annotated[int, typer.Option(help="of what is random")]


def at_every_time(
    job: Job, estimator: Any, field: Field, target: Field, noise: float | None, std: bool
) -> tuple[Field, list[float]]:
    """Fit to each field of a file and predict at the points of ``target``; also the noise levels."""
    from tangentbundle.io.actions import predicted

    with job.steps(len(field), "field") as step:
        step("field 1")

        def fitted(number: int) -> None:
            if number == 0 and job.report is not None and target is not field:
                job.summary.fitted = field.with_vectors(estimator.predict(field.space.points)[None])
            step(f"field {min(number + 2, len(field))}")

        return predicted(estimator, field, target, noise=noise, std=std, fitted=fitted)


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
    overwrite: Overwrite = False,
) -> None:
    """Predict a field at other points, with its uncertainty.

    Examples:
        tangentbundle interpolate stations.csv --at grid.csv -o wind.nc --std
        tangentbundle interpolate stations.csv --at grid.nc -o wind.nc
    """
    from tangentbundle import FieldInterpolator
    from tangentbundle.errors import InvalidInputError
    from tangentbundle.io import check_output, read_field
    from tangentbundle.io.actions import known

    check_output(None, output, overwrite=overwrite)
    with job.steps(2) as step:
        step(f"reading {file.name}")
        field = job.read(file)
        step(f"reading {at.name}")
        places = read_field(at, job.request(only_points=True, points=(), latlon=(), time=""))
    job.summary.tell("at", f"{at.name}: {places}", places=len(places.space))
    job.summary.notes += [f"{at.name}: {note}" for note in places.notes]
    if (field.space.manifold, field.space.points.shape[1]) != (places.space.manifold, places.space.points.shape[1]):
        raise InvalidInputError(
            f"{file.name} holds {field.space}, but {at.name} {places.space}. Give both in the same coordinates."
        )
    check_output(places, output, overwrite=overwrite)
    estimator = FieldInterpolator(**known(field, dim), random_state=seed)
    made, levels = at_every_time(job, estimator, field, places, noise, std)
    tell_normal_part(job, estimator)
    level = sum(levels) / len(levels)
    unit = f" {field.units}" if field.units else ""
    job.summary.tell("noise", f"{level:.4g}{unit} in each component ({'given' if noise else 'estimated'})", noise=level)
    if made.std is not None:
        typical = float(made.std.mean())
        job.summary.tell("standard deviation", f"{typical:.4g}{unit} on average", mean_std=typical)
    job.write(made, output, overwrite=overwrite)


def tell_normal_part(job: Job, estimator: Any) -> None:
    share, kept = max(0.0, float(estimator.normal_share_)), not estimator.tangent_
    what = "smoothed and kept: planes are estimated" if kept else "left out"
    job.summary.tell("normal part", f"{share:.1%} of the vectors' energy, {what}", normal_share=share, normal_kept=kept)


@command
def forecast(
    job: Job,
    file: Source,
    horizon: Annotated[int, typer.Option(min=1, help="steps ahead")],
    output: Output,
    std: Std = False,
    dim: Dim = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
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
    from tangentbundle.datasets.timeline import calendar_period
    from tangentbundle.errors import InvalidInputError
    from tangentbundle.io import check_output
    from tangentbundle.io.actions import forecasted, known, recent_fields

    check_output(None, output, overwrite=overwrite)
    with job.steps(3) as step:
        step("reading")
        field = job.read(file)
        shape = (horizon, len(field.space), len(field.names))
        check_output(replace(field, values=np.zeros(shape)), output, overwrite=overwrite)
        if len(field) < 2:
            raise InvalidInputError(f"a forecast needs a series in time; {file.name} holds one field.")
        step("learning")
        estimator = FieldForecaster(**known(field, dim), period=calendar_period(field.times), random_state=seed)
        made = forecasted(field, estimator, horizon, lambda: step("forecasting"))
    if made.times is not None:
        first, last = made.times[[0, -1]].astype("datetime64[m]")
        job.summary.tell("from, to", f"{first}, {last}")
    recent = recent_fields(field)
    job.summary.tell("learned from", f"{len(field)} fields, started from the last {recent.stop - recent.start}")
    job.summary.tell("steps", str(horizon), horizon=horizon)
    assert made.std is not None
    unit = f" {field.units}" if field.units else ""
    near, far = (float(np.sqrt(np.square(made.std[k]).mean())) for k in (0, -1))
    text = f"{near:.3g}{unit} at the first step, {far:.3g}{unit} at the last"
    job.summary.tell("standard deviation", text, first_std=near, last_std=far)
    job.write(made if std else replace(made, std=None), output, overwrite=overwrite)
