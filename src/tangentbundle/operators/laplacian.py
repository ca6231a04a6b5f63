r"""The connection Laplacian of a sampled bundle.

.. math:: -\Delta = \frac{1}{c\,\epsilon} \sum_{k=1}^{terms} \frac{(I - P)^k}{k}, \qquad
          P = M^{-1} S, \qquad
          S_{ij} = \frac{w_{ij}}{\deg_i \deg_j}\, O_{ij}, \qquad
          m_i = \sum_j \frac{w_{ij}}{\deg_i \deg_j}.

The average P has its spectrum in [-1, 1], nearly that of the heat flow :math:`e^{c\epsilon\Delta}`.
It is stored with the points sorted along a space-filling curve; signals go in and come back in the
user's order.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from scipy import sparse

from ..arrays import Array, ArrayKind, finite_where_seen, float_tensor, positive_integer
from ..errors import DTypeError, InvalidInputError, ShapeError
from ..extras import use_triton
from ..parallel import threads_by_size
from .base import LinearOperator
from .calibration import Generator
from .product import block_product
from .spectrum import least_average, lowest_eigenpairs
from .storage import BlockMatrix, SlicedMatrix

_extending = threading.Lock()
"""Held while eigenfields are added to the cached ones: threads must not extend them in two ways."""


@dataclass(eq=False, repr=False)
class ConnectionLaplacian(LinearOperator):
    r"""A negative semidefinite operator, self-adjoint in the mass inner product.

    Made by ``TangentBundle.laplacian()``. On the scalar bundle (rank 1, identity transport) it is
    the graph Laplacian with the sampling density removed, which converges to Laplace-Beltrami.

    Attributes: ``indptr``, ``cols``, ``values`` hold P in curve order (d = 2: two numbers an edge,
    reflections marked by complemented columns; otherwise blocks), ``curve_order[k]`` is the user's
    index of the k-th point on the curve, ``mass`` (n,) sums to one, ``scale`` is
    :math:`c\,\epsilon`, ``rank`` the dimension of the fibres, ``frames`` (n, D, d) the
    tangent bases in ambient space, for those who need them (with gradients, where those of the
    bundle have some), ``generator`` what :math:`-\Delta` is as a function of P, with ``terms``
    terms.

    >>> import tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(800, seed=0)).laplacian()
    >>> lap.spectrum(6)[0].round(0).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    indptr: torch.Tensor
    cols: torch.Tensor
    values: torch.Tensor
    curve_order: torch.Tensor
    mass: torch.Tensor
    scale: float
    rank: int
    kind: ArrayKind
    sorted_frames: np.ndarray | torch.Tensor | None = None
    terms: int = 1

    def __post_init__(self) -> None:
        limit = 1e30 if self.dtype == torch.float32 else 1e290
        if not 1 / limit < self.scale < limit:
            raise InvalidInputError(
                f"Delta is of size 1/{self.scale:.2g}, out of the range of {self.dtype}. Rescale "
                "the points, or use float64."
            )

    @property
    def num_edges(self) -> int:
        """Directed edges."""
        return len(self.cols)

    @property
    def requires_grad(self) -> bool:
        return self.values.requires_grad

    @property
    def adjoint(self) -> ConnectionLaplacian:
        return self

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_points} points, rank {self.rank}, "
            f"{self.num_edges / self.num_points:.1f} neighbours per point, "
            f"{str(self.dtype).removeprefix('torch.')}, {self.device})"
        )

    @cached_property
    def _form(self) -> BlockMatrix | SlicedMatrix:
        """P for signals along the curve, in the form the device's kernels take; that of values that
        learn is CSR."""
        csr = BlockMatrix(self.indptr, self.cols, self.values, self.curve_order)
        with torch.inference_mode(False):  # the cache must serve training, too
            return (
                SlicedMatrix.from_csr(csr)
                if use_triton(self.device) and not self.requires_grad
                else csr
            )

    @property
    def curve(self) -> tuple[torch.Tensor, ...]:
        """``indptr, cols, values, order, mass`` for signals along the curve."""
        form = self._form
        return form.indptr, form.cols, form.values, form.curve_order, self.mass

    @cached_property
    def matrix(self) -> tuple[torch.Tensor, ...]:
        """The same for signals in the user's order."""
        with torch.inference_mode(False):
            form = self._form.in_user_order()
        return form.indptr, form.cols, form.values, form.curve_order, self.mass

    @cached_property
    def frames(self) -> torch.Tensor:
        """Tangent bases ``(n, D, d)`` in the user's order, on the operator's device."""
        if self.sorted_frames is None:
            raise InvalidInputError(
                "this operator knows no frames: the scalar bundle has none. Use the Laplacian of "
                "a tangent bundle."
            )
        with torch.inference_mode(False), torch.enable_grad():  # the cache must serve training, too
            frames = torch.as_tensor(self.sorted_frames).to(self.device, self.dtype)
            return torch.zeros_like(frames).index_copy(0, self.curve_order.long(), frames)

    @property
    def generator(self) -> Generator:
        r"""The function of P that :math:`-\Delta` is."""
        return Generator(self.scale, self.terms)

    @cached_property
    def largest_deficit(self) -> float:
        """A bound of the eigenvalues of I - P, from a few Lanczos steps."""
        return 1.0 - least_average(self.to(dtype=torch.float64))

    @property
    def spectral_interval(self) -> tuple[float, float]:
        return 0.0, self.generator(self.largest_deficit)

    def average(self, x: torch.Tensor, alpha: float = 1.0, beta: float = 0.0) -> torch.Tensor:
        r""":math:`\alpha P x + \beta x` for a signal ``(n, d, c)`` in the user's order."""
        self.require_fit(x)
        return block_product(*self.matrix, x, alpha, beta)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        self.require_fit(x)
        *lower, last = self.generator.coefficients
        if not lower:
            return unfold(self.average(fold(x), last, -last), x.shape)
        change = self.average(fold(x), 1.0, -1.0)
        total = self.average(change, -last, lower.pop() + last)
        for coefficient in reversed(lower):  # Horner's scheme in I - P
            total = coefficient * change + self.average(total, -1.0, 1.0)
        return unfold(total, x.shape)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """The same operator on another device or in another precision."""
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        device = self.device if device is None else torch.device(device)
        dtype = self.dtype if dtype is None else dtype
        if dtype not in (torch.float32, torch.float64):
            raise DTypeError(f"dtype must be torch.float32 or torch.float64, got {dtype!r}.")
        is_torch = self.kind.is_torch or device.type != "cpu"
        return replace(
            self,
            indptr=self.indptr.to(device),
            cols=self.cols.to(device),
            values=self.values.to(device, dtype),
            curve_order=self.curve_order.to(device),
            mass=self.mass.to(device, dtype),
            kind=ArrayKind(is_torch, dtype, device),
        )

    def to_scipy(self) -> sparse.csr_array:
        r"""The matrix :math:`\Delta`, ``(n d, n d)``, in the user's order. Order 2 reaches
        neighbours of neighbours."""
        matrix, order = (
            BlockMatrix(self.indptr, self.cols, self.values, self.curve_order),
            self.curve_order.long(),
        )
        blocks = matrix.blocks().cpu().numpy()
        columns, indptr = order[matrix.columns()].cpu().numpy(), self.indptr.cpu().numpy()
        along = sparse.bsr_array((blocks, columns, indptr), shape=self.shape).tocsr()
        places = (
            torch.argsort(order)[:, None] * self.rank + torch.arange(self.rank, device=self.device)
        ).flatten()
        change = sparse.csr_array(
            along[places.cpu().numpy()] - sparse.eye_array(self.shape[0], dtype=along.dtype)
        )
        *lower, last = map(along.dtype.type, self.generator.coefficients)
        total = last * change
        for coefficient in reversed(lower):
            total = coefficient * change - change @ total
        return sparse.csr_array(total)

    @threads_by_size
    def spectrum(self, k: int, *, tol: float = 1e-9, seed: int = 0) -> tuple[Array, Array]:
        r"""The ``k`` smallest eigenvalues of :math:`-\Delta` and their fields.

        Returns ``(k,)`` ascending and ``(n, d, k)``, orthonormal in the mass inner product: NumPy
        or torch, as the points came. Only products with the operator are used, in float64; those as
        sparse as meshes are factorized. They have no gradients: an operator that learns, as that of
        moving points or of a learned sheaf, is refused unless under ``torch.no_grad()``.
        """
        self.require_no_gradients()
        values, fields = lowest_eigenpairs(self, self._count(k), tol=tol, seed=seed)
        return self.kind.wrap(values), self.kind.wrap(fields)

    def _count(self, k: int) -> int:
        count = positive_integer(k, "k")
        if count > self.shape[0]:
            raise InvalidInputError(f"k must lie between 1 and n d = {self.shape[0]}, got {k}.")
        return count

    def _fields(self, k: int) -> torch.Tensor:
        """The ``k`` lowest eigenfields ``(n, d, k)`` in the operator's dtype, cached.

        More of them extend the cached ones, whatever the eigensolver chooses within an eigenspace:
        a transform stays a transform in the same fields.
        """
        k = self._count(k)
        self.require_no_gradients()
        with _extending:
            cached = self.cache.get("fields")
            if cached is None or cached.shape[-1] < k:
                with torch.inference_mode(False):  # the cache must serve training, too
                    values, fields = lowest_eigenpairs(self, k, tol=1e-9, seed=0)
                    if cached is not None:
                        overlap = torch.einsum(
                            "n,ndi,ndj->ij", self.mass.double(), fields, cached.double()
                        )
                        rest = torch.linalg.qr(overlap, mode="complete")[0][:, cached.shape[-1] :]
                        turn = torch.linalg.eigh(rest.T @ (values[:, None] * rest))[1]
                        fields = torch.cat([cached.double(), fields @ (rest @ turn)], dim=-1)
                    cached = self.cache["fields"] = fields.to(self.dtype)
        return cached[:, :, :k]

    @threads_by_size
    def to_frequency(self, signal: Array, k: int | None = None) -> Array:
        r"""The bundle Fourier transform :math:`\hat f_i = \langle f, \Phi_i \rangle`.

        ``(..., n, d, c)`` becomes ``(..., k, c)``. ``k`` is the number of eigenfields, lowest
        first; default all of them up to n d = 2 000, otherwise 128. With all of them Parseval
        holds: the plain norm of the transform is the mass norm of the signal.
        """
        x, kind = self.check(signal)
        finite_where_seen(x, "signal")
        count = k if k is not None else self.shape[0] if self.shape[0] <= 2_000 else 128
        return kind.wrap(torch.einsum("n,ndk,...ndc->...kc", self.mass, self._fields(count), x))

    @threads_by_size
    def from_frequency(self, transform: Array) -> Array:
        """The signal ``(..., n, d, c)`` with a given transform ``(..., k, c)``."""
        spectrum, kind = float_tensor(transform, "transform")
        if spectrum.ndim < 2 or not 1 <= spectrum.shape[-2] <= self.shape[0]:
            shape = tuple(spectrum.shape)
            raise ShapeError(
                f"transform must have shape (..., k, c) with k up to n d = {self.shape[0]}, got "
                f"{shape}."
            )
        if spectrum.dtype != self.dtype:
            raise DTypeError(
                f"transform is {spectrum.dtype} but the operator is {self.dtype}; convert one."
            )
        finite_where_seen(spectrum, "transform")
        return kind.wrap(
            torch.einsum("ndk,...kc->...ndc", self._fields(spectrum.shape[-2]), spectrum)
        )


def fold(x: torch.Tensor) -> torch.Tensor:
    """Signal ``(..., n, d, c)`` to ``(n, d, b c)``: leading indices become channels."""
    if x.ndim == 3:
        return x
    return x.movedim(-3, 0).movedim(-2, 1).reshape(x.shape[-3], x.shape[-2], -1)


def unfold(y: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Undo ``fold`` for a signal of the given shape."""
    if len(shape) == 3:
        return y
    n, d, channels = shape[-3:]
    return y.reshape(n, d, *shape[:-3], channels).movedim(0, -2).movedim(0, -2)
