"""Pictures: maps keep areas and directions, arrows are spread evenly, surfaces hide what lies
behind them."""

import sys

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.geometry.known_frames import latlon_frames

pytest.importorskip("matplotlib")

from matplotlib.projections.geo import LambertAxes, MollweideAxes

from benchmarks.illustrations import response, shortest_path, transport_block
from tangentbundle.io.quantities import quantity_of
from tangentbundle.plot.curves import multiplicities
from tangentbundle.plot.interactive import side_by_side
from tangentbundle.plot.layers import Layer, streamlines
from tangentbundle.plot.style import canvas
from tangentbundle.plot.surfaces import Surface
from tangentbundle.plot.views import spread_out

SPHERE, TORUS = tb.manifolds.Sphere(2), tb.manifolds.Torus()
CHARTS = [
    tb.plot.EqualAreaMap(),
    tb.plot.EqualAreaMap(0.0, 150.0),
    tb.plot.EqualAreaMap(30.0, -60.0),
    tb.plot.EqualAreaMap(35.0, 140.0, 60.0),
    tb.plot.EqualAreaMap(90.0, 0.0, 40.0),
]


def seen_places(chart, n=1000):
    points = SPHERE.sample(n, seed=0)
    plane = chart.project(points)
    inner = np.linalg.norm(plane / np.abs(chart.outline()).max(axis=0), axis=1) < 0.9
    return points[inner], plane[inner]


def steps(chart, points, frames, h=1e-5):
    """The images of small steps east and north, per length, ``(n, 2, 2)``."""
    moved = [points + h * frames[:, :, a] for a in (0, 1)]
    back = [points - h * frames[:, :, a] for a in (0, 1)]
    unit = [p / np.linalg.norm(p, axis=1, keepdims=True) for p in (*moved, *back)]
    images = [chart.project(p) for p in unit]
    return np.stack([images[0] - images[2], images[1] - images[3]], axis=2) / (2 * h)


def frames_of(points):
    lat, lon = (
        np.degrees(np.arcsin(points[:, 2])),
        np.degrees(np.arctan2(points[:, 1], points[:, 0])),
    )
    return latlon_frames(lat, lon)[1]


@pytest.mark.parametrize("chart", CHARTS, ids=repr)
def test_areas_are_kept(chart):
    points, _ = seen_places(chart)
    determinants = np.linalg.det(steps(chart, points, frames_of(points)))
    assert np.allclose(determinants, 1.0, atol=1e-4)


@pytest.mark.parametrize("chart", CHARTS, ids=repr)
def test_arrows_follow_the_map_and_keep_their_length(chart):
    points, _ = seen_places(chart)
    frames = frames_of(points)
    wind = np.random.default_rng(0).standard_normal((len(points), 2))
    arrows = chart.project_vectors(points, np.einsum("nda,na->nd", frames, wind))
    along = np.einsum("nka,na->nk", steps(chart, points, frames), wind)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    assert np.allclose(np.linalg.norm(arrows, axis=1), np.linalg.norm(wind, axis=1))
    assert np.allclose(
        np.einsum("nk,nk->n", arrows, along), np.linalg.norm(wind, axis=1), rtol=1e-3
    )


@pytest.mark.parametrize("chart", CHARTS, ids=repr)
def test_places_of_the_map_lead_back_to_points_and_labels_tell_the_truth(chart):
    points, plane = seen_places(chart)
    assert np.allclose(chart.unproject(plane), points, atol=1e-8)
    low, high = chart.outline().min(axis=0), chart.outline().max(axis=0)
    labels = chart.labels(low / 1.5, high / 1.5) if chart.radius else chart.labels(low, high)
    assert {parallel for _, _, parallel in labels} == {True, False}
    for text, place, parallel in labels:
        degrees, side = float(text.rstrip("NSEW").rstrip("°")), text[-1]
        east, north, up = chart.unproject((1 - 1e-6) * place)
        found = np.degrees(np.arcsin(up) if parallel else np.arctan2(north, east))
        wanted = degrees * (-1 if side in "SW" else 1)
        assert abs((found - wanted + 180) % 360 - 180) < 0.1


def test_coastlines_are_where_coasts_are():
    coast = tb.earth.landmarks.coastlines()
    coast = coast[np.isfinite(coast[:, 0])]
    lat = np.array(
        [53.35, 40.7, -33.9, 35.4, 0.0, 48.0, 23.0]
    )  # Dublin, New York, Cape Town, Tokyo Bay; far from any
    lon = np.array([-6.26, -74.0, 18.4, 139.8, -140.0, 67.0, 12.0])
    degrees = np.degrees(
        np.arccos(np.clip(latlon_frames(lat, lon)[0] @ coast.T, -1, 1).max(axis=1))
    )
    assert (degrees[:4] < 1.2).all() and (degrees[4:] > 5).all()


def test_maps_agree_with_matplotlib():
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(-80, 80, 300), rng.uniform(-179, 179, 300)
    points, degrees = latlon_frames(lat, lon)[0], np.column_stack([lon, lat])
    mollweide = MollweideAxes.MollweideTransform(1).transform(np.radians(degrees))
    assert np.allclose(
        tb.plot.EqualAreaMap().project(points), mollweide, atol=2e-3
    )  # matplotlib stops at 1e-3
    lambert = LambertAxes.LambertTransform(np.radians(140), np.radians(35), 1).transform(
        np.radians(degrees)
    )
    mine = tb.plot.EqualAreaMap(35.0, 140.0, 60.0).project(points)
    near = np.isfinite(mine[:, 0])
    assert near.sum() > 30 and np.allclose(mine[near], lambert[near])


def test_the_map_fits_the_places():
    lat, lon = np.meshgrid(np.linspace(40, 55, 5), np.linspace(-10, 20, 5))
    chart = tb.plot.EqualAreaMap.fitting(lat.ravel(), lon.ravel())
    assert 40 < chart.lat < 60 and -10 < chart.lon < 20 and 5 < chart.radius < 25
    assert np.isfinite(chart.project(latlon_frames(lat.ravel(), lon.ravel())[0])).all()
    far_apart = tb.plot.EqualAreaMap.fitting(np.array([-80.0, 0, 80]), np.array([0.0, 120, 240]))
    assert far_apart == tb.plot.EqualAreaMap()


def chart_north(y):
    """The sine of the latitude at the height y of the globe's map."""
    return tb.plot.EqualAreaMap().unproject(np.array([0.0, y]))[2]


def test_colours_fill_the_map_up_to_its_edge_and_nothing_far_from_points():
    lat, lon = (
        grid.ravel() for grid in np.meshgrid(np.arange(0.5, 90, 2.0), np.arange(0.0, 360, 2.0))
    )
    axes = tb.plot.earth_map(lat, lon, lat, colorbar=False, axes=canvas()[1][0, 0])
    (drawn,) = axes.images
    left, right, bottom, top = drawn.get_extent()
    rows, columns = drawn.get_array().shape

    def color(x, y):
        return drawn.get_array()[
            int(rows * (y - bottom) / (top - bottom)), int(columns * (x - left) / (right - left))
        ]

    x = np.sqrt(8 - 4 * 0.5**2)
    assert np.isfinite([color(0.99 * x, 0.5), color(-0.99 * x, 0.5)]).all() and not np.isfinite(
        color(0.0, -0.3)
    )
    assert abs(color(0.0, 0.5) - np.degrees(np.arcsin(chart_north(0.5)))) < 1.5


@pytest.mark.parametrize("n", [1000, 5000, 100_000])
def test_arrows_are_spread_evenly_however_uneven_the_sample(n):
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(0, 1, (n // 2, 2)), rng.uniform(0, 0.1, (n // 2, 2))])
    rows = spread_out(points, 64)
    assert len(np.unique(rows)) == 64
    distance = np.linalg.norm(points[rows][:, None] - points[rows][None], axis=2) + 9 * np.eye(64)
    assert distance.min() > 0.5 / 8  # on a grid of 8 x 8 it would be 1/7


@pytest.mark.parametrize("up", ["x", "y", "z"])
def test_pictures_are_the_right_way_up(up):
    view, points = tb.plot.View(30, 40, up), TORUS.sample(500, seed=0)
    assert np.allclose(view.axes @ view.axes.T, np.eye(3)) and np.isclose(
        np.linalg.det(view.axes), 1
    )
    right, above, _ = view.project(np.eye(3)["xyz".index(up)])
    assert abs(right) < 1e-12 and np.isclose(above, np.cos(np.radians(30)))
    camera = tb.plot.interactive_field(points, up=up).layout.scene.camera
    assert [camera.up[a] for a in "xyz"] == [float(a == up) for a in "xyz"] and camera.eye[up] > 0


@pytest.mark.parametrize("faces", [False, True])
def test_a_sphere_hides_its_other_side(faces):
    from scipy.spatial import ConvexHull

    points, view = SPHERE.sample(4000, seed=0), tb.plot.View(20, 70)
    surface = Surface.of(points, ConvexHull(points).simplices if faces else None)
    depth, seen = view.project(points)[:, 2], surface.visible(view, points)
    assert seen[depth > 0.3].mean() > 0.99 and seen[depth < -0.3].mean() < 0.01
    front = view.axes[2] @ surface.points[surface.light(view).argmax()]
    assert front > 0.7 or front < -0.7  # lit over the viewer's shoulder, on both sides


@pytest.mark.parametrize(
    ("space", "area"), [(SPHERE, 4 * np.pi), (TORUS, 4 * np.pi**2 * 0.1 * 0.3)]
)
def test_triangles_between_points_cover_the_surface_and_arrows_stay_on_one_side(space, area):
    points = space.sample(2000, seed=0)
    surface = Surface.of(points)
    a, b, c = (surface.points[surface.faces[:, k]] for k in range(3))
    covered = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / area
    assert 0.97 < covered < 1.25 and len(np.unique(surface.faces)) == len(surface.points)
    if space is SPHERE:
        arc = np.linspace(0, 0.3, 5)[:, None] * points[:50, None] ** 0 + points[:50, None]
        arc /= np.linalg.norm(arc, axis=2, keepdims=True)
        above = np.linalg.norm(surface.both_sides(arc), axis=2) > 1
        assert (above.all(axis=1) | ~above.any(axis=1)).all() and above.mean() == 0.5


def test_streamlines_stay_on_the_surface_and_follow_the_field():
    points = SPHERE.sample(2000, seed=0)
    curves = streamlines(points, np.cross([0, 0, 1.0], points), spread_out(points, 80), length=0.5)
    curves = curves[np.isfinite(curves).all(axis=(1, 2))]
    assert len(curves) > 60 and abs(np.linalg.norm(curves, axis=2) - 1).max() < 0.03
    assert np.ptp(curves[:, :, 2], axis=1).max() < 0.05  # circles of latitude
    angle = np.unwrap(np.arctan2(curves[..., 1], curves[..., 0]), axis=1)
    assert (np.diff(angle, axis=1) > 0).all()  # forward along the field


def test_what_is_no_surface_is_not_shaded():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 1000)
    curve = np.stack([np.cos(angle), np.sin(angle), np.sin(3 * angle)], axis=1)
    assert Surface.of(rng.standard_normal((1000, 3))) is None
    assert Surface.of(curve) is None and Surface.of(SPHERE.sample(50, seed=0)) is None
    assert Surface.of(TORUS.sample(3000, seed=0)) is not None


@pytest.mark.parametrize("dim", [1, 2, 3, 7])
def test_fields_of_any_dimension_can_be_drawn(dim):
    rng = np.random.default_rng(0)
    axes = canvas()[1][0, 0]
    tb.plot.field(rng.standard_normal((50, dim)), rng.standard_normal((50, dim)), axes=axes)
    figure = tb.plot.interactive_field(rng.standard_normal((50, dim)), rng.random((50, dim)))
    assert len(axes.collections) >= 2 and len(figure.data) >= 2


def test_colour_bars_cover_or_mark_the_range_of_the_data():
    points, vectors = TORUS.sample(500, seed=0), np.ones((500, 3))
    vectors[0] *= 100
    (figure, axes), layer = canvas(), Layer("a", points, vectors, label="wind speed", unit="m s-1")
    tb.plot.field(points, vectors, axes=axes[0, 0])
    assert figure.axes[-1].get_ylabel() == "length\n(largest 173)"
    drawn = side_by_side([[layer]])[0]
    (bar,) = (
        t.marker.colorbar for t in drawn.data if t.type == "scatter3d" and t.mode == "markers"
    )
    assert bar.title.text == "wind speed, m/s (1.73 to 173)"


@pytest.mark.parametrize(
    ("name", "label"),
    [("u10", "wind speed"), ("eastward_wind", "wind speed"), ("uo", "current speed")],
)
def test_currents_are_no_wind(name, label):
    globe = tb.spaces.Globe(np.zeros(3), np.arange(3.0), ("lat", "lon"))
    field = tb.io.Field(globe, np.ones((1, 3, 2)), (name, "north"))
    assert quantity_of(field).length == label


def test_eigenvalues_are_grouped_by_their_sampling_errors():
    from tangentbundle.diagnostics import sampling_errors

    errors = []
    for n in (1000, 4000):
        bundle = tb.TangentBundle.from_points(SPHERE.sample(n, seed=0), dim=2)
        values, fields = bundle.laplacian().spectrum(16)
        errors.append(sampling_errors(bundle, fields))
        assert multiplicities(values, errors[-1]) == [6, 10]
    assert 0.4 < (errors[1] / errors[0]).mean() < 0.6  # as the root of the number of points
    assert multiplicities(np.array([23.6, 24.9, 37.8]), 0.2) == [1, 1, 1]


def test_a_bandpass_is_no_lowpass_filter():
    lap = tb.TangentBundle.from_points(SPHERE.sample(300, seed=0)).laplacian()
    filters = tb.Heat(0.1), tb.Heat(0.1) - tb.Heat(0.2)
    titles = [response(f, lap, canvas()[1][0, 0]).get_title() for f in filters]
    assert titles[0].startswith("lowpass") and titles[1].startswith("bandpass")


@pytest.mark.parametrize("n", [1, 2, 3, 20])
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_few_points_and_fields_that_vanish_can_be_drawn(n, size):
    points = SPHERE.sample(n, seed=0)
    tb.plot.field(points, size * points[::-1], axes=canvas()[1][0, 0])
    assert len(tb.plot.interactive_field(points, size * points[::-1]).data) >= 2


def test_tensors_of_single_precision_that_learn_can_be_drawn():
    points = torch.from_numpy(TORUS.sample(450, seed=0)).float()
    vectors = torch.ones(450, 3, requires_grad=True)
    lat, lon = torch.linspace(-60, 60, 50), torch.linspace(0, 300, 50)
    assert len(tb.plot.field(points, vectors, axes=canvas()[1][0, 0]).collections) >= 2
    assert len(tb.plot.interactive_field(points, vectors).data) >= 2
    assert tb.plot.earth_map(lat, lon, vectors[:50, :2], axes=canvas()[1][0, 0]).get_title() == ""


def test_carried_around_a_sphere_vectors_turn_by_the_area():
    """Along an octant, back to where it began, a vector turns by a right angle."""
    points = np.concatenate([np.eye(3), SPHERE.sample(6000, seed=0)])
    bundle = tb.TangentBundle.from_points(points, dim=2)
    turn = np.eye(2)
    for start, end in ((0, 1), (1, 2), (2, 0)):
        path = shortest_path(bundle, start, end)
        for i, j in zip(path[1:], path[:-1], strict=True):
            turn = transport_block(bundle, i, j) @ turn
    assert abs(np.degrees(np.arccos(np.trace(turn) / 2)) - 90) < 12


def test_far_points_without_a_path_are_told():
    points = np.concatenate([SPHERE.sample(600, seed=0), SPHERE.sample(600, seed=1) + 9.0])
    with pytest.warns(tb.errors.TangentBundleWarning):
        bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=20)
    with pytest.raises(tb.errors.InvalidInputError, match="different components"):
        shortest_path(bundle, 0, 1199)


def test_without_matplotlib_or_plotly_the_remedy_is_told(monkeypatch):
    for name in ("matplotlib.figure", "plotly.graph_objects"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(tb.errors.MissingExtraError, match=r"pip install 'tangentbundle\[plot\]'"):
        canvas()
    with pytest.raises(tb.errors.MissingExtraError, match=r"pip install 'tangentbundle\[plot\]'"):
        tb.plot.interactive_field(np.zeros((5, 3)))
