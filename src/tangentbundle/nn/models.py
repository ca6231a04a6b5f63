r"""Tangent bundle neural networks.

.. math:: X_{l+1} = \sigma\Big(\sum_{k=0}^{K-1} (e^{T_s\Delta})^k X_l H_{l,k}\Big).

One class, several systems: on the Laplacian of a tangent bundle it is the paper's DD-TNN, on that of the scalar bundle
a manifold (graph) network, MNN, on the identity a perceptron, MLP.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from ..filters import Filter, Method
from ..operators import LinearOperator
from .activations import Activation, Linear, NormTanh
from .base import Configured, generator, part, widths
from .conv import BundleConv, with_parameters
from .readouts import Readout


class TNN(Configured):
    r"""A network on signals ``(..., n, d, channels[0])`` with outputs ``(..., n, d, channels[-1])``.

    Args:
        channels: widths, input first: ``[1, 8, 4, 1]`` is the paper's.
        taps: K, counted from the identity tap k = 0.
        step: sampling interval :math:`T_s`.
        filters: instead of taps and step, the filters of every layer (a D-TNN); each learns its own copy of their
            parameters.
        activation: nonlinearity of the hidden layers, default ``NormTanh()``, which depends on no frames; the paper's
            experiments use ``Coordinatewise(torch.tanh)``.
        output: nonlinearity of the last layer, default none.
        readout: such as ``SumReadout`` or ``InvariantReadout``, for numbers or classes instead of fields.
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
        step: float = 1.0,
        filters: Sequence[Filter] | None = None,
        activation: Activation | None = None,
        output: Activation | None = None,
        readout: Readout | None = None,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        channels, source = widths(channels, least=2), generator(seed)
        hidden = part(activation, NormTanh(), Activation, "NormTanh() or Coordinatewise(torch.tanh)")
        final = part(output, Linear(), Activation, "NormTanh() or Coordinatewise(torch.tanh)")
        acts = [hidden] * (len(channels) - 2) + [final]
        self.layers = torch.nn.ModuleList()
        for act, (wide, high) in zip(acts, pairwise(channels), strict=True):
            bank = with_parameters(filters, copy.deepcopy)
            conv = BundleConv(wide, high, taps, step, filters=bank, method=method, seed=source)
            self.layers.append(torch.nn.ModuleDict({"conv": conv, "activation": act}))
        self.readout = part(readout, None, Readout, "SumReadout(channels=1, outputs=2)")

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        layer: Any
        for layer in self.layers:
            x = layer.activation(layer.conv(x, operator), operator)
        return x if self.readout is None else self.readout(x, operator)
