"""What there is to look at in a summary: fields before and after, their difference, the uncertainty, every step."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..io import Field, Summary
from ..plot.layers import Layer
from ..plot.maps import quantity
from ..plot.style import ERRORS, LENGTHS, SIGNED

MAX_VALUES = 12
"""Most numbers shown under the mouse."""


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
