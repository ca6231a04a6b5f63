r"""The Chebyshev recurrence in rounds: a partition reads its halo, takes s steps by itself, and writes its rows.

P has its spectrum in [-1, 1]. State ``r`` of a partition holds :math:`T_{m-1}(P) x` and :math:`T_m(P) x` for
:math:`m = r s`, and the sums :math:`\sum_{m' \le m} a_{km'} T_{m'}(P) x`. A round needs the last state of the partition
and of those it borders, nothing else: partitions never wait for all others. States are files; the one before the last
is removed once no other partition can need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from ..operators.moments import moments_from_products, recurrence
from ..operators.product import Extras
from ..operators.storage import BlockMatrix
from .build import matrix_of
from .cloud import Cloud
from .files import load_array, save_array
from .scale import Geometry
from .tasks import Plan


@dataclass(frozen=True)
class Rounds:
    """A recurrence on vectors ``part(vectors, p)``, with ``coefficients`` (k, m) of k filters.

    With ``probes``, so many random signs are added as channels, and the inner products of consecutive terms are saved:
    any filter's energy and trace follow from them.
    """

    cloud: Cloud = field(repr=False)
    geometry: Geometry
    borders: tuple[tuple[int, ...], ...] = field(repr=False)
    folder: Path
    vectors: str
    coefficients: np.ndarray = field(repr=False)
    probes: int = 0

    @property
    def terms(self) -> int:
        return self.coefficients.shape[1]

    @property
    def count(self) -> int:
        return -(-(self.terms - 1) // self.geometry.rings)

    def _place(self, name: str, p: int, number: int) -> Path:
        return self.folder / f"state-{number:06d}" / f"{name}-{p:06d}.npy"

    def plan(self) -> tuple[Plan, list[str]]:
        """All rounds of all partitions, and the keys of the last ones."""
        plan, parts = Plan(), range(self.cloud.num_parts)
        done = [plan.add(self.start, p) for p in parts]
        for number in range(1, self.count + 1):
            done = [plan.add(self.advance, p, number, after=[done[q] for q in self.borders[p]]) for p in parts]
        return plan, done

    def signal(self, p: int) -> np.ndarray:
        """The signal ``(n, d, c)`` of a partition: the coordinates of the ambient vectors, and random signs."""
        frames = load_array(self.cloud.part(self.geometry.of_frames("frames"), p))
        vectors = load_array(self.cloud.part(self.vectors, p)).astype(np.float64)
        vectors = vectors if vectors.ndim == 3 else vectors[:, :, None]
        x = np.einsum("nij,nic->njc", frames, vectors).astype(self.geometry.real)
        signs = np.random.default_rng([self.probes, p]).choice([-1.0, 1.0], size=(*x.shape[:2], self.probes))
        return np.concatenate([x, signs.astype(x.dtype)], axis=2)

    def matrix(self, p: int) -> BlockMatrix:
        """P on the points of a partition and its halo."""
        return matrix_of(self.cloud, self.geometry, p)

    def start(self, p: int) -> None:
        """State 0."""
        if self._place("sums", p, 0).exists():
            return
        x = self.signal(p)
        if self.probes:
            self._save_products(p, 0, [x, x])
        save_array(self._place("terms", p, 0), np.stack([x, x]))
        save_array(self._place("sums", p, 0), self.coefficients[:, 0, None, None, None].astype(x.dtype) * x)

    def advance(self, p: int, number: int) -> None:
        """One round."""
        if self._place("sums", p, number).exists():
            return
        cloud, first = self.cloud, 1 + (number - 1) * self.geometry.rings
        numbers = np.array(load_array(cloud.part(self.geometry.of_operator("numbers"), p)))
        inside = slice(*np.searchsorted(numbers, cloud.offsets[p : p + 2]))
        before = self._place("terms", p, number - 1).parent
        previous, current = torch.from_numpy(cloud.gather("terms", numbers, before, axis=1)).unbind(0)
        stored = load_array(self._place("sums", p, number - 1))
        sums = torch.zeros((len(stored), *current.shape), dtype=current.dtype)
        sums[:, inside] = torch.from_numpy(np.array(stored))
        columns = torch.from_numpy(np.ascontiguousarray(self.coefficients.T)).to(current.dtype)
        terms = range(first, min(first + self.geometry.rings, self.terms))
        own, last = [current.numpy()[inside]], [previous, current]
        steps = recurrence(self.matrix(p), previous, current, terms, targets=lambda m: Extras(sums, columns[m]))
        for _, term in steps:
            last = [last[1], term]
            if self.probes:
                own.append(term.numpy()[inside].copy())
        save_array(self._place("terms", p, number), torch.stack([part[inside] for part in last]).numpy())
        if self.probes:
            self._save_products(p, number, own)
        save_array(self._place("sums", p, number), sums[:, inside].numpy())
        for name in ("terms", "sums"):
            self._place(name, p, number - 2).unlink(missing_ok=True)

    def _save_products(self, p: int, number: int, terms: Sequence[np.ndarray]) -> None:
        """Mass inner products of each term but the first with itself and with the one before, ``(2, steps, c)``."""
        mass = load_array(self.cloud.part(self.geometry.of_operator("mass"), p))
        pairs = zip(terms[1:], terms[1:], strict=True), zip(terms[1:], terms[:-1], strict=True)
        products = [[np.einsum("n,ndc,ndc->c", mass, a, b, dtype=np.float64) for a, b in both] for both in pairs]
        save_array(self._place("products", p, number), np.array(products))

    def moments(self) -> np.ndarray:
        r"""Moments :math:`\langle x, T_m(P) x \rangle` of every channel, ``(2 m - 1, c)`` from m terms."""
        plan, done = self.plan()
        plan.run(done)
        products = [
            np.sum([load_array(self._place("products", p, r)) for p in range(self.cloud.num_parts)], axis=0)
            for r in range(self.count + 1)
        ]
        squares, neighbors = np.concatenate(products, axis=1)
        return moments_from_products(squares, neighbors[1:])

    def filter(self, names: Sequence[str], flat: bool) -> Path:
        """Filtered ambient vectors of all partitions, unmerged, as ``name-p.npy``; returns their folder."""
        plan, done = self.plan()
        plan.run([plan.add(self.finish, p, names, flat, after=[key]) for p, key in enumerate(done)])
        return self.folder / "back"

    def finish(self, p: int, names: Sequence[str], flat: bool) -> None:
        """Coordinates to ambient vectors, rows of each range of the file together."""
        places = [self.folder / "back" / f"{name}-{p:06d}.npy" for name in names]
        if all(place.exists() for place in places):
            return
        sums = load_array(self._place("sums", p, self.count))
        frames = load_array(self.cloud.part(self.geometry.of_frames("frames"), p))
        for place, filtered in zip(places, sums, strict=True):
            ambient = np.einsum("nij,njc->nic", frames, filtered).astype(self.geometry.real)
            save_array(place, self.cloud.unmerge(ambient[:, :, 0] if flat else ambient, p))


@dataclass(frozen=True)
class CoordinateRounds(Rounds):
    """The recurrence on the points' own coordinates, as functions; ``center`` is their mean."""

    center: np.ndarray = field(default_factory=lambda: np.zeros(1), repr=False)

    def signal(self, p: int) -> np.ndarray:
        """Coordinates from the center, and the constant one, whose moments are the total mass."""
        points = load_array(self.cloud.part("points", p)) - self.center
        return np.concatenate([points, np.ones((len(points), 1))], axis=1)[:, None, :]

    def matrix(self, p: int) -> BlockMatrix:
        """The weights of the average, without transport."""
        found = super().matrix(p)
        squares = found.values.double().square().flatten(1).sum(1)
        weights = (squares if found.values.ndim == 2 else squares / self.geometry.dim).sqrt()
        return BlockMatrix(found.indptr, found.columns().int(), weights[:, None, None], found.order)

    def coordinate_moments(self) -> np.ndarray:
        """As ``operators.assembly.coordinate_moments``."""
        moments = self.moments()
        return moments[:, :-1].sum(axis=1) / moments[0, -1]
