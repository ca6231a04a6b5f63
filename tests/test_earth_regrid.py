"""Regridding: orders of accuracy, poles, rotated grids, coasts and edges, laziness, and files."""

import numpy as np
import pytest

import tangentbundle as tb
from tangentbundle.earth.grid import Grid
from tangentbundle.earth.healpix import healpix_latlon
from tangentbundle.earth.regrid import Kriging, Regridder
from tangentbundle.errors import (
    DamagedFileError,
    InvalidInputError,
    OutsideSourceError,
    RankDeficientError,
    ShapeError,
    TooFewPointsError,
    UnitsError,
)

xr = pytest.importorskip("xarray")
AXES = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.6, -0.48, 0.64]])


def regular(step, south=-90.0, north=90.0, west=0.0, east=360.0):
    rows, columns = np.arange(north, south - 1e-9, -step), np.arange(west, east, step)
    return xr.Dataset(coords={"lat": rows, "lon": columns})


def stations(lat, lon):
    return xr.Dataset(coords={"lat": ("station", lat), "lon": ("station", lon)})


def rotated(step):
    """A regular grid whose pole lies at 40 N 100 E, with the angle of its axes."""
    pole = Grid.of(regular(step, -85, 85))
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
    turn *= np.linalg.det(turn)
    points, east = pole.points @ turn.T, pole.frames[:, :, 0] @ turn.T
    lat, lon = (
        np.degrees(np.arcsin(points[:, 2])),
        np.degrees(np.arctan2(points[:, 1], points[:, 0])),
    )
    own = np.einsum("nxa,nx->na", Grid.of(stations(lat, lon)).frames, east)
    columns = {"lat": lat, "lon": lon, "angle": np.degrees(np.arctan2(own[:, 1], own[:, 0]))}
    return xr.Dataset(coords={k: (("y", "x"), v.reshape(pole.shape)) for k, v in columns.items()})


def targets():
    rng = np.random.default_rng(1)
    lat, lon = np.degrees(np.arcsin(rng.uniform(-1, 1, 500))), rng.uniform(0, 360, 500)
    pixels = stations(*healpix_latlon(8, np.arange(12 * 64)))
    return {
        "regular": regular(3.0),
        "stations": stations(lat, lon),
        "rotated": rotated(6.0),
        "healpix": pixels,
    }


def with_field(ds, field, dtype=float):
    """A dataset with the components of an ambient field ``(n, 3) -> (..., n, 3)``."""
    grid = Grid.of(ds)
    parts = grid.to_components(
        np.einsum("nxa,...nx->...na", grid.frames, field(grid.points))
    ).astype(dtype)
    dims = ("time",) * (parts.ndim - 1 - len(grid.dims)) + grid.dims
    return ds.assign(u=(dims, parts[..., 0], {"units": "m s-1"}), v=(dims, parts[..., 1]))


def rotations(points):
    """Solid-body rotations about several axes, ``(3, n, 3)``."""
    return np.stack([np.cross(axis, points) for axis in AXES])


def harmonic(points, degree=4):
    """The gradient of a spherical harmonic around an oblique axis."""
    q = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    vectors = np.real(
        (points @ q[0] + 1j * (points @ q[1]))[:, None] ** (degree - 1) * (q[0] + 1j * q[1])
    )
    return vectors - (vectors * points).sum(axis=1, keepdims=True) * points


def vectors_at(grid, ds):
    """Ambient vectors ``(..., n, 3)`` at the points of a grid."""
    return np.einsum(
        "nxa,...na->...nx", grid.frames, grid.to_coordinates(np.stack([ds.u, ds.v], axis=-1))
    )


def errors(step, target, field):
    """Lengths of the errors ``(..., m)`` at the points of the target."""
    source, grid = with_field(regular(step), field), Grid.of(target)
    found = Regridder(source, target)(source)
    vectors = vectors_at(grid, found)
    return np.linalg.norm(vectors - field(grid.points), axis=-1)


@pytest.mark.parametrize("name", targets())
def test_errors_are_of_second_order(name):
    for field in (rotations, harmonic):
        coarse, fine = (
            np.sqrt(np.square(errors(step, targets()[name], field)).mean()) for step in (7.5, 3.75)
        )
        assert coarse < 0.03 and np.log2(coarse / fine) > 1.7


def test_errors_at_the_poles_are_no_larger_than_elsewhere():
    target = regular(2.0)
    polar = np.abs(Grid.of(target).lat) > 80
    for found in (*errors(5.0, target, rotations), errors(5.0, target, harmonic)):
        assert found[polar].max() <= 1.05 * found[~polar].max()


def test_points_of_the_source_keep_their_vectors_and_lengths_never_grow():
    source = with_field(regular(10.0), rotations)
    same = Regridder(source, source)(source)
    for name in ("u", "v"):
        np.testing.assert_allclose(same[name], source[name], atol=1e-12)
    weights = Regridder(source, regular(3.0)).weights
    directions = np.exp(1j * np.random.default_rng(0).uniform(0, 7, weights.shape[1]))
    assert np.abs(weights @ directions).max() <= 1 + 1e-12


def test_a_turned_source_gives_turned_vectors():
    """Components along the axes of a rotated grid; the answer knows nothing of these axes."""
    source, target = with_field(rotated(4.0), harmonic), targets()["stations"]
    found = Regridder(source, target, beyond="500 km")(source)
    grid = Grid.of(target)
    vectors = vectors_at(grid, found)
    inside = Regridder(source, target, beyond="500 km").distance == 0
    assert inside.mean() > 0.98
    off = np.linalg.norm(vectors - harmonic(grid.points), axis=1)[inside]
    assert (
        np.sqrt(np.mean(off**2)) < 0.006 and off.max() < 0.05
    )  # largest in the holes around the grid's poles


def test_names_say_along_which_axes_components_are():
    """Standard names follow the axes, and the result is a source again: there and back nothing is
    lost but accuracy."""
    source = with_field(regular(4.0), harmonic)
    for name, said in (("u", "eastward_sea_water_velocity"), ("v", "northward_sea_water_velocity")):
        source[name].attrs["standard_name"] = said
    turned = Regridder(source, rotated(3.0).reset_coords("angle"))(source)
    assert turned.v.attrs["standard_name"] == "sea_water_y_velocity" and "angle" in turned.coords
    source.u.attrs["standard_name"] = "eastward_drift"  # whose name along axes is not known
    assert (
        "standard_name" not in Regridder(source, rotated(10.0), vectors=("u", "v"))(source).u.attrs
    )
    again = Regridder(turned, rotated(5.0), beyond=0, vectors=("u", "v"))(turned)
    assert again.u.attrs["standard_name"] == "sea_water_x_velocity"
    back = Regridder(turned, targets()["stations"], beyond=0, vectors=("u", "v"))(turned)
    assert back.u.attrs["standard_name"] == "eastward_sea_water_velocity"
    exact = with_field(targets()["stations"], harmonic)
    assert (
        abs(back.u - exact.u).mean() < 0.006 and abs(back.u - exact.u).max() < 0.05
    )  # as in the test before


def test_components_of_any_name():
    source = with_field(regular(10.0), rotations).rename(u="first", v="second")
    found = tb.earth.interpolate_to(source, regular(5.0), vectors=("first", "second"))
    np.testing.assert_array_equal(found.first[..., ::2, ::2].round(12), source.first.round(12))


def test_edges_and_land():
    region = with_field(regular(2.0, 30, 60, 0, 40), harmonic)
    with pytest.raises(OutsideSourceError, match=r"3 of 4 places .* beyond="):
        Regridder(
            region,
            stations(np.array([45.0, 62.0, 70.0, -45.0]), np.array([20.0, 20.0, 20.0, 200.0])),
        )
    near = stations(np.array([45.3, 61.0, 70.0, -45.0]), np.array([20.3, 20.0, 20.0, 200.0]))
    regridder = Regridder(region, near, beyond="300 km")
    np.testing.assert_allclose(regridder.distance, [0, 111.2, 1111.9, 17599.8], rtol=1e-3)
    found = regridder(region)
    assert np.isfinite(found.u.values).tolist() == [True, True, False, False]
    assert abs(float(found.v[1]) - float(region.v.sel(lat=60, lon=20))) < 1e-12
    assert np.isnan(Regridder(region, near, beyond=0)(region).u.values).tolist() == [
        False,
        True,
        True,
        True,
    ]
    sea = with_field(regular(3.0), harmonic)
    land = (abs(sea.lat) < 20) & (sea.lon < 60)
    masked = sea.where(~land)
    with pytest.raises(OutsideSourceError):
        Regridder(masked, regular(1.5))
    fine = Regridder(masked, regular(1.5), beyond=0)(masked)
    on_land = (abs(fine.lat) < 18) & (fine.lon > 1.5) & (fine.lon < 56)
    assert bool(np.isnan(fine.u.where(on_land, drop=True)).all())
    assert bool(
        np.isfinite(
            fine.u.where((abs(fine.lat) > 24) | (fine.lon > 62) & (fine.lon < 355), 0.0)
        ).all()
    )


def test_lakes():
    """Single points among land keep their vectors."""
    sea = with_field(regular(5.0), rotations)
    land = (abs(sea.lat) < 40) & (sea.lon > 20) & (sea.lon < 140)
    lake = sea.where(~land | ((sea.lat == 0) & (sea.lon == 80)))
    found = Regridder(lake, regular(2.5), beyond=0)(lake)
    np.testing.assert_allclose(found.u.sel(lat=0, lon=80), sea.u.sel(lat=0, lon=80), atol=1e-12)


def test_lazy_blocks_of_time_attributes_and_other_variables():
    pytest.importorskip("dask")
    source = with_field(regular(10.0), rotations, np.float32).assign(
        level=("time", [1, 2, 3]), mean=((), 4.0)
    )
    source.attrs["title"] = "rotations"
    regridder, lazy = Regridder(source, regular(5.0)), source.chunk(time=1, lat=5)
    found = regridder(lazy)
    assert (
        found.u.chunks[0] == (1, 1, 1)
        and found.u.dtype == np.float32
        and found.u.attrs["units"] == "m s-1"
    )
    assert found.attrs["title"] == "rotations" and {*found.data_vars} == {"u", "v", "level", "mean"}
    np.testing.assert_allclose(found.u.values, regridder(source).u, rtol=1e-6)
    assert found.u.dims == ("time", "lat", "lon")


def test_kriging_has_standard_deviations():
    lat, lon = (Grid.of(targets()["stations"]).lat[:150], Grid.of(targets()["stations"]).lon[:150])
    noise = np.random.default_rng(3).uniform(0.02, 0.2, 150)
    source, target = with_field(stations(lat, lon), harmonic), rotated(20.0)
    source = source.map(
        lambda a: a + noise * np.random.default_rng(ord(a.name)).standard_normal(150)
    )
    model = tb.FieldInterpolator(
        covariance=tb.estimators.helmholtz_covariance(),
        manifold=tb.manifolds.Sphere(2),
        random_state=0,
    )
    found = Regridder(source, target, Kriging(noise, model))(source)
    true = with_field(target, harmonic)
    off = np.stack([found[k] - true[k] for k in "uv"]) / np.stack([found[f"{k}_std"] for k in "uv"])
    assert found.u_std.long_name == "standard deviation of u"
    assert found.u.dims == ("y", "x") and 0.5 < np.sqrt(np.square(off).mean()) < 1.5
    with pytest.raises(InvalidInputError, match="no weights"):
        Regridder(source, target, Kriging()).save("nowhere")


def test_saved_weights_give_the_same(tmp_path):
    source = with_field(regular(10.0), rotations)
    for target in (regular(5.0), rotated(20.0)):
        regridder, path = Regridder(source, target), tmp_path / "weights.safetensors"
        regridder.save(path)
        again = Regridder.load(path, source, target)
        np.testing.assert_array_equal(again(source).v, regridder(source).v)
    with pytest.raises(ShapeError, match="other grids"):
        Regridder.load(path, source, regular(5.0))
    path.write_bytes(path.read_bytes()[:-8] + b"\1" * 8)
    with pytest.raises(DamagedFileError):
        Regridder.load(path, source, target)


def test_bad_input():
    source = with_field(regular(10.0), harmonic)
    with pytest.raises(InvalidInputError, match="linear"):
        Regridder(source, regular(5.0), "bilinear")
    with pytest.raises(UnitsError, match="500 km"):
        Regridder(source, regular(5.0), beyond="12 parsecs")
    with pytest.raises(ShapeError, match="grid"):
        Regridder(source, regular(5.0))(with_field(regular(9.0), harmonic))
    with pytest.raises(InvalidInputError):
        Regridder(source, xr.Dataset(coords={"lat": [0.0, 99.0], "lon": [0.0, 1.0]}))
    with pytest.raises(ShapeError, match="time is a dimension of the field and of the target"):
        Regridder(source, stations([0.0], [0.0]).rename(station="time"))(source.expand_dims(time=2))
    with pytest.raises(InvalidInputError, match="got Grid"):
        Regridder(source, Grid.of(regular(5.0)))
    with pytest.raises(ShapeError, match="noise_std"):
        Regridder(source, stations([0.0], [0.0]), Kriging(np.ones(5)))(source)
    with pytest.raises(TooFewPointsError):
        Regridder(Grid.of(stations(np.arange(3.0), np.arange(3.0))), regular(30.0))
    with pytest.raises(RankDeficientError, match="circle"):
        Regridder(Grid.of(stations(np.zeros(9), np.arange(9.0))), regular(30.0))


@pytest.mark.parametrize("kinds", [("f8", "f8"), ("f4", "f4"), ("f4", "f8")])
def test_a_region_has_its_own_points(kinds):
    """Also where their coordinates were rounded to single precision."""
    ds = regular(2.3, 30, 70, 0.1, 60)
    own, other = (
        ds.assign_coords(lat=ds.lat.astype(kind), lon=ds.lon.astype(kind)) for kind in kinds
    )
    source = with_field(own, lambda points: rotations(points)[0])
    found = Regridder(source, other)(source)
    assert np.allclose(found.u, source.u, atol=1e-5) and np.allclose(found.v, source.v, atol=1e-5)
