"""Fields at new points: each partition serves those that fall on its part of the curve."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from ..estimators.problem import carry
from ..estimators.tangents import TangentSpaces
from .build import SLACK, Geometry
from .cloud import BLOCK, Cloud, boxes_of
from .engine import Plan
from .exchange import Exchange
from .files import load_array, save_array
from .results import Sink

NEAREST = 6
"""Points that a value is carried from."""


@dataclass(frozen=True)
class Carrier:
    """Vectors ``part(vectors, p)`` of a cloud to the points of another exchange, with the same splits.

    A new point's value is the mean of its nearest points' vectors by inverse squared distance, projected on the tangent
    space that ``neighbors`` points around it span: ``estimators.problem.carry``.
    """

    cloud: Cloud = field(repr=False)
    places: Exchange = field(repr=False)
    vectors: str
    neighbors: int
    folder: Path
    geometry: Geometry = field(repr=False)

    def write(self, sink: Sink) -> None:
        plan, parts = Plan(), range(self.places.num_parts)
        back = [plan.add(self.interpolate, p) for p in parts]
        ranges = range(len(self.places.ranges))
        plan.run([plan.add(self.places.give, k, ("vectors",), self.folder, sink, after=back) for k in ranges])

    def interpolate(self, p: int) -> None:
        place = self.folder / f"vectors-{p:06d}.npy"
        if not place.exists():
            points = np.array(load_array(self.places.part("points", p)))
            shape = load_array(self.cloud.exchange.part(self.vectors, p)).shape[1:]
            values = np.empty((len(points), *shape), self.geometry.real)
            for a in range(0, len(points), BLOCK):
                values[a : a + BLOCK] = self.near(points[a : a + BLOCK], p)
            save_array(place, self.places.unmerge(values, p))

    def near(self, points: np.ndarray, p: int) -> np.ndarray:
        """The field at points that are near each other."""
        boxes, cloud, k = boxes_of(points), self.cloud, max(NEAREST, self.neighbors)
        known, reach = cloud.near(boxes, 0.0), 0.0
        known = known if len(known) >= k else np.union1d(known, cloud.own(p))
        known = known if len(known) >= k else np.arange(cloud.exchange.rows)
        while True:  # the nearest of some points bound how far the nearest of all can be
            tree = cKDTree(cloud.gather("points", known))
            farthest = float(tree.query(points, k=[min(k, len(known))])[0].max())
            if farthest <= reach or len(known) == cloud.exchange.rows:
                break
            reach = farthest * SLACK
            known = cloud.near(boxes, reach)
        frames = np.array(cloud.gather(self.geometry.of_frames("frames"), known))
        spaces = TangentSpaces(np.array(tree.data), frames, False, None, tree, min(self.neighbors, len(known)))
        vectors = cloud.gather(self.vectors, known).astype(np.float64)
        ambient = vectors if vectors.ndim == 3 else vectors[:, :, None]
        bases = spaces.at(points)
        carried = carry(spaces, np.einsum("nij,nic->njc", frames, ambient), points, bases, NEAREST)
        field = np.einsum("mij,mjc->mic", bases, carried)
        return field if vectors.ndim == 3 else field[:, :, 0]
