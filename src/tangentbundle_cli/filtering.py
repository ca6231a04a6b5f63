"""``tangentbundle filter``: in memory, with the Laplacian on disk, or in blocks of times of a grid."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .fields import build_bundle, given
from .job import Dim, Eps, Job, Neighbors, Output, Source, command

if TYPE_CHECKING:
    from tangentbundle.distributed import DistributedBundle
    from tangentbundle.io import Field

MAX_PARTITION = 500_000
"""Points of a partition, which needs a few hundred MB."""


@command
def filter(
    job: Job,
    file: Source,
    output: Output,
    heat: Annotated[float | None, typer.Option(min=0, help="time of heat flow, in squared units of the points")] = None,
    scale: Annotated[str, typer.Option(help='wavelength on the globe that is damped by half, such as "500 km"')] = "",
    variables: Annotated[str, typer.Option(help="variables of a grid to read and write: U,V; default all")] = "",
    dim: Dim = None,
    neighbors: Neighbors = None,
    eps: Eps = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="parts that are computed at the same time, with the Laplacian on disk: for large clouds"
        ),
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

    options = given(dim=dim, neighbors=neighbors, eps=eps)
    if (heat is None) == (not scale):
        raise InvalidInputError("give one filter: --heat TIME, or --scale LENGTH on the globe.")
    if heat is not None:
        if variables:
            raise InvalidInputError("--variables goes with --scale. Choose components with --vectors.")
        _heat_flow(job, file, output, heat, workers, options)
        return
    if options:
        raise InvalidInputError("--scale works on cells: leave out --dim, --neighbors and --eps.")
    from .gridded import write_in_blocks

    def smoothed(ds: Any, names: tuple[str, ...]) -> Any:
        from tangentbundle.earth import smooth

        return smooth(ds, scale, vectors=names)

    write_in_blocks(job, file, output, smoothed, {"scale": scale, "variables": variables}, workers or 1)
    job.summary.tell("filter", f"wavelengths of {scale} damped by half", scale=scale)


def _heat_flow(job: Job, file: Path, output: Path, time: float, workers: int | None, options: dict[str, Any]) -> None:
    """Filter points in space, or cells without blocks: in memory, or with the Laplacian on disk for ``workers``."""
    with job.steps(4) as step:
        step("reading")
        field = job.read(file, output)
        step("building the bundle")
        import numpy as np

        from tangentbundle import Heat
        from tangentbundle.diagnostics import normal_share
        from tangentbundle.io.actions import filtered

        response = Heat(time)
        with contextlib.ExitStack() as stack:
            bundle: Any
            if workers is None:
                bundle = build_bundle(job, field, options)
                apply: Callable[[Any], Any] = partial(response, bundle.laplacian())
            else:
                bundle = stack.enter_context(_in_parts(job, field, output, workers, options))
                apply = partial(bundle.filter, response)
            share = normal_share(bundle, np.ascontiguousarray(field.vectors.transpose(1, 2, 0)))
            step("filtering")
            result, left = filtered(field, bundle, apply)
            job.summary.tell("normal part", f"{share:.1%} of the vectors' energy, left out", normal_share=share)
            job.summary.tell("filter", f"{response}; {left:.1%} of the tangent energy is left", energy_left=left)
            step("writing")
            job.write(result, output)


@contextlib.contextmanager
def _in_parts(
    job: Job, field: Field, output: Path, workers: int, options: dict[str, Any]
) -> Iterator[DistributedBundle]:
    """The bundle in a hidden folder next to the output, where a run after an interruption finds what is built."""
    from tangentbundle.distributed import DistributedBundle
    from tangentbundle.errors import InvalidInputError, TangentBundleError
    from tangentbundle.extras import extra
    from tangentbundle.io import Cloud

    if type(field.space) is not Cloud:
        raise InvalidInputError(
            "--workers estimates tangent spaces from points in space: it takes no latitude and longitude or faces. "
            "Leave it out, or write x, y, z and the vectors' three components first."
        )
    work = output.absolute().with_name(f".{output.name}.work")
    fresh, size = not work.exists(), min(MAX_PARTITION, -(-len(field.space) // workers))
    dask = extra("dask", "Filtering in parts", "cluster")
    try:
        with dask.config.set(scheduler="threads", num_workers=workers):
            build = partial(DistributedBundle.from_points, field.space.points, work, partition=size)
            bundle = build_bundle(job, field, options, build)
            job.summary.tell("partitions", str(bundle.num_parts), partitions=bundle.num_parts)
            yield bundle
    except TangentBundleError:
        if fresh:  # there is nothing to go on with; another run's folder stays
            shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)
