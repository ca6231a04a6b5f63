"""Tables: series with a row for each time and place, and text read in blocks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError, TangentBundleError
from tangentbundle.io import Request, read_field, write_field
from tangentbundle.io.actions import forecasted


def series(times=4, seed=0):
    """A table with a row for each time and place, in random order."""
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample(30, seed=1)
    dates = np.datetime64("2024-02-28") + np.arange(times) * np.timedelta64(12, "h")
    vectors = sphere.gradient_field(points, 2) * np.arange(1, times + 1)[:, None, None]
    rows = np.c_[np.tile(points, (times, 1)), vectors.reshape(-1, 3)]
    table = pd.DataFrame(rows, columns=["x", "y", "z", "vx [m/s]", "vy [m/s]", "vz [m/s]"])
    table.insert(0, "time", np.repeat(dates, 30))
    table["station"] = [f"no. {k}" for k in np.tile(np.arange(30), times)]
    return table.sample(frac=1, random_state=seed), points, vectors, dates


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_series_in_tables(suffix, tmp_path):
    table, points, vectors, dates = series()
    path = tmp_path / f"a.{suffix}"
    getattr(table, f"to_{suffix}")(path, index=False)
    field = read_field(path)
    order = [int(np.flatnonzero((points == p).all(axis=1))[0]) for p in field.space.points]
    assert sorted(order) == list(range(30)) and np.array_equal(field.values, vectors[:, order])
    assert np.array_equal(field.times, dates) and field.units == "m/s" and "times: column time" in field.notes[-1]
    write_field(field.with_vectors(2 * field.vectors), tmp_path / f"b.{suffix}")
    again = getattr(pd, f"read_{suffix}")(tmp_path / f"b.{suffix}")
    assert list(again.columns) == list(table.columns) and list(again["station"]) == list(table["station"])
    assert np.array_equal(again["vx [m/s]"], 2 * table["vx [m/s]"])
    later = replace(field, values=field.values[:2], times=field.times[-1] + np.array([12, 24], "m8[h]"))
    write_field(later, tmp_path / f"next.{suffix}")
    assert np.array_equal(read_field(tmp_path / f"next.{suffix}").times, later.times)


def test_series_with_gaps_and_repeats(tmp_path):
    table, *_ = series()
    table.iloc[1:].to_csv(tmp_path / "gap.csv", index=False)
    with pytest.raises(InvalidInputError, match="1 of 30 places lack some of the 4 times"):
        read_field(tmp_path / "gap.csv")
    field = read_field(tmp_path / "gap.csv", Request(drop_missing=True))
    assert field.values.shape == (4, 29, 3)
    write_field(field, tmp_path / "less.csv")
    assert len(pd.read_csv(tmp_path / "less.csv")) == 4 * 29
    pd.concat([table, table.iloc[:1]]).to_csv(tmp_path / "twice.csv", index=False)
    with pytest.raises(InvalidInputError, match="row 121 repeats the time and place"):
        read_field(tmp_path / "twice.csv")
    table.iloc[:30].assign(time="noon").to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(InvalidInputError, match="coincide"):  # one time: an ordinary field
        read_field(tmp_path / "one.csv")


def test_numbers_tell_the_order_of_times(tmp_path):
    table, *_, dates = series()
    table["step"] = np.searchsorted(dates, table.pop("time").to_numpy())
    table.to_csv(tmp_path / "a.csv", index=False)
    field = read_field(tmp_path / "a.csv", Request(time="step"))
    assert len(field) == 4 and field.times is None
    sizes = np.linalg.norm(field.values, axis=(1, 2))
    assert np.allclose(sizes, sizes[0] * np.arange(1, 5))


@pytest.mark.parametrize("dated", [True, False])
def test_forecasts_of_tables_come_after_them(dated, tmp_path):
    """As many steps ahead as the table has: they are new rows, not the old ones with other numbers."""
    table, *_, dates = series(times=20)
    if not dated:
        table["time"] = 10 * np.searchsorted(dates, table["time"].to_numpy())
    table.to_csv(tmp_path / "a.csv", index=False)
    field = read_field(tmp_path / "a.csv")
    made = forecasted(field, tb.FieldForecaster(dim=2, random_state=0), 20)
    write_field(replace(made, std=None), tmp_path / "b.csv")
    again = pd.read_csv(tmp_path / "b.csv", parse_dates=["time"] if dated else None)
    later = dates[-1] + np.arange(1, 21) * np.timedelta64(12, "h") if dated else 190 + 10 * np.arange(1, 21)
    assert np.array_equal(again["time"].unique(), later) and len(again) == 20 * 30


def test_text_is_read_in_blocks(tmp_path, monkeypatch):
    """Blocks far smaller than the file give the same table, and other columns stay as they were written."""
    monkeypatch.setattr("tangentbundle.io.tables.BLOCK", 2048)
    lines = [f"{k:03d},{k},{k * k},{0.5 * k},1,{k}e-3,0,{'a b' if k % 2 else ''}" for k in range(500)]
    (tmp_path / "a.csv").write_text("id,x,y,z,vx,vy,vz,note\n" + "\n".join(lines))
    field = read_field(tmp_path / "a.csv")
    assert np.array_equal(field.space.points[:, 1], np.arange(500.0) ** 2)
    write_field(field, tmp_path / "b.csv")
    again = pd.read_csv(tmp_path / "b.csv", dtype=str, keep_default_na=False)
    assert list(again["id"]) == [line[:3] for line in lines] and set(again["note"]) == {"", "a b"}
    with pytest.raises(TangentBundleError, match="row 500 has 'east'"):
        (tmp_path / "c.csv").write_text((tmp_path / "a.csv").read_text().replace("249001,249.5", "249001,east"))
        read_field(tmp_path / "c.csv")


def test_one_place_is_enough_to_predict_at(tmp_path):
    (tmp_path / "at.csv").write_text("lat,lon\n50,10\n")
    assert len(read_field(tmp_path / "at.csv", Request(only_points=True)).space) == 1
    with pytest.raises(TangentBundleError, match="at least 3 points"):
        read_field(tmp_path / "at.csv", Request(needs_vectors=False))
