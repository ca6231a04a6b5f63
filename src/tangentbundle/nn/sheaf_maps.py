"""From features of the nodes of a graph to a sheaf on it: maps that are learned, or that follow
from the features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ..arrays import finite, finite_where_seen, half_precision, outside_autocast, positive_integer
from ..errors import DTypeError, InvalidInputError, NonFiniteError, ShapeError
from ..geometry.graph import graph_from_pairs
from ..geometry.local_pca import REACH_OF_NEAREST, local_pca
from ..geometry.ordering import principal_coordinates
from ..geometry.transport import closest_orthogonal
from ..operators import SheafGraph
from ..sheaf import Sheaf
from ..transforms import is_seen
from .base import Configured, generator, linear, part, require_full_precision
from .parametrizations import Cayley, Orthogonal, Parametrization


def outside_graphs(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that ``torch.compile`` does not look into, since it builds operators, which have
    caches.

    Autocast does not reach into it either, and signals in half precision become float32:
    restriction maps and degrees are inverted.
    """

    @wraps(method)
    def call(self: Any, x: Any, *args: Any, **options: Any) -> Any:
        function = torch.compiler.disable(method) if torch.compiler.is_compiling() else method
        if not isinstance(x, Tensor):
            return function(self, x, *args, **options)
        full = [widened(value) for value in (x, *args)]
        options = {name: widened(value) for name, value in options.items()}
        with outside_autocast(x.device):
            return function(self, *full, **options)

    return call


def widened(value: Any) -> Any:
    """Tensors in float16 or bfloat16 as float32, anything else as it is."""
    return value if half_precision(value) is None else torch.as_tensor(value).float()


class Remembered:
    """A function whose last result is cached while its first tensor lives, and no argument changes
    or has gradients."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.results = function, WeakTensorKeyDictionary()

    def __call__(self, first: Tensor, *others: Any) -> Any:
        if not isinstance(first, Tensor):
            raise InvalidInputError(
                f"layers take torch tensors, such as edge_index (2, e), got {type(first)}."
            )
        tensors = [value for value in (first, *others) if isinstance(value, Tensor)]
        if any(
            t.requires_grad or t.is_inference() for t in tensors
        ):  # torch counts no changes of the latter
            return self.function(first, *others)
        key = [(id(t), t._version) if isinstance(t, Tensor) else t for t in others], first._version
        found = self.results.get(first)
        if found is None or found[0] != key:
            with torch.inference_mode(False):  # a cached result must serve training, too
                result = self.function(first, *others)
            found = self.results[first] = key, result, others  # these stay, and so do their ids
        return found[1]


graph_of = Remembered(
    lambda edge_index, n: SheafGraph.from_edge_index(edge_index, n, edge_index.device)
)
"""The graph of ``edge_index`` (2, e) on n nodes."""


def checked_features(x: Tensor, weight: Tensor, features: int, name: str) -> Tensor:
    """Features ``(n, features)`` of nodes that fit the weights of a first layer; named errors
    otherwise."""
    require_full_precision(weight)
    if not isinstance(x, Tensor):
        raise ShapeError(
            f"{name} takes a tensor x (n, {features}), features of nodes, got {type(x)} "
            f"{np.shape(x)}."
        )
    if x.ndim != 2 or x.shape[1] != features:
        raise ShapeError(
            f"{name} takes x (n, {features}), features of nodes, got {tuple(x.shape)}."
        )
    x = widened(x)
    if x.dtype != weight.dtype:
        raise DTypeError(f"{name} is {weight.dtype} but x {x.dtype}. Convert one: net.to(x.dtype).")
    return finite_where_seen(x, "x")


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
        weights = None if edge_weight is None else edge_weight.index_select(0, graph.listings)
        return Sheaf(graph, maps, weights, orthogonal=self.orthogonal)


class SheafLearner(SheafBuilder):
    r"""Restriction maps from the features of both ends of an edge, through a perceptron and a
    parametrisation.

    .. math:: V_{v,e} = \Pi\big(B \tanh(A_1 x_v + A_2 x_u + a) + b\big), \qquad e = uv.

    Gradients reach the weights and the features.

    Args:
        rank: d, of the stalks.
        parametrization: :math:`\Pi`, of matrices ``(d, d)``; default ``Cayley()``, rotations.
        features: of each node; networks set it themselves.
        hidden: width of the perceptron.

    >>> import torch, tangentbundle as tb
    >>> learner = tb.nn.SheafLearner(2, tb.nn.General(), features=5)
    >>> learner(torch.randn(3, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    Sheaf(3 vertices, 2 edges, stalks of dimension 2)
    """

    def __init__(
        self,
        rank: int = 2,
        parametrization: Parametrization | None = None,
        features: int = 1,
        hidden: int = 16,
        *,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.parametrization = part(parametrization, Cayley(), Parametrization, "Cayley()")
        self.rank, self.features = (
            positive_integer(rank, "rank"),
            positive_integer(features, "features"),
        )
        self.hidden, source = positive_integer(hidden, "hidden"), generator(seed)
        self.orthogonal = isinstance(self.parametrization, Orthogonal)
        self.first = linear(features, 2 * hidden, source)  # A_1 and A_2
        self.last = linear(hidden, self.parametrization.count(rank), source)
        with torch.no_grad():
            for parameter in (
                self.last.parameters()
            ):  # training starts near the constant sheaf, the graph itself
                parameter.mul_(START)

    def sized(self, channels: int, seed: int | torch.Generator = 0) -> Self:
        return type(self)(self.rank, self.parametrization, channels, self.hidden, seed=seed)

    def maps(self, x: Tensor, edges: Tensor) -> Tensor:
        x = checked_features(x, self.first.weight, self.first.in_features, self.name)
        own, other = (
            self.first(x).index_select(0, edges.flatten()).view(-1, 2, 2, self.hidden).unbind(2)
        )
        return self.parametrization(self.last(torch.tanh(own + other.flip(1))), self.rank)


START = 0.1
"""Size of the first numbers of a learner, relative to the usual: maps start near the unit
matrix."""

MAX_COMPONENTS = 64
"""Most principal components of the features that neighbourhoods are compared in."""

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

    from_inputs = orthogonal = True

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
    pairs = edges.cpu().numpy()
    source, target = _local_frames(finite(x, "x").detach().cpu().double().numpy(), pairs, d)[
        pairs
    ].swapaxes(0, 1)
    return torch.from_numpy(closest_orthogonal(target.transpose(0, 2, 1) @ source)).to(x)


def _local_frames(features: np.ndarray, pairs: np.ndarray, d: int) -> np.ndarray:
    """Principal axes ``(n, q, d)`` of the neighbours of each node, in q principal coordinates of
    the features."""
    coordinates = principal_coordinates(torch.from_numpy(features), MAX_COMPONENTS).numpy()
    points = np.pad(coordinates, ((0, 0), (0, max(0, d - coordinates.shape[1]))))
    axes = np.zeros((*points.shape, 2 * d))
    axes[:, :d, d:] = max(GLOBAL_SHARE * points.std(), np.finfo(float).tiny) * np.eye(d)
    if len(pairs):
        nodes = torch.from_numpy(points)
        graph = graph_from_pairs(nodes, torch.from_numpy(pairs))
        reach = torch.full((len(points),), np.finfo(float).tiny, dtype=torch.float64)
        reach.scatter_reduce_(0, graph.rows, REACH_OF_NEAREST * graph.distances, "amax")
        local = local_pca(nodes, graph, reach, num_axes=d, center=False)
        axes[:, :, :d] = (local.axes * local.variances[:, None, :d].sqrt()).numpy()
    frames = np.linalg.svd(axes, full_matrices=False)[0][:, :, :d]
    return frames * np.where(
        points[:, None] @ frames < 0, -1, 1
    )  # signs that no numbering of the nodes changes
