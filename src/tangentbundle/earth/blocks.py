"""Vector fields of datasets, block by block: lazily with Dask, each place and each set of missing
values once.

Series larger than memory are written block by block along time: a run that was killed goes on where
it was.
"""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import (
    InvalidInputError,
    MissingColumnsError,
    Note,
)
from ..extras import extra
from ..files import only_writer, put, write_atomically
from ..units import common_unit, conversion
from ..winds import MAX_SPEED
from .grid import AT_ONCE, Grid
from .operator import Cells, cells_of
from .xarrays import find_vectors, unit_of, warn_of_other_pairs, without_fill

if TYPE_CHECKING:
    import xarray

MISSING = 1e30
"""Absolute values above this are fill values and count as missing; for speeds the limit is
MAX_SPEED."""

BLOCK_BYTES = 2**25
"""Of the components in a block. Every worker has one block in memory, with a few copies."""

PACKING = ("dtype", "scale_factor", "add_offset", "_FillValue", "units", "calendar")
"""What stays of an encoding in blocks: how numbers are stored, and not how a format compresses
them."""

COMPRESSION = ("zlib", "complevel", "shuffle")
"""What results take of an encoding: they may exceed the range of packed integers, and are stored as
floats."""

Compute = Callable[[Cells, np.ndarray], Sequence[np.ndarray]]
"""Coordinates ``(m, 2, c)`` at the points of cells to results ``(m, k, c)`` there."""


@dataclass(frozen=True, eq=False)
class GridFields:
    """The vectors of a dataset, over all dimensions besides those of the grid; ``unit`` is that of
    all components.

    ``wind`` names speed and direction that the components were computed from: these are no longer
    in the dataset.
    """

    ds: xarray.Dataset
    names: tuple[str, ...]
    grid: Grid
    unit: str
    wind: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        ds: xarray.Dataset,
        vectors: Sequence[str] = (),
        notes: list[Note] | None = None,
        *,
        one_of_many: bool = False,
    ) -> GridFields:
        """The fields of the variables ``vectors``: two components, or three ambient ones; by
        default found by name.

        ``notes`` gets what was changed on the way, such as units. Warns if other pairs of
        components are found and left as they are, unless the caller wants ``one_of_many``.
        """
        notes = [] if notes is None else notes
        if not hasattr(ds, "data_vars"):
            raise InvalidInputError(
                f"expected an xarray.Dataset with a vector field, got {type(ds).__name__}."
            )
        if isinstance(vectors, str):
            raise InvalidInputError(
                f"vectors must be a tuple of names, such as ('u', 'v'), got {vectors!r}."
            )
        names: tuple[str, ...] = tuple(vectors)
        wind: tuple[str, ...] = ()
        if not vectors:
            ds, names, wind = find_vectors(ds)
            if not one_of_many:
                warn_of_other_pairs(ds, names)
        if (
            len({*names}) not in (2, 3)
            or len({*names}) < len(names)
            or not {*names} <= {*ds.data_vars}
        ):
            raise MissingColumnsError(
                f"expected two variables, or three ambient ones, got {', '.join(names)}; the "
                f"dataset has {', '.join(map(str, ds.data_vars)) or 'none'}."
            )
        unit, factors = common_unit(names, [unit_of(ds[name]) for name in names], notes)
        parts = [without_fill(ds[name], notes) for name in names]
        parts = [a if f == 1 else like(a * f, a) for a, f in zip(parts, factors, strict=True)]
        units = {"units": unit} if unit else {}
        ds = ds.drop_vars(wind).assign(
            {name: a.assign_attrs(units) for name, a in zip(names, parts, strict=True)}
        )
        first, *others = (ds[name] for name in names)
        grid = Grid.of(ds, first)
        if wrong := [
            a
            for a in (first, *others)
            if {*a.dims} != {*first.dims} or not {*grid.dims} <= {*a.dims}
        ]:
            raise InvalidInputError(
                f"all components must lie on one grid, but {first.name} lies along {first.dims}, "
                f"{wrong[0].name} along {wrong[0].dims}. Interpolate staggered components to the "
                "centres of cells."
            )
        if not first.size:
            raise InvalidInputError(
                f"{first.name} has no values: its sizes are {dict(first.sizes)}."
            )
        return cls(ds, names, grid, unit, wind)

    def arrays(self) -> list[xarray.DataArray]:
        """The components; chunks along the grid's dimensions become one."""
        unsplit = dict.fromkeys(self.grid.dims, -1)
        return [
            self.ds[n] if self.ds[n].chunks is None else self.ds[n].chunk(unsplit)
            for n in self.names
        ]

    @property
    def dtype(self) -> np.dtype:
        """That of results: float32 if all components are, otherwise float64."""
        kinds = {self.ds[name].dtype for name in self.names}
        return np.dtype(np.float32 if kinds == {np.dtype(np.float32)} else np.float64)

    @property
    def limit(self) -> float:
        """Components above this mark missing values."""
        factor = conversion(self.unit, "m/s")
        return MAX_SPEED / factor if factor else MISSING

    def apply(
        self, compute: Compute, sizes: Sequence[int], keep: bool = False, **cells: Any
    ) -> list[xarray.DataArray]:
        """Results of ``sizes`` components each, one variable a component, in the order of the
        dimensions of the fields.

        Points without data are NaN. Isolated ones, whose neighbours have no data, are NaN, too, or
        with ``keep`` have their values in the first result. ``cells`` are options of ``cells_of``.
        """
        self.grid.warn_of_gaps()
        grid, count = self.grid, sum(len(self.names) if size == 2 else size for size in sizes)

        def one(batch: np.ndarray) -> list[np.ndarray]:
            out = [np.full((*batch.shape[:2], size), np.nan, self.dtype) for size in sizes]
            if keep:
                out[0] = batch.copy()
            for rows, part, signal in self.groups(batch, **cells):
                for target, result in zip(out, compute(part, signal), strict=True):
                    target[rows[:, None], part.index] = result.transpose(2, 0, 1)
            values = (
                grid.to_cells(a) if a.shape[-1] == 1 else grid.to_components(a, len(self.names))
                for a in out
            )
            return [a[..., k] for a in values for k in range(a.shape[-1])]

        found = self.lazily(one, count, dict(zip(grid.dims, grid.shape, strict=True)))
        return [a.transpose(*self.ds[self.names[0]].dims) for a in found]

    def lazily(
        self, one: Callable, count: int, sizes: dict[str, int], exclude: Collection[str] = ()
    ) -> list[xarray.DataArray]:
        """As many variables with the core dimensions ``sizes``; ``one`` makes their values from a
        batch ``(t, n, 2)``.

        Dimensions of the grid to ``exclude`` may change their sizes: their coordinates are left
        out.
        """

        def block(*components: np.ndarray) -> tuple[np.ndarray, ...] | np.ndarray:
            lead = components[0].shape[: components[0].ndim - len(self.grid.dims)]
            joined = map(np.concatenate, zip(*map(one, self.batches(components)), strict=True))
            out = tuple(a.reshape(*lead, *a.shape[1:]) for a in joined)
            return out if len(out) > 1 else out[0]

        result = extra("xarray", "Grids").apply_ufunc(
            block,
            *self.arrays(),
            input_core_dims=[list(self.grid.dims)] * len(self.names),
            output_core_dims=[list(sizes)] * count,
            exclude_dims={*exclude},
            dask="parallelized",
            keep_attrs=True,  # of coordinates
            output_dtypes=[self.dtype] * count,
            dask_gufunc_kwargs={"output_sizes": sizes},
        )
        return [
            a.drop_attrs(deep=False) for a in (result if isinstance(result, tuple) else (result,))
        ]

    def batches(self, components: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        """Coordinates ``(t, n, 2)`` of at most ``AT_ONCE`` fields, NaN where data are missing."""
        flat = [np.reshape(a, (-1, *self.grid.shape)) for a in components]
        for a in range(0, len(flat[0]), AT_ONCE):
            values = np.stack([part[a : a + AT_ONCE] for part in flat], axis=-1).astype(self.dtype)
            values[~(np.abs(values) <= self.limit).all(axis=-1)] = np.nan
            yield self.grid.to_coordinates(values)

    def groups(
        self, batch: np.ndarray, **options: Any
    ) -> Iterator[tuple[np.ndarray, Cells, np.ndarray]]:
        """Fields with data at the same points: their numbers, the cells of these points, and
        signals ``(m, 2, c)``."""
        there = np.isfinite(batch).all(axis=-1)
        masks, group = there[:1], np.zeros(len(there), np.int64)
        if (there != masks).any():
            masks, group = np.unique(there, axis=0, return_inverse=True)
        for k, mask in enumerate(masks):
            if (cells := cells_of(self.grid, mask, **options)) is not None:
                rows = np.flatnonzero(group.ravel() == k)
                yield (
                    rows,
                    cells,
                    np.ascontiguousarray(batch[rows][:, cells.index].transpose(1, 2, 0)),
                )


def described(result: xarray.Dataset, call: str) -> xarray.Dataset:
    """The dataset with a line in its history."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    before = str(result.attrs.get("history", ""))
    return result.assign_attrs(
        history="\n".join(filter(None, [before, f"{now}: tangentbundle {call}"]))
    )


def like(result: xarray.DataArray, original: xarray.DataArray, **attrs: Any) -> xarray.DataArray:
    """A result with the attributes of a variable, and compressed as it is."""
    result.attrs = {**original.attrs, **attrs}
    result.encoding = {key: value for key, value in original.encoding.items() if key in COMPRESSION}
    return result


def in_blocks(fields: GridFields, at_once: int | None = None) -> tuple[xarray.Dataset, Any]:
    """A dataset in chunks along a dimension, the longest besides those of the grid, and its name.

    Chunks have ``at_once`` values along it, by default complete chunks of the source up to
    ``BLOCK_BYTES``.
    """
    first = fields.ds[fields.names[0]]
    along = max(
        (d for d in first.dims if d not in fields.grid.dims),
        key=first.sizes.__getitem__,
        default=None,
    )
    unsplit = dict.fromkeys(fields.ds.dims, -1)
    if along is None:
        return fields.ds.chunk(unsplit), None
    one, step = (
        first.chunksizes.get(along, (1,))[0],
        BLOCK_BYTES * first.sizes[along] // (2 * first.nbytes),
    )
    return fields.ds.chunk({**unsplit, along: at_once or max(one, step // one * one)}), along


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
    work, ds = output.absolute().with_name(f".{output.name}.work"), ds.copy()
    for variable in ds.variables.values():
        variable.encoding = {
            key: value for key, value in variable.encoding.items() if key in PACKING
        }
    stops = np.cumsum(ds.chunksizes.get(along, ())).tolist()
    store, marks, plan_file = work / "result.zarr", work / "complete", work / "plan.json"
    series = ds[[name for name in ds.data_vars if along in ds[name].dims]].drop_vars(
        list(ds.coords), errors="ignore"
    )
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
            started: Any = ds.to_zarr(
                store, mode="w", compute=False, zarr_format=2, consolidated=True
            )
            if not stops:
                started.compute()
            write_atomically(plan_file, json.dumps(plan).encode())
        pool = ThreadPoolExecutor(workers)
        try:
            for stop in pool.map(write, map(slice, [0, *stops[:-1]], stops)):
                report(stop)
        finally:
            pool.shutdown(cancel_futures=True)
        if output.suffix.lower() != ".zarr":
            raw = (
                extra("xarray", "Writing in blocks")
                .open_zarr(store, decode_cf=False)
                .drop_encoding()
            )
            raw.to_netcdf(store := work / "result.nc", engine="netcdf4")
        put(store, output)
    shutil.rmtree(work, ignore_errors=True)
