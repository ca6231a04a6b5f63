"""Figures of ``tangentbundle inspect``: the field, and its spectrum."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tangentbundle.io import Summary

SHOWN = 3000
"""Most arrows in a figure."""


def draw(summary: Summary, folder: Path) -> list[Path]:
    """Write ``field.png`` and, where there are eigenvalues, ``spectrum.png``."""
    from tangentbundle.datasets.extras import extra
    from tangentbundle.files import write_atomically

    Figure = extra("matplotlib.figure", "Figures", "plot").Figure
    drawings = {"field.png": _field} | ({"spectrum.png": _spectrum} if summary.eigenvalues is not None else {})
    made = []
    for name, paint in drawings.items():
        figure = Figure(figsize=(8, 5.5), layout="constrained")
        paint(figure, summary)
        content = io.BytesIO()
        figure.savefig(content, dpi=120, format="png")
        write_atomically(folder / name, content.getvalue())
        made.append(folder / name)
    return made


def _field(figure: Any, summary: Summary) -> None:
    """Arrows at some of the points: a map on the globe, in space otherwise, in a plane for two coordinates."""
    import numpy as np

    field = summary.before
    assert field is not None
    n = len(field.space)
    rows = np.sort(np.random.default_rng(0).choice(n, min(n, SHOWN), replace=False))
    on_globe = field.space.manifold is not None
    places = field.space.coordinates[rows][:, ::-1] if on_globe else field.space.points[rows][:, :3]
    if on_globe:
        places[:, 0] = (places[:, 0] + 180) % 360 - 180
    arrows = None if field.values is None else field.values[0, rows][:, :3]
    lengths = np.ones(len(rows)) if arrows is None else np.linalg.norm(arrows, axis=1)
    flat = places.shape[1] == 2
    axes = figure.add_subplot() if flat else figure.add_subplot(projection="3d")
    shown = axes.scatter(*places.T, c=lengths, s=4, cmap="viridis")
    if arrows is not None:
        size = 0.06 * float(np.ptp(places, axis=0).max()) / (float(np.quantile(lengths, 0.95)) or 1.0)
        if flat:
            axes.quiver(*places.T, *arrows.T, lengths, angles="xy", scale_units="xy", scale=1 / size, cmap="viridis")
        else:
            axes.quiver(*places.T, *(size * arrows.T), linewidth=0.6, color="0.35")
        figure.colorbar(shown, ax=axes, label=f"length{f' ({field.units})' if field.units else ''}", shrink=0.7)
    names = [*field.space.names[::-1]] if on_globe else [*field.space.names[:3]]
    axes.set(**dict(zip(("xlabel", "ylabel", "zlabel"), names, strict=False)), title=str(field))
    axes.set_aspect("equal")


def _spectrum(figure: Any, summary: Summary) -> None:
    values = summary.eigenvalues
    assert values is not None
    axes = figure.add_subplot()
    axes.stem(range(1, len(values) + 1), values, basefmt=" ")
    axes.set(xlabel="number", ylabel="eigenvalue of minus the Laplacian", ylim=(0, None))
    axes.set_title("lowest eigenvalues of vector fields")
