"""Commands that estimate a field: denoise, interpolate, forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .job import Dim, Job, Noise, Output, Seed, Source, Std, Workers, command

if TYPE_CHECKING:
    from tangentbundle.io import Field

FIELDS_AT_ONCE = 8
"""Fields in a block of time: a fit takes seconds, and a killed run loses the blocks that are not finished."""


def predict_each(job: Job, estimator: Any, field: Field, target: Field, noise: float | None, std: bool) -> Field:
    """Fit to the field of each time, predict at the points of ``target``, and describe the fit in the summary."""
    from tangentbundle.io.actions import predicted

    count = len(field)
    if estimator.covariance is not None:
        job.summary.notes.append("latitude and longitude: covariances of a planet, with bands of latitude and without")
    with job.steps(count) as step:

        def started(number: int) -> None:
            step(f"comparing models on field {number + 1} of {count}")

        result, levels = predicted(estimator, field, target, noise=noise, std=std, started=started)
    exact = estimator.manifold is not None
    text = "removed: the manifold is known" if exact else "smoothed: tangent spaces are estimated"
    job.summary.tell("normal part", text, normal_removed=exact)
    level = float(sum(levels) / len(levels))
    origin = "estimated" if noise is None and field.noise is None else "given"
    job.summary.tell("noise", f"{_with_unit(level, field)} in each component ({origin})", noise=level)
    print_scores(job, estimator, f" (last of {len(field)} fields)" if len(field) > 1 else "")
    return result


def print_scores(job: Job, estimator: Any, which: str = "", most: int = 5) -> None:
    """Name the model that answered, and show the best ``most`` of those compared, on the screen and in the report."""
    from tangentbundle.io.summary import Table, short_name

    rows = estimator.scores_
    header = ["model", "score", "margin", "standard error", "noise", "time"]
    body = [
        [
            short_name(row.model),
            *(f"{value:.2f}" for value in (row.score, row.margin, row.margin_error)),
            f"{row.noise * estimator.scale_:.3g}",
            f"{row.seconds:.2f} s",
        ]
        for row in rows[:most]
    ]
    others = f" {len(rows) - most} more have lower scores." if len(rows) > most else ""
    notes = f"Score: mean log density of a vector that is predicted from all others.{others}"
    job.show(Table(f"Models compared{which}", header, body, notes))
    job.summary.tell("model", body[0][0], model=rows[0].model, scores={row.model: row.score for row in rows})


def print_skill(job: Job, rows: Sequence[Any], most: int = 5) -> None:
    """Show errors of held-out forecasts next to those of persistence and of the climatology."""
    from tangentbundle.io.summary import Table

    good = [row for row in rows if row.over_climatology > 0]
    text = "no skill beyond climatology at this length of record"
    if good:
        text = f"{good[0].over_climatology:.0%} less squared error than the climatology at step {good[0].lead}"
        text += f", none from step {rows[-1].lead}" if rows[-1].over_climatology <= 0 else ""
    job.summary.tell("skill", text, skill=[row._asdict() for row in rows])
    if not rows:
        return
    shown = [rows[round(k * (len(rows) - 1) / max(1, min(most, len(rows)) - 1))] for k in range(min(most, len(rows)))]
    body = [[str(row.lead), *(f"{value:.3g}" for value in row[1:]), f"{row.over_climatology:.0%}"] for row in shown]
    header = ["step", "forecast", "persistence", "climatology", "skill"]
    notes = "Errors: root mean square length. Skill: one minus the ratio of squared errors, forecast to climatology."
    job.show(Table("Errors of forecasts of held-out times", header, body, notes))


def _with_unit(value: float, field: Field) -> str:
    return f"{value:.4g} {field.units}".rstrip()


@command
def denoise(
    job: Job,
    file: Source,
    output: Output,
    noise: Noise = None,
    std: Std = False,
    dim: Dim = None,
    seed: Seed = 0,
    workers: Workers = None,
) -> None:
    """Remove noise from a field: its level and the field's own scales are estimated from the data.

    Examples:
        tangentbundle denoise field.csv -o clean.csv
        tangentbundle denoise field.csv --vectors ex,ey,ez --std -o clean.parquet
        tangentbundle denoise 'wind_*.nc' -o clean.zarr --workers 2
    """
    if workers is not None:
        from tangentbundle import earth

        from .gridded import write_in_blocks

        said: Any = {"noise": noise, "std": std, "seed": seed}

        def clean(ds: Any, names: tuple[str, ...]) -> Any:
            return earth.denoise(ds, **said, vectors=names)

        write_in_blocks(job, file, output, clean, said, workers, FIELDS_AT_ONCE, {"dim": dim})
        return
    with job.steps(1) as step:
        step("reading")
        field = job.read(file, output)
    from tangentbundle import FieldDenoiser
    from tangentbundle.io.actions import assumed

    estimator = FieldDenoiser(**assumed(field, dim), random_state=seed)
    result = predict_each(job, estimator, field, field, noise, std)
    dimension = estimator.frames_.shape[2]
    job.summary.tell("dimension", str(dimension), dimension=dimension)
    if abs(result.vectors - field.vectors).max() <= 1e-6 * abs(field.vectors).max():
        job.summary.notes.append("the field is unchanged: its detail is finer than its noise, and no filter helps")
    job.write(result, output)


@command
def interpolate(
    job: Job,
    file: Source,
    at: Annotated[Path, typer.Option(help="file with the points to predict at; its vectors, if any, are not read")],
    output: Output,
    history: Annotated[Path | None, typer.Option(help="file with past fields, at any places, to learn from")] = None,
    std: Std = False,
    noise: Noise = None,
    dim: Dim = None,
    seed: Seed = 0,
    workers: Workers = None,
) -> None:
    """Predict a field at other points, with its uncertainty.

    Examples:
        tangentbundle interpolate stations.csv --at grid.csv -o wind.nc --std
        tangentbundle interpolate stations.csv --at grid.nc --history lastmonth.nc -o wind.nc
        tangentbundle interpolate 'wind_*.nc' --at stations.csv -o there.zarr --workers 2
    """
    import numpy as np

    from tangentbundle.io import Request, check_output, read_field

    check_output(None, output)
    if workers is not None:
        said: Any = {"noise": noise, "std": std, "seed": seed}
        _interpolate_in_blocks(job, file, at, output, said, workers, {"dim": dim, "history": history})
        return
    with job.steps(3) as step:
        step(f"reading {file.name}")
        field = job.read(file)
        step(f"reading {at.name}")
        others = Request(drop_missing=job.columns["drop_missing"], drop_duplicates=job.columns["drop_duplicates"])
        places = read_field(at, replace(others, only_points=True))  # options name columns of the first file only
        before = None
        if history is not None:
            step(f"reading {history.name}")
            before = read_field(history, others)
            job.summary.tell("history", f"{history.name}: {before}", history=len(before))
    from tangentbundle import FieldInterpolator
    from tangentbundle.io.actions import assumed, past

    job.summary.tell("at", f"{at.name}: {places}", places=len(places.space))
    job.summary.notes += [f"{at.name}: {note}" for note in places.notes]
    shape = (len(field), len(places.space), len(places.names))
    check_output(replace(places, values=np.zeros(shape)), output)
    learned = {} if before is None else past(field, before)
    estimator = FieldInterpolator(**assumed(field, dim), **learned, random_state=seed)
    result = predict_each(job, estimator, field, places, noise, std)
    if result.std is not None:
        typical = float(result.std.mean())
        job.summary.tell("standard deviation", f"{_with_unit(typical, field)} on average", mean_std=typical)
    job.write(result, output)


def _interpolate_in_blocks(
    job: Job, file: Path, at: Path, output: Path, said: dict[str, Any], workers: int, refused: dict[str, Any]
) -> None:
    """Predict blocks of time of a grid that may be larger than memory; ``said`` are noise, std and seed."""
    from tangentbundle.earth import interpolate_to
    from tangentbundle.earth.regrid import Kriging
    from tangentbundle.io import Request, read_field
    from tangentbundle.io.grids import to_dataset

    from .gridded import write_in_blocks

    target = to_dataset(read_field(at, Request(only_points=True)))

    def predict(ds: Any, names: tuple[str, ...]) -> Any:
        found = interpolate_to(ds, target, Kriging(said["noise"], seed=said["seed"]), vectors=names)
        return found if said["std"] else found.drop_vars([f"{name}_std" for name in names])

    plan = {**said, "at": str(at), "changed at": at.stat().st_mtime_ns}
    write_in_blocks(job, file, output, predict, plan, workers, FIELDS_AT_ONCE, refused)


@command
def forecast(
    job: Job,
    file: Source,
    horizon: Annotated[int, typer.Option(min=1, help="steps ahead")],
    output: Output,
    std: Std = False,
    dim: Dim = None,
) -> None:
    """Predict the next fields of a series in time.

    A series is a NetCDF or Zarr file with a time axis, or an NPZ file with vectors (T, n, D).

    Examples:
        tangentbundle forecast series.nc --horizon 20 -o next.nc --std
        tangentbundle forecast series.npz --horizon 5 -o next.npz
    """
    import numpy as np

    from tangentbundle.io import check_output

    check_output(None, output)
    with job.steps(2) as step:
        step("reading")
        field = job.read(file)
        from tangentbundle import FieldForecaster
        from tangentbundle.io.actions import forecasted, known, recent_fields
        from tangentbundle.timeline import calendar_period

        shape = (horizon, len(field.space), len(field.names))
        check_output(replace(field, values=np.zeros(shape)), output)
        step("learning and forecasting")
        estimator = FieldForecaster(**known(field, dim), period=calendar_period(field.times))
        result = forecasted(field, estimator, horizon)
    tell, recent = job.summary.tell, recent_fields(field)
    if result.times is not None:
        tell("from, to", ", ".join(map(str, result.times[[0, -1]].astype("datetime64[m]"))))
    tell("learned from", f"{len(field)} fields, started from the last {recent.stop - recent.start}")
    tell("steps", str(horizon), horizon=horizon)
    assert result.std is not None
    near, far = (float(np.sqrt(np.square(result.std[k]).mean())) for k in (0, -1))
    text = f"{_with_unit(near, field)} at the first step, {_with_unit(far, field)} at the last"
    tell("standard deviation", text, first_std=near, last_std=far)
    print_skill(job, estimator.skill_[:horizon])
    job.write(result if std else replace(result, std=None), output)
