r"""The contract of every operator on bundle signals.

A ``LinearOperator`` maps signals ``(..., n, p, c)`` to signals ``(..., n, q, c)``, alike for each
channel: gradients and divergences are some. A ``SquareOperator``, with p = q, has functions:
:math:`\hat h(-\Delta)` is what a filter with the response :math:`\hat h` makes of
:math:`\Delta`. It evaluates banks of filters itself, by a ``Method``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
from .calibration import Generator
from .expansion import Band
from .lanczos import BOUND_MARGIN, ritz_values
from .methods import (
    EXACT_SIZE,
    MAX_DENSE_SIZE,
    Chebyshev,
    Exact,
    Method,
    method_with_gradients,
)
from .response import Response

MAX_MATRIX_ROWS = 20_000
"""Most rows of an operator's dense form."""

DECOMPOSITION_ROUNDING = 1e-6
"""What rounding leaves below zero, in units of the largest eigenvalue: some eight roundings of the
weights of an operator that is, or was, in float32."""

MAX_DENSE_ASYMMETRY = 1e-4
"""Asymmetry of a dense form, in units of its largest entry, that rounding may leave."""

MAX_PROBED_ASYMMETRY = 1e-2
"""Asymmetry of products with two random fields, in units of what products of random fields are:
rounding in float32 leaves far less."""

MIN_BAND = 1e-12
"""Least length of a band of eigenvalues: an operator that is zero has one, too."""


class LinearOperator(ABC):
    """A linear map of signals ``(..., n, p, c)`` to signals ``(..., n, q, c)`` that acts on each
    channel alike.

    A new operator supplies ``in_rank`` p, ``out_rank`` q, ``mass``, ``apply`` and ``adjoint``;
    products with arrays, the dense form and checks come from here. ``mass`` (n,) weighs the inner
    product ``<f, g> = sum_i mass_i f_i . g_i`` in which adjoints are taken. One with p = q is a
    ``SquareOperator``.
    """

    in_rank: int
    out_rank: int
    mass: torch.Tensor

    any_precision = False
    """Whether signals of any precision fit, since the operator has no numbers that they meet."""

    @abstractmethod
    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """The product with a tensor ``(..., n, p, c)``, whose values are not looked at."""

    @property
    @abstractmethod
    def adjoint(self) -> LinearOperator:
        """The adjoint in the mass inner product."""

    @property
    def num_points(self) -> int:
        return len(self.mass)

    @property
    def dtype(self) -> torch.dtype:
        return self.mass.dtype

    @property
    def device(self) -> torch.device:
        return self.mass.device

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the dense form, ``(n q, n p)``."""
        return self.num_points * self.out_rank, self.num_points * self.in_rank

    def check(self, signal: Array, name: str = "signal") -> tuple[torch.Tensor, ArrayKind]:
        """Validate a signal against this operator; returns a tensor and the kind it came in.

        Signals in float16 or bfloat16 become float32 for an operator in float32, and results are
        rounded back once: to a relative 2^-11 or 2^-8. In float16 results above 65504 overflow.
        """
        tensor, kind = self._as_tensor(signal, name)
        self.require_fit(tensor, name)
        return tensor, kind

    def _as_tensor(self, signal: Array, name: str) -> tuple[torch.Tensor, ArrayKind]:
        half = half_precision(signal)
        if half is None or not (self.dtype == torch.float32 or self.any_precision):
            return float_tensor(signal, name)
        tensor, kind = float_tensor(torch.as_tensor(signal).float(), name)
        return tensor, replace(kind, is_torch=isinstance(signal, torch.Tensor), dtype=half)

    def require_fit(self, tensor: torch.Tensor, name: str = "signal") -> None:
        """Refuse a tensor of another shape, dtype or device than the operator's input."""
        fibres = (self.num_points, self.in_rank)
        if tensor.ndim < 3 or tensor.shape[-3:-1] != fibres:
            hint = ""
            if tensor.shape[-2:] == fibres:
                hint = " Add the channel axis: signal[..., None]."
            raise ShapeError(
                f"{name} must have shape (..., n, d, channels) = (..., {fibres[0]}, {fibres[1]}, "
                f"c), got {tuple(tensor.shape)}.{hint}"
            )
        self._require_same_numbers(tensor, name)

    def _require_same_numbers(self, tensor: torch.Tensor, name: str) -> None:
        """Refuse a tensor of another dtype or device than the operator's."""
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
        """Apply the operator to a NumPy array or tensor ``(..., n, p, c)``; the same kind comes
        back."""
        tensor, kind = self.check(signal)
        return kind.wrap(self.apply(finite_where_seen(tensor, "signal")))

    def inner(self, f: Array, g: Array) -> torch.Tensor:
        """The mass inner product of two signals with fibres of one dimension, one number for each
        leading index and channel."""
        f = self._checked_field(f)
        g = self._checked_field(g)
        if f.shape[-2] != g.shape[-2]:
            raise ShapeError(
                f"signals must have fibres of one dimension, got {f.shape[-2]} and {g.shape[-2]}."
            )
        return torch.einsum("n,...ndc,...ndc->...c", self.mass.to(f.dtype), f, g)

    def norm(self, f: Array) -> torch.Tensor:
        """The mass norm of a signal, one number for each leading index and channel."""
        return self.inner(f, f).sqrt()

    def _checked_field(self, signal: Array) -> torch.Tensor:
        """A finite signal that fits the input of the operator, or its output."""
        tensor, _ = self._as_tensor(signal, "signal")
        output = (self.num_points, self.out_rank)
        if tensor.ndim >= 3 and tensor.shape[-3:-1] == output:
            self._require_same_numbers(tensor, "signal")
        else:
            self.require_fit(tensor)
        return finite_where_seen(tensor, "signal")

    def to_dense(self) -> torch.Tensor:
        """The matrix ``(n q, n p)``; refused above 20 000 rows."""
        rows, columns = self.shape
        if max(rows, columns) > MAX_MATRIX_ROWS:
            raise MemoryLimitError(
                f"a dense form would be {rows} x {columns} ({rows * columns * 8 / 1e9:.0f} GB); "
                "only small operators have one. Use to_scipy() or the operator itself."
            )
        unit = torch.eye(columns, dtype=self.dtype, device=self.device)
        images = self.apply(unit.reshape(self.num_points, self.in_rank, columns))
        return images.reshape(rows, columns)

    @cached_property
    def cache(self) -> dict:
        """Things that others compute once for this operator."""
        return {}

    def __getstate__(self) -> dict:
        """Copies and pickles leave out what is computed on demand."""
        operator_type = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(operator_type, name, None), cached_property)
        }


class SquareOperator(LinearOperator):
    r"""An operator :math:`\Delta` on signals ``(..., n, d, c)``, of which there are functions.

    A new one supplies ``rank`` d, ``mass``, ``apply`` and ``adjoint``. If it is self-adjoint in its
    mass and has no positive eigenvalues, all filters and networks run on it: by its eigenfields up
    to ``MAX_DENSE_SIZE`` rows, and otherwise by Chebyshev polynomials, which need products alone.

    It may override what it knows better:

    * ``band``, the interval of its eigenvalues, with ``chebyshev_bank`` and ``chebyshev_merge``,
      the recurrences on that band;
    * ``requires_grad``, if it depends on tensors that learn;
    * ``parts`` and ``sizes``, if it consists of independent operators;
    * ``resolve_method``, if it has a method of its own, such as a ``Semigroup`` the sum of its
      exponentials.

    >>> import torch, tangentbundle as tb
    >>> class Damping(SquareOperator):
    ...     rank = 1
    ...     mass = torch.full((3,), 1 / 3, dtype=torch.float64)
    ...
    ...     def apply(self, x):
    ...         return -2.0 * x
    ...
    ...     adjoint = property(lambda self: self)
    >>> tb.Heat(0.5)(Damping(), torch.ones(3, 1, 1, dtype=torch.float64)).ravel()
    tensor([0.3679, 0.3679, 0.3679], dtype=torch.float64)
    """

    rank: int

    has_fast_products = False
    """Whether a product costs much less than one with a dense matrix."""

    @property
    def in_rank(self) -> int:  # type: ignore[override]
        return self.rank

    @property
    def out_rank(self) -> int:  # type: ignore[override]
        return self.rank

    @property
    @abstractmethod
    def adjoint(self) -> SquareOperator: ...

    @property
    def parts(self) -> tuple[SquareOperator, ...]:
        """The independent operators that this one consists of."""
        return (self,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points of each bundle: one number, or several for the result of ``join``."""
        return (self.num_points,)

    def split(self, signal: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The signals of the bundles, from one ``(..., n, d, c)``."""
        return signal.split(self.sizes, dim=-3)

    @cached_property
    def slots(self) -> torch.Tensor:
        """Where each point lies when every part is padded to the size of the largest, ``(n,)``."""
        size = max(self.sizes)
        with torch.inference_mode(False):
            slots = [b * size + torch.arange(n) for b, n in enumerate(self.sizes)]
            return torch.cat(slots).to(self.device)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are wanted with respect to the operator itself, as of a learned
        sheaf."""
        return False

    @property
    def in_double(self) -> SquareOperator:
        """The operator whose eigenfields are used: in float64, where it can be converted."""
        return self

    # Functions of the operator.

    @threads_by_size
    def evaluate(
        self, filters: Sequence[Response], signal: Array, method: Method | None = None
    ) -> list[Array]:
        """Apply several filters to one signal ``(..., n, d, c)``, sharing all work; one output a
        filter.

        >>> import torch, tangentbundle as tb
        >>> points = tb.manifolds.Sphere(2).sample(200, seed=0)
        >>> laplacian = tb.TangentBundle.from_points(points).laplacian()
        >>> x = torch.randn(200, 2, 3, dtype=torch.float64)
        >>> [y.shape for y in laplacian.evaluate([tb.Heat(0.1), tb.Tikhonov(0.1)], x)]
        [torch.Size([200, 2, 3]), torch.Size([200, 2, 3])]
        """
        x, kind = self.check(signal)
        method = self.resolve_method(method)
        if len(filters) == 0:
            return []
        if x.ndim == 3:
            outputs = method.apply_to_parts(filters, self, x)
            return list(map(kind.wrap, outputs))
        outputs = method.apply_to_parts(filters, self, fold(x))
        return [kind.wrap(unfold(y, x.shape)) for y in outputs]

    @threads_by_size
    def merge(
        self, filters: Sequence[Response], signals: Sequence[Array], method: Method | None = None
    ) -> Array:
        """The sum of several filters, each on its own signal ``(..., n, d, c)``, sharing all work.

        The transpose of ``evaluate``: with fewer channels out than in, mixing channels first and
        merging is cheaper.

        >>> import torch, tangentbundle as tb
        >>> points = tb.manifolds.Sphere(2).sample(200, seed=0)
        >>> laplacian = tb.TangentBundle.from_points(points).laplacian()
        >>> x = torch.randn(200, 2, 3, dtype=torch.float64)
        >>> laplacian.merge([tb.Heat(0.1), tb.Tikhonov(0.1)], [x, 2 * x]).shape
        torch.Size([200, 2, 3])
        """
        method = self.resolve_method(method)
        if len(filters) == 0 or len(filters) != len(signals):
            raise InvalidInputError(
                f"one signal a filter is needed, got {len(signals)} for {len(filters)} filters."
            )
        _, kind = self.check(signals[0])
        tensors = [self.check(signal)[0] for signal in signals]
        shape = tensors[0].shape
        if any(tensor.shape != shape for tensor in tensors):
            shapes = [tuple(tensor.shape) for tensor in tensors]
            raise ShapeError(f"signals to merge must share a shape, got {shapes}.")
        y = torch.stack([fold(tensor) for tensor in tensors])
        return kind.wrap(unfold(method.merge_on_parts(filters, self, y), shape))

    def resolve_method(self, method: Method | None) -> Method:
        """The method asked for, or a default where there is none; one without the gradients that
        are wanted is refused."""
        if method is None:
            method = self.default_method()
        if not isinstance(method, Method):
            raise InvalidInputError(
                f"method must be Exact(), Dense() or Chebyshev(), got {method!r}."
            )
        if not method.has_operator_gradients and self.requires_grad and torch.is_grad_enabled():
            raise InvalidInputError(
                f"{method} has no gradients in the operator, and this {type(self).__name__} needs "
                "some: it depends on tensors that learn. Use method=Chebyshev(), or compute under "
                "torch.no_grad()."
            )
        return method

    def default_method(self) -> Method:
        """Exact for small operators, Chebyshev otherwise, and for those that learn."""
        if max(part.shape[0] for part in self.parts) > EXACT_SIZE:
            return Chebyshev()
        if self.requires_grad:
            return method_with_gradients(self)
        return Exact()

    # Chebyshev polynomials of the operator.

    @cached_property
    def band(self) -> Band:
        r"""The eigenvalues of :math:`-\Delta` on which Chebyshev polynomials are expanded."""
        return Band(Generator(2.0 / max(self._largest_eigenvalue(), MIN_BAND)))

    def _largest_eigenvalue(self) -> float:
        """An upper bound: of a small operator the eigenvalue itself, otherwise by Lanczos
        iteration."""
        if self.shape[0] <= EXACT_SIZE:
            with torch.no_grad():
                return float(self.eigenbasis[0][-1])
        self._require_self_adjoint()
        ritz = ritz_values(lambda x: -self.apply(x), self.mass, self.rank)
        largest = float(ritz.values[-1] + ritz.residuals[-1])
        margin = BOUND_MARGIN * abs(largest)
        if ritz.values[0] < -margin:
            raise InvalidInputError(
                f"{type(self).__name__} has positive eigenvalues, up to {-ritz.values[0]:.3g}, and "
                "filters are functions of minus the operator, whose eigenvalues must not be "
                "negative. Check its sign, or use operators.Negated."
            )
        return largest + margin

    def _require_self_adjoint(self) -> None:
        """Refuse an operator that is not self-adjoint, as random fields tell."""
        noise = torch.Generator().manual_seed(0)
        shape = (self.num_points, self.rank, 1)
        f = torch.randn(shape, generator=noise, dtype=torch.float64).to(self.mass)
        g = torch.randn(shape, generator=noise, dtype=torch.float64).to(self.mass)
        with torch.no_grad():
            image = self.apply(g)
            difference = self.inner(f, image) - self.inner(self.apply(f), g)
            size = self.norm(f) * self.norm(image) / self.shape[0] ** 0.5
        if float(difference.abs()) > MAX_PROBED_ASYMMETRY * float(size):
            raise InvalidInputError(self._asymmetry_message())

    def _asymmetry_message(self) -> str:
        return (
            f"{type(self).__name__} is not self-adjoint in its mass inner product, so it has no "
            "basis of eigenfields. If it is known by its exponentials, make it a Semigroup; "
            "otherwise use its self-adjoint part."
        )

    def chebyshev_bank(self, coefficients: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        r"""Outputs ``(k, n, d, c)`` of :math:`\sum_m a_{km} T_m(Z)\, x` on the ``band``;
        ``coefficients`` (k, m), x (n, d, c)."""
        previous = current = x
        total = coefficients[:, 0, None, None, None] * x
        for m in range(1, coefficients.shape[1]):
            following = self._centred(current)
            if m > 1:
                following = 2.0 * following - previous
            previous = current
            current = following
            total = total + coefficients[:, m, None, None, None] * current
        return total

    def chebyshev_merge(self, coefficients: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        r"""The sum ``(n, d, c)`` of :math:`\sum_m a_{km} T_m(Z)\, y_k`, y (k, n, d, c), by
        Clenshaw's recurrence."""
        sources = torch.einsum("km,kndc->mndc", coefficients, y)
        above = torch.zeros_like(sources[0])
        current = sources[-1]
        for m in range(len(sources) - 2, -1, -1):
            factor = 2.0 if m > 0 else 1.0
            following = sources[m] + factor * self._centred(current) - above
            above = current
            current = following
        return current

    def _centred(self, x: torch.Tensor) -> torch.Tensor:
        r"""The product with :math:`Z = I + 2\Delta/\lambda_{max}`, whose spectrum is in
        [-1, 1]."""
        return x + (2.0 / self.band.top) * self.apply(x)

    # Eigenfields.

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
            torch.inference_mode(False),  # the cache must serve training, too
            torch.no_grad(),
            outside_autocast(self.device),
        ):
            root = self.mass.double().sqrt().repeat_interleave(self.rank)
            dense = -self.to_dense().double() * root[:, None] / root
            asymmetry = float((dense - dense.T).abs().max())
            if asymmetry > MAX_DENSE_ASYMMETRY * float(dense.abs().max()):
                raise InvalidInputError(self._asymmetry_message())
            values, vectors = torch.linalg.eigh((dense + dense.T) / 2)
            fields = (vectors / root[:, None]).unflatten(0, (self.num_points, self.rank))
            return values, fields

    def require_no_gradients(self) -> None:
        """Refuse to compute eigenfields where gradients in the operator are wanted: there are
        none."""
        if self.requires_grad and torch.is_grad_enabled():
            raise InvalidInputError(
                f"eigenvalues and eigenfields have no gradients in the operator, and this "
                f"{type(self).__name__} needs some: it depends on tensors that learn. Compute them "
                "under torch.no_grad(), or filter with method=Chebyshev()."
            )

    @property
    def spectral_interval(self) -> tuple[float, float]:
        """Numbers that enclose the eigenvalues of minus the operator."""
        return 0.0, self.band.top


class Negated(SquareOperator):
    r"""Minus another self-adjoint operator. Its heat :math:`e^{-t\Delta}` amplifies noise."""

    def __init__(self, operator: SquareOperator) -> None:
        self.operator = operator
        self.mass = operator.mass
        self.rank = operator.rank

    @property
    def adjoint(self) -> Negated:
        return self

    @property
    def requires_grad(self) -> bool:
        return self.operator.requires_grad

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return -self.operator.apply(x)

    @property
    def band(self) -> Band:
        """That of the operator, with the other sign."""
        band = self.operator.band
        generator = replace(band.generator, scale=-band.generator.scale)
        return replace(band, generator=generator)

    def chebyshev_bank(self, coefficients: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.operator.chebyshev_bank(coefficients, x)

    def chebyshev_merge(self, coefficients: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.operator.chebyshev_merge(coefficients, y)

    def decompose(self) -> tuple[torch.Tensor, torch.Tensor]:
        values, fields = self.operator.decompose()
        return -values.flip(0), fields.flip(-1)

    @property
    def spectral_interval(self) -> tuple[float, float]:
        lowest, highest = self.operator.spectral_interval
        return -highest, -lowest


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
