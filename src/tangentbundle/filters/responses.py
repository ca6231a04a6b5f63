"""The filters: heat, finite and continuous impulse responses, polynomials, and any function of the
eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from ..arrays import Array, finite, positive, positive_integer
from ..errors import InvalidInputError
from ..operators import SquareOperator
from ..operators.methods import Method
from ..transforms import is_batched, is_seen
from .base import (
    Filter,
    Impulses,
    Parametric,
    as_double,
    half_line,
    nonnegative_scalar,
    positive_scalar,
    vector,
)
from .identification import check_examples, identify, mean_frequency

PANEL_POINTS = 12
"""Gauss-Legendre points of a panel."""

OCTAVES = 40
"""Octaves below the horizon: the smallest panel is a tenth of a millionth of a millionth of it."""

MAX_NUMBERS_AT_ONCE = 4096
"""Eigenvalues whose exponentials are formed together."""

MAX_QUADRATURE_CHANGE = 1e-7
"""Relative change of the sums with half the panels up to which a rule is accepted."""

DECAYED = 1e-14
"""Share of its largest value below which an impulse response has decayed."""


@half_line("t")
@dataclass(eq=False)
class Heat(Parametric):
    r"""Heat flow for a time t: :math:`e^{t\Delta}`, response :math:`e^{-t\lambda}`.

    ``t`` may be a tensor to learn, which acts by its absolute value: times stay at least zero.

    >>> import tangentbundle as tb
    >>> str(tb.Heat(0.5).properties((0.0, 100.0)))
    'lowpass: yes, Lipschitz constant 0.5, largest gain 1 (non-amplifying) on eigenvalues ...'
    """

    t: Any
    checks = (nonnegative_scalar,)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return torch.exp(-self.t * lam)

    def impulses(self) -> Impulses:
        t = as_double(self.t)[None]
        return Impulses(t, torch.ones_like(t))


def geometric_times(count: int, shortest: float, longest: float) -> list[float]:
    """Times that grow by a constant factor, for filters that see small features and large ones.

    Multiples of one step need the right step: where it is short all times are short, and where it
    is long all but the first are long.

    >>> import tangentbundle as tb
    >>> [round(time, 6) for time in geometric_times(3, 0.01, 1.0)]
    [0.01, 0.1, 1.0]
    >>> taps = [tb.Heat(time) for time in (0.0, *geometric_times(3, 0.01, 1.0))]
    >>> tb.nn.TNN([1, 8, 1], filters=taps).num_parameters
    64
    """
    count = positive_integer(count, "count")
    shortest = positive(shortest, "shortest")
    longest = positive(longest, "longest")
    if count == 1:
        return [longest]
    return np.geomspace(shortest, longest, count).tolist()


@half_line("step")
@dataclass(eq=False)
class FIR(Parametric):
    r"""The discretised filter of the paper: :math:`\sum_{k=0}^{K-1} h_k\, e^{k T_s \Delta}`.

    ``coefficients`` :math:`h_0, \dots, h_{K-1}` start with the identity tap, as in the paper's
    text; ``step`` is :math:`T_s`. Both may be tensors to learn; the step acts by its absolute
    value. ``FIR.from_examples`` finds the coefficients that make given outputs of given inputs.

    >>> import tangentbundle as tb
    >>> h = tb.FIR([0.5, 0.3, 0.2], step=0.05)
    >>> h.is_lowpass(), h.is_nonamplifying(), round(h.lipschitz(), 6)
    (False, True, 0.035)
    """

    coefficients: Any
    step: Any = 1.0
    checks = (vector, positive_scalar)

    @classmethod
    def from_examples(
        cls,
        operator: SquareOperator,
        inputs: Array,
        outputs: Array,
        taps: int = 3,
        *,
        step: float | torch.Tensor | None = None,
        method: Method | None = None,
    ) -> FIR:
        r"""The filter that explains examples: the taps minimise
        :math:`\sum_m \| h(\Delta) x_m - y_m \|^2`.

        Inputs and outputs are signals ``(..., n, d, c)``, all of them examples of one filter; see
        ``filters.identify`` for coefficients of each batch. The coefficients are differentiable in
        inputs, outputs, step and operator: a network may identify a filter from the fields that it
        sees. They follow the outputs freely: the filter may amplify what the examples do not show.

        Args:
            taps: K, the number of coefficients.
            step: :math:`T_s`; by default one over the mean eigenvalue of the inputs,
                :math:`\langle x, -\Delta x \rangle / \langle x, x \rangle`, which follows the units
                of the operator.
            method: how the heat flows are evaluated; by default the operator's size decides.

        >>> import numpy as np, tangentbundle as tb
        >>> points = tb.manifolds.Sphere(2).sample(200, seed=0)
        >>> laplacian = tb.TangentBundle.from_points(points).laplacian()
        >>> x = np.random.default_rng(0).normal(size=(4, 200, 2, 1))
        >>> y = tb.FIR([0.5, 0.3, 0.2], step=0.05)(laplacian, x)
        >>> tb.FIR.from_examples(laplacian, x, y, step=0.05).coefficients.numpy().round(6).tolist()
        [0.5, 0.3, 0.2]
        """
        count = positive_integer(taps, "taps")
        if step is None:
            step = 1.0 / mean_frequency(operator, inputs).detach()
        step = positive_scalar(step, "step")
        flows = [Heat(tap * step) for tap in range(count)]
        signal, target = check_examples(operator, inputs, outputs)
        examples = signal.flatten(end_dim=-4)
        targets = target.flatten(end_dim=-4)
        return cls(identify(operator, flows, examples, targets, method), step)

    def impulses(self) -> Impulses:
        h = as_double(self.coefficients)
        return Impulses(torch.arange(len(h), dtype=h.dtype, device=h.device) * self.step, h)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        shift = torch.exp(-self.step * lam)
        total = torch.zeros_like(shift)
        for h in reversed(self.coefficients):
            total = total * shift + h
        return total


def quadrature(horizon: float, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Times and weights on [0, horizon]: Gauss-Legendre panels, ``splits`` in each octave."""
    octaves = horizon * np.concatenate([[0.0], 2.0 ** np.arange(-float(OCTAVES), 1.0)])
    starts = [np.linspace(a, b, splits + 1)[:-1] for a, b in pairwise(octaves)]
    edges = np.concatenate([*starts, [horizon]])
    points, weights = np.polynomial.legendre.leggauss(PANEL_POINTS)
    half = np.diff(edges) / 2
    middle = (edges[1:] + edges[:-1]) / 2
    times = torch.from_numpy((middle[:, None] + half[:, None] * points).ravel())
    return times, torch.from_numpy((half[:, None] * weights).ravel())


class FunctionFilter(Filter):
    """A filter defined by a function of tensors: a Python function, or a ``torch.nn.Module``, which
    can be learned."""

    function: Callable[[torch.Tensor], torch.Tensor]

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; the function must be one."""
        if name == "function" and not callable(value):
            raise InvalidInputError(
                f"{type(self).__name__} takes a function of a tensor of numbers, got {value!r}."
            )
        super().__setattr__(name, value)

    def parameters(self) -> list[torch.Tensor]:
        """Those of a module; what a Python function holds is not known."""
        if isinstance(self.function, torch.nn.Module):
            return list(self.function.parameters())
        return []

    def call(self, numbers: torch.Tensor) -> torch.Tensor:
        """The function of float64 numbers; a module in another precision is evaluated in float64
        all the same."""
        if not isinstance(self.function, torch.nn.Module):
            return self.function(numbers)
        converted = {}
        for name, tensor in [*self.function.named_parameters(), *self.function.named_buffers()]:
            if tensor.is_floating_point() and tensor.dtype != torch.float64:
                converted[name] = tensor.double()
        if not converted:
            return self.function(numbers)
        return functional_call(self.function, converted, (numbers,))


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Times and weights of a rule, and the values of the function for which it was chosen."""

    times: torch.Tensor
    weights: torch.Tensor
    values: torch.Tensor


@dataclass(eq=False)
class ImpulseResponse(FunctionFilter):
    r"""A continuous impulse response :math:`\tilde h(t)`, by quadrature on [0, horizon].

    ``function`` takes and gives torch tensors; a ``torch.nn.Module`` is learned where a layer has
    the filter, and saved with it. Gauss-Legendre panels shrink towards t = 0, so that responses at
    large eigenvalues are as exact as at small ones. Without a ``horizon`` it is where the function
    has decayed to 1e-14 of its largest value; a function that does not decay needs one. The
    quadrature follows a function that changes, but on a GPU and in replicas: give a horizon there.

    >>> import numpy as np, torch, tangentbundle as tb
    >>> g = tb.ImpulseResponse(lambda t: t * torch.exp(-t))
    >>> bool(np.allclose(g.response(np.array([0.0, 3.0])), [1.0, 1 / 16], rtol=1e-9))
    True
    """

    function: Callable[[torch.Tensor], torch.Tensor]
    horizon: float | None = None
    _rule: Quadrature | None = field(init=False, repr=False, compare=False, default=None)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the function or the horizon, checked; the quadrature is chosen anew when it is
        needed."""
        if name == "horizon" and value is not None:
            value = float(positive_scalar(value, name))
        super().__setattr__(name, value)
        if name in ("function", "horizon"):
            super().__setattr__("_rule", None)

    def __post_init__(self) -> None:
        if not any(p.is_meta for p in self.parameters()):  # as while a network is read from a file
            self._rule = self._choose_rule()

    def _choose_rule(self) -> Quadrature:
        """The coarsest rule that follows the function as it is now."""
        horizon = self.horizon
        if horizon is None:
            horizon = self._decay()
        for splits in (4, 8, 16, 32):
            coarse = self._quadrature(horizon, splits)
            fine = self._quadrature(horizon, 2 * splits)
            coarse_sums = (coarse.weights * coarse.values).reshape(OCTAVES + 1, -1).sum(1)
            terms = (fine.weights * fine.values).reshape(OCTAVES + 1, -1)
            finite(terms, "the impulse response")
            change = (coarse_sums - terms.sum(1)).abs().sum()
            if change <= MAX_QUADRATURE_CHANGE * terms.abs().sum():
                return fine
        raise InvalidInputError(
            f"quadrature does not follow this impulse response on [0, {horizon:.4g}]: it jumps or "
            "oscillates. End the horizon at a jump, add several impulse responses, or use FIR."
        )

    def _quadrature(self, horizon: float, splits: int) -> Quadrature:
        times, weights = quadrature(horizon, splits)
        times = times.to(self._device())
        return Quadrature(times, weights.to(self._device()), self._values(times).detach())

    def _device(self) -> torch.device:
        for parameter in self.parameters():
            return parameter.device
        return torch.device("cpu")

    def _values(self, times: torch.Tensor) -> torch.Tensor:
        values = torch.as_tensor(self.call(times), dtype=times.dtype, device=times.device)
        return values.expand(times.shape)

    def _decay(self) -> float:
        grid = torch.logspace(-12, 8, 2001, dtype=torch.float64, device=self._device())
        size = self._values(grid).detach().abs()
        finite(size, "the impulse response")
        alive = torch.nonzero(size > DECAYED * size.max())
        if len(alive) == 0 or int(alive[-1]) == len(grid) - 1:
            raise InvalidInputError(
                "this impulse response does not decay (or is zero); give horizon=..."
            )
        return float(grid[int(alive[-1]) + 1])

    def impulses(self) -> Impulses:
        rule = self._rule
        if rule is None:
            rule = self._choose_rule()
        values = self._values(rule.times)
        if is_batched(values):
            if self.horizon is None:
                raise InvalidInputError(
                    "an impulse response that differs between replicas needs a horizon: "
                    "ImpulseResponse(module, horizon=...)."
                )
        elif is_seen(values) and not torch.equal(values, rule.values):
            rule = self._choose_rule()
            values = self._values(rule.times)
        self._rule = rule
        return Impulses(rule.times, rule.weights * values)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        impulses = self.impulses()
        times = impulses.times.to(lam.device)
        weights = impulses.weights.to(lam.device)
        blocks = lam.reshape(-1).split(MAX_NUMBERS_AT_ONCE)
        sums = [torch.exp(-block[:, None] * times) @ weights for block in blocks]
        return torch.cat(sums).reshape(lam.shape)


@dataclass(eq=False)
class Polynomial(Parametric):
    r"""The paper's alternative algebra: :math:`\sum_k h_k \Delta^k`, response
    :math:`\sum_k h_k (-\lambda)^k`.

    (The paper writes the response with :math:`\lambda^k`; the sign follows from
    :math:`\Delta \Phi = -\lambda \Phi`.)

    >>> import tangentbundle as tb
    >>> float(tb.Polynomial([1.0, -0.2]).response([3.0])[0])
    1.6
    """

    coefficients: Any
    checks = (vector,)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(lam)
        for h in reversed(self.coefficients):
            total = h - lam * total
        return total


@dataclass(eq=False)
class Spectral(FunctionFilter):
    r"""Any response, as a torch function of :math:`\lambda`.

    A function that is a ``torch.nn.Module`` is learned where a layer has the filter, and saved with
    it; it maps a tensor of eigenvalues to one of the same shape. ``tensors`` lists what another
    function learns, outside of layers.

    >>> import torch, tangentbundle as tb
    >>> bool(tb.Spectral(lambda lam: 1 / (1 + lam) ** 2).is_lowpass())
    True
    """

    function: Callable[[torch.Tensor], torch.Tensor]
    name: str = "Spectral"
    tensors: tuple[torch.Tensor, ...] = ()

    def __repr__(self) -> str:
        return self.name

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        output = self.call(lam)
        refusal = InvalidInputError(
            f"the function of {self} must return a real number for each of the {lam.numel()} "
            f"eigenvalues, got {output!s:.80}."
        )
        try:
            values = torch.as_tensor(output, device=lam.device).expand(lam.shape)
        except (TypeError, ValueError, RuntimeError) as error:
            raise refusal from error
        if values.is_complex():
            raise refusal
        return values.to(lam.dtype)

    def parameters(self) -> list[torch.Tensor]:
        return [*super().parameters(), *self.tensors]


@half_line("strength")
@dataclass(eq=False)
class Tikhonov(Parametric):
    r"""The smoother :math:`1/(1 + a\lambda)`: minimises
    :math:`|y - x|^2 + a \langle y, -\Delta y \rangle`.

    ``strength`` a may be a tensor to learn, which acts by its absolute value.

    >>> import tangentbundle as tb
    >>> float(tb.Tikhonov(0.5).response([2.0])[0])
    0.5
    """

    strength: Any
    checks = (nonnegative_scalar,)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return 1 / (1 + self.strength * lam)

    def gain_bound(self) -> torch.Tensor:
        return torch.ones((), dtype=torch.float64)
