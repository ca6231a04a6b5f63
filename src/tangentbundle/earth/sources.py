"""Where wind comes from: the series inside the package, NOAA, files, or any xarray dataset."""

from __future__ import annotations

import contextlib
import io
import lzma
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.io import netcdf_file

from ..download import fetch
from ..errors import DamagedFileError, InvalidInputError, SuspiciousDataWarning, warn
from ..extras import extra
from .wind import WindData, from_grid, from_xarray

if TYPE_CHECKING:
    import xarray


CLASSIC_NETCDF = (b"CDF\x01", b"CDF\x02")
"""How such files begin."""


def load_wind(
    source: xarray.Dataset | str | Path | None = None,
    *,
    u: str = "",
    v: str = "",
    provenance: str = "",
) -> WindData:
    """Wind as points, exact frames and vectors on the sphere, in m/s.

    Args:
        source: a NetCDF, Zarr or GRIB file, a pattern such as ``wind_*.nc`` for several, or an
            ``xarray.Dataset``. The default is the series inside the package: US Navy FNOC monthly
            mean surface wind, 1982 to 1992, 5 degrees, 85 S to 85 N, public domain.
        u, v: names of the eastward and northward variables. By default they are found by standard
            name, then by usual names such as u10, uwnd or u; coordinates by standard name, units or
            name.
        provenance: a sentence on where the data come from; by default the dataset's title or
            source.

    >>> data = load_wind()
    >>> data.components.shape, data.points.shape, data.frames.shape
    ((132, 2520, 2), (2520, 3), (2520, 3, 2))
    >>> data.provenance[:46]
    'US Navy FNOC monthly mean surface wind, Januar'
    """
    if source is None:
        return _embedded()
    if not isinstance(source, str | Path):
        return from_xarray(source, provenance, u, v)
    with open_dataset(Path(source)) as ds:
        if not provenance:
            title = ds.attrs.get("title") or ds.attrs.get("source")
            provenance = Path(source).name
            if title:
                provenance += f": {title}"
        return from_xarray(ds, provenance, u, v)


def _embedded() -> WindData:
    content = lzma.decompress(Path(__file__).with_name("navy_wind.nc.xz").read_bytes())
    with netcdf_file(io.BytesIO(content)) as file:
        variables = file.variables
        hours = np.array(variables["time"][:], np.float64)
        lat = np.array(variables["lat"][:], np.float64)
        lon = np.array(variables["lon"][:], np.float64)
        components = [variables[name][:] * variables[name].scale_factor for name in "uv"]
        provenance = file.source.decode()
    seconds = np.rint(hours * 3600).astype("timedelta64[s]")
    times = np.datetime64("1980-01-14T14:00:00", "s") + seconds
    return from_grid(times, lat, lon, np.stack(components, axis=-1), provenance)


def wind_folder() -> Path:
    """The folder of the GFS analyses of the experiments, named by the variable
    ``TANGENTBUNDLE_WIND``."""
    named = os.environ.get("TANGENTBUNDLE_WIND", "")
    path = Path(named).expanduser()
    if not named or not path.is_dir():
        raise InvalidInputError(
            "the GFS files are not part of the package. Set TANGENTBUNDLE_WIND to their folder, "
            f"not to {named!r}."
        )
    return path


def fetch_ncep(
    year: int,
    *,
    cache: str | Path | None = None,
    sha256: tuple[str | None, str | None] = (None, None),
) -> WindData:
    """Daily mean wind of one year of the NCEP/NCAR reanalysis near the surface (sigma level 0.995,
    2.5 degrees).

    Downloaded from NOAA PSL on first use. The server publishes no checksums: files are checked by
    variable, dates and range. ``sha256`` pins the eastward and the northward file.
    """
    if isinstance(year, bool) or not isinstance(year, int | np.integer) or not 1948 <= year <= 2100:
        raise InvalidInputError(
            f"the reanalysis begins in 1948: expected a year from then on, got {year!r}."
        )
    base = "https://downloads.psl.noaa.gov/Datasets/ncep.reanalysis/Dailies/surface"
    components = []
    for name, checksum in zip(("uwnd", "vwnd"), sha256, strict=True):
        check = partial(_check_daily_means, name=name, year=int(year))
        path = fetch(f"{name}.sig995.{year}.nc", base, cache=cache, sha256=checksum, check=check)
        with open_dataset(path) as ds:
            components.append(ds[name].load())
    both = extra("xarray", "fetch_ncep").merge(components, join="exact")
    return load_wind(
        both, provenance=f"NCEP/NCAR reanalysis, daily means of {year}, sig995, NOAA PSL"
    )


def _check_daily_means(path: Path, name: str, year: int, max_speed: float = 150.0) -> None:
    """Refuse a file without the daily means of one component of the wind in one year, in m/s."""
    with open_dataset(path) as ds:
        is_good = name in ds and _is_daily(ds["time"].values, year)
        is_good = is_good and float(abs(ds[name]).max()) < max_speed
    if not is_good:
        raise DamagedFileError(
            f"expected {name} for each day from {year}-01-01 on, below {max_speed:g} m/s."
        )


def _is_daily(times: np.ndarray, year: int) -> bool:
    """Whether times are the days from the first one of a year on, at most a year."""
    days = times.astype("datetime64[D]")
    expected = np.datetime64(f"{year}-01-01", "D") + np.arange(len(days))
    return 0 < len(days) <= 366 and np.array_equal(days, expected)


def open_dataset(path: Path, **options: Any) -> xarray.Dataset:
    """The dataset of a file that xarray can open, or of all files that a pattern such as
    ``wind_*.nc`` matches.

    ``options`` are those of ``xarray.open_dataset``: ``chunks={}`` opens it lazily, as several
    files always are.
    """
    xarray = extra("xarray", "Reading files of wind")
    path = path.expanduser()
    files = [path] if path.exists() else sorted(path.parent.glob(path.name))
    if not files:
        raise InvalidInputError(
            f"expected a file of wind, but {path} does not exist. Check the path."
        )
    is_pattern = files != [path]
    if is_pattern or "chunks" in options:
        extra("dask", "Reading several files, or one in blocks", "cluster")
    try:
        if is_pattern:
            return xarray.open_mfdataset(files, combine="by_coords", join="exact", **options)
        if path.is_file():
            _refuse_truncated(path)
        engine = "zarr" if path.is_dir() else None  # xarray does not know .ZARR
        return xarray.open_dataset(path, engine=engine, **options)
    except (OSError, ValueError, TypeError, IndexError, ImportError) as error:
        # xarray raises a ValueError for times, too, and has no class of its own for them
        if options.get("decode_times", True):
            with contextlib.suppress(DamagedFileError):
                undated = open_dataset(path, **options, decode_times=False)
                if not _has_dates(undated):  # nothing but these is at fault
                    text = f"times are read as numbers, not dates: {str(error).partition('. ')[0]}."
                    warn(text, SuspiciousDataWarning, remedy="Change these units.")
                    return undated
        raise DamagedFileError(
            f"{path.name} cannot be opened: it is truncated, damaged or of another format, or a "
            "package is missing (NetCDF needs netCDF4, Zarr needs zarr, GRIB needs cfgrib). "
            f"{type(error).__name__}: {str(error)[:200]}."
        ) from error


def _has_dates(ds: xarray.Dataset) -> bool:
    """Whether the times of a dataset, read as numbers, are dates by their units."""
    xarray = extra("xarray", "Reading datasets")
    try:
        xarray.decode_cf(ds)
    except (ValueError, OverflowError):
        return False
    return True


def _refuse_truncated(path: Path) -> None:
    """Refuse truncated files of classic NetCDF: xarray would read what they lack as zeros."""
    with path.open("rb") as file:
        is_classic = file.read(4) in CLASSIC_NETCDF
    if is_classic:
        netcdf_file(path, mmap=False).close()
