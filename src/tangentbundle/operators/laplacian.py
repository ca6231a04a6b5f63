r"""The connection Laplacian of a sampled bundle.

.. math:: \Delta = \frac{1}{c\,\epsilon}\,(M^{-1} S - I), \qquad
          S_{ij} = \frac{w_{ij}}{\deg_i \deg_j}\, O_{ij}, \qquad m_i = \sum_j |S_{ij}|.

Stored is the symmetric matrix :math:`A = M^{-1/2} S M^{-1/2}`, whose spectrum lies in [-1, 1], with
the points sorted along a space-filling curve; signals go in and come back in the user's order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from scipy import sparse

from ..arrays import Array, ArrayKind
from ..errors import InvalidInputError
from .base import LinearOperator
from .product import block_product, edge_blocks, edge_columns
from .spectrum import lowest_eigenpairs


@dataclass(frozen=True, eq=False)
class ConnectionLaplacian(LinearOperator):
    r"""A negative semidefinite operator, self-adjoint in the mass inner product.

    Made by ``TangentBundle.laplacian()``. On the scalar bundle (rank 1, identity transport) it is
    the graph Laplacian with the sampling density removed, which converges to Laplace-Beltrami.

    Attributes: ``indptr``, ``cols``, ``values`` hold A in curve order (for d = 2 two numbers an edge,
    reflections marked by complemented columns; otherwise blocks), ``root_mass`` is
    :math:`\sqrt{m}`, ``scale`` is :math:`c\,\epsilon`, ``order`` sorts the user's points.

    >>> import tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(800, seed=0)).laplacian()
    >>> lap.spectrum(6)[0].round(0).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    indptr: torch.Tensor
    cols: torch.Tensor
    values: torch.Tensor
    root_mass: torch.Tensor
    order: torch.Tensor
    inverse_order: torch.Tensor
    scale: float
    rank: int
    kind: ArrayKind

    @property
    def num_points(self) -> int:  # type: ignore[override]
        return len(self.root_mass)

    @property
    def num_edges(self) -> int:
        """Directed edges."""
        return len(self.cols)

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.rank

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        return self.values.dtype

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.values.device

    @property
    def mass(self) -> torch.Tensor:
        return self.root_mass.square()[self.inverse_order]

    @property
    def adjoint(self) -> ConnectionLaplacian:
        return self

    def __repr__(self) -> str:
        kind = f"{str(self.dtype).removeprefix('torch.')}, {self.device}"
        return (
            f"ConnectionLaplacian({self.num_points} points, rank {self.rank}, "
            f"{self.num_edges / self.num_points:.1f} neighbours a point, {kind})"
        )

    # The symmetric form: everything fast happens here, in curve order.

    def to_symmetric(self, x: torch.Tensor) -> torch.Tensor:
        r"""Signal ``(..., n, d, c)`` to :math:`M^{1/2} x`, curve order, batch folded: ``(n, d, b c)``."""
        folded = x.movedim(-3, 0).movedim(-2, 1).reshape(self.num_points, self.rank, -1)
        return folded.index_select(0, self.order) * self.root_mass[:, None, None]

    def from_symmetric(self, y: torch.Tensor, like: torch.Size) -> torch.Tensor:
        """Undo ``to_symmetric`` for a signal of shape ``like``."""
        unfolded = (y / self.root_mass[:, None, None]).index_select(0, self.inverse_order)
        batch, channels = like[:-3], like[-1]
        unfolded = unfolded.reshape(self.num_points, self.rank, *batch, channels)
        return unfolded.movedim(0, -2).movedim(0, -2) if batch else unfolded

    def symmetric_product(
        self,
        x: torch.Tensor,
        z: torch.Tensor | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
    ) -> torch.Tensor:
        r""":math:`\alpha A x + \beta x + \gamma z` in the symmetric form, ``(n, d, c)``."""
        z = x if z is None else z
        return block_product(self.indptr, self.cols, self.values, x, z, alpha, beta, gamma)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        inside = self.to_symmetric(x)
        product = self.symmetric_product(inside, alpha=1 / self.scale, beta=-1 / self.scale)
        return self.from_symmetric(product, x.shape)

    # Other forms.

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> ConnectionLaplacian:
        """The same operator on another device or in another precision."""
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        device = self.device if device is None else torch.device(device)
        dtype = self.dtype if dtype is None else dtype
        kind = replace(self.kind, dtype=dtype, device=device)
        if device.type != "cpu":
            kind = replace(kind, is_torch=True)
        return replace(
            self,
            indptr=self.indptr.to(device),
            cols=self.cols.to(device),
            values=self.values.to(device, dtype),
            root_mass=self.root_mass.to(device, dtype),
            order=self.order.to(device),
            inverse_order=self.inverse_order.to(device),
            kind=kind,
        )

    def to_scipy(self) -> sparse.csr_array:
        r"""The matrix :math:`\Delta`, ``(n d, n d)``, in the user's order."""
        n, d = self.num_points, self.rank
        degrees = self.indptr.diff()
        rows = torch.repeat_interleave(torch.arange(n, device=self.device), degrees)
        columns = edge_columns(self.cols).long()
        ratio = self.root_mass[columns] / self.root_mass[rows] / self.scale
        blocks = edge_blocks(self.cols, self.values) * ratio[:, None, None]
        local = torch.arange(d, device=self.device)
        i = (self.order[rows] * d)[:, None, None] + local[:, None].expand(d, d)
        j = (self.order[columns] * d)[:, None, None] + local.expand(d, d)
        entries = [t.reshape(-1).cpu().numpy() for t in (blocks, i, j)]
        matrix = sparse.csr_array((entries[0], (entries[1], entries[2])), shape=self.shape)
        return sparse.csr_array(matrix - sparse.eye_array(n * d, dtype=matrix.dtype) / self.scale)

    def spectrum(self, k: int, *, tol: float = 1e-9, seed: int = 0) -> tuple[Array, Array]:
        r"""The ``k`` smallest eigenvalues of :math:`-\Delta` and their fields.

        Returns ``(k,)`` ascending, and ``(n, d, k)`` orthonormal in the mass inner product: NumPy or torch, as
        the points came. Matrix-free: only products with the operator are used, in float64.
        """
        size = self.shape[0]
        if not 1 <= k <= size:
            raise InvalidInputError(f"k must lie between 1 and n d = {size}, got {k}.")
        double = self.to(dtype=torch.float64)
        values, vectors = lowest_eigenpairs(double, k, tol=tol, seed=seed)
        fields = double.from_symmetric(vectors, vectors.shape)
        return self.kind.wrap(values), self.kind.wrap(fields)
