"""From features of the nodes of a graph to a sheaf on it: maps that are learned, or that follow
from the features."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
import torch
from torch import Tensor

from ..arrays import finite, positive_integer
from ..errors import InvalidInputError, NonFiniteError, ShapeError
from ..geometry.graph import graph_from_pairs
from ..geometry.local_pca import REACH_OF_NEAREST, local_pca
from ..geometry.ordering import principal_coordinates
from ..geometry.transport import closest_orthogonal
from ..sheaf import Sheaf
from ..transforms import is_seen
from .base import Configured, check_part, generator, linear_layer
from .parametrizations import Cayley, Orthogonal, Parametrization
from .sheaf_inputs import Remembered, check_features, graph_of, outside_graphs


class SheafBuilder(Configured):
    """Makes a sheaf of a graph and features of its nodes, by ``maps``."""

    rank: int
    name = "this sheaf"
    orthogonal = False
    """Whether its maps are orthogonal by construction."""

    from_inputs = False
    """Whether a network hands it the inputs, instead of its own features."""

    @abstractmethod
    def maps(self, x: Tensor, edges: Tensor) -> Tensor:
        """Restriction maps ``(m, 2, d, d)``, or transports ``(m, d, d)``, of edges ``(m, 2)`` from
        source to target."""

    def sized(self, channels: int, seed: int | torch.Generator = 0) -> Self:
        """This builder for features of a layer: itself, unless it has weights."""
        return self

    @outside_graphs
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Sheaf:
        if not isinstance(x, Tensor) or x.ndim != 2:
            raise ShapeError(
                f"features of nodes must be a tensor (n, features), got {type(x)} {np.shape(x)}."
            )
        if edge_weight is not None and edge_weight.shape != edge_index.shape[1:]:
            raise ShapeError(
                f"edge_weight needs shape {tuple(edge_index.shape[1:])}, got "
                f"{tuple(edge_weight.shape)}."
            )
        graph = graph_of(edge_index, len(x))
        maps = self.maps(x, graph.edges)
        if is_seen(maps) and not bool(torch.isfinite(maps).all()):
            raise NonFiniteError(
                f"the restriction maps of {self.name} have NaN or infinity, though its features "
                "are finite: training diverged. Use a smaller learning rate, or clip gradients."
            )
        weights = None
        if edge_weight is not None:
            weights = edge_weight.index_select(0, graph.listings)
        return Sheaf(graph, maps, weights, orthogonal=self.orthogonal)


class SheafLearner(SheafBuilder):
    r"""Restriction maps from the features of both ends of an edge, through a perceptron and a
    parametrisation.

    .. math:: V_{v,e} = \Pi\big(B \tanh(A_1 x_v + A_2 x_u + a) + b\big), \qquad e = uv.

    Gradients reach the weights and the features.

    Args:
        rank: d, of the stalks.
        parametrization: :math:`\Pi`, of matrices ``(d, d)``; default ``Cayley()``, rotations.
        in_channels: features of each node; networks set it themselves.
        hidden: width of the perceptron.
        seed: of the initial weights.

    >>> import torch, tangentbundle as tb
    >>> learner = tb.nn.SheafLearner(2, tb.nn.General(), in_channels=5)
    >>> learner(torch.randn(3, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    Sheaf(3 vertices, 2 edges, stalks of dimension 2)
    """

    def __init__(
        self,
        rank: int = 2,
        parametrization: Parametrization | None = None,
        in_channels: int = 1,
        hidden: int = 16,
        *,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.parametrization = check_part(parametrization, Cayley(), Parametrization, "Cayley()")
        self.orthogonal = isinstance(self.parametrization, Orthogonal)
        self.rank = positive_integer(rank, "rank")
        self.in_channels = positive_integer(in_channels, "in_channels")
        self.hidden = positive_integer(hidden, "hidden")
        source = generator(seed)
        self.first = linear_layer(in_channels, 2 * hidden, source)  # A_1 and A_2
        self.last = linear_layer(hidden, self.parametrization.count(rank), source)
        with torch.no_grad():
            for parameter in self.last.parameters():
                parameter.mul_(INITIAL_SIZE)

    def sized(self, channels: int, seed: int | torch.Generator = 0) -> Self:
        return type(self)(self.rank, self.parametrization, channels, self.hidden, seed=seed)

    def maps(self, x: Tensor, edges: Tensor) -> Tensor:
        x = check_features(x, self.first.weight, self.in_channels, self.name)
        at_ends = self.first(x).index_select(0, edges.flatten())
        own, other = at_ends.view(-1, 2, 2, self.hidden).unbind(2)  # edge, end, matrix, unit
        numbers = self.last(torch.tanh(own + other.flip(1)))
        return self.parametrization(numbers, self.rank)


INITIAL_SIZE = 0.1
"""Size of the first numbers of a learner, relative to the usual: maps start near the unit matrix,
the constant sheaf, which is the graph itself."""

MAX_COMPONENTS = 64
"""Most principal components of the features that neighbourhoods are compared in."""

TINY = float(np.finfo(float).tiny)
"""A radius or spread that is not zero, where all features are equal."""

GLOBAL_SHARE = 1e-4
"""Spread along the principal axes of all features, relative to theirs, that completes
neighbourhoods."""


class ConnectionSheaf(SheafBuilder):
    r"""The paper's construction on a given graph: local PCA of the features of neighbours, then
    Procrustes.

    The frame :math:`O_v` of a node holds the first ``rank`` principal axes of :math:`x_u - x_v`
    over its neighbours, and an edge has the orthogonal map closest to :math:`O_v^T O_u`.
    Neighbourhoods of fewer directions are completed with the principal axes of all features.
    Nothing is learned; maps are cached while x lives.

    >>> import torch, tangentbundle as tb
    >>> x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    >>> tb.nn.ConnectionSheaf(2)(x, torch.tensor([[0, 1, 2], [1, 2, 3]]))
    Sheaf(4 vertices, 3 edges, stalks of dimension 2)
    """

    from_inputs = True
    orthogonal = True

    def __init__(self, rank: int = 2) -> None:
        super().__init__()
        self.rank = positive_integer(rank, "rank")

    def maps(self, x: Tensor, edges: Tensor) -> Tensor:
        if self.rank > min(x.shape):
            raise InvalidInputError(
                f"rank = {self.rank} needs as many nodes and features, got {tuple(x.shape)}."
            )
        return _transports(x, edges, self.rank)


@Remembered
def _transports(x: Tensor, edges: Tensor, d: int) -> Tensor:
    """Orthogonal maps ``(m, d, d)`` from source to target."""
    features = finite(x, "x").detach().cpu().double().numpy()
    pairs = edges.cpu().numpy()
    frames = _local_frames(features, pairs, d)
    source_frames = frames[pairs[:, 0]]
    target_frames = frames[pairs[:, 1]]
    transports = closest_orthogonal(target_frames.transpose(0, 2, 1) @ source_frames)
    return torch.from_numpy(transports).to(x)


def _local_frames(features: np.ndarray, pairs: np.ndarray, d: int) -> np.ndarray:
    """Principal axes ``(n, q, d)`` of the neighbours of each node, in q principal coordinates of
    the features."""
    points = _coordinates(features, d)
    axes = np.zeros((*points.shape, 2 * d))  # d of the neighbours, then d of all nodes
    axes[:, :d, d:] = max(GLOBAL_SHARE * points.std(), TINY) * np.eye(d)
    if len(pairs):
        axes[:, :, :d] = _neighbor_axes(points, pairs, d)
    left_vectors, _, _ = np.linalg.svd(axes, full_matrices=False)
    frames = left_vectors[:, :, :d]
    # signs that no numbering of the nodes changes
    is_opposite = points[:, None] @ frames < 0
    return frames * np.where(is_opposite, -1, 1)


def _coordinates(features: np.ndarray, d: int) -> np.ndarray:
    """Principal coordinates ``(n, q)`` of the features, with zeros where they are fewer than d."""
    coordinates = principal_coordinates(torch.from_numpy(features), MAX_COMPONENTS).numpy()
    num_missing = max(0, d - coordinates.shape[1])
    return np.pad(coordinates, ((0, 0), (0, num_missing)))


def _neighbor_axes(points: np.ndarray, pairs: np.ndarray, d: int) -> np.ndarray:
    """Principal axes ``(n, q, d)`` of the neighbours of each node, as long as their spread."""
    nodes = torch.from_numpy(points)
    graph = graph_from_pairs(nodes, torch.from_numpy(pairs))
    reach = torch.full((len(points),), TINY, dtype=torch.float64)
    reach.scatter_reduce_(0, graph.rows, REACH_OF_NEAREST * graph.distances, "amax")
    local = local_pca(nodes, graph, reach, num_axes=d, center=False)
    return (local.axes * local.variances[:, None, :d].sqrt()).numpy()
