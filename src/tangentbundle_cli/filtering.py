"""The command that filters a field: in memory, on disk, or in blocks of times of a grid."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import tangentbundle as tb
from tangentbundle.errors import (
    ConvergenceError,
    InvalidInputError,
    SuspiciousDataWarning,
    TangentBundleError,
    warn,
)
from tangentbundle.extras import extra
from tangentbundle.results import Result

from .blocks import write_in_blocks
from .fields import add_normal_share, build_bundle
from .files import check_files, naming_rows, read_input, steps, write_output
from .options import (
    AUTOMATIC,
    GUESSED,
    NOT_NEGATIVE,
    SILENT,
    Display,
    Geometry,
    Output,
    Reading,
    Source,
)
from .plain_words import describe_filtered

MIN_ENERGY_SHARE = 0.01
"""Share of the energy below which a filter counts as having removed the field."""

TIMES_AT_ONCE = 32
"""Times that are filtered together."""

PARTS_PER_WORKER = 4
"""One part is written while others are computed."""


def filter(
    file: Source,
    output: Output,
    heat: Annotated[
        float | None,
        typer.Option(callback=NOT_NEGATIVE, help="diffusion time, in squared units of the points"),
    ] = None,
    scale: Annotated[
        str, typer.Option(help='wavelength on the globe to damp by half, such as "500 km"')
    ] = "",
    variables: Annotated[
        str, typer.Option(help="variables of a grid to read and write: U,V; default all")
    ] = "",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=(
                "partitions computed at the same time, with the Laplacian on disk, for large clouds"
            ),
        ),
    ] = None,
    geometry: Geometry = AUTOMATIC,
    reading: Reading = GUESSED,
    display: Display = SILENT,
) -> Result:
    """Smooth a field by heat flow or to a scale in km; the normal component is discarded.

    Lengths have the units of the points; for latitude and longitude the radius of the Earth is one.

    Examples:
        tangentbundle filter field.npz --heat 0.1 -o smooth.npz
        tangentbundle filter large.parquet --heat 0.1 -o smooth.parquet --workers 4
        tangentbundle filter 'wind_*.nc' --scale "500 km" -o smooth.zarr --workers 2
    """
    result = Result("filter", "The field after a filter of the connection Laplacian.")
    check_files([file], output, display)
    if (heat is None) == (not scale):
        raise InvalidInputError("expected one filter: --heat TIME, or --scale LENGTH on the globe.")
    if heat is None:
        tb.earth.radians(scale)  # refuses what is not a length

        def smooth(ds: Any, names: tuple[str, ...]) -> Any:
            return tb.earth.smooth(ds, scale, vectors=names)

        write_in_blocks(
            result,
            file,
            output,
            smooth,
            plan={"scale": scale, "variables": variables},
            workers=workers or 1,
            reading=reading,
            display=display,
            refused=geometry.arguments(),
            variables=variables,
        )
        result.add("filter", f"wavelength {scale} damped by half", scale=scale)
        return result
    if variables:
        raise InvalidInputError(
            "--variables needs --scale. Name the components with --vectors instead."
        )
    with steps(4, display) as step:
        step("reading")
        field = read_input(result, file, reading, display, dim=geometry.dim, output=output)
        with naming_rows(field):
            step("building the bundle")
            response = tb.Heat(heat)
            if workers is None:
                bundle = build_bundle(result, field, geometry)
                add_normal_share(result, field, bundle)
                step("filtering")
                apply = partial(response, bundle.laplacian())
                result.after = _filtered(result, field, bundle, response, apply)
            else:
                with _bundle_in_parts(result, field, output, workers, geometry) as bundle:
                    add_normal_share(result, field, bundle)
                    step("filtering")
                    apply = partial(bundle.filter, response)
                    result.after = _filtered(result, field, bundle, response, apply)
        step("writing")
        write_output(result, result.after, output, display)
    return result


def _filtered(
    result: Result,
    field: tb.io.Field,
    bundle: Any,
    response: tb.filters.Filter,
    apply: Callable[[Any], Any],
) -> tb.io.Field:
    """Apply a filter to the field of every time, and describe it in the result. Warns if almost no
    energy remains."""
    import numpy as np

    advice = (
        "The time is a squared length in units of the points. Try "
        f"{bundle.eps:.2g}, which smooths over one neighbourhood."
    )
    vectors = field.vectors.astype(field.space.coordinates.dtype, copy=False)
    smooth = np.empty_like(vectors)
    energy_before = 0.0
    energy_after = 0.0
    for start in range(0, len(vectors), TIMES_AT_ONCE):
        rows = slice(start, start + TIMES_AT_ONCE)
        channels_last = np.ascontiguousarray(vectors[rows].transpose(1, 2, 0))
        signal = bundle.to_coordinates(channels_last)
        try:
            filtered = apply(signal)
        except ConvergenceError as error:
            raise InvalidInputError("--heat is far too long for these points.", advice) from error
        energy_before += np.square(signal).sum()
        energy_after += np.square(filtered).sum()
        ambient = bundle.to_ambient(filtered).reshape(*vectors.shape[1:], -1)
        smooth[rows] = ambient.transpose(2, 0, 1)
    share = float(energy_after / energy_before) if energy_before else 1.0
    if share < MIN_ENERGY_SHARE:
        warn(
            f"only {share:.2g} of the field's energy remains after the filter.",
            SuspiciousDataWarning,
            remedy=advice,
        )
    describe_filtered(result, field, share)
    text = f"{response}; {share:.1%} of the tangent energy remains"
    result.add("filter", text, energy_left=share)
    return field.with_vectors(smooth)


@contextlib.contextmanager
def _bundle_in_parts(
    result: Result, field: tb.io.Field, output: Path, workers: int, geometry: Geometry
) -> Iterator[tb.distributed.DistributedBundle]:
    """Build the bundle in a hidden folder next to the output, from which an interrupted run
    resumes."""
    if not isinstance(field.space, tb.spaces.Cloud):
        raise InvalidInputError(
            "--workers needs a point cloud, without faces or latitude and longitude. Remove "
            "--workers, or convert the file to x, y, z and three vector components first."
        )
    folder = output.absolute().with_name(f".{output.name}.work")
    is_new = not folder.exists()
    points_per_part = -(-len(field.space) // (PARTS_PER_WORKER * workers))
    build = partial(
        tb.distributed.DistributedBundle.from_points,
        field.space.points,
        folder,
        partition=min(tb.distributed.bundle.MAX_PARTITION, points_per_part),
    )
    dask = extra("dask", "Filtering in parts", "cluster")
    try:
        with dask.config.set(scheduler="threads", num_workers=workers):
            bundle = build_bundle(result, field, geometry, build)
            result.add("partitions", str(bundle.num_parts), partitions=bundle.num_parts)
            yield bundle
    except TangentBundleError:
        if is_new:  # nothing to resume; keep the folder of an earlier run
            shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
