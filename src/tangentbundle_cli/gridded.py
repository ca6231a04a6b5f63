"""``tangentbundle filter --scale``: winds and currents on grids, block by block along time."""

from __future__ import annotations

from pathlib import Path

from .job import Job


def smooth_in_blocks(
    job: Job, file: Path, output: Path, scale: str, variables: str, workers: int, overwrite: bool
) -> None:
    """Smooth the vectors of NetCDF or Zarr files; what a killed run has finished is not computed again."""
    from tangentbundle.console import progress
    from tangentbundle.earth import smooth
    from tangentbundle.earth.blocks import GridFields
    from tangentbundle.earth.series import in_blocks, write_blocks
    from tangentbundle.earth.sources import open_dataset
    from tangentbundle.errors import InvalidInputError, MissingColumnsError
    from tangentbundle.io import check_output

    check_output(None, output, overwrite=overwrite)
    if any(path.suffix not in (".nc", ".nc4", ".zarr") for path in (file, output)) or job.report:
        raise InvalidInputError("--scale goes from NetCDF or Zarr to NetCDF or Zarr, without --report. Use --heat.")
    with open_dataset(file, chunks={}) as ds:
        names = [name for name in map(str.strip, variables.split(",")) if name]
        if missing := [name for name in names if name not in ds.data_vars]:
            raise MissingColumnsError(f"no variable {missing[0]}; there are {', '.join(map(str, ds.data_vars))}.")
        fields = GridFields.of(ds[names] if names else ds, job.request().vectors)
        blocks, along = in_blocks(fields)
        times = blocks.sizes.get(along, 1)
        text = f"{file.name}: {', '.join(fields.names)} on {fields.grid}, {times} fields"
        job.summary.source = file
        job.summary.tell("read", text, points=len(fields.grid), times=times)
        job.summary.tell("filter", f"wavelengths of {scale} damped by half", scale=scale)
        plan = {"command": job.line, "times": times, "grid": fields.grid.token}
        with job.summary.writing(output), progress(times, "field", not job.silent) as show:
            result = smooth(blocks, scale, vectors=fields.names)
            write_blocks(result, along, output, plan, workers, lambda done: show(done, "smoothing"))
