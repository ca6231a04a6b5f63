"""Numbers of files mean what the file says: a missing cell is never a number, and components have
one unit."""

import warnings
from itertools import product

import meshio
import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from pairwise import all_pairs

import tangentbundle.interop.xarray  # noqa: F401
from tangentbundle.datasets import load_wind
from tangentbundle.errors import (
    InvalidInputError,
    MissingValuesNote,
    NonFiniteError,
    TangentBundleError,
    UnitsError,
)
from tangentbundle.io import Request, read_field, write_field
from tangentbundle.io.meshes import from_meshio
from tangentbundle.spaces import Globe
from tangentbundle.units import conversion
from tangentbundle.winds import without_impossible

LAT, LON = np.repeat([-50.0, -10.0, 20.0, 60.0], 6), np.tile(np.arange(0.0, 360.0, 60.0), 4)
NUMBERS = np.arange(1, 49).reshape(2, 24)
"""Components that no marker of missing values equals, after any packing used here."""
HOLE = 7
"""The cell of both components that is missing."""
XYZ = np.stack([np.cos(np.radians(LAT)) * np.cos(np.radians(LON)), LON, LAT], axis=1)
LAYOUTS = ("grid", "stations", "cloud")


def never_a_number(read, dropped=True):
    """Whatever is read is something that was written; the hole is left out, or the file is refused
    by name."""
    try:
        field = read()
    except (NonFiniteError, InvalidInputError) as error:
        assert not dropped or "not decoded" in str(error), error
        assert any(word in str(error) for word in ("missing", "finite", "not decoded")), error
        return
    assert len(field.space) == 23 and field.values.shape == (1, 23, len(field.names)), field.notes
    expected = np.delete(NUMBERS, HOLE, axis=1)
    for k, name in enumerate(field.names[:2]):
        assert np.allclose(np.sort(field.values[0, :, k]), expected[k], atol=0.01), name


def in_every_way(path):
    """The readers of one dataset: as a file, with rows left out, through the accessor, and as
    wind."""
    for request in (Request(), Request(drop_missing=True)):
        never_a_number(lambda request=request: read_field(path, request), request.drop_missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xr.open_dataset(path) as ds:
            never_a_number(lambda: ds.load().tangentbundle.field(drop_missing=True))
            raw = xr.open_dataset(path, mask_and_scale=False).load()
    never_a_number(lambda: raw.tangentbundle.field(drop_missing=True))


class Marks:
    """How a cell of a dataset is marked as missing: attributes, and what is stored in the hole, if
    it is written."""

    def __init__(self, stored=None, **attributes):
        self.stored, self.attributes = stored, attributes

    def apply(self, variable, numbers):
        """Write the numbers and the hole, first without interpretation."""
        scale, offset = (
            self.attributes.get(k, d) for k, d in (("scale_factor", 1), ("add_offset", 0))
        )
        packed = np.rint((numbers - offset) / scale)
        for name, value in self.attributes.items():
            if name != "_FillValue":
                variable.setncattr(name, value)
        cells = packed.reshape(variable.shape)
        where = np.unravel_index(HOLE, variable.shape)
        variable.set_auto_maskandscale(False)
        keep = np.ones(variable.shape, bool)
        keep[where] = False
        for index in zip(*np.nonzero(keep), strict=True):
            variable[index] = cells[index]
        if self.stored is not None:
            variable[where] = self.stored


PACKING = {"scale_factor": 0.5, "add_offset": 0.5}
FILLS = {kind: fill for kind, fill in netCDF4.default_fillvals.items() if kind[0] in "iuf"}


def marks(kind):
    integer = kind[0] in "iu"
    own = np.dtype(kind).type(99)
    found = {
        "never written": Marks(),
        "default written": Marks(FILLS[kind]),
        "_FillValue": Marks(own, _FillValue=own),
        "_FillValue never written": Marks(_FillValue=own),
        "missing_value": Marks(own, missing_value=own),
        "missing_value never written": Marks(missing_value=own),
    }
    if integer:
        found["packed, never written"] = Marks(**PACKING)
        found["packed, _FillValue"] = Marks(own, _FillValue=own, **PACKING)
    else:
        found["NaN"] = Marks(np.nan)
    return found


CASES = [(layout, kind, how) for layout in LAYOUTS for kind in FILLS for how in marks(kind)]


@pytest.mark.parametrize(
    "layout, kind, how", [c for c in CASES if c[0] == "grid" or c[1] in ("i2", "u1", "f4")]
)
def test_a_missing_cell_of_netcdf_is_never_a_number(layout, kind, how, tmp_path):
    """Every type of NetCDF, every marker, packed or not, on a grid, at stations, and in a cloud of
    points."""
    mark = marks(kind)[how]
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        if layout == "grid":
            for name, values in (("lat", np.unique(LAT)), ("lon", np.unique(LON))):
                file.createDimension(name, len(values))
                file.createVariable(name, "f8", (name,))[:] = values
            dims, names = ("lat", "lon"), ("u", "v")
        else:
            file.createDimension("point", 24)
            columns = (
                {"lat": LAT, "lon": LON}
                if layout == "stations"
                else dict(zip("xyz", XYZ.T, strict=True))
            )
            for name, values in columns.items():
                file.createVariable(name, "f8", ("point",))[:] = values
            dims, names = ("point",), ("u", "v") if layout == "stations" else ("vx", "vy", "vz")
        for name, numbers in zip(names, [*NUMBERS, NUMBERS[0]], strict=False):
            fill = mark.attributes.get("_FillValue")
            mark.apply(file.createVariable(name, kind, dims, fill_value=fill), numbers)
    in_every_way(tmp_path / "a.nc")
    if layout != "cloud":
        with xr.open_dataset(tmp_path / "a.nc") as ds:
            dated = ds.load().expand_dims(time=[np.datetime64("2026-01-01", "ns")])
        for name in names:
            dated[name].encoding = ds[name].encoding
        try:
            wind = load_wind(dated)
        except TangentBundleError:
            return
        assert len(wind.lat) == 23 and wind.components.max() <= 48


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("fill", [np.nan, -9999.0, FILLS["f8"]])
@pytest.mark.parametrize("written", [True, False])
def test_a_missing_cell_of_zarr_is_never_a_number(version, fill, written, tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    for name, numbers in zip(("lat", "lon", "u", "v"), (LAT, LON, *NUMBERS), strict=True):
        more = (
            {"dimension_names": ("point",)}
            if version == 3
            else {"attributes": {"_ARRAY_DIMENSIONS": ["point"]}}
        )
        array = group.create_array(
            name, shape=(24,), chunks=(1,), dtype="f8", fill_value=fill, **more
        )
        for k, number in enumerate(numbers):
            if k != HOLE or name in ("lat", "lon"):
                array[k] = number
        if written and name in ("u", "v"):
            array[HOLE] = fill
    in_every_way(tmp_path / "a.zarr")


TEXT = (
    "",
    "NA",
    "N/A",
    "NaN",
    "nan",
    "null",
    "NULL",
    "#N/A",
    "inf",
    "-inf",
    "1e999",
    repr(FILLS["f8"]),
)


@pytest.mark.parametrize("marker", TEXT)
def test_a_missing_cell_of_text_is_never_a_number(marker, tmp_path):
    u, v = (numbers.astype(object) for numbers in NUMBERS)
    u[HOLE] = v[HOLE] = marker
    rows = "".join(",".join(map(str, row)) + "\n" for row in zip(LAT, LON, u, v, strict=True))
    (tmp_path / "a.csv").write_text("lat,lon,u,v\n" + rows)
    for request in (Request(), Request(drop_missing=True)):
        never_a_number(
            lambda request=request: read_field(tmp_path / "a.csv", request), request.drop_missing
        )


@pytest.mark.parametrize("marker", [np.nan, np.inf, FILLS["f4"]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("file", ["a.parquet", "columns.npz", "points.npz", "a.vtk", "a.ply"])
def test_a_missing_number_of_other_files_is_never_a_number(file, dtype, marker, tmp_path):
    values = np.stack([*NUMBERS, NUMBERS[0]], axis=1).astype(dtype)
    values[HOLE] = marker
    points, path = XYZ.astype(dtype), tmp_path / file
    if file == "points.npz":
        np.savez(path, points=points, vectors=values)
    elif file == "columns.npz":
        np.savez(
            path,
            **dict(zip(("x", "y", "z", "vx", "vy", "vz"), [*points.T, *values.T], strict=True)),
        )
    elif file == "a.parquet":
        pd.DataFrame(np.c_[points, values], columns=["x", "y", "z", "vx", "vy", "vz"]).to_parquet(
            path
        )
    else:
        data = dict(zip(("vx", "vy", "vz"), values.T.copy(), strict=True))
        meshio.write(
            path, meshio.Mesh(points, [("vertex", np.arange(24)[:, None])], point_data=data)
        )
    for request in (Request(), Request(drop_missing=True)):
        never_a_number(lambda request=request: read_field(path, request), request.drop_missing)


@pytest.mark.parametrize("marker", [999.0, -999.9, 9999.0, -9999.0, 32767.0, 1e20, -1e34])
@pytest.mark.parametrize("suffix", ["csv", "nc"])
def test_speeds_that_no_wind_has_are_missing(suffix, marker, tmp_path):
    u, v = NUMBERS.astype(float)
    u[HOLE] = v[HOLE] = marker
    columns = {"lat": LAT, "lon": LON, "u [m/s]": u, "v [m/s]": v}
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    stations = {
        name[0]: ("point", columns[name], {"units": "m/s"}) for name in ("u [m/s]", "v [m/s]")
    }
    xr.Dataset(stations, {"lat": ("point", LAT), "lon": ("point", LON)}).to_netcdf(
        tmp_path / "a.nc"
    )
    path = tmp_path / f"a.{suffix}"
    never_a_number(lambda: read_field(path), dropped=False)
    field = read_field(path, Request(drop_missing=True))
    assert len(field.space) == 23 and any(
        isinstance(note, MissingValuesNote) and "1 vectors above 500 m/s" in note.problem
        for note in field.notes
    )


# Units.

SPEEDS = {
    1.0: (
        "m/s",
        "m s-1",
        "m s**-1",
        "m s^-1",
        "ms-1",
        "m.s-1",
        "meters per second",
        "M/S",
        "metre second-1",
    ),
    1852 / 3600: ("kn", "kt", "knots", "nmi/h", "nautical miles per hour"),
    1 / 3.6: ("km/h", "km h-1", "kmh", "kilometers/hour"),
    0.01: ("cm/s", "cm s-1"),
    0.3048: ("ft/s", "feet per second"),
    0.44704: ("mph", "mi/h"),
}
UNITS = {unit: size for size, units in SPEEDS.items() for unit in units}
WRITTEN = ["m/s", "m s-1", "knots", "km/h", "cm/s", "mph"]
PAIRS = list(product(WRITTEN, repeat=2))


def test_every_pair_of_units():
    for (a, one), (b, other) in product(UNITS.items(), repeat=2):
        assert conversion(a, b) == pytest.approx(one / other, rel=1e-15), (a, b)
    for unit in ("K", "V/m", "m s-2", "ms", "1", "", "Mm/s", "min-1", "m2/s"):
        assert conversion(unit, unit) == 1.0 and conversion(unit, "m/s") is None is conversion(
            "m/s", unit
        )
    assert conversion("km", "m") == 1000 and conversion("m", "m/s") is None


def write_with_units(path, units):
    """The wind NUMBERS in m/s, each component in a unit of its own, as a file of a format."""
    u, v = (numbers / UNITS.get(unit, 1.0) for numbers, unit in zip(NUMBERS, units, strict=True))
    names = [f"{name} [{unit}]" if unit else name for name, unit in zip("uv", units, strict=True)]
    columns = {"lat": LAT, "lon": LON, names[0]: u, names[1]: v}
    attributes = [{"units": unit} if unit else {} for unit in units]
    if path.suffix in (".csv", ".parquet"):
        getattr(pd.DataFrame(columns), f"to_{path.suffix[1:]}")(path, index=False)
    elif path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        stations = {"u": ("point", u, attributes[0]), "v": ("point", v, attributes[1])}
        ds = xr.Dataset(stations, {"lat": ("point", LAT), "lon": ("point", LON)})
        if path.stem.endswith("grid"):
            cells = {n: (("lat", "lon"), ds[n].values.reshape(4, 6), ds[n].attrs) for n in "uv"}
            ds = xr.Dataset(cells, {"lat": np.unique(LAT), "lon": np.unique(LON)})
        ds.to_netcdf(path) if path.suffix == ".nc" else ds.to_zarr(path, zarr_format=2)
    return path


FORMATS = ("a.csv", "a.parquet", "a.npz", "a.nc", "grid.nc", "a.zarr")


@pytest.mark.parametrize("file, one, other", all_pairs(FORMATS, WRITTEN, WRITTEN))
def test_components_are_converted_to_one_unit(file, one, other, tmp_path):
    """Read, doubled and written back: the numbers are those that the units of the output say."""
    field = read_field(write_with_units(tmp_path / file, (one, other)))
    order = np.lexsort([field.space.lon, field.space.lat])
    assert field.units == one and np.allclose(field.values[0, order].T * UNITS[one], NUMBERS)
    assert any("converted" in note.problem for note in field.notes) == (UNITS[one] != UNITS[other])
    write_field(field.with_vectors(2 * field.vectors), tmp_path / f"again-{file}")
    again = read_field(tmp_path / f"again-{file}")
    order = np.lexsort([again.space.lon, again.space.lat])
    assert np.allclose(again.values[0, order].T * UNITS[again.units], 2 * NUMBERS)


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")
@pytest.mark.parametrize("units", PAIRS[::5])
def test_the_accessor_and_the_wind_convert_too(units, tmp_path):
    with xr.open_dataset(write_with_units(tmp_path / "grid.nc", units)) as ds:
        ds = ds.load()
    same = ds.tangentbundle.smooth("1 m")
    there = ds.tangentbundle.interpolate_to(xr.Dataset(coords=ds.coords))
    for made, tolerance in ((same, 1e-9), (there, 1e-9)):
        for name, numbers in zip("uv", NUMBERS, strict=True):
            speeds = made[name].values.ravel() * UNITS[made[name].attrs["units"]]
            assert np.allclose(speeds, numbers, rtol=tolerance, atol=tolerance)
    wind = load_wind(ds.expand_dims(time=[np.datetime64("2026-01-01", "ns")]))
    assert np.allclose(wind.components[0, np.lexsort([wind.lon, wind.lat])].T, NUMBERS)


@pytest.mark.parametrize("file", FORMATS)
def test_unknown_units(file, tmp_path):
    """Equal ones pass, different ones are refused, and a component without a unit has that of the
    other."""
    field = read_field(
        write_with_units(tmp_path / file, ("furlong/fortnight", "furlong/fortnight"))
    )
    assert field.units == "furlong/fortnight" and isinstance(field.space, Globe)
    for pair in (("furlong/fortnight", "m/s"), ("m/s", "K"), ("m", "m/s"), ("V/m", "mV/m")):
        path = write_with_units(tmp_path / f"{hash(pair)}-{file}", pair)
        with pytest.raises(UnitsError, match="one unit"):
            read_field(path)
    field = read_field(write_with_units(tmp_path / f"half-{file}", ("", "km/h")))
    assert field.units == "km/h" and any(
        "u has no unit: km/h assumed" in note.problem for note in field.notes
    )


def test_units_of_meshes():
    data = dict(zip(("vx [m/s]", "vy [km/h]", "vz [m s-1]"), np.ones((3, 24)), strict=True))
    field = from_meshio(meshio.Mesh(XYZ, [], point_data=data), Request())
    assert field.units == "m/s" and np.allclose(field.values[0, 0], [1, 1 / 3.6, 1])


def test_datasets_that_are_not_decoded_are_refused(tmp_path):
    ds = xr.Dataset(
        {n: (("lat", "lon"), np.ones((4, 6), "i2"), {"scale_factor": 0.1}) for n in "uv"}
    )
    with pytest.raises(InvalidInputError, match="decode_cf"):
        ds.assign_coords(lat=np.unique(LAT), lon=np.unique(LON)).tangentbundle.field()


def test_standard_errors_of_stations_in_datasets(tmp_path):
    """A variable ``sigma`` along the places, or one that is named, in the unit of the vectors."""
    columns = {
        "u": NUMBERS[0] * 1.0,
        "v": NUMBERS[1] * 1.0,
        "sigma": np.arange(24.0),
        "err": np.ones(24),
    }
    ds = xr.Dataset({name: ("point", column) for name, column in columns.items()})
    ds = ds.assign_coords(lat=("point", LAT), lon=("point", LON))
    ds["u"].attrs["units"] = ds["v"].attrs["units"] = "m/s"
    ds["err"].attrs["units"] = "km/h"
    ds.to_netcdf(tmp_path / "a.nc")
    assert np.array_equal(read_field(tmp_path / "a.nc").noise, np.arange(24.0))
    assert np.allclose(read_field(tmp_path / "a.nc", Request(sigma="err")).noise, 1 / 3.6)
    with pytest.raises(InvalidInputError, match="no column none"):
        read_field(tmp_path / "a.nc", Request(sigma="none"))


def test_clouds_in_datasets(tmp_path):
    """Integers become float64, and standard errors are converted from the unit of their
    variable."""
    names = ("x", "y", "z", "vx", "vy", "vz")
    columns = np.random.default_rng(0).integers(-99, 99, (6, 24))
    for points, vectors in ((np.int32, np.int16), (np.int16, np.float32), (np.float32, np.float32)):
        kinds = [points] * 3 + [vectors] * 3
        ds = xr.Dataset(
            {n: ("point", c.astype(k)) for n, c, k in zip(names, columns, kinds, strict=True)}
        )
        ds = ds.assign(sigma=("point", np.full(24, 36), {"units": "km/h"}))
        for name in names[3:]:
            ds[name].attrs["units"] = "m/s"
        ds.to_netcdf(tmp_path / "a.nc")
        field = read_field(tmp_path / "a.nc")
        assert (
            field.space.points.dtype
            == field.values.dtype
            == (np.float32 if points is np.float32 else np.float64)
        )
        assert np.array_equal(field.values[0].T, columns[3:]) and np.allclose(field.noise, 10.0)


def test_places_with_gaps_in_time_are_left_out_when_asked(tmp_path):
    """Land has no values at any time; a place that lacks some times is refused, or left out."""
    u = np.ones((3, 4, 6))
    u[:, 0, 0] = np.nan
    ds = xr.Dataset({n: (("time", "lat", "lon"), u.copy()) for n in "uv"})
    ds = ds.assign_coords(time=np.arange("2026-01", "2026-04", dtype="M8[M]").astype("M8[ns]"))
    ds = ds.assign_coords(lat=np.unique(LAT)[::-1], lon=np.unique(LON))
    ds.to_netcdf(tmp_path / "land.nc")
    assert read_field(tmp_path / "land.nc").values.shape == (3, 23, 2)
    ds["u"][1, 2, 2] = np.nan
    ds.to_netcdf(tmp_path / "gap.nc")
    with pytest.raises(NonFiniteError, match=r"1 of 69 vectors are missing.*drop_missing=True"):
        read_field(tmp_path / "gap.nc")
    field = read_field(tmp_path / "gap.nc", Request(drop_missing=True))
    assert field.values.shape == (3, 22, 2)
    write_field(field, tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc") as made:
        assert made["u"].shape == (3, 4, 6) and int(made["u"].isnull().sum()) == 6


def test_infinite_winds_are_missing_and_raise_no_other_warning():
    notes = []
    winds = np.array([[np.inf, np.inf], [np.nan, 3.0], [1.0, 2.0], [np.nan, 999.0]])
    expected = [[np.nan, np.nan], [np.nan, 3.0], [1.0, 2.0], [np.nan, np.nan]]
    np.testing.assert_array_equal(without_impossible(winds, "m/s", notes), expected)
    assert "2 vectors" in str(notes[0])
