"""People's own files: every format there and back, guesses that are told, and bad files refused in
a sentence."""

import contextlib
import errno
import os
import subprocess
import sys
import warnings
import zipfile
from dataclasses import replace

import meshio
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tangentbundle as tb
from tangentbundle.earth.sources import wind_folder
from tangentbundle.errors import (
    DamagedFileError,
    InvalidInputError,
    MissingColumnsError,
    OutputError,
    ShapeError,
    TangentBundleError,
)
from tangentbundle.geometry.known_frames import latlon_frames
from tangentbundle.io import Field, Request, check_output, read_field, write_field
from tangentbundle.io.checks import distinct_rows
from tangentbundle.io.datasets import from_dataset
from tangentbundle.report import check_report
from tangentbundle.spaces import Cloud, Globe, Mesh

SPHERE = tb.manifolds.Sphere(2)
POINTS = SPHERE.sample(60, seed=0)
VECTORS = SPHERE.gradient_field(POINTS, 2)
LAT, LON = np.degrees(np.arcsin(POINTS[:, 2])), np.degrees(np.arctan2(POINTS[:, 1], POINTS[:, 0]))
RNG = np.random.default_rng(0)
UV = RNG.standard_normal((1, 60, 2))


def octahedron():
    points = np.concatenate([np.eye(3), -np.eye(3)])
    signs = [(a, b, c) for a in (0, 3) for b in (1, 4) for c in (2, 5)]
    faces = np.array([(a, b, c) if (a + b + c) % 2 else (a, c, b) for a, b, c in signs])
    return points, faces


CLOUD = Field(Cloud(POINTS, ("x", "y", "z")), VECTORS[None])
GLOBE = Field(Globe(LAT, LON), UV)
MESH = Field(Mesh(*octahedron()), RNG.standard_normal((1, 6, 3)))


@pytest.mark.parametrize("suffix", [".ply", ".vtk", ".vtu"])
def test_names_with_units_are_written_to_meshes(suffix, tmp_path, capfd):
    (tmp_path / "wind.csv").write_text("lat,lon,u [m/s],v [m/s]\n0,0,1,2\n10,20,3,4\n50,60,5,6\n")
    write_field(read_field(tmp_path / "wind.csv"), tmp_path / f"wind{suffix}")
    assert not any(capfd.readouterr())
    data = meshio.read(tmp_path / f"wind{suffix}").point_data
    np.testing.assert_allclose(data["u" if suffix != ".vtu" else "u [m/s]"].ravel(), [1, 3, 5])


@pytest.mark.parametrize("suffix", ["ply", "vtk"])
def test_archives_are_written_as_meshes(suffix, tmp_path):
    """With the arrays that are numbers at the vertices."""
    points, faces = octahedron()
    others = {
        "labels": np.array([*"abcdef"]),
        "heat": np.arange(6.0),
        "years": np.arange(9),
        "unit": np.float64(2),
    }
    others |= {
        f"t{dtype[-2:]}": np.arange(6, dtype=dtype)
        for dtype in (">f8", ">f4", "f2", ">i2", "i1", "u1", ">i8")
    }
    np.savez(tmp_path / "a.npz", points=points, vectors=points[::-1], triangles=faces, **others)
    write_field(read_field(tmp_path / "a.npz"), tmp_path / f"b.{suffix}")
    again = read_field(tmp_path / f"b.{suffix}")
    assert np.array_equal(again.vectors[0], points[::-1]) and np.array_equal(
        again.space.faces, faces
    )
    data = meshio.read(tmp_path / f"b.{suffix}").point_data
    there = {name for name in others if name not in ("labels", "years", "unit")}
    assert (
        there <= {*data} <= there | {"vectors", "vx", "vy", "vz"} and data["tu1"].dtype == np.uint8
    )
    assert all(np.array_equal(np.ravel(data[name]), np.arange(6)) for name in there)


@pytest.mark.parametrize(
    "suffix",
    ["csv", "parquet", "npz", "nc", "zarr", "vtk", "ply", "PLY", "VTK", "TSV", "vtp", "xdmf"],
)
def test_clouds_come_back(suffix, tmp_path):
    path = tmp_path / f"field.{suffix}"
    write_field(CLOUD, path)
    again = read_field(path)
    assert suffix != "TSV" or path.read_text().startswith("x\ty\tz")
    assert isinstance(again.space, Cloud)
    assert np.array_equal(again.space.points, POINTS) and np.array_equal(
        again.values, VECTORS[None]
    )
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "nc", "zarr"])
def test_globes_come_back(suffix, tmp_path):
    path = tmp_path / f"field.{suffix}"
    write_field(Field(GLOBE.space, UV, units="m s-1"), path)
    again = read_field(path)
    assert isinstance(again.space, Globe)
    assert np.allclose(again.space.points, GLOBE.space.points) and np.allclose(again.values, UV)
    assert again.units == "m s-1"


@pytest.mark.parametrize(
    "suffix", ["ply", "vtk", "vtu", "npz", "vtp", "xdmf", "xmf", "glb", "gltf", "GLB", "VTP"]
)
def test_meshes_come_back(suffix, tmp_path):
    path = tmp_path / f"mesh.{suffix}"
    write_field(MESH, path)
    again = read_field(path)
    assert isinstance(again.space, Mesh) and np.array_equal(again.space.faces, MESH.space.faces)
    assert np.allclose(again.values, MESH.values)


@pytest.mark.parametrize("suffix", ["obj", "stl"])
def test_bare_meshes_are_read_and_hold_no_vectors(suffix, tmp_path):
    points, faces = octahedron()
    meshio.write(tmp_path / f"mesh.{suffix}", meshio.Mesh(points, [("triangle", faces)]))
    for request in (None, Request(needs_vectors=False)):
        field = read_field(tmp_path / f"mesh.{suffix}", request)
        assert len(field.space) == 6 and field.values is None
    with pytest.raises(MissingColumnsError, match="vectors"):
        read_field(tmp_path / f"mesh.{suffix}", Request())
    with pytest.raises(OutputError, match="cannot hold vectors"):
        write_field(MESH, tmp_path / f"out.{suffix}")


def test_tables_keep_other_columns_names_and_units(tmp_path):
    table = pd.DataFrame({"station": [f"s{i}" for i in range(60)], "Lat": LAT, "Lon": LON})
    table["u10 [m/s]"], table["v10 [m/s]"] = UV[0].T
    table.to_csv(tmp_path / "a.csv", index=False, sep=";")
    field = read_field(tmp_path / "a.csv")
    assert field.units == "m/s" and any("guessed" in note.problem for note in field.notes)
    write_field(field.with_vectors(2 * field.vectors), tmp_path / "b.csv")
    again = pd.read_csv(tmp_path / "b.csv", sep=";")
    assert list(again.columns) == list(table.columns) and list(again["station"]) == list(
        table["station"]
    )
    assert np.allclose(again["u10 [m/s]"], 2 * table["u10 [m/s]"])


def test_names_by_option(tmp_path):
    pd.DataFrame(np.c_[POINTS, VECTORS], columns=list("abcdef")).to_csv(
        tmp_path / "a.csv", index=False
    )
    with pytest.raises(MissingColumnsError, match=r"a, b, c, d, e, f.*points="):
        read_field(tmp_path / "a.csv")
    field = read_field(tmp_path / "a.csv", Request(points=("a", "b", "c"), vectors=("d", "e", "f")))
    assert np.allclose(field.vectors[0], VECTORS) and not field.notes
    globe = read_field(tmp_path / "a.csv", Request(latlon=("a", "b"), vectors=("d", "e")))
    assert isinstance(globe.space, Globe)


def test_float32_stays(tmp_path):
    frame = pd.DataFrame(
        np.c_[POINTS, VECTORS].astype(np.float32), columns=["x", "y", "z", "vx", "vy", "vz"]
    )
    frame.to_parquet(tmp_path / "a.parquet")
    field = read_field(tmp_path / "a.parquet")
    assert field.values.dtype == field.space.points.dtype == np.float32
    write_field(field, tmp_path / "b.parquet")
    assert (pd.read_parquet(tmp_path / "b.parquet").dtypes == np.float32).all()


def test_many_dimensions_and_columns_with_numbers(tmp_path):
    points = RNG.standard_normal((40, 5))
    names = [f"x{i}" for i in range(1, 6)] + [f"v{i}" for i in range(1, 6)]
    pd.DataFrame(np.c_[points, points], columns=names).to_csv(tmp_path / "a.csv", index=False)
    assert read_field(tmp_path / "a.csv").space.points.shape == (40, 5)


def grid(dated=True):
    lat, lon = np.linspace(90, -90, 13), np.arange(0, 360, 30.0)
    u = np.cos(np.radians(lat))[:, None] * np.ones(12)
    attrs = {"standard_name": "eastward_sea_water_velocity", "units": "cm s-1"}
    ds = xr.Dataset(
        {
            "uo": (("lat", "lon"), u, attrs),
            "vo": (("lat", "lon"), 0 * u, {"standard_name": "northward_sea_water_velocity"}),
        },
        {"lat": lat, "lon": lon},
        {"title": "turning"},
    )
    return (
        ds.expand_dims(time=np.array(["2026-01-01", "2026-01-02"], "datetime64[ns]"))
        if dated
        else ds
    )


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_grids_stay_grids(dated, suffix, tmp_path):
    ds, path = grid(dated), tmp_path / f"a.{suffix}"
    ds.to_netcdf(path) if suffix == "nc" else ds.to_zarr(path, zarr_format=2)
    field = read_field(path)
    assert len(field.space) == 11 * 12 + 2 and field.units == "cm s-1" and len(field) == 1 + dated
    assert np.allclose(field.vectors[0], np.cross([0, 0, 1], field.space.points), atol=1e-12)
    write_field(field.with_vectors(field.vectors), tmp_path / f"b.{suffix}")
    with xr.open_dataset(tmp_path / f"b.{suffix}") as again:
        assert dict(again.sizes) == dict(ds.sizes) and again.attrs["title"] == "turning"
        assert (
            np.allclose(again["uo"], ds["uo"], atol=1e-12)
            and again["uo"].attrs["units"] == "cm s-1"
        )


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
@pytest.mark.parametrize("kind", ["grid", "stations", "cloud"])
def test_datasets_keep_other_variables(kind, suffix, tmp_path):
    """As tables do: those along time, too, except where the times are others."""
    ds, place = grid(), ("lat", "lon")
    if kind != "grid":
        ds, place = (
            ds.isel(time=0, lat=slice(1, -1)).stack(site=place).reset_index("site").copy(deep=True),
            ("site",),
        )
        ds = ds.assign_coords(code=("site", [f"s{k}" for k in range(ds.sizes["site"])]))
        ds["uo"][0] = np.nan
    if kind == "cloud":
        points = dict(zip("xyz", latlon_frames(ds.lat.values, ds.lon.values)[0].T, strict=True))
        names = {f"v{a}": ("site", ds.uo.values, {"long_name": a}) for a in "xyz"}
        ds = xr.Dataset(
            {a: ("site", x) for a, x in points.items()} | names,
            {"code": ds.code.variable},
            ds.attrs,
        )
        ds = ds.assign_coords(site=10 * np.arange(ds.sizes["site"]))
    ds = ds.assign(
        height=(place, np.full([ds.sizes[d] for d in place], 7.0), {"units": "m"}), crs=3
    )
    ds = ds.assign(heat=3.0 * ds.uo) if kind == "grid" else ds
    ds.to_netcdf(tmp_path / "a.nc")
    field = read_field(tmp_path / "a.nc", Request(drop_missing=True))
    write_field(field.with_vectors(2 * field.vectors), tmp_path / f"b.{suffix}")
    with xr.open_dataset(tmp_path / f"b.{suffix}") as again:
        assert {*again.variables} == {*ds.variables} - {"time"} | (
            {"time"} if kind != "cloud" else set()
        )
        there = (
            slice(1, None) if kind == "cloud" else slice(None)
        )  # a grid keeps its cells, a cloud has no NaN
        assert (
            again.height.attrs["units"] == "m"
            and again.height.dims == place
            and again.attrs["title"] == "turning"
        )
        if kind != "grid":
            assert again.code.values.tolist() == ds.code.values[there].tolist()
        name = "vx" if kind == "cloud" else "uo"
        np.testing.assert_allclose(again[name], 2 * ds[name].isel({place[0]: there}), atol=1e-9)
    if kind == "grid":
        later = replace(field, times=field.times + np.timedelta64(9, "D"))
        write_field(later, tmp_path / f"c.{suffix}")
        with xr.open_dataset(tmp_path / f"c.{suffix}") as again:
            assert "heat" not in again and "height" in again


def test_times_without_vectors_are_left_out_of_other_variables(tmp_path):
    ds = grid().copy(deep=True)
    ds = ds.assign(heat=3.0 * ds.uo)
    ds["uo"][0] = np.nan
    ds.to_netcdf(tmp_path / "a.nc")
    write_field(read_field(tmp_path / "a.nc"), tmp_path / "b.nc")
    with xr.open_dataset(tmp_path / "b.nc") as again:
        assert again.sizes["time"] == 1
        xr.testing.assert_allclose(again.heat, ds.heat[1:])


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
@pytest.mark.parametrize("unit", ["degree", "radian"])
def test_datasets_of_speed_and_direction_stay_so(unit, suffix, tmp_path):
    ds, west = grid(dated=False).isel(lat=slice(1, -1)), 270 if unit == "degree" else 1.5 * np.pi
    speed, said = xr.full_like(ds.uo, 5.0), {"standard_name": "wind_from_direction", "units": unit}
    ds = xr.Dataset(
        {"ff": speed.assign_attrs(units="kt"), "dd": (speed.dims, 0 * speed.values + west, said)}
    )
    ds.to_netcdf(tmp_path / "a.nc")
    field = read_field(tmp_path / "a.nc")
    write_field(field.with_vectors(2 * field.vectors), tmp_path / f"b.{suffix}")
    with xr.open_dataset(tmp_path / f"b.{suffix}") as again:
        assert (
            {*again.data_vars} == {"ff", "dd"}
            and again.dd.attrs == said
            and again.ff.attrs["units"] == "kt"
        )
        assert np.allclose(again.ff, 10) and np.allclose(again.dd, west)
    assert np.allclose(field.values, [5, 0])
    with pytest.raises(InvalidInputError, match="wind_to_direction"):
        from_dataset(ds.assign(dd=ds.dd.assign_attrs(standard_name="wind_to_direction")), Request())


def written(ds, kind, path):
    """A dataset as a file of some kind: classic, compressed and packed, Zarr of both versions."""
    packed = {
        name: {"dtype": "i2", "scale_factor": 1e-4, "_FillValue": -32768} for name in ds.data_vars
    }
    chunks = {name: {"chunks": (1, 5, 5)[-ds[name].ndim :]} for name in ds.data_vars}
    if kind.startswith("NETCDF"):
        ds.to_netcdf(path, format=kind)
    elif kind == "packed":
        squeezed = {name: {**how, "zlib": True, "complevel": 4} for name, how in packed.items()}
        ds.to_netcdf(path, encoding=squeezed | {"lat": {"dtype": "f4", "zlib": True}})
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of zarr, about consolidated metadata
            ds.to_zarr(
                path,
                zarr_format=int(kind[-1]),
                encoding=packed if kind == "packed Zarr 2" else chunks,
            )


@pytest.mark.parametrize("suffix", ["nc", "zarr", "csv", "parquet", "npz"])
@pytest.mark.parametrize(
    "kind",
    ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF4", "packed", "Zarr 2", "packed Zarr 2", "Zarr 3"],
)
def test_every_kind_of_dataset_is_written_in_every_format(kind, suffix, tmp_path):
    ds = grid().isel(lat=slice(1, -1))
    source = tmp_path / ("in.zarr" if "Zarr" in kind else "in.nc")
    written(ds, kind, source)
    field = read_field(
        source, Request(select={"time": "2026-01-01"} if suffix in ("csv", "parquet") else {})
    )
    write_field(field, tmp_path / f"out.{suffix}")
    again = read_field(tmp_path / f"out.{suffix}", Request(vectors=("uo", "vo")))
    orders = [np.lexsort([f.space.lon, f.space.lat]) for f in (field, again)]
    assert len(again) == len(field) and np.allclose(
        field.values[:, orders[0]], again.values[:, orders[1]], atol=1e-9
    )
    assert np.allclose(field.vectors[0], np.cross([0, 0, 1], field.space.points), atol=1e-4)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "nc", "zarr", "vtk"])
@pytest.mark.parametrize("letter", ["a", "é"])
def test_names_are_long_enough_or_refused_by_name(letter, suffix, tmp_path):
    """A name of any length is written and read, or refused with the same error before anything is
    done."""
    for size in (*range(236, 260, 2), 300, 5000):
        name = letter * ((size - len(suffix) - 1) // len(letter.encode())) + f".{suffix}"
        if len(name.encode()) <= 255:
            write_field(CLOUD, tmp_path / name)
            assert np.array_equal(read_field(tmp_path / name).values, VECTORS[None])
            continue
        for refuse in (check_output, write_field):
            with pytest.raises(OutputError, match="255 bytes"):
                refuse(CLOUD, tmp_path / name)
        with pytest.raises(InvalidInputError, match=r"cannot be read|no such file"):
            read_field(tmp_path / name)
        with pytest.raises(OutputError, match="255 bytes"):
            check_report(tmp_path / f"{name}.html")


def test_paths_that_cannot_be_read(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "circle.csv").symlink_to(tmp_path / "circle.csv")
    for path in ("file/a.csv", "circle.csv", "a\0.csv", "b/" * 3000 + "a.csv", "none.csv"):
        with pytest.raises(InvalidInputError, match=r"no such file|cannot be read"):
            read_field(tmp_path / path)


def test_poles_turn_with_longitude(tmp_path):
    """One vector at the pole is written in every cell's own frame."""
    grid(dated=False).drop_vars(["uo", "vo"]).to_netcdf(tmp_path / "cells.nc")
    places = read_field(tmp_path / "cells.nc", Request(only_points=True))
    flat = np.tile([1.0, 0.0, 0.0], (1, len(places.space), 1))
    write_field(
        places.with_vectors(
            flat - np.sum(flat * places.space.points, 2, keepdims=True) * places.space.points
        ),
        tmp_path / "o.nc",
    )
    with xr.open_dataset(tmp_path / "o.nc") as made:
        assert np.allclose(made["u"].isel(lat=0), -np.sin(np.radians(made["lon"])))


def test_real_wind(tmp_path):
    try:
        source = wind_folder() / "gfs_10m_1deg_20160430T06.nc"
    except InvalidInputError:
        pytest.skip("no files of wind")
    field = read_field(source)
    assert len(field.space) == 179 * 360 + 2 and field.units.replace(" ", "") in (
        "ms-1",
        "m/s",
        "ms**-1",
    )
    write_field(field, tmp_path / "again.nc")
    with xr.open_dataset(source) as a, xr.open_dataset(tmp_path / "again.nc") as b:
        assert float(np.abs(a["u10"] - b["u10"]).max()) < 0.2  # copies of the poles are averaged
        assert np.allclose(
            a["u10"].isel(lat=slice(1, -1)), b["u10"].isel(lat=slice(1, -1)), atol=1e-5
        )


HEADER = "x,y,z,vx,vy,vz\n"
ROW = "{},{},1,0,0,1\n"
ROWS = "".join(ROW.format(i, i * i) for i in range(5))
BAD = {
    "missing columns": ("a.csv", "x,y,z,p,q,r\n" + ROWS, "no columns of vectors"),
    "no points": ("a.csv", "a,b\n1,2\n", "no columns of points"),
    "text in numbers": ("a.csv", HEADER + ROWS + "7,7,abc,0,0,1\n", "invalid value 'abc'"),
    "mixed lengths": ("a.csv", HEADER + ROWS + "7,7,7\n", "Expected 6 columns, got 3"),
    "longer line": ("a.csv", HEADER + ROWS + "7,7,7,0,0,1,9,9\n", "Expected 6 columns, got 8"),
    "empty": ("a.csv", "", "is empty"),
    "blank": ("a.csv", "\n \n", "is empty"),
    "header only": ("a.csv", HEADER, "no rows"),
    "no header": ("a.csv", ROWS, "not names of columns"),
    "latitude": ("a.csv", "lat,lon,u,v\n10,0,1,1\n95,0,1,1\n0,0,1,1\n", "latitudes must lie"),
    "unknown format": ("a.xyz", ROWS, "unknown format"),
    "no suffix": ("a", ROWS, "unknown format"),
    "missing numbers": ("a.csv", HEADER + ROWS + "7,7,,0,0,1\n", "row 6"),
    "infinite": ("a.csv", HEADER + ROWS + "7,7,inf,0,0,1\n", "row 6"),
    "duplicates": ("a.csv", HEADER + ROWS + ROW.format(2, 4), "1 of 6 points coincide"),
    "too few": ("a.csv", HEADER + ROW.format(1, 1) * 2, "at least 3 points"),
    "columns twice": ("a.csv", "x,x,y,z,vx,vy,vz\n", "several columns"),
    "no archive": ("a.npz", "hello", "not a readable NumPy archive"),
    "no mesh": ("a.ply", "hello", "not a readable PLY"),
    "no netcdf": ("a.nc", "hello", "another format"),
    "no parquet": ("a.parquet", "hello", "not a readable Parquet"),
    "binary": ("a.csv", "x\0y", "not text"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name, tmp_path):
    file, content, message = BAD[name]
    (tmp_path / file).write_text(content)
    with pytest.raises(TangentBundleError, match=message):
        read_field(tmp_path / file)


def test_rows_are_dropped_when_asked(tmp_path):
    (tmp_path / "a.csv").write_text(HEADER + ROWS + "7,7,,0,0,1\n" + ROW.format(2, 4))
    field = read_field(tmp_path / "a.csv", Request(drop_missing=True, drop_duplicates=True))
    assert len(field.space) == 5 and sum("left out" in note.problem for note in field.notes) == 2
    write_field(field, tmp_path / "b.csv")
    assert len(pd.read_csv(tmp_path / "b.csv")) == 5


@pytest.mark.parametrize("as_columns", [True, False])
def test_archives_keep_their_layout_without_missing_rows(as_columns, tmp_path):
    arrays = {"points": POINTS, "vectors": VECTORS}
    if as_columns:
        arrays = dict(zip(("x", "y", "z", "vx", "vy", "vz"), np.c_[POINTS, VECTORS].T, strict=True))
    arrays |= {"label": np.arange(len(POINTS)).astype(str), "years": np.arange(3)}
    gap = {name: np.array(a) for name, a in arrays.items()}
    gap["x" if as_columns else "points"][4] = np.nan
    np.savez(tmp_path / "a.npz", **gap)
    write_field(read_field(tmp_path / "a.npz", Request(drop_missing=True)), tmp_path / "b.npz")
    years = arrays.pop("years")
    with np.load(tmp_path / "b.npz") as written:
        assert {*written} == {*arrays, "years"} and np.array_equal(written["years"], years)
        assert all(
            np.array_equal(written[name], np.delete(a, 4, axis=0)) for name, a in arrays.items()
        )


def test_missing_and_pickled_files(tmp_path):
    with pytest.raises(InvalidInputError, match="no such file"):
        read_field(tmp_path / "none.csv")
    np.savez(tmp_path / "a.npz", points=np.array([object()] * 4))
    with pytest.raises(TangentBundleError, match="never read"):
        read_field(tmp_path / "a.npz")


def test_members_of_npz_files_that_are_no_arrays(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("points.npy", b"not an array")
    with pytest.raises(DamagedFileError, match="is no array"):
        read_field(tmp_path / "a.npz")


def test_arrays_of_other_lengths_are_refused(tmp_path):
    x = np.arange(9.0)
    wrong = {"short": {"vy": x[:8]}, "planes": {"x": np.ones((9, 9))}}
    wrong |= {
        f"errors {errors.shape}": {"sigma": errors}
        for errors in (x[:3], np.ones(18), np.ones((2, 9)))
    }
    for name, arrays in wrong.items():
        np.savez(tmp_path / f"{name}.npz", **({"x": x, "y": x, "vx": x, "vy": x} | arrays))
        with pytest.raises(ShapeError, match="equally long"):
            read_field(tmp_path / f"{name}.npz")
    np.savez(tmp_path / "a.npz", points=np.ones((9, 3, 1)), vectors=np.ones((9, 3)))
    with pytest.raises(ShapeError, match=r"points of shape \(n, D\)"):
        read_field(tmp_path / "a.npz")
    np.savez(tmp_path / "empty.npz", **dict.fromkeys(("lat", "lon", "speed", "direction"), x[:0]))
    with pytest.raises(TangentBundleError, match="at least 3 points, the file has 0"):
        read_field(tmp_path / "empty.npz")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.text("xyzvu,;\t\n .0123456789-einfa\"'", max_size=200).map(str.encode),
    )
)
def test_garbage_gives_named_errors_only(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    with contextlib.suppress(TangentBundleError):
        read_field(tmp_path / "a.csv")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.text('0123456789.-,e"abc; \n', max_size=30), max_size=8))
def test_garbage_below_a_header_gives_named_errors_only(tmp_path, lines):
    (tmp_path / "a.csv").write_text(HEADER + "\n".join(lines))
    with contextlib.suppress(TangentBundleError):
        read_field(tmp_path / "a.csv")


def test_distinct_rows():
    points = RNG.integers(0, 3, (500, 3)).astype(float)
    first = distinct_rows(Cloud(points, ("x", "y", "z")), Request(drop_duplicates=True), [])
    assert np.array_equal(first, np.sort(np.unique(points, axis=0, return_index=True)[1]))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "nc", "vtk"])
@pytest.mark.parametrize(
    "trouble",
    [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()],
    ids=["full", "stopped"],
)
def test_nothing_half_written(suffix, trouble, tmp_path, monkeypatch):
    """The old file stays, whatever happens at the last moment, and nothing lies beside it."""
    path = tmp_path / f"out.{suffix}"
    write_field(CLOUD, path)
    before = read_field(path).values

    def fail(*_):
        raise trouble

    monkeypatch.setattr("tangentbundle.files.put", fail)
    with pytest.raises(OutputError if isinstance(trouble, OSError) else KeyboardInterrupt):
        write_field(CLOUD.with_vectors(2 * VECTORS[None]), path)
    monkeypatch.undo()
    assert np.array_equal(read_field(path).values, before) and [
        p.name for p in tmp_path.iterdir()
    ] == [path.name]


def test_a_full_disk(tmp_path):
    """Files of this process may have 2 kB: every writer meets the limit in its own way."""
    suffixes = ["csv", "npz", "nc", "parquet"]
    code = (
        "import resource, signal, sys, numpy as np; from tangentbundle.io import *\n"
        "from tangentbundle.errors import OutputError; from tangentbundle.spaces import Cloud\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "p = np.random.default_rng(0).standard_normal((2000, 3)); field = Field(Cloud(p, ('x', "
        "'y', 'z')), p[None])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))\n"
        "for name in sys.argv[1:]:\n"
        "    try: write_field(field, name)\n"
        "    except OutputError as error: print(error)"
    )
    command = [sys.executable, "-B", "-c", code, *(f"out.{suffix}" for suffix in suffixes)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert len(lines) == len(suffixes), done.stdout + done.stderr
    for suffix, line in zip(suffixes, lines, strict=True):
        assert f"out.{suffix}" in line and "nothing was left" in line
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path):
    for path in (tmp_path / "none" / "a.csv", tmp_path):
        with pytest.raises((OutputError, InvalidInputError)):
            write_field(CLOUD, path)
    if os.geteuid():  # root may write anywhere
        tmp_path.chmod(0o500)
        with pytest.raises(OutputError, match="permission"):
            write_field(CLOUD, tmp_path / "a.csv")


FORGED = {
    "a.ply": b"ply\nformat ascii 1.0\nelement vertex 99999999999\nproperty double x\nend_header\n",
    "b.ply": b"ply\nformat ascii 1.0\nelement vertex 3\n",
    "a.vtk": b"# vtk DataFile Version 3.0\nv\nASCII\nDATASET POLYDATA\nPOINTS 99999999999 double\n",
    "b.vtk": b"# vtk DataFile Version 3.0\nv\nASCII\nDATASET STRUCTURED_POINTS\n"
    b"DIMENSIONS 99999 99999 99999\n",
    "a.stl": b"\0" * 80 + b"\xff\xff\xff\x7f",
    "a.gltf": b'{"asset": {"version": "2.0"}, "accessors": [{"count": 99999999999}]}',
}


@pytest.mark.parametrize("name", FORGED)
def test_meshes_that_claim_more_than_they_hold(name, tmp_path):
    (tmp_path / name).write_bytes(FORGED[name])
    with pytest.raises(TangentBundleError, match=r"says it has|not complete"):
        read_field(tmp_path / name)
