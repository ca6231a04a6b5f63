"""What a picture shows: all arrows up to their tips, on the same axes in all panels, however few the points."""

import warnings

import numpy as np
import pytest

import tangentbundle as tb

pytest.importorskip("matplotlib")

from tangentbundle.geometry.known_frames import latlon_frames
from tangentbundle.plot.interactive import layered, side_by_side
from tangentbundle.plot.layers import Layer
from tangentbundle.plot.style import canvas


def ranges(figure):
    """The box of a plotly figure ``(2 or 3, 2)``."""
    layout = figure.layout.to_plotly_json()
    axes = layout.get("scene", layout)
    return np.array([axes[f"{a}axis"]["range"] for a in "xyz" if f"{a}axis" in axes])


def drawn(figure):
    """All places of dots and lines that belong to layers ``(k, 2 or 3)``."""
    names = "xyz"[: len(ranges(figure))]
    traces = [t for t in figure.data if t.name not in ("coastlines", "graticule", "degrees") and t.mode != "text"]
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
        alone = layered(layers[1:], chart=chart)
    assert np.array_equal(ranges(left), ranges(right))
    for figure in (left, right, alone):
        box, places = ranges(figure), drawn(figure)
        sides = np.ptp(box, axis=1)
        assert (np.abs(places - box.mean(axis=1)) / sides <= 0.5 + 1e-5)[np.isfinite(places)].all()
        assert (sides >= 0.15 * sides.max()).all() and np.isfinite(figure.layout.meta["ratio"])
    assert (np.nanmax(places, axis=0) - np.nanmin(places, axis=0)).max() > 0.3 * sides.max()  # not lost in the middle


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
            tb.plot.field(rng.standard_normal((n, dim)), rng.standard_normal((n, dim)), axes=axes[0, 0])
        figure.canvas.draw()
    (arrows,) = (c for c in axes[0, 0].collections if hasattr(c, "U"))
    tips = arrows.XY + np.stack([arrows.U, arrows.V], axis=1)
    limits = np.array([axes[0, 0].get_xlim(), axes[0, 0].get_ylim()])
    for places in (arrows.XY, tips):
        assert (places >= limits[:, 0]).all() and (places <= limits[:, 1]).all()
    assert arrows.get_alpha() is None or np.max(arrows.get_alpha()) == 1
