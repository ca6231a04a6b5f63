r"""Filters that learn: modules with a frequency response, whose parameters a layer trains.

Times are positive numbers :math:`\mathrm{softplus}(a)` of free parameters a. Far below one that is
:math:`e^a`: a step of an optimiser changes a short time by a share of itself, and none makes it
negative. The responses are

* ``LearnedHeat``: :math:`e^{-t\lambda}`, heat flow for a time;
* ``HeatSum``: :math:`\sum_k w_k\, e^{-t_k\lambda}`, impulses at some times;
* ``DecaySum``: :math:`\sum_k w_k / (1 + \tau_k\lambda)`, a sum of exponential decays;
* ``RationalFilter``: :math:`g \prod_j (1 + b_j\lambda) \big/ \prod_k (1 + a_k\lambda)`;
* ``ImpulseNetwork``: the Laplace transform of a small network.

Each bounds its own gain, so that a layer can be kept from amplifying (``constraints``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from ..arrays import positive, positive_integer
from ..errors import InvalidInputError
from ..filters import Filter, Impulses
from ..filters.responses import quadrature
from .base import Configured, generator, linear_layer

MAX_STEEPNESS = 1000.0
"""Times of an ``ImpulseNetwork`` are logarithmic from this part of its horizon on, and linear
below."""


class Positive(torch.nn.Module):
    r"""Positive numbers ``(k,)`` that learn: :math:`\mathrm{softplus}(a)` of free ones, which begin
    at given values.

    >>> Positive([0.5, 2.0], "times")().detach().round(decimals=6).tolist()
    [0.5, 2.0]
    """

    def __init__(self, values: Sequence[float], name: str) -> None:
        super().__init__()
        numbers = [positive(value, f"every number in {name}") for value in _listed(values, name)]
        exact = torch.tensor(numbers, dtype=torch.float64)
        free = exact + torch.log(-torch.expm1(-exact))  # the inverse of softplus
        self.free = torch.nn.Parameter(free.to(torch.get_default_dtype()))

    def forward(self) -> torch.Tensor:
        """The numbers, in float64."""
        return F.softplus(self.free.double())


def _listed(values: Sequence[float], name: str) -> list[float]:
    """A list of numbers, not empty."""
    if isinstance(values, str) or not hasattr(values, "__iter__") or len(list(values)) == 0:
        raise InvalidInputError(f"{name} must be a list of numbers, got {values!r}.")
    return list(values)


def _weights(values: Sequence[float] | None, count: int) -> torch.nn.Parameter:
    """Weights that learn, which begin at given values, or as a mean."""
    if values is None:
        values = [1.0 / count] * count
    numbers = [float(value) for value in _listed(values, "weights")]
    if len(numbers) != count:
        raise InvalidInputError(f"{count} times need as many weights, got {len(numbers)}.")
    return torch.nn.Parameter(torch.tensor(numbers))


class LearnableFilter(Filter, Configured):
    """A filter that is a ``torch.nn.Module``: layers train its parameters, and files hold them.

    Derive from it for filters of your own: make the parameters in the constructor, and define
    ``evaluate``, the response at a float64 tensor of eigenvalues. Define ``gain_bound``, too, for
    layers that must not amplify.

    >>> import torch, tangentbundle as tb
    >>> class Damped(tb.nn.LearnableFilter):
    ...     def __init__(self, time):
    ...         super().__init__()
    ...         self.time = tb.nn.Positive([time], "time")
    ...
    ...     def evaluate(self, lam):
    ...         return 1 / (1 + self.time() * lam) ** 2
    >>> tb.nn.TNN([1, 4, 1], filters=[tb.Heat(0.0), Damped(0.1)]).num_parameters
    18
    """

    def parameters(self, recurse: bool = True) -> list[torch.Tensor]:  # type: ignore[override]
        """The parameters of the module."""
        return list(Configured.parameters(self, recurse))


class LearnedHeat(LearnableFilter):
    r"""Heat flow for a time that is learned, :math:`e^{t\Delta}`.

    >>> import tangentbundle as tb
    >>> float(tb.nn.LearnedHeat(0.5).response([2.0])[0].round(4))
    0.3679
    """

    def __init__(self, time: float) -> None:
        super().__init__()
        self.times = Positive([time], "time")

    def impulses(self) -> Impulses:
        times = self.times()
        return Impulses(times, torch.ones_like(times))

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return torch.exp(-self.times() * lam)


class HeatSum(LearnableFilter):
    r"""A sum of heat flows whose times and weights are learned,
    :math:`\sum_k w_k\, e^{t_k\Delta}`.

    Args:
        times: at the start, positive.
        weights: at the start, by default all alike with sum one.

    >>> import tangentbundle as tb
    >>> filter = tb.nn.HeatSum(tb.filters.geometric_times(4, 0.01, 1.0))
    >>> filter.is_nonamplifying(), filter.is_lowpass()
    (True, True)
    """

    def __init__(self, times: Sequence[float], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        self.times = Positive(times, "times")
        self.weights = _weights(weights, len(self.times.free))

    def impulses(self) -> Impulses:
        return Impulses(self.times(), self.weights.double())

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return torch.exp(-lam[..., None] * self.times()) @ self.weights.double()


class DecaySum(LearnableFilter):
    r"""A sum of exponential decays whose times and weights are learned.

    .. math:: \tilde h(t) = \sum_k \frac{w_k}{\tau_k}\, e^{-t/\tau_k}, \qquad
              \hat h(\lambda) = \sum_k \frac{w_k}{1 + \tau_k \lambda}

    Args:
        times, weights: as of ``HeatSum``.

    >>> import tangentbundle as tb
    >>> float(tb.nn.DecaySum([0.5], [2.0]).response([2.0])[0].round(4))
    1.0
    """

    def __init__(self, times: Sequence[float], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        self.times = Positive(times, "times")
        self.weights = _weights(weights, len(self.times.free))

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return (1 / (1 + lam[..., None] * self.times())) @ self.weights.double()

    def gain_bound(self) -> torch.Tensor:
        return self.weights.double().abs().sum()


class RationalFilter(LearnableFilter):
    r"""A rational response, :math:`g \prod_j (1 + b_j\lambda) \big/ \prod_k (1 + a_k\lambda)`.

    The times a of the denominator are positive, so that there are no poles; those of the numerator,
    b, and the factor g are free: a negative one has a zero at the eigenvalue :math:`-1/b_j`. With
    two times fewer in the numerator the filter is lowpass.

    Args:
        denominator, numerator: times a and b at the start; at most as many in the numerator.
        factor: g at the start.

    >>> import tangentbundle as tb
    >>> band = tb.nn.RationalFilter(denominator=[0.1, 0.2, 0.3], numerator=[-1.0])
    >>> float(band.response([1.0])[0]), band.is_lowpass()
    (0.0, True)
    """

    def __init__(
        self, denominator: Sequence[float], numerator: Sequence[float] = (), factor: float = 1.0
    ) -> None:
        super().__init__()
        self.denominator = Positive(denominator, "denominator")
        zeros = [float(value) for value in numerator]
        if len(zeros) > len(self.denominator.free):
            raise InvalidInputError(
                f"a numerator of {len(zeros)} times over a denominator of "
                f"{len(self.denominator.free)} grows without bound. Give more to the denominator."
            )
        self.numerator = torch.nn.Parameter(torch.tensor(zeros))
        self.factor = torch.nn.Parameter(torch.tensor(float(factor)))

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        above = (1 + lam[..., None] * self.numerator.double()).prod(dim=-1)
        below = (1 + lam[..., None] * self.denominator()).prod(dim=-1)
        return self.factor.double() * above / below

    def gain_bound(self) -> torch.Tensor:
        r"""The product of the bounds :math:`\max(1, |b_j|/a_j)` of its factors."""
        lags = self.denominator()[: len(self.numerator)]
        ratios = self.numerator.double().abs() / lags
        return self.factor.double().abs() * ratios.clamp_min(1.0).prod()


class ImpulseNetwork(LearnableFilter):
    r"""An impulse response that is a small network, on [0, horizon].

    .. math:: \tilde h(t) = \frac{t}{T^2}\, \nu\Big(
              \frac{\log(1 + ct/T)}{\log(1 + c)}\Big), \qquad
              \hat h(\lambda) = \int_0^T \tilde h(t)\, e^{-t\lambda}\, dt,

    with a perceptron :math:`\nu` of one hidden layer, the horizon T and c = 1000, so that it sees
    short times as well as long ones. It begins at zero, :math:`\tilde h(0) = 0`, and is lowpass
    therefore. The integral is a sum over fixed times.

    Args:
        horizon: T, the longest time.
        width: units of the hidden layer.
        seed: of the initial weights.

    >>> import tangentbundle as tb
    >>> filter = tb.nn.ImpulseNetwork(horizon=1.0)
    >>> filter.is_lowpass(), len(filter.parameters())
    (True, 4)
    """

    def __init__(self, horizon: float, width: int = 16, *, seed: int | torch.Generator = 0) -> None:
        super().__init__()
        self.horizon = positive(horizon, "horizon")
        source = generator(seed)
        self.first = linear_layer(1, positive_integer(width, "width"), source)
        self.second = linear_layer(width, 1, source)

    def impulses(self) -> Impulses:
        times, weights = quadrature(self.horizon, splits=1)
        device = self.first.weight.device
        shares = times.to(device) / self.horizon
        places = torch.log1p(MAX_STEEPNESS * shares) / torch.tensor(1 + MAX_STEEPNESS).log()
        hidden = torch.tanh(_affine(self.first, places[:, None]))
        heights = shares * _affine(self.second, hidden)[:, 0] / self.horizon
        return Impulses(times.to(device), weights.to(device) * heights)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        times, weights = self.impulses()
        return torch.exp(-lam[..., None] * times.to(lam.device)) @ weights.to(lam.device)


def _affine(layer: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """A linear layer in float64, whatever the precision of its weights."""
    return F.linear(x, layer.weight.double(), layer.bias.double())
