"""The file formats that fields are read from and written to: one entry and one module for each.

A format is an entry of ``FORMATS`` and a module of ``tangentbundle.io`` with two functions,

    read(path, request) -> Field
    write(field, path) -> None

and, if some fields do not fit, a third one that raises before any work is done:

    check_output(field, path) -> None

The module is loaded when a file of the format is read or written.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InvalidInputError, OutputError

if TYPE_CHECKING:
    from .io import Field, Request


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        names: what people call it; several if one module reads several.
        suffixes: of its files, in lower case.
        module: of ``tangentbundle.io``.
        holds_meshes: whether a file is a mesh, which need not have vectors.
        holds_times: whether a file holds fields of several times.
        needs_dates: whether these times must have dates, as in tables, which have a row for each.
        holds_datasets: whether a file is an xarray dataset: it has dimensions to select from, a
            pattern may stand for several files, and it can be worked on in blocks.
    """

    names: tuple[str, ...]
    suffixes: tuple[str, ...]
    module: str
    holds_meshes: bool = False
    holds_times: bool = False
    needs_dates: bool = False
    holds_datasets: bool = False

    def read(self, path: Path, request: Request) -> Field:
        """The field of a file."""
        return self._functions().read(path, request)

    def write(self, field: Field, path: Path) -> None:
        """Write a field to a file."""
        self._functions().write(field, path)

    def check_output(self, field: Field, path: Path, count: int) -> None:
        """Raise if a file cannot hold ``count`` fields such as this one."""
        if count > 1 and not self.holds_times:
            raise OutputError(
                f"{path.suffix} files hold one field, but there are {count}.",
                "Write .nc, .zarr or .npz.",
            )
        if count > 1 and self.needs_dates and field.times is None:
            raise OutputError(
                f"{path.suffix} files without dates hold one field, but there are {count}.",
                "Write .nc, .zarr or .npz.",
            )
        check = getattr(self._functions(), "check_output", None)
        if check is not None:
            check(field, path)

    def _functions(self) -> Any:
        return import_module(f"tangentbundle.io.{self.module}")


FORMATS = (
    Format(
        ("CSV",),
        (".csv", ".txt", ".tsv", ".csv.gz", ".txt.gz", ".tsv.gz", ".zip"),
        "csv_files",
        holds_times=True,
        needs_dates=True,
    ),
    Format(
        ("Excel", "OpenDocument"),
        (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"),
        "spreadsheets",
    ),
    Format(
        ("Parquet",),
        (".parquet", ".pq"),
        "parquet_files",
        holds_times=True,
        needs_dates=True,
    ),
    Format(("NPZ",), (".npz",), "npz_files", holds_times=True),
    Format(
        ("PLY", "OBJ", "STL", "VTK", "XDMF", "glTF"),
        (".ply", ".obj", ".stl", ".vtk", ".vtu", ".vtp", ".xdmf", ".xmf", ".gltf", ".glb"),
        "mesh_files",
        holds_meshes=True,
    ),
    Format(
        ("NetCDF", "Zarr"),
        (".nc", ".nc4", ".cdf", ".zarr"),
        "dataset_files",
        holds_times=True,
        holds_datasets=True,
    ),
)


def format_of(path: Path) -> Format:
    """The format of a file, by its suffix."""
    for file_format in FORMATS:
        if path.name.lower().endswith(file_format.suffixes):
            return file_format
    known = [suffix for file_format in FORMATS for suffix in file_format.suffixes]
    raise InvalidInputError(
        f"unknown format {path.suffix or 'without a suffix'!r} of {path.name}. Known: "
        f"{' '.join(known)}."
    )


def format_names() -> str:
    """The names of all formats, for help.

    >>> format_names()
    'CSV, Excel, OpenDocument, Parquet, NPZ, PLY, OBJ, STL, VTK, XDMF, glTF, NetCDF or Zarr'
    """
    names = [name for file_format in FORMATS for name in file_format.names]
    return f"{', '.join(names[:-1])} or {names[-1]}"
