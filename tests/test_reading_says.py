"""What a reader leaves out, it says: other vectors, unknown columns, later times; and arrays it
does not know stay."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tool import run

from tangentbundle import earth
from tangentbundle.earth.xarrays import other_pairs
from tangentbundle.errors import (
    BoundaryWarning,
    InvalidInputError,
    SuspiciousDataWarning,
    UnitsError,
)
from tangentbundle.io import Request, read_field, warn_if_suspicious, write_field

PAIRS = {
    "levels": ("u850", "v850"),
    "capitals": ("U_100M", "V_100M"),
    "units first": ("100u", "100v"),
    "suffix": ("wind_u_850", "wind_v_850"),
    "end": ("current_u", "current_v"),
    "words": ("eastward_current", "northward_current"),
    "directions": ("east_stress", "north_stress"),
    "axes": ("x_wind_850", "y_wind_850"),
    "standard names": ("first", "second"),
}
NO_PAIRS = [
    ("u10_std", "v10_std"),
    ("uncertainty", "visibility"),
    ("pressure", "humidity"),
    ("u_qc", "v_qc"),
]


def winds(names=(), n=6):
    lat, lon = np.linspace(-75, 75, n), np.arange(0, 360, 360 / n)
    values = np.random.default_rng(0).standard_normal((2 + len(names), n, n))
    variables = dict(zip(("u10", "v10", *names), values, strict=True))
    ds = xr.Dataset(
        {k: (("lat", "lon"), a, {"units": "m s-1"}) for k, a in variables.items()},
        {"lat": lat, "lon": lon},
    )
    if names == PAIRS["standard names"]:
        ds["first"].attrs["standard_name"] = "eastward_sea_water_velocity"
        ds["u10"].attrs["standard_name"] = "eastward_wind"
        ds["v10"].attrs["standard_name"] = "northward_wind"
        ds["second"].attrs["standard_name"] = "northward_sea_water_velocity"
    return ds


@pytest.mark.parametrize("names", PAIRS.values(), ids=PAIRS)
def test_a_second_pair_of_components_is_named(names, tmp_path, monkeypatch):
    ds = winds(names)
    assert other_pairs(ds, ("u10", "v10")) == [names]
    for call in (lambda d: earth.smooth(d, "3000 km"), earth.decompose, earth.divergence):
        with pytest.warns(
            SuspiciousDataWarning, match=rf"u10, v10 are used, {', '.join(names)} not"
        ):
            call(ds)
    chosen = earth.smooth(ds, "3000 km", vectors=names)
    assert not np.allclose(chosen[names[0]], ds[names[0]]) and np.array_equal(chosen.u10, ds.u10)
    monkeypatch.chdir(tmp_path)
    ds.to_netcdf("wind.nc")
    for command in (("filter", "--scale", "3000 km"), ("decompose",)):
        assert (
            f"--vectors {','.join(names)}"
            in run(command[0], "wind.nc", *command[1:], "-o", "out.nc").stderr
        )


@pytest.mark.parametrize("names", NO_PAIRS)
def test_other_variables_are_no_pair(names):
    assert not other_pairs(winds(names), ("u10", "v10"))
    earth.smooth(winds(names), "3000 km")  # warnings are errors


@pytest.mark.parametrize("seed", range(4))
def test_decompositions_of_stations_speak_of_the_boundary(seed, tmp_path, monkeypatch):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 80))
    columns = {
        "lat": 45 + 8 * rng.random(n),
        "lon": 5 + 12 * rng.random(n),
        "u10": rng.random(n),
        "v10": rng.random(n),
    }
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(columns).to_csv("stations.csv", index=False)
    assert f"of {n} cells lie there" in run("decompose", "stations.csv", "-o", "parts.csv").stderr
    ds = xr.Dataset({name: ("station", a) for name, a in columns.items()}).set_coords(
        ["lat", "lon"]
    )
    with pytest.warns(BoundaryWarning, match="region has an edge"):
        earth.decompose(ds)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("places", "names"), [(("lat", "lon"), ("ff10", "dd10")), (("x", "y", "z"), ("a", "b", "c"))]
)
def test_inspecting_names_columns_of_unknown_numbers(places, names, suffix, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    points = rng.standard_normal((60, 3))
    points = 10 * points[:, : len(places)] / np.linalg.norm(points, axis=1, keepdims=True)
    table = pd.DataFrame(points, columns=places).assign(
        station=[f"s{k}" for k in range(60)], number=range(60)
    )
    for file, extra in (
        ("known", {}),
        ("unknown", dict(zip(names, rng.standard_normal((3, 60)), strict=False))),
    ):
        path = tmp_path / f"{file}.{suffix}"
        write = (
            table.assign(**extra).to_csv if suffix == "csv" else table.assign(**extra).to_parquet
        )
        write(path, index=False)
    said = run("inspect", f"unknown.{suffix}", "-k", "0").stderr
    assert all(name in said for name in names) and "--vectors" in said and "station" not in said
    assert "vectors" not in run("inspect", f"known.{suffix}", "-k", "0").stderr
    read_field(tmp_path / f"unknown.{suffix}", Request(only_points=True))


LABELS = {
    "date": ["2026-01-01", "2026-01-02", "2026-01-03"],
    "observed": ["2026-01-01 00:00", "2026-01-01 06:00", "2026-01-01 12:00"],
    "Zeit": ["20260101", "20260102", "20260103"],
    "tag": ["1.1.2026", "2.1.2026", "3.1.2026"],
    "Hour": [0, 6, 12],
    "level": [1000, 850, 500],
    "profondeur": [0.5, 10.0, 30.25],
    "run": ["a", "b", "c"],
}
DATES = ("date", "observed", "Zeit", "tag")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
@pytest.mark.parametrize("name", LABELS)
def test_series_are_not_taken_for_duplicates(name, suffix, tmp_path):
    """A table with dates is a series. Where other columns tell rows apart, dropping rows is not the
    advice, and it is said if it was asked for."""
    rng, n = np.random.default_rng(0), 20
    places = pd.DataFrame({"lat": 60 * rng.random(n), "lon": 60 * rng.random(n)})
    rows = [
        places.assign(u=rng.random(n), v=rng.random(n), t=rng.random(n), **{name: label})
        for label in LABELS[name]
    ]
    series, path = pd.concat(rows), tmp_path / f"a.{suffix}"

    def write(table):
        if suffix == "npz":
            np.savez(path, **{name: np.array(column.tolist()) for name, column in table.items()})
        elif suffix == "csv":
            table.to_csv(path, index=False)
        else:
            table.to_parquet(path, index=False)

    write(series)
    if name in DATES and suffix != "npz":
        field = read_field(path)
        assert len(field.times) == 3 and field.values.shape == (3, n, 2)
    else:
        with pytest.raises(
            InvalidInputError, match=f"40 of 60 points coincide.*by column {name}"
        ) as caught:
            read_field(path)
        assert "drop_duplicates" not in str(caught.value)
        with pytest.warns(SuspiciousDataWarning, match="40 of 60 rows are left out"):
            assert len(read_field(path, Request(drop_duplicates=True)).space) == n
    twice = pd.concat([rows[0], rows[0]])  # true duplicates, also if rows have numbers
    write(twice)
    with pytest.raises(InvalidInputError, match="drop_duplicates=True"):
        read_field(path)
    write(twice.assign(number=range(5, 5 + len(twice))))
    with pytest.raises(InvalidInputError, match="drop_duplicates=True"):
        read_field(path)
    assert len(read_field(path, Request(drop_duplicates=True)).space) == n


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "nc"])
@pytest.mark.parametrize(
    ("places", "used", "unused"),
    [
        *((("lat", "lon"), ("u10", "v10"), pair) for pair in PAIRS.values() if "first" not in pair),
        (("lat", "lon"), ("u10", "v10"), ("tauu", "tauv")),
        (("lat", "lon"), ("u", "v"), ("ux", "uy")),
        (("x", "y"), ("vx", "vy"), ("ux", "uy")),
        (("x", "y"), ("vx", "vy"), ("tauu", "tauv")),
        (("x", "y", "z"), ("vx", "vy", "vz"), ("B_x", "B_y", "B_z")),
        (("pc1", "pc2", "pc3"), ("dpc1", "dpc2", "dpc3"), ("apc1", "apc2", "apc3")),
    ],
)
def test_second_vectors_of_tables_are_named(places, used, unused, suffix, tmp_path, monkeypatch):
    """Not if the user chose, and not numbers that are no vectors."""
    if suffix == "nc" and places[0] == "lat":
        pytest.skip("datasets on the globe have a test of their own")
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    names = (*places, *used, "nx", "ny", "nz", "u10_std", "v10_std", "uncertainty", "visibility")
    columns = {name: rng.standard_normal(40) for name in names}
    path = tmp_path / f"a.{suffix}"

    def write(table):
        frame = pd.DataFrame(table)
        if suffix == "csv":
            frame.to_csv(path, index=False)
        elif suffix == "parquet":
            frame.to_parquet(path, index=False)
        elif suffix == "npz":
            np.savez(path, **table)
        else:
            xr.Dataset({name: ("point", a) for name, a in table.items()}).to_netcdf(path)

    write(columns)
    read_field(path)  # warnings are errors
    write(columns | {name: rng.standard_normal(40) for name in unused})
    with pytest.warns(SuspiciousDataWarning, match=f"{', '.join(unused)} not") as caught:
        assert read_field(path).names == used
    assert len(caught) == 1
    assert read_field(path, Request(vectors=unused)).names == unused
    assert f"--vectors {','.join(unused)}" in run("inspect", path.name, "-k", "0").stderr


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_numbered_as_in_the_file(seed, suffix, tmp_path):
    """Also where rows before them were left out."""
    rng = np.random.default_rng(seed)
    n = 40
    table = {name: rng.standard_normal(n) for name in ("x", "y", "z", "vx", "vy", "vz")}
    missing = rng.choice(n, 5, replace=False)
    table["vx"][missing] = np.nan
    rest = np.setdiff1d(np.arange(n), missing)
    chosen = rng.choice(rest, 3, replace=False)

    def read(columns, **options):
        path = tmp_path / f"a.{suffix}"
        if suffix == "csv":
            pd.DataFrame(columns).to_csv(path, index=False)
        elif suffix == "parquet":
            pd.DataFrame(columns).to_parquet(path, index=False)
        else:
            np.savez(path, **columns)
        return read_field(path, Request(drop_missing=True, **options))

    twice = {name: a.copy() for name, a in table.items()}
    for a in twice.values():
        a[chosen[1]] = a[chosen[0]]
    with pytest.raises(InvalidInputError, match=rf"first: row {chosen[:2].max() + 1}\)"):
        read(twice)
    strong = table | {"vz": np.where(np.arange(n) == chosen[2], 1e3, table["vz"])}
    field = read(strong)
    with pytest.warns(SuspiciousDataWarning, match=rf"row {chosen[2] + 1} has"):
        warn_if_suspicious(field)
    assert [field.row_in_file(k) - 1 for k in range(len(rest))] == rest.tolist()


@pytest.mark.parametrize(("n", "fields"), [(30, 1), (30, 4), (12, 12), (12, 3)])
@pytest.mark.parametrize("as_columns", [True, False])
def test_archives_keep_arrays_of_any_shape(as_columns, n, fields, tmp_path):
    """Without some points: arrays with one value a point lose these, and all others are as they
    were."""
    rng = np.random.default_rng(n + fields)
    points, vectors = rng.standard_normal((n, 3)), rng.standard_normal((fields, n, 3))
    vectors = vectors if fields > 1 else vectors[0]
    arrays = {
        "points": points,
        "vectors": vectors,
        "pressure": rng.random((fields, n, 3)),
        "mass": rng.random(n),
    }
    others = {
        "scalar": np.array(3.5),
        "years": np.arange(5),
        "matrix": np.ones((2, 7)),
        "text": np.array(["a", "b"]),
    }
    others |= {"time": np.datetime64("2026-01-01") + np.arange(fields)}
    if as_columns:
        arrays = dict(zip("xyz", points.T, strict=True)) | {"mass": arrays["mass"]}
        arrays |= dict(zip(("vx", "vy", "vz"), np.moveaxis(vectors, -1, 0), strict=True))
    gap = {name: np.array(a) for name, a in (arrays | others).items()}
    gap["x" if as_columns else "points"][[4, 7]] = np.nan
    np.savez(tmp_path / "a.npz", **gap)
    write_field(read_field(tmp_path / "a.npz", Request(drop_missing=True)), tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as written:
        assert {*written} == {*arrays, *others}
        for name, array in others.items():
            assert np.array_equal(written[name], array), name
        for name, array in arrays.items():
            axis = 1 if name == "pressure" or (fields > 1 and name.startswith("v")) else 0
            assert np.array_equal(written[name], np.delete(array, [4, 7], axis)), name


@pytest.mark.parametrize("scale", [50_000, "500000 km", 5e5, 1e9])
@pytest.mark.parametrize("taper", [False, True])
def test_lengths_beyond_the_earth_are_refused_in_words(scale, taper):
    with pytest.raises(UnitsError, match=r"at most 40030 km.*Numbers are km"):
        earth.smooth(winds(), scale, taper=taper)
    earth.smooth(winds(), 40_030, taper=taper)
    earth.smooth(winds(), "500000 m", taper=taper)
