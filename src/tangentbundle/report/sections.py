"""The figures of a report, from the summary of a command."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..earth.maps import EqualAreaMap
from ..io import Field, Globe, Mesh, Summary
from ..plot.curves import bundle_statistics
from ..plot.interactive import MAX_ARROWS, MAX_DOTS, Layer, interactive_field, interactive_map
from ..plot.style import ERRORS, LENGTHS
from . import charts


@dataclass(frozen=True)
class Section:
    """A plotly figure with its heading; the figure's menu of layers becomes a row of ``buttons``."""

    title: str
    spec: dict[str, Any]
    buttons: tuple[str, ...] = ()
    note: str = ""

    @classmethod
    def of(cls, title: str, figure: Any, note: str = "") -> Section:
        spec = json.loads(figure.to_json())
        menus = spec["layout"].pop("updatemenus", [])
        choices = menus[0]["buttons"] if menus else []
        spec["choices"] = [choice["args"] for choice in choices]
        return cls(title, spec, tuple(html.unescape(choice["label"]) for choice in choices), note)


def sections(summary: Summary) -> list[Section]:
    """All that can be drawn of a summary."""
    found = []
    if summary.before is not None:
        found += _fields(summary, summary.before)
    if summary.filter is not None:
        ends = 1.5 ** np.arange(60)
        end = ends[np.argmax(np.abs(np.asarray(summary.filter.response(ends))) < 0.01)]
        line = np.linspace(0, end, 300)
        response = {"response": (line, np.asarray(summary.filter.response(line)))}
        found.append(Section.of("Response of the filter", charts.lines(response, "eigenvalue of −Δ", "factor")))
    if summary.eigenvalues is not None:
        note = "Numbers above bars: how many eigenvalues are nearly equal (no gap above 12 %)."
        found.append(Section.of("Spectrum", charts.spectrum(summary.eigenvalues), note))
    if summary.before is not None and summary.after is not None:
        forecast = summary.command == "forecast"
        found += (_series if forecast else _residuals)(summary, summary.before, summary.after)
    if summary.command == "inspect" and summary.bundle is not None:
        found.append(Section.of("The bundle", charts.histograms(bundle_statistics(summary.bundle))))
    return found


def _fields(summary: Summary, before: Field) -> Iterator[Section]:
    """The fields, on a map and in space."""
    layers, space = layers_of(summary, before), before.space
    if isinstance(space, Globe):
        note = "Equal in area; arrows point along the map's own meridians. Point anywhere to read the nearest values."
        yield Section.of("The map", interactive_map(layers, EqualAreaMap.fitting(space.lat, space.lon)), note)
    title = "The field" if summary.modes is None else "Eigenfields, with their eigenvalues"
    notes = ["Drag to turn, scroll to come nearer, point at a dot to read its values."]
    if len(before) > 1 and summary.command != "forecast":
        when = "" if before.times is None else f" ({before.times[0].astype('datetime64[m]')})"
        notes.append(f"The first of {len(before)} fields is shown{when}.")
    most = max(len(layer.points) for layer in layers)
    if most > MAX_DOTS:
        notes.append(f"At most {MAX_DOTS} of {most} points are shown, spread evenly, and {MAX_ARROWS} with arrows.")
    elif most > MAX_ARROWS and before.values is not None:
        notes.append(f"At most {MAX_ARROWS} of {most} points have arrows, spread evenly.")
    if space.points.shape[1] > 3:
        notes.append(f"Of {space.points.shape[1]} dimensions the three principal axes are shown.")
    faces = space.faces if isinstance(space, Mesh) else None
    yield Section.of(title, interactive_field(layers, faces=faces), " ".join(notes))


def layers_of(summary: Summary, before: Field) -> list[Layer]:
    """What there is to look at: the fields before and after, their difference, the uncertainty."""
    after, place = summary.after, Field(before.space)
    if summary.modes is not None and summary.eigenvalues is not None:
        pairs = zip(summary.eigenvalues, summary.modes, strict=False)
        return [_layer(f"{k}: {value:.4g}", place, vectors) for k, (value, vectors) in enumerate(pairs, start=1)]
    if after is None:
        return [_field_layer("field", before)]
    if summary.command == "forecast":
        steps = sorted({0, len(after) // 2, len(after) - 1})
        last = _field_layer("last observed", before, len(before) - 1)
        return [last, *(_field_layer(f"step {step + 1}", after, step) for step in steps)]
    same = after.space is before.space
    layers = [
        _field_layer("before" if same else "observed", before),
        _field_layer("after" if same else "predicted", after),
    ]
    fitted = after if same else summary.fitted
    if fitted is not None:
        difference = _ambient(fitted) - _ambient(before)
        layers.append(_layer("difference" if same else "residual", before, difference, "length of the difference"))
    if after.std is not None:
        layers.append(_layer("uncertainty", after, None, "standard deviation", _deviation(after)))
    return layers


def _layer(
    name: str,
    field: Field,
    vectors: np.ndarray | None,
    quantity: str = "length",
    color: np.ndarray | None = None,
    values: dict[str, np.ndarray] | None = None,
) -> Layer:
    """Vectors or numbers at the places of a field; the first coordinates and values are shown under the mouse."""
    found = dict(zip(field.space.names, field.space.coordinates.T, strict=True)) | (values or {})
    points, palette = np.asarray(field.space.points, dtype=float), LENGTHS if quantity == "length" else ERRORS
    layer = Layer(name, points, vectors, color, quantity + _unit(field), palette, dict([*found.items()][:12]))
    if vectors is not None or color is not None:
        layer.values[quantity] = layer.numbers
    return layer


def _field_layer(name: str, field: Field, number: int = 0) -> Layer:
    if field.values is None:
        return _layer(name, field, None)
    layer = _layer(
        name, field, _ambient(field, number), values=dict(zip(field.names, field.values[number].T, strict=True))
    )
    if field.std is not None:
        layer.values["standard deviation"] = _deviation(field, number)
    return layer


def _unit(field: Field) -> str:
    return f", {field.units}" if field.units else ""


def _ambient(field: Field, number: int = 0) -> np.ndarray:
    assert field.values is not None
    return np.asarray(field.space.ambient(field.values[number : number + 1])[0], dtype=float)


def _deviation(field: Field, number: int = 0) -> np.ndarray:
    """One standard deviation for all components of a point."""
    assert field.std is not None
    return np.sqrt(np.square(field.std[number]).mean(axis=1))


def _residuals(summary: Summary, before: Field, after: Field) -> Iterator[Section]:
    same = after.space is before.space
    fitted, found = after if same else summary.fitted, {}
    where = "" if same else " at observed places"
    if fitted is not None:
        size = np.linalg.norm(_ambient(fitted) - _ambient(before), axis=1)
        found[f"length of the difference{where}{_unit(before)}"] = size
    if after.std is not None:
        found[f"standard deviation{_unit(before)}"] = _deviation(after)
    note = "" if same else "The fit used the values at observed places; elsewhere see the standard deviation."
    if found:
        yield Section.of("Residuals", charts.histograms(found), note)


def _series(summary: Summary, before: Field, after: Field) -> Iterator[Section]:
    """Root mean squares of observed and predicted fields."""
    assert before.values is not None and after.values is not None
    steps = np.arange(1, len(after) + 1)
    past, future = (np.sqrt(np.square(v).sum(axis=2).mean(axis=1)) for v in (before.values, after.values))
    recent = past[-4 * len(future) :]
    lines = {"observed": (np.arange(1 - len(recent), 1), recent), "forecast": (steps, future)}
    if after.std is not None:
        lines["expected error"] = (steps, np.sqrt(np.square(after.std).sum(axis=2).mean(axis=1)))
    yield Section.of("In time", charts.lines(lines, "step", f"root mean square{_unit(before)}"))
