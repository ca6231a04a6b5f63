"""Wind data: geometry, areas, samples, gaps and windows."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tangentbundle as tb
from tangentbundle import errors
from tangentbundle.datasets import WindData, load_wind, regular
from tangentbundle.earth.volumes import latitude_bands, longitude_widths
from tangentbundle.earth.wind import from_grid, from_points, inclusion
from tangentbundle.timeline import Clock, fill_single_steps

HOUR = np.timedelta64(1, "h")
START = np.datetime64("2026-03-24T00", "s")
AXES = np.array([[0.3, -1.2, 0.7], [2.0, 0.1, -0.4], [0.0, 0.0, 1.0]])


def rotation(lat, lon):
    """Solid rotations about three axes, one a time: components ``(3, rows, columns, 2)`` of the
    vectors omega x p."""
    phi, lam = np.meshgrid(np.radians(lat), np.radians(lon), indexing="ij")
    p = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
    east = np.stack([-np.sin(lam), np.cos(lam), 0 * lam])
    north = np.stack([-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)])
    v = np.stack([np.cross(axis, p, axisb=0, axisc=0) for axis in AXES])
    return np.stack([(v * east).sum(axis=1), (v * north).sum(axis=1)], axis=-1)


def clock(hours):
    return START + np.asarray(hours) * HOUR


def series(ticks, points=3):
    """Wind that grows by one a step."""
    ticks = np.asarray(ticks)
    values = np.broadcast_to(ticks[:, None, None].astype(float), (len(ticks), points, 2))
    return from_points(
        clock(6 * ticks), np.arange(points), np.arange(points), values, np.ones(points), "made up"
    )


@pytest.fixture(scope="module")
def embedded():
    return load_wind()


# Geometry.


def test_embedded_lies_on_the_sphere_and_is_tangent(embedded):
    assert np.allclose(np.linalg.norm(embedded.points, axis=1), 1)
    assert np.allclose(embedded.frames.swapaxes(1, 2) @ embedded.frames, np.eye(2))
    assert np.abs(np.einsum("tnd,nd->tn", embedded.ambient, embedded.points)).max() < 1e-12
    assert np.allclose(
        np.einsum("nda,tnd->tna", embedded.frames, embedded.ambient), embedded.components
    )
    assert np.isclose(embedded.area.sum(), 1) and embedded.area.min() > 0
    assert (
        len(embedded) == 132
        and not embedded.filled.any()
        and np.isfinite(embedded.components).all()
    )


def test_embedded_blows_as_the_atmosphere_does(embedded):
    u = embedded.components.mean(axis=0)[:, 0]
    ring = {lat: u[embedded.lat == lat].mean() for lat in (-50, -15, 15)}
    assert ring[-50] > 5 and ring[-15] < -1 and ring[15] < -1  # westerlies, trade winds
    july, january = embedded.during(slice(6, None, 12)), embedded.during(slice(0, None, 12))
    somalia = (embedded.lat == 10) & (embedded.lon == 55)
    assert (
        july.components[:, somalia, 1].mean() > 8 > 0 > january.components[:, somalia, 1].mean()
    )  # monsoon


def test_embedded_frames_are_those_of_from_latlon(embedded):
    few = embedded.at(embedded.sample(200, rng=0))
    bundle = tb.TangentBundle.from_latlon(few.lat, few.lon)
    assert np.allclose(bundle.to_coordinates(few.ambient[0])[..., 0], few.components[0])


@pytest.mark.parametrize(
    "lon", [np.arange(0, 360, 10.0), np.arange(-180, 180, 10.0), np.arange(0, 361, 10.0)]
)
@pytest.mark.parametrize("lat", [np.linspace(90, -90, 19), np.linspace(-90, 90, 19)])
def test_rotations_are_exact_everywhere_poles_included(lat, lon):
    data = from_grid(clock([0, 6, 12]), lat, lon, rotation(lat, lon), "rotation")
    assert data.ambient.shape == (3, 17 * 36 + 2, 3)
    assert np.allclose(data.ambient, np.cross(AXES[:, None], data.points))
    assert (np.abs(data.points[:, 2]) > 1 - 1e-12).sum() == 2
    bundle = tb.TangentBundle.from_latlon(data.lat, data.lon)  # the same frames, at the poles too
    assert np.allclose(bundle.to_coordinates(data.ambient)[..., 0], data.components)


def test_rows_at_a_pole_that_are_no_vector_give_a_warning(tmp_path):
    """A constant eastward component at all longitudes of the pole is not one vector; a rotation
    across it is."""
    lat, lon = np.linspace(90, -90, 19), np.arange(0, 360, 10.0)
    wind = rotation(lat, lon)[:1]
    coords = {"time": clock([0]), "lat": lat, "lon": lon}
    ds = xr.Dataset({n: (("time", "lat", "lon"), wind[..., k]) for k, n in enumerate("uv")}, coords)
    assert len(tb.datasets.load_wind(ds).lat) == 17 * 36 + 2
    ds["u"][:, 0] = 3.0
    ds.to_netcdf(tmp_path / "wind.nc")
    for read in (lambda: tb.datasets.load_wind(ds), lambda: tb.io.read_field(tmp_path / "wind.nc")):
        with pytest.warns(
            errors.SuspiciousDataWarning,
            match=r"72 cells at common places, such as a pole.* by [1-9]\d+%",
        ):
            read()


def test_areas_are_exact():
    lat, lon = np.linspace(90, -90, 73), np.arange(0, 360, 2.5)
    assert np.isclose(latitude_bands(lat).sum() * longitude_widths(lon).sum(), 4 * np.pi)
    data = from_grid(clock([0, 6, 12]), lat, lon, rotation(lat, lon), "rotation")
    cap = (1 - np.cos(np.radians(1.25))) / 2
    assert np.isclose(data.area[data.lat == 90], cap).all()
    assert np.allclose(data.area @ data.points, 0, atol=1e-12)
    moments = np.einsum("n,ni,nj->ij", data.area, data.points, data.points)
    assert np.allclose(moments, np.eye(3) / 3, atol=1e-3)
    assert np.isclose(
        longitude_widths(np.array([350.0, 355, 0, 5])).sum(), np.radians(20)
    )  # a region across zero
    assert np.isclose(
        latitude_bands(np.array([10.0])), np.sin(np.radians(10.5)) - np.sin(np.radians(9.5))
    ).all()


# Samples of points.


@example([0.061576153253614097] * 2, 1.0)  # where (1 / w) w rounds below one
@given(st.lists(st.floats(1e-3, 1), min_size=2, max_size=40), st.floats(0.01, 1))
def test_inclusion_probabilities_sum_to_the_count(weights, share):
    weights, n = np.array(weights), share * len(weights)
    p = inclusion(weights, n)
    assert np.isclose(p.sum(), n) and (p >= 0).all() and (p <= 1 + 1e-12).all()
    ratio = p[p < 1 - 1e-9] / weights[p < 1 - 1e-9]
    assert np.allclose(ratio, ratio[:1]) if len(ratio) else True


def test_expected_count_of_a_sample(embedded):
    rng = np.random.default_rng(0)
    counts = [len(embedded.sample(100, rng)) for _ in range(200)]
    assert abs(np.mean(counts) - 100) < 5 * 10 / np.sqrt(200) and np.std(counts) > 5


def test_samples_are_even_on_the_sphere(embedded):
    rng, truth = np.random.default_rng(0), embedded.area @ embedded.points[:, 2] ** 2
    z2 = np.concatenate([embedded.points[embedded.sample(300, rng), 2] ** 2 for _ in range(30)])
    assert abs(z2.mean() - truth) < 5 * z2.std() / np.sqrt(9000)


def test_subsets(embedded):
    some = embedded.sample(50, rng=1)
    few = embedded.at(some)
    assert np.array_equal(few.points, embedded.points[some]) and np.array_equal(
        few.ambient, embedded.ambient[:, some]
    )
    assert np.isclose(few.area.sum(), 1) and np.array_equal(some, embedded.sample(50, rng=1))
    assert np.array_equal(embedded.during(slice(3, 9)).components, embedded.components[3:9])
    with pytest.raises(errors.InvalidInputError, match="2520 points"):
        embedded.sample(3000)


# Times.


def test_step_is_found():
    assert regular(clock([0, 6, 12, 24])).step == 6 * HOUR
    months = np.arange("2000-01", "2003-01", dtype="datetime64[M]").astype("datetime64[s]")
    line = regular(np.delete(months, [5, 20, 21]))
    assert line.step == np.timedelta64(1, "M") and [s.stop for s in line.segments()] == [5, 19, 33]
    years = np.arange("2000", "2009", dtype="datetime64[Y]").astype("datetime64[s]")
    assert np.array_equal(regular(years).ticks, np.arange(9))
    assert regular(months[:1]).segments() == [slice(0, 1)]
    jitter = clock([0, 6, 12, 18]) + np.array([0, 7, -5, 3]) * np.timedelta64(1, "s")
    assert np.array_equal(regular(jitter).ticks, np.arange(4))


@pytest.mark.parametrize("months, day", [(1, -1), (3, -1), (12, -1), (12, 0), (12, 20), (1, 14)])
@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_months_and_years_go_on_at_the_same_day_or_the_last(months, day, unit):
    times = (np.datetime64("1990-02") + months * np.arange(40)).astype("datetime64[D]") + day
    times = times.astype(f"datetime64[{unit}]")
    line = regular(times)
    assert np.array_equal(line.after(times[:-1]), times[1:]) and np.array_equal(
        line.ticks, np.arange(40)
    )
    assert np.array_equal(line.after(times[0], np.arange(40)), times)
    assert np.array_equal(Clock.of(times, 40)[0].steps(times[9:], 31), np.arange(9, 40))


def test_months_without_the_day_have_their_last_one():
    times = np.array(["2025-11-30", "2025-12-30", "2026-01-30"], "datetime64[D]")
    later = ["2026-02-28", "2026-03-30", "2026-04-30"]
    assert np.array_equal(
        regular(times).after(times[-1], np.arange(1, 4)), np.array(later, "datetime64[D]")
    )


@pytest.mark.parametrize(
    "times",
    [
        clock([0, 6, 13, 22]),
        clock([0, 6, 6]),
        clock([6, 0]),
        np.arange(3.0),
        np.array(["NaT"], "datetime64[s]"),
        clock([]),
    ],
)
def test_irregular_times_are_refused(times):
    with pytest.raises(errors.InvalidInputError, match="times must"):
        regular(times)


@pytest.mark.parametrize(
    "start, month", [("2000-01-01", "2000-02-01"), ("2000-01-16", "2000-02-16")]
)
def test_a_missing_month_is_filled_at_its_own_date(start, month):
    offset = np.datetime64(start) - np.datetime64("2000-01-01")
    months = np.arange("2000-01", "2001-01", dtype="datetime64[M]").astype("datetime64[D]") + offset
    times, values, filled = fill_single_steps(np.delete(months, 1), np.delete(np.arange(12.0), 1))
    assert np.array_equal(times, months) and times[1] == np.datetime64(month)
    assert np.allclose(values, np.arange(12)) and np.flatnonzero(filled) == [1]


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=40), st.integers(1, 6))
def test_windows_never_straddle_gaps_and_never_score_what_was_filled(steps, horizon):
    ticks = np.concatenate([[0, 1], 1 + np.cumsum(steps)])
    if np.bincount(np.diff(ticks)).argmax() != 1:
        ticks = np.concatenate(
            [ticks, ticks[-1] + np.arange(1, len(steps) + 2)]
        )  # one step is the commonest
    data = series(ticks)
    seen = np.isin(data.times, clock(6 * ticks))
    assert np.array_equal(~data.filled, seen) and data.filled.sum() == (np.diff(ticks) == 2).sum()
    assert np.allclose(
        data.components[:, 0, 0], (data.times - START) / (6 * HOUR)
    )  # linear, so filled exactly
    lengths = [s.stop - s.start for s in regular(data.times).segments()]
    assert sum(lengths) == len(data)
    expected = sum(max(n - 2 * horizon, 0) for n in lengths)
    if not expected:
        with pytest.raises(errors.InvalidInputError, match="without a gap"):
            data.windows(horizon)
        return
    w = data.windows(horizon)
    assert len(w) == expected
    whole = np.concatenate([w.inputs, w.targets], axis=1)
    assert (np.diff(data.times[whole], axis=1) == 6 * HOUR).all()
    assert np.array_equal(w.scored, ~data.filled[w.targets])


def test_windows_count_as_the_paper(embedded):
    assert [len(embedded.windows(T)) for T in (20, 50)] == [132 - 40, 132 - 100]
    with pytest.raises(errors.InvalidInputError, match="T_f <= 65"):
        embedded.windows(66)
    assert len(embedded.windows(65)) == 2


# Missing values.


def test_missing_values():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(8, 5, 2))
    holes = values.copy()
    holes[3] = np.nan  # a time: filled in
    holes[:, 2] = np.nan  # a point: dropped
    lat = lon = np.arange(5.0)
    data = from_points(clock(6 * np.arange(8)), lat, lon, holes, np.ones(5), "made up")
    assert np.flatnonzero(data.filled) == [3] and np.array_equal(data.lat, [0, 1, 3, 4])
    there = [0, 1, 3, 4]
    assert np.allclose(data.components[3], (values[2] + values[4])[there] / 2)
    assert (
        "1 points without values dropped" in data.provenance
        and "1 of 8 times filled in" in data.provenance
    )
    holes[5, 0, 1] = np.nan
    with pytest.raises(
        errors.NonFiniteError, match="1 of 28 values are missing, at 1 points and 1 times"
    ):
        from_points(clock(6 * np.arange(8)), lat, lon, holes, np.ones(5), "made up")
    with pytest.raises(errors.NonFiniteError, match="no value at all"):
        from_points(clock([0]), lat, lon, np.full((1, 5, 2), np.nan), np.ones(5), "made up")


def test_wrong_shapes_are_refused():
    with pytest.raises(errors.ShapeError, match="components"):
        WindData(
            clock([0]), np.zeros(3), np.zeros(3), np.zeros((1, 2, 2)), np.ones(3) / 3, "made up"
        )
    with pytest.raises(errors.ShapeError, match="expected an array of shape"):
        from_grid(clock([0]), np.arange(3.0), np.arange(4.0), np.zeros((1, 4, 3, 2)), "made up")
    for nonsense in (3, WindData, "missing.nc"):
        with pytest.raises(errors.InvalidInputError, match="expected"):
            load_wind(nonsense)
