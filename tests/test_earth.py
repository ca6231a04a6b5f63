"""Gridded winds and currents: the same field in every layout, analytic gains, coasts, and xarray
in, xarray out."""

import dask
import dask.array
import numpy as np
import pytest
import xarray as xr
from scipy.ndimage import gaussian_filter
from scipy.special import sph_harm_y

import tangentbundle as tb
from tangentbundle import earth
from tangentbundle.earth.operator import cells_of
from tangentbundle.errors import (
    BoundaryWarning,
    InvalidInputError,
    MissingColumnsError,
    RankDeficientError,
    UnitsError,
)
from tangentbundle.geometry.known_frames import latlon_frames
from tangentbundle.io import Request
from tangentbundle.io.datasets import from_dataset, to_dataset

DIMS = ("lat", "lon")


def regular(step=5.0, wrap=False):
    return xr.Dataset(
        coords={"lat": np.arange(90, -91, -step), "lon": np.arange(0, 361 if wrap else 360, step)}
    )


def curvilinear(step=5.0):
    """The regular grid with its poles on the equator; `angle` turns its axes to east and north."""
    lat, lon = (
        a.ravel()
        for a in np.meshgrid(np.arange(-87.5, 90, step), np.arange(0, 360, step), indexing="ij")
    )
    points, frames, _ = latlon_frames(lat, lon)
    turn = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
    x, y, z = turn @ points.T
    lat, lon = np.degrees(np.arcsin(z)), np.degrees(np.arctan2(y, x))
    own = latlon_frames(lat, lon)[1]
    along = (turn @ frames)[:, :, 0]
    angle = np.degrees(np.arctan2((own[:, :, 1] * along).sum(1), (own[:, :, 0] * along).sum(1)))
    shape = (len(lon) // len(np.arange(0, 360, step)), -1)
    names = {"lat": lat, "lon": lon, "angle": angle}
    units = {"lat": "degrees_north", "lon": "degrees_east", "angle": "degrees"}
    return xr.Dataset(
        coords={k: (("j", "i"), a.reshape(shape), {"units": units[k]}) for k, a in names.items()}
    )


def unstructured(n=3000):
    """Fibonacci's points, in radians as ICON has them."""
    k = np.arange(n) + 0.5
    lat, lon = np.arcsin(1 - 2 * k / n), np.pi * (1 + 5**0.5) * k % (2 * np.pi)
    attrs = {"clat": "latitude", "clon": "longitude"}
    coords = {
        m: ("cell", a, {"standard_name": s, "units": "radian"})
        for (m, s), a in zip(attrs.items(), (lat, lon), strict=True)
    }
    return xr.Dataset(coords=coords)


def healpix(nside=16, order="nest"):
    said = {"grid_mapping_name": "healpix", "healpix_nside": nside, "healpix_order": order}
    return xr.Dataset({"crs": ((), 0, said)}, {"pixel": np.arange(12 * nside**2)})


LAYOUTS = {
    "regular": regular(),
    "wrapped": regular(wrap=True),
    "curvilinear": curvilinear(),
    "unstructured": unstructured(),
    "healpix": healpix(),
    "ring": healpix(order="ring"),
}


def harmonic(points, frames, degree, order, h=1e-5):
    """The gradient of a spherical harmonic and the same turned, coordinates (n, 2) both, and the
    harmonic."""

    def values(x):
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        return sph_harm_y(
            degree, order, np.arccos(np.clip(x[:, 2], -1, 1)), np.arctan2(x[:, 1], x[:, 0])
        ).real

    sides = (frames[:, :, k] for k in (0, 1))
    east, north = ((values(points + h * s) - values(points - h * s)) / (2 * h) for s in sides)
    return np.stack([east, north], 1), np.stack([-north, east], 1), values(points)


def wind(ds, coordinates, units="m s-1"):
    """A dataset with components that mean these coordinates (..., n, 2) at the grid's points."""
    grid = earth.Grid.of(ds)
    values = grid.to_components(coordinates)
    dims = (*("time", "member")[: coordinates.ndim - 2], *grid.dims)
    return ds.assign({n: (dims, values[..., k], {"units": units}) for k, n in enumerate("uv")})


def at_points(ds, names=("u", "v")):
    return earth.Grid.of(ds).to_coordinates(np.stack([ds[n].values for n in names], -1))


def rotation(grid, axis=(0.3, -0.5, 0.7)):
    return np.einsum("nxa,nx->na", grid.frames, np.cross(axis, grid.points))


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_components_and_coordinates_are_inverse(name, dtype):
    grid = earth.Grid.of(LAYOUTS[name])
    x = np.random.default_rng(0).standard_normal((2, len(grid), 2)).astype(dtype)
    for count in (2, 3):
        components = grid.to_components(x, count)
        assert components.dtype == dtype and components.shape == (2, *grid.shape, count)
        assert np.allclose(
            grid.to_coordinates(components), x, atol=1e-5 if dtype == np.float32 else 1e-12
        )
    assert np.isclose(grid.areas.sum(), 4 * np.pi, rtol=2e-3) and (grid.areas > 0).all()


@pytest.mark.parametrize("name", LAYOUTS)
def test_gain_is_that_of_the_heat_flow(name):
    """Within 2 % for wavelengths of 11 cells and more; elsewhere than at the poles no better than
    there."""
    ds = LAYOUTS[name]
    grid = earth.Grid.of(ds)
    cell = np.sqrt(grid.areas.max())
    degree = int(2 * np.pi / (11 * cell))
    for k, m in ((1, 1), (2, 0), (degree, 1), (degree, degree)):
        gradient, rotated, _ = harmonic(grid.points, grid.frames, k, m)
        scale = 2 * np.pi * earth.RADIUS / 1e3 / np.sqrt(degree * (degree + 1) - 1)
        exact = 2 ** (-(k * (k + 1) - 1) / (degree * (degree + 1) - 1))
        x = np.stack([gradient, rotated])
        y = at_points(earth.smooth(wind(ds, x), f"{scale} km"))
        gain = np.einsum("n,tna,tna->t", grid.areas, x, y) / np.einsum(
            "n,tna,tna->t", grid.areas, x, x
        )
        assert np.allclose(gain, exact, rtol=0.02), (k, m, gain, exact)
    x = rotation(grid)
    error = np.abs(
        at_points(earth.smooth(wind(ds, x), "10000 km"))
        - 2 ** (-1 / (2 * np.pi * earth.RADIUS / 1e7) ** 2) * x
    )
    polar = np.abs(grid.lat) > 80
    assert error.max() < 2e-3 and error[polar].max() < 1.5 * error[~polar].max()


@pytest.mark.parametrize("first", [90.0, 88.75])
def test_rotations_have_no_larger_errors_at_the_poles(first):
    """The Laplacian of a rotation is minus the rotation, up to a quarter of the squared step, in
    every row."""
    ds = xr.Dataset(coords={"lat": np.arange(first, -90.01, -2.5), "lon": np.arange(0, 360, 2.5)})
    grid = earth.Grid.of(ds)
    part = cells_of(grid, np.ones(len(grid), bool))
    polar, scale = np.abs(grid.lat) > 80, 2000.0
    gain = earth.response(scale).response(np.ones(1))
    for axis in ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.3, -0.5, 0.81)):
        x = rotation(grid, axis)
        assert (
            np.linalg.norm(part.laplacians["d"] @ x[..., None] + x[..., None], axis=1).max()
            < np.radians(2.5) ** 2 / 4
        )
        error = np.abs(at_points(earth.smooth(wind(ds, x), scale)) - gain * x).max(axis=1)
        assert error[polar].max() < 1.01 * error[~polar].max() < 2e-6


def test_layouts_agree():
    """The same places as a grid and as a list have the same neighbours, weights and areas."""
    ds = regular(10.0)
    grid = earth.Grid.of(ds)
    listed = xr.Dataset(coords={"lat": ("cell", grid.lat), "lon": ("cell", grid.lon)})
    x = np.random.default_rng(0).standard_normal((len(grid), 2))
    a, b = (at_points(earth.smooth(wind(d, x), "3000 km")) for d in (ds, listed))
    assert np.abs(a - b).max() < 0.01 * np.abs(a).max()
    wrapped = at_points(earth.smooth(wind(regular(10.0, wrap=True), x), "3000 km"))
    assert np.allclose(a, wrapped, atol=1e-9)
    rng, field = np.random.default_rng(1), wind(ds, x)
    shuffled = field.isel(lat=rng.permutation(19), lon=rng.permutation(36))
    shuffled = shuffled.assign_coords(lon=(shuffled.lon + 180) % 360 - 180)
    again = (
        earth.smooth(shuffled, "3000 km")
        .assign_coords(lon=shuffled.lon % 360)
        .sortby("lon")
        .sortby("lat", ascending=False)
    )
    assert np.allclose(again["u"], earth.smooth(field, "3000 km")["u"], atol=1e-6)


def test_smoothing_is_self_adjoint_and_contracts():
    ds = regular(10.0)
    grid = earth.Grid.of(ds)
    x = np.random.default_rng(0).standard_normal((2, len(grid), 2))
    x[:, 100:140] = np.nan
    for options in ({}, {"taper": True}):
        y = at_points(earth.smooth(wind(ds, x), "4000 km", **options))
        ab, ba, yy, xx = (
            np.nansum(grid.areas[:, None] * p * q)
            for p, q in ((x[0], y[1]), (y[0], x[1]), (y, y), (x, x))
        )
        assert np.isclose(ab, ba, rtol=1e-5, atol=1e-8) and yy < xx
        assert np.array_equal(np.isnan(y), np.isnan(x))


def test_a_scale_may_vary():
    ds = regular(10.0)
    grid = earth.Grid.of(ds)
    field = wind(ds, np.random.default_rng(0).standard_normal((len(grid), 2)))
    constant = xr.DataArray(np.full(grid.shape, 3000.0), dims=DIMS, attrs={"units": "km"})
    a, b = (earth.smooth(field, scale) for scale in ("3000 km", constant))
    assert np.allclose(a["u"], b["u"], atol=1e-6)
    north = earth.smooth(
        field, xr.where(field.lat > 0, 6000.0, 1.0).broadcast_like(field.u).assign_attrs(units="km")
    )
    south = field.lat < -20
    assert np.allclose(north["v"].where(south, 0), field["v"].where(south, 0), atol=0.01)
    assert float((north["u"] ** 2).sel(lat=slice(80, 20)).mean()) < 0.3 * float(
        (field["u"] ** 2).mean()
    )
    with pytest.raises(UnitsError, match="units of length"):
        earth.smooth(field, constant.drop_attrs())


def sea(strait=True, isolated=True):
    """A sea with islands, cut in two by a meridional wall of land and its antipode, with a strait
    or none."""
    ds = regular(5.0)
    land = np.zeros((37, 72), bool)
    land[[0, 1, 35, 36]] = True
    land[:, [20, 56]] = True
    land[10:13, 40:44] = True
    if strait:
        land[18, 20] = False
    if isolated:
        land[24:27, 5:8] = True
        land[25, 6] = False
    return ds, land


@pytest.mark.parametrize("strait", [False, True])
def test_nothing_passes_through_land(strait):
    ds, land = sea(strait)
    u = np.where(land, np.nan, 0.0)
    u[18, 17], u[25, 6] = 1.0, 3.0
    field = ds.assign(u=(DIMS, u), v=(DIMS, np.where(land, np.nan, 0.0)))
    smooth = earth.smooth(field, "5000 km")
    assert np.array_equal(np.isnan(smooth["u"]), land) and float(smooth["u"][25, 6]) == 3.0
    beyond = np.abs(smooth["u"].values[:, 21:56][~land[:, 21:56]])
    assert (beyond.max() > 1e-6) if strait else (beyond == 0).all()
    for found in (earth.divergence(field), earth.vorticity(field)):
        assert np.isnan(found[25, 6]) and int(np.isnan(found).sum()) == land.sum() + 1


def test_no_normal_flow_at_coasts():
    """In a channel along the equator: flow along it is free, flow across it decays as a sine that
    is zero at walls."""
    ds = xr.Dataset(coords={"lat": np.arange(-19.5, 20, 1.0), "lon": np.arange(0, 360, 4.0)})
    channel = (abs(ds.lat) < 8) & (ds.lon >= 0)
    wave = np.cos(np.pi * ds.lat / 16)  # zero at the sides of cells, 8 degrees north and south
    across = ds.assign(u=0 * wave + 0 * ds.lon, v=wave + 0 * ds.lon).where(channel)
    along = ds.assign(u=np.cos(np.radians(ds.lat)) + 0 * ds.lon, v=0 * wave + 0 * ds.lon).where(
        channel
    )
    for scale in (1000.0, 4000.0):
        found = earth.smooth(across, scale, no_normal_flow=True)
        gain = earth.response(scale).response(np.array([(180 / 16) ** 2]))
        assert abs(found.v - gain * across.v).max() < 4e-3 and abs(found.u).max() < 1e-3
        free, walled = (
            earth.smooth(along, scale, no_normal_flow=option) for option in (False, True)
        )
        assert abs(walled.u - free.u).max() < 1e-6 and abs(walled.v).max() < 1e-9
    assert "no_normal_flow=True" in found.attrs["history"]
    assert (
        float(earth.smooth(across, 4000.0).v.sel(lat=0.5).mean()) > 0.5
    )  # natural: the mean stays


def test_no_normal_flow_is_a_contraction():
    ds, land = sea()
    grid = earth.Grid.of(ds)
    x = np.random.default_rng(0).standard_normal((2, len(grid), 2))
    field = wind(ds, x).where(xr.DataArray(~land, dims=DIMS))
    y = earth.smooth(field, "3000 km", no_normal_flow=True)
    weight = xr.DataArray(
        grid.to_cells(grid.areas[:, None])[..., 0], dims=DIMS
    )  # land at the poles: each cell once
    inner = lambda a, b: float((weight * (a.u * b.u + a.v * b.v)).sum())  # noqa: E731
    first, second = (dict(time=k) for k in (0, 1))
    ab, ba = inner(field.isel(first), y.isel(second)), inner(y.isel(first), field.isel(second))
    assert np.isclose(ab, ba, rtol=1e-5) and inner(y, y) < inner(field, field)
    free = earth.smooth(field, "3000 km")
    assert inner(y, y) < inner(free, free) and np.array_equal(np.isnan(y.u), np.isnan(free.u))
    whole = wind(ds, x)
    xr.testing.assert_allclose(
        earth.smooth(whole, "3000 km").u, earth.smooth(whole, "3000 km", no_normal_flow=True).u
    )


def test_derivatives_and_decomposition_of_harmonics():
    ds = regular(2.5)
    grid = earth.Grid.of(ds)
    gradient, _, f = harmonic(grid.points, grid.frames, 4, 2)
    _, rotated, g = harmonic(grid.points, grid.frames, 3, 1)
    field = wind(ds, 3.6 * (gradient + 2 * rotated), units="km/h")
    inside = np.abs(grid.lat) < 85
    for found, exact in ((earth.divergence(field), -20 * f), (earth.vorticity(field), -24 * g)):
        error = grid.to_points(found.values[..., None])[:, 0] * earth.RADIUS - exact
        assert (
            found.attrs["units"] == "s-1"
            and np.abs(error[inside]).max() < 0.01 * np.abs(exact).max()
        )
        assert np.abs(error).max() < 0.03 * np.abs(exact).max()
    parts = earth.decompose(field)
    for name, exact in (("divergent", gradient), ("rotational", 2 * rotated)):
        error = at_points(parts, (f"u_{name}", f"v_{name}")) / 3.6 - exact
        assert np.abs(error[inside]).max() < 0.01 * np.abs(exact).max() > 0.2 * np.abs(error).max()
    for name, exact in (("velocity_potential", f), ("streamfunction", 2 * g)):
        error = grid.to_points(parts[name].values[..., None])[:, 0] - earth.RADIUS * exact
        assert (
            parts[name].attrs["units"] == "m2 s-1"
            and np.abs(error).max() < 0.01 * earth.RADIUS * np.abs(exact).max()
        )
    total = sum(parts[f"u_{part}"] for part in ("divergent", "rotational", "remainder"))
    assert np.allclose(total, field["u"]) and parts["u_remainder"].attrs["units"] == "km/h"


@pytest.mark.parametrize("end", ["Gaussian", "pole left out"])
def test_global_grids_without_a_row_at_the_poles_are_closed(end):
    """Solid-body rotation is all rotational: no boundary at the last row fixes its stream
    function."""
    gaussian = np.degrees(np.arcsin(np.polynomial.legendre.leggauss(36)[0]))
    ds = (
        regular().isel(lat=slice(1, -1))
        if end == "pole left out"
        else regular().assign(lat=gaussian)
    )
    grid = earth.Grid.of(ds)
    field = wind(ds, rotation(grid))
    parts = earth.decompose(field)
    assert abs(parts.u_rotational - field.u).max() < 0.03 and not grid.volumes.rim.any()
    if end == "Gaussian":
        assert abs(grid.areas.sum() / (4 * np.pi) - 1) < 1e-12
        gain = earth.response("3000 km").response(np.ones(1))
        assert abs(earth.smooth(field, "3000 km").u - gain * field.u).max() < 2e-4


def test_parts_that_are_nothing_but_rounding_converge():
    row = xr.Dataset(coords={"lat": [0.0], "lon": np.arange(0, 360, 5.0)})
    with pytest.warns(BoundaryWarning, match="72 of 72 cells"):
        parts = earth.decompose(wind(row, np.full((72, 2), 8.0)))
    assert abs(parts.u_divergent).max() < 1e-6 and np.allclose(parts.u_remainder, 8)


def test_decomposition_of_a_sea():
    """Gradients of any function, and rotated gradients of functions that vanish at coasts, are
    recovered."""
    ds, land = sea(isolated=False)
    grid = earth.Grid.of(ds)
    part = cells_of(grid, ~grid.to_points(land[..., None].astype(float))[:, 0].astype(bool))
    smooth = np.exp(-((grid.lat[part.index] - 10) ** 2 + (grid.lon[part.index] - 40) ** 2) / 300)
    x = np.full((2, len(grid), 2), np.nan)
    for k, z in enumerate(
        (grid.points[part.index, 1] ** 2, 1j * np.where(part.coast, 0.0, smooth))
    ):
        vectors = part.gradient @ z
        x[k, part.index] = np.stack([vectors.real, vectors.imag], axis=-1)
    parts = earth.decompose(wind(ds, x), tol=1e-6)
    energy = lambda a: np.nansum(grid.areas[:, None] * a**2)  # noqa: E731
    for k, name in enumerate(("divergent", "rotational")):
        error = at_points(parts, (f"u_{name}", f"v_{name}"))[k] - x[k]
        assert energy(error) < 1e-3 * energy(x[k])


@pytest.mark.parametrize("size", [0, 2])
def test_decompositions_do_not_depend_on_chunks(size):
    """Noise on a grid with land, cells here and there or continents, solved one field at a time and
    all together."""
    rng, ds = np.random.default_rng(1), regular(5.0)
    heights = gaussian_filter(rng.standard_normal((37, 72)), size, mode=["nearest", "wrap"])
    land = xr.DataArray(heights > np.quantile(heights, 0.7), dims=DIMS)
    field = wind(ds, rng.standard_normal((4, len(earth.Grid.of(ds)), 2))).where(~land)
    together, apart = earth.decompose(field), earth.decompose(field.chunk(time=1)).compute()
    for name in together:
        assert abs(together[name] - apart[name]).max() < 1e-9 * abs(together[name]).max(), name


def test_spectra_sum_to_the_energy():
    ds = regular(5.0)
    grid = earth.Grid.of(ds)
    x = np.stack([rotation(grid), harmonic(grid.points, grid.frames, 10, 3)[0]])
    found = earth.spectrum(wind(ds, x))
    energy = 0.5 * np.einsum("n,tna,tna->t", grid.areas, x, x) / grid.areas.sum()
    assert np.allclose(found.sum("wavelength"), energy, rtol=1e-6) and (found > -1e-9).all()
    assert found[0].values.argmax() == 0 and found.attrs["units"] == "m2 s-2"
    assert (
        0.5
        < float(found.wavelength[found[1].values.argmax()])
        / (2 * np.pi * earth.RADIUS / 1e3 / 10.4)
        < 2
    )


def test_speed_direction_axes_and_ambient_components_are_one_field():
    ds = regular(10.0)
    grid = earth.Grid.of(ds)
    field = wind(
        ds, rotation(grid) + 0.1 * np.random.default_rng(0).standard_normal((len(grid), 2))
    )
    expected = earth.smooth(field, "3000 km")
    polar = field.assign(
        wind_speed=np.hypot(field.u, field.v),
        wind_from_direction=np.degrees(np.arctan2(-field.u, -field.v)),
    )
    found = earth.smooth(polar.drop_vars(["u", "v"]), "3000 km")
    assert np.allclose(found["eastward_wind"], expected["u"])
    ambient = grid.to_components(at_points(field), 3)
    xyz = ds.assign({n: (DIMS, ambient[..., k]) for k, n in enumerate(("vx", "vy", "vz"))})
    found = earth.smooth(xyz, "3000 km", vectors=("vx", "vy", "vz"))
    assert np.allclose(found["vz"], grid.to_components(at_points(expected), 3)[..., 2])
    turned = curvilinear()
    east = turned.drop_vars("angle")
    x = rotation(earth.Grid.of(turned))
    a, b = earth.smooth(wind(turned, x), "5000 km"), earth.smooth(wind(east, x), "5000 km")
    assert np.allclose(at_points(a), at_points(b)) and not np.allclose(a["u"], b["u"])


@pytest.mark.parametrize(
    "names", [("clat", "clon"), ("latCell", "lonCell"), ("TLAT", "TLON"), ("lat_rho", "lon_rho")]
)
def test_usual_names_of_coordinates(names):
    ds = unstructured(400)
    expected = earth.Grid.of(ds)
    for old, new in zip(("clat", "clon"), names, strict=True):
        del ds[old].attrs["standard_name"]
        ds = ds.rename({old: new}) if old != new else ds
    assert earth.Grid.of(ds) == expected
    for name in names:
        del ds[name].attrs["units"]
    with pytest.raises(InvalidInputError, match="look like radians"):
        earth.Grid.of(ds)


def test_the_reader_of_series_knows_radians_and_angles():
    """``load_wind`` and the tool's reader have the points and vectors of ``Grid``."""
    for ds in (unstructured(500), curvilinear(15.0)):
        grid = earth.Grid.of(ds)
        field = wind(ds, rotation(grid))
        data = tb.datasets.load_wind(field.expand_dims(time=[np.datetime64("2026-01-01", "ns")]))
        there, read = (
            grid.to_coordinates(np.stack([field.u, field.v], -1)),
            from_dataset(field, Request()),
        )
        expected = np.einsum("nxa,na->nx", grid.frames, there)
        for found in (data.ambient[0], read.vectors[0]):
            np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(to_dataset(read).u.squeeze(), field.u, atol=1e-12)


def test_lazy_and_what_is_kept():
    ds = regular(15.0)
    grid = earth.Grid.of(ds)
    x = np.random.default_rng(0).standard_normal((6, 2, len(grid), 2)).astype(np.float32)
    x[4:, :, 30:40] = np.nan
    field = wind(ds, x).assign_coords(time=np.arange(6)).assign(t2m=(("time",), np.ones(6)))
    field = field.transpose("time", "lat", "member", "lon").assign_attrs(
        history="made", title="winds"
    )
    field["u"].attrs["standard_name"], field["u"].encoding = (
        "eastward_wind",
        {"dtype": "int16", "scale_factor": 0.1},
    )
    computed = []

    def watch(block):
        computed.append(1)
        return block

    lazy = field.copy()
    for name in "uv":
        chunked = dask.array.from_array(field[name].values, chunks=(2, 5, 1, -1)).map_blocks(
            watch, dtype=np.float32, meta=np.zeros((0,) * 4, np.float32)
        )
        lazy[name] = (field[name].dims, chunked, field[name].attrs, field[name].encoding)
    computed.clear()
    calls = {
        "smooth": lambda d: earth.smooth(d, "5000 km")[["u", "v"]],
        "decompose": lambda d: earth.decompose(d)[["u_divergent", "streamfunction"]],
        "divergence": lambda d: earth.divergence(d).to_dataset(),
        "spectrum": lambda d: earth.spectrum(d).to_dataset(),
    }
    for name, call in calls.items():
        later = call(lazy)
        assert not computed, name
        now = call(field)
        for variable in now:
            assert later[variable].chunks is not None and later[variable].dtype == np.float32
            assert np.allclose(
                later[variable].values, now[variable].values, rtol=1e-4, atol=1e-4, equal_nan=True
            ), name
        computed.clear()
    smooth = earth.smooth(lazy, "5000 km")
    assert smooth["u"].dims == field["u"].dims and smooth["u"].chunks == (
        (2, 2, 2),
        (13,),
        (1, 1),
        (24,),
    )
    assert smooth["u"].attrs == field["u"].attrs and not smooth["u"].encoding
    assert smooth["t2m"].identical(field["t2m"]) and {*smooth.coords} == {*field.coords}
    lines = smooth.attrs["history"].splitlines()
    assert (
        smooth.attrs["title"] == "winds"
        and lines[0] == "made"
        and "smooth(filter_scale='5000 km'" in lines[1]
    )


@pytest.mark.parametrize("marker", [-9999.0, 1e20])
@pytest.mark.parametrize("chunks", [None, {}])
def test_speeds_that_no_wind_has_are_missing(chunks, marker):
    ds = regular(30.0).isel(lat=slice(1, -1))
    field = wind(ds, np.random.default_rng(0).standard_normal((len(earth.Grid.of(ds)), 2)))
    hole = (field.lat == 30) & (field.lon == 60)
    missing, marked = field.where(~hole), field.where(~hole, marker)
    marked = marked if chunks is None else marked.chunk(chunks)
    calls = {
        "smooth": lambda d: earth.smooth(d, "5000 km"),
        "decompose": earth.decompose,
        "divergence": lambda d: earth.divergence(d).to_dataset(),
        "spectrum": lambda d: earth.spectrum(d).to_dataset(),
        "denoise": lambda d: earth.denoise(d, noise=0.5),
        "regrid": lambda d: earth.interpolate_to(d, ds, beyond=0),
    }
    for name, call in calls.items():
        for variable, values in call(missing).items():
            assert np.allclose(call(marked)[variable], values, equal_nan=True), (name, variable)


def test_regions_have_natural_boundaries():
    """A field that is parallel along the rim of a region, and a rotation inside of it, hardly
    change."""
    whole, region = regular(2.5), regular(2.5).sel(lat=slice(60, 20), lon=slice(10, 80))
    listed = region.stack(cell=DIMS).reset_index("cell")
    for ds in (region, listed):
        grid = earth.Grid.of(ds)
        x = rotation(grid)
        y = at_points(earth.smooth(wind(ds, x), "1000 km"))
        inner = (np.abs(grid.lat - 40) < 12) & (np.abs(grid.lon - 45) < 25)
        assert np.abs(y - x)[inner].max() < 2e-3 and np.abs(y - x).max() < 0.05
        assert grid.areas.sum() < 1.15 * earth.Grid.of(region).areas.sum()
    assert earth.Grid.of(region).areas.sum() < earth.Grid.of(whole).areas.sum() / 8


def test_mistakes_are_named():
    ds = regular(30.0)
    field = wind(ds, np.zeros((len(earth.Grid.of(ds)), 2)))
    for wrong in ("500", "500 K", "5 m/s"):
        with pytest.raises(UnitsError, match="500 km"):
            earth.smooth(field, wrong)
    with pytest.raises(InvalidInputError, match="filter_scale"):
        earth.smooth(field, "0 km")
    for wrong in (None, [1], -1.0, np.nan):
        with pytest.raises(UnitsError, match="500 km"):
            earth.smooth(field, wrong)
    for names in (("u",), ("u", "u")):
        with pytest.raises(MissingColumnsError, match="two variables"):
            earth.smooth(field, "500 km", vectors=names)
    for row in (np.nan, 60.0):
        with pytest.raises(InvalidInputError, match="finite, and no latitude"):
            earth.smooth(
                field.assign_coords(lat=[90.0, 60.0, 30.0, row, -30.0, -60.0, -90.0]), "500 km"
            )
    with pytest.raises(InvalidInputError, match="no values"):
        earth.smooth(field.expand_dims(time=[0]).isel(time=[]), "500 km")
    with pytest.raises(InvalidInputError, match="at least one"):
        earth.spectrum(field, [])
    with pytest.raises(InvalidInputError, match="tol"):
        earth.decompose(field, tol=-1)
    with pytest.raises(InvalidInputError, match="ids of HEALPix"):
        earth.Grid.of(healpix(2).rename(pixel="cell").assign_coords(cell=np.arange(48) + 1))
    with pytest.raises(MissingColumnsError, match="eastward"):
        earth.smooth(field[["u"]], "500 km")
    with pytest.raises(InvalidInputError, match="one grid"):
        earth.smooth(field.assign(v=field.v.rename(lon="lon_v")), "500 km")
    with pytest.raises(InvalidInputError, match=r"\[-90, 90\]"):
        earth.smooth(field.assign_coords(lat=2 * field.lat), "500 km")
    with pytest.raises(UnitsError, match="one unit"):
        earth.smooth(field.assign(v=field.v.assign_attrs(units="K")), "500 km")
    with pytest.raises(InvalidInputError, match="Dataset"):
        earth.smooth(np.zeros(3), "500 km")
    with pytest.raises(InvalidInputError, match="latitude"):
        earth.Grid.of(xr.Dataset({"u": ("x", np.zeros(4))}))
    with pytest.raises(InvalidInputError, match="768 pixels"):
        earth.Grid.of(
            healpix(16).assign(crs=((), 0, {"grid_mapping_name": "healpix", "healpix_nside": 8}))
        )
    turned = wind(curvilinear(), np.zeros((36 * 72, 2))).drop_vars("angle")
    turned["u"].attrs["standard_name"] = "sea_water_x_velocity"
    with pytest.raises(InvalidInputError, match="angle from east is needed"):
        earth.smooth(turned, "500 km", vectors=("u", "v"))
    ring = xr.Dataset(coords={"lat": ("cell", np.full(5, 30.0)), "lon": ("cell", np.arange(5.0))})
    with pytest.raises(RankDeficientError, match="circle"):
        earth.divergence(wind(ring, np.zeros((5, 2))))
