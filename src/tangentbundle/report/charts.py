"""Charts for the browser, with plotly: spectra, histograms, lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..datasets.extras import extra
from ..plot.curves import bin_counts, multiplicities
from ..plot.interactive import escaped
from ..plot.style import LINES


def _figure(columns: int, height: int, **layout: Any) -> Any:
    figure = extra("plotly.subplots", "Reports", "plot").make_subplots(1, columns)
    margin = {"l": 50, "r": 10, "t": 20, "b": 44}
    return figure.update_layout(template="none", height=height, showlegend=False, margin=margin, **layout)


def spectrum(values: np.ndarray) -> Any:
    """Eigenvalues, with the sizes of groups of nearly equal ones; returns a plotly figure."""
    figure, start = _figure(1, 320, xaxis_title="number", yaxis_title="eigenvalue of −Δ"), 0
    for number, size in enumerate(multiplicities(values)):
        group, color = np.arange(start, start + size), LINES[(1, 4)[number % 2]]
        hover = "number %{x}<br>eigenvalue %{y:.5g}" + f"<extra>{size} of about this size</extra>"
        figure.add_bar(x=group + 1, y=values[group], width=0.55, marker_color=color, hovertemplate=hover)
        if size > 1:
            x, y = float(group.mean()) + 1, float(values[group].max())
            figure.add_annotation(x=x, y=y, text=f"{size}×", showarrow=False, yshift=12)
        start += size
    return figure


def histograms(panels: Mapping[str, np.ndarray]) -> Any:
    """Histograms side by side, {label: numbers ``(n,)``}; returns a plotly figure."""
    figure = _figure(len(panels), 280)
    for column, (label, values) in enumerate(panels.items(), start=1):
        edges, counts = bin_counts(values)
        centres, hover = (edges[1:] + edges[:-1]) / 2, "%{x:.4g}: %{y} points<extra></extra>"
        look = {"width": 0.92 * np.diff(edges), "marker_color": LINES[4], "hovertemplate": hover}
        figure.add_bar(x=centres, y=counts, row=1, col=column, **look)
        figure.update_xaxes(title=escaped(label), tickvals=centres if len(counts) < 8 else None, row=1, col=column)
    return figure


def lines(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], x: str, y: str) -> Any:
    """Lines {name: (numbers, numbers)}; returns a plotly figure."""
    figure = _figure(1, 300, xaxis_title=x, yaxis={"title": escaped(y), "rangemode": "tozero"})
    for number, (name, (across, up)) in enumerate(curves.items()):
        figure.add_scatter(x=across, y=up, name=name, mode="lines", line_color=LINES[(4, 1, 2)[number % 3]])
    return figure.update_layout(showlegend=len(curves) > 1, legend={"orientation": "h", "y": 1.12})
