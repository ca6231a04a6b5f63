"""What to count in a bundle or between two fields, for whoever draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..bundle import TangentBundle


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of bins of equal width around their middles."""

    label: str
    middles: np.ndarray
    counts: np.ndarray
    width: float

    @classmethod
    def of(cls, values: np.ndarray, label: str, bins: int = 40) -> Histogram:
        """Of numbers ``(n,)``; bins of whole numbers hold equally many.

        >>> Histogram.of(np.array([1, 1, 2]), "dimension").counts.tolist()
        [2, 1]
        """
        values = np.asarray(values)
        if values.dtype.kind in "iu":
            step = int(np.ptp(values)) // bins + 1
            edges = np.arange(values.min() - 0.5, values.max() + step, step)
        else:
            edges = np.histogram_bin_edges(values, bins)
        counts = np.histogram(values, edges)[0]
        return cls(label, (edges[1:] + edges[:-1]) / 2, counts, float(edges[1] - edges[0]))


def of_bundle(bundle: TangentBundle) -> list[Histogram]:
    """Neighbours; where frames were estimated also local dimensions, and the share of variance off the frames."""
    found = [Histogram.of(bundle.sorted_graph.degrees, "neighbours of a point")]
    if bundle.local_dimensions is not None:
        found.append(Histogram.of(np.asarray(bundle.local_dimensions), "local dimension"))
    if bundle.pca is not None:
        found.append(Histogram.of(100 * bundle.pca.residual(bundle.dim), "variance off the tangent space, %"))
    return found
