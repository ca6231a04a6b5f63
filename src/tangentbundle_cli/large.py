"""Fields larger than memory: what ``--workers`` and ``--cluster`` do, by ``tangentbundle.distributed``."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .job import Job

if TYPE_CHECKING:
    from tangentbundle.distributed import DistributedBundle
    from tangentbundle.filters import Filter


def filter_in_parts(
    job: Job, file: Path, output: Path, response: Filter, where: Any, overwrite: bool, **scale: Any
) -> None:
    """Filter a file part by part. Intermediate results are in a hidden folder next to the output: runs can resume."""
    from tangentbundle.distributed.results import check_output
    from tangentbundle.errors import InvalidInputError, TangentBundleError

    refused: dict[str, Any] = {"--report": job.report, "--time": job.time, "--latlon": job.latlon}
    refused |= {"--drop-missing": job.drop_missing, "--drop-duplicates": job.drop_duplicates}
    if given := [name for name, value in refused.items() if value]:
        raise InvalidInputError(f"{given[0]} does not go with --workers and --cluster, which read the file in parts.")
    check_output(output, overwrite=overwrite)  # refused before any work
    work = output.absolute().with_name(f".{output.name}.work")
    fresh = not work.exists()
    try:
        with job.steps(2) as step, where:
            step("building the bundle")
            bundle = bundle_of(job, file, work, {name: value for name, value in scale.items() if value is not None})
            _tell(job, file, bundle)
            step("filtering")
            with job.summary.writing(output):
                bundle.filter(response, output, overwrite=overwrite)
    except TangentBundleError:
        if fresh:  # there is nothing to go on with; another run's folder stays
            shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def machines(workers: int | None, cluster: str | None) -> Iterator[None]:
    """Tasks run on the workers of a cluster, or on so many processes of this machine."""
    from tangentbundle.distributed.tasks import extra
    from tangentbundle.errors import InvalidInputError

    if workers is not None and cluster is not None:
        raise InvalidInputError("give --workers, for this machine, or --cluster, not both.")
    dask = extra("distributed")
    with contextlib.ExitStack() as stack:
        place: Any = cluster
        if cluster is None:
            place = dask.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")
            stack.enter_context(place)
        try:
            stack.enter_context(dask.Client(place, timeout=20))
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"no Dask scheduler answers at {cluster}. Start one: dask scheduler.") from error
        yield


def bundle_of(job: Job, file: Path, work: Path, scale: dict[str, Any]) -> DistributedBundle:
    """The bundle of a Parquet file or folder, or of a Zarr group; columns are named by options, or guessed."""
    from tangentbundle.distributed import DistributedBundle, ParquetColumns, ZarrArray
    from tangentbundle.distributed.tasks import extra
    from tangentbundle.errors import InvalidInputError, UnitsError
    from tangentbundle.io.names import find_columns
    from tangentbundle.units import common_unit

    if not file.exists():
        raise InvalidInputError(f"there is no file {file}. Check the path.")
    if file.suffix == ".zarr":
        names = sorted(extra("zarr").open_group(file, mode="r").array_keys())
        if "points" in names and not job.points:
            vectors = ZarrArray(file, job.vectors or "vectors")
            return DistributedBundle.from_points(ZarrArray(file, "points"), work, vectors=vectors, **scale)
        source: Any = ZarrArray
    elif file.suffix in (".parquet", ".pq"):
        first = next(iter(sorted(file.glob("*.parquet"))), file) if file.is_dir() else file
        names = extra("pyarrow.parquet").read_schema(first).names
        source = ParquetColumns
    else:
        raise InvalidInputError(f"--workers and --cluster read .parquet and .zarr, not {file.name}. Convert it first.")
    columns = find_columns(names, job.request())
    if columns.on_globe:
        raise InvalidInputError(
            "--workers and --cluster take points in space, not latitude and longitude. Write x, y, z and the vectors' "
            "three components first."
        )
    if (common_unit(columns.vectors, columns.units, job.summary.notes)[1] != 1.0).any():
        raise UnitsError("--workers and --cluster do not convert units. Write all components in one unit first.")
    job.summary.notes += columns.notes
    vectors = source(file, columns.vectors)
    return DistributedBundle.from_points(source(file, columns.points), work, vectors=vectors, **scale)


def _tell(job: Job, file: Path, bundle: DistributedBundle) -> None:
    dims = bundle.cloud.ambient_dim
    parts = f"{bundle.num_parts} partition{'s' * (bundle.num_parts > 1)}"
    tell = job.summary.tell
    job.summary.source = file
    text = f"{file.name}: {bundle.num_points} points in R^{dims}, {parts}"
    tell("read", text, points=bundle.num_points, ambient_dim=dims, partitions=bundle.num_parts)
    tell("dimension", f"{bundle.dim} in R^{dims} (frames estimated)", dimension=bundle.dim)
    near = bundle.edges / bundle.num_points
    tell("scale", f"eps {bundle.eps:.4g}, radius {bundle.eps**0.5:.4g}, {near:.0f} neighbours", eps=bundle.eps)
