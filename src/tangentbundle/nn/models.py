r"""Tangent bundle neural networks.

.. math:: X_{l+1} = \sigma\Big(\sum_{k=0}^{K-1} (e^{T_s\Delta})^k X_l H_{l,k}\Big).

One class, several systems: on the Laplacian of a tangent bundle it is the paper's DD-TNN, on that of the scalar bundle
a manifold (graph) network, MNN, on the identity a perceptron, MLP.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise

import torch

from ..arrays import whole
from ..errors import InvalidInputError
from ..filters import Filter, LowpassNonAmplifying, Method
from ..operators import LinearOperator
from .activations import Activation, Bias, Linear, NormTanh
from .base import Configured, checked, generator, part, seeded, widths
from .conv import BundleConv, Learnable, with_parameters


class TNNLayer(Configured):
    """A bank of filters, an optional bias and residual, and a nonlinearity."""

    def __init__(self, conv: BundleConv, activation: Activation, bias: Bias | None = None, residual: bool = False):
        super().__init__()
        self.conv, self.activation, self.bias = conv, activation, bias
        self.residual = residual

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        y = self.conv(x, operator)
        if self.bias is not None:
            y = self.bias(y, operator)
        y = self.activation(y, operator)
        return x + y if self.residual else y


class TNN(Configured):
    r"""A network on signals ``(..., n, d, channels[0])`` with outputs ``(..., n, d, channels[-1])``.

    Args:
        channels: widths, input first: ``[1, 8, 4, 1]`` is the paper's.
        taps: K, counted from the identity tap k = 0.
        step: sampling interval :math:`T_s`, or ``Learnable()``.
        filters: instead of taps and step, the filters of every layer (a D-TNN); each learns its own copy of their
            parameters.
        constraint: ``LowpassNonAmplifying()``, for training under the assumptions of the paper's theorem.
        activation: nonlinearity of the hidden layers, default ``NormTanh()``, which depends on no frames; the paper's
            experiments use ``Coordinatewise(torch.tanh)``.
        output: nonlinearity of the last layer, default none.
        bias: of the hidden layers: ``RadialBias()`` (any bundle) or ``ConstantBias()`` (scalar bundles).
        residual: add the input to the output of every layer that keeps the number of channels.
        readout: an ``InvariantReadout``, for numbers or classes instead of fields.
        method: how filters are evaluated; by default the operator's size decides.
        seed: of the initial weights.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(torch.from_numpy(tb.manifolds.Torus().sample(400, seed=0)).float())
    >>> net = tb.nn.TNN(channels=[1, 8, 4, 1], taps=2)
    >>> net.num_parameters, net(torch.randn(400, 2, 1), bundle.laplacian()).shape
    (88, torch.Size([400, 2, 1]))
    """

    def __init__(
        self,
        channels: Sequence[int],
        taps: int = 2,
        *,
        step: float | Learnable = 1.0,
        filters: Sequence[Filter] | None = None,
        constraint: LowpassNonAmplifying | None = None,
        activation: Activation | None = None,
        output: Activation | None = None,
        bias: Bias | None = None,
        residual: bool = False,
        readout: InvariantReadout | None = None,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        channels, source = widths(channels, least=2), generator(seed)
        hidden = part(activation, NormTanh(), Activation, "NormTanh() or Coordinatewise(torch.tanh)")
        final = part(output, Linear(), Activation, "NormTanh() or Coordinatewise(torch.tanh)")
        bias, residual = part(bias, None, Bias, "RadialBias()"), part(residual, False, bool, "residual=True")
        if constraint is not None and residual:
            raise InvalidInputError("a residual adds an identity, which is not lowpass: use constraint or residual.")
        last = len(channels) - 2
        self.layers = torch.nn.ModuleList()
        for level, (wide, high) in enumerate(pairwise(channels)):
            act, bank = hidden if level < last else final, with_parameters(filters, copy.deepcopy)
            self.layers.append(
                TNNLayer(
                    BundleConv(wide, high, taps, step, filters=bank, constraint=constraint, method=method, seed=source),
                    act.sized(high),
                    None if bias is None or level == last else bias.sized(high),
                    residual and wide == high,
                )
            )
        self.readout = part(readout, None, InvariantReadout, "InvariantReadout(8, outputs=3)")

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        first: BundleConv = self.layers[0].conv  # type: ignore[assignment]
        x = checked(x, operator, first.in_channels, first.weight)
        for layer in self.layers:
            x = layer(x, operator)
        return x if self.readout is None else self.readout(x, operator)


class InvariantReadout(Configured):
    r"""Numbers from fields, independent of frames: lengths and inner products of channels through a small perceptron.

    At each point the Gram matrix :math:`G_i = f_i^T f_i` of the channels goes through a layer of ``hidden`` units;
    with ``pool`` these are averaged over each cloud (in the mass, so that the sampling density does not matter);
    a second layer gives the ``outputs``: ``(..., n, outputs)`` without pooling, ``(..., clouds, outputs)`` with it.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(200, seed=0).astype("float32")).laplacian()
    >>> net = tb.nn.TNN([1, 8], readout=tb.nn.InvariantReadout(8, outputs=3))
    >>> net(torch.randn(200, 2, 1), tb.join([lap])).shape
    torch.Size([1, 3])
    """

    def __init__(
        self, channels: int, outputs: int, hidden: int = 16, *, pool: bool = True, seed: int | torch.Generator = 0
    ) -> None:
        super().__init__()
        source = generator(seed)
        self.channels, self.pool = whole(channels, "channels"), part(pool, True, bool, "pool=True")
        pairs, middle = self.channels * (self.channels + 1) // 2, whole(hidden, "hidden")
        self.first = seeded(torch.nn.Linear, pairs, middle, source=source)
        self.second = seeded(torch.nn.Linear, middle, whole(outputs, "outputs"), source=source)

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        x = checked(x, operator, self.channels, self.first.weight)
        gram = x.transpose(-1, -2) @ x
        rows, columns = torch.triu_indices(self.channels, self.channels, device=x.device)
        features = torch.relu(self.first(gram[..., rows, columns]))
        if self.pool:
            features = cloud_means(features, operator)
        return self.second(features)


def cloud_means(features: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
    """Means over the points of each bundle, ``(..., n, f)`` to ``(..., clouds, f)``, weighted by the mass."""
    sizes = torch.tensor(operator.sizes, device=features.device)
    cloud = torch.repeat_interleave(torch.arange(len(sizes), device=features.device), sizes)
    total = operator.mass.new_zeros(len(sizes)).index_add(0, cloud, operator.mass)
    weights = (operator.mass / total[cloud])[:, None]
    sums = features.new_zeros((*features.shape[:-2], len(sizes), features.shape[-1]))
    return sums.index_add(-2, cloud, features * weights)
