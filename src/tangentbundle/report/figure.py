"""The field of a result as a picture for papers: PDF, SVG or PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import OutputError
from ..extras import extra
from ..files import check_place
from ..io import Field
from ..io.quantities import quantity_of
from ..plot import earth_map, save
from ..plot import field as draw_field
from ..plot.style import canvas, with_unit
from ..results import Result
from ..spaces import Globe

SUFFIXES = (".pdf", ".svg", ".png")

MAP = (8.4, 4.4)
PICTURE = (6.0, 4.8)
"""Sizes in inches."""


def check_figure(path: Path) -> None:
    """Raise if a figure cannot be written, before any work is done."""
    extra("matplotlib.figure", "Figures", "plot")
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(
            f"expected a figure {' or '.join(SUFFIXES)}, got {path.name}. Change the suffix."
        )
    check_place(path)


def write_figure(result: Result, path: Path) -> None:
    """Draw what a command computed, or read, at the first time, and write it to a file."""
    shown = result.after or result.future or result.before
    if shown is None:
        raise OutputError(f"{result.command} has no field to draw. Remove the option.")
    figure, axes = canvas(size=_size(shown))
    _draw(shown, axes[0, 0])
    save(figure, path)


def _size(shown: Field) -> tuple[float, float]:
    """The size of a picture of a field."""
    if isinstance(shown.space, Globe):
        return MAP
    return PICTURE


def _draw(shown: Field, axes: Any) -> None:
    """A field at the first time on axes; points alone if it has no vectors."""
    label = quantity_of(shown).length
    if isinstance(shown.space, Globe):
        values = np.full((len(shown.space), 2), np.nan)
        if shown.values is not None:
            values = shown.values[0].astype(float)
        earth_map(
            shown.space.lat, shown.space.lon, values, label=label, unit=shown.units, axes=axes
        )
        return
    vectors = None
    if shown.values is not None:
        vectors = shown.vectors[0]
    draw_field(
        shown.space.points,
        vectors,
        faces=shown.space.faces,
        label=with_unit(label, shown.units),
        axes=axes,
    )
