"""The figures of a report, from the summary of a command."""

from __future__ import annotations

import base64
import dataclasses
import html
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..earth.maps import EqualAreaMap
from ..io import Field, Globe, Mesh, Summary
from ..plot.curves import curves, diagnostics, histograms, spectrum
from ..plot.interactive import MAX_ARROWS, MAX_DOTS, Layer, interactive_field, interactive_map
from ..plot.style import ERRORS, LENGTHS, canvas


@dataclass(frozen=True)
class Section:
    """A heading with a figure: an interactive one, as JSON with ``buttons`` to choose layers, or an image."""

    title: str
    note: str = ""
    spec: dict[str, Any] = dataclasses.field(default_factory=dict)
    buttons: tuple[str, ...] = ()
    image: str = ""

    @classmethod
    def interactive(cls, title: str, figure: Any, note: str) -> Section:
        """A plotly figure; its menu of layers becomes the buttons."""
        spec = json.loads(figure.to_json())
        menus = spec["layout"].pop("updatemenus", [])
        choices = menus[0]["buttons"] if menus else []
        spec["choices"] = [choice["args"] for choice in choices]
        return cls(title, note, spec, tuple(html.unescape(choice["label"]) for choice in choices))

    @classmethod
    def chart(cls, title: str, figure: Any, note: str = "") -> Section:
        """A matplotlib figure."""
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        content = io.BytesIO()
        figure.savefig(content, format="svg", transparent=True)
        return cls(title, note, image=base64.b64encode(content.getvalue()).decode())


def sections(summary: Summary) -> list[Section]:
    """All that can be drawn of a summary."""
    before, after = summary.before, summary.after
    found: list[Section] = []
    if before is not None:
        layers = layers_of(summary, before)
        found += _fields(summary, before, layers)
    if summary.filter is not None:
        ends = 1.5 ** np.arange(60)
        end = ends[np.argmax(np.abs(np.asarray(summary.filter.response(ends))) < 0.01)]
        line = np.linspace(0, end, 300)
        response = {"": (line, np.asarray(summary.filter.response(line)))}
        found.append(Section.chart("Response of the filter", _lines(response, "eigenvalue of $-\\Delta$", "factor")))
    if summary.eigenvalues is not None:
        figure, axes = canvas(size=(10, 3.2))
        spectrum(summary.eigenvalues, axes=axes[0, 0])
        note = "Numbers above dots: how many eigenvalues are nearly equal (no gap above 12 %)."
        found.append(Section.chart("Spectrum", figure, note))
    if before is not None and after is not None and summary.command == "forecast":
        found.append(Section.chart("In time", _series(before, after)))
    elif before is not None and (errors := {layer.label: layer.numbers for layer in layers if layer.palette == ERRORS}):
        note = "The fit used the values at observed places; elsewhere see the standard deviation."
        found.append(Section.chart("Residuals", histograms(errors), note if summary.fitted is not None else ""))
    if summary.command == "inspect" and summary.bundle is not None:
        found.append(Section.chart("The bundle", diagnostics(summary.bundle)))
    return found


def _lines(lines: dict[str, tuple[np.ndarray, np.ndarray]], x: str, y: str) -> Any:
    figure, axes = canvas(size=(10, 3.0))
    runs = {name: (across.tolist(), up[:, None].tolist()) for name, (across, up) in lines.items()}
    axis = curves(runs, band=True, axes=axes[0, 0])
    axis.set_xlabel(x)
    axis.set_ylabel(y, parse_math=False)
    axis.margins(x=0)
    axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    if len(lines) > 1:
        axis.legend(frameon=False)
    return figure


def _series(before: Field, after: Field) -> Any:
    """Root mean squares of observed and predicted fields against time."""
    assert before.values is not None and after.values is not None
    steps = np.arange(1, len(after) + 1)
    past, future = (np.sqrt(np.square(v).sum(axis=2).mean(axis=1)) for v in (before.values, after.values))
    recent = past[-4 * len(future) :]
    lines = {"observed": (np.arange(1 - len(recent), 1), recent), "forecast": (steps, future)}
    if after.std is not None:
        lines["expected error"] = (steps, np.sqrt(np.square(after.std).sum(axis=2).mean(axis=1)))
    return _lines(lines, "step", f"root mean square{_unit(before)}")


def _fields(summary: Summary, before: Field, layers: list[Layer]) -> Iterator[Section]:
    """The fields, on a map and in space."""
    space, most = before.space, max(len(layer.points) for layer in layers)
    if isinstance(space, Globe):
        note = "Equal in area; arrows point along the map's own meridians. Point anywhere to read the nearest values."
        yield Section.interactive("The map", interactive_map(layers, EqualAreaMap.fitting(space.lat, space.lon)), note)
    notes = ["Drag to turn, scroll to come nearer, point at a dot to read its values."]
    if len(before) > 1 and summary.command != "forecast":
        when = "" if before.times is None else f" ({before.times[0].astype('datetime64[m]')})"
        notes.append(f"The first of {len(before)} fields is shown{when}.")
    if most > MAX_ARROWS:
        notes.append(f"{min(MAX_DOTS, most)} of {most} points are shown, spread evenly, {MAX_ARROWS} with arrows.")
    if space.points.shape[1] > 3:
        notes.append(f"Of {space.points.shape[1]} dimensions the three principal axes are shown.")
    title = "The field" if summary.modes is None else "Eigenfields, with their eigenvalues"
    faces = space.faces if isinstance(space, Mesh) else None
    yield Section.interactive(title, interactive_field(layers, faces=faces), " ".join(notes))


def layers_of(summary: Summary, before: Field) -> list[Layer]:
    """What there is to look at: the fields before and after, their difference, the uncertainty."""
    after, place = summary.after, Field(before.space)
    if summary.modes is not None and summary.eigenvalues is not None:
        pairs = zip(summary.eigenvalues, summary.modes, strict=False)
        return [
            _layer(f"{k}: {v:.4g}", place, "length", {}, vectors=mode) for k, (v, mode) in enumerate(pairs, start=1)
        ]
    if after is None:
        return [_field_layer("field", before)]
    if summary.command == "forecast":
        steps = sorted({0, len(after) // 2, len(after) - 1})
        last = _field_layer("last observed", before, len(before) - 1)
        return [last, *(_field_layer(f"step {step + 1}", after, step) for step in steps)]
    same = after.space is before.space
    names = ("before", "after") if same else ("observed", "predicted")
    layers = [_field_layer(name, given) for name, given in zip(names, (before, after), strict=True)]
    fitted = after if same else summary.fitted
    if fitted is not None:
        name, difference = "difference" if same else "residual", _ambient(fitted) - _ambient(before)
        layers.append(_layer(name, before, "length of the difference", {}, vectors=difference))
    if after.std is not None:
        layers.append(_layer("uncertainty", after, "standard deviation", {}, color=_deviation(after)))
    return layers


def _layer(name: str, field: Field, quantity: str, values: dict[str, np.ndarray], **colored: np.ndarray) -> Layer:
    """Vectors or numbers at the places of a field; coordinates, ``values`` and lengths are shown under the mouse."""
    values = dict(zip(field.space.names, field.space.coordinates.T, strict=True)) | values
    points, palette = np.asarray(field.space.points, dtype=float), LENGTHS if quantity == "length" else ERRORS
    values = dict([*values.items()][:12])
    layer = Layer(name, points, label=quantity + _unit(field), palette=palette, values=values, **colored)
    return dataclasses.replace(layer, values=values | {quantity: layer.numbers}) if colored else layer


def _field_layer(name: str, field: Field, number: int = 0) -> Layer:
    if field.values is None:
        return _layer(name, field, "length", {})
    values = dict(zip(field.names, field.values[number].T, strict=True))
    if field.std is not None:
        values["standard deviation"] = _deviation(field, number)
    return _layer(name, field, "length", values, vectors=_ambient(field, number))


def _unit(field: Field) -> str:
    return f", {field.units}" if field.units else ""


def _ambient(field: Field, number: int = 0) -> np.ndarray:
    assert field.values is not None
    return np.asarray(field.space.ambient(field.values[number : number + 1])[0], dtype=float)


def _deviation(field: Field, number: int = 0) -> np.ndarray:
    """One standard deviation for all components of a point."""
    assert field.std is not None
    return np.sqrt(np.square(field.std[number]).mean(axis=1))
