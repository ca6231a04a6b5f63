"""Commands that estimate a field: denoise, interpolate, forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import tangentbundle as tb

from .job import Dim, Job, Noise, Output, Seed, Source, Std, Workers, command, write_in_blocks

FIELDS_AT_ONCE = 8
"""Fields in a block of time: a fit takes seconds, and a killed run loses the blocks that are not finished."""


def new_estimator(kind: Any, field: tb.io.Field, dim: int | None, seed: int, **learned: Any) -> Any:
    """An estimator that knows the space of a field: on the globe also covariances with bands of latitude."""
    from tangentbundle.earth.covariances import planetary_model

    if isinstance(field.space, tb.io.Globe):
        return planetary_model(kind, seed).set_params(**learned)
    return kind(dim=dim or field.space.dim, random_state=seed, **learned)


def check_same_space(field: tb.io.Field, other: tb.io.Field) -> None:
    """Refuse fields of which one is on the globe, or whose points have different dimensions."""
    a, b = field.space, other.space
    if (type(a.manifold), a.points.shape[1]) != (type(b.manifold), b.points.shape[1]):
        raise tb.errors.InvalidInputError(f"one holds {a}, the other {b}. Give both in the same coordinates.")


def predict_each(
    job: Job, estimator: Any, field: tb.io.Field, target: tb.io.Field, noise: float | None, std: bool
) -> tb.io.Field:
    """Fit to the field of each time, predict at the points of ``target``, and describe the fit in the summary.

    ``noise`` is a standard error; by default errors are those of the field, or estimated.
    """
    import numpy as np

    check_same_space(field, target)
    count, known = len(field), field.noise if noise is None else noise
    means, spreads, levels = [], [], []
    if estimator.covariance is not None:
        job.summary.notes.append("latitude and longitude: covariances of a planet, with bands of latitude and without")
    with job.steps(count) as step:
        for number, vectors in enumerate(field.vectors, start=1):
            step(f"comparing models on field {number} of {count}")
            estimator.fit(field.space.points, vectors, noise_std=known)
            levels.append(float(estimator.noise_))
            found = estimator.predict(target.space.points, return_cov=std)
            means.append(found[0] if std else found)
            spreads += [target.space.spread(found[1])] if std else []
    exact = estimator.manifold is not None
    text = "removed: the manifold is known" if exact else "smoothed: tangent spaces are estimated"
    job.summary.tell("normal part", text, normal_removed=exact)
    level, origin = sum(levels) / count, "estimated" if known is None else "given"
    job.summary.tell("noise", f"{with_unit(level, field)} in each component ({origin})", noise=level)
    print_scores(job, estimator, f" (last of {count} fields)" if count > 1 else "")
    names = field.names if len(field.names) == len(target.names) else target.names
    result = replace(target, names=names, units=field.units, times=field.times, axes=field.axes)
    return result.with_vectors(np.stack(means), std=np.stack(spreads) if std else None)


def print_scores(job: Job, estimator: Any, which: str = "", most: int = 5) -> None:
    """Name the model that answered, and show the best ``most`` of those compared, on the screen and in the report."""
    rows = estimator.scores_
    header = ["model", "score", "margin", "standard error", "noise", "time"]
    body = []
    for row in rows[:most]:
        scores = [f"{value:.2f}" for value in (row.score, row.margin, row.margin_error)]
        cost = [f"{row.noise * estimator.scale_:.3g}", f"{row.seconds:.2f} s"]
        body.append([tb.io.summary.short_name(row.model), *scores, *cost])
    others = f" {len(rows) - most} more have lower scores." if len(rows) > most else ""
    notes = f"Score: mean log density of a vector that is predicted from all others.{others}"
    job.show(tb.io.Table(f"Models compared{which}", header, body, notes))
    job.summary.tell("model", body[0][0], model=rows[0].model, scores={row.model: row.score for row in rows})


def with_unit(value: float, field: tb.io.Field) -> str:
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
        said: Any = {"noise": noise, "std": std, "seed": seed}

        def clean(ds: Any, names: tuple[str, ...]) -> Any:
            return tb.earth.denoise(ds, **said, vectors=names)

        write_in_blocks(job, file, output, clean, said, workers, FIELDS_AT_ONCE, {"dim": dim})
        return
    with job.steps(1) as step:
        step("reading")
        field = job.read(file, output)
    estimator = new_estimator(tb.FieldDenoiser, field, dim, seed)
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
    if workers is not None:
        target = tb.io.datasets.to_dataset(tb.io.read_field(at, tb.io.Request(only_points=True)))

        def predict(ds: Any, names: tuple[str, ...]) -> Any:
            found = tb.earth.interpolate_to(ds, target, tb.earth.Kriging(noise, seed=seed), vectors=names)
            return found if std else found.drop_vars([f"{name}_std" for name in names])

        plan = {"noise": noise, "std": std, "seed": seed, "at": str(at), "changed at": at.stat().st_mtime_ns}
        write_in_blocks(job, file, output, predict, plan, workers, FIELDS_AT_ONCE, {"dim": dim, "history": history})
        return
    with job.steps(3) as step:
        step(f"reading {file.name}")
        field = job.read(file)
        step(f"reading {at.name}")
        others = tb.io.Request(drop_missing=job.columns["drop_missing"], drop_duplicates=job.columns["drop_duplicates"])
        places = tb.io.read_field(at, replace(others, only_points=True))  # options name columns of the first file only
        learned = {}
        if history is not None:
            step(f"reading {history.name}")
            learned = _learn_from(job, field, history, others)
    job.summary.tell("at", f"{at.name}: {places}", places=len(places.space))
    job.summary.notes += [f"{at.name}: {note}" for note in places.notes]
    tb.io.check_output(places, output, len(field))
    estimator = new_estimator(tb.FieldInterpolator, field, dim, seed, **learned)
    result = predict_each(job, estimator, field, places, noise, std)
    if result.std is not None:
        typical = float(result.std.mean())
        job.summary.tell("standard deviation", f"{with_unit(typical, field)} on average", mean_std=typical)
    job.write(result, output)


def _learn_from(job: Job, field: tb.io.Field, path: Path, request: tb.io.Request) -> dict[str, Any]:
    """Past fields as ``FieldInterpolator`` takes them, in the units of the field."""
    history = tb.io.read_field(path, request)
    job.summary.tell("history", f"{path.name}: {history}", history=len(history))
    factor = tb.units.conversion(history.units or field.units, field.units or history.units)
    if factor is None:
        raise tb.errors.UnitsError(
            f"the history is in {history.units!r}, the field in {field.units!r}. Convert one of them."
        )
    check_same_space(field, history)
    return {"history": factor * history.vectors, "history_points": history.space.points}


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

    with job.steps(2) as step:
        step("reading")
        field = job.read(file)
        tb.io.check_output(field, output, horizon)
        step("learning and forecasting")
        options = {"dim": dim or field.space.dim, "manifold": field.space.manifold}
        estimator = tb.FieldForecaster(**options, period=tb.timeline.calendar_period(field.times))
        result, used = _forecasted(field, estimator, horizon)
    tell = job.summary.tell
    if result.times is not None:
        tell("from, to", ", ".join(map(str, result.times[[0, -1]].astype("datetime64[m]"))))
    tell("learned from", f"{len(field)} fields, started from the last {used}")
    tell("steps", str(horizon), horizon=horizon)
    assert result.std is not None
    near, far = (float(np.sqrt(np.square(result.std[k]).mean())) for k in (0, -1))
    text = f"{with_unit(near, field)} at the first step, {with_unit(far, field)} at the last"
    tell("standard deviation", text, first_std=near, last_std=far)
    print_skill(job, estimator.skill_[:horizon])
    job.write(result if std else replace(result, std=None), output)


def _forecasted(field: tb.io.Field, estimator: Any, horizon: int, most: int = 60) -> tuple[tb.io.Field, int]:
    """The next fields of a series, with standard deviations and dates, and how many of the last ones they start from:
    those without a gap; no model looks further back than ``most``.
    """
    import numpy as np

    for name, axis in field.axes:
        if calendar := getattr(axis[0], "calendar", ""):
            raise tb.errors.InvalidInputError(
                f"{name} is in the calendar {calendar}; a forecast takes standard dates. "
                "Convert it first, with `cdo setcalendar,standard` or xarray's convert_calendar."
            )
        if axis.dtype.kind != "M":
            raise tb.errors.InvalidInputError(
                f"a forecast is of one series in time, but there are {len(axis)} along {name}, which are no dates: "
                "select= one."
            )
    if len(field) < 2:
        raise tb.errors.InvalidInputError("a forecast needs a series, and this is one field. Give at least two times.")
    vectors, times, start, later = field.vectors, field.times, 0, None
    if times is not None:
        line, later = tb.timeline.regular(times), times[-1:]
        start = line.segments()[-1].start
        for _ in range(horizon):
            later = np.append(later, line.next(later[-1:]))
        later = later[1:]
    start = max(start, len(field) - most)
    estimator.fit(field.space.points, vectors, times)
    future, std = estimator.predict(vectors[start:], horizon, None if times is None else times[start:], return_std=True)
    result, components = field.with_vectors(future), len(field.names)
    if std.shape[-1] != components:  # of ambient components, alike in all directions
        std = np.sqrt(np.square(std).sum(axis=-1, keepdims=True) / components).repeat(components, axis=-1)
    return replace(result, std=std, times=later), len(field) - start


def print_skill(job: Job, rows: Sequence[Any], most: int = 5) -> None:
    """Show errors of held-out forecasts next to those of persistence and of the climatology."""
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
    job.show(tb.io.Table("Errors of forecasts of held-out times", header, body, notes))
