"""NetCDF and Zarr, read and written by xarray."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ..errors import DamagedFileError, InvalidInputError
from ..extras import extra
from ..memory import require_memory
from .datasets import check_names, from_dataset, to_dataset
from .field import Field, Request

CONSOLIDATED = "Failed to open Zarr store with consolidated"
"""How a warning begins that does not matter: the store is read all the same."""


def read(path: Path, request: Request) -> Field:
    """A field on the globe from eastward and northward variables, or on a cloud from variables
    along one dimension."""
    check_header(path, request)
    from ..earth.sources import open_dataset  # SciPy and xarray take a while

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", CONSOLIDATED)
            with open_dataset(path) as ds:
                require_memory(
                    2.0 * ds.nbytes, f"reading {path.name}", "Choose some times or a region first."
                )
                ds = ds.load()
    except (InvalidInputError, DamagedFileError):
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DamagedFileError(
            f"{path.name} cannot be read ({' '.join(str(error).split())[:200]})."
        ) from error
    return from_dataset(ds, request)


def check_header(path: Path, request: Request, variables: Sequence[str] = ()) -> None:
    """Check requested names against the header of a NetCDF file, before xarray is loaded; see
    ``check_names``."""
    if not path.is_file() or find_spec("netCDF4") is None:
        return
    import netCDF4

    try:
        with netCDF4.Dataset(path) as file:
            names = list(file.variables)
            dimensions = list(file.dimensions)
    except OSError as error:
        raise DamagedFileError(
            f"{path.name} cannot be opened: it is truncated, damaged or of another format "
            f"({error})."
        ) from error
    check_names(names, dimensions, request, variables)


def write(field: Field, path: Path) -> None:
    """A NetCDF file or a Zarr folder."""
    if path.suffix.lower() == ".zarr":
        extra("zarr", "Writing Zarr", "files")
        to_dataset(field).to_zarr(path, mode="w", zarr_format=2, consolidated=True)
    else:
        extra("netCDF4", "Writing NetCDF")
        to_dataset(field).to_netcdf(path, engine="netcdf4")
