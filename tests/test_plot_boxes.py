"""What a picture shows: all arrows up to their tips, on the same axes in all panels; and inputs
that are refused."""

import warnings

import numpy as np
import pytest

import tangentbundle as tb

pytest.importorskip("matplotlib")

from tangentbundle.geometry.known_frames import latlon_frames
from tangentbundle.plot.interactive import side_by_side
from tangentbundle.plot.layers import Layer
from tangentbundle.plot.maps import map_labels
from tangentbundle.plot.style import canvas


def ranges(figure):
    """The box of a plotly figure ``(2 or 3, 2)``."""
    layout = figure.layout.to_plotly_json()
    axes = layout.get("scene", layout)
    return np.array([axes[f"{a}axis"]["range"] for a in "xyz" if f"{a}axis" in axes])


def drawn(figure):
    """All places of dots and lines that belong to layers ``(k, 2 or 3)``."""
    names = "xyz"[: len(ranges(figure))]
    traces = [
        t
        for t in figure.data
        if t.name not in ("coastlines", "graticule", "degrees") and t.mode != "text"
    ]
    return np.concatenate([np.stack([t[a] for a in names], axis=1) for t in traces])


def region(n, size, rng):
    lat, lon = 47 + size * rng.uniform(-1, 1, n), 8 + size * rng.uniform(-1, 1, n)
    points, frames, _ = latlon_frames(lat, lon)
    return points, np.einsum("nda,na->nd", frames, rng.standard_normal((n, 2))), lat, lon


@pytest.mark.parametrize("n", [1, 2, 60])
@pytest.mark.parametrize("kind", ["plane", "space", "map", "many axes"])
def test_panels_share_a_box_that_holds_every_arrow(kind, n):
    rng = np.random.default_rng(n)
    chart = tb.plot.EqualAreaMap(47.0, 8.0, 20.0) if kind == "map" else None
    layers = []
    for number, size in ((60, 2.0), (n, 5.0)):
        points, vectors, *_ = region(number, size, rng)
        if kind != "map":
            dim = {"plane": 2, "space": 3, "many axes": 30}[kind]
            points, vectors = size * rng.standard_normal((2, number, dim))
        layers.append(Layer("a", points, vectors))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        left, right = side_by_side([layers[:1], layers[1:]], chart=chart)
        alone = side_by_side([layers[1:]], chart=chart)[0]
    assert np.array_equal(ranges(left), ranges(right))
    for figure in (left, right, alone):
        box, places = ranges(figure), drawn(figure)
        sides = np.ptp(box, axis=1)
        assert (np.abs(places - box.mean(axis=1)) / sides <= 0.5 + 1e-5)[np.isfinite(places)].all()
        assert (sides >= 0.15 * sides.max()).all() and np.isfinite(figure.layout.meta["ratio"])
    assert (
        np.nanmax(places, axis=0) - np.nanmin(places, axis=0)
    ).max() > 0.3 * sides.max()  # not lost in the middle


def test_reference_arrows_belong_to_arrows_and_labels_and_arrows_respect_the_rim():
    points = tb.manifolds.Sphere(2).sample(300, seed=0)
    wind = Layer("wind", points, np.cross([0, 0, 1.0], points), unit="m/s")
    layers = [
        *wind.with_streamlines(),
        Layer("vorticity", points, color=points[:, 2], label="vorticity"),
    ]
    chart = tb.plot.EqualAreaMap()
    figure = side_by_side([layers], chart=chart)[0]
    for choice, wanted in zip(figure.layout.meta["choices"], (True, False, False), strict=True):
        shown = [
            t.name for t, visible in zip(figure.data, choice["visible"], strict=True) if visible
        ]
        assert ("reference" in shown) == wanted
    low, high = ranges(figure).T
    for text, place, parallel in map_labels(chart, low, high):
        assert (
            np.isnan(chart.unproject(place)).all() == parallel
            and (place > low).all()
            and (place < high).all()
        ), text
    drawn = side_by_side([[wind]], chart=chart)[0].data
    arrows = [t for t in drawn if t.mode == "lines" and t.name is None and len(t.x) % 6 == 0]
    tips = np.concatenate([np.stack([t.x, t.y], axis=1).reshape(-1, 6, 2)[:, 1] for t in arrows])
    assert len(tips) > 200 and np.isfinite(chart.unproject(tips)).all()


@pytest.mark.parametrize("n", [1, 2, 60])
@pytest.mark.parametrize("kind", ["plane", "space", "map"])
def test_axes_hold_every_arrow(kind, n):
    rng = np.random.default_rng(n)
    (figure, axes), dim = canvas(), 3 if kind == "space" else 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if kind == "map":
            *_, lat, lon = region(n, 5.0, rng)
            tb.plot.earth_map(lat, lon, rng.standard_normal((n, 2)), axes=axes[0, 0])
        else:
            tb.plot.field(
                rng.standard_normal((n, dim)), rng.standard_normal((n, dim)), axes=axes[0, 0]
            )
        figure.canvas.draw()
    (arrows,) = (c for c in axes[0, 0].collections if hasattr(c, "U"))
    tips = arrows.XY + np.stack([arrows.U, arrows.V], axis=1)
    limits = np.array([axes[0, 0].get_xlim(), axes[0, 0].get_ylim()])
    for places in (arrows.XY, tips):
        assert (places >= limits[:, 0]).all() and (places <= limits[:, 1]).all()
    assert arrows.get_alpha() is None or np.max(arrows.get_alpha()) == 1


def test_a_field_without_length_and_shapes_that_do_not_fit():
    axes = canvas()[1][0, 0]
    tb.plot.field(tb.manifolds.Torus().sample(500, seed=0), np.zeros((500, 3)), axes=axes)
    with pytest.raises(tb.errors.ShapeError, match="expected points"):
        tb.plot.field(np.zeros((5, 3)), np.zeros((4, 3)), axes=axes)
    with pytest.raises(tb.errors.ShapeError, match="rows below 5"):
        tb.plot.field(np.eye(5, 3), faces=[[0, 1, 5]], axes=axes)
    with pytest.raises(tb.errors.ShapeError, match="integer rows below 5, got float64"):
        tb.plot.field(np.eye(5, 3), faces=[[0.0, 1.0, 2.0]], axes=axes)
    for color, error in ((np.ones(4), tb.errors.ShapeError), ("red", tb.errors.DTypeError)):
        with pytest.raises(error, match="color"):
            tb.plot.field(np.eye(5, 3), np.eye(5, 3), color=color, axes=axes)
    for draw in (tb.plot.field, tb.plot.interactive_field):
        with pytest.raises(tb.errors.ShapeError, match=r"at least one point.*\(0, 3\)"):
            draw(np.zeros((0, 3)), np.zeros((0, 3)))
    with pytest.raises(tb.errors.InvalidInputError, match=r"x, y or z.*'q'"):
        tb.plot.interactive_field(np.eye(5, 3), up="q")
    with pytest.raises(tb.errors.ShapeError, match=r"winds \(2, 2\)"):
        tb.plot.earth_map([0.0, 1.0], [0.0, 1.0], [1.0, 2.0, 3.0], axes=axes)
