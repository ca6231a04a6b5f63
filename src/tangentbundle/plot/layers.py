"""What an interactive picture shows: layers of vectors or numbers at points, on common scales."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..extras import extra
from .style import BRIGHTEST, LENGTHS, SIGNED, top_of
from .views import reach, spread_out

MAX_DOTS, MAX_ARROWS = 2000, 400
"""Most points and most arrows of a layer."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One field of an interactive picture. Layers with the same ``label`` share a colour scale and a scale of arrows.

    Args:
        name: text of the button that shows the layer.
        points: ``(n, D)``.
        vectors: ambient vectors ``(n, D)``, coloured by length, or None.
        color: numbers ``(n,)`` that colour the points instead.
        label, unit: name of the colour scale, and its unit.
        palette: name of the colours.
        values: shown under the mouse, {name: numbers ``(n,)``}.
        streamlines: draw curves along the vectors instead of arrows.
        top, arrow: end of the colour scale, and length of the arrow of such a vector; from the data if zero.
    """

    name: str
    points: np.ndarray
    vectors: np.ndarray | None = None
    color: np.ndarray | None = None
    label: str = "length"
    unit: str = ""
    palette: str = LENGTHS
    values: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    streamlines: bool = False
    top: float = 0.0
    arrow: float = 0.0

    def thinned(self, most: int = MAX_DOTS) -> Layer:
        """The layer at no more than ``most`` of its points, spread evenly."""
        rows = np.sort(spread_out(self.points, most))
        parts = {name: getattr(self, name) for name in ("points", "vectors", "color")}
        parts = {name: None if part is None else part[rows] for name, part in parts.items()}
        return dataclasses.replace(self, **parts, values={name: numbers[rows] for name, numbers in self.values.items()})

    @property
    def numbers(self) -> np.ndarray:
        """The numbers that are shown as colours, ``(n,)``."""
        if self.color is not None:
            return self.color
        return np.zeros(len(self.points)) if self.vectors is None else np.linalg.norm(self.vectors, axis=1)

    @property
    def colored(self) -> bool:
        """Whether there is anything to show as colours."""
        return self.vectors is not None or bool(self.numbers.any())

    @property
    def low(self) -> float:
        """The beginning of the colour scale."""
        return -self.top if self.palette == SIGNED else 0.0

    @property
    def colors(self) -> list[str]:
        """The colour scale, from its beginning to its end."""
        brightest = BRIGHTEST if self.palette == LENGTHS else 1.0
        sample = extra("plotly.colors", "Interactive figures", "plot").sample_colorscale
        return sample(self.palette, np.linspace(0, brightest, 24).tolist())


def aligned(layers: Sequence[Layer]) -> list[Layer]:
    """Layers with their ``top`` and ``arrow`` filled in, equal for all layers of one label."""
    found = []
    for layer in layers:
        group = [other for other in layers if other.label == layer.label]
        top = layer.top or max(top_of(np.abs(other.numbers)) for other in group)
        long = min(1.6 * reach(other.points[spread_out(other.points, MAX_ARROWS)]) for other in group)
        found.append(dataclasses.replace(layer, top=top, arrow=layer.arrow or long))
    return found
