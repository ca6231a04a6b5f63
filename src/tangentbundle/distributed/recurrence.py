r"""The Chebyshev recurrence in partitions, :math:`T_{m+1} = 2 P T_m - T_{m-1}`: a Dask task for each step of each.

P has its spectrum in [-1, 1]. A step of a partition takes the terms of the partitions around it. Dask holds the terms,
on the workers of a cluster, until they are not needed any more, and computes those again that were lost with a worker.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ..operators.moments import moments_from_products
from ..operators.product import step
from ..operators.storage import BlockMatrix
from .build import Geometry
from .cloud import Cloud
from .files import load_array, save_array
from .tasks import run_graph


def tangent_signal(cloud: Cloud, geometry: Geometry, vectors: str, p: int) -> np.ndarray:
    """Coordinates ``(n, d, c)`` of the ambient vectors ``part(vectors, p)``."""
    frames = load_array(cloud.part(geometry.of("frames"), p))
    ambient = load_array(cloud.part(vectors, p)).astype(np.float64)
    ambient = ambient if ambient.ndim == 3 else ambient[:, :, None]
    return np.einsum("nij,nic->njc", frames, ambient).astype(geometry.real)


def coordinate_signal(cloud: Cloud, center: np.ndarray, p: int) -> np.ndarray:
    """The points' coordinates from the center as functions, and the constant one, whose moments are the total mass."""
    points = load_array(cloud.part("points", p)) - center
    return np.concatenate([points, np.ones((len(points), 1))], axis=1)[:, None, :]


@dataclass(frozen=True)
class Recurrence:
    """The terms of ``signal(p)`` under P, the average of ``fields`` or of ``functions``."""

    cloud: Cloud = field(repr=False)
    geometry: Geometry
    signal: Callable[[int], np.ndarray]
    kind: str = "fields"
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def filter(self, coefficients: np.ndarray, names: Sequence[str], *, flat: bool) -> None:
        """Write ambient vectors filtered with ``coefficients`` (k, m) as ``part(names[k], p)``."""
        graph = self._terms(coefficients.shape[1])
        for p in range(self.cloud.num_parts):
            for m, column in enumerate(coefficients.T):
                graph[self.name, "sum", m, p] = (_add, self._key(m, p), column, m and (self.name, "sum", m - 1, p))
            graph[self.name, p] = (self.finish, p, (self.name, "sum", m, p), list(names), flat)
        run_graph(graph, [(self.name, p) for p in range(self.cloud.num_parts)], "filter")

    def moments(self, terms: int) -> np.ndarray:
        r"""Moments :math:`\langle x, T_m(P) x \rangle` of every channel, ``(2 terms - 1, c)``."""
        graph, parts = self._terms(terms), range(self.cloud.num_parts)
        wanted = [[(self.name, "products", m, p) for p in parts] for m in range(terms)]
        for m in range(terms):
            for p, key in enumerate(wanted[m]):
                graph[key] = (self.products, p, self._key(m, p), self._key(max(m - 1, 0), p))
        squares, neighbors = np.sum(run_graph(graph, wanted, "moments"), axis=1).swapaxes(0, 1)
        return moments_from_products(squares, neighbors[1:])

    def _key(self, m: int, p: int) -> Hashable:
        return self.name, "term", m, p

    def _terms(self, count: int) -> dict[Hashable, tuple]:
        """The tasks of all terms."""
        graph: dict[Hashable, tuple] = {}
        for p in range(self.cloud.num_parts):
            near = [q for q, _ in self.cloud.parts_of(load_array(self.cloud.part(self.geometry.of("numbers"), p)))]
            graph[self._key(0, p)] = (self.signal, p)
            for m in range(1, count):
                before = self._key(m - 2, p) if m > 1 else None
                graph[self._key(m, p)] = (self.advance, p, [self._key(m - 1, q) for q in near], before)
        return graph

    def advance(self, p: int, terms: list[np.ndarray], previous: np.ndarray | None) -> np.ndarray:
        """The next term on a partition, from the last on all partitions that it reads, and the one before."""
        numbers = np.array(load_array(self.cloud.part(self.geometry.of("numbers"), p)))
        inside = self.cloud.inside(p, numbers)
        spans = (numbers[span] - self.cloud.offsets[q] for q, span in self.cloud.parts_of(numbers))
        x = torch.from_numpy(np.concatenate([term[rows] for term, rows in zip(terms, spans, strict=True)]))
        z, out = torch.zeros_like(x), torch.empty_like(x)
        if previous is not None:
            z[inside] = torch.from_numpy(previous)
        step(self.matrix(p), x, z, out, (1.0, 0.0, 0.0) if previous is None else (2.0, 0.0, -1.0))
        return out[inside].numpy()

    def matrix(self, p: int) -> BlockMatrix:
        """The rows of P of a partition; those of the points around it are empty."""
        names = ("indptr", f"{self.kind}-cols", f"{self.kind}-values")
        files = (np.load(self.cloud.part(self.geometry.of(name), p), mmap_mode="c") for name in names)
        indptr, cols, values = map(torch.from_numpy, files)  # copied on write: torch wants writable pages
        return BlockMatrix(indptr, cols, values, torch.arange(len(indptr) - 1, dtype=torch.int32))

    def products(self, p: int, term: np.ndarray, previous: np.ndarray) -> np.ndarray:
        """Mass inner products ``(2, c)`` of a term with itself and with the one before."""
        mass = load_array(self.cloud.part(self.geometry.of("mass"), p))
        return np.array([np.einsum("n,ndc,ndc->c", mass, term, other, dtype=np.float64) for other in (term, previous)])

    def finish(self, p: int, sums: np.ndarray, names: list[str], flat: bool) -> None:
        """Coordinates to ambient vectors."""
        frames = load_array(self.cloud.part(self.geometry.of("frames"), p))
        for name, filtered in zip(names, sums, strict=True):
            ambient = np.einsum("nij,njc->nic", frames, filtered).astype(self.geometry.real)
            save_array(self.cloud.part(name, p), ambient[:, :, 0] if flat else ambient)


def _add(term: np.ndarray, column: np.ndarray, sums: np.ndarray | int) -> np.ndarray:
    return sums + column[:, None, None, None].astype(term.dtype) * term
