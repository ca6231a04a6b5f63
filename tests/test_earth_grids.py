"""Families of grids with analytic fields: all spacings, ends, orders and ranges of latitude and
longitude."""

import itertools

import numpy as np
import pytest
import xarray as xr
from scipy.special import sph_harm_y

from tangentbundle import earth
from tangentbundle.earth.decomposition import _projections
from tangentbundle.earth.operator import _cached_cells
from tangentbundle.earth.volumes import latitude_bands, longitude_widths
from tangentbundle.errors import SuspiciousDataWarning

DIMS = ("lat", "lon")


def rows(name, step):
    """Ascending latitudes; the number in a name is the distance of the last row from the pole, in
    steps."""
    count = round(180 / step)
    if name == "pole":
        return np.linspace(-90, 90, count + 1)
    if name == "Gaussian":
        return np.degrees(np.arcsin(np.polynomial.legendre.leggauss(count)[0]))
    if name == "stretched":
        even = np.linspace(-90, 90, count + 1)[1:-1]
        return even + 8 * np.sin(2 * np.radians(even))
    offset = float(name)
    even = -90 + step * (offset + np.arange(count))
    return even[even < 90 - 1e-9]


def columns(name, step):
    count = round(360 / step)
    even = np.arange(count) * 360 / count
    if name == "odd":
        return np.arange(count + 1) * 360 / (count + 1)
    if name == "smooth":
        return even + 25 * np.sin(np.radians(even))
    if name == "jump":
        return np.concatenate([np.arange(0, 200, step), np.arange(200, 360, 2 * step)])
    return even


ROWS = ["pole", "Gaussian", "stretched", "0.02", "0.3", "0.5", "0.7", "1.0"]
COLUMNS = ["even", "odd", "smooth", "jump"]
PAIRED = [(row, COLUMNS[k % 4]) for k, row in enumerate(ROWS)]
PAIRED += [
    pytest.param(row, COLUMNS[(k + 1) % 4], marks=pytest.mark.slow) for k, row in enumerate(ROWS)
]
"""Each row with one of the columns, and with another one in slow tests."""


def dataset(lat, lon):
    return xr.Dataset(coords={"lat": lat, "lon": lon})


def harmonic(grid, degree, order, turn, h=1e-5):
    """The gradient of a spherical harmonic with axes turned by a rotation, the same turned by 90
    degrees; the values"""

    def values(x):
        x = x @ turn / np.linalg.norm(x, axis=1, keepdims=True)
        return sph_harm_y(
            degree, order, np.arccos(np.clip(x[:, 2], -1, 1)), np.arctan2(x[:, 1], x[:, 0])
        ).real

    slopes = [
        (
            values(grid.points + h * grid.frames[:, :, k])
            - values(grid.points - h * grid.frames[:, :, k])
        )
        / (2 * h)
        for k in (0, 1)
    ]
    east, north = slopes
    return np.stack([east, north], 1), np.stack([-north, east], 1), values(grid.points)


def rotation(seed):
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    return q * np.sign(np.diag(r))


def wind(ds, x):
    values = earth.Grid.of(ds).to_components(x)
    dims = ("field", *earth.Grid.of(ds).dims)[-values.ndim + 1 :]
    return ds.assign({n: (dims, values[..., k], {"units": "m s-1"}) for k, n in enumerate("uv")})


def at_points(ds, names=("u", "v")):
    return earth.Grid.of(ds).to_coordinates(np.stack([ds[n].values for n in names], -1))


def largest(x):
    return np.linalg.norm(x, axis=-1).max(axis=-1)


def errors_of(ds, degree, order, seed):
    """Largest errors, relative to the largest exact value: wrong parts, divergence and vorticity,
    and smoothing."""
    grid = earth.Grid.of(ds)
    gradient, rotated, f = harmonic(grid, degree, order, rotation(seed))
    x = np.stack([gradient, rotated])
    field = wind(ds, x)
    parts = earth.decompose(field)
    wrong = np.stack(
        [
            at_points(parts.isel(field=0), ("u_rotational", "v_rotational")),
            at_points(parts.isel(field=1), ("u_divergent", "v_divergent")),
        ]
    )
    rates = np.stack([earth.divergence(field)[0], earth.vorticity(field)[1]])
    exact = -degree * (degree + 1) * grid.to_cells(f[:, None])[..., 0]
    scale = 3000.0
    gain = earth.response(scale).response(np.array([degree * (degree + 1) - 1.0]))
    smooth = at_points(earth.smooth(field, scale))
    return (
        (largest(wrong) / largest(x)).max(),
        np.abs(rates * earth.RADIUS - exact).max() / np.abs(exact).max(),
        (largest(smooth - gain * x) / largest(x)).max(),
    )


@pytest.mark.parametrize(("row", "column"), PAIRED)
def test_gradients_and_rotations_stay_what_they_are_on_every_grid(row, column):
    """At all rows, also at the poles; errors fall with the step, to first order where columns of
    two widths meet."""
    coarse, fine = (
        np.max(
            [errors_of(dataset(rows(row, h), columns(column, h)), 3, k, seed=k) for k in (0, 1)],
            axis=0,
        )
        for h in (12.0, 6.0)
    )
    assert (fine < (0.06, 0.12, 0.01)).all(), fine
    assert (fine < np.maximum((0.65, 0.85, 0.65) * coarse, (0.01, 0.01, 1e-3))).all(), (
        coarse,
        fine,
    )


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("column", COLUMNS)
def test_cells_cover_the_sphere(row, column):
    lat, lon = rows(row, 7.5), columns(column, 7.5)
    grid = earth.Grid.of(dataset(lat, lon))
    assert np.isclose(grid.areas.sum(), 4 * np.pi, rtol=1e-12)
    assert np.isclose(latitude_bands(lat).sum() * longitude_widths(lon).sum(), 4 * np.pi)
    assert not grid.volumes.rim.any()
    assert (grid.volumes.weights > 0).all() or row == "pole"  # neighbours of a pole meet in a point


ORDERED = [("Gaussian", "odd"), ("1.0", "jump")]
ORDERED += [
    pytest.param(*names, marks=pytest.mark.slow)
    for names in (("Gaussian", "smooth"), ("1.0", "even"))
]


@pytest.mark.parametrize(("row", "column"), ORDERED)
def test_order_and_range_of_the_axes_do_not_matter(row, column):
    """Descending rows, longitudes from -180 or from any other, in any order, and with the first one
    repeated."""
    rng = np.random.default_rng(0)
    ds = dataset(rows(row, 10.0), columns(column, 10.0))
    field = wind(ds, rng.standard_normal((2, len(earth.Grid.of(ds)), 2)))
    lon = field.lon
    variants = [
        field.isel(lat=slice(None, None, -1)),
        field.assign_coords(lon=(lon + 180) % 360 - 180).sortby("lon"),
        field.assign_coords(lon=(lon + 180) % 360 - 180),
        field.assign_coords(lon=lon + 360),
        field.isel(lon=rng.permutation(len(lon)), lat=rng.permutation(len(field.lat))),
        xr.concat([field, field.isel(lon=[0]).assign_coords(lon=[360.0])], "lon"),
        field.assign_coords(lat=field.lat.astype(np.float32), lon=lon.astype(np.float32)),
    ]
    calls = {
        "smooth": lambda d: earth.smooth(d, "2500 km")["u"],
        "divergence": earth.divergence,
        "divergent": lambda d: earth.decompose(d)["v_divergent"],
    }
    for name, call in calls.items():
        expected = call(field)
        for number, variant in enumerate(variants):
            found = call(variant).isel(lon=slice(0, len(lon)))
            found = found.assign_coords(
                lon=np.round(found.lon % 360, 3), lat=np.round(found.lat, 3)
            )
            found = found.sortby(["lat", "lon"]).transpose(*expected.dims)
            difference = np.abs(found.values - expected.values).max()
            assert difference < 1e-4 * np.abs(expected).max(), (name, number)


@pytest.mark.parametrize("column", COLUMNS)
def test_regions_end_and_global_grids_do_not(column):
    """A region has no edge across its gap; its columns have the widths that they have in the global
    grid."""
    lon = columns(column, 5.0)
    lat = np.arange(-20, 21, 5.0)
    for start in range(0, len(lon), 7):
        for count in (2, 3, 5, len(lon) // 2, len(lon) - 6):
            chosen = np.roll(lon, -start)[:count]
            grid = earth.Grid.of(dataset(lat, chosen))
            east_west = grid.volumes.pairs[
                grid.lat[grid.volumes.pairs[:, 0]] == grid.lat[grid.volumes.pairs[:, 1]]
            ]
            assert len(east_west) == len(lat) * (count - 1), (start, count)
            assert {*grid.lon[grid.volumes.rim]} >= {chosen[0], chosen[-1]}
            inner = longitude_widths(chosen)[1:-1]
            assert np.allclose(inner, np.roll(longitude_widths(lon), -start)[1 : count - 1])
            steps = np.diff(
                np.append(chosen, chosen[-1:]) + 360 * (np.append(chosen, chosen[-1:]) < chosen[0])
            )[:-1]
            ends = np.radians(steps[[0, -1]])
            assert np.allclose(longitude_widths(chosen)[[0, -1]], ends)


CALLS = {
    "smooth": lambda d: earth.smooth(d, "3000 km"),
    "divergence": earth.divergence,
    "vorticity": earth.vorticity,
    "decompose": earth.decompose,
    "spectrum": lambda d: earth.spectrum(d, ["5000 km"]),
}


def still_field(lat, lon):
    ds = dataset(lat, lon)
    return wind(ds, np.zeros((len(earth.Grid.of(ds)), 2)))


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("missing", [1, 2, 3, 8])
def test_missing_columns_are_said_wherever_they_are(column, missing):
    full = columns(column, 5.0)
    lat = np.arange(-80, 81, 5.0)
    for start in range(5, len(full) - missing, 10):
        lon = np.delete(full, start + np.arange(missing))
        for order in (lon, lon[::-1], (lon + 180) % 360 - 180):
            with pytest.warns(SuspiciousDataWarning, match="columns are missing") as caught:
                earth.Grid.of(dataset(lat, order)).warn_of_gaps()
            assert f"{full[start - 1]:g} to {full[(start + missing) % len(full)]:g}" in str(
                caught[0].message
            )


@pytest.mark.parametrize("step", [1.0, 5.0, 15.0])
@pytest.mark.parametrize("missing", [1, 2])
def test_columns_missing_at_the_seam_are_said(step, missing):
    lon = np.arange(0, 360, step)
    for order in (lon[missing:], lon[:-missing], lon[:-missing] - 180):
        with pytest.warns(SuspiciousDataWarning, match="columns are missing"):
            earth.Grid.of(dataset(np.arange(-80, 81, 5.0), order)).warn_of_gaps()


@pytest.mark.parametrize("row", ["pole", "Gaussian", "stretched", "0.5", "1.0"])
@pytest.mark.parametrize("missing", [1, 2, 5])
def test_missing_rows_are_said_wherever_they_are(row, missing):
    full = rows(row, 5.0)
    first = 1 if row == "pole" else 2
    for start in range(first, len(full) - missing - 1, 4):
        lat = np.delete(full, start + np.arange(missing))
        for order in (lat, lat[::-1]):
            with pytest.warns(SuspiciousDataWarning, match="rows are missing") as caught:
                earth.Grid.of(dataset(order, columns("even", 30.0))).warn_of_gaps()
            assert f"{full[start - 1]:g} to {full[start + missing]:g}" in str(caught[0].message)


@pytest.mark.parametrize("start", range(4, 60, 7))
def test_two_gaps_around_one_column_or_row_are_said(start):
    lat = np.linspace(-90, 90, 91)
    lon = np.arange(0, 360, 5.0)
    with pytest.warns(SuspiciousDataWarning, match="columns are missing"):
        earth.Grid.of(dataset(lat, np.delete(lon, [start, start + 2]))).warn_of_gaps()
    with pytest.warns(SuspiciousDataWarning, match="rows are missing"):
        earth.Grid.of(dataset(np.delete(lat, [start, start + 2]), lon)).warn_of_gaps()


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("column", COLUMNS)
def test_whole_grids_and_regions_have_no_gaps(row, column):
    """Warnings are errors."""
    lat = rows(row, 5.0)
    lon = columns(column, 5.0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        south, north = np.sort(rng.choice(len(lat), 2, replace=False))
        start = rng.integers(len(lon))
        count = rng.integers(1, len(lon) - 6)
        region = np.roll(lon, -start)[:count]
        for order in (region, region[::-1], (region + 180) % 360 - 180, lon):
            earth.Grid.of(dataset(lat[south : north + 1], order)).warn_of_gaps()


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.BoundaryWarning")
@pytest.mark.parametrize("axis", ["columns", "rows"])
def test_every_call_says_what_is_missing(axis):
    """Whatever was called before: cells are cached, the warning is not."""
    lat = np.arange(-80, 81, 10.0)
    lon = np.arange(0, 360, 10.0)
    lat, lon = (lat, np.delete(lon, [9, 10])) if axis == "columns" else (np.delete(lat, 7), lon)
    field = still_field(lat, lon)
    for first, second in itertools.product(CALLS.values(), repeat=2):
        clear_caches()
        for call in (first, second):
            with pytest.warns(SuspiciousDataWarning, match=f"{axis} are missing") as caught:
                call(field)
            said = [w for w in caught if f"{axis} are missing" in str(w.message)]
            assert len(said) == 1 and said[0].filename == __file__


@pytest.mark.parametrize("column", ["even", "smooth", "jump"])
def test_linear_fields_have_exact_derivatives_in_regions(column):
    """Rotations: the vorticity is constant up to second order, also at the edges of the region."""
    lon = columns(column, 2.0)
    ds = dataset(np.arange(-6.0, 6.1, 1.0), lon[(lon > 150) & (lon < 250)])
    grid = earth.Grid.of(ds)
    x = np.einsum("nxa,nx->na", grid.frames, np.cross([0.0, 0.0, 1.0], grid.points))
    exact = 2 * np.sin(np.radians(ds.lat))
    vorticity = earth.vorticity(wind(ds, x)) * earth.RADIUS - exact
    divergence = earth.divergence(wind(ds, x)) * earth.RADIUS
    assert abs(vorticity).isel(lat=slice(1, -1)).max() < 3e-4
    assert (
        max(abs(vorticity).max(), abs(divergence).max()) < np.radians(1.0) / 2
    )  # one-sided at the first rows


def layouts(lat, lon):
    """Grids that share places, or parts of them, but not cells."""
    regular = dataset(lat, lon)
    stacked = regular.stack(cell=DIMS).reset_index("cell")
    two = xr.broadcast(regular.lat, regular.lon)
    curvilinear = xr.Dataset(
        coords={n: (("j", "i"), a.values) for n, a in zip(DIMS, two, strict=True)}
    )
    return [
        regular,
        stacked,
        curvilinear,
        regular.isel(lat=slice(None, None, -1)),
        regular.isel(lon=slice(0, 7)),
    ]


def clear_caches():
    _cached_cells.cache_clear()
    _projections.cache_clear()


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.BoundaryWarning")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_results_do_not_depend_on_earlier_calls(seed):
    """Calls in any order, of grids that share places and of options, give what they give in a fresh
    process."""
    rng = np.random.default_rng(seed)
    row, column = rng.choice(ROWS), rng.choice(["even", "jump"])
    calls = [
        lambda d: earth.smooth(d, "6000 km")["u"].values,
        lambda d: earth.smooth(d, "6000 km", no_normal_flow=True)["u"].values,
        lambda d: earth.divergence(d).values,
        lambda d: earth.decompose(d)["u_divergent"].values,
        lambda d: earth.decompose(d, tol=0.05)["u_divergent"].values,
    ]
    fields = []
    for ds in layouts(rows(row, 20.0), columns(column, 20.0)):
        grid = earth.Grid.of(ds)
        field = wind(ds, np.random.default_rng(0).standard_normal((len(grid), 2)))
        fields.append(field)
    fields += [
        field.where(np.abs(field.lat) < 50) for field in fields[:2]
    ]  # regular, and the same stacked
    jobs = list(itertools.product(range(len(fields)), range(len(calls))))
    fresh = {}
    for which, call in jobs:
        clear_caches()
        fresh[which, call] = calls[call](fields[which])
    for number in rng.permutation(len(jobs)):
        which, call = jobs[number]
        found = calls[call](fields[which])
        assert np.array_equal(found, fresh[which, call], equal_nan=True), (which, call)


def test_layouts_of_one_place_are_different_grids():
    grids = [earth.Grid.of(ds) for ds in layouts(rows("1.0", 15.0), columns("even", 15.0))]
    assert len({grid.token for grid in grids}) == len(grids)
    again = [earth.Grid.of(ds) for ds in layouts(rows("1.0", 15.0), columns("even", 15.0))]
    assert grids == again


@pytest.mark.parametrize("offset", [1e-7, 1e-4, 1e-2, 0.05, 0.1])
@pytest.mark.parametrize("step", [5.0, 10.0])
def test_rows_and_columns_that_are_rounded_count_once(offset, step):
    """A row next to a pole is at the pole, and a column next to another one is that."""
    lat = np.linspace(-90, 90, round(180 / step) + 1)
    lon = np.arange(0, 360, step)
    field = wind(dataset(lat, lon), at_points(rotating(lat, lon)))
    near_poles = lat.copy()
    near_poles[[0, -1]] = [-90 + offset * step / 20, 90 - offset * step / 20]
    repeated = np.append(lon, 360 - offset * step / 200)
    for call in (earth.vorticity, lambda d: earth.smooth(d, "3000 km")["u"]):
        expected = call(field).values
        size = np.abs(expected).max()
        found = call(field.assign_coords(lat=near_poles)).values
        assert np.abs(found - expected).max() < 1e-6 * size
        twice = xr.concat([field, field.isel(lon=[0])], "lon").assign_coords(lon=repeated)
        found = call(twice).isel(lon=slice(0, len(lon))).values
        assert np.abs(found - expected).max() < 1e-6 * size


def rotating(lat, lon):
    """The rotation about a tilted axis."""
    grid = earth.Grid.of(dataset(lat, lon))
    flow = np.cross([0.3, 0.2, 0.9], grid.points)
    return wind(dataset(lat, lon), np.einsum("nxa,nx->na", grid.frames, flow))


@pytest.mark.parametrize("axis", ["latitude", "longitude"])
def test_one_row_or_column_has_no_derivative_across(axis):
    lat, lon = np.arange(-60, 61, 10.0), np.arange(0, 360, 10.0)
    for value in (-30.0, 0.0, 50.0):
        lines = (np.array([value]), lon) if axis == "latitude" else (lat, np.array([value]))
        field = rotating(*lines)
        for name in ("divergence", "vorticity"):
            with pytest.warns(SuspiciousDataWarning, match=f"one {axis} only, {value:g} degrees"):
                CALLS[name](field)
        earth.smooth(field, "3000 km")  # warnings are errors
