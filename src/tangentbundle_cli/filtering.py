"""``tangentbundle filter``: in memory, or for files larger than memory in blocks of times or parts of a cloud."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .fields import build_bundle, given, tell_filter
from .job import Dim, Eps, Job, Neighbors, Output, Source, command

if TYPE_CHECKING:
    from tangentbundle.filters import Filter


@command
def filter(
    job: Job,
    file: Source,
    output: Output,
    heat: Annotated[float | None, typer.Option(min=0, help="time of heat flow, in squared units of the points")] = None,
    tikhonov: Annotated[float | None, typer.Option(min=0, help="strength a of the smoother 1 / (1 + a lambda)")] = None,
    scale: Annotated[str, typer.Option(help='wavelength on the globe that is damped by half, such as "500 km"')] = "",
    variables: Annotated[str, typer.Option(help="variables of a grid to read and write: U,V; default all")] = "",
    dim: Dim = None,
    neighbors: Neighbors = None,
    eps: Eps = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="parts that are computed at the same time: for files larger than memory")
    ] = None,
) -> None:
    """Filter a field with a function of the connection Laplacian; its normal part is left out.

    Lengths are those of the points; for latitude and longitude, the Earth's radius is one.

    Examples:
        tangentbundle filter field.npz --heat 0.1 -o smooth.npz
        tangentbundle filter large.parquet --heat 0.1 -o smooth.parquet --workers 4
        tangentbundle filter 'wind_*.nc' --scale "500 km" -o smooth.zarr --workers 2
    """
    from tangentbundle.errors import InvalidInputError
    from tangentbundle.io import check_output

    if [heat is None, tikhonov is None, not scale].count(False) != 1:
        raise InvalidInputError("give one filter: --heat TIME, --tikhonov STRENGTH, or --scale LENGTH on the globe.")
    check_output(None, output)
    options = given(dim=dim, neighbors=neighbors, eps=eps)

    def chosen() -> Filter:
        from tangentbundle.filters import Heat, Tikhonov  # slow to load: the file is read before

        return Heat(heat) if heat is not None else Tikhonov(tikhonov)

    if scale:
        if options or job.report:
            raise InvalidInputError("--scale works on cells: leave out --dim, --neighbors, --eps and --report.")
        _smooth_in_blocks(job, file, output, scale, variables, workers or 1)
    elif variables:
        raise InvalidInputError("--variables goes with --scale. Choose components with --vectors.")
    elif workers is not None:
        from .parts import filter_in_parts

        filter_in_parts(job, file, output, chosen, workers, options)
    else:
        _filter_in_memory(job, file, output, chosen, options)


def _filter_in_memory(
    job: Job, file: Path, output: Path, chosen: Callable[[], Filter], options: dict[str, Any]
) -> None:
    with job.steps(4) as step:
        step("reading")
        field = job.read(file, output)
        step("building the bundle")
        from tangentbundle.diagnostics import normal_share
        from tangentbundle.io.actions import filtered

        bundle, response = build_bundle(job, field, options), chosen()
        share = normal_share(bundle, field.vectors)
        step("filtering")
        result, left = filtered(field, bundle, response)
        tell_filter(job, response, share, left)
        step("writing")
        job.write(result, output)


def _smooth_in_blocks(job: Job, file: Path, output: Path, scale: str, variables: str, workers: int) -> None:
    """Smooth the vectors of NetCDF or Zarr files; what a killed run has finished is not computed again."""
    from tangentbundle.errors import InvalidInputError
    from tangentbundle.io.datasets import check_header, check_names

    if any(path.suffix not in (".nc", ".nc4", ".zarr") for path in (file, output)):
        raise InvalidInputError("--scale goes from NetCDF or Zarr to NetCDF or Zarr. Use --heat for other files.")
    names = [name for name in map(str.strip, variables.split(",")) if name]
    check_header(file, job.request(), {"variables": names})
    from tangentbundle.console import progress
    from tangentbundle.earth import smooth
    from tangentbundle.earth.blocks import GridFields
    from tangentbundle.earth.series import in_blocks, write_blocks
    from tangentbundle.earth.sources import open_dataset

    with open_dataset(file, chunks={}) as ds:
        check_names([*map(str, ds.variables)], [*map(str, ds.dims)], job.request(), {"variables": names})
        fields = GridFields.of(ds[names] if names else ds, job.request().vectors)
        blocks, along = in_blocks(fields)
        times = blocks.sizes.get(along, 1)
        text = f"{file.name}: {', '.join(fields.names)} on {fields.grid}, {times} fields"
        job.summary.source = file
        job.summary.tell("read", text, points=len(fields.grid), times=times)
        job.summary.tell("filter", f"wavelengths of {scale} damped by half", scale=scale)
        changed = max(path.stat().st_mtime_ns for path in file.parent.glob(file.name))
        plan = {"scale": scale, "variables": names, "times": times, "grid": fields.grid.token, "changed": changed}
        with job.summary.writing(output), progress(times, "field", not job.silent) as show:
            result = smooth(blocks, scale, vectors=fields.names)
            write_blocks(result, along, output, plan, workers, lambda done: show(done, "smoothing"))
