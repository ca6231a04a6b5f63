r"""Cellular sheaves over graphs: restriction maps, coboundary and Laplacian, differentiable in the
maps.

A sheaf has a vector space (stalk) for each vertex and each edge, and a linear restriction map
:math:`V_{v,e}: \mathcal{F}(v) \to \mathcal{F}(e)` for each end v of an edge e. A signal, or
0-cochain, has a vector in each vertex stalk. The coboundary compares the two ends of every edge,
and the sheaf Laplacian sums what it finds:

.. math:: (\delta f)_e = \sqrt{w_e}\,(V_{v,e} f_v - V_{u,e} f_u), \qquad
          (L f)_v = \sum_{v \triangleleft e \triangleright u}
          w_e V_{v,e}^T (V_{v,e} f_v - V_{u,e} f_u), \qquad
          L = \delta^T \delta.

A tangent bundle is an orthogonal sheaf: ``TangentBundle.sheaf()``. Maps that are tensors with
gradients make a learned sheaf: gradients pass through its Laplacian, and through filters and
networks on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse

from .arrays import Array, finite_where_seen, float_tensor
from .errors import DeviceError, InvalidInputError, ShapeError
from .operators import Degrees, Generator, Laplacian, SheafGraph
from .operators.sheaf_laplacian import eye_like
from .operators.storage import BlockMatrix, Layout
from .transforms import is_seen


class Scaling(NamedTuple):
    """How the blocks of L become those of P = I - s L: the blocks ``diagonal`` (n, d, d) of P, and
    factors of the others, on the left and on the right, or numbers on the left alone; ``bound`` is
    that of the spectrum of L, 1/s."""

    diagonal: torch.Tensor
    left: torch.Tensor
    right: torch.Tensor | None
    bound: float

    def times(self, blocks: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
        """Blocks ``(m, d, d)`` of P between the ends of each edge, from minus those of L without
        weights."""
        if weights is not None:
            blocks = blocks * weights[:, None, None]
        if self.right is None:
            return self.left * blocks
        return self.left @ blocks @ self.right


class Sheaf:
    r"""A cellular sheaf with stalks :math:`\mathbb{R}^d` over an undirected graph, made with
    ``from_edges``.

    Attributes: ``graph`` (the edges, each once, as ``graph.edges (m, 2)``), ``maps (m, 2, k, d)``
    and ``weights (m,)``. Maps that change with every step of training use the graph again:
    ``Sheaf(sheaf.graph, maps, weights)``. Those that are ``orthogonal`` by construction have
    :math:`V^T V = I`, which then is not computed.

    >>> maps = [([[2.0, 0.0]], [[1.0, 3.0]])]  # stalks: planes, a line
    >>> sheaf = Sheaf.from_edges([[0], [1]], np.array(maps))
    >>> sheaf.coboundary().toarray().tolist()
    [[-2.0, 0.0, 1.0, 3.0]]
    >>> # maps agree: a section
    >>> (sheaf.laplacian() @ np.array([[[1.0], [0.0]], [[2.0], [0.0]]])).ravel().tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        graph: SheafGraph,
        maps: Array,
        weights: Array | None = None,
        *,
        orthogonal: bool = False,
    ) -> None:
        tensor, kind = float_tensor(maps, "maps")
        m = len(graph.edges)
        shape = tuple(tensor.shape)
        is_pair = len(shape) == 4 and shape[1] == 2
        is_transport = len(shape) == 3 and shape[1] == shape[2]
        if shape[:1] != (m,) or not (is_pair or is_transport) or 0 in shape[1:]:
            raise ShapeError(
                f"maps of {m} edges must have shape ({m}, 2, k, d) or ({m}, d, d), got {shape}."
            )
        if graph.edges.device != tensor.device:
            raise DeviceError(
                f"maps are on {tensor.device} but the graph is on {graph.edges.device}. Move one."
            )
        if is_transport:
            tensor = torch.stack([tensor, eye_like(tensor).expand(shape)], dim=1)
        self.graph = graph
        self.kind = kind
        self.maps = finite_where_seen(tensor, "maps")
        self.weights = None
        self.orthogonal = orthogonal
        if weights is not None:
            self.weights = self._checked_weights(weights)

    def _checked_weights(self, weights: Array) -> torch.Tensor:
        """Weights of the edges ``(m,)``, not negative, in the precision of the maps."""
        tensor, _ = float_tensor(weights, "weights")
        tensor = finite_where_seen(tensor, "weights").to(self.maps)
        m = len(self.maps)
        if tensor.shape != (m,):
            raise ShapeError(
                f"weights of {m} edges must have shape ({m},), got {tuple(tensor.shape)}."
            )
        if is_seen(tensor) and bool((tensor < 0).any()):
            raise InvalidInputError("weights must not be negative.")
        return tensor

    @classmethod
    def from_edges(
        cls,
        edge_index: Array,
        maps: Array,
        weights: Array | None = None,
        num_nodes: int | None = None,
    ) -> Sheaf:
        r"""The sheaf of a graph and maps, which may be tensors with gradients.

        Args:
            edge_index: ``(2, e)``, source and target of each edge, as in PyTorch Geometric. Edges
                have no direction: of an edge that is listed in both directions the first listing
                counts, with its maps and weight, and those of the second are not read. Self loops
                compare a vertex with itself and are left out. An edge listed twice in one direction
                is refused.
            maps: ``(e, 2, k, d)``, the restriction maps of source and target to the edge stalk
                :math:`\mathbb{R}^k`; or ``(e, d, d)``, the transport from source to target: the
                restriction map of the source, where that of the target is the identity. Any d;
                smaller stalks are padded with zero columns.
            weights: ``(e,)``, not negative; default one.
            num_nodes: default the largest vertex and one. Vertices without edges are allowed.

        >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]], requires_grad=True)
        >>> lap = Sheaf.from_edges(torch.tensor([[0], [1]]), turn).laplacian()
        >>> (lap @ torch.ones(2, 2, 1)).square().sum().backward()
        >>> turn.grad.shape
        torch.Size([1, 2, 2])
        """
        device = float_tensor(maps, "maps")[0].device
        graph = SheafGraph.from_edge_index(edge_index, num_nodes, device)
        num_listed = np.shape(edge_index)[-1]

        def select(values: Array, name: str) -> Array:
            tensor, kind = float_tensor(values, name)
            if tensor.shape[:1] != (num_listed,):
                raise ShapeError(
                    f"{name} must have an entry for each of {num_listed} edges, got "
                    f"{tuple(tensor.shape)}."
                )
            return kind.wrap(tensor.to(device).index_select(0, graph.listings))

        if weights is not None:
            weights = select(weights, "weights")
        return cls(graph, select(maps, "maps"), weights)

    @property
    def rank(self) -> int:
        """The dimension d of the vertex stalks: signals are ``(n, d, c)``."""
        return self.maps.shape[-1]

    def coboundary(self) -> sparse.csr_array:
        r"""The matrix :math:`\delta` ``(m k, n d)`` from cochains of the vertices to those of the
        edges."""
        m, _, k, d = self.maps.shape
        signs = self.maps.new_tensor([-1.0, 1.0])[:, None, None]
        maps = self.maps * signs
        if self.weights is not None:
            maps = maps * self.weights.sqrt()[:, None, None, None]
        blocks = maps.detach().cpu().numpy().reshape(2 * m, k, d)
        vertices = self.graph.edges.cpu().numpy().ravel()
        starts = np.arange(0, 2 * m + 1, 2)
        shape = (m * k, self.graph.num_nodes * d)
        return sparse.bsr_array((blocks, vertices, starts), shape=shape).tocsr()

    def laplacian(self, degrees: Degrees | None = None) -> Laplacian:
        r"""The operator :math:`-L = -\delta^T \delta`, with the sign of all Laplacians here.

        With ``BlockDegrees()`` or ``ScalarDegrees()`` it is normalised on both sides; these need no
        look at the values, so that a GPU is not waited for.

        It is stored as :math:`-L = (P - I)/s` with :math:`P = I - s L` and 1/s a bound of the
        spectrum of L, so that all filters and networks run on it. Its mass is 1/n: the paper's
        inner product of sheaf signals. Gradients reach the restriction maps and weights through
        the blocks of P.
        """
        if not (degrees is None or isinstance(degrees, Degrees)):
            raise InvalidInputError(
                f"degrees must be an object such as BlockDegrees(), got {degrees!r}."
            )
        graph = self.graph
        scaling = self._scaling(degrees)
        source, target = self.maps.unbind(1)
        across = scaling.times(target.mT @ source, self.weights)
        stored = torch.cat([scaling.diagonal, across, across.mT])
        average = BlockMatrix(
            indptr=graph.indptr,
            cols=graph.cols,
            values=stored.index_select(0, graph.slots),
            curve_order=graph.curve_order,
            in_place=True,
        )
        n = graph.num_nodes
        return Laplacian(
            average=average,
            mass=torch.full_like(graph.curve_order, 1.0 / n, dtype=self.maps.dtype),
            generator=Generator(1.0 / scaling.bound),
            kind=self.kind,
            bound=1.0,  # by construction: no look at the spectrum, which changes while maps learn
            gpu_layout=Layout.ROWS,  # nothing is sorted when maps change
        )

    def _scaling(self, degrees: Degrees | None) -> Scaling:
        """That of the blocks of L, cached with the graph where it does not depend on the maps."""
        if not self.orthogonal or self.weights is not None or degrees is None:
            return self._compute_scaling(degrees)
        key = degrees, self.maps.dtype, self.rank
        cached = self.graph.cache.get(key)
        if cached is None:
            with torch.inference_mode(False):
                cached = self._compute_scaling(degrees)
            self.graph.cache[key] = cached
        return cached

    def _compute_scaling(self, degrees: Degrees | None) -> Scaling:
        diagonal = self._diagonal()
        ends = self.graph.edges.flatten()
        if degrees is None:
            bound = 2.0 * float(diagonal.detach().abs().sum(-1).amax()) or 1.0
            factors = torch.full((len(diagonal), 1, 1), bound**-0.5, **self._options)
        else:
            bound = degrees.bound(diagonal.shape[-1])
            factors = bound**-0.5 * degrees.factors(diagonal)
        source, target = factors.index_select(0, ends).unflatten(0, (-1, 2)).unbind(1)
        unit = eye_like(self.maps)
        if factors.shape[-1] > 1:
            return Scaling(unit - factors @ diagonal @ factors, target, source, bound)
        scaled = factors.square() * diagonal
        if self.orthogonal:
            scaled = scaled * unit
        return Scaling(unit - scaled, source * target, None, bound)

    @property
    def _options(self) -> dict[str, Any]:
        """Those of constants beside the maps: in ``torch.vmap`` they belong to all replicas."""
        return {"dtype": self.maps.dtype, "device": self.maps.device}

    def _diagonal(self) -> torch.Tensor:
        """The blocks ``(n, d, d)`` on the diagonal of L. Orthogonal maps have multiples of the unit
        matrix there, as numbers ``(n, 1, 1)``."""
        maps = self.maps
        if self.orthogonal:
            maps = torch.ones(1, 1, 1, 1, **self._options)
        weighted = maps
        if self.weights is not None:
            weighted = maps * self.weights[:, None, None, None]
        squares = (maps.mT @ weighted).expand(len(self.maps), 2, -1, -1).flatten(0, 1)
        zeros = torch.zeros(self.graph.num_nodes, *squares.shape[1:], **self._options)
        return zeros.index_add(0, self.graph.edges.flatten(), squares)

    def __repr__(self) -> str:
        m, _, _, d = self.maps.shape
        return f"Sheaf({self.graph.num_nodes} vertices, {m} edges, stalks of dimension {d})"
