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

from typing import Any

import numpy as np
import torch
from scipy import sparse

from .arrays import Array, finite_where_seen, float_tensor
from .errors import DeviceError, InvalidInputError, ShapeError
from .operators import Degrees, SheafGraph, SheafLaplacian
from .operators.sheaf_laplacian import eye_like
from .transforms import is_seen


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
        tensor, self.kind = float_tensor(maps, "maps")
        m, shape = len(graph.edges), tuple(tensor.shape)
        fits = (len(shape) == 4 and shape[1] == 2) or (len(shape) == 3 and shape[1] == shape[2])
        if shape[:1] != (m,) or not fits or 0 in shape[1:]:
            raise ShapeError(
                f"maps of {m} edges must have shape ({m}, 2, k, d) or ({m}, d, d), got {shape}."
            )
        if graph.edges.device != tensor.device:
            raise DeviceError(
                f"maps are on {tensor.device} but the graph is on {graph.edges.device}. Move one."
            )
        if len(shape) == 3:
            tensor = torch.stack([tensor, eye_like(tensor).expand(shape)], dim=1)
        self.graph, self.maps, self.weights = graph, finite_where_seen(tensor, "maps"), None
        self.orthogonal = orthogonal
        if weights is not None:
            self.weights = finite_where_seen(float_tensor(weights, "weights")[0], "weights").to(
                tensor
            )
            if self.weights.shape != (m,):
                raise ShapeError(
                    f"weights of {m} edges must have shape ({m},), got {tuple(self.weights.shape)}."
                )
            if is_seen(self.weights) and bool((self.weights < 0).any()):
                raise InvalidInputError("weights must not be negative.")

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
        graph, given = (
            SheafGraph.from_edge_index(edge_index, num_nodes, device),
            np.shape(edge_index)[-1],
        )

        def select(values: Array, name: str) -> Array:
            tensor, kind = float_tensor(values, name)
            if tensor.shape[:1] != (given,):
                raise ShapeError(
                    f"{name} must have an entry for each of {given} edges, got "
                    f"{tuple(tensor.shape)}."
                )
            return kind.wrap(tensor.to(device).index_select(0, graph.listings))

        return cls(
            graph, select(maps, "maps"), None if weights is None else select(weights, "weights")
        )

    @property
    def rank(self) -> int:
        """The dimension d of the vertex stalks: signals are ``(n, d, c)``."""
        return self.maps.shape[-1]

    def coboundary(self) -> sparse.csr_array:
        r"""The matrix :math:`\delta` ``(m k, n d)`` from cochains of the vertices to those of the
        edges."""
        m, _, k, d = self.maps.shape
        roots = 1.0 if self.weights is None else self.weights.sqrt()[:, None, None, None]
        signs = self.maps.new_tensor([-1.0, 1.0])[:, None, None]
        blocks = (self.maps * (roots * signs)).detach().cpu().numpy().reshape(2 * m, k, d)
        places = self.graph.edges.cpu().numpy().ravel(), np.arange(0, 2 * m + 1, 2)
        return sparse.bsr_array((blocks, *places), shape=(m * k, self.graph.num_nodes * d)).tocsr()

    def laplacian(self, degrees: Degrees | None = None) -> SheafLaplacian:
        r"""The operator :math:`-L = -\delta^T \delta`, with the sign of all Laplacians here.

        With ``BlockDegrees()`` or ``ScalarDegrees()`` it is normalised on both sides; these need no
        look at the values, so that a GPU is not waited for.
        """
        if not (degrees is None or isinstance(degrees, Degrees)):
            raise InvalidInputError(
                f"degrees must be an object such as BlockDegrees(), got {degrees!r}."
            )
        graph, maps = self.graph, self.maps
        fixed = degrees, maps.dtype, self.rank
        if not (self.orthogonal and self.weights is None and degrees is not None):
            diagonal, left, right, bound = self._degrees(degrees)
        elif (found := graph.cache.get(fixed)) is not None:
            diagonal, left, right, bound = found
        else:
            with torch.inference_mode(False):
                diagonal, left, right, bound = graph.cache[fixed] = self._degrees(degrees)
        source, target = maps.unbind(1)
        across = target.mT @ source  # minus the blocks (target, source)
        across = across if self.weights is None else across * self.weights[:, None, None]
        across = left * across if right is None else left @ across @ right
        values = torch.cat([diagonal, across, across.mT]).index_select(0, graph.slots)
        mass = torch.full_like(graph.curve_order, 1.0 / graph.num_nodes, dtype=maps.dtype)
        matrix = graph.indptr, graph.cols, values, graph.curve_order
        return SheafLaplacian(*matrix, mass, 1.0 / bound, self.rank, self.kind)

    def _degrees(
        self, degrees: Degrees | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, float]:
        """Blocks (n, d, d) on the diagonal of P, factors of the others on the left and right (or
        one), and the bound.

        Orthogonal maps have multiples of the unit matrix there, as numbers (n, 1, 1).
        """
        maps, n, ends = self.maps, self.graph.num_nodes, self.graph.edges.flatten()
        options: dict[str, Any] = {"dtype": maps.dtype, "device": maps.device}
        one = torch.ones(1, 1, 1, 1, **options) if self.orthogonal else maps
        weighted = one if self.weights is None else one * self.weights[:, None, None, None]
        squares = (one.mT @ weighted).expand(len(maps), 2, -1, -1).flatten(0, 1)
        diagonal = torch.zeros(n, *squares.shape[1:], **options).index_add(0, ends, squares)
        if degrees is None:
            bound = 2.0 * float(diagonal.detach().abs().sum(-1).amax()) or 1.0
            factors = torch.full((n, 1, 1), bound**-0.5, **options)
        else:
            bound = degrees.bound(diagonal.shape[-1])
            factors = bound**-0.5 * degrees.factors(diagonal)
        source, target = factors.index_select(0, ends).unflatten(0, (-1, 2)).unbind(1)
        if factors.shape[-1] > 1:
            return eye_like(maps) - factors @ diagonal @ factors, target, source, bound
        scaled = factors.square() * diagonal
        return (
            eye_like(maps) - scaled * (eye_like(maps) if self.orthogonal else 1),
            source * target,
            None,
            bound,
        )

    def __repr__(self) -> str:
        m, _, _, d = self.maps.shape
        return f"Sheaf({self.graph.num_nodes} vertices, {m} edges, stalks of dimension {d})"
