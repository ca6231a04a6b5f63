"""Sparse linear maps between signals of two bundles over the same points.

Gradient, covariant derivative, divergence, curl and rot are such maps, from one local fit and the
transport.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit
from scipy import sparse

from ..arrays import outside_autocast, positive_integer
from ..errors import InvalidInputError
from ..geometry.transport import Connection, connect
from ..operators.base import LinearOperator, fold, unfold
from ..parallel import run_ranges, threads_by_size
from ..transforms import outside_transforms
from .fit import LocalFit, default_degree, join_fits, local_fits
from .topology import orientation

if TYPE_CHECKING:
    from ..bundle import TangentBundle

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
"""J, the turn by a right angle."""


@dataclass(eq=False, repr=False)
class LinearMap(LinearOperator):
    r"""A sparse linear map of signals ``(..., n, p, c)`` to signals ``(..., n, q, c)``, alike for
    each channel.

    ``map @ signal`` applies it. ``T`` is the transposed matrix, ``adjoint`` the adjoint in the mass
    inner product, :math:`A^* = M^{-1} A^T M`. Products are differentiable in the signal, on any
    device.

    Attributes: ``matrix``, a sparse CSR tensor ``(n q, n p)`` along the space-filling curve,
    ``curve_order[k]`` the user's index of the k-th point on the curve, ``mass`` (n,) in the user's
    order.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(500, seed=0)
    >>> gradient = tb.TangentBundle.from_points(points).gradient()
    >>> gradient, (gradient @ points[:, 2, None, None]).shape
    (LinearMap(500 points, rank 1 to rank 2, float64, cpu), (500, 2, 1))
    """

    matrix: torch.Tensor
    curve_order: torch.Tensor
    mass: torch.Tensor

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
        where = f"{str(self.dtype).removeprefix('torch.')}, {self.device}"
        ranks = f"rank {self.in_rank} to rank {self.out_rank}"
        return f"LinearMap({self.num_points} points, {ranks}, {where})"

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """The product with a validated tensor ``(..., n, p, c)``."""
        along = fold(x).index_select(0, self.curve_order).flatten(0, 1)
        y = _Product.apply(along, self).unflatten(0, (self.num_points, self.out_rank))
        y = y.index_select(0, self._places)
        return unfold(y, torch.Size((*x.shape[:-2], self.out_rank, x.shape[-1])))

    @cached_property
    def _places(self) -> torch.Tensor:
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
        matrix, starts = self.T.matrix, self.T.matrix.crow_indices()
        factors = (
            mass[matrix.col_indices() // self.out_rank]
            / mass[torch.repeat_interleave(starts.diff()) // self.in_rank]
        )
        values = matrix.values() * factors
        transposed = torch.sparse_csr_tensor(
            starts, matrix.col_indices(), values, size=self.shape[::-1]
        )
        return replace(self, matrix=transposed)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> LinearMap:
        """The same map on another device or in another precision."""
        mass, matrix = (t.to(device=device, dtype=dtype) for t in (self.mass, self.matrix))
        return replace(self, matrix=matrix, curve_order=self.curve_order.to(mass.device), mass=mass)

    def to_scipy(self) -> sparse.csr_array:
        """The matrix ``(n q, n p)`` in the user's order."""
        parts = (self.matrix.values(), self.matrix.col_indices(), self.matrix.crow_indices())
        matrix = sparse.csr_array(tuple(part.cpu().numpy() for part in parts), shape=self.shape)
        places = self._places.cpu().numpy()
        rows, columns = (
            (places[:, None] * q + np.arange(q)).ravel() for q in (self.out_rank, self.in_rank)
        )
        return sparse.csr_array(matrix[rows][:, columns])

    def to_torch(self) -> torch.Tensor:
        """The matrix as a sparse CSR tensor, in the user's order."""
        return to_tensor(self.to_scipy(), self.mass)


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


def to_tensor(matrix: sparse.csr_array, like: torch.Tensor) -> torch.Tensor:
    """A scipy matrix as a CSR tensor of the dtype and on the device of another tensor."""
    rows, cols, values = (
        torch.from_numpy(a).to(like.device) for a in (matrix.indptr, matrix.indices, matrix.data)
    )
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Sparse", UserWarning
        )  # torch calls the format beta, once
        return torch.sparse_csr_tensor(rows, cols, values, size=matrix.shape, dtype=like.dtype)


@njit(cache=True, nogil=True)
def _turn_back(start, stop, weights, values, det, out):  # pragma: no cover - compiled
    """Products of weights and transport maps in the plane."""
    for e in range(start, stop):
        (x, y), (c, s) = weights[e], values[e]
        out[e, 0], out[e, 1] = c * x + s * y, det[e] * (c * y - s * x)


@dataclass(frozen=True, eq=False)
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

    bundle: TangentBundle
    degree: int | None = None
    neighbors: int | None = None

    def __post_init__(self) -> None:
        if self.neighbors is not None:
            positive_integer(self.neighbors, "neighbors")
        degree = default_degree(self.bundle, self.neighbors) if self.degree is None else self.degree
        object.__setattr__(self, "degree", positive_integer(degree, "degree"))

    @cached_property
    def fit(self) -> LocalFit:
        return join_fits(
            local_fits(self.bundle, self.degree, self.neighbors), self.bundle.num_points
        )

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
        return self.bundle._unsorted(self.fit.degrees)

    @cached_property
    def mass(self) -> np.ndarray:
        return self.bundle.sorted_mass / self.bundle.sorted_mass.sum()

    @cached_property
    def signs(self) -> np.ndarray:
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
        turned = self.signs[self.fit.graph.rows][:, None] * (self.fit.weights @ TURN.T)
        return self._map(turned[:, :, None])

    @threads_by_size
    def jacobian(self) -> LinearMap:
        r"""The covariant derivative, fields ``(..., n, d, c)`` to ``(..., n, d d, c)``.

        Component :math:`a d + b` is :math:`\nabla_b v^a`. The trace is the divergence, the
        symmetric part the strain.
        """
        d = self.bundle.dim
        return self._map(
            np.einsum("eb,eac->eabc", self.fit.weights, self._connection.blocks()).reshape(
                -1, d * d, d
            )
        )

    @threads_by_size
    def divergence(self) -> LinearMap:
        """Fields to functions: the trace of the covariant derivative, accurate at each point.

        The negative adjoint ``-gradient().adjoint`` fulfils integration by parts exactly instead.
        At scattered points its single values are noisy; its averages are not.
        """
        return self._map(self._divergence_blocks)

    @threads_by_size
    def curl(self) -> LinearMap:
        """Fields to functions: the vorticity of fields on oriented surfaces, accurate at each
        point."""
        signs = self.signs[self.fit.graph.indices][:, None, None]
        return self._map(signs * (self._divergence_blocks @ -TURN))

    @cached_property
    def _connection(self) -> Connection:
        assert self.bundle.sorted_frames is not None  # or there were no fit
        return connect(self.bundle.sorted_frames, self.fit.graph, order=self.bundle.curve_order)

    @cached_property
    def _divergence_blocks(self) -> np.ndarray:
        weights, connection = self.fit.weights, self._connection
        if connection.rank != 2:
            return np.einsum("ea,eab->eb", weights, connection.blocks())[:, None]
        blocks = np.empty_like(weights)  # the same, in less time and memory
        run_ranges(_turn_back, len(blocks), weights, connection.values, connection.det, blocks)
        return blocks[:, None]

    def _map(self, blocks: np.ndarray) -> LinearMap:
        """The map of blocks ``(e, q, p)``, in the dtype and on the device of the bundle."""
        mass, order = (
            torch.from_numpy(a) for a in (self.bundle._unsorted(self.mass), self.bundle.curve_order)
        )
        kind = self.bundle.kind
        mass = mass.to(kind.device, kind.dtype)
        return LinearMap(to_tensor(self.fit.matrix(blocks), mass), order.to(kind.device), mass)
