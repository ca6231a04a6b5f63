"""Wind from xarray datasets and files, and the GFS analyses where they are at hand."""

import re
from pathlib import Path

import numpy as np
import pytest

import tangentbundle
import tangentbundle_cli
from tangentbundle import errors
from tangentbundle.datasets import load_wind, regular, wind_folder

xarray = pytest.importorskip("xarray", reason="needs the extra `data`")
pytest.importorskip("netCDF4", reason="needs the extra `data`")

LAT, LON = np.linspace(80, -80, 9), np.arange(0, 360, 20.0)
DAYS = np.datetime64("2026-01-01", "ns") + np.arange(4) * np.timedelta64(1, "D")
U, V = np.random.default_rng(0).normal(size=(2, 4, 9, 18))


def dataset(u="u10", v="v10", lat="lat", lon="lon", time="time", attrs=()):
    ds = xarray.Dataset(
        {u: ((time, lat, lon), U), v: ((time, lat, lon), V)},
        {time: DAYS, lat: LAT, lon: LON},
        {"title": "Made up"},
    )
    for name, values in dict(attrs).items():
        ds[name].attrs.update(values)
    return ds


def same_wind(data, atol=0.0):
    """Every grid point has its own wind, whatever the order."""
    rows = np.rint((80 - data.lat) / 20).astype(int)
    columns = np.rint(data.lon % 360 / 20).astype(int) % 18
    assert len({*zip(rows, columns, strict=True)}) == 9 * 18 == len(data.lat)
    assert np.allclose(data.components[..., 0], U[:, rows, columns], atol=atol, rtol=0)
    assert np.allclose(data.components[..., 1], V[:, rows, columns], atol=atol, rtol=0)
    assert np.array_equal(data.times, DAYS)


CF = {"a": {"standard_name": "eastward_wind"}, "b": {"standard_name": "northward_wind"}}
PLACES = {"y": {"standard_name": "latitude"}, "x": {"standard_name": "longitude"}}
UNITS = {"FNOCY": {"units": "degrees_north"}, "FNOCX": {"units": "degrees_east"}}


@pytest.mark.parametrize(
    "ds",
    [
        dataset(),
        dataset("UWND", "VWND", "latitude", "longitude"),
        dataset("a", "b", attrs=CF),
        dataset("u", "v", "y", "x", attrs=PLACES),
        dataset("uwnd", "vwnd", "FNOCY", "FNOCX", "TIME", attrs=UNITS),
        dataset().transpose("lon", "lat", "time"),
        dataset().isel(lat=slice(None, None, -1)),
        dataset().assign_coords(lon=(LON + 180) % 360 - 180).roll(lon=9, roll_coords=True),
        dataset().isel(time=[2, 0, 3, 1]),
        dataset().expand_dims(height=[10.0]),
        dataset().assign(gust=("time", np.zeros(4)), z=(("time", "lat", "lon"), U)),
    ],
    ids=[
        "names",
        "capitals",
        "standard",
        "places",
        "units",
        "axes",
        "ascending",
        "west",
        "unsorted",
        "level",
        "others",
    ],
)
def test_a_dataset_is_reproduced_exactly(ds):
    same_wind(load_wind(ds))


def test_names_can_be_given():
    ds = dataset("zonal", "meridional")
    same_wind(load_wind(ds, u="zonal", v="meridional"))
    with pytest.raises(
        errors.InvalidInputError, match=r"the dataset has zonal, meridional. Name them"
    ):
        load_wind(ds)


def test_two_heights_are_told_apart_by_name():
    ds = dataset(attrs={"u10": CF["a"], "v10": CF["b"]})
    ds["u100"], ds["v100"] = ds["u10"] * 2, ds["v10"] * 2
    ds["u100"].attrs, ds["v100"].attrs = CF["a"], CF["b"]
    same_wind(load_wind(ds))


def test_a_single_field_has_its_date():
    data = load_wind(dataset().isel(time=1))
    assert np.array_equal(data.times, DAYS[1:2]) and data.components.shape == (1, 162, 2)
    with pytest.raises(errors.InvalidInputError, match="no date"):
        load_wind(dataset().isel(time=1, drop=True))


@pytest.mark.parametrize(
    "ds, match",
    [
        (dataset(lat="row"), "coordinate of latitude"),
        (xarray.concat([dataset(), dataset()], "member"), "2 values along 'member'"),
        (xarray.Dataset(), "the dataset has none"),
        (dataset().assign_coords(lat=LAT * 2), "swapped"),
        (dataset().assign(v10=dataset().v10.isel(lon=0)), "lie on one grid"),
    ],
)
def test_what_cannot_be_read_is_refused(ds, match):
    with pytest.raises(errors.InvalidInputError, match=match):
        load_wind(ds)


def test_points_and_curvilinear_grids():
    phi, lam = np.meshgrid(LAT, LON, indexing="ij")
    ds = xarray.Dataset(
        {"u": (("time", "y", "x"), U), "v": (("time", "y", "x"), V)},
        {"time": DAYS, "lat": (("y", "x"), phi), "lon": (("y", "x"), lam)},
    )
    data = load_wind(ds)
    same_wind(data)
    assert np.allclose(data.area, 1 / 162)  # areas unknown: equal shares


def test_its_own_dataset_is_read_back(tmp_path):
    data = load_wind(dataset().isel(time=[0, 1, 3]))
    assert np.flatnonzero(data.filled) == [2]
    data.dataset.to_netcdf(tmp_path / "wind.nc")
    for again in (
        load_wind(data.dataset),
        load_wind(tmp_path / "wind.nc"),
        load_wind(str(tmp_path / "wind.nc")),
    ):
        for name in ("times", "lat", "lon", "components"):
            assert np.array_equal(getattr(again, name), getattr(data, name))


def test_packed_files_are_unpacked(tmp_path):
    packed = {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -32768}
    dataset().to_netcdf(tmp_path / "wind.nc", encoding={"u10": packed, "v10": packed})
    data = load_wind(tmp_path / "wind.nc")
    same_wind(data, atol=0.005001)
    assert data.provenance == "wind.nc: Made up"


def test_files_that_cannot_be_opened(tmp_path, monkeypatch):
    (tmp_path / "wind.grib").write_bytes(b"GRIB nonsense")
    with pytest.raises(errors.DamagedFileError, match="GRIB needs cfgrib"):
        load_wind(tmp_path / "wind.grib")
    monkeypatch.setenv("TANGENTBUNDLE_WIND", str(tmp_path / "nowhere"))
    with pytest.raises(errors.InvalidInputError, match="TANGENTBUNDLE_WIND"):
        wind_folder()


def test_an_installed_package_never_looks_above_itself(monkeypatch):
    monkeypatch.delenv("TANGENTBUNDLE_WIND", raising=False)
    with pytest.raises(errors.InvalidInputError, match="Set TANGENTBUNDLE_WIND"):
        wind_folder()
    for package in (tangentbundle, tangentbundle_cli):
        for file in Path(package.__file__).parent.rglob("*.py"):
            assert not re.search(
                r"\.parents\b|\.parent\.parent|__file__.*\.\.", file.read_text()
            ), file


# The real analyses; they are not in the repository.


@pytest.fixture(scope="module")
def folder():
    try:
        return wind_folder()
    except errors.InvalidInputError as error:
        pytest.skip(f"the GFS analyses are not at hand: {error}")


@pytest.fixture(scope="module")
def gfs(folder):
    return load_wind(folder / "gfs_10m_2p5deg_6h_block?.nc")


def test_gfs_blocks(folder, gfs):
    data = gfs
    missing = ["2026-04-08T00", "2026-07-06T12", "2026-07-09T06", "2026-08-06T12"]
    assert np.array_equal(data.times[data.filled], np.array(missing, "datetime64[ns]"))
    assert [s.stop - s.start for s in regular(data.times).segments()] == [175, 190]
    assert (
        len(data.lat) == 73 * 144 - 2 * 143
        and "286 cells at the place of another" in data.provenance
    )  # both poles
    for horizon in (20, 50, 80):
        w = data.windows(horizon)
        assert len(w) == 175 + 190 - 4 * horizon
        assert not data.filled[w.targets[w.scored]].any()
        assert (
            np.ptp(np.concatenate([w.inputs, w.targets], axis=1), axis=1).max() == 2 * horizon - 1
        )
    with xarray.open_dataset(folder / "gfs_10m_2p5deg_6h_blockB.nc") as raw:
        last = raw.isel(time=-1).sel(lat=-40, lon=100, method="nearest")
        here = (data.lat == -40) & (data.lon == 100)
        assert np.allclose(data.components[-1, here], [[last.u10, last.v10]])


def test_gfs_is_smooth_at_the_poles(gfs):
    """A pole's wind is like that around it; with frames turned wrongly it would differ by more than
    its own size."""
    data = gfs.during(slice(0, None, 10))
    for sign in (1, -1):
        pole, ring = data.lat == 90 * sign, data.lat == 87.5 * sign
        difference = data.ambient[:, ring].mean(axis=1) - data.ambient[:, pole][:, 0]
        assert (
            np.linalg.norm(difference, axis=1).mean()
            < 0.5 * np.linalg.norm(data.ambient[:, pole], axis=-1).mean()
        )
