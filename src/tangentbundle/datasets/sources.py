"""Where wind comes from: the series inside the package, NOAA, files, or any xarray dataset."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from scipy.io import netcdf_file

from ..errors import DamagedFileError, InvalidInputError
from .download import check_netcdf, fetch
from .extras import extra
from .grids import from_grid
from .wind import WindData
from .xarrays import from_xarray

if TYPE_CHECKING:
    import xarray

EMBEDDED = Path(__file__).with_name("navy_wind.nc.xz")
EMBEDDED_SHA256 = "f7358b89ec18cfa8bda027df6d489f37f991ed9f841699b967a79a19deb6759e"
"""Of the NetCDF file inside; written by scripts/build_embedded_wind.py."""
PSL = "https://downloads.psl.noaa.gov/Datasets"


@runtime_checkable
class Source(Protocol):
    """Anything that can load wind."""

    def load(self) -> WindData: ...


def load_wind(source: Source | xarray.Dataset | str | Path | None = None) -> WindData:
    """Wind as points, exact frames and vectors on the sphere.

    Args:
        source: ``Embedded()`` (default), ``NCEP(year)``, ``GFSBlocks(folder)``, ``FromFile(path)``, ``FromXarray(ds)``,
            or a bare path or dataset.

    >>> data = load_wind()
    >>> data.components.shape, data.points.shape, data.frames.shape
    ((132, 2520, 2), (2520, 3), (2520, 3, 2))
    >>> data.provenance[:46]
    'US Navy FNOC monthly mean surface wind, Januar'
    """
    if source is None:
        source = Embedded()
    elif isinstance(source, str | Path):
        source = FromFile(source)
    elif hasattr(source, "data_vars"):  # a dataset, which has a load() of its own
        source = FromXarray(source)
    if not isinstance(source, Source) or isinstance(source, type):
        raise InvalidInputError(
            f"expected a source of wind, got {source!r}. Use Embedded(), NCEP(2016), GFSBlocks(folder), "
            "FromFile(path), FromXarray(ds), or any object with a method load()."
        )
    return source.load()


@dataclass(frozen=True)
class Embedded:
    """US Navy FNOC monthly mean surface wind, 1982 to 1992, 5 degrees, 85 S to 85 N; inside the package.

    132 months, 2 520 points, nothing missing, public domain; rounded to 0.01 m/s, noisy over land.
    """

    def load(self) -> WindData:
        content = lzma.decompress(EMBEDDED.read_bytes())
        if (digest := hashlib.sha256(content).hexdigest()) != EMBEDDED_SHA256:
            raise DamagedFileError(
                f"{EMBEDDED} has SHA-256 {digest}, expected {EMBEDDED_SHA256}. Reinstall the package."
            )
        with netcdf_file(io.BytesIO(content)) as file:
            hours, lat, lon = (np.array(file.variables[name][:], np.float64) for name in ("time", "lat", "lon"))
            u, v = (file.variables[name][:] * file.variables[name].scale_factor for name in "uv")
            provenance = file.source.decode()
        start = np.datetime64("1980-01-14T14:00:00", "s")
        times = start + np.rint(hours * 3600).astype("timedelta64[s]")
        return from_grid(times, lat, lon, u, v, provenance)


@dataclass(frozen=True)
class FromXarray:
    """Any dataset with eastward and northward wind, dates, latitude and longitude; speeds are converted to m/s.

    The variables are found by standard name (``eastward_wind``, ``northward_wind``), then by usual names such as u10,
    uwnd or u; coordinates by standard name, units, or name. ``u`` and ``v`` name the variables where that fails.
    """

    ds: Any
    u: str | None = None
    v: str | None = None
    provenance: str = ""

    def load(self) -> WindData:
        attrs = self.ds.attrs
        told = "; ".join(str(attrs[key]) for key in ("title", "source") if attrs.get(key))
        return from_xarray(self.ds, self.provenance or told or "an xarray dataset", self.u or "", self.v or "", "m/s")


@dataclass(frozen=True)
class FromFile:
    """A NetCDF, Zarr or GRIB file, or whatever else xarray can open."""

    path: str | Path
    u: str | None = None
    v: str | None = None

    def load(self) -> WindData:
        with open_dataset(Path(self.path)) as ds:
            told = ds.attrs.get("title") or ds.attrs.get("source")
            provenance = f"{Path(self.path).name}: {told}" if told else Path(self.path).name
            return FromXarray(ds, self.u, self.v, provenance).load()


@dataclass(frozen=True)
class GFSBlocks:
    """Six-hourly 10 m analyses of NOAA/NCEP's GFS, 2.5 degrees, from files gfs_10m_2p5deg_6h_block*.nc.

    The folder is the one given, or that of the environment variable ``TANGENTBUNDLE_WIND``, or ``shared/data/wind``
    beside the repository. Four single analyses are missing: they are filled in and flagged.
    """

    folder: str | Path | None = None
    blocks: tuple[str, ...] = ("A", "B")

    def load(self) -> WindData:
        xarray, folder = extra("xarray", "GFSBlocks"), wind_folder(self.folder)
        parts = []
        for block in self.blocks:
            with open_dataset(folder / f"gfs_10m_2p5deg_6h_block{block}.nc") as ds:
                parts.append(ds.load())
        joined = xarray.concat(parts, "time", data_vars="minimal", coords="minimal", compat="equals", join="exact")
        blocks = " and ".join(self.blocks)
        return FromXarray(joined, provenance=f"NOAA/NCEP GFS 10 m wind analyses, 2.5 degrees, blocks {blocks}").load()


def wind_folder(folder: str | Path | None = None) -> Path:
    """The folder of the GFS blocks: the one given, else ``TANGENTBUNDLE_WIND``, else shared/data/wind."""
    named = folder or os.environ.get("TANGENTBUNDLE_WIND")
    path = Path(named).expanduser() if named else Path(__file__).parents[4] / "shared/data/wind"
    if not path.is_dir():
        raise InvalidInputError(
            f"expected a folder of GFS blocks, but {path} is none. Pass GFSBlocks(folder), or set TANGENTBUNDLE_WIND."
        )
    return path


@dataclass(frozen=True)
class Product:
    """Files of the NCEP/NCAR reanalysis: folder on the server, middle of the file names, rows and columns."""

    folder: str
    stem: str
    shape: tuple[int, int]


SIGMA995 = Product("surface", "sig995", (73, 144))
"""Near the surface (sigma level 0.995), 2.5 degrees, 73 x 144: the paper's grid of 10 512 points."""
TEN_METRES = Product("surface_gauss", "10m.gauss", (94, 192))
"""10 m above the ground, Gaussian grid."""
MAX_SPEED = 150.0
"""m/s; no daily mean near the ground comes near it."""


@dataclass(frozen=True)
class NCEP:
    """Daily means of the NCEP/NCAR reanalysis of one year, downloaded from NOAA PSL on first use.

    >>> NCEP(2016).product.stem
    'sig995'
    """

    year: int
    product: Product = SIGMA995
    cache: str | Path | None = None
    mirror: str | None = None

    def load(self) -> WindData:
        xarray = extra("xarray", "NCEP")
        paths = fetch_ncep(self.year, self.product, cache=self.cache, mirror=self.mirror)
        with open_dataset(paths[0]) as east, open_dataset(paths[1]) as north:
            both = xarray.Dataset({"uwnd": east["uwnd"], "vwnd": north["vwnd"]})
            provenance = f"NCEP/NCAR reanalysis, daily means of {self.year}, {self.product.stem}, NOAA PSL"
            return FromXarray(both, "uwnd", "vwnd", provenance).load()


def fetch_ncep(
    year: int, product: Product = SIGMA995, *, sha256: tuple[str | None, str | None] = (None, None), **options: Any
) -> tuple[Path, Path]:
    """Paths of the eastward and northward files of a year; ``options`` are those of ``download.fetch``.

    NOAA publishes no checksums: files are checked by variable, grid, dates and range; pass ``sha256`` to pin them.
    Set ``TANGENTBUNDLE_DATA_MIRROR`` to the address of a mirror or to a folder of files already downloaded.
    """
    if isinstance(year, bool) or not isinstance(year, int | np.integer) or not 1948 <= year <= 2100:
        raise InvalidInputError(f"the reanalysis begins in 1948: expected a year from then on, got {year!r}.")
    bases = [f"{PSL}/ncep.reanalysis/Dailies/{product.folder}", f"{PSL}/ncep.reanalysis.dailyavgs/{product.folder}"]

    def component(name: str, known: str | None) -> Path:
        check = partial(check_daily_means, name=name, shape=product.shape, year=int(year))
        return fetch(f"{name}.{product.stem}.{year}.nc", bases, sha256=known, check=check, **options)

    return component("uwnd", sha256[0]), component("vwnd", sha256[1])


def check_daily_means(path: Path, name: str, shape: tuple[int, int], year: int) -> None:
    """Refuse a file without the daily means of one component of wind in one year, on a grid of that shape."""
    with open_dataset(path) as ds:
        sizes = tuple(ds[name].sizes.values()) if name in ds else ()
        wanted = np.datetime64(f"{year}-01-01", "D") + np.arange(sizes[0] if sizes else 0)
        daily = len(wanted) <= 366 and np.array_equal(ds["time"].values.astype("datetime64[D]"), wanted)
        largest = float(abs(ds[name]).max()) if daily else np.nan
    if sizes[1:] != shape or not daily or not largest < MAX_SPEED:
        raise DamagedFileError(
            f"{path.name}: expected {name} on {shape} points, daily from {year}-01-01, below {MAX_SPEED:g} m/s, got "
            f"shape {sizes}, {'daily' if daily else 'other times'}, up to {largest:.4g}. Delete it and fetch it anew."
        )


def open_dataset(path: Path) -> xarray.Dataset:
    """A dataset of a file, whatever xarray can open."""
    xarray = extra("xarray", "Reading files of wind")
    path = path.expanduser()
    if not path.exists():
        raise InvalidInputError(f"expected a file of wind, but {path} does not exist. Check the path.")
    if path.suffix in (".nc", ".cdf", ".nc4"):
        check_netcdf(path)
    try:
        return xarray.open_dataset(path)
    except (ValueError, OSError, ImportError) as error:
        raise InvalidInputError(
            f"xarray cannot open {path} ({type(error).__name__}: {str(error).splitlines()[0]}). NetCDF needs netCDF4, "
            "Zarr needs zarr, GRIB needs cfgrib: install what is missing, or open it yourself and pass FromXarray(ds)."
        ) from error
