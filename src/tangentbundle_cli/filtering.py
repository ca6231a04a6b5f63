"""``tangentbundle filter``: in memory, or part by part for fields larger than memory."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .fields import build_bundle
from .job import Dim, Eps, Job, Neighbors, Output, Overwrite, Source, command

if TYPE_CHECKING:
    from tangentbundle.distributed import DistributedBundle
    from tangentbundle.filters import Filter
    from tangentbundle.io.names import Columns

ROWS_AT_ONCE = 2**18
"""Rows of the file that are in memory while results are written."""
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
        int | None, typer.Option(min=1, help="parts that are computed at the same time: for files larger than memory")
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
        from tangentbundle.earth import smooth

        from .gridded import write_in_blocks

        if cluster or any(options.values()):
            raise InvalidInputError("--scale works on cells: leave out --dim, --neighbors, --eps and --cluster.")
        job.summary.tell("filter", f"wavelengths of {scale} damped by half", scale=scale)
        said = {"scale": scale, "variables": variables}
        write_in_blocks(
            job,
            file,
            output,
            lambda ds, u: smooth(ds, scale, vectors=u),
            said,
            workers=workers or 1,
            overwrite=overwrite,
        )
    elif workers is None and cluster is None:
        _filter_in_memory(job, file, output, heat, tikhonov, overwrite, **options)
    else:
        filter_in_parts(job, file, output, heat, tikhonov, machines(workers, cluster), overwrite, **options)


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
        result, left = filtered(field, bundle, job.summary.filter)
        tell_filter(job, heat, tikhonov, share, left)
        step("writing")
        job.write(result, output, overwrite=overwrite)


def filter_in_parts(
    job: Job,
    file: Path,
    output: Path,
    heat: float | None,
    tikhonov: float | None,
    where: contextlib.AbstractContextManager[int],
    overwrite: bool,
    **scale: Any,
) -> None:
    """Filter a file part by part. The bundle is built in a hidden folder next to the output; a second run uses it."""
    from tangentbundle.errors import InvalidInputError, TangentBundleError
    from tangentbundle.io import check_output
    from tangentbundle.io.actions import warn_if_nothing_left

    given = {**job.columns, "report": job.report}
    if refused := [name for name in given if given[name] and name not in ("points", "vectors", "max_points")]:
        option = refused[0].replace("_", "-")
        raise InvalidInputError(f"--{option} does not go with --workers and --cluster, which read the file in parts.")
    if output.suffix != file.suffix:
        raise InvalidInputError(f"--workers and --cluster write the format that they read, {file.suffix}; change -o.")
    check_output(None, output, overwrite=overwrite)  # refused before any work
    work = output.absolute().with_name(f".{output.name}.work")
    fresh = not work.exists()
    try:
        with job.steps(3) as step, where as workers:
            step("building the bundle in parts")
            options = {name: value for name, value in scale.items() if value is not None}
            bundle, columns = bundle_of(job, file, work, options, workers)
            _tell(job, file, bundle)
            step("filtering in parts")
            response, result = chosen_filter(heat, tikhonov), work / "result.zarr"
            total, tangent = bundle.energies()
            bundle.filter(response, result, overwrite=True)
            step("writing")
            with job.summary.writing(output):
                left = write_like(file, columns.vectors, result, output, overwrite) / (tangent or 1.0)
                warn_if_nothing_left(left, bundle.eps)
                tell_filter(job, heat, tikhonov, 1 - tangent / (total or 1.0), left)
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


def bundle_of(
    job: Job, file: Path, work: Path, scale: dict[str, Any], workers: int = 1
) -> tuple[DistributedBundle, Columns]:
    """The bundle of a Parquet file or folder, or of a Zarr group; columns are named by options, or guessed."""
    from tangentbundle.distributed import DistributedBundle, ParquetColumns, ZarrArray
    from tangentbundle.distributed.tasks import extra
    from tangentbundle.errors import InvalidInputError, UnitsError
    from tangentbundle.geometry.scale import affordable_neighbors
    from tangentbundle.io.names import Columns, find_columns
    from tangentbundle.units import common_unit

    if file.suffix not in (".parquet", ".pq", ".zarr"):
        raise InvalidInputError(f"--workers and --cluster read .parquet and .zarr, not {file.name}. Convert it first.")
    source: Any = ZarrArray if file.suffix == ".zarr" else ParquetColumns
    if source is ParquetColumns:
        names = extra("pyarrow.dataset").dataset(file, format="parquet").schema.names
    else:
        names = sorted(extra("zarr").open_group(file, mode="r").array_keys())
    if source is ZarrArray and "points" in names and not job.columns.get("points"):
        columns = Columns(("points",), (job.columns.get("vectors") or "vectors",), False, ("",))
        points, vectors = source(file, "points"), source(file, columns.vectors[0])
    else:
        columns = find_columns(names, job.request())
        if columns.on_globe:
            raise InvalidInputError(
                "--workers and --cluster take points in space, not latitude and longitude. Write x, y, z and the "
                "vectors' three components first."
            )
        if (common_unit(columns.vectors, columns.units, job.summary.notes)[1] != 1.0).any():
            raise UnitsError("--workers and --cluster do not convert units. Write all components in one unit first.")
        points, vectors = source(file, columns.points), source(file, columns.vectors)
    job.summary.notes += columns.notes
    n = points.shape[0]
    if not {"neighbors", "eps"} & {*scale} and (few := affordable_neighbors(n)):
        scale = {**scale, "neighbors": few}
        job.summary.notes.append(f"{few} neighbours are used, to save memory; see --neighbors")
    partition = min(MAX_PARTITION, -(-n // workers))
    return DistributedBundle.from_points(points, work, vectors=vectors, partition=partition, **scale), columns


def _tell(job: Job, file: Path, bundle: DistributedBundle) -> None:
    dims, tell = bundle.ambient_dim, job.summary.tell
    job.summary.source = file
    text = f"{file.name}: {bundle.num_points} points in R^{dims}"
    tell("read", text, points=bundle.num_points, ambient_dim=dims, times=1, partitions=bundle.num_parts)
    tell("dimension", f"{bundle.dim} in R^{dims} (frames estimated)", dimension=bundle.dim)
    near = bundle.edges / bundle.num_points
    tell("scale", f"eps {bundle.eps:.4g}, radius {bundle.eps**0.5:.4g}, {near:.0f} neighbours", eps=bundle.eps)
    tell("partitions", str(bundle.num_parts))


def write_like(file: Path, vectors: tuple[str, ...], result: Path, output: Path, overwrite: bool) -> float:
    """Write the file with the vectors of ``result`` instead of its own; returns the sum of their squares."""
    import numpy as np

    from tangentbundle.distributed.tasks import extra
    from tangentbundle.files import is_zarr, replacing, starts_with

    new, energy, start = extra("zarr").open_group(result, mode="r")["vectors"], 0.0, 0
    if file.suffix == ".zarr":
        with replacing(output, is_zarr, overwrite=overwrite) as place:
            shutil.copytree(file, place)
            group = extra("zarr").open_group(place, mode="r+")
            for start in range(0, new.shape[0], ROWS_AT_ONCE):
                rows = new[start : start + ROWS_AT_ONCE]
                energy += float(np.square(rows, dtype=float).sum())
                for name, column in zip(vectors, rows.T if len(vectors) > 1 else [rows], strict=True):
                    group[name][start : start + len(rows)] = column
        return energy
    pyarrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
    data = extra("pyarrow.dataset").dataset(file, format="parquet")
    with replacing(output, starts_with(b"PAR1")) as place, parquet.ParquetWriter(place, data.schema) as writer:
        for batch in data.to_batches(batch_size=ROWS_AT_ONCE):
            table, rows = pyarrow.table(batch), new[start : start + len(batch)]
            for name, column in zip(vectors, rows.T, strict=True):
                k = table.schema.get_field_index(name)
                table = table.set_column(
                    k, table.schema.field(k), pyarrow.array(column, table.schema.types[k], safe=False)
                )
            writer.write_table(table)
            start, energy = start + len(rows), energy + float(np.square(rows, dtype=float).sum())
    return energy
