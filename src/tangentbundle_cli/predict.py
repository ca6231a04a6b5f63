"""Commands that estimate a field: denoise and interpolate."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError, MissingColumnsError, UnitsError
from tangentbundle.results import Result, Table

from .blocks import changed_at, write_in_blocks
from .files import check_files, naming_rows, read_input, steps, write_output
from .options import (
    GUESSED,
    SILENT,
    Dim,
    Display,
    Noise,
    Output,
    Reading,
    Seed,
    Source,
    Std,
    Workers,
)
from .plain_words import Errors, describe_denoised, describe_interpolated, guesses_in_words

FIELDS_AT_ONCE = 8
"""Fields in a block of time. A fit takes seconds, and an interrupted run loses its unfinished
blocks."""

MAX_MODEL_NAME = 60
"""Columns of the names of models on a terminal."""

MAX_MODELS = 5
"""Models in the table of weights."""


def denoise(
    file: Source,
    output: Output,
    noise: Noise = None,
    std: Std = False,
    dim: Dim = None,
    seed: Seed = 0,
    workers: Workers = None,
    reading: Reading = GUESSED,
    display: Display = SILENT,
) -> Result:
    """Remove noise from a field; the noise level and the length scales are estimated from the data.

    Examples:
        tangentbundle denoise field.csv -o clean.csv
        tangentbundle denoise field.csv --vectors ex,ey,ez --std -o clean.parquet
        tangentbundle denoise 'wind_*.nc' -o clean.zarr --workers 2
    """
    result = Result("denoise", "The field after removal of noise.")
    check_files([file], output, display)
    if workers is not None:
        options: dict[str, Any] = {"noise": noise, "std": std, "seed": seed}

        def denoised(ds: Any, names: tuple[str, ...]) -> Any:
            return tb.earth.denoise(ds, **options, vectors=names)

        write_in_blocks(
            result,
            file,
            output,
            denoised,
            plan=options,
            workers=workers,
            reading=reading,
            display=display,
            refused={"dim": dim},
            fields_at_once=FIELDS_AT_ONCE,
        )
        return result
    with steps(1, display) as step:
        step("reading")
        field = read_input(result, file, reading, display, dim=dim, output=output)
    errors = Errors()
    with naming_rows(field):
        estimator = new_estimator(tb.FieldDenoiser, field, dim, seed)
        result.after = predict_each(
            result, estimator, field, field, errors, noise=noise, std=std, display=display
        )
        dimension = estimator.frames_.shape[2]
        result.add("dimension", str(dimension), dimension=dimension)
        _note_if_unchanged(result, field, result.after)
        describe_denoised(result, field, errors, result.data["noise"], noise is not None)
    write_output(result, result.after, output, display, result.data["noise"])
    return result


def _note_if_unchanged(result: Result, before: tb.io.Field, after: tb.io.Field) -> None:
    """Say so if the models give back the data."""
    change = abs(after.vectors - before.vectors).max()
    if change <= 1e-6 * abs(before.vectors).max():
        result.note(
            "the field is unchanged: no model predicts left-out vectors better than the data"
        )


def interpolate(
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
    reading: Reading = GUESSED,
    display: Display = SILENT,
) -> Result:
    """Predict a field at other points, with uncertainty.

    Examples:
        tangentbundle interpolate stations.csv --at grid.csv -o wind.nc --std
        tangentbundle interpolate stations.csv --at grid.nc --history lastmonth.nc -o wind.nc
        tangentbundle interpolate 'wind_*.nc' --at stations.csv -o there.zarr --workers 2
    """
    result = Result("interpolate", "The field predicted at other points.")
    check_files([file, at, history], output, display)
    if workers is not None:
        from tangentbundle.io.datasets import to_dataset

        places = tb.io.read_field(at, tb.io.Request(only_points=True))
        target_dataset = to_dataset(places)

        def predicted(ds: Any, names: tuple[str, ...]) -> Any:
            kriging = tb.earth.Kriging(noise, seed=seed)
            values = tb.earth.interpolate_to(ds, target_dataset, kriging, vectors=names)
            return values if std else values.drop_vars([f"{name}_std" for name in names])

        write_in_blocks(
            result,
            file,
            output,
            predicted,
            plan={
                "noise": noise,
                "std": std,
                "seed": seed,
                "at": str(at),
                "changed at": changed_at(at),
            },
            workers=workers,
            reading=reading,
            display=display,
            refused={"dim": dim, "history": history},
            fields_at_once=FIELDS_AT_ONCE,
        )
        return result
    with steps(3, display) as step:
        step(f"reading {file.name}")
        field = read_input(result, file, reading, display, dim=dim)
        step(f"reading {at.name}")
        target = _read_points(at, reading)
        learned = {}
        if history is not None:
            step(f"reading {history.name}")
            learned = _read_history(result, field, history, reading.others())
    result.read("at", f"{at.name}: {target}", places=len(target.space))
    for note in target.notes:
        result.note(f"{at.name}: {note}")
    tb.io.check_output(replace(target, times=field.times), output, len(field))
    errors = Errors()
    with naming_rows(field):
        estimator = new_estimator(tb.FieldInterpolator, field, dim, seed, **learned)
        result.after = predict_each(
            result, estimator, field, target, errors, noise=noise, std=std, display=display
        )
        guesses = guesses_in_words(estimator, field, target, errors)
        describe_interpolated(result, field, target, errors, guesses)
    if result.after.std is not None:
        mean = float(result.after.std.mean())
        text = f"{format_value(mean, field)} on average"
        result.add("standard deviation", text, mean_std=mean)
    write_output(result, result.after, output, display, result.data["noise"])
    return result


def _read_points(at: Path, reading: Reading) -> tb.io.Field:
    """Read points by the names given for the first file, or by usual names."""
    usual = replace(reading.others(), only_points=True)
    first = reading.request()
    with contextlib.suppress(MissingColumnsError):
        return tb.io.read_field(at, replace(usual, points=first.points, latlon=first.latlon))
    try:
        return tb.io.read_field(at, usual)
    except MissingColumnsError as error:
        raise MissingColumnsError(
            f"{at.name}: {error.problem}", "Name its columns as in the first file."
        ) from error


def _read_history(
    result: Result, field: tb.io.Field, path: Path, request: tb.io.Request
) -> dict[str, Any]:
    """Read past fields as arguments of ``FieldInterpolator``, in the units of the field."""
    from tangentbundle.units import conversion

    history = tb.io.read_field(path, request)
    result.read("history", f"{path.name}: {history}", history=len(history))
    factor = conversion(history.units or field.units, field.units or history.units)
    if factor is None:
        raise UnitsError(
            f"the history has units {history.units!r}, the field {field.units!r}.",
            "Convert one of them.",
        )
    check_same_space(field, history)
    return {"history": factor * history.vectors, "history_points": history.space.points}


def new_estimator(kind: Any, field: tb.io.Field, dim: int | None, seed: int, **learned: Any) -> Any:
    """Create an estimator for the space of a field; on the globe its covariances include bands of
    latitude."""
    if isinstance(field.space, tb.spaces.Globe):
        return kind(manifold=tb.earth.Earth(), random_state=seed, **learned)
    return kind(dim=dim or field.space.dim, random_state=seed, **learned)


def check_same_space(field: tb.io.Field, other: tb.io.Field) -> None:
    """Raise if only one field is on the globe, or if their points have different dimensions."""
    same_kind = type(field.space.manifold) is type(other.space.manifold)
    same_dimension = field.space.points.shape[1] == other.space.points.shape[1]
    if not (same_kind and same_dimension):
        raise InvalidInputError(
            f"files must use the same coordinates, got {field.space} and {other.space}.",
            "Convert one of them.",
        )


def predict_each(
    result: Result,
    estimator: Any,
    field: tb.io.Field,
    target: tb.io.Field,
    errors: Errors,
    *,
    noise: float | None,
    std: bool,
    display: Display = SILENT,
) -> tb.io.Field:
    """Fit to the field of each time, predict at the points of ``target``, and describe the fit in
    the result; add what is known of its errors.

    ``noise`` is a standard deviation; the default is that of the field if known, otherwise it is
    estimated.
    """
    import numpy as np

    check_same_space(field, target)
    count = len(field)
    known = field.noise if noise is None else noise
    means = []
    deviations = []
    levels = []
    if isinstance(field.space, tb.spaces.Globe):
        result.note(
            "latitude and longitude: covariances for a planet, with and without bands of latitude"
        )
    with steps(count, display) as step:
        for number, vectors in enumerate(field.vectors, start=1):
            step(f"comparing models on field {number} of {count}")
            measured = field.measured(number - 1)
            at_measured = known
            if isinstance(known, np.ndarray):
                at_measured = known[measured]
            estimator.fit(field.space.points[measured], vectors[measured], noise_std=at_measured)
            levels.append(float(estimator.noise_))
            errors.add(estimator, field.space.points[measured], vectors[measured])
            if std:
                mean, covariance = estimator.predict(target.space.points, return_cov=True)
                deviations.append(target.space.std_of_components(covariance))
            else:
                mean = estimator.predict(target.space.points)
            means.append(mean)
    level = sum(levels) / count
    _describe_fit(result, estimator, field, level, is_known=known is not None)
    names = field.names if len(field.names) == len(target.names) else target.names
    like_input = replace(
        target,
        names=names,
        units=field.units,
        times=field.times,
        axes=field.axes,
        clock=field.clock,
        wind=field.wind if names == field.names else (),
    )
    return like_input.with_vectors(np.stack(means), std=np.stack(deviations) if std else None)


def _describe_fit(
    result: Result, estimator: Any, field: tb.io.Field, level: float, *, is_known: bool
) -> None:
    """Say what became of the normal component, the noise, and the weights of the models."""
    exact = estimator.manifold is not None
    text = "removed: the manifold is known" if exact else "smoothed: tangent spaces are estimated"
    result.add("normal component", text, normal_removed=exact)
    origin = "given" if is_known else "estimated"
    text = f"{format_value(level, field)} in each component ({origin})"
    result.add("noise", text, noise=level)
    count = len(field)
    add_weights(result, estimator, f" (last of {count} fields)" if count > 1 else "")


def add_weights(result: Result, estimator: Any, which: str = "") -> None:
    """Show the weights of the models."""
    body = []
    for model, weight in zip(estimator.models_, estimator.weights_, strict=True):
        name = model.name
        if len(name) > MAX_MODEL_NAME:
            name = name[: MAX_MODEL_NAME - 3] + "..."
        if weight > 0:
            body.append([name, f"{weight:.0%}"])
    result.table = Table(
        title=f"Models{which}",
        header=["model", "weight"],
        body=body[:MAX_MODELS],
        notes="Weights maximise the log density of vectors that are left out.",
    )
    weights = estimator.weights_.tolist()
    weight_of = {str(model): w for model, w in zip(estimator.models_, weights, strict=True)}
    result.add("model", body[0][0], model=str(estimator.models_[0]), weights=weight_of)


def format_value(value: float, field: tb.io.Field) -> str:
    """Format a number with the units of a field."""
    return f"{value:.4g} {field.units}".rstrip()
