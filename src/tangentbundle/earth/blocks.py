"""How functions of datasets are computed: block by block, lazily with Dask.

A *block* is an array of each component, as xarray hands them out: all that is in memory, or a chunk
of Dask. A ``BlockFunction`` cuts it into *batches* of at most ``BATCH_SIZE`` fields, as tangent
coordinates ``(t, n, 2)`` at the points of the grid, and applies a ``Computation`` to each of them.

``InCells`` is the computation for filters and derivatives: within a batch, the fields with data at
the same points are a *group*. They share ``Cells``, and a ``CellComputation`` is applied to all of
them at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..extras import extra
from .grid import BATCH_SIZE, Grid
from .gridfields import ComponentReader, GridFields
from .operator import DEFAULT_OPTIONS, CellOptions, Cells, cells_of

if TYPE_CHECKING:
    import xarray


class Computation(ABC):
    """What is computed from a batch of fields; each result becomes a variable of a dataset."""

    @property
    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """The dimensions of each result, in the place of those of the grid, and their sizes."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of results."""

    @abstractmethod
    def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
        """Coordinates ``(t, n, 2)``, NaN where data are missing, to results ``(t, *sizes)``."""


class CellComputation(ABC):
    """What is computed from fields with data in the same cells.

    ``sizes`` are the numbers of components of the results: 2 for vectors, 1 for functions.
    """

    sizes: tuple[int, ...]

    @abstractmethod
    def __call__(self, cells: Cells, signal: np.ndarray) -> Sequence[np.ndarray]:
        """Coordinates ``(m, 2, c)`` at the points of cells to results ``(m, size, c)`` there."""


def compute_in_cells(
    fields: GridFields,
    computation: CellComputation,
    options: CellOptions = DEFAULT_OPTIONS,
    *,
    keep_isolated: bool = False,
) -> list[xarray.DataArray]:
    """Results in the cells of the grid, one variable for each component, in the order of the
    dimensions of the fields.

    Points without data are NaN. Isolated ones, whose neighbours have no data, are NaN, too, or with
    ``keep_isolated`` have their values in the first result.
    """
    fields.grid.warn_of_gaps()
    in_cells = InCells(
        grid=fields.grid,
        components=len(fields.names),
        dtype=fields.dtype,
        computation=computation,
        options=options,
        keep_isolated=keep_isolated,
    )
    dims = fields.ds[fields.names[0]].dims
    return [variable.transpose(*dims) for variable in compute_blocks(fields, in_cells)]


def compute_blocks(
    fields: GridFields, computation: Computation, resized: Collection[str] = ()
) -> list[xarray.DataArray]:
    """The results of a computation as variables, lazily if the fields are.

    Dimensions of the grid that are ``resized`` have other sizes in the results: their coordinates
    are left out.
    """
    result = extra("xarray", "Grids").apply_ufunc(
        BlockFunction(fields.reader, computation),
        *fields.arrays(),
        input_core_dims=[list(fields.grid.dims)] * len(fields.names),
        output_core_dims=[list(computation.sizes)] * computation.count,
        exclude_dims=set(resized),
        dask="parallelized",
        keep_attrs=True,  # of coordinates
        output_dtypes=[fields.dtype] * computation.count,
        dask_gufunc_kwargs={"output_sizes": computation.sizes},
    )
    variables = result if isinstance(result, tuple) else (result,)
    return [variable.drop_attrs(deep=False) for variable in variables]


@dataclass(frozen=True, eq=False)
class BlockFunction:
    """Applies a computation to a block: arrays ``(..., *grid.shape)``, one for each component."""

    reader: ComponentReader
    computation: Computation

    def __call__(self, *components: np.ndarray) -> tuple[np.ndarray, ...] | np.ndarray:
        """Arrays ``(..., *sizes)``, one for each result; xarray wants a single one without its
        tuple."""
        leading = components[0].shape[: -len(self.reader.grid.dims)]
        results = [self.computation(batch) for batch in self.batches(components)]
        joined = []
        for pieces in zip(*results, strict=True):
            values = np.concatenate(pieces)
            joined.append(values.reshape(*leading, *values.shape[1:]))
        return tuple(joined) if len(joined) > 1 else joined[0]

    def batches(self, components: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        """Coordinates ``(t, n, 2)`` of at most ``BATCH_SIZE`` fields."""
        shape = self.reader.grid.shape
        flat = [np.reshape(component, (-1, *shape)) for component in components]
        for start in range(0, len(flat[0]), BATCH_SIZE):
            yield self.reader.read([array[start : start + BATCH_SIZE] for array in flat])


@dataclass(frozen=True, eq=False)
class InCells(Computation):
    """A ``CellComputation`` for every group of a batch, with results in all cells of the grid."""

    grid: Grid
    components: int
    dtype: np.dtype
    computation: CellComputation
    options: CellOptions
    keep_isolated: bool

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.grid.dims, self.grid.shape, strict=True))

    @property
    def count(self) -> int:
        return sum(self._components_of(size) for size in self.computation.sizes)

    def _components_of(self, size: int) -> int:
        """Vectors have as many components in the dataset as the fields of the input."""
        return self.components if size == 2 else size

    def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
        results = [
            np.full((*batch.shape[:2], size), np.nan, self.dtype) for size in self.computation.sizes
        ]
        if self.keep_isolated:
            results[0] = batch.copy()
        for group in groups_with_same_data(self.grid, batch, self.options):
            values = self.computation(group.cells, group.signal)
            for result, value in zip(results, values, strict=True):
                result[group.rows[:, None], group.cells.index] = value.transpose(2, 0, 1)
        return [variable for result in results for variable in self._in_cells(result)]

    def _in_cells(self, result: np.ndarray) -> list[np.ndarray]:
        """A result ``(t, n, size)`` at the points to one array ``(t, *grid.shape)`` for each
        component."""
        if result.shape[-1] == 1:
            values = self.grid.to_cells(result)
        else:
            values = self.grid.to_components(result, self.components)
        return [values[..., k] for k in range(values.shape[-1])]


class Group(NamedTuple):
    """Fields of a batch with data at the same points: their numbers ``rows`` in the batch, the
    cells of these points, and the signal ``(m, 2, c)`` of these fields."""

    rows: np.ndarray
    cells: Cells
    signal: np.ndarray


def groups_with_same_data(
    grid: Grid, batch: np.ndarray, options: CellOptions = DEFAULT_OPTIONS
) -> Iterator[Group]:
    """The groups of a batch ``(t, n, 2)``; fields without two neighbouring points with data belong
    to none."""
    has_data = np.isfinite(batch).all(axis=-1)
    masks = has_data[:1]
    mask_of_field = np.zeros(len(has_data), np.int64)
    if (has_data != masks).any():
        masks, mask_of_field = np.unique(has_data, axis=0, return_inverse=True)
    for number, mask in enumerate(masks):
        cells = cells_of(grid, mask, options)
        if cells is None:
            continue
        rows = np.flatnonzero(mask_of_field.ravel() == number)
        signal = batch[rows][:, cells.index].transpose(1, 2, 0)
        yield Group(rows, cells, np.ascontiguousarray(signal))
