r"""The Chebyshev recurrence in rounds: a partition reads its halo, takes s steps by itself, and writes its rows.

P has its spectrum in [-1, 1]. State ``r`` of a partition holds :math:`T_{m-1}(P) x` and :math:`T_m(P) x` for
:math:`m = r s`, and the sums :math:`\sum_{m' \le m} a_{km'} T_{m'}(P) x`. States are files; one is removed when all
partitions have the next, and a run that was stopped continues with the last that all have.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from ..operators.moments import moments_from_products, recurrence
from ..operators.product import Extras
from .build import Geometry, matrix_of
from .cloud import Cloud
from .files import load_array, save_array
from .tasks import run_all


def tangent_signal(cloud: Cloud, geometry: Geometry, vectors: str, p: int) -> np.ndarray:
    """Coordinates ``(n, d, c)`` of the ambient vectors ``part(vectors, p)``."""
    frames = load_array(cloud.part(geometry.of_frames("frames"), p))
    ambient = load_array(cloud.part(vectors, p)).astype(np.float64)
    ambient = ambient if ambient.ndim == 3 else ambient[:, :, None]
    return np.einsum("nij,nic->njc", frames, ambient).astype(geometry.real)


def coordinate_signal(cloud: Cloud, center: np.ndarray, p: int) -> np.ndarray:
    """The points' coordinates from the center as functions, and the constant one, whose moments are the total mass."""
    points = load_array(cloud.part("points", p)) - center
    return np.concatenate([points, np.ones((len(points), 1))], axis=1)[:, None, :]


@dataclass(frozen=True)
class Rounds:
    """A recurrence on ``signal(p)`` with the matrix of that name, and ``coefficients`` (k, m) of k filters."""

    cloud: Cloud = field(repr=False)
    geometry: Geometry
    name: str
    signal: Callable[[int], np.ndarray]
    coefficients: np.ndarray = field(repr=False)
    values: str = "values"

    @property
    def count(self) -> int:
        return -(-(self.coefficients.shape[1] - 1) // self.geometry.rings)

    def state(self, name: str, number: int, p: int) -> Path:
        return self.cloud.part(f"{self.name}/state-{number}/{name}", p)

    def run(self) -> list[np.ndarray]:
        """All rounds, from the last that is complete; returns the inner products of each round, see ``advance``."""
        parts, found = range(self.cloud.num_parts), []
        done = [r for r in range(self.count + 1) if all(self.state("sums", r, p).exists() for p in parts)]
        if not done:
            run_all(self.start, [(p,) for p in parts])
        for number in range(max(done, default=0) + 1, self.count + 1):
            found.append(np.sum(run_all(self.advance, [(p, number) for p in parts]), axis=0))
            shutil.rmtree(self.cloud.folder / self.name / f"state-{number - 1}")
        return found

    def start(self, p: int) -> None:
        """State 0."""
        x = self.signal(p)
        self._save(p, 0, x, x, self.coefficients[:, 0, None, None, None].astype(x.dtype) * x)

    def _save(self, p: int, number: int, previous: np.ndarray, current: np.ndarray, sums: np.ndarray) -> None:
        for name, array in (("previous", previous), ("current", current), ("sums", sums)):  # sums are written last
            save_array(self.state(name, number, p), array)

    def advance(self, p: int, number: int) -> np.ndarray:
        """One round. Without filters, returns mass inner products ``(steps + 1, 2, c)`` of each term of the round, and
        of the one before it, with itself and with its predecessor (zero for the first).
        """
        cloud, rings, (filters, terms) = self.cloud, self.geometry.rings, self.coefficients.shape
        numbers = np.array(load_array(cloud.part(self.geometry.of_operator("numbers"), p)))
        inside = cloud.inside(p, numbers)
        files = (f"{self.name}/state-{number - 1}/{name}" for name in ("previous", "current"))
        last = [torch.from_numpy(cloud.gather(file, numbers)) for file in files]
        sums = torch.zeros((filters, *last[1].shape), dtype=last[1].dtype)
        sums[:, inside] = torch.from_numpy(np.array(load_array(self.state("sums", number - 1, p))))
        columns = torch.from_numpy(np.ascontiguousarray(self.coefficients.T)).to(sums.dtype)
        steps = range(1 + (number - 1) * rings, min(1 + number * rings, terms))
        mass = load_array(cloud.part(self.geometry.of_operator("mass"), p))

        def products(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
            return np.einsum("n,ndc,ndc->c", mass, a[inside].numpy(), b[inside].numpy(), dtype=np.float64)

        found = [] if filters else [[products(last[1], last[1]), np.zeros(last[1].shape[2])]]
        matrix = matrix_of(cloud, self.geometry, p, self.values)
        for _, term in recurrence(matrix, *last, steps, targets=lambda m: Extras(sums, columns[m])):
            last = [last[1], term]
            if not filters:
                found.append([products(term, term), products(term, last[0])])
        self._save(p, number, *(term[inside].numpy() for term in last), sums[:, inside].numpy())
        return np.array(found)

    def moments(self) -> np.ndarray:
        r"""Moments :math:`\langle x, T_m(P) x \rangle` of every channel, ``(2 m - 1, c)`` from m terms."""
        shutil.rmtree(self.cloud.folder / self.name, ignore_errors=True)  # products of a stopped run are lost
        first, *others = self.run()
        squares, neighbors = np.concatenate([first, *(found[1:] for found in others)]).swapaxes(0, 1)
        return moments_from_products(squares, neighbors[1:])

    def filter(self, flat: bool) -> list[str]:
        """Filtered ambient vectors of all partitions; returns the names of the files of each filter."""
        self.run()
        names = [f"{self.name}/filtered-{k}" for k in range(len(self.coefficients))]
        run_all(self.finish, [(p, names, flat) for p in range(self.cloud.num_parts)])
        return names

    def finish(self, p: int, names: list[str], flat: bool) -> None:
        """Coordinates to ambient vectors."""
        frames = load_array(self.cloud.part(self.geometry.of_frames("frames"), p))
        for name, filtered in zip(names, load_array(self.state("sums", self.count, p)), strict=True):
            ambient = np.einsum("nij,njc->nic", frames, filtered).astype(self.geometry.real)
            save_array(self.cloud.part(name, p), ambient[:, :, 0] if flat else ambient)
