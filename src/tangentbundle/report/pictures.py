"""Which fields of a result a report draws, and what it says about them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from ..earth.maps import EqualAreaMap
from ..io import Field
from ..io.quantities import quantity_of
from ..plot.interactive import side_by_side
from ..plot.layers import MAX_ARROWS, MAX_DOTS, Layer
from ..plot.style import ERRORS, LENGTHS, SIGNED
from ..results import Eigenfields, Result
from ..spaces import Globe

MAX_VALUES = 12
"""Largest number of values shown at the mouse pointer."""


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of a report: either plotly figures as JSON, side by side with linked views, or a
    chart, an SVG in base64."""

    title: str
    note: str
    panels: tuple[Any, ...] = ()
    chart: str = ""


def draw_fields(result: Result, before: Field) -> Section:
    """The fields of a result, on a map or in space, with the input to the left of what was
    computed."""
    layers = layers_of(result, before)
    computed = result.after or result.future
    groups = [layers]
    spaces = [before.space]
    if computed is not None:
        groups = [layers[:1], layers[1:]]
        spaces.append(computed.space)
    if isinstance(before.space, Globe):
        coordinates = np.concatenate([space.coordinates for space in spaces])
        panels = side_by_side(groups, chart=EqualAreaMap.fitting(*coordinates.T))
    else:
        panels = side_by_side(
            groups, faces=before.space.faces, up=before.space.up, names=before.space.names
        )
    notes = [
        *_notes_on_view(before),
        *_notes_on_times(result, before),
        *_notes_on_density(layers),
        *_notes_on_eigenfields(result, layers),
    ]
    return Section(
        title=_title(result, before, layers),
        note=" ".join(notes),
        panels=tuple(json.loads(panel.to_json()) for panel in panels),
    )


def _title(result: Result, before: Field, layers: list[Layer]) -> str:
    if result.eigenfields is not None:
        return "Eigenfields and their eigenvalues"
    if isinstance(before.space, Globe):
        return "Map"
    return "Field" if _have_arrows(layers) else "Points"


def _have_arrows(layers: list[Layer]) -> bool:
    return any(layer.vectors is not None for layer in layers)


def _notes_on_view(before: Field) -> list[str]:
    """How to move the picture, and what it shows of the space."""
    if isinstance(before.space, Globe):
        return [
            "Drag to zoom, double-click to reset. Hover anywhere to see the nearest values.",
            "Equal-area projection; arrows follow its meridians. Map: Natural Earth, GeoNames.",
        ]
    dims = before.space.points.shape[1]
    if dims == 2:
        drag = "Drag to zoom, double-click to reset"
    else:
        drag = "Drag to rotate, scroll to zoom"
    notes = [f"{drag}, hover over a point to see its values."]
    if dims == 3:
        sides = np.ptp(before.space.points, axis=0)
        sizes = ", ".join(
            f"{size:.3g} along {name}" for size, name in zip(sides, before.space.names, strict=True)
        )
        notes.append(f"The points extend over {sizes}.")
    if dims > 3:
        notes.append(f"The three principal axes of {dims} dimensions are shown.")
    return notes


def _notes_on_times(result: Result, before: Field) -> list[str]:
    """Which of several fields is shown; of a forecast all are."""
    if len(before) <= 1 or result.future is not None:
        return []
    when = "" if before.times is None else f" ({_date(before, 0)})"
    return [f"The first of {len(before)} fields is shown{when}."]


def _notes_on_density(layers: list[Layer]) -> list[str]:
    """How many points are shown, and how many arrows."""
    most = max(len(layer.points) for layer in layers)
    arrows = _have_arrows(layers)
    if most > MAX_DOTS:
        text = f"{MAX_DOTS} of {most} points are shown, evenly spread"
        if arrows:
            text += f", {MAX_ARROWS} of them with arrows"
        return [f"{text}."]
    if most > MAX_ARROWS and arrows:
        return [f"{MAX_ARROWS} of {most} points have arrows."]
    return []


def _notes_on_eigenfields(result: Result, layers: list[Layer]) -> list[str]:
    """How many eigenfields are shown."""
    if result.eigenfields is None or len(layers) >= len(result.eigenfields.values):
        return []
    total = len(result.eigenfields.values)
    return [f"The first {len(layers)} of {total} eigenfields are shown."]


def layers_of(result: Result, before: Field) -> list[Layer]:
    """The input field, then what was computed, the main result first."""
    if result.eigenfields is not None:
        return _eigenfield_layers(result.eigenfields, before)
    if result.future is not None:
        return _forecast_layers(before, result.future)
    if result.after is None:
        name = "points" if before.values is None else "field"
        return _field_layer(name, before).with_streamlines()
    if result.after.parts:
        layers = [_field_layer("field", before)]
        for name, part in result.after.parts.items():
            layers.append(_part_layer(name, part, before))
        return layers
    if result.after.space is before.space:
        return _change_layers(before, result.after)
    return _prediction_layers(before, result.after)


def _eigenfield_layers(eigenfields: Eigenfields, before: Field) -> list[Layer]:
    """A layer for each eigenfield, named by its eigenvalue."""
    place = Field(before.space)
    pairs = zip(eigenfields.values, eigenfields.fields, strict=False)
    return [
        _layer(f"{number}: {value:.4g}", place, "length", vectors=mode)
        for number, (value, mode) in enumerate(pairs, start=1)
    ]


def _forecast_layers(before: Field, future: Field) -> list[Layer]:
    """The last field observed, and every one of the forecast."""
    name = "last observed"
    if before.times is not None:
        name += f", {_date(before, -1)}"
    layers = [_field_layer(name, before, -1)]
    for number in range(len(future)):
        name = f"step {number + 1} of {len(future)}"
        if future.times is not None:
            name = f"{_date(future, number)} ({name})"
        layers.append(_field_layer(name, future, number))
    return layers


def _change_layers(before: Field, after: Field) -> list[Layer]:
    """A field, the same one changed, and the difference."""
    difference = _ambient(after) - _ambient(before)
    return [
        _field_layer("before", before),
        *_field_layer("after", after).with_streamlines(),
        _layer("difference", before, "length of the difference", vectors=difference),
        *_uncertainty(after),
    ]


def _prediction_layers(before: Field, after: Field) -> list[Layer]:
    """A field, and what was predicted from it at other points."""
    return [
        _field_layer("observed", before),
        *_field_layer("predicted", after).with_streamlines(),
        *_uncertainty(after),
    ]


def _uncertainty(field: Field) -> list[Layer]:
    """The standard deviations of a field, if it has any."""
    if field.std is None:
        return []
    deviation = _deviation(field.std[0])
    return [_layer("uncertainty", field, "standard deviation", color=deviation)]


def _date(field: Field, number: int) -> str:
    """The time of a field in words."""
    assert field.times is not None
    return str(field.times[number].astype("datetime64[m]")).replace("T", " ")


def _layer(
    name: str, field: Field, label: str, values: dict[str, np.ndarray] | None = None, **colored: Any
) -> Layer:
    """Vectors or numbers at the points of a field; the pointer shows coordinates, ``values`` and
    lengths."""
    shown = dict(zip(field.space.names, field.space.coordinates.T, strict=True))
    shown |= values or {}
    shown = dict(list(shown.items())[:MAX_VALUES])
    colored.setdefault("palette", LENGTHS if label == quantity_of(field).length else ERRORS)
    layer = Layer(
        name,
        np.asarray(field.space.points, float),
        label=label,
        unit=field.units,
        **colored,
    )
    if layer.vectors is not None or layer.color is not None:
        shown[label] = layer.numbers
    return dataclasses.replace(layer, values=shown)


def _field_layer(name: str, field: Field, number: int = 0) -> Layer:
    """The vectors of a field at one time, or its points if it has no vectors."""
    if field.values is None:
        return _layer(name, field, quantity_of(field).length)
    values = dict(zip(field.names, field.values[number].T, strict=True))
    if field.std is not None:
        values["standard deviation"] = _deviation(field.std[number])
    return _layer(name, field, quantity_of(field).length, values, vectors=_ambient(field, number))


def _part_layer(name: str, part: Field, field: Field) -> Layer:
    """Arrows with the scale of the complete field, or signed numbers."""
    if len(part.names) > 1:
        return _layer(name, field, quantity_of(field).length, vectors=_ambient(part))
    numbers = np.asarray(part.values, float)[0, :, 0]
    return _layer(name, part, name, color=numbers, palette=SIGNED)


def _ambient(field: Field, number: int = 0) -> np.ndarray:
    assert field.values is not None
    one_time = field.values[number][None]
    return np.asarray(field.space.to_ambient(one_time)[0], dtype=float)


def _deviation(std: np.ndarray) -> np.ndarray:
    """The root mean square ``(n,)`` of the standard deviations ``(n, c)`` of the components."""
    return np.sqrt(np.square(std).mean(axis=1))
