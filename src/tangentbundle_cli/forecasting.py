"""The command that forecasts: the next fields of a series, and how well that worked before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer

import tangentbundle as tb
from tangentbundle.errors import NO_EXAMPLE, InvalidInputError, Remedy
from tangentbundle.results import Chart, Result, Table

from .files import check_files, naming_rows, read_input, steps, write_output
from .options import GUESSED, SILENT, Dim, Display, Output, Reading, Source, Std
from .plain_words import describe_forecast
from .predict import format_value

WINDOW = 60
"""Recent fields that a forecast starts from, at most."""

MAX_LEADS = 5
"""Lead times in the table of errors."""


def forecast(
    file: Source,
    horizon: Annotated[int, typer.Option(min=1, help="number of steps to forecast")],
    output: Output,
    std: Std = False,
    dim: Dim = None,
    reading: Reading = GUESSED,
    display: Display = SILENT,
) -> Result:
    """Forecast the next fields of a time series.

    A time series is a NetCDF or Zarr file with a time axis, or an NPZ file with vectors (T, n, D).

    Examples:
        tangentbundle forecast series.nc --horizon 20 -o next.nc --std
        tangentbundle forecast series.npz --horizon 5 -o next.npz
    """
    import numpy as np

    result = Result("forecast", "Forecast of the next fields of a time series.")
    check_files([file], output, display)
    with steps(2, display) as step:
        step("reading")
        field = read_input(result, file, reading, display, dim=dim)
        tb.io.check_output(field, output, horizon)
        _check_series(field)
        step("fitting and forecasting")
        estimator = _new_forecaster(field, dim)
        with naming_rows(field):
            future, used = _forecasted(field, estimator, horizon)
    if future.times is not None:
        first, last = future.times[[0, -1]].astype("datetime64[m]")
        result.add("period", f"{first} to {last}".replace("T", " "))
    result.add("training", f"{len(field)} fields; the forecast starts from the last {used}")
    result.add("steps", str(horizon), horizon=horizon)
    assert future.std is not None
    first_std = float(np.sqrt(np.square(future.std[0]).mean()))
    last_std = float(np.sqrt(np.square(future.std[-1]).mean()))
    text = f"{format_value(first_std, field)} at the first step, "
    text += f"{format_value(last_std, field)} at the last"
    result.add("standard deviation", text, first_std=first_std, last_std=last_std)
    _add_skill(result, estimator.skill_[:horizon], field.units)
    describe_forecast(result, field, future, estimator.skill_[:horizon])
    result.future = future if std else replace(future, std=None)
    write_output(result, result.future, output, display, first_std)
    return result


def _new_forecaster(field: tb.io.Field, dim: int | None) -> tb.FieldForecaster:
    """Create a forecaster for the space and the calendar of a field; on the globe it knows which
    way east and the poles are."""
    from tangentbundle.timeline import calendar_period

    manifold = field.space.manifold
    if isinstance(field.space, tb.spaces.Globe):
        manifold = tb.earth.Earth()
    return tb.FieldForecaster(
        dim=dim or field.space.dim,
        manifold=manifold,
        period=calendar_period(field.times),
    )


def _forecasted(field: tb.io.Field, estimator: Any, horizon: int) -> tuple[tb.io.Field, int]:
    """Return the next fields of a series, with standard deviations and dates, and the number of
    recent fields used: the last ones without a gap, at most ``WINDOW``.
    """
    import numpy as np

    from tangentbundle.timeline import regular

    times = field.times
    start = 0
    later = None
    if times is not None:
        line = regular(times)
        start = line.segments()[-1].start
        later = line.after(times[-1], np.arange(1, horizon + 1))
    start = max(start, len(field) - WINDOW)
    estimator.fit(field.space.points, field.vectors, times)
    recent_times = None if times is None else times[start:]
    vectors, std = estimator.predict(field.vectors[start:], horizon, recent_times, return_std=True)
    components = len(field.names)
    if std.shape[-1] != components:  # ambient components to the file's components
        mean_square = np.square(std).sum(axis=-1, keepdims=True) / components
        std = np.sqrt(mean_square).repeat(components, axis=-1)
    future = replace(field.with_vectors(vectors), std=std, times=later)
    return future, len(field) - start


def _check_series(field: tb.io.Field) -> None:
    """Raise if a field is not a time series."""
    for name, axis in field.axes:
        calendar = getattr(axis[0], "calendar", "")
        if calendar:
            raise InvalidInputError(
                f"expected standard dates, but {name} uses the calendar {calendar}.",
                "Convert it first with `cdo setcalendar,standard` or xarray's convert_calendar.",
            )
        if axis.dtype.kind != "M":
            raise InvalidInputError(
                f"expected one time series, but the file has {len(axis)} values along {name}, "
                "which are not dates.",
                Remedy("Choose one with {select}.", select=NO_EXAMPLE),
            )
    if len(field) < 2:
        raise InvalidInputError(
            "a forecast needs a time series of at least 16 fields, but the file has one."
        )


def _add_skill(result: Result, rows: Sequence[Any], units: str) -> None:
    """Show errors of held-out forecasts next to those of persistence and climatology."""
    skill = [row._asdict() for row in rows]
    result.add("skill", _skill_in_words(rows), skill=skill)
    if not rows:
        return
    result.charts.append(
        Chart(
            title="Skill",
            note="Errors at held-out times. A forecast has skill where its error is below that of "
            "the climatology.",
            draw=partial(_draw_skill, skill, units),
        )
    )
    count = min(MAX_LEADS, len(rows))
    body = []
    for number in range(count):
        row = rows[round(number * (len(rows) - 1) / max(1, count - 1))]
        errors = [f"{value:.3g}" for value in row[1:]]
        body.append([str(row.lead), *errors, f"{row.over_climatology:.0%}"])
    result.table = Table(
        title="Forecast errors at held-out times",
        header=["step", "forecast", "persistence", "climatology", "skill"],
        body=body,
        notes="Errors: root mean square length. Skill: 1 - (squared error of the forecast) / (that "
        "of the climatology).",
    )


def _skill_in_words(rows: Sequence[Any]) -> str:
    """How much better than the climatology, and until when."""
    skilful = [row for row in rows if row.over_climatology > 0]
    if not skilful:
        return "no skill beyond climatology at this length of record"
    first = skilful[0]
    text = f"{first.over_climatology:.0%} less squared error than the climatology at step "
    text += str(first.lead)
    if rows[-1].over_climatology <= 0:
        text += f", none from step {rows[-1].lead} on"
    return text


def _draw_skill(skill: Sequence[dict[str, float]], units: str, axes: Any) -> Any:
    return tb.plot.curves.skill(skill, units, axes=axes)
