"""Figures of ``tangentbundle inspect``: the field, and its spectrum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tangentbundle.io import Summary


def draw(summary: Summary, folder: Path) -> None:
    """Write ``field.png`` and, where there are eigenvalues, ``spectrum.png``."""
    from tangentbundle import plot

    assert summary.before is not None
    figure, axes = plot.canvas(size=(8.4, 5.4))
    plot.file_field(summary.before, axes=axes[0, 0])
    with summary.writing(folder / "field.png"):
        plot.save(figure, folder / "field.png")
    if summary.eigenvalues is not None:
        figure, axes = plot.canvas(size=(8.0, 4.4))
        plot.spectrum(summary.eigenvalues, axes=axes[0, 0])
        with summary.writing(folder / "spectrum.png"):
            plot.save(figure, folder / "spectrum.png")
