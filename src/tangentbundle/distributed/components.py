"""Pieces of the neighbour graph: found in each partition, then joined where edges cross from one into another."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ..errors import DisconnectedWarning
from ..geometry.graph import NeighborGraph
from .cloud import Cloud, Surrounded
from .files import load_array
from .tasks import run_all


def label_pieces(graph: NeighborGraph, near: Surrounded) -> tuple[np.ndarray, np.ndarray]:
    """Labels of the pieces of a partition by itself, and pairs ``(m, 2)`` of such a piece and a joined outer point."""
    own = graph.to_scipy()[near.inside]
    labels = csgraph.connected_components(own[:, near.inside], directed=False)[1]
    edges = own.tocoo()
    outside = (edges.col < near.inside.start) | (edges.col >= near.inside.stop)
    joined = np.stack([labels[edges.row[outside]], near.numbers[edges.col[outside]]], axis=1)
    return labels, np.unique(joined, axis=0)


def count_components(cloud: Cloud, labels: str, joined: str, pieces: Sequence[int]) -> int:
    """Connected components, from files of ``label_pieces`` and the pieces of each partition; warns of several."""
    first = np.concatenate([[0], np.cumsum(pieces)])
    calls = [(cloud, labels, joined, p, first) for p in range(cloud.num_parts)]
    links = np.concatenate(run_all(_links, calls))
    graph = sparse.coo_array((np.ones(len(links), np.int8), tuple(links.T)), shape=(first[-1], first[-1]))
    count = int(csgraph.connected_components(graph, directed=False)[0])
    if count > 1:
        warnings.warn(
            f"the neighbour graph has {count} components; nothing flows between them. If the manifold is connected, "
            "use a larger eps.",
            DisconnectedWarning,
            stacklevel=5,
        )
    return count


def _links(cloud: Cloud, labels: str, joined: str, p: int, first: np.ndarray) -> np.ndarray:
    """Pairs ``(m, 2)`` of pieces that edges of a partition join, each once; ``first`` numbers those of partitions."""
    piece, other = load_array(cloud.part(joined, p)).T
    known, places = np.unique(other, return_inverse=True)
    if not len(known):
        return np.empty((0, 2), np.int64)
    parts = np.searchsorted(cloud.offsets, known, side="right") - 1
    ends = (first[parts] + cloud.gather(labels, known))[places]
    return np.unique(np.stack([first[p] + piece, ends], axis=1), axis=0)
