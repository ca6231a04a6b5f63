"""What a picture shows, for both renderers: layers of points, vectors and numbers, on scales that
they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import Array, points_array
from ..calculus.tracing import Flow, trace
from ..earth.maps import EqualAreaMap
from ..errors import ShapeError
from .style import LENGTHS, SIGNED, top_of
from .views import extent, on_map, reach, spacing, spread_out, tips

MAX_DOTS, MAX_ARROWS, MAX_STREAMLINES = 2000, 400, 150
"""Most points, arrows and streamlines of a layer of an interactive picture."""

MIN_LENGTH = 1e-3
"""Shorter vectors, as a share of long ones, get no arrow."""

MAX_JUMP = 0.3
"""A longer step of a curve on a map goes from one edge to the other."""

STEPS = (4, 60)
"""Fewest and most steps of a streamline to either side."""

FLOW_NEIGHBORS = 12
"""Points whose vectors say where a streamline goes."""

THIN_SHARE = 0.04
"""Directions with a smaller share of the variance of neighbours are across their plane."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One field of an interactive picture. Layers with the same ``label`` share a colour scale and
    a scale of arrows.

    Args:
        name: text of the button that shows the layer.
        points: ``(n, D)``.
        vectors: ambient vectors ``(n, D)``, coloured by length, or None.
        color: numbers ``(n,)`` that colour the points instead.
        label, unit: name of the colour scale, and its unit.
        palette: name of the colours.
        values: shown under the mouse, {name: numbers ``(n,)``}.
        streamlines: draw curves along the vectors instead of arrows.
        top: end of the colour scale, from the data if zero, as the following.
        longest, arrow: length of a long vector in the picture, and of its arrow.
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
    longest: float = 0.0
    arrow: float = 0.0

    def with_streamlines(self) -> list[Layer]:
        """The layer, and one with curves along its vectors, if it has any."""
        if self.vectors is None:
            return [self]
        return [self, dataclasses.replace(self, name="streamlines", streamlines=True)]

    @property
    def numbers(self) -> np.ndarray:
        """The numbers that are shown as colours, ``(n,)``."""
        if self.color is not None:
            return self.color
        if self.vectors is None:
            return np.zeros(len(self.points))
        return np.linalg.norm(self.vectors, axis=1)

    @property
    def colored(self) -> bool:
        """Whether there is anything to show as colours."""
        return self.vectors is not None or bool(self.numbers.any())

    @property
    def low(self) -> float:
        """The beginning of the colour scale."""
        if self.palette == SIGNED:
            return -self.top
        return 0.0

    def ends(self, chart: EqualAreaMap | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Points and the tips of their arrows ``(n, 2 or 3)``, in the plane of a map."""
        vectors = self.vectors
        if vectors is None:
            vectors = np.zeros_like(self.points)
        places, moves = _in_plane(chart, self.points, vectors)
        return places, tips(places, self.arrow / self.longest * moves, 2 * self.arrow)

    def curves(self, chart: EqualAreaMap | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Arrows or streamlines ``(m, k, D)`` with gaps of NaN, and their numbers ``(m,)``; in the
        plane of a map."""
        assert self.vectors is not None
        count = MAX_ARROWS
        if self.streamlines:
            count = MAX_STREAMLINES
        length = np.linalg.norm(self.vectors, axis=1)
        rows = spread_out(self.points, count)
        rows = rows[length[rows] > MIN_LENGTH * top_of(length)]
        if self.streamlines:
            curves = self._lines(self.vectors, rows, chart)
        else:
            curves = self._arrows(self.vectors, rows, chart)
        return curves, self.numbers[rows]

    def _lines(
        self, vectors: np.ndarray, rows: np.ndarray, chart: EqualAreaMap | None
    ) -> np.ndarray:
        """Streamlines through some points, with the head of an arrow at each."""
        lines = streamlines(self.points, vectors, rows)
        length = np.linalg.norm(vectors[rows], axis=1, keepdims=True)
        moves = self.arrow * vectors[rows] / length
        heads = arrow_heads(self.points[rows], moves, self.points.mean(axis=0))
        gaps = np.full_like(lines[:, :1], np.nan)
        curves = np.concatenate([lines, gaps, heads], axis=1)
        if chart is None:
            return curves
        on_sphere = curves / np.linalg.norm(curves, axis=2, keepdims=True)
        curves = chart.project(on_sphere)
        # from one edge of the map to the other
        jumps = np.linalg.norm(np.diff(curves, axis=1), axis=2) > MAX_JUMP
        curves[:, 1:][jumps] = np.nan
        return curves

    def _arrows(
        self, vectors: np.ndarray, rows: np.ndarray, chart: EqualAreaMap | None
    ) -> np.ndarray:
        """Arrows at some points."""
        scaled = self.arrow / self.longest * vectors[rows]
        places, moves = _in_plane(chart, self.points[rows], scaled)
        if chart is not None:
            places = on_map(chart, places, moves)
        heads = arrow_heads(places + moves, moves, self.points.mean(axis=0))
        return np.concatenate([places[:, None], heads], axis=1)


def _in_plane(
    chart: EqualAreaMap | None, places: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Places and vectors as they are, or in the plane of a map."""
    if chart is None:
        return places, vectors
    return chart.project(places), chart.project_vectors(places, vectors)


def streamlines(
    points: np.ndarray, vectors: np.ndarray, rows: np.ndarray, length: float = 0.3
) -> np.ndarray:
    """Curves ``(m, k, D)`` along vectors ``(n, D)`` at points ``(n, D)``, with their middles at the
    points of ``rows``.

    They are up to ``length`` times as long as the picture is wide; NaN where the field vanishes or
    points end. Steps follow the mean direction of 12 neighbours, weighted by inverse squared
    distance, and end on their plane.
    """
    flow = _SampledFlow(points, vectors)
    steps = int(np.clip(0.5 * length * extent(points) / flow.step, *STEPS))
    starts = points[rows]
    behind = trace(flow, starts, vectors[rows], steps=steps, length=-flow.step)
    ahead = trace(flow, starts, vectors[rows], steps=steps, length=flow.step)
    return np.stack([*behind[:0:-1], *ahead], axis=1)


class _SampledFlow(Flow):
    """The directions of vectors ``(n, D)`` between points ``(n, D)``, which need not be those of a
    bundle: stations and grids have edges, and may be few."""

    def __init__(self, points: np.ndarray, vectors: np.ndarray) -> None:
        self.points = points
        self.vectors = vectors
        self.step = 0.5 * spacing(points)
        self._tree = cKDTree(points)
        self._ranks = range(1, min(FLOW_NEIGHBORS, len(points)) + 1)
        self._weakest = 1e-2 * np.quantile(np.linalg.norm(vectors, axis=1), 0.9)

    def _neighbors(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._tree.query(np.nan_to_num(places), self._ranks)

    def directions(self, places: np.ndarray, headings: np.ndarray) -> np.ndarray:
        """Unit vectors along the flow; NaN where it vanishes."""
        distances, neighbors = self._neighbors(places)
        weights = 1 / (distances + 1e-3 * self.step) ** 2
        total = weights.sum(axis=1, keepdims=True)
        mean = np.einsum("mk,mkd->md", weights, self.vectors[neighbors]) / total
        size = np.linalg.norm(mean, axis=1, keepdims=True)
        return np.where(size > self._weakest, mean / np.maximum(size, 1e-300), np.nan)

    def landed(self, places: np.ndarray) -> np.ndarray:
        """Places moved across the thin directions of their neighbours; NaN far from all points."""
        distances, neighbors = self._neighbors(places)
        mean = self.points[neighbors].mean(axis=1)
        offsets = self.points[neighbors] - mean[:, None]
        shares, axes = np.linalg.eigh(offsets.transpose(0, 2, 1) @ offsets)
        is_thin = shares < THIN_SHARE * shares.sum(axis=1, keepdims=True)
        heights = np.einsum("mda,md->ma", axes, mean - places) * is_thin
        on_plane = places + np.einsum("mda,ma->md", axes, heights)
        return np.where(distances[:, :1] < 3 * self.step, on_plane, np.nan)


def arrow_heads(tip: np.ndarray, move: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
    """Curves through the tips of arrows and both ends of their heads, ``(m, 5, D)``, that end with
    NaN.

    In space, heads lie along a round surface about the ``centre`` ``(3,)``.
    """
    if tip.shape[1] == 2:
        side = move[:, ::-1] * [-1, 1]
    else:
        side = np.cross(move, tip - move - centre)
        length = np.linalg.norm(move, axis=1, keepdims=True)
        side *= length / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-300)
    left = tip - 0.34 * move + 0.17 * side
    right = tip - 0.34 * move - 0.17 * side
    return np.stack([tip, left, tip, right, np.full_like(tip, np.nan)], axis=1)


def aligned(layers: Sequence[Layer]) -> list[Layer]:
    """Layers with their ``top``, ``longest`` and ``arrow`` filled in, equal for all layers of one
    label."""
    size = extent(np.concatenate([layer.points for layer in layers]))
    scales: dict[str, _Scale] = {}
    for layer in layers:
        scale = _Scale.of(layer, size)
        if layer.label in scales:
            scale = scale.joined(scales[layer.label])
        scales[layer.label] = scale
    return [scales[layer.label].applied(layer) for layer in layers]


@dataclasses.dataclass(frozen=True)
class _Scale:
    """The end of a colour scale, the length of a long vector, and that of its arrow."""

    top: float
    longest: float
    arrow: float

    @classmethod
    def of(cls, layer: Layer, size: float) -> _Scale:
        """Of one layer of a picture of this size."""
        longest = 1.0
        if layer.vectors is not None:
            longest = top_of(np.linalg.norm(layer.vectors, axis=1))
        rows = spread_out(layer.points, MAX_ARROWS)
        return cls(
            top=top_of(np.abs(layer.numbers)),
            longest=longest,
            arrow=1.6 * reach(layer.points[rows], size),
        )

    def joined(self, other: _Scale) -> _Scale:
        """One for both."""
        return _Scale(
            top=max(self.top, other.top),
            longest=max(self.longest, other.longest),
            arrow=min(self.arrow, other.arrow),
        )

    def applied(self, layer: Layer) -> Layer:
        return dataclasses.replace(layer, top=self.top, longest=self.longest, arrow=self.arrow)


def in_picture(
    points: Array, vectors: Array | None, axes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Points and vectors in two or three dimensions, along ``axes`` ``(D, 2 or 3)``, and the names
    of these."""
    points = points_array(points)[0]
    if axes is None:
        axes = shown_axes(points)
    names: tuple[str, ...] = ("x", "y", "z")
    if points.shape[1] > 3:
        names = ("principal axis 1", "principal axis 2", "principal axis 3")
    names = names[: axes.shape[1]]
    if vectors is None:
        return points @ axes, None, names
    vectors = points_array(vectors, "vectors")[0]
    if vectors.shape != points.shape:
        raise ShapeError(
            f"expected points (n, D) and ambient vectors (n, D), got {points.shape} and "
            f"{vectors.shape}."
        )
    return points @ axes, vectors @ axes, names


def shown_axes(points: np.ndarray) -> np.ndarray:
    """Directions ``(D, 2 or 3)`` to draw points ``(n, D)`` along: the axes, or the three widest
    directions."""
    if not len(points):
        raise ShapeError(f"expected at least one point (n, D), got shape {points.shape}.")
    if points.shape[1] <= 3:
        return np.eye(points.shape[1], max(points.shape[1], 2))
    subset = points[:: len(points) // 20_000 + 1]
    rows = max(len(subset), 3)  # repeated ones, for three directions
    subset = np.resize(subset, (rows, points.shape[1]))
    return np.linalg.svd(subset - subset.mean(axis=0), full_matrices=False)[2][:3].T
