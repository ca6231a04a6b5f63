"""The figures of a report, from the summary of a command."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..earth.maps import EqualAreaMap
from ..extras import extra
from ..io import Field, Globe, Mesh, Summary
from ..io.meshes import up_axis
from ..plot.curves import bundle_numbers, histogram, spectrum
from ..plot.interactive import layered
from ..plot.layers import MAX_ARROWS, MAX_DOTS, Layer, aligned
from ..plot.maps import quantity
from ..plot.style import ERRORS, LENGTHS, LINES, SIGNED, canvas, with_unit

CHART = (5.4, 2.7)
"""Inches of a chart: two side by side on a desktop, one on a phone, with letters as large as those of the text."""

MAX_VALUES = 12
"""Most numbers shown under the mouse."""


@dataclass(frozen=True)
class Panel:
    """A plotly figure as JSON, and its choices: names of layers, and which traces each of them shows."""

    spec: dict[str, Any]
    ratio: float
    choices: list[dict[str, Any]]

    @classmethod
    def of(cls, figure: Any) -> Panel:
        spec = json.loads(figure.to_json())
        layout = spec["layout"]
        meta = layout.pop("meta")
        for name in ("updatemenus", "sliders", "height"):
            layout.pop(name, None)
        layout["margin"]["t"] = 8
        return cls(spec, meta["ratio"], meta["choices"])


@dataclass(frozen=True)
class Section:
    """A heading with panels next to each other whose views are linked, or with charts, as images."""

    title: str
    note: str = ""
    panels: tuple[Panel, ...] = ()
    charts: tuple[str, ...] = ()

    @classmethod
    def of_charts(cls, title: str, *figures: Any, note: str = "") -> Section:
        """Figures of matplotlib."""
        charts = []
        for figure in figures:
            for axes in figure.axes:
                axes.spines[["top", "right"]].set_visible(False)
            content = io.BytesIO()
            figure.savefig(content, format="svg", transparent=True)
            charts.append(base64.b64encode(content.getvalue()).decode())
        return cls(title, note, charts=tuple(charts))


def sections(summary: Summary) -> list[Section]:
    """All that can be drawn of a summary: first the field, then charts."""
    if summary.before is None:
        return list(_charts(summary, []))
    layers = aligned(layers_of(summary, summary.before))
    return [_fields(summary, summary.before, layers), *_charts(summary, layers)]


def _fields(summary: Summary, before: Field, layers: list[Layer]) -> Section:
    """The fields, on a map or in space; what was given to the left of what was computed."""
    space, most = before.space, max(len(layer.points) for layer in layers)
    groups = [layers] if summary.after is None else [layers[:1], layers[1:]]
    if isinstance(space, Globe):
        chart = EqualAreaMap.fitting(*_places([before, summary.after]))
        panels = [layered(group, chart=chart) for group in groups]
        notes = ["Drag to zoom, double-click to see all again. Point anywhere to read the nearest values."]
        notes.append("Equal-area map; arrows point along its own meridians. Coastlines: Natural Earth.")
    else:
        faces = space.faces if isinstance(space, Mesh) else None
        panels = [layered(group, faces=faces, up=up_axis(before)) for group in groups]
        notes = ["Drag to turn, scroll to zoom, point at a dot to read its values."]
        if space.points.shape[1] == 2:
            notes = ["Drag to zoom, double-click to see all again, point at a dot to read its values."]
        if space.points.shape[1] > 3:
            notes.append(f"Of {space.points.shape[1]} dimensions the three principal axes are shown.")
    if len(before) > 1 and summary.command != "forecast":
        when = "" if before.times is None else f" ({before.times[0].astype('datetime64[m]')})"
        notes.append(f"The first of {len(before)} fields is shown{when}.")
    if most > MAX_DOTS:
        notes.append(f"{MAX_DOTS} of {most} points are shown, spread evenly, {MAX_ARROWS} with arrows.")
    elif most > MAX_ARROWS:
        notes.append(f"{MAX_ARROWS} of {most} points have arrows.")
    title = "The map" if isinstance(space, Globe) else "The field"
    title = title if summary.modes is None else "Eigenfields, with their eigenvalues"
    return Section(title, " ".join(notes), tuple(map(Panel.of, panels)))


def _places(fields: Sequence[Field | None]) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes and longitudes of all fields."""
    spaces = [field.space for field in fields if field is not None]
    globes = [space for space in spaces if isinstance(space, Globe)]
    return np.concatenate([globe.lat for globe in globes]), np.concatenate([globe.lon for globe in globes])


def _charts(summary: Summary, layers: list[Layer]) -> Iterator[Section]:
    before, after = summary.before, summary.after
    if summary.filter is not None:
        ends = 1.5 ** np.arange(60)
        end = ends[np.argmax(np.abs(np.asarray(summary.filter.response(ends))) < 0.01)]
        line = np.linspace(0, end, 300)
        response = {"": (line, np.asarray(summary.filter.response(line)))}
        yield Section.of_charts("Response of the filter", _lines(response, "eigenvalue of $-\\Delta$", "factor"))
    if summary.eigenvalues is not None:
        figure, axes = canvas(size=CHART)
        spectrum(summary.eigenvalues, summary.eigenvalue_errors, axes=axes[0, 0])
        agree = (
            "to six digits" if summary.eigenvalue_errors is None else "within their sampling errors, the vertical bars"
        )
        note = f"Brackets: eigenvalues that agree {agree}."
        yield Section.of_charts("Spectrum", figure, note=note)
    if before is not None and after is not None and summary.command == "forecast":
        if skill := summary.data.get("skill"):
            yield _skill(skill, before)
        yield Section.of_charts("In time", _series(before, after))
    elif errors := [layer for layer in layers if layer.palette == ERRORS]:
        figures = [histogram(with_unit(layer.label, layer.unit), layer.numbers, CHART) for layer in errors]
        note = "The fit used the values at observed places; elsewhere see the standard deviation."
        yield Section.of_charts("Residuals", *figures, note=note if summary.fitted is not None else "")
    if summary.command == "inspect" and summary.bundle is not None:
        numbers = bundle_numbers(summary.bundle)
        yield Section.of_charts("The bundle", *(histogram(*pair, CHART) for pair in numbers.items()))


def _lines(lines: dict[str, tuple[np.ndarray, np.ndarray]], x: str, y: str) -> Any:
    figure, axes = canvas(size=CHART)
    axis = axes[0, 0]
    for number, (name, (across, up)) in enumerate(lines.items()):
        axis.plot(across, up, label=name, color=LINES[number], marker="o" if len(up) < 30 else "", ms=3)
    axis.set_xlabel(x)
    axis.set_ylabel(y, parse_math=False)
    axis.grid(alpha=0.25)
    axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    if lines and np.asarray(across).dtype.kind == "M":
        dates = extra("matplotlib.dates", "Reports", "plot")
        axis.xaxis.set_major_formatter(dates.ConciseDateFormatter(axis.xaxis.get_major_locator()))
    if len(lines) > 1:
        axis.legend(frameon=False)
    return figure


def _skill(rows: Sequence[Mapping[str, float]], before: Field) -> Section:
    """Errors of forecasts of held-out times against the lead time: rows of lead, error, persistence, climatology."""
    names = {"this forecast": "error", "persistence": "persistence", "climatology": "climatology"}
    lead, *errors = (np.array([row[key] for row in rows], dtype=float) for key in ("lead", *names.values()))
    lines = {name: (lead, error) for name, error in zip(names, errors, strict=True)}
    note = "Forecasts of held-out times: below the climatology there is skill."
    figure = _lines(lines, "steps ahead", with_unit("root mean square error", before.units))
    figure.axes[0].xaxis.get_major_locator().set_params(integer=True)
    return Section.of_charts("Skill", figure, note=note)


def _series(before: Field, after: Field) -> Any:
    """Root mean squares of observed and predicted fields against time."""
    assert before.values is not None and after.values is not None
    past, future = (np.sqrt(np.square(v).sum(axis=2).mean(axis=1)) for v in (before.values, after.values))
    recent = past[-4 * len(future) :]
    ends = np.arange(1 - len(recent), 1), np.arange(1, len(after) + 1)
    dated = before.times is not None and after.times is not None
    if before.times is not None and after.times is not None:
        ends = before.times[-len(recent) :], after.times
    lines = {"observed": (ends[0], recent), "forecast": (ends[1], future)}
    if after.std is not None:
        lines["expected error"] = (ends[1], np.sqrt(np.square(after.std).sum(axis=2).mean(axis=1)))
    return _lines(lines, "date" if dated else "step", with_unit("root mean square", before.units))


def layers_of(summary: Summary, before: Field) -> list[Layer]:
    """The field that was read comes first, then results, the main one before others."""
    after = summary.after
    if summary.modes is not None and summary.eigenvalues is not None:
        pairs = zip(summary.eigenvalues, summary.modes, strict=False)
        place = Field(before.space)
        return [
            _layer(f"{k}: {v:.4g}", place, "length", {}, vectors=mode) for k, (v, mode) in enumerate(pairs, start=1)
        ]
    if after is None:
        return _and_streamlines(_field_layer("field", before))
    if summary.command == "forecast":
        date = _date(before, -1)
        last = _field_layer(f"last observed, {date}" if date else "last observed", before, len(before) - 1)
        return [last, *(_field_layer(_step(after, k), after, k) for k in range(len(after)))]
    if after.parts:
        return [_field_layer("field", before), *(_part_layer(name, part, before) for name, part in after.parts.items())]
    same = after.space is before.space
    names = ("before", "after") if same else ("observed", "predicted")
    layers = [_field_layer(names[0], before), *_and_streamlines(_field_layer(names[1], after))]
    fitted = after if same else summary.fitted
    if fitted is not None:
        name, difference = "difference" if same else "residual", _ambient(fitted) - _ambient(before)
        layers.append(_layer(name, before, "length of the difference", {}, vectors=difference))
    if after.std is not None:
        layers.append(_layer("uncertainty", after, "standard deviation", {}, color=_deviation(after)))
    return layers


def _and_streamlines(layer: Layer) -> list[Layer]:
    if layer.vectors is None:
        return [layer]
    return [layer, dataclasses.replace(layer, name="streamlines", streamlines=True)]


def _date(field: Field, number: int) -> str:
    return "" if field.times is None else str(field.times[number].astype("datetime64[m]")).replace("T", " ")


def _step(field: Field, number: int) -> str:
    date = _date(field, number)
    return f"{date} (step {number + 1} of {len(field)})" if date else f"step {number + 1} of {len(field)}"


def _layer(name: str, field: Field, label: str, values: dict[str, np.ndarray], **colored: Any) -> Layer:
    """Vectors or numbers at the places of a field; coordinates, ``values`` and lengths are shown under the mouse."""
    values = dict(zip(field.space.names, field.space.coordinates.T, strict=True)) | values
    look = {"palette": LENGTHS if label == quantity(field) else ERRORS} | colored
    values = dict([*values.items()][:MAX_VALUES])
    layer = Layer(name, np.asarray(field.space.points, float), label=label, unit=field.units, values=values, **look)
    return dataclasses.replace(layer, values=values | {label: layer.numbers}) if colored else layer


def _field_layer(name: str, field: Field, number: int = 0) -> Layer:
    label = quantity(field)
    if field.values is None:
        return _layer(name, field, label, {})
    values = dict(zip(field.names, field.values[number].T, strict=True))
    if field.std is not None:
        values["standard deviation"] = _deviation(field, number)
    return _layer(name, field, label, values, vectors=_ambient(field, number))


def _part_layer(name: str, part: Field, whole: Field) -> Layer:
    """Arrows with the scale of the whole field, or numbers of either sign."""
    if len(part.names) > 1:
        return _layer(name, dataclasses.replace(whole, parts={}), quantity(whole), {}, vectors=_ambient(part))
    return _layer(name, part, name, {}, color=np.asarray(part.array[0], float), palette=SIGNED)


def _ambient(field: Field, number: int = 0) -> np.ndarray:
    assert field.values is not None
    return np.asarray(field.space.ambient(field.values[number : number + 1])[0], dtype=float)


def _deviation(field: Field, number: int = 0) -> np.ndarray:
    """One standard deviation for all components of a point."""
    assert field.std is not None
    return np.sqrt(np.square(field.std[number]).mean(axis=1))
