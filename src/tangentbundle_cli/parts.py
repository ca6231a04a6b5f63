"""``tangentbundle filter --workers``: clouds in Parquet files that are larger than memory, part by part."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .fields import tell_filter
from .job import Job

if TYPE_CHECKING:
    from tangentbundle.distributed import DistributedBundle
    from tangentbundle.filters import Filter

ROWS_AT_ONCE = 2**18
"""Rows of the file that are in memory while results are written."""
MAX_PARTITION = 500_000
"""Points of a partition, which needs a few hundred MB."""


def filter_in_parts(
    job: Job, file: Path, output: Path, chosen: Callable[[], Filter], workers: int, options: dict[str, Any]
) -> None:
    """Filter a file part by part. The bundle is built in a hidden folder next to the output; a second run uses it."""
    from tangentbundle.errors import InvalidInputError, TangentBundleError
    from tangentbundle.extras import extra
    from tangentbundle.io.actions import warn_if_nothing_left

    given = {**job.columns, "report": job.report}
    if refused := [name for name in given if given[name] and name not in ("points", "vectors")]:
        option = refused[0].replace("_", "-")
        raise InvalidInputError(f"--{option} does not go with --workers, which reads the file in parts.")
    if {file.suffix, output.suffix} - {".parquet", ".pq"}:
        raise InvalidInputError(f"--workers goes from Parquet to Parquet, not from {file.name} to {output.name}.")
    dask = extra("dask", "Filtering in parts", "cluster")
    work = output.absolute().with_name(f".{output.name}.work")
    fresh = not work.exists()
    try:
        with job.steps(3) as step, dask.config.set(scheduler="threads", num_workers=workers):
            step("building the bundle in parts")
            bundle, names = _bundle_of(job, file, work, workers, options)
            step("filtering in parts")
            response, (total, tangent) = chosen(), bundle.energies()
            bundle.filter(response, work / "result.zarr", overwrite=True)
            step("writing")
            with job.summary.writing(output):
                left = _write_like(file, names, work / "result.zarr", output) / (tangent or 1.0)
            warn_if_nothing_left(left, bundle.eps)
            tell_filter(job, response, 1 - tangent / (total or 1.0), left)
    except TangentBundleError:
        if fresh:  # there is nothing to go on with; another run's folder stays
            shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)


def _bundle_of(
    job: Job, file: Path, work: Path, workers: int, options: dict[str, Any]
) -> tuple[DistributedBundle, tuple[str, ...]]:
    """The bundle of a Parquet file or folder, described in the summary, and the columns of its vectors."""
    from tangentbundle.distributed import DistributedBundle, ParquetColumns
    from tangentbundle.errors import InvalidInputError, UnitsError
    from tangentbundle.extras import extra
    from tangentbundle.geometry.scale import affordable_neighbors
    from tangentbundle.io.names import find_columns
    from tangentbundle.units import common_unit

    schema = extra("pyarrow.dataset", "Parquet").dataset(file, format="parquet").schema
    columns, notes, tell = find_columns(schema.names, job.request()), job.summary.notes, job.summary.tell
    if columns.on_globe:
        raise InvalidInputError(
            "--workers takes points in space, not latitude and longitude. Write x, y, z and the vectors' three "
            "components first."
        )
    if (common_unit(columns.vectors, columns.units, notes)[1] != 1.0).any():
        raise UnitsError("--workers does not convert units. Write all components in one unit first.")
    notes += columns.notes
    points, vectors = (ParquetColumns(file, names) for names in (columns.points, columns.vectors))
    n, dims = points.shape
    if not {"neighbors", "eps"} & {*options} and (few := affordable_neighbors(n)):
        options = {**options, "neighbors": few}
        notes.append(f"{few} neighbours are used, to save memory; see --neighbors")
    partition = min(MAX_PARTITION, -(-n // workers))
    bundle = DistributedBundle.from_points(points, work, vectors=vectors, partition=partition, **options)
    job.summary.source = file
    tell("read", f"{file.name}: {n} points in R^{dims}", points=n, ambient_dim=dims, times=1)
    tell("dimension", f"{bundle.dim} in R^{dims} (frames estimated)", dimension=bundle.dim)
    near = bundle.edges / n
    tell("scale", f"eps {bundle.eps:.4g}, radius {bundle.eps**0.5:.4g}, {near:.0f} neighbours", eps=bundle.eps)
    tell("partitions", str(bundle.num_parts), partitions=bundle.num_parts)
    return bundle, columns.vectors


def _write_like(file: Path, names: tuple[str, ...], result: Path, output: Path) -> float:
    """Write the file with the vectors of ``result`` instead of its own; returns the sum of their squares."""
    import numpy as np

    from tangentbundle.extras import extra
    from tangentbundle.files import replacing

    pyarrow, parquet = (extra(name, "Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    new = extra("zarr", "Filtering in parts", "cluster").open_group(result, mode="r")["vectors"]
    data, energy, start = extra("pyarrow.dataset", "Parquet").dataset(file, format="parquet"), 0.0, 0
    with replacing(output) as place, parquet.ParquetWriter(place, data.schema) as writer:
        for batch in data.to_batches(batch_size=ROWS_AT_ONCE):
            table, rows = pyarrow.table(batch), new[start : start + len(batch)]
            for name, column in zip(names, rows.T, strict=True):
                k = table.schema.get_field_index(name)
                typed = pyarrow.array(column, table.schema.types[k], safe=False)
                table = table.set_column(k, table.schema.field(k), typed)
            writer.write_table(table)
            start, energy = start + len(rows), energy + float(np.square(rows, dtype=float).sum())
    return energy
