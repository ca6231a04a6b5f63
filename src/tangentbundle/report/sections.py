"""The pictures of a report, from what a command left in its summary."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..io import Field, Globe, Mesh, Summary
from ..plot import interactive
from ..plot.curves import multiplicities
from ..plot.histograms import Histogram, of_bundle
from ..plot.layers import ARROWS, SHOWN, Layer
from ..plot.projections import fitting
from ..plot.style import ERRORS
from . import page


def pictures(summary: Summary) -> str:
    """All that can be drawn."""
    return "".join(draw(summary) for draw in (_fields, _response, _spectrum, _residuals, _in_time, _bundle, _table))


def _fields(summary: Summary) -> str:
    """The fields, in space and on a map."""
    if summary.before is None:
        return ""
    layers, space = layers_of(summary), summary.before.space
    words = note_on(summary, layers)
    faces = space.faces if isinstance(space, Mesh) else None
    turning = "Drag to turn, scroll to come nearer, point at a dot to read its values. "
    body = page.plot(interactive.interactive_field(layers, faces=faces), "which field is shown in space")
    title = "The field" if summary.modes is None else "Eigenfields, with their eigenvalues"
    shown = page.section(title, body, page.note(turning + words))
    if isinstance(space, Globe):
        chart = fitting(space.lat, space.lon)
        body = page.plot(interactive.interactive_map(layers, chart), "which field is shown on the map")
        told = "Equal in area; arrows point along the map's own meridians. Point anywhere to read the nearest values."
        shown = page.section("The map", body, page.note(told)) + shown
    return shown


def layers_of(summary: Summary) -> list[Layer]:
    """What there is to look at: before, after, and what differs."""
    before, after = summary.before, summary.after
    assert before is not None
    if summary.modes is not None and summary.eigenvalues is not None:
        pairs = zip(summary.eigenvalues, summary.modes, strict=False)
        return [_mode(before, k, value, vectors) for k, (value, vectors) in enumerate(pairs)]
    if summary.command == "forecast" and after is not None:
        steps = sorted({0, len(after) // 2, len(after) - 1})
        return [
            _layer("last observed", before, len(before) - 1),
            *(_layer(f"step {step + 1}", after, step) for step in steps),
        ]
    if after is None:
        return [_layer("field", before)]
    if after.space is before.space:
        layers = [_layer("before", before), _layer("after", after), _difference("difference", before, after)]
    else:
        layers = [_layer("observed", before), _layer("predicted", after)]
        if summary.fitted is not None:
            layers.append(_difference("residual", before, summary.fitted))
    return [*layers, _spread(after)] if after.std is not None else layers


def note_on(summary: Summary, layers: list[Layer]) -> str:
    """What of the data is shown."""
    before = summary.before
    assert before is not None
    words = []
    if len(before) > 1 and summary.command != "forecast":
        when = "" if before.times is None else f" ({before.times[0].astype('datetime64[m]')})"
        words.append(f"The first of {len(before)} fields is shown{when}.")
    most = max(len(layer.points) for layer in layers)
    if most > SHOWN:
        words.append(f"At most {SHOWN} of {most} points are shown as dots, spread evenly, and {ARROWS} with arrows.")
    elif most > ARROWS and before.values is not None:
        words.append(f"At most {ARROWS} of {most} points have arrows, spread evenly.")
    if before.space.points.shape[1] > 3:
        words.append(f"Of {before.space.points.shape[1]} dimensions the three widest are shown.")
    return " ".join(words)


def _unit(field: Field) -> str:
    return f", {field.units}" if field.units else ""


def _values(field: Field, number: int = 0) -> dict[str, np.ndarray]:
    """Numbers of every point, as the file names them."""
    found = dict(zip(field.space.names, field.space.coordinates.T, strict=True))
    if field.values is not None:
        found |= dict(zip(field.names, field.values[number].T, strict=True))
    return dict(list(found.items())[:12])


def _ambient(field: Field, number: int = 0) -> np.ndarray:
    assert field.values is not None
    return np.asarray(field.space.ambient(field.values[number : number + 1])[0], dtype=float)


def _layer(name: str, field: Field, number: int = 0) -> Layer:
    points = np.asarray(field.space.points, dtype=float)
    if field.values is None:
        return Layer(name, points, values=_values(field))
    vectors, values = _ambient(field, number), _values(field, number)
    values["length"] = np.linalg.norm(vectors, axis=1)
    if field.std is not None:
        values["standard deviation"] = _level(field, number)
    return Layer(name, points, vectors, label=f"length{_unit(field)}", values=values)


def _mode(field: Field, number: int, value: float, vectors: np.ndarray) -> Layer:
    values = _values(Field(field.space))
    values["length"] = np.linalg.norm(vectors, axis=1)
    name = f"{number + 1}: {value:.4g}"
    return Layer(name, np.asarray(field.space.points, dtype=float), vectors, values=values)


def _difference(name: str, before: Field, after: Field) -> Layer:
    vectors = _ambient(after) - _ambient(before)
    size = np.linalg.norm(vectors, axis=1)
    values = _values(Field(before.space)) | {"length of the difference": size}
    points = np.asarray(before.space.points, dtype=float)
    return Layer(name, points, vectors, label=f"difference{_unit(before)}", palette=ERRORS, values=values)


def _level(field: Field, number: int = 0) -> np.ndarray:
    """One standard deviation for all components of a point."""
    assert field.std is not None
    return np.sqrt(np.square(field.std[number]).mean(axis=1))


def _spread(field: Field) -> Layer:
    level = _level(field)
    values, label = _values(Field(field.space)) | {"standard deviation": level}, f"standard deviation{_unit(field)}"
    points = np.asarray(field.space.points, dtype=float)
    return Layer("uncertainty", points, None, level, label, ERRORS, values)


def _response(summary: Summary) -> str:
    if summary.filter is None:
        return ""
    end = 1.0
    for _ in range(60):
        if abs(float(np.asarray(summary.filter.response(np.array([end])))[0])) < 0.01:
            break
        end *= 1.5
    line = np.linspace(0, end, 300)
    drawn = {"response": (line, np.asarray(summary.filter.response(line)))}
    figure = interactive.interactive_curves(drawn, "eigenvalue of −Δ", "factor", height=280)
    return page.section("What the filter keeps", page.plot(figure, "response of the filter"))


def _spectrum(summary: Summary) -> str:
    values = summary.eigenvalues
    if values is None:
        return ""
    figure = interactive.interactive_spectrum(values, multiplicities(values))
    words = "Numbers above bars: how many eigenvalues are nearly equal (no gap above 12 %)."
    return page.section("Spectrum", page.plot(figure, "eigenvalues"), page.note(words))


def _residuals(summary: Summary) -> str:
    before, after, found = summary.before, summary.after, []
    if before is None or after is None or summary.command == "forecast":
        return ""
    made, where = (after, "") if after.space is before.space else (summary.fitted, " at observed places")
    if made is not None:
        size = np.linalg.norm(_ambient(made) - _ambient(before), axis=1)
        found.append(Histogram.of(size, f"length of the difference{where}{_unit(before)}"))
    if after.std is not None:
        found.append(Histogram.of(_level(after), f"standard deviation{_unit(before)}"))
    if not found:
        return ""
    words = (
        "The fit has seen the values at observed places: elsewhere the standard deviation tells the error."
        if where
        else ""
    )
    return page.section(
        "Residuals", page.plot(interactive.interactive_histograms(found), "residuals"), page.note(words)
    )


def _in_time(summary: Summary) -> str:
    before, after = summary.before, summary.after
    if summary.command != "forecast" or before is None or after is None:
        return ""
    assert before.values is not None and after.values is not None
    past, future = (np.sqrt(np.square(v).sum(axis=2).mean(axis=1)) for v in (before.values, after.values))
    recent = past[-4 * len(future) :]
    lines = {
        "observed": (np.arange(1 - len(recent), 1), recent),
        "forecast": (np.arange(1, len(future) + 1), future),
    }
    if after.std is not None:
        spread = np.sqrt(np.square(after.std).sum(axis=2).mean(axis=1))
        lines["expected error"] = (np.arange(1, len(future) + 1), spread)
    figure = interactive.interactive_curves(lines, "step", f"root mean square{_unit(before)}")
    return page.section("In time", page.plot(figure, "lengths in time"))


def _bundle(summary: Summary) -> str:
    if summary.command != "inspect" or summary.bundle is None:
        return ""
    figure = interactive.interactive_histograms(of_bundle(summary.bundle))
    return page.section("The bundle", page.plot(figure, "histograms of the bundle"))


def _table(summary: Summary) -> str:
    if summary.table is None:
        return ""
    drawn = [page.picture(file) for file in summary.files if Path(file).suffix == ".png" and Path(file).exists()]
    notes = "".join(page.note(part) for part in summary.table.notes.split("\n\n"))
    table = page.grid(summary.table.header, summary.table.body)
    return page.section("The table", table, notes) + page.section("Figures", *drawn)
