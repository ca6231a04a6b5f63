"""Training speed at n = 400 against a plain dense network that recomputes the powers of its
exponential."""

from __future__ import annotations

from itertools import pairwise

import torch

import tangentbundle as tb
from harness.records import Row
from harness.timing import best_in_turns

POINTS, REPLICAS, CHANNELS, TAPS = 400, 64, (1, 8, 4, 1), 2


class PlainDense(torch.nn.Module):
    """The straightforward layer: ``sum_k E^k X H_k`` with E = exp(Delta) given and its powers
    computed in each call."""

    def __init__(self, shift: torch.Tensor, powers: range) -> None:
        super().__init__()
        self.shift, self.powers = shift, powers
        widths = list(pairwise(CHANNELS))
        self.weights = torch.nn.ParameterList(
            [0.3 * torch.randn(len(powers), a, b) for a, b in widths]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for level, weight in enumerate(self.weights):
            x = sum(
                torch.linalg.matrix_power(self.shift, k) @ x @ h
                for k, h in zip(self.powers, weight, strict=True)
            )
            x = torch.tanh(x) if level < len(self.weights) - 1 else x
        return x


def run() -> list[Row]:
    """One row for each way the plain network counts its taps: from 1, as the authors' code, or from
    0, as the paper.

    From 0 with two taps it has no power to recompute, only an identity to multiply by.
    """
    points = tb.manifolds.Torus(0.3, 0.1).sample(POINTS, seed=0).astype("float32")
    laplacian = tb.TangentBundle.from_points(points).laplacian()
    x = torch.randn(POINTS, 2, 1, generator=torch.Generator().manual_seed(0))
    activation = tb.nn.Coordinatewise(torch.tanh)
    net = tb.nn.TNN(CHANNELS, TAPS, activation=activation)
    many = tb.training.Replicas(
        lambda seed: tb.nn.TNN(CHANNELS, TAPS, activation=activation, seed=seed), REPLICAS
    )
    xs = torch.randn(REPLICAS, POINTS, 2, 1, generator=torch.Generator().manual_seed(1))
    shift = torch.linalg.matrix_exp(laplacian.to_dense().double()).float()
    sparse = tb.nn.TNN(CHANNELS, TAPS, activation=activation, method=tb.Chebyshev(1e-6))
    plain = {
        "from 1": PlainDense(shift, range(1, TAPS + 1)),
        "from 0": PlainDense(shift, range(TAPS)),
    }
    jobs = {
        "ours": lambda: _step(net, x, laplacian),
        "sparse": lambda: _step(sparse, x, laplacian),
        "replicas": lambda: _step(many, xs, laplacian),
    }
    jobs |= {name: (lambda p=p: _step(p, x.flatten(0, 1))) for name, p in plain.items()}
    times = best_in_turns(jobs, 15)
    return [
        {
            "plain_taps": name,
            "plain_ms": 1e3 * times[name],
            "ours_ms": 1e3 * times["ours"],
            "ours_sparse_ms": 1e3 * times["sparse"],
            "faster": times[name] / times["ours"],
            "asked": 5.0,
            "replicas_ms": 1e3 * times["replicas"],
            "replicas_faster": REPLICAS * times[name] / times["replicas"],
            "replicas_asked": 20.0,
        }
        for name in plain
    ]


def _step(net: torch.nn.Module, *inputs) -> None:
    net.zero_grad()
    (net(*inputs) - inputs[0]).square().sum().backward()
