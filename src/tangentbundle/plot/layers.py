"""What a picture shows, for both renderers: layers of points, vectors and numbers, on scales that
they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import Array, points_array
from ..earth.maps import EqualAreaMap
from ..errors import ShapeError
from .style import LENGTHS, SIGNED, top_of
from .views import extent, on_map, reach, spacing, spread_out, tips

MAX_DOTS, MAX_ARROWS, MAX_STREAMLINES = 2000, 400, 150
"""Most points, arrows and streamlines of a layer of an interactive picture."""


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
        return [self] + [dataclasses.replace(self, name="streamlines", streamlines=True)] * (
            self.vectors is not None
        )

    @property
    def numbers(self) -> np.ndarray:
        """The numbers that are shown as colours, ``(n,)``."""
        if self.color is not None:
            return self.color
        return (
            np.zeros(len(self.points))
            if self.vectors is None
            else np.linalg.norm(self.vectors, axis=1)
        )

    @property
    def colored(self) -> bool:
        """Whether there is anything to show as colours."""
        return self.vectors is not None or bool(self.numbers.any())

    @property
    def low(self) -> float:
        """The beginning of the colour scale."""
        return -self.top if self.palette == SIGNED else 0.0

    def ends(self, chart: EqualAreaMap | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Points and the tips of their arrows ``(n, 2 or 3)``, in the plane of a map."""
        foot, move = (
            self.points,
            np.zeros_like(self.points) if self.vectors is None else self.vectors,
        )
        if chart is not None:
            foot, move = chart.project(foot), chart.project_vectors(foot, move)
        return foot, tips(foot, self.arrow / self.longest * move, 2 * self.arrow)

    def curves(self, chart: EqualAreaMap | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Arrows or streamlines ``(m, k, D)`` with gaps of NaN, and their numbers ``(m,)``; in the
        plane of a map."""
        assert self.vectors is not None
        points, vectors, length = self.points, self.vectors, np.linalg.norm(self.vectors, axis=1)
        rows = spread_out(points, MAX_STREAMLINES if self.streamlines else MAX_ARROWS)
        rows, centre = rows[length[rows] > 1e-3 * top_of(length)], points.mean(axis=0)
        if self.streamlines:
            lines = streamlines(points, vectors, rows)
            move = self.arrow * vectors[rows] / length[rows, None]
            heads = arrow_heads(points[rows], move, centre)
            found = np.concatenate([lines, np.full_like(lines[:, :1], np.nan), heads], axis=1)
            if chart is not None:
                found = chart.project(found / np.linalg.norm(found, axis=2, keepdims=True))
                jumps = (
                    np.linalg.norm(np.diff(found, axis=1), axis=2) > 0.3
                )  # from one edge of the map to the other
                found[:, 1:][jumps] = np.nan
            return found, self.numbers[rows]
        foot, move = points[rows], self.arrow / self.longest * vectors[rows]
        if chart is not None:
            foot, move = chart.project(foot), chart.project_vectors(foot, move)
            foot = on_map(chart, foot, move)
        return np.concatenate(
            [foot[:, None], arrow_heads(foot + move, move, centre)], axis=1
        ), self.numbers[rows]


def streamlines(
    points: np.ndarray, vectors: np.ndarray, rows: np.ndarray, length: float = 0.3
) -> np.ndarray:
    """Curves ``(m, k, D)`` along vectors ``(n, D)`` at points ``(n, D)``, with their middles at the
    points of ``rows``.

    They are up to ``length`` times as long as the picture is wide; NaN where the field vanishes or
    points end. Steps follow the mean direction of 12 neighbours, weighted by inverse squared
    distance, and end on their plane.
    """
    tree, step = cKDTree(points), 0.5 * spacing(points)
    weakest = 1e-2 * np.quantile(np.linalg.norm(vectors, axis=1), 0.9)

    def neighbors(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return tree.query(np.nan_to_num(places), range(1, min(12, len(points)) + 1))

    def direction(places: np.ndarray) -> np.ndarray:
        distance, near = neighbors(places)
        weight = 1 / (distance + 1e-3 * step) ** 2
        mean = np.einsum("mk,mkd->md", weight, vectors[near]) / weight.sum(axis=1, keepdims=True)
        size = np.linalg.norm(mean, axis=1, keepdims=True)
        return np.where(size > weakest, mean / np.maximum(size, 1e-300), np.nan)

    def on_plane(places: np.ndarray) -> np.ndarray:
        """Places moved across the thin directions of their neighbours; NaN far from all points."""
        distance, near = neighbors(places)
        mean = points[near].mean(axis=1)
        local = points[near] - mean[:, None]
        shares, axes = np.linalg.eigh(local.transpose(0, 2, 1) @ local)
        thin = shares < 0.04 * shares.sum(axis=1, keepdims=True)
        off = np.einsum("mda,md->ma", axes, mean - places) * thin
        return np.where(
            distance[:, :1] < 3 * step, places + np.einsum("mda,ma->md", axes, off), np.nan
        )

    curves = [points[rows]]
    for sign in (-step, step):
        place = points[rows]
        for _ in range(int(np.clip(0.5 * length * extent(points) / step, 4, 60))):  # to either side
            middle = place + 0.5 * sign * direction(place)
            place = on_plane(place + sign * direction(middle))
            curves.insert(0, place) if sign < 0 else curves.append(place)
    return np.stack(curves, axis=1)


def arrow_heads(tip: np.ndarray, move: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
    """Curves through the tips of arrows and both ends of their heads, ``(m, 5, D)``, that end with
    NaN.

    In space, heads lie along a round surface about the ``centre`` ``(3,)``.
    """
    if tip.shape[1] == 2:
        side = move[:, ::-1] * [-1, 1]
    else:
        side = np.cross(move, tip - move - centre)
        long, wide = (np.linalg.norm(array, axis=1, keepdims=True) for array in (move, side))
        side *= long / np.maximum(wide, 1e-300)
    left, right = (tip - 0.34 * move + sign * 0.17 * side for sign in (1, -1))
    return np.stack([tip, left, tip, right, np.full_like(tip, np.nan)], axis=1)


def aligned(layers: Sequence[Layer]) -> list[Layer]:
    """Layers with their ``top``, ``longest`` and ``arrow`` filled in, equal for all layers of one
    label."""
    size = extent(np.concatenate([layer.points for layer in layers]))
    scales: dict[str, tuple[float, float, float]] = {}
    for layer in layers:
        top, longest, arrow = scales.get(layer.label, (0.0, 0.0, np.inf))
        length = np.zeros(0) if layer.vectors is None else np.linalg.norm(layer.vectors, axis=1)
        long = 1.6 * reach(layer.points[spread_out(layer.points, MAX_ARROWS)], size)
        scales[layer.label] = (
            max(top, top_of(np.abs(layer.numbers))),
            max(longest, top_of(length)),
            min(arrow, long),
        )
    shared = [scales[layer.label] for layer in layers]
    return [
        dataclasses.replace(x, top=t, longest=v, arrow=a)
        for x, (t, v, a) in zip(layers, shared, strict=True)
    ]


def in_picture(
    points: Array, vectors: Array | None, axes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Points and vectors in two or three dimensions, along ``axes`` ``(D, 2 or 3)``, and the names
    of these."""
    points = points_array(points)[0]
    vectors = None if vectors is None else points_array(vectors, "vectors")[0]
    if vectors is not None and vectors.shape != points.shape:
        raise ShapeError(
            f"expected points (n, D) and ambient vectors (n, D), got {points.shape} and "
            f"{vectors.shape}."
        )
    axes = shown_axes(points) if axes is None else axes
    names = (
        ("x", "y", "z")
        if points.shape[1] <= 3
        else ("principal axis 1", "principal axis 2", "principal axis 3")
    )
    return points @ axes, None if vectors is None else vectors @ axes, names[: axes.shape[1]]


def shown_axes(points: np.ndarray) -> np.ndarray:
    """Directions ``(D, 2 or 3)`` to draw points ``(n, D)`` along: the axes, or the three widest
    directions."""
    if not len(points):
        raise ShapeError(f"expected at least one point (n, D), got shape {points.shape}.")
    if points.shape[1] <= 3:
        return np.eye(points.shape[1], max(points.shape[1], 2))
    subset = points[:: len(points) // 20_000 + 1]
    subset = np.resize(
        subset, (max(len(subset), 3), points.shape[1])
    )  # repeated rows, for three directions
    return np.linalg.svd(subset - subset.mean(axis=0), full_matrices=False)[2][:3].T
