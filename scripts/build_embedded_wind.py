"""Build the wind series that ships with the package: python scripts/build_embedded_wind.py
monthly_navy_winds.cdf

The input is the US Navy FNOC monthly mean surface wind, 1982 to 1992, of NOAA's Ferret program (a
work of the US government, public domain). Debian carries it: `apt-get download ferret-datasets`,
then `dpkg-deb -x *.deb .` leaves usr/share/ferret-vis/data/monthly_navy_winds.cdf.

Every second row and column of the 2.5 degree grid is kept (5 degrees), nothing is averaged; rows
run from 85 S to 85 N. The rows at the poles are left out because their 144 values are not one
vector: until spring 1987 both components are constant in longitude, from then on they turn with it
the wrong way. Values are rounded to 0.01 m/s. No value is missing in the source, and none is
filled. The output is a classic CF NetCDF file, compressed by xz, which scipy reads without further
packages.
"""

import hashlib
import io
import lzma
import sys
from pathlib import Path

import numpy as np
from scipy.io import netcdf_file

SOURCE_SHA256 = "225a9e4fed7bb1a7b558afb662abbe2dc5e3d3db4100fa019cb994f10b115faa"
TARGET = Path(__file__).parents[1] / "src/tangentbundle/earth/navy_wind.nc.xz"
SCALE, MISSING = 0.01, -99.9
PROVENANCE = (
    "US Navy FNOC monthly mean surface wind, January 1982 to December 1992, public domain, from "
    "NOAA's Ferret (monthly_navy_winds.cdf): every second row and column of the 2.5 degree grid, "
    "without the poles"
)


def read(path: Path) -> dict[str, np.ndarray]:
    raw = path.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    if digest != SOURCE_SHA256:
        raise SystemExit(
            f"{path} has SHA-256 {digest}, expected {SOURCE_SHA256}: this is another version of "
            "the file."
        )
    with netcdf_file(io.BytesIO(raw)) as file:
        return {
            name: np.array(file.variables[name][:], float)
            for name in ("TIME", "FNOCY", "FNOCX", "UWND", "VWND")
        }


def thin(source: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rows -85, -80, ... 85 and columns 0, 5, ... 355."""
    rows = np.flatnonzero((source["FNOCY"] % 5 == 0) & (np.abs(source["FNOCY"]) < 90))
    lon = source["FNOCX"] % 360
    columns = np.argsort(lon)[lon[np.argsort(lon)] % 5 == 0]
    fields = {name: source[name][:, rows][:, :, columns] for name in ("UWND", "VWND")}
    for name, values in fields.items():
        if np.isclose(values, MISSING).any() or np.abs(values).max() > 100:
            raise SystemExit(
                f"{name} has missing or impossible values: look at them before shipping."
            )
    return {"time": source["TIME"], "lat": source["FNOCY"][rows], "lon": lon[columns], **fields}


def write(grid: dict[str, np.ndarray]) -> bytes:
    out = io.BytesIO()
    file = netcdf_file(out, "w")
    file.Conventions, file.title = "CF-1.8", "Monthly mean surface wind"
    file.source, file.source_sha256 = PROVENANCE, SOURCE_SHA256
    file.comment = "Rounded to 0.01 m/s, nothing averaged, nothing filled. Noisy over land."
    units = {
        "time": "hours since 1980-01-14 14:00:00",
        "lat": "degrees_north",
        "lon": "degrees_east",
    }
    for name, unit in units.items():
        file.createDimension(name, len(grid[name]))
        variable = file.createVariable(name, "f8", (name,))
        variable[:], variable.units = grid[name], unit
    for name, key, direction in (("u", "UWND", "eastward"), ("v", "VWND", "northward")):
        variable = file.createVariable(name, "i2", ("time", "lat", "lon"))
        variable[:] = np.rint(grid[key] / SCALE).astype(np.int16)
        variable.scale_factor, variable.units, variable.standard_name = (
            SCALE,
            "m s-1",
            f"{direction}_wind",
        )
    file.flush()
    return out.getvalue()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    content = write(thin(read(Path(sys.argv[1]))))
    TARGET.write_bytes(lzma.compress(content, preset=9))
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes")
