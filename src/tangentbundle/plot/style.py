"""Colours, sizes, and figures that need no display."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from ..extras import extra
from ..files import write_atomically

LENGTHS, ERRORS, SIGNED = "plasma", "magma_r", "RdBu_r"
"""Perceptual colours of lengths, of errors (light is small), and of numbers of either sign."""

BRIGHTEST = 0.78
"""Share of the colours of lengths that is used: the rest is too light for arrows on paper."""

LINES = (
    *("#440154", "#b5367a", "#fb8861", "#0d3b66", "#2a788e", "#35a07b", "#7ad151"),
    *("#7f7f7f", "#bcbd22", "#9ecae1", "#393b79", "#000000", "#8c6d31"),
)


def canvas(rows: int = 1, columns: int = 1, size: tuple[float, float] = (4.6, 4.2), **options: Any) -> tuple[Any, Any]:
    """A figure and its axes ``(rows, columns)``, ``size`` inches each, outside of pyplot: nothing to close, no display.

    >>> figure, axes = canvas(1, 2)
    >>> axes.shape
    (1, 2)
    """
    new = extra("matplotlib.figure", "Figures", "plot").Figure
    figure = new(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def axes_or_new(axes: Any, size: tuple[float, float] = (6.4, 5.2)) -> Any:
    """The axes given, or new ones of pyplot."""
    return axes or extra("matplotlib.pyplot", "Figures", "plot").subplots(figsize=size, layout="constrained")[1]


def save(figure: Any, path: str | Path, dpi: int = 130) -> Path:
    """Write a figure to a file, atomically."""
    content = io.BytesIO()
    figure.savefig(content, dpi=dpi, format=Path(path).suffix[1:] or "png")
    write_atomically(path, content.getvalue())
    return Path(path)


def length_colors() -> Any:
    """The colours of lengths, without the lightest."""
    colors = extra("matplotlib.colors", "Figures", "plot")
    source = extra("matplotlib", "Figures", "plot").colormaps[LENGTHS]
    return colors.ListedColormap(source(np.linspace(0.0, BRIGHTEST, 256)), name="lengths")


def top_of(values: np.ndarray) -> float:
    """The end of a colour scale: the 98 % quantile, never zero."""
    finite = np.asarray(values)[np.isfinite(values)]
    return float(np.quantile(finite, 0.98)) if len(finite) and finite.max() > 0 else 1.0


def legend_below(figure: Any, axes: Any, columns: int = 4) -> None:
    """One legend for all axes of a figure."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
