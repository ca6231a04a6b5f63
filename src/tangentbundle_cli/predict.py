"""Commands that estimate a field: denoise, interpolate, forecast."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import tangentbundle as tb

from .job import Job, changed_at, command, write_in_blocks
from .options import Dim, Noise, Output, Seed, Source, Std, Workers

FIELDS_AT_ONCE = 8
"""Fields in a block of time. A fit takes seconds, and an interrupted run loses its unfinished
blocks."""


def new_estimator(kind: Any, field: tb.io.Field, dim: int | None, seed: int, **learned: Any) -> Any:
    """Create an estimator for the space of a field; on the globe its covariances include bands of
    latitude."""
    from tangentbundle.earth.covariances import Earth

    if isinstance(field.space, tb.io.Globe):
        return kind(manifold=Earth(), random_state=seed, **learned)
    return kind(dim=dim or field.space.dim, random_state=seed, **learned)


def check_same_space(field: tb.io.Field, other: tb.io.Field) -> None:
    """Raise if only one field is on the globe, or if their points have different dimensions."""
    a, b = field.space, other.space
    if (type(a.manifold), a.points.shape[1]) != (type(b.manifold), b.points.shape[1]):
        raise tb.errors.InvalidInputError(
            f"files must use the same coordinates, got {a} and {b}. Convert one of them."
        )


def predict_each(
    job: Job,
    estimator: Any,
    field: tb.io.Field,
    target: tb.io.Field,
    noise: float | None,
    std: bool,
) -> tb.io.Field:
    """Fit to the field of each time, predict at the points of ``target``, and describe the fit in
    the summary.

    ``noise`` is a standard deviation; the default is that of the field if known, otherwise it is
    estimated.
    """
    import numpy as np

    check_same_space(field, target)
    count, known = len(field), field.noise if noise is None else noise
    means, spreads, levels = [], [], []
    if isinstance(field.space, tb.io.Globe):
        job.summary.notes.append(
            "latitude and longitude: covariances for a planet, with and without bands of latitude"
        )
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
    job.summary.add("normal component", text, normal_removed=exact)
    level, origin = sum(levels) / count, "estimated" if known is None else "given"
    job.summary.add(
        "noise", f"{format_value(level, field)} in each component ({origin})", noise=level
    )
    add_weights(job, estimator, f" (last of {count} fields)" if count > 1 else "")
    names = field.names if len(field.names) == len(target.names) else target.names
    wind = field.wind if names == field.names else ()
    result = replace(
        target, names=names, units=field.units, times=field.times, axes=field.axes, wind=wind
    )
    return result.with_vectors(np.stack(means), std=np.stack(spreads) if std else None)


def add_weights(job: Job, estimator: Any, which: str = "", max_rows: int = 5) -> None:
    """Show the weights of the models, on the screen and in the report."""
    names = [tb.io.summary.short_name(str(model)) for model in estimator.models_]
    weights = [float(weight) for weight in estimator.weights_]
    body = [
        [name, f"{weight:.0%}"] for name, weight in zip(names, weights, strict=True) if weight > 0
    ]
    notes = "Weights maximise the log density of vectors that are left out."
    job.show(tb.io.Table(f"Models{which}", ["model", "weight"], body[:max_rows], notes))
    job.summary.add(
        "model",
        body[0][0],
        model=str(estimator.models_[0]),
        weights={
            str(model): weight for model, weight in zip(estimator.models_, weights, strict=True)
        },
    )


def format_value(value: float, field: tb.io.Field) -> str:
    """Format a number with the units of a field."""
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
    """Remove noise from a field; the noise level and the length scales are estimated from the data.

    Examples:
        tangentbundle denoise field.csv -o clean.csv
        tangentbundle denoise field.csv --vectors ex,ey,ez --std -o clean.parquet
        tangentbundle denoise 'wind_*.nc' -o clean.zarr --workers 2
    """
    if workers is not None:
        options: Any = {"noise": noise, "std": std, "seed": seed}

        def clean(ds: Any, names: tuple[str, ...]) -> Any:
            return tb.earth.denoise(ds, **options, vectors=names)

        write_in_blocks(job, file, output, clean, options, workers, {"dim": dim}, FIELDS_AT_ONCE)
        return
    with job.steps(1) as step:
        step("reading")
        field = job.read(file, output)
    estimator = new_estimator(tb.FieldDenoiser, field, dim, seed)
    result = predict_each(job, estimator, field, field, noise, std)
    dimension = estimator.frames_.shape[2]
    job.summary.add("dimension", str(dimension), dimension=dimension)
    if abs(result.vectors - field.vectors).max() <= 1e-6 * abs(field.vectors).max():
        job.summary.notes.append(
            "the field is unchanged: no model predicts left-out vectors better than the data"
        )
    job.write(result, output)


@command
def interpolate(
    job: Job,
    file: Source,
    at: Annotated[
        Path, typer.Option(help="file with the points to predict at; vectors in it are ignored")
    ],
    output: Output,
    history: Annotated[
        Path | None, typer.Option(help="file with past fields to learn from, at any points")
    ] = None,
    std: Std = False,
    noise: Noise = None,
    dim: Dim = None,
    seed: Seed = 0,
    workers: Workers = None,
) -> None:
    """Predict a field at other points, with uncertainty.

    Examples:
        tangentbundle interpolate stations.csv --at grid.csv -o wind.nc --std
        tangentbundle interpolate stations.csv --at grid.nc --history lastmonth.nc -o wind.nc
        tangentbundle interpolate 'wind_*.nc' --at stations.csv -o there.zarr --workers 2
    """
    if workers is not None:
        target = tb.io.datasets.to_dataset(tb.io.read_field(at, tb.io.Request(only_points=True)))

        def predict(ds: Any, names: tuple[str, ...]) -> Any:
            found = tb.earth.interpolate_to(
                ds, target, tb.earth.Kriging(noise, seed=seed), vectors=names
            )
            return found if std else found.drop_vars([f"{name}_std" for name in names])

        plan = {
            "noise": noise,
            "std": std,
            "seed": seed,
            "at": str(at),
            "changed at": changed_at(at),
        }
        write_in_blocks(
            job,
            file,
            output,
            predict,
            plan,
            workers,
            {"dim": dim, "history": history},
            FIELDS_AT_ONCE,
        )
        return
    with job.steps(3) as step:
        step(f"reading {file.name}")
        field = job.read(file)
        step(f"reading {at.name}")
        others = tb.io.Request(
            drop_missing=job.columns["drop_missing"], drop_duplicates=job.columns["drop_duplicates"]
        )
        target = _read_points(at, job.request(), others)
        learned = {}
        if history is not None:
            step(f"reading {history.name}")
            learned = _learn_from(job, field, history, others)
    job.summary.add("at", f"{at.name}: {target}", places=len(target.space))
    job.summary.notes += [f"{at.name}: {note}" for note in target.notes]
    tb.io.check_output(target, output, len(field))
    estimator = new_estimator(tb.FieldInterpolator, field, dim, seed, **learned)
    result = predict_each(job, estimator, field, target, noise, std)
    if result.std is not None:
        typical = float(result.std.mean())
        job.summary.add(
            "standard deviation", f"{format_value(typical, field)} on average", mean_std=typical
        )
    job.write(result, output)


def _read_points(at: Path, asked: tb.io.Request, others: tb.io.Request) -> tb.io.Field:
    """Read points by the names given for the first file, or by usual names."""
    request = replace(others, only_points=True)
    with contextlib.suppress(tb.errors.MissingColumnsError):
        return tb.io.read_field(at, replace(request, points=asked.points, latlon=asked.latlon))
    try:
        return tb.io.read_field(at, request)
    except tb.errors.MissingColumnsError as error:
        problem = str(error).partition(" Name them")[0]
        raise type(error)(f"{at.name}: {problem} Name its columns as in the first file.") from error


def _learn_from(job: Job, field: tb.io.Field, path: Path, request: tb.io.Request) -> dict[str, Any]:
    """Read past fields as arguments of ``FieldInterpolator``, in the units of the field."""
    history = tb.io.read_field(path, request)
    job.summary.add("history", f"{path.name}: {history}", history=len(history))
    factor = tb.units.conversion(history.units or field.units, field.units or history.units)
    if factor is None:
        raise tb.errors.UnitsError(
            f"the history has units {history.units!r}, the field {field.units!r}. Convert one of "
            "them."
        )
    check_same_space(field, history)
    return {"history": factor * history.vectors, "history_points": history.space.points}


@command
def forecast(
    job: Job,
    file: Source,
    horizon: Annotated[int, typer.Option(min=1, help="number of steps to forecast")],
    output: Output,
    std: Std = False,
    dim: Dim = None,
) -> None:
    """Forecast the next fields of a time series.

    A time series is a NetCDF or Zarr file with a time axis, or an NPZ file with vectors (T, n, D).

    Examples:
        tangentbundle forecast series.nc --horizon 20 -o next.nc --std
        tangentbundle forecast series.npz --horizon 5 -o next.npz
    """
    import numpy as np

    with job.steps(2) as step:
        step("reading")
        field = job.read(file)
        tb.io.check_output(field, output, horizon)
        _check_series(field)
        step("fitting and forecasting")
        options = {"dim": dim or field.space.dim, "manifold": field.space.manifold}
        estimator = tb.FieldForecaster(**options, period=tb.timeline.calendar_period(field.times))
        result, used = _forecasted(field, estimator, horizon)
    add = job.summary.add
    if result.times is not None:
        add("period", " to ".join(map(str, result.times[[0, -1]].astype("datetime64[m]"))))
    add("training", f"{len(field)} fields; the forecast starts from the last {used}")
    add("steps", str(horizon), horizon=horizon)
    assert result.std is not None
    near, far = (float(np.sqrt(np.square(result.std[k]).mean())) for k in (0, -1))
    text = f"{format_value(near, field)} at the first step, {format_value(far, field)} at the last"
    add("standard deviation", text, first_std=near, last_std=far)
    add_skill(job, estimator.skill_[:horizon])
    job.write(result if std else replace(result, std=None), output)


def _forecasted(
    field: tb.io.Field, estimator: Any, horizon: int, window: int = 60
) -> tuple[tb.io.Field, int]:
    """Return the next fields of a series, with standard deviations and dates, and the number of
    recent fields used: the last ones without a gap, at most ``window``.
    """
    import numpy as np

    vectors, times, start, later = field.vectors, field.times, 0, None
    if times is not None:
        line = tb.timeline.regular(times)
        start, later = line.segments()[-1].start, line.after(times[-1], np.arange(1, horizon + 1))
    start = max(start, len(field) - window)
    estimator.fit(field.space.points, vectors, times)
    future, std = estimator.predict(
        vectors[start:], horizon, None if times is None else times[start:], return_std=True
    )
    result, components = field.with_vectors(future), len(field.names)
    if std.shape[-1] != components:  # ambient components to the file's components
        std = np.sqrt(np.square(std).sum(axis=-1, keepdims=True) / components).repeat(
            components, axis=-1
        )
    return replace(result, std=std, times=later), len(field) - start


def _check_series(field: tb.io.Field) -> None:
    """Raise if a field is not a time series."""
    for name, axis in field.axes:
        if calendar := getattr(axis[0], "calendar", ""):
            raise tb.errors.InvalidInputError(
                f"expected standard dates, but {name} uses the calendar {calendar}. "
                "Convert it first with `cdo setcalendar,standard` or xarray's convert_calendar."
            )
        if axis.dtype.kind != "M":
            raise tb.errors.InvalidInputError(
                f"expected one time series, but the file has {len(axis)} values along {name}, "
                "which are not dates. Choose one with select=."
            )
    if len(field) < 2:
        raise tb.errors.InvalidInputError(
            "a forecast needs a time series of at least 16 fields, but the file has one."
        )


def add_skill(job: Job, rows: Sequence[Any], max_rows: int = 5) -> None:
    """Show errors of held-out forecasts next to those of persistence and climatology."""
    good = [row for row in rows if row.over_climatology > 0]
    text = "no skill beyond climatology at this length of record"
    if good:
        text = (
            f"{good[0].over_climatology:.0%} less squared error than the climatology at step "
            f"{good[0].lead}"
        )
        text += f", none from step {rows[-1].lead} on" if rows[-1].over_climatology <= 0 else ""
    job.summary.add("skill", text, skill=[row._asdict() for row in rows])
    if not rows:
        return
    count = min(max_rows, len(rows))
    shown = [rows[round(k * (len(rows) - 1) / max(1, count - 1))] for k in range(count)]
    body = [
        [str(row.lead), *(f"{value:.3g}" for value in row[1:]), f"{row.over_climatology:.0%}"]
        for row in shown
    ]
    header = ["step", "forecast", "persistence", "climatology", "skill"]
    notes = (
        "Errors: root mean square length. Skill: 1 - (squared error of the forecast) / (that "
        "of the climatology)."
    )
    job.show(tb.io.Table("Forecast errors at held-out times", header, body, notes))
