r"""The Chebyshev recurrence in rounds: a partition reads its halo, takes s steps by itself, and writes its rows.

P has its spectrum in [-1, 1]. State ``r`` of a partition holds :math:`T_{m-1}(P) x` and :math:`T_m(P) x` for
:math:`m = r s`, and the sums :math:`\sum_{m' \le m} a_{km'} T_{m'}(P) x`. States are files; one is removed when all
partitions have the next, and a run that was stopped continues with the last that all have.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ..operators.moments import moments_from_products, recurrence
from ..operators.product import Extras
from ..operators.storage import BlockMatrix
from .build import Geometry, matrix_of
from .cloud import Cloud
from .files import load_array, save_array
from .tasks import run_all


@dataclass(frozen=True)
class Rounds:
    """A recurrence on vectors ``part(vectors, p)``, with ``coefficients`` (k, m) of k filters.

    With ``probes``, so many random signs are added as channels, and the inner products of consecutive terms are saved:
    any filter's energy and trace follow from them.
    """

    cloud: Cloud = field(repr=False)
    geometry: Geometry
    name: str
    vectors: str
    coefficients: np.ndarray = field(repr=False)
    probes: int = 0

    @property
    def terms(self) -> int:
        return self.coefficients.shape[1]

    @property
    def count(self) -> int:
        return -(-(self.terms - 1) // self.geometry.rings)

    def _state(self, name: str, number: int) -> str:
        return f"{self.name}/state-{number}/{name}"

    def _products(self, number: int) -> str:
        return f"{self.name}/products-{number}"

    def _exists(self, p: int, number: int) -> bool:
        return self.cloud.part(self._state("sums", number), p).exists()  # they are written last

    def run(self) -> None:
        """All rounds, from the last that is complete."""
        parts = range(self.cloud.num_parts)
        done = [r for r in range(self.count + 1) if all(self._exists(p, r) for p in parts)]
        if not done:
            run_all(self.start, [(p,) for p in parts])
        for number in range(max(done, default=0) + 1, self.count + 1):
            run_all(self.advance, [(p, number) for p in parts])
            shutil.rmtree(self.cloud.folder / self._state("", number - 1))

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
        if self._exists(p, 0):
            return
        x = self.signal(p)
        sums = self.coefficients[:, 0, None, None, None].astype(x.dtype) * x
        self._save(p, 0, [x, x], [x, x], sums)

    def advance(self, p: int, number: int) -> None:
        """One round."""
        if self._exists(p, number):
            return
        cloud, first = self.cloud, 1 + (number - 1) * self.geometry.rings
        numbers = np.array(load_array(cloud.part(self.geometry.of_operator("numbers"), p)))
        inside = slice(*np.searchsorted(numbers, cloud.offsets[p : p + 2]))
        files = (self._state(name, number - 1) for name in ("previous", "current"))
        previous, current = (torch.from_numpy(cloud.gather(file, numbers)) for file in files)
        stored = load_array(cloud.part(self._state("sums", number - 1), p))
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
        self._save(p, number, own, [part[inside].numpy() for part in last], sums[:, inside].numpy())

    def _save(self, p: int, number: int, own: Sequence[np.ndarray], last: Sequence[np.ndarray], sums: np.ndarray):
        """Write a state; with probes also mass inner products of each term but the first with itself and with the one
        before, ``(2, steps, c)``.
        """
        if self.probes:
            mass = load_array(self.cloud.part(self.geometry.of_operator("mass"), p))
            pairs = zip(own[1:], own[1:], strict=True), zip(own[1:], own[:-1], strict=True)
            products = [[np.einsum("n,ndc,ndc->c", mass, a, b, dtype=np.float64) for a, b in both] for both in pairs]
            save_array(self.cloud.part(self._products(number), p), np.array(products))
        for name, array in zip(("previous", "current", "sums"), (*last, sums), strict=True):
            save_array(self.cloud.part(self._state(name, number), p), array)

    def moments(self) -> np.ndarray:
        r"""Moments :math:`\langle x, T_m(P) x \rangle` of every channel, ``(2 m - 1, c)`` from m terms."""
        self.run()
        parts, rounds = range(self.cloud.num_parts), map(self._products, range(self.count + 1))
        products = [np.sum([load_array(self.cloud.part(name, p)) for p in parts], axis=0) for name in rounds]
        squares, neighbors = np.concatenate(products, axis=1)
        return moments_from_products(squares, neighbors[1:])

    def filter(self, flat: bool) -> list[str]:
        """Filtered ambient vectors of all partitions; returns the names of the files of each filter."""
        self.run()
        names = [f"{self.name}/filtered-{k}" for k in range(len(self.coefficients))]
        run_all(self.finish, [(p, names, flat) for p in range(self.cloud.num_parts)])
        return names

    def finish(self, p: int, names: Sequence[str], flat: bool) -> None:
        """Coordinates to ambient vectors."""
        sums = load_array(self.cloud.part(self._state("sums", self.count), p))
        frames = load_array(self.cloud.part(self.geometry.of_frames("frames"), p))
        for name, filtered in zip(names, sums, strict=True):
            ambient = np.einsum("nij,njc->nic", frames, filtered).astype(self.geometry.real)
            save_array(self.cloud.part(name, p), ambient[:, :, 0] if flat else ambient)


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
