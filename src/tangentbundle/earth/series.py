"""Series larger than memory, written block by block along time: a run that was killed goes on where
it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..extras import extra
from ..files import only_writer, put, write_atomically
from .gridfields import GridFields

if TYPE_CHECKING:
    import xarray

BLOCK_BYTES = 2**25
"""Of the components in a block. Every worker has one block in memory, with a few copies."""

PACKING = ("dtype", "scale_factor", "add_offset", "_FillValue", "units", "calendar")
"""What stays of an encoding in blocks: how numbers are stored, and not how a format compresses
them."""


def in_blocks(fields: GridFields, at_once: int | None = None) -> tuple[xarray.Dataset, Any]:
    """A dataset in chunks along a dimension, the longest besides those of the grid, and its name.

    Chunks have ``at_once`` values along it, by default complete chunks of the source up to
    ``BLOCK_BYTES``. Without another dimension the dataset is one chunk, and the name None.
    """
    first = fields.ds[fields.names[0]]
    unsplit = dict.fromkeys(fields.ds.dims, -1)
    leading = [dim for dim in first.dims if dim not in fields.grid.dims]
    if not leading:
        return fields.ds.chunk(unsplit), None
    along = max(leading, key=first.sizes.__getitem__)
    if not at_once:
        chunk = first.chunksizes.get(along, (1,))[0]
        affordable = BLOCK_BYTES * first.sizes[along] // (2 * first.nbytes)
        at_once = max(chunk, affordable // chunk * chunk)
    return fields.ds.chunk({**unsplit, along: at_once}), along


def write_blocks(
    ds: xarray.Dataset,
    along: Any,
    output: Path,
    plan: Any,
    workers: int,
    report: Callable[[int], None],
) -> None:
    """Write a lazy dataset to Zarr or NetCDF, chunk by chunk along a dimension, on so many threads.

    The chunks are first written to a store in a hidden folder, with a mark for each one that is
    complete. A run with the same ``plan`` (JSON) computes those that are missing; then the output
    appears. ``report`` is called with the number of fields that are complete.
    """
    ds = _with_packing_only(ds)
    work = WorkFolder.beside(output)
    blocks = _blocks(ds, along)
    series = _varying_along(ds, along)
    for name in ds.variables.keys() - series.variables.keys():
        ds.variables[name].load()
    with (
        only_writer(work.path),
        extra("dask", "Writing in blocks").config.set(scheduler="synchronous"),
    ):
        if not work.has_plan(plan):
            work.start(ds, plan, is_series=bool(blocks))
        writer = BlockWriter(series, along, work)
        pool = ThreadPoolExecutor(workers)
        try:
            for stop in pool.map(writer.write, blocks):
                report(stop)
        finally:
            pool.shutdown(cancel_futures=True)
        if output.suffix.lower() == ".zarr":
            put(work.store, output)
        else:
            put(work.netcdf(), output)
    shutil.rmtree(work.path, ignore_errors=True)


@dataclass(frozen=True)
class WorkFolder:
    """The hidden folder of a run: the store, marks of blocks that are complete, and the plan."""

    path: Path

    @classmethod
    def beside(cls, output: Path) -> WorkFolder:
        return cls(output.absolute().with_name(f".{output.name}.work"))

    @property
    def store(self) -> Path:
        return self.path / "result.zarr"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    def mark(self, block: slice) -> Path:
        """The file that exists once a block is complete."""
        return self.path / "complete" / str(block.stop)

    def has_plan(self, plan: Any) -> bool:
        """Whether the folder belongs to an earlier run with the same plan."""
        return self.plan.exists() and json.loads(self.plan.read_text()) == plan

    def start(self, ds: xarray.Dataset, plan: Any, is_series: bool) -> None:
        """Create the store, with everything but the blocks of a series, and then the plan."""
        marks = self.path / "complete"
        shutil.rmtree(marks, ignore_errors=True)
        marks.mkdir()
        delayed: Any = ds.to_zarr(
            self.store, mode="w", compute=False, zarr_format=2, consolidated=True
        )
        if not is_series:
            delayed.compute()
        write_atomically(self.plan, json.dumps(plan).encode())

    def netcdf(self) -> Path:
        """The store as a NetCDF file."""
        path = self.path / "result.nc"
        raw = extra("xarray", "Writing in blocks").open_zarr(self.store, decode_cf=False)
        raw.drop_encoding().to_netcdf(path, engine="netcdf4")
        return path


@dataclass(frozen=True, eq=False)
class BlockWriter:
    """Computes and writes blocks of a series along a dimension that are not complete yet."""

    series: xarray.Dataset
    along: Any
    work: WorkFolder

    def write(self, block: slice) -> int:
        """Where the block stops."""
        mark = self.work.mark(block)
        if not mark.exists():
            region = {self.along: block}
            part = self.series.isel(region)
            part.to_zarr(self.work.store, region=region, consolidated=True)
            mark.touch()
        return block.stop


def _with_packing_only(ds: xarray.Dataset) -> xarray.Dataset:
    """A copy whose encodings have nothing but ``PACKING``."""
    copy = ds.copy()
    for variable in copy.variables.values():
        variable.encoding = {
            key: value for key, value in variable.encoding.items() if key in PACKING
        }
    return copy


def _blocks(ds: xarray.Dataset, along: Any) -> list[slice]:
    """The chunks along a dimension; none if the dataset has no such dimension."""
    stops = np.cumsum(ds.chunksizes.get(along, ())).tolist()
    starts = [0, *stops][:-1]
    return [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]


def _varying_along(ds: xarray.Dataset, along: Any) -> xarray.Dataset:
    """The variables along a dimension, without coordinates."""
    names = [name for name in ds.data_vars if along in ds[name].dims]
    return ds[names].drop_vars(list(ds.coords), errors="ignore")
