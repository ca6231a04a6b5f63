"""``tangentbundle forecast``: the next fields of a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

import tangentbundle as tb

from .job import Dim, Job, Output, Source, Std, command
from .predict import with_unit

MAX_LOOK_BACK = 60
"""Fields that a forecast starts from: no model looks further back."""


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


def _forecasted(field: tb.io.Field, estimator: Any, horizon: int) -> tuple[tb.io.Field, int]:
    """The next fields of a series, with standard deviations and dates, and how many of the last ones they start from:
    those without a gap, and no more than any model looks back.
    """
    import numpy as np

    if field.axes:
        raise tb.errors.InvalidInputError(
            f"a forecast is of one series, but there are several along {field.axes[0][0]}: select= one."
        )
    if len(field) < 2:
        raise tb.errors.InvalidInputError(
            "a forecast needs a series in time, and this is one field. Give at least two times."
        )
    vectors, times, start, later = field.vectors, field.times, 0, None
    if times is not None:
        line, later = tb.timeline.regular(times), times[-1:]
        start = line.segments()[-1].start
        for _ in range(horizon):
            later = np.append(later, line.next(later[-1:]))
        later = later[1:]
    start = max(start, len(field) - MAX_LOOK_BACK)
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
