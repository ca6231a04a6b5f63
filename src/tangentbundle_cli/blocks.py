"""Grids of any length: read, computed and written block by block along time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import tangentbundle as tb
from tangentbundle.console import progress
from tangentbundle.errors import InvalidInputError
from tangentbundle.results import Result

from .options import Display, Reading

Function = Callable[[Any, tuple[str, ...]], Any]
"""A lazy result of a dataset and the names of its components."""


def write_in_blocks(
    result: Result,
    file: Path,
    output: Path,
    function: Function,
    *,
    plan: dict[str, Any],
    workers: int,
    reading: Reading,
    display: Display,
    refused: Mapping[str, Any],
    variables: str = "",
    fields_at_once: int | None = None,
) -> None:
    """Write what a function computes from NetCDF or Zarr files of any length.

    A run with the same ``plan`` resumes an interrupted one. Raises if any of the options
    ``refused`` is set, or one that needs the whole file.
    """
    _check_options(file, output, reading, display, refused)
    request = reading.request()
    names = [name.strip() for name in variables.split(",")]
    names = [name for name in names if name]
    from tangentbundle.io.dataset_files import check_header
    from tangentbundle.io.datasets import check_names

    check_header(file, request, names)
    from tangentbundle.earth.gridfields import GridFields
    from tangentbundle.earth.series import in_blocks, write_blocks
    from tangentbundle.earth.sources import open_dataset
    from tangentbundle.earth.xarrays import without_components

    with open_dataset(file, chunks={}) as ds:
        all_names = [str(name) for name in ds.variables]
        dimensions = [str(name) for name in ds.dims]
        check_names(all_names, dimensions, request, names)
        fields = GridFields.of(ds[names] if names else ds, request.vectors)
        blocks, along = in_blocks(fields, fields_at_once)
        times = blocks.sizes.get(along, 1)
        _describe(result, file, blocks, fields, times)
        with (
            result.writing(output),
            progress(times, "field", not display.silent) as show,
        ):
            computed = function(blocks, fields.names)
            if fields.wind:
                computed = without_components(computed, ds, fields.wind)
            source = {
                "names": [*fields.names],
                "times": times,
                "grid": fields.grid.token,
                "changed": changed_at(file),
            }

            def report_progress(done: int) -> None:
                show(done, result.command)

            write_blocks(computed, along, output, plan | source, workers, report_progress)


def _check_options(
    file: Path, output: Path, reading: Reading, display: Display, refused: Mapping[str, Any]
) -> None:
    """Raise if a file is not a dataset, or an option is set that needs the whole file."""
    for path in (file, output):
        if not tb.io.format_of(path).holds_datasets:
            raise InvalidInputError(
                "--workers and --scale need NetCDF or Zarr as input and output. Remove them, or "
                "convert the file."
            )
    options = {
        "points": reading.points,
        "latlon": reading.latlon,
        "wind": reading.wind,
        "sigma": reading.sigma,
        "drop-missing": reading.drop_missing,
        "drop-duplicates": reading.drop_duplicates,
        "select": reading.select,
        "up": reading.up,
        "report": display.report,
        "figure": display.figure,
        **refused,
    }
    for name, value in options.items():
        if value:
            raise InvalidInputError(
                f"--{name} cannot be combined with --scale or --workers, which read the file in "
                "blocks. Remove one."
            )


def _describe(result: Result, file: Path, blocks: Any, fields: Any, times: int) -> None:
    """Say what was read."""
    sizes = blocks[fields.names[0]].sizes
    count = prod(size for name, size in sizes.items() if name not in fields.grid.dims)
    text = f"{', '.join(fields.names)} on {fields.grid}, {count} field"
    if count != 1:
        text += "s"
    result.source = file
    result.read("read", f"{file.name}: {text}", points=len(fields.grid), times=times)


def changed_at(path: Path) -> int:
    """When the files of a path or pattern were last changed."""
    return max(file.stat().st_mtime_ns for file in path.parent.glob(path.name))
