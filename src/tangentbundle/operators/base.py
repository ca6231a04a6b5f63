"""The contract of every operator on bundle signals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property

import torch

from ..arrays import (
    Array,
    ArrayKind,
    finite_where_seen,
    float_tensor,
    half_precision,
    outside_autocast,
)
from ..errors import DeviceError, DTypeError, InvalidInputError, MemoryLimitError, ShapeError
from ..parallel import threads_by_size, threads_for

MAX_DENSE_SIZE = 5_000
"""Most rows (n d) of an operator whose full eigendecomposition is computed."""

DECOMPOSITION_ROUNDING = 1e-6
"""What rounding leaves below zero, in units of the largest eigenvalue: some eight roundings of the
weights of an operator that is, or was, in float32."""


class LinearOperator(ABC):
    """A linear map on signals ``(..., n, d, c)`` that acts on each channel alike.

    A new operator supplies ``rank``, ``mass``, ``apply`` and ``adjoint``; products with arrays, the
    dense form and checks come from here. ``mass`` (n,) weighs the inner product
    ``<f, g> = sum_i mass_i f_i . g_i`` in which adjoints are taken.
    """

    rank: int
    mass: torch.Tensor

    any_precision = False
    """Whether signals of any precision fit, since the operator has no numbers that they meet."""

    @property
    def num_points(self) -> int:
        return len(self.mass)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points of each bundle: one number, or several for the result of ``join``."""
        return (self.num_points,)

    def split(self, signal: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The signals of the bundles, from one ``(..., n, d, c)``."""
        return signal.split(self.sizes, dim=-3)

    @property
    def dtype(self) -> torch.dtype:
        return self.mass.dtype

    @property
    def device(self) -> torch.device:
        return self.mass.device

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are wanted with respect to the operator itself, as of a learned
        sheaf."""
        return False

    def require_no_gradients(self) -> None:
        """Refuse to compute eigenfields where gradients in the operator are wanted: there are
        none."""
        if self.requires_grad and torch.is_grad_enabled():
            raise InvalidInputError(
                f"eigenvalues and eigenfields have no gradients in the operator, and this "
                f"{type(self).__name__} needs some: it depends on tensors that learn. Compute them "
                "under torch.no_grad(), or filter with method=Chebyshev()."
            )

    @abstractmethod
    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """The product with a tensor ``(..., n, d, c)``, whose values are not looked at."""

    @property
    @abstractmethod
    def adjoint(self) -> LinearOperator:
        """The adjoint in the mass inner product."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the dense form, ``(n d, n d)``."""
        return (self.num_points * self.rank,) * 2

    def check(self, signal: Array, name: str = "signal") -> tuple[torch.Tensor, ArrayKind]:
        """Validate a signal against this operator; returns a tensor and the kind it came in.

        Signals in float16 or bfloat16 become float32 for an operator in float32, and results are
        rounded back once: to a relative 2^-11 or 2^-8. In float16 results above 65504 overflow.
        """
        half = half_precision(signal) if self.dtype == torch.float32 or self.any_precision else None
        tensor, kind = float_tensor(
            signal if half is None else torch.as_tensor(signal).float(), name
        )
        if half is not None:
            kind = replace(kind, is_torch=isinstance(signal, torch.Tensor), dtype=half)
        self.require_fit(tensor, name)
        return tensor, kind

    def require_fit(self, tensor: torch.Tensor, name: str = "signal") -> None:
        """Refuse a tensor of another shape, dtype or device than the operator's."""
        n, d = self.num_points, self.rank
        if tensor.ndim < 3 or tensor.shape[-3:-1] != (n, d):
            hint = (
                " Add the channel axis: signal[..., None]." if tensor.shape[-2:] == (n, d) else ""
            )
            raise ShapeError(
                f"{name} must have shape (..., n, d, channels) = (..., {n}, {d}, c), got "
                f"{tuple(tensor.shape)}.{hint}"
            )
        if tensor.dtype != self.dtype and not self.any_precision:
            raise DTypeError(
                f"{name} is {tensor.dtype} but the operator is {self.dtype}; they are never mixed "
                f"silently. Convert one: operator.to(dtype=...), or the {name} itself."
            )
        if tensor.device != self.device:
            raise DeviceError(
                f"{name} is on {tensor.device} but the operator is on {self.device}. Move one: "
                f"operator.to({str(tensor.device)!r}), or {name}.to({str(self.device)!r})."
            )

    @threads_by_size
    def __matmul__(self, signal: Array) -> Array:
        """Apply the operator to a NumPy array or tensor ``(..., n, d, c)``; the same kind comes
        back."""
        tensor, kind = self.check(signal)
        return kind.wrap(self.apply(finite_where_seen(tensor, "signal")))

    def inner(self, f: Array, g: Array) -> torch.Tensor:
        """The mass inner product of two signals, one number for each leading index and channel."""
        f, g = (finite_where_seen(self.check(signal)[0], "signal") for signal in (f, g))
        return torch.einsum("n,...ndc,...ndc->...c", self.mass.to(f.dtype), f, g)

    def norm(self, f: Array) -> torch.Tensor:
        """The mass norm of a signal, one number for each leading index and channel."""
        return self.inner(f, f).sqrt()

    def to_dense(self) -> torch.Tensor:
        """The matrix ``(n d, n d)``; refused above 20 000 rows."""
        rows, size = self.shape
        if max(rows, size) > 20_000:
            raise MemoryLimitError(
                f"a dense form would be {rows} x {size} ({rows * size * 8 / 1e9:.0f} GB); only "
                "small operators have one. Use to_scipy() or the operator itself."
            )
        eye = torch.eye(size, dtype=self.dtype, device=self.device)
        return self.apply(eye.reshape(self.num_points, self.rank, size)).reshape(rows, size)

    @cached_property
    def cache(self) -> dict:
        """Things that others compute once for this operator."""
        return {}

    def __getstate__(self) -> dict:
        """Copies and pickles leave out what is computed on demand."""
        kind = type(self)
        return {
            name: v
            for name, v in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    @cached_property
    def eigenbasis(self) -> tuple[torch.Tensor, torch.Tensor]:
        """``decompose()`` computed once and cached, in float64, for those who want no gradients in
        the operator."""
        with torch.no_grad():
            return self.decompose()

    def decompose(self) -> tuple[torch.Tensor, torch.Tensor]:
        """All eigenvalues of minus the operator ``(n d,)``, ascending, and mass-orthonormal fields
        ``(n, d, n d)``.

        For small self-adjoint operators; in float64. Negative eigenvalues, of rounding or of a
        Hodge Laplacian, are zero: responses of filters may not be defined there.
        """
        values, fields = self.signed_eigenpairs()
        # Where rounding has left the lowest eigenvalue below zero, all are shifted: a multiple of
        # the identity is local, and to clip one of them would add its field to all outputs.
        if values[0] >= -DECOMPOSITION_ROUNDING * values[-1]:
            values = values - values[0].clamp_max(0.0)
        return values.clamp_min(0.0), fields

    def signed_eigenpairs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of ``decompose`` as they are, also where they are negative."""
        self.require_no_gradients()
        rows = self.shape[0]
        if rows > MAX_DENSE_SIZE:
            raise MemoryLimitError(
                f"a full eigendecomposition of {rows} rows is too large (limit {MAX_DENSE_SIZE}). "
                "Use spectrum(k), or method=Chebyshev() for filters."
            )
        with (
            threads_for(rows**2),
            torch.inference_mode(False),
            torch.no_grad(),
            outside_autocast(self.device),
        ):  # the cache must serve training, too
            root = self.mass.double().sqrt().repeat_interleave(self.rank)
            dense = -self.to_dense().double() * root[:, None] / root
            if float((dense - dense.T).abs().max()) > 1e-4 * float(dense.abs().max()):
                raise InvalidInputError(
                    f"{type(self).__name__} is not self-adjoint in its mass inner product, so it "
                    "has no basis of eigenfields. If it is known by its exponentials, make it a "
                    "Semigroup; otherwise use its self-adjoint part."
                )
            values, vectors = torch.linalg.eigh((dense + dense.T) / 2)
            fields = (vectors / root[:, None]).unflatten(0, (self.num_points, self.rank))
            return values, fields

    @property
    def spectral_interval(self) -> tuple[float, float]:
        """Numbers that enclose the eigenvalues of minus the operator."""
        values = self.eigenbasis[0]
        return 0.0, max(float(values[-1]), 1e-12)


class Negated(LinearOperator):
    r"""Minus a small self-adjoint operator; filters by eigenfields. Its heat :math:`e^{-t\Delta}`
    amplifies noise."""

    def __init__(self, operator: LinearOperator) -> None:
        self.operator, self.mass, self.rank = operator, operator.mass, operator.rank

    @property
    def adjoint(self) -> Negated:
        return self

    @property
    def requires_grad(self) -> bool:
        return self.operator.requires_grad

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return -self.operator.apply(x)

    def decompose(self) -> tuple[torch.Tensor, torch.Tensor]:
        values, fields = self.operator.decompose()
        return -values.flip(0), fields.flip(-1)
