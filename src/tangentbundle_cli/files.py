"""What commands share: checks of files, reading, progress, messages that name rows of a file."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import tangentbundle as tb
from tangentbundle.console import progress
from tangentbundle.errors import (
    DimensionWarning,
    InvalidInputError,
    Message,
    TangentBundleError,
    TangentBundleWarning,
)
from tangentbundle.files import check_html
from tangentbundle.results import Result

from .options import Display, Reading

EXACT = 1e-6
"""Noise of a smaller share of the vectors is none."""


@contextlib.contextmanager
def steps(total: int, display: Display) -> Iterator[Callable[[str], None]]:
    """Show progress on standard error; call the result with a description at the start of each
    step."""
    numbers = itertools.count(1)
    with progress(total, "step", not display.silent) as show:

        def step(text: str) -> None:
            show(next(numbers), text)

        yield step


def check_files(inputs: list[Path | None], output: Path | None, display: Display) -> None:
    """Raise, before anything is loaded, if an input is missing or an output cannot be written."""
    if output is not None:
        tb.io.check_output(None, output)
    if display.report is not None:
        check_html(display.report)
    for path in inputs:
        if path is None:
            continue
        tb.io.check_input(path)
        if output is not None and path.exists() and output.exists() and path.samefile(output):
            raise InvalidInputError(
                f"{output} is also the input and would be overwritten. Choose another name."
            )


def read_input(
    result: Result,
    path: Path,
    reading: Reading,
    display: Display,
    *,
    dim: int | None = None,
    output: Path | None = None,
    needs_vectors: bool = True,
) -> tb.io.Field:
    """Read the field of a file and describe it in the result; raise if ``dim`` does not fit it, or
    the report or the output cannot be written."""
    field = tb.io.read_field(path, reading.request(needs_vectors=needs_vectors))
    display.check_report()
    tb.io.warn_if_suspicious(field)
    result.source = path
    result.before = field
    result.notes += field.notes
    if dim is not None:
        _check_dim(dim, field, path)
    points, dimensions = field.space.points.shape
    text = f"{path.name}: {field}"
    result.read("read", text, points=points, ambient_dim=dimensions, times=len(field))
    if output is not None:
        tb.io.check_output(field, output)
    return field


def _check_dim(dim: int, field: tb.io.Field, path: Path) -> None:
    """Raise if points do not have this dimension."""
    known = field.space.dim
    ambient = field.space.points.shape[1]
    if known is not None:
        fits = dim == known
        expected = str(known)
    else:
        fits = 1 <= dim <= ambient
        expected = f"from 1 to {ambient}, the dimension of the points"
    if not fits:
        raise InvalidInputError(f"--dim {dim} does not fit {path.name}: expected {expected}.")


@contextlib.contextmanager
def naming_rows(field: tb.io.Field) -> Iterator[None]:
    """Errors and warnings inside this block that are about a point say where it is in the file."""
    few = len(field.space) < tb.io.FEW_POINTS
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as recorded:
            caught = recorded
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", TangentBundleWarning)
            if few:  # said of the file: estimators need not repeat it
                warnings.simplefilter("ignore", DimensionWarning)
            yield
    except TangentBundleError as error:
        _name_row(error, field)
        raise
    finally:
        for warning in caught:
            if isinstance(warning.message, TangentBundleWarning):
                _name_row(warning.message, field)
                warnings.warn(warning.message, stacklevel=1)


def _name_row(message: Message, field: tb.io.Field) -> None:
    """Add to a message where its point lies in the file."""
    point = message.point
    if point is None or not 0 <= point < len(field.space):
        return
    numbers = zip(field.space.names, field.space.coordinates[point], strict=True)
    place = ", ".join(f"{name} {number:.6g}" for name, number in numbers)
    if not isinstance(field.origin, tb.io.GridFile):
        place = f"row {field.row_in_file(point)}, {place}"
    message.place = place


def write_output(
    result: Result, field: tb.io.Field, path: Path, display: Display, noise: float = 0.0
) -> None:
    """Write a field, atomically, and name its file in the result. Tables of text have as many
    decimals as the ``noise`` of the vectors justifies, if there is any, or as the user says."""
    decimals = display.digits
    if decimals is None:
        decimals = sensible_decimals(field, noise)
    with result.writing(path):
        tb.io.write_field(replace(field, decimals=decimals), path)


def sensible_decimals(field: tb.io.Field, noise: float) -> int:
    """Decimals with two digits of the noise; six digits of the longest vector without noise."""
    import numpy as np

    from tangentbundle.io.csv_files import decimals_of

    assert field.values is not None
    longest = float(np.abs(field.values).max())
    if noise > EXACT * longest:
        return decimals_of(noise, 2)
    return decimals_of(longest, 6)
