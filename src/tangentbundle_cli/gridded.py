"""Winds and currents on grids, block by block along time: ``filter --scale``, and commands with ``--workers``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import tangentbundle as tb

from .job import Job


def write_in_blocks(
    job: Job,
    file: Path,
    output: Path,
    function: Callable[[Any, tuple[str, ...]], Any],
    options: dict[str, Any],
    workers: int,
    fields_at_once: int | None = None,
    refused: Mapping[str, Any] | None = None,
) -> None:
    """Write ``function(dataset, names of its components)``, lazy, for NetCDF or Zarr files of any length.

    What a killed run with the same ``options`` has finished is not computed again. Options ``refused`` must be unset.
    """
    if any(path.suffix not in (".nc", ".nc4", ".zarr") for path in (file, output)):
        raise tb.errors.InvalidInputError(
            "blocks of time go from NetCDF or Zarr to NetCDF or Zarr. Leave out --workers or --scale."
        )
    given = {**job.columns, "report": job.report, **(refused or {})}
    if wrong := [name for name in given if given[name] and name != "vectors"]:
        option = wrong[0].replace("_", "-")
        raise tb.errors.InvalidInputError(
            f"--{option} does not go with --scale and --workers, which read the file in blocks."
        )
    names = [name for name in map(str.strip, options.get("variables", "").split(",")) if name]
    tb.io.datasets.check_header(file, job.request(), names)
    from tangentbundle.earth.blocks import GridFields
    from tangentbundle.earth.series import in_blocks, write_blocks
    from tangentbundle.earth.sources import open_dataset

    with open_dataset(file, chunks={}) as ds:
        tb.io.datasets.check_names([*map(str, ds.variables)], [*map(str, ds.dims)], job.request(), names)
        fields = GridFields.of(ds[names] if names else ds, job.request().vectors)
        blocks, along = in_blocks(fields, fields_at_once)
        times, dims = blocks.sizes.get(along, 1), blocks[fields.names[0]].sizes
        count = prod(size for name, size in dims.items() if name not in fields.grid.dims)
        text = f"{file.name}: {', '.join(fields.names)} on {fields.grid}, {count} fields"
        job.summary.source = file
        job.summary.tell("read", text, points=len(fields.grid), times=times)
        changed = max(path.stat().st_mtime_ns for path in file.parent.glob(file.name))
        plan = {**options, "names": [*fields.names], "times": times, "grid": fields.grid.token, "changed": changed}
        with job.summary.writing(output), tb.console.progress(times, "field", not job.silent) as show:
            result = function(blocks, fields.names)
            write_blocks(result, along, output, plan, workers, lambda done: show(done, job.command))
