"""Colours, sizes, and figures that need no display."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidInputError, OutputError
from ..extras import extra
from ..files import write_atomically
from ..units import readable_unit

LENGTHS, ERRORS, SIGNED = "plasma", "magma_r", "RdBu_r"
"""Perceptual colours of lengths, of errors (light is small), and of numbers of either sign."""

BRIGHTEST = 0.78
"""Share of the colours of lengths that is used: the rest is too light for arrows on paper."""

LINES = (
    *("#440154", "#b5367a", "#fb8861", "#0d3b66", "#2a788e", "#35a07b", "#7ad151"),
    *("#7f7f7f", "#bcbd22", "#9ecae1", "#393b79", "#000000", "#8c6d31"),
)


def canvas(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (4.6, 4.2), **options: Any
) -> tuple[Any, Any]:
    """A figure and its axes ``(rows, columns)``, ``size`` inches each, outside of pyplot: nothing
    to close, no display.

    >>> figure, axes = canvas(1, 2)
    >>> axes.shape
    (1, 2)
    """
    new = extra("matplotlib.figure", "Figures", "plot").Figure
    figure = new(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def axes_or_new(axes: Any, size: tuple[float, float] = (6.4, 5.2)) -> Any:
    """The axes given, or new ones of pyplot."""
    if axes:
        return axes
    pyplot = extra("matplotlib.pyplot", "Figures", "plot")
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def save(figure: Any, path: str | Path, dpi: int = 130) -> Path:
    """Write a figure of matplotlib, or that of its axes, to a file, atomically.

    >>> save(canvas()[0], getfixture("tmp_path") / "empty.png").name
    'empty.png'
    """
    if hasattr(figure, "write_html"):
        raise InvalidInputError(
            "an interactive figure has a method of its own: figure.write_html(path)."
        )
    figure = getattr(figure, "figure", figure)
    known = figure.canvas.get_supported_filetypes()
    suffix = Path(path).suffix[1:].lower() or "png"
    if suffix not in known:
        raise OutputError(
            f"unknown format {suffix!r} of {Path(path).name}. Known: {', '.join(known)}."
        )
    content = io.BytesIO()
    figure.savefig(content, dpi=dpi, format=suffix)
    write_atomically(path, content.getvalue())
    return Path(path)


def length_colors() -> Any:
    """The colours of lengths, without the lightest."""
    colors = extra("matplotlib.colors", "Figures", "plot")
    source = extra("matplotlib", "Figures", "plot").colormaps[LENGTHS]
    return colors.ListedColormap(source(np.linspace(0.0, BRIGHTEST, 256)), name="lengths")


def top_of(values: np.ndarray) -> float:
    """The end of a colour scale: the largest number, or the 98 % quantile if that is much less;
    never zero."""
    finite = np.asarray(values)[np.isfinite(values)]
    if not len(finite) or finite.max() <= 0:
        return 1.0
    largest = float(finite.max())
    usual = float(np.quantile(finite, 0.98))
    if largest < 1.25 * usual or usual <= 0:
        return largest
    return usual


def add_color_bar(
    axes: Any, drawn: Any, values: np.ndarray, label: str, shrink: float = 0.75
) -> Any:
    """A colour bar that names the largest of the values ``(n,)`` shown if the colours end before
    it."""
    largest = float(np.nanmax(values, initial=0.0))
    top = drawn.get_clim()[1]
    look = {"label": label}
    if largest > 1.005 * top:
        look = {"label": f"{label}\n(largest {largest:.3g})", "extend": "max"}
    return axes.figure.colorbar(drawn, ax=axes, shrink=shrink, **look)


def nice_number(value: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above a positive number."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(max(k * power for k in (1, 2, 5) if k * power <= value * (1 + 1e-9)))


def with_unit(label: str, unit: str) -> str:
    """A label and its unit, with speeds as quotients."""
    if not unit:
        return label
    return f"{label}, {readable_unit(unit)}"
