r"""The Laplacian of a sampled bundle, a sheaf, a graph or a mesh: a function of one average P.

.. math:: -\Delta = \frac{1}{c\,\epsilon} \sum_{k=1}^{terms} \frac{(I - P)^k}{k}, \qquad
          P = M^{-1} S, \qquad
          S_{ij} = \frac{w_{ij}}{\deg_i \deg_j}\, O_{ij}, \qquad
          m_i = \sum_j \frac{w_{ij}}{\deg_i \deg_j}.

The average P has its spectrum in [-1, 1], nearly that of the heat flow :math:`e^{c\epsilon\Delta}`.
It is stored with the points sorted along a space-filling curve; signals go in and come back in the
user's order. The formula is that of the connection Laplacian; ``assembly``, ``sheaf`` and
``calculus`` build Laplacians from other weights and maps.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
import torch
from scipy import sparse

from ..arrays import Array, ArrayKind, finite_where_seen, float_tensor, positive_integer
from ..errors import DTypeError, InvalidInputError, ShapeError
from ..extras import use_triton
from ..parallel import threads_by_size
from . import chebyshev
from .base import SquareOperator, fold, unfold
from .calibration import Generator
from .expansion import Band
from .product import block_product
from .spectrum import least_average, lowest_eigenpairs
from .storage import BlockMatrix, Layout, SlicedMatrix

MAX_SIZES = {torch.float32: 1e30, torch.float64: 1e290}
"""Largest Laplacians, and inverses of smallest ones, with which products do not overflow."""

EIGENFIELD_TOLERANCE = 1e-9
"""Residual of the eigenfields of the Fourier transform."""

ALL_FREQUENCIES_SIZE = 2_000
"""Up to this many rows (n d) the Fourier transform has all frequencies by default."""

DEFAULT_FREQUENCIES = 128
"""Frequencies of the Fourier transform of larger operators, by default."""

_extending = threading.Lock()
"""Held while eigenfields are added to the cached ones: threads must not extend them in two ways."""


@final
@dataclass(eq=False, repr=False, kw_only=True)
class Laplacian(SquareOperator):
    r"""A negative semidefinite operator, self-adjoint in the mass inner product.

    Built by ``TangentBundle.laplacian()``, ``Sheaf.laplacian()`` and others. On the scalar bundle
    (rank 1, identity transport) it is the graph Laplacian with the sampling density removed, which
    converges to Laplace-Beltrami.

    Attributes:
        average: P along the curve; ``average.curve_order[k]`` is the user's index of the k-th point
            on the curve.
        mass: ``(n,)`` in the user's order; it sums to one.
        generator: what :math:`-\Delta` is as a function of P, with ``scale`` :math:`c\,\epsilon`
            and ``terms`` terms.
        kind: the library, dtype and device of arrays that are returned.
        sorted_frames: ``(n, D, d)``, the tangent bases in ambient space along the curve, for those
            who need them (with gradients, where those of the bundle have some).
        bound: of the eigenvalues of I - P, where it is known by construction.
        gpu_layout: how P is stored on GPUs. Slices are faster; rows need no sorting, for blocks
            that change with every step of training. An average that is ``in_place`` has rows.
        extent: the unit of length of ``dimensionless``: the root mean square distance of the points
            from their centre, in the mass. It is one for operators without units, such as those of
            graphs and sheaves.

    >>> import tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(800, seed=0)).laplacian()
    >>> lap.spectrum(6)[0].round(0).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    average: BlockMatrix
    mass: torch.Tensor
    generator: Generator
    kind: ArrayKind
    sorted_frames: np.ndarray | torch.Tensor | None = None
    bound: float | None = None
    gpu_layout: Layout = Layout.SLICES
    extent: float = 1.0

    has_fast_products = True

    def __post_init__(self) -> None:
        self.rank = self.average.rank
        self.num_edges = len(self.average.cols)  # directed edges
        limit = MAX_SIZES[self.dtype]
        if not 1 / limit < self.scale < limit:
            raise InvalidInputError(
                f"Delta is of size 1/{self.scale:.2g}, out of the range of {self.dtype}. Rescale "
                "the points, or use float64."
            )

    @property
    def scale(self) -> float:
        r"""The time :math:`c\,\epsilon` that one average stands for."""
        return self.generator.scale

    @cached_property
    def dimensionless(self) -> Laplacian:
        r"""The operator :math:`R^2 \Delta` of the cloud in units of its own ``extent`` R.

        Times are then in units of :math:`R^2`, in which heat crosses the cloud, and are the same
        numbers whether the points come in metres or in millimetres, and for small clouds and large
        ones of one shape. On the unit sphere R = 1.

        >>> import tangentbundle as tb
        >>> points = tb.manifolds.Sphere(2).sample(500, seed=0)
        >>> for unit in (1.0, 1000.0):
        ...     lap = tb.TangentBundle.from_points(unit * points).laplacian()
        ...     print(round(lap.extent), lap.dimensionless.spectrum(1)[0].round(2))
        1 [0.89]
        1000 [0.89]
        """
        generator = replace(self.generator, scale=self.scale / self.extent**2)
        return replace(self, generator=generator, extent=1.0)

    @property
    def requires_grad(self) -> bool:
        return self.average.values.requires_grad

    @property
    def adjoint(self) -> Laplacian:
        return self

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_points} points, rank {self.rank}, "
            f"{self.num_edges / self.num_points:.1f} neighbours per point, "
            f"{str(self.dtype).removeprefix('torch.')}, {self.device})"
        )

    # Products.

    @cached_property
    def stored(self) -> BlockMatrix:
        """P for signals along the curve, in the layout that the device's kernels take; that of
        values that learn is in rows."""
        if self.gpu_layout is Layout.ROWS or self.requires_grad or not use_triton(self.device):
            return self.average
        with torch.inference_mode(False):  # the cache must serve training, too
            return SlicedMatrix.from_csr(self.average)

    @cached_property
    def stored_in_user_order(self) -> BlockMatrix:
        """The same for signals in the user's order."""
        with torch.inference_mode(False):
            return self.stored.in_user_order()

    def averaged(self, x: torch.Tensor, alpha: float = 1.0, beta: float = 0.0) -> torch.Tensor:
        r""":math:`\alpha P x + \beta x` for a signal ``(n, d, c)`` in the user's order."""
        self.require_fit(x)
        matrix = self.average
        if not matrix.in_place:
            matrix = self.stored_in_user_order
        return block_product(
            matrix.indptr,
            matrix.cols,
            matrix.values,
            matrix.curve_order,
            self.mass,
            x,
            alpha,
            beta,
            matrix.layout.value,
        )

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        self.require_fit(x)
        signal = fold(x)
        *lower, last = self.generator.coefficients
        if not lower:
            return unfold(self.averaged(signal, last, -last), x.shape)
        change = self.averaged(signal, 1.0, -1.0)
        total = self.averaged(change, -last, lower.pop() + last)
        for coefficient in reversed(lower):  # Horner's scheme in I - P
            total = coefficient * change + self.averaged(total, -1.0, 1.0)
        return unfold(total, x.shape)

    def heat_step(self, x: torch.Tensor) -> torch.Tensor:
        r"""An explicit step of heat flow, :math:`x + \Delta x`, for signals ``(n, d, c)``."""
        if self.generator.terms > 1:
            return x + self.apply(x)
        rate = 1.0 / self.scale
        return self.averaged(x, rate, 1.0 - rate)

    # Chebyshev polynomials.

    @cached_property
    def largest_deficit(self) -> float:
        """A bound of the eigenvalues of I - P, by construction or from a few Lanczos steps."""
        if self.bound is not None:
            return self.bound
        return 1.0 - least_average(self.to(dtype=torch.float64))

    @property
    def band(self) -> Band:
        """The band of eigenvalues.

        The upper end is rounded up so that the factors of the recurrence, 2/r and 2 - 2/r, are
        exact in float32. Otherwise their rounding shifts all eigenvalues alike, an error that grows
        with the diffusion time.
        """
        factor = np.float32(4.0 / self.largest_deficit)
        return Band(self.generator, 2.0 / float(np.nextafter(factor, np.float32(0.0))))

    def chebyshev_bank(self, coefficients: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        matrix = self.stored
        band = self.band
        return chebyshev.bank(
            matrix.indptr,
            matrix.cols,
            matrix.values,
            matrix.curve_order,
            self.mass,
            x,
            coefficients,
            band.middle,
            band.radius,
            matrix.layout.value,
        )

    def chebyshev_merge(self, coefficients: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        matrix = self.stored
        band = self.band
        return chebyshev.merge(
            matrix.indptr,
            matrix.cols,
            matrix.values,
            matrix.curve_order,
            self.mass,
            y,
            coefficients,
            band.middle,
            band.radius,
            matrix.layout.value,
        )

    @property
    def spectral_interval(self) -> tuple[float, float]:
        return 0.0, self.generator(self.largest_deficit)

    # Eigenfields.

    @property
    def in_double(self) -> Laplacian:
        """The operator in float64, cached: so are its eigenfields."""
        if self.dtype == torch.float64:
            return self
        cached = self.cache.get("double")
        if cached is None:
            with torch.inference_mode(False):
                cached = self.to(dtype=torch.float64)
            self.cache["double"] = cached
        return cached

    @threads_by_size
    def spectrum(self, k: int, *, tol: float = 1e-9, seed: int = 0) -> tuple[Array, Array]:
        r"""The ``k`` smallest eigenvalues of :math:`-\Delta` and their fields.

        Returns ``(k,)`` ascending and ``(n, d, k)``, orthonormal in the mass inner product: NumPy
        or torch, as the points came. Only products with the operator are used, in float64; those as
        sparse as meshes are factorized. They have no gradients: an operator that learns, as that of
        moving points or of a learned sheaf, is refused unless under ``torch.no_grad()``.
        """
        self.require_no_gradients()
        values, fields = lowest_eigenpairs(self, self._checked_count(k), tol=tol, seed=seed)
        return self.kind.wrap(values), self.kind.wrap(fields)

    def _checked_count(self, k: int) -> int:
        count = positive_integer(k, "k")
        if count > self.shape[0]:
            raise InvalidInputError(f"k must lie between 1 and n d = {self.shape[0]}, got {k}.")
        return count

    @threads_by_size
    def to_frequency(self, signal: Array, k: int | None = None) -> Array:
        r"""The bundle Fourier transform :math:`\hat f_i = \langle f, \Phi_i \rangle`.

        ``(..., n, d, c)`` becomes ``(..., k, c)``. ``k`` is the number of eigenfields, lowest
        first; default all of them up to n d = 2 000, otherwise 128. With all of them Parseval
        holds: the plain norm of the transform is the mass norm of the signal.
        """
        x, kind = self.check(signal)
        finite_where_seen(x, "signal")
        if k is None:
            k = self.shape[0]
            if k > ALL_FREQUENCIES_SIZE:
                k = DEFAULT_FREQUENCIES
        fields = self._lowest_fields(k)
        return kind.wrap(torch.einsum("n,ndk,...ndc->...kc", self.mass, fields, x))

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
        fields = self._lowest_fields(spectrum.shape[-2])
        return kind.wrap(torch.einsum("ndk,...kc->...ndc", fields, spectrum))

    def _lowest_fields(self, k: int) -> torch.Tensor:
        """The ``k`` lowest eigenfields ``(n, d, k)`` in the operator's dtype, cached."""
        count = self._checked_count(k)
        self.require_no_gradients()
        with _extending:
            cached = self.cache.get("fields")
            if cached is None or cached.shape[-1] < count:
                with torch.inference_mode(False):  # the cache must serve training, too
                    cached = self._extended_fields(cached, count).to(self.dtype)
                self.cache["fields"] = cached
        return cached[:, :, :count]

    def _extended_fields(self, cached: torch.Tensor | None, count: int) -> torch.Tensor:
        """``count`` eigenfields that begin with the cached ones, whatever the eigensolver chooses
        within an eigenspace: a transform stays a transform in the same fields."""
        values, fields = lowest_eigenpairs(self, count, tol=EIGENFIELD_TOLERANCE, seed=0)
        if cached is None:
            return fields
        known = cached.double()
        overlap = torch.einsum("n,ndi,ndj->ij", self.mass.double(), fields, known)
        complement = torch.linalg.qr(overlap, mode="complete")[0][:, known.shape[-1] :]
        turn = torch.linalg.eigh(complement.T @ (values[:, None] * complement))[1]
        return torch.cat([known, fields @ (complement @ turn)], dim=-1)

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
            order = self.average.curve_order.long()
            return torch.zeros_like(frames).index_copy(0, order, frames)

    # Conversions.

    def to(
        self,
        device: torch.device | str | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
    ) -> Laplacian:
        """The same operator on another device or in another precision."""
        if isinstance(device, torch.dtype):
            dtype = device
            device = None
        target = self.device
        if device is not None:
            target = torch.device(device)
        precision = self.dtype
        if dtype is not None:
            precision = dtype
        if precision not in MAX_SIZES:
            raise DTypeError(f"dtype must be torch.float32 or torch.float64, got {precision!r}.")
        is_torch = self.kind.is_torch or target.type != "cpu"
        return replace(
            self,
            average=self.average.to(target, precision),
            mass=self.mass.to(target, precision),
            kind=ArrayKind(is_torch, precision, target),
        )

    def to_scipy(self) -> sparse.csr_array:
        r"""The matrix :math:`\Delta`, ``(n d, n d)``, in the user's order. Order 2 reaches
        neighbours of neighbours."""
        order = self.average.curve_order.long()
        blocks = self.average.blocks().cpu().numpy()
        columns = order[self.average.columns()].cpu().numpy()
        indptr = self.average.indptr.cpu().numpy()
        along = sparse.bsr_array((blocks, columns, indptr), shape=self.shape).tocsr()
        components = torch.arange(self.rank, device=self.device)
        places = (torch.argsort(order)[:, None] * self.rank + components).flatten()
        unit = sparse.eye_array(self.shape[0], dtype=along.dtype)
        change = sparse.csr_array(along[places.cpu().numpy()] - unit)
        *lower, last = map(along.dtype.type, self.generator.coefficients)
        total = last * change
        for coefficient in reversed(lower):
            total = coefficient * change - change @ total
        return sparse.csr_array(total)
