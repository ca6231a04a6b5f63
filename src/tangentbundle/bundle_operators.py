"""Signals on a bundle and the operators that act on them: what every ``TangentBundle`` can do once
it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from .arrays import (
    Array,
    ArrayKind,
    finite_where_seen,
    float_tensor,
    host,
    on_host,
    positive_integer,
)
from .errors import InvalidInputError, ShapeError
from .geometry.frames import LocalPCA
from .geometry.graph import NeighborGraph
from .geometry.kernels import Kernel, check_kernel
from .geometry.mesh import MeshGeometry
from .geometry.tensor_cloud import TensorCloud, tensor_of
from .geometry.transport import Connection
from .operators import Calibration, Laplacian, Normalization
from .operators.assembly import Averages, area_laplacian, assemble, coordinate_moments
from .operators.calibration import calibrated_scale
from .parallel import threads_by_size
from .sheaf import Sheaf

SecondForm = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The exact second fundamental form: points ``(n, D)``, tangent vectors ``(n, D, m)`` to
``(n, D, m, m)``."""


class BundleSignals:
    """Signals of bundles with ``sorted_points``, ``sorted_frames`` along the curve, and
    ``rank``."""

    curve_order: np.ndarray
    kind: ArrayKind
    rank: int

    @property
    def num_points(self) -> int:
        return len(vars(self)["curve_order"])

    @property
    def ambient_dim(self) -> int:
        return vars(self)["sorted_points"].shape[1]

    def _unsorted(self, array: Any) -> Any:
        """An array or a tensor, along the curve, in the user's order."""
        out = np.empty_like(array) if isinstance(array, np.ndarray) else torch.empty_like(array)
        out[self.curve_order if isinstance(array, np.ndarray) else vars(self)["curve_order"]] = (
            array
        )
        return out

    def _frames(self) -> Any:
        """The bases in the user's order, where they are."""
        held = vars(self)["sorted_frames"]
        if held is None:
            raise InvalidInputError(
                "the scalar bundle has no frames: its signals are functions (n, 1, c) already."
            )
        return self._unsorted(held)

    @property
    def points(self) -> Array:
        """The points ``(n, D)`` in the kind they came in."""
        held = vars(self)["sorted_points"]
        return self.kind.wrap(
            self._unsorted(held.points if isinstance(held, TensorCloud) else held)
        )

    @property
    def frames(self) -> Array:
        """Orthonormal tangent bases, ``(n, D, d)``, in the kind of the points."""
        return self.kind.wrap(self._frames())

    @threads_by_size
    def to_coordinates(self, vectors: Array) -> Array:
        r"""Ambient vectors to coordinates, :math:`f_i = O_i^T v_i`; the normal component is
        dropped.

        This is the paper's sampling operator: it turns a field into a signal (0-cochain) of the
        sheaf. ``(..., n, D)`` becomes ``(..., n, d, 1)``, and ``(..., n, D, c)`` becomes
        ``(..., n, d, c)``.
        """
        tensor, kind = float_tensor(vectors, "vectors")
        finite_where_seen(tensor, "vectors")
        n, dims = self.num_points, self.ambient_dim
        if tensor.ndim == 2 or tensor.shape[-3:-1] != (n, dims):
            tensor = tensor[..., None]
        if tensor.ndim < 3 or tensor.shape[-3:-1] != (n, dims):
            raise ShapeError(
                f"vectors must have shape (..., n, D) = (..., {n}, {dims}) or (..., n, D, "
                f"channels), got {tuple(tensor.shape[:-1])}."
            )
        bases = torch.as_tensor(self._frames()).to(tensor)
        return kind.wrap(torch.einsum("nij,...nic->...njc", bases, tensor))

    @threads_by_size
    def to_ambient(self, signal: Array) -> Array:
        r"""Coordinates to ambient vectors, :math:`v_i = O_i f_i`.

        ``(..., n, d, c)`` becomes ``(..., n, D, c)``; a single channel is dropped: ``(..., n, D)``.
        """
        tensor, kind = float_tensor(signal, "signal")
        finite_where_seen(tensor, "signal")
        n, d = self.num_points, self.rank
        if tensor.ndim < 3 or tensor.shape[-3:-1] != (n, d):
            raise ShapeError(
                f"signal must have shape (..., n, d, channels) = (..., {n}, {d}, c), got "
                f"{tuple(tensor.shape)}."
            )
        vectors = torch.einsum(
            "nij,...njc->...nic", torch.as_tensor(self._frames()).to(tensor), tensor
        )
        return kind.wrap(vectors[..., 0] if vectors.shape[-1] == 1 else vectors)


@on_host("sorted_points", "curve_order", "sorted_frames")
@dataclass(frozen=True, eq=False, repr=False)
class BundleOperators(BundleSignals):
    """What a ``TangentBundle`` holds, and its methods that make operators."""

    sorted_points: np.ndarray
    sorted_graph: NeighborGraph
    connection: Connection
    curve_order: np.ndarray
    kernel: Kernel | None
    eps: float
    dim: int
    kind: ArrayKind
    sorted_frames: np.ndarray | None = None
    pca: LocalPCA | None = None
    eps_pca: float | None = None
    local_dimensions: np.ndarray | None = None
    mesh: MeshGeometry | None = None
    second_form: SecondForm | None = None

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Dimension of the fibres: d for the tangent bundle, 1 for the scalar bundle."""
        return self.connection.rank

    @property
    def graph(self) -> NeighborGraph:
        """The neighbour graph."""
        return self.sorted_graph.relabel(self.curve_order)

    @threads_by_size
    def laplacian(
        self, *, calibrate: Calibration | bool = True, terms: int | None = None
    ) -> Laplacian:
        r"""The connection Laplacian :math:`\Delta \le 0`, a function of the average
        :math:`P = M^{-1} S`.

        .. math:: -\Delta = \frac{1}{c\,\epsilon} \sum_{k=1}^{terms} \frac{(I - P)^k}{k}

        Args:
            calibrate: how c is found: ``operators.SampleEnergy()``, the default, from the points,
                or ``operators.KernelMoments()``, from the kernel alone. ``False`` gives the paper's
                operator, with c = 1 and one term; its eigenvalues are off by the constant of the
                kernel.
            terms: of the series of :math:`-\log P`, default 2. One term is the usual
                difference :math:`(P - I)/(c\,\epsilon)`, whose eigenvalues are too small by
                :math:`c\,\epsilon\lambda^2/2`.

        On a mesh there is no kernel, and both arguments are refused:
        :math:`\Delta = A^{-1}(S - D)`, see ``from_mesh``.
        """
        if self.mesh is not None:
            if calibrate is not True or terms is not None:
                raise InvalidInputError(
                    "calibrate= and terms= are for clouds: the Laplacian of a mesh has no kernel. "
                    "Leave them out, or use TangentBundle.from_points on the vertices."
                )
            weighted = self.sorted_graph, self.connection, self.mesh.weights, self.mesh.areas
            return area_laplacian(*weighted, self.curve_order, self.kind, self.sorted_frames)
        averages, constant = self._averages(), check_kernel(self.kernel).calibration(self.dim)
        moments = partial(
            coordinate_moments, self.sorted_graph, averages, tensor_of(vars(self)["sorted_points"])
        )
        scale, usual = calibrated_scale(calibrate, constant, self.eps, self.dim, moments)
        return self._assemble(
            averages, scale, usual if terms is None else positive_integer(terms, "terms")
        )

    @threads_by_size
    def graph_laplacian(self, normalization: Normalization) -> Laplacian:
        r"""Minus a Laplacian of the weighted neighbour graph, without the factor
        :math:`1/(c\,\epsilon)`.

        ``normalization`` is ``RandomWalk()``, ``Symmetric()`` or ``Unnormalized()`` of
        ``tangentbundle.operators``. On the scalar bundle these are the usual graph (or cloud)
        Laplacians; on others, edges transport the vectors.
        """
        if not isinstance(normalization, Normalization):
            raise InvalidInputError(
                f"expected a normalization such as operators.Symmetric(), got {normalization!r}."
            )
        return self._assemble(self._averages(normalization))

    @cached_property
    def sorted_mass(self) -> np.ndarray:
        """Masses ``(n,)`` along the curve: areas of the vertices of a mesh, otherwise one over the
        density."""
        return host(self._averages().mass) if self.mesh is None else self.mesh.areas

    def _averages(self, normalization: Normalization | None = None) -> Averages:
        return Averages.of(self.sorted_graph, self._weights(), normalization)

    def _assemble(self, averages: Averages, scale: float = 1.0, terms: int = 1) -> Laplacian:
        held = vars(self)
        parts = self.sorted_graph, self.connection, averages, scale, held["curve_order"], self.kind
        return assemble(*parts, held["sorted_frames"], terms)

    def edge_weights(self) -> np.ndarray:
        """The weight of each edge of ``sorted_graph``: the kernel at its length, or on a mesh its
        cotangents."""
        return host(self._weights())

    def _weights(self) -> Any:
        if self.mesh is not None:
            return torch.as_tensor(self.mesh.weights)
        return check_kernel(self.kernel)(self.sorted_graph.tensors[2] / float(np.sqrt(self.eps)))

    def sheaf(self) -> Sheaf:
        r"""The bundle as an orthogonal cellular sheaf over the neighbour graph, of the same kind of
        arrays.

        An edge e = ij has the weight of the graph and the restriction maps :math:`V_{i,e} = I` and
        :math:`V_{j,e} = O_{ij}`, so that L has the blocks :math:`L_{ii} = \deg_i I` and
        :math:`L_{ij} = -w_{ij} O_{ij}`.

        >>> import tangentbundle as tb
        >>> tb.TangentBundle.from_points(
        ...     tb.manifolds.Sphere(2).sample(100, seed=0), neighbors=9
        ... ).sheaf()
        Sheaf(100 vertices, 438 edges, stalks of dimension 2)
        """
        graph = self.sorted_graph
        once = np.flatnonzero(graph.rows < graph.indices)
        edge_index = self.curve_order[np.stack([graph.indices[once], graph.rows[once]])]
        weights = np.maximum(
            self.edge_weights()[once], 0.0
        )  # of a mesh, a few may be negative at the boundary
        maps = self.kind.wrap(self.connection.blocks(once))
        return Sheaf.from_edges(edge_index, maps, self.kind.wrap(weights), len(self.curve_order))
