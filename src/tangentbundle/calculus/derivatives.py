"""Sparse linear maps between signals of two bundles over the same points.

Gradient, covariant derivative, divergence, curl and rot are such maps, from one local fit and the
transport.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit
from scipy import sparse
from torch import Tensor

from ..arrays import host, outside_autocast, positive_integer
from ..errors import InvalidInputError
from ..geometry.transport import Connection, connect
from ..operators.base import LinearOperator, fold, unfold
from ..parallel import run_ranges, threads_by_size
from ..transforms import outside_transforms
from .fit import LocalFit, default_degree, join_fits, local_fits
from .orientation import orientation

if TYPE_CHECKING:
    from ..bundle import TangentBundle


@dataclass(eq=False, repr=False)
class LinearMap(LinearOperator):
    r"""A sparse linear map of signals ``(..., n, p, c)`` to signals ``(..., n, q, c)``, alike for
    each channel.

    ``map @ signal`` applies it. ``T`` is the transposed matrix, ``adjoint`` the adjoint in the mass
    inner product, :math:`A^* = M^{-1} A^T M`. Products are differentiable in the signal, on any
    device.

    Attributes: ``matrix``, a sparse CSR tensor ``(n q, n p)`` along the space-filling curve,
    ``curve_order[k]`` the user's index of the k-th point on the curve, ``mass`` (n,) in the user's
    order; ``in_rank`` and ``out_rank`` are p and q, the dimensions of the fibres.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(500, seed=0)
    >>> gradient = tb.TangentBundle.from_points(points).gradient()
    >>> gradient, (gradient @ points[:, 2, None, None]).shape
    (LinearMap(500 points, rank 1 to rank 2, float64, cpu), (500, 2, 1))
    """

    matrix: Tensor
    curve_order: Tensor
    mass: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix, ``(n q, n p)``."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def in_rank(self) -> int:  # type: ignore[override]
        """Dimension p of the fibres that the map starts from."""
        return self.shape[1] // self.num_points

    @property
    def out_rank(self) -> int:  # type: ignore[override]
        """Dimension q of the fibres that the map goes to."""
        return self.shape[0] // self.num_points

    def __repr__(self) -> str:
        ranks = f"rank {self.in_rank} to rank {self.out_rank}"
        dtype = str(self.dtype).removeprefix("torch.")
        return f"LinearMap({self.num_points} points, {ranks}, {dtype}, {self.device})"

    def apply(self, x: Tensor) -> Tensor:
        """The product with a validated tensor ``(..., n, p, c)``."""
        along_curve = fold(x).index_select(0, self.curve_order)
        product = _Product.apply(along_curve.flatten(0, 1), self)
        y = product.unflatten(0, (self.num_points, self.out_rank))
        y = y.index_select(0, self._places_on_curve)
        return unfold(y, torch.Size((*x.shape[:-2], self.out_rank, x.shape[-1])))

    @cached_property
    def _places_on_curve(self) -> Tensor:
        """The place of each of the user's points along the curve, ``(n,)``."""
        return torch.argsort(self.curve_order)

    def __deepcopy__(self, memo: dict) -> LinearMap:  # torch cannot copy sparse tensors so
        return replace(
            self,
            matrix=self.matrix.clone(),
            curve_order=self.curve_order.clone(),
            mass=self.mass.clone(),
        )

    def __neg__(self) -> LinearMap:
        return replace(self, matrix=-1.0 * self.matrix)

    def scaled(self, factors: Tensor) -> LinearMap:
        """The map with its output at each point times a number, ``factors`` (n,) in the user's
        order."""
        row_ends = self.matrix.crow_indices()
        rows = torch.repeat_interleave(row_ends.diff())
        of_rows = factors.to(self.mass)[self.curve_order].repeat_interleave(self.out_rank)
        values = of_rows[rows] * self.matrix.values()
        matrix = sparse_csr(row_ends, self.matrix.col_indices(), values, self.shape)
        return replace(self, matrix=matrix)

    @classmethod
    def join(cls, maps: Sequence[LinearMap]) -> LinearMap:
        """The maps of several clouds as one, block by block; the mass of each sums to one."""
        num_points = np.cumsum([0, *[part.num_points for part in maps]])
        num_entries = np.cumsum([0, *[len(part.matrix.values()) for part in maps]])
        row_ends = [maps[0].matrix.crow_indices()[:1]]
        columns = []
        orders = []
        for number, part in enumerate(maps):
            row_ends.append(part.matrix.crow_indices()[1:] + int(num_entries[number]))
            first_point = int(num_points[number])
            columns.append(part.matrix.col_indices() + part.in_rank * first_point)
            orders.append(part.curve_order + first_point)
        total = int(num_points[-1])
        matrix = sparse_csr(
            torch.cat(row_ends),
            torch.cat(columns),
            torch.cat([part.matrix.values() for part in maps]),
            (total * maps[0].out_rank, total * maps[0].in_rank),
        )
        return cls(matrix, torch.cat(orders), torch.cat([part.mass for part in maps]))

    @cached_property
    def T(self) -> LinearMap:
        """The transposed matrix, as a map."""
        with outside_transforms():
            matrix = self.matrix.transpose(0, 1).to_sparse_csr()
        transposed = replace(self, matrix=matrix)
        transposed.__dict__["T"] = self
        return transposed

    @cached_property
    def adjoint(self) -> LinearMap:
        r"""The adjoint in the mass inner product,
        :math:`\langle A f, v \rangle = \langle f, A^* v \rangle`."""
        mass = self.mass.index_select(0, self.curve_order)
        transposed = self.T.matrix
        row_ends = transposed.crow_indices()
        columns = transposed.col_indices()
        rows = torch.repeat_interleave(row_ends.diff())
        factors = mass[columns // self.out_rank] / mass[rows // self.in_rank]
        matrix = torch.sparse_csr_tensor(
            row_ends, columns, transposed.values() * factors, size=transposed.shape
        )
        return replace(self, matrix=matrix)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> LinearMap:
        """The same map on another device or in another precision."""
        return replace(
            self,
            matrix=self.matrix.to(device=device, dtype=dtype),
            curve_order=self.curve_order.to(device=device),
            mass=self.mass.to(device=device, dtype=dtype),
        )

    def to_scipy(self) -> sparse.csr_array:
        """The matrix ``(n q, n p)`` in the user's order."""
        values = self.matrix.values().cpu().numpy()
        columns = self.matrix.col_indices().cpu().numpy()
        row_ends = self.matrix.crow_indices().cpu().numpy()
        along_curve = sparse.csr_array((values, columns, row_ends), shape=self.shape)
        in_user_order = along_curve[self._entries(self.out_rank)][:, self._entries(self.in_rank)]
        return sparse.csr_array(in_user_order)

    def _entries(self, rank: int) -> np.ndarray:
        """Places, in vectors ``(n rank,)`` along the curve, of the entries in the user's order."""
        places = self._places_on_curve.cpu().numpy()
        return (places[:, None] * rank + np.arange(rank)).ravel()

    def to_torch(self) -> Tensor:
        """The matrix as a sparse CSR tensor, in the user's order."""
        return csr_tensor(self.to_scipy(), self.mass)


class _Product(torch.autograd.Function):
    """Sparse times dense ``(rows, c)``; the backward pass multiplies by the transposed matrix."""

    @staticmethod
    def forward(x, linear_map):
        with outside_autocast(x.device):  # torch has no sparse products in half precision
            return linear_map.matrix @ x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.linear_map = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return _Product.apply(grad, ctx.linear_map.T), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return _Product.apply(tangent, ctx.linear_map)

    @staticmethod
    def vmap(info, in_dims, x, linear_map):
        """Replicas become channels."""
        batch = x.movedim(in_dims[0], -1)
        product = _Product.apply(batch.flatten(1), linear_map)
        return product.unflatten(1, batch.shape[1:]), 2


def csr_tensor(matrix: sparse.csr_array, like: Tensor) -> Tensor:
    """A scipy matrix as a CSR tensor of the dtype and on the device of another tensor."""
    row_ends = torch.from_numpy(matrix.indptr).to(like.device)
    columns = torch.from_numpy(matrix.indices).to(like.device)
    values = torch.from_numpy(matrix.data).to(like)
    return sparse_csr(row_ends, columns, values, matrix.shape)


def sparse_csr(row_ends: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor, without the warning that torch calls the format beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)
        return torch.sparse_csr_tensor(row_ends, columns, values, size=shape)


@njit(cache=True, nogil=True)
def _turn_back(start, stop, weights, values, det, out):  # pragma: no cover - compiled
    """Products of weights and transport maps in the plane."""
    for e in range(start, stop):
        x = weights[e, 0]
        y = weights[e, 1]
        cos = values[e, 0]
        sin = values[e, 1]
        out[e, 0] = cos * x + sin * y
        out[e, 1] = det[e] * (cos * y - sin * x)


@njit(cache=True, nogil=True)
def _outer_products(start, stop, weights, maps, out):  # pragma: no cover - compiled
    """Component ``(a d + b, c)`` is weight b times entry (a, c) of the transport map."""
    d = weights.shape[1]
    for e in range(start, stop):
        for a in range(d):
            for b in range(d):
                for c in range(d):
                    out[e, a * d + b, c] = weights[e, b] * maps[e, a, c]


def _quarter_turn(vectors: Tensor) -> Tensor:
    """Vectors ``(..., 2)`` of the plane turned by a right angle, (x, y) to (-y, x)."""
    x, y = vectors.unbind(-1)
    return torch.stack([-y, x], dim=-1)


class Derivatives:
    r"""First derivatives on a bundle, by polynomials fitted to the nearest neighbours of each
    point.

    On flat space the derivatives at a point are exact for polynomials of the degree of its fit,
    ``degrees``. This is ``degree`` where the nearest ``neighbors`` determine such a fit. Elsewhere,
    as at boundaries, whose neighbourhoods are one-sided, fits of a higher degree become quadratic;
    quadratic ones take more neighbours, up to all points of the component, and become linear only
    if these do not suffice, with an ``AccuracyWarning``. So all maps are exact for linear
    functions, for quadratic ones without that warning, and for those of ``degree`` if all
    ``degrees`` are. On curved space the error goes to zero with the square of the distance between
    neighbours. No boundary condition is imposed.

    Args:
        bundle: a tangent bundle.
        degree: of the polynomials; default 3 where the bundle has enough neighbours, otherwise 2.
            Cubic fits have a much smaller error for smooth functions, quadratic ones are less
            sensitive to noise.
        neighbors: points of a fit; default four for each coefficient, on surfaces 36, or 20 of
            degree 2.

    >>> import tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    >>> calculus = Derivatives(tb.TangentBundle.from_points(points))
    >>> height = points[:, 2, None, None]
    >>> laplacian = calculus.divergence() @ (calculus.gradient() @ height)
    >>> bool(abs(laplacian + 2 * height).max() < 0.2)  # height is an eigenfunction
    True
    """

    def __init__(
        self, bundle: TangentBundle, degree: int | None = None, neighbors: int | None = None
    ) -> None:
        if neighbors is not None:
            neighbors = positive_integer(neighbors, "neighbors")
        if degree is None:
            degree = default_degree(bundle, neighbors)
        self.bundle = bundle
        self.degree = positive_integer(degree, "degree")
        self.neighbors = neighbors

    def __repr__(self) -> str:
        return f"Derivatives({self.bundle}, degree={self.degree}, neighbors={self.neighbors})"

    @cached_property
    def fit(self) -> LocalFit:
        """Weights of the first derivatives at each point."""
        pieces = local_fits(self.bundle, self.degree, self.neighbors)
        return join_fits(pieces, self.bundle.num_points)

    @cached_property
    def degrees(self) -> np.ndarray:
        """The degree of the polynomials that were fitted at each point, ``(n,)`` integers in the
        user's order.

        >>> import numpy as np, tangentbundle as tb
        >>> points = np.random.default_rng(0).uniform(size=(400, 2))
        >>> degrees = Derivatives(tb.TangentBundle.from_points(points, dim=2), degree=3).degrees
        >>> edge = np.abs(points - 0.5).max(axis=1) > 0.48
        >>> # quadratic at most points of the boundary
        >>> bool(degrees[edge].mean() < 2.5 < degrees[~edge].mean())
        True
        """
        return host(self.bundle.cloud.in_user_order(self.fit.degrees))

    @cached_property
    def mass(self) -> Tensor:
        """Masses ``(n,)`` along the curve that sum to one."""
        masses = self.bundle.sorted_masses()
        return masses / masses.sum()

    @cached_property
    def signs(self) -> Tensor:
        """The orientation of each frame, ``(n,)`` along the curve; only for surfaces."""
        if self.bundle.dim != 2:
            raise InvalidInputError(
                f"curl and rot are defined on surfaces, d = 2, and here d = {self.bundle.dim}. "
                "Use the antisymmetric part of jacobian()."
            )
        return orientation(self.bundle)

    @threads_by_size
    def gradient(self) -> LinearMap:
        """Functions ``(..., n, 1, c)`` to fields ``(..., n, d, c)``."""
        return self._map(self.fit.weights[:, :, None])

    @threads_by_size
    def rot(self) -> LinearMap:
        """Functions to fields: the gradient turned by a right angle; for oriented surfaces."""
        signs = self.signs.cpu()[self.fit.graph.rows]
        turned = signs[:, None] * _quarter_turn(self.fit.weights)
        return self._map(turned[:, :, None])

    @threads_by_size
    def jacobian(self, *, order: int = 1) -> LinearMap:
        r"""The covariant derivative, fields ``(..., n, d, c)`` to ``(..., n, d d, c)``.

        Component :math:`a d + b` is :math:`\nabla_b v^a`. The trace is the divergence, the
        symmetric part the strain. With an ``order`` n it is that of the powers of directions with
        n representatives, of ``bundle.power(n)``.
        """
        weights = self.fit.weights
        connection = self._connection
        if order > 1:
            connection = connection.power(order)
        transport = connection.blocks()
        num_edges, d = weights.shape
        blocks = weights.new_empty((num_edges, d * d, d))
        run_ranges(_outer_products, num_edges, weights.numpy(), transport.numpy(), blocks.numpy())
        return self._map(blocks)

    @threads_by_size
    def divergence(self) -> LinearMap:
        """Fields to functions: the trace of the covariant derivative, accurate at each point.

        The negative adjoint ``-gradient().adjoint`` fulfils integration by parts exactly instead.
        At scattered points its single values are noisy; its averages are not.
        """
        return self._map(self._divergence_weights[:, None])

    @threads_by_size
    def curl(self) -> LinearMap:
        """Fields to functions: the vorticity of fields on oriented surfaces, accurate at each
        point."""
        signs = self.signs.cpu()[self.fit.graph.indices]
        turned = signs[:, None] * _quarter_turn(self._divergence_weights)
        return self._map(turned[:, None])

    @cached_property
    def _connection(self) -> Connection:
        """The transport along the edges of the fits, on the CPU."""
        frames = self.bundle.tangent_frames
        assert frames is not None, "fits need frames"
        order = self.bundle.cloud.curve_order
        return connect(frames.matrices.cpu(), self.fit.graph, numbers=order)

    @cached_property
    def _divergence_weights(self) -> Tensor:
        """The weights ``(e, d)`` of the divergence along the edges of the fits."""
        weights = self.fit.weights
        connection = self._connection
        if connection.rank != 2:
            return (weights[:, None] @ connection.blocks())[:, 0]
        turned = torch.empty_like(weights)  # the same, in less time and memory
        run_ranges(
            _turn_back,
            len(turned),
            weights.numpy(),
            connection.values.numpy(),
            connection.det.numpy(),
            turned.numpy(),
        )
        return turned

    def _map(self, blocks: Tensor) -> LinearMap:
        """The map of blocks ``(e, q, p)``, in the dtype and on the device of the bundle."""
        kind = self.bundle.kind
        mass = self.bundle.cloud.in_user_order(self.mass).to(kind.device, kind.dtype)
        return LinearMap(
            matrix=csr_tensor(self.fit.matrix(blocks), mass),
            curve_order=self.bundle.cloud.curve_order.to(kind.device),
            mass=mass,
        )
