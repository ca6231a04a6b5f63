"""``tangentbundle filter``: in memory, or part by part where the Laplacian is larger than memory."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .fields import build_bundle
from .job import Dim, Eps, Job, Neighbors, Output, Overwrite, Source, command

if TYPE_CHECKING:
    from tangentbundle.distributed import DistributedBundle
    from tangentbundle.filters import Filter
    from tangentbundle.io import Field

MAX_PARTITION = 500_000
"""Points of a partition, which needs a few hundred MB."""


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
        int | None,
        typer.Option(
            min=1, help="parts that are computed at the same time, with the Laplacian on disk: for large clouds"
        ),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="the same on a Dask scheduler's workers, tcp://...")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Filter a field with a function of the connection Laplacian; its normal part is left out.

    Lengths are those of the points; for latitude and longitude, the Earth's radius is one.

    Examples:
        tangentbundle filter field.npz --heat 0.1 -o smooth.npz
        tangentbundle filter large.parquet --heat 0.1 -o smooth.parquet --workers 4
        tangentbundle filter 'wind_*.nc' --scale "500 km" -o smooth.zarr --workers 2
    """
    from tangentbundle.errors import InvalidInputError

    if [heat is None, tikhonov is None, not scale].count(False) != 1:
        raise InvalidInputError("give one filter: --heat TIME, --tikhonov STRENGTH, or --scale LENGTH on the globe.")
    options = {"dim": dim, "neighbors": neighbors, "eps": eps}
    if scale:
        from .gridded import smooth_in_blocks

        if cluster or any(options.values()):
            raise InvalidInputError("--scale works on cells: leave out --dim, --neighbors, --eps and --cluster.")
        smooth_in_blocks(job, file, output, scale, variables, workers or 1, overwrite)
    elif workers is None and cluster is None:
        _filter_in_memory(job, file, output, heat, tikhonov, overwrite, **options)
    else:
        _filter_in_parts(job, file, output, heat, tikhonov, machines(workers, cluster), overwrite, **options)


def chosen_filter(heat: float | None, tikhonov: float | None) -> Filter:
    """The filter of the options."""
    from tangentbundle import Heat, Tikhonov

    return Heat(heat) if heat is not None else Tikhonov(tikhonov)


def tell_filter(job: Job, heat: float | None, tikhonov: float | None, share: float, left: float) -> None:
    """Describe what a filter leaves out and what is left."""
    name = f"Tikhonov smoothing of strength {tikhonov:g}" if heat is None else f"heat flow for a time of {heat:g}"
    job.summary.tell("normal part", f"{share:.1%} of the vectors' energy, left out", normal_share=share)
    job.summary.tell("filter", f"{name}; {left:.1%} of the tangent energy is left", energy_left=left)


def _filter_in_memory(
    job: Job, file: Path, output: Path, heat: float | None, tikhonov: float | None, overwrite: bool, **scale: Any
) -> None:
    with job.steps(4) as step:
        step("reading")
        field = job.read(file, output, overwrite=overwrite)
        step("building the bundle")
        from tangentbundle.diagnostics import normal_share
        from tangentbundle.io.actions import filtered

        job.summary.filter = chosen_filter(heat, tikhonov)
        bundle = build_bundle(job, field, **scale)
        share = normal_share(bundle, field.vectors)
        step("filtering")
        result, left = filtered(field, bundle, partial(job.summary.filter, bundle.laplacian()))
        tell_filter(job, heat, tikhonov, share, left)
        step("writing")
        job.write(result, output, overwrite=overwrite)


def _filter_in_parts(
    job: Job,
    file: Path,
    output: Path,
    heat: float | None,
    tikhonov: float | None,
    where: contextlib.AbstractContextManager[int],
    overwrite: bool,
    **scale: Any,
) -> None:
    """The same with the operator in a hidden folder next to the output; a run after an interruption uses it again."""
    import numpy as np

    from tangentbundle.diagnostics import normal_share
    from tangentbundle.errors import TangentBundleError
    from tangentbundle.io.actions import filtered

    work = output.absolute().with_name(f".{output.name}.work")
    fresh = not work.exists()
    try:
        with job.steps(4) as step, where as workers:
            step("reading")
            field = job.read(file, output, overwrite=overwrite)
            step("building the bundle in parts")
            bundle = bundle_in_parts(job, field, work, workers, **scale)
            share = normal_share(bundle, np.ascontiguousarray(field.vectors.transpose(1, 2, 0)))
            step("filtering in parts")
            result, left = filtered(field, bundle, partial(bundle.filter, chosen_filter(heat, tikhonov)))
            tell_filter(job, heat, tikhonov, share, left)
            step("writing")
            job.write(result, output, overwrite=overwrite)
    except TangentBundleError:
        if fresh:  # there is nothing to go on with; another run's folder stays
            shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def machines(workers: int | None, cluster: str | None) -> Iterator[int]:
    """Tasks run on the workers of a cluster, or on so many threads of this machine; their number."""
    from tangentbundle.distributed.tasks import extra
    from tangentbundle.errors import InvalidInputError

    if cluster is None:
        with extra("dask").config.set(scheduler="threads", num_workers=workers):
            yield workers or 1
        return
    if workers is not None:
        raise InvalidInputError("give --workers, for this machine, or --cluster, not both.")
    try:
        client = extra("distributed").Client(cluster, timeout=20)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"no Dask scheduler answers at {cluster}. Start one: dask scheduler.") from error
    with client:
        yield max(1, len(client.nthreads()))


def bundle_in_parts(
    job: Job, field: Field, work: Path, workers: int, dim: int | None, neighbors: int | None, eps: float | None
) -> DistributedBundle:
    """The bundle of a file's points with its operator in a folder, described in the summary."""
    from tangentbundle.distributed import DistributedBundle
    from tangentbundle.errors import InvalidInputError
    from tangentbundle.geometry.scale import affordable_neighbors
    from tangentbundle.io import Cloud

    n, tell = len(field.space), job.summary.tell
    if type(field.space) is not Cloud or field.space.normals is not None:
        raise InvalidInputError(
            "--workers and --cluster estimate tangent spaces from points in space: they take no latitude and "
            "longitude, normals or faces. Leave them out, or write x, y, z and the vectors' three components first."
        )
    if neighbors is None and eps is None and (few := affordable_neighbors(n)):
        neighbors = few
        job.summary.notes.append(f"{few} neighbours are used, to save memory; see --neighbors")
    size = min(MAX_PARTITION, -(-n // workers))
    points, scale = field.space.points, {"dim": dim, "neighbors": neighbors, "eps": eps}
    bundle = DistributedBundle.from_points(points, work, partition=size, **scale)  # type: ignore[arg-type]
    tell("dimension", f"{bundle.dim} in R^{bundle.ambient_dim} (frames estimated)", dimension=bundle.dim)
    near = bundle.edges / n
    tell("scale", f"eps {bundle.eps:.4g}, radius {bundle.eps**0.5:.4g}, {near:.0f} neighbours", eps=bundle.eps)
    tell("partitions", str(bundle.num_parts), partitions=bundle.num_parts)
    return bundle
