"""Series larger than memory, written block by block along time: a run that was killed goes on where it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..extras import extra
from ..files import only_writer, put, write_atomically
from .blocks import GridFields

if TYPE_CHECKING:
    import xarray

BLOCK_BYTES = 2**25
"""Of the components in a block. Every worker has one block in memory, with a few copies."""

PACKING = ("dtype", "scale_factor", "add_offset", "_FillValue", "units", "calendar")
"""What stays of an encoding: how numbers are stored, and not how a format compresses them."""


def in_blocks(fields: GridFields, at_once: int | None = None) -> tuple[xarray.Dataset, Any]:
    """A dataset in chunks along a dimension, the longest besides those of the grid, and its name.

    Chunks have ``at_once`` values along it, by default complete chunks of the source up to ``BLOCK_BYTES``.
    """
    first = fields.ds[fields.names[0]]
    along = max((d for d in first.dims if d not in fields.grid.dims), key=first.sizes.__getitem__, default=None)
    unsplit = dict.fromkeys(fields.ds.dims, -1)
    if along is None:
        return fields.ds.chunk(unsplit), None
    one, step = first.chunksizes.get(along, (1,))[0], BLOCK_BYTES * first.sizes[along] // (2 * first.nbytes)
    return fields.ds.chunk({**unsplit, along: at_once or max(one, step // one * one)}), along


def write_blocks(
    ds: xarray.Dataset, along: Any, output: Path, plan: Any, workers: int, report: Callable[[int], None]
) -> None:
    """Write a lazy dataset to Zarr or NetCDF, chunk by chunk along a dimension, on so many threads.

    The chunks are first written to a store in a hidden folder, with a mark for each one that is complete. A run with
    the same ``plan`` (JSON) computes those that are missing; then the output appears. ``report`` is called with the
    number of fields that are complete.
    """
    work, ds = output.absolute().with_name(f".{output.name}.work"), ds.copy()
    for variable in ds.variables.values():
        variable.encoding = {key: value for key, value in variable.encoding.items() if key in PACKING}
    stops = np.cumsum(ds.chunksizes.get(along, ())).tolist()
    store, marks, plan_file = work / "result.zarr", work / "complete", work / "plan.json"
    series = ds[[name for name in ds.data_vars if along in ds[name].dims]].drop_vars(list(ds.coords), errors="ignore")
    for name in ds.variables.keys() - series.variables.keys():
        ds.variables[name].load()

    def write(part: slice) -> int:
        if not (mark := marks / str(part.stop)).exists():
            series.isel({along: part}).to_zarr(store, region={along: part}, consolidated=True)
            mark.touch()
        return part.stop

    with only_writer(work), extra("dask", "Writing in blocks").config.set(scheduler="synchronous"):
        if not plan_file.exists() or json.loads(plan_file.read_text()) != plan:
            shutil.rmtree(marks, ignore_errors=True)
            marks.mkdir()
            started: Any = ds.to_zarr(store, mode="w", compute=False, zarr_format=2, consolidated=True)
            if not stops:
                started.compute()
            write_atomically(plan_file, json.dumps(plan).encode())
        pool = ThreadPoolExecutor(workers)
        try:
            for stop in pool.map(write, map(slice, [0, *stops[:-1]], stops)):
                report(stop)
        finally:
            pool.shutdown(cancel_futures=True)
        if output.suffix != ".zarr":
            raw = extra("xarray", "Writing in blocks").open_zarr(store, decode_cf=False).drop_encoding()
            raw.to_netcdf(store := work / "result.nc", engine="netcdf4")
        put(store, output)
    shutil.rmtree(work, ignore_errors=True)
