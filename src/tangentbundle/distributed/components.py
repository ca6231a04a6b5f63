"""Pieces of the neighbour graph: found in each partition, then joined where edges cross from one into another."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ..errors import DisconnectedWarning
from .cloud import Cloud
from .files import load_array, save_array
from .scale import Geometry
from .tasks import run_all


def count_components(cloud: Cloud, geometry: Geometry) -> int:
    """Connected components of the graph; warns of more than one."""
    every = range(cloud.num_parts)
    sizes = run_all(_label_part, [(cloud, geometry, p) for p in every])
    first = np.concatenate([[0], np.cumsum(sizes)])
    crossing = np.concatenate(run_all(_crossing, [(cloud, geometry, p, first) for p in every]))
    links = sparse.coo_array((np.ones(len(crossing), np.int8), tuple(crossing.T)), shape=(first[-1], first[-1]))
    count = int(csgraph.connected_components(links, directed=False)[0])
    if count > 1:
        warnings.warn(
            f"the neighbour graph has {count} components; nothing flows between them. If the manifold is connected, "
            "use a larger eps.",
            DisconnectedWarning,
            stacklevel=5,
        )
    return count


def _edges(cloud: Cloud, geometry: Geometry, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and numbers of both ends of the edges from a partition's own points, rows counted in the partition."""
    numbers, indptr, cols = (
        load_array(cloud.part(geometry.of_operator(name), p)) for name in ("numbers", "indptr", "cols")
    )
    start, stop = np.searchsorted(numbers, cloud.offsets[p : p + 2])
    ends = np.array(indptr[start : stop + 1])
    codes = cols[ends[0] : ends[-1]]
    rows = np.repeat(np.arange(stop - start), np.diff(ends))
    return rows, numbers[np.where(codes < 0, ~codes, codes)], cloud.own(p)


def _label_part(cloud: Cloud, geometry: Geometry, p: int) -> int:
    """Label the pieces of a partition by itself; returns how many there are."""
    place = cloud.part(geometry.of_operator("labels"), p)
    if not place.exists():
        rows, others, own = _edges(cloud, geometry, p)
        inside = (others >= own[0]) & (others <= own[-1])
        ends = rows[inside], others[inside] - own[0]
        graph = sparse.coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(len(own), len(own)))
        save_array(place, csgraph.connected_components(graph, directed=False)[1])
    return int(load_array(place).max()) + 1


def _crossing(cloud: Cloud, geometry: Geometry, p: int, first: np.ndarray) -> np.ndarray:
    """Pairs ``(m, 2)`` of pieces that edges of a partition join, each once; ``first`` numbers those of partitions."""
    name = geometry.of_operator("labels")
    rows, others, own = _edges(cloud, geometry, p)
    outside = (others < own[0]) | (others > own[-1])
    known, places = np.unique(others[outside], return_inverse=True)
    if not len(known):
        return np.empty((0, 2), np.int64)
    parts = np.searchsorted(cloud.offsets, known, side="right") - 1
    here = first[p] + load_array(cloud.part(name, p))[rows[outside]]
    return np.unique(np.stack([here, (first[parts] + cloud.gather(name, known))[places]], axis=1), axis=0)
