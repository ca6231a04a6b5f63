"""Parts of networks: how deep ones train, at which times taps should be, what constraints cost.

Three tasks on fields of one torus, in units of its own size. ``band`` is a filter with a short time
and a long one. ``denoise`` has smooth fields with noise as inputs, and as targets the fields.
``gated`` is not linear: detail where the field at large is strong. Errors are those on new fields,
root mean squares relative to the target.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch

import tangentbundle as tb
from harness.records import Row
from harness.timing import best_in_turns
from tangentbundle import nn
from tangentbundle.filters import geometric_times
from tangentbundle.operators import Laplacian

POINTS = 100
FIELDS = 8
"""Fields to learn from, and as many to test on."""

SEEDS = (0, 1, 2)
EPOCHS = 100
RATE = 2e-2
CHANNELS = 8


@cache
def laplacian() -> Laplacian:
    """The connection Laplacian of the torus, dimensionless."""
    points = tb.manifolds.Torus().sample(POINTS, seed=0).astype("float32")
    return tb.TangentBundle.from_points(points, dim=2).laplacian().dimensionless


def white_noise(seed: int) -> torch.Tensor:
    """Random fields, half to learn from and half to test on."""
    source = torch.Generator().manual_seed(seed)
    return torch.randn(2 * FIELDS, POINTS, 2, 1, generator=source)


def normalized(fields: torch.Tensor) -> torch.Tensor:
    """Fields with root mean square one."""
    return fields / fields.square().mean(dim=(1, 2, 3), keepdim=True).sqrt()


@dataclass(frozen=True, eq=False)
class Examples:
    """Fields and what is to be made of them."""

    inputs: torch.Tensor
    targets: torch.Tensor

    def error(self, net: torch.nn.Module) -> float:
        """The error on the second half."""
        with torch.no_grad():
            outputs = net(self.inputs[FIELDS:], laplacian())
        targets = self.targets[FIELDS:]
        return float((outputs - targets).norm() / targets.norm())

    def train(self, net: torch.nn.Module, epochs: int = EPOCHS) -> tb.training.Fit:
        """Fit a network to the first half."""
        batch = (self.inputs[:FIELDS], laplacian(), self.targets[:FIELDS])

        def schedule(epoch: int) -> float:
            return 0.01 ** (epoch / epochs)

        return tb.fit(
            net, [batch], epochs=epochs, lr=RATE, schedule=schedule, clip=1.0, progress=False
        )


def band(seed: int) -> Examples:
    x = white_noise(seed)
    short = tb.Heat(0.01)(laplacian(), x)
    long = tb.Heat(0.3)(laplacian(), x)
    return Examples(x, normalized(short - long))


def denoise(seed: int) -> Examples:
    clean = normalized(tb.Heat(0.1)(laplacian(), white_noise(seed)))
    return Examples(clean + white_noise(seed + 100), clean)


def gated(seed: int) -> Examples:
    x = white_noise(seed)
    detail = normalized(tb.Heat(0.01)(laplacian(), x))
    large = normalized(tb.Heat(0.3)(laplacian(), x))
    strength = large.square().sum(dim=2, keepdim=True)
    return Examples(x, normalized(detail * torch.sigmoid(4.0 * (strength - 1.0))))


TASKS: dict[str, Callable[[int], Examples]] = {"band": band, "denoise": denoise, "gated": gated}


def rows_of(networks: dict[str, Callable[[int], torch.nn.Module]]) -> list[Row]:
    """The errors of networks on all tasks, mean and spread over seeds."""
    rows = []
    for task, make_examples in TASKS.items():
        for name, make in networks.items():
            errors = []
            for seed in SEEDS:
                examples = make_examples(seed)
                net = make(seed)
                examples.train(net)
                errors.append(examples.error(net))
            rows.append(
                {
                    "task": task,
                    "network": name,
                    "parameters": sum(p.numel() for p in net.parameters()),
                    "error": statistics.mean(errors),
                    "spread": statistics.stdev(errors),
                }
            )
    return rows


# Times of the taps.

TAPS = 4


def network(seed: int, times: Sequence[float], learned: bool = False) -> nn.TNN:
    """Two layers with the identity and heat flows for some times."""
    filters: list[tb.filters.Filter] = [tb.Heat(0.0)]
    for time in times:
        filters.append(nn.LearnedHeat(time) if learned else tb.Heat(time))
    return nn.TNN([1, CHANNELS, 1], filters=filters, activation=nn.NormGate(), seed=seed)


def taps() -> list[Row]:
    """Multiples of one step against times that grow by a factor, and times that are learned."""
    networks: dict[str, Callable[[int], torch.nn.Module]] = {}
    for step in (0.01, 0.1, 0.3):
        multiples = [step * tap for tap in range(1, TAPS)]
        networks[f"multiples of {step:g}"] = partial(network, times=multiples)
    geometric = geometric_times(TAPS - 1, 0.01, 1.0)
    networks["geometric, 0.01 to 1"] = partial(network, times=geometric)
    networks["learned, from there"] = partial(network, times=geometric, learned=True)
    learned_steps = [0.1 * tap for tap in range(1, TAPS)]
    networks["learned, from multiples of 0.1"] = partial(network, times=learned_steps, learned=True)
    return rows_of(networks)


# Constraints.

CONSTRAINTS: dict[str, list[nn.Constraint]] = {
    "none": [],
    "non-amplifying": [nn.NonAmplifying()],
    "lowpass": [nn.Lowpass(0.002)],
    "both": [nn.Lowpass(0.002), nn.NonAmplifying()],
}


def constrained(seed: int, constraints: Sequence[nn.Constraint]) -> nn.TNN:
    filters = [tb.Heat(0.0), *[tb.Heat(time) for time in geometric_times(TAPS - 1, 0.01, 1.0)]]
    return nn.TNN(
        [1, CHANNELS, 1],
        filters=filters,
        constraints=constraints,
        activation=nn.NormGate(),
        seed=seed,
    )


def constraints() -> list[Row]:
    """Errors and times of networks whose layers are kept lowpass and from amplifying."""
    networks = {
        name: partial(constrained, constraints=members) for name, members in CONSTRAINTS.items()
    }
    seconds = seconds_of_steps(networks)
    rows = rows_of(networks)
    for row in rows:
        row["step_ms"] = 1e3 * seconds[row["network"]]
    return rows


def seconds_of_steps(networks: dict[str, Callable[[int], torch.nn.Module]]) -> dict[str, float]:
    """The time of a step of training, the best of several in turns."""
    examples = gated(0)
    x = examples.inputs[:FIELDS]
    target = examples.targets[:FIELDS]

    def step(net: torch.nn.Module) -> None:
        (net(x, laplacian()) - target).square().mean().backward()

    return best_in_turns(
        {name: partial(step, make(0)) for name, make in networks.items()}, repeats=5
    )


# Depth.

LAYERS = 20
SHOWN_EPOCHS = (0, 2, 5, 11, 24, 49, 99)
"""Epochs whose losses are in the table."""


def deep_networks() -> dict[str, Callable[[int], torch.nn.Module]]:
    """Twenty blocks with each normalisation, and plain layers."""

    def residual(seed: int, norm: nn.FieldNorm) -> nn.ResidualTNN:
        return nn.ResidualTNN([1, CHANNELS, 1], layers=LAYERS, step=0.05, norm=norm, seed=seed)

    def plain(seed: int, layers: int) -> nn.TNN:
        widths = [1, *[CHANNELS] * (layers - 1), 1]
        return nn.TNN(widths, step=0.05, activation=nn.NormGate(), seed=seed)

    return {
        f"{LAYERS} blocks, PointNorm": partial(residual, norm=nn.PointNorm()),
        f"{LAYERS} blocks, CloudNorm": partial(residual, norm=nn.CloudNorm()),
        f"{LAYERS} blocks, NoNorm": partial(residual, norm=nn.NoNorm()),
        f"{LAYERS} plain layers": partial(plain, layers=LAYERS),
        "2 plain layers": partial(plain, layers=2),
    }


def depth() -> list[Row]:
    """The loss curve of deep networks on the gated task, relative to that of zero."""
    rows = []
    for name, make in deep_networks().items():
        curves = []
        errors = []
        for seed in SEEDS:
            examples = gated(seed)
            net = make(seed)
            result = examples.train(net)
            losses = torch.tensor(result.history["training loss"])
            curves.append(losses / float(examples.targets[:FIELDS].square().mean()))
            errors.append(examples.error(net))
        curve = torch.stack([c[:EPOCHS] for c in curves]).mean(0)
        row: Row = {"network": name, "parameters": sum(p.numel() for p in net.parameters())}
        for epoch in SHOWN_EPOCHS:
            row[f"loss_{epoch + 1}"] = float(curve[epoch])
        row["error"] = statistics.mean(errors)
        row["spread"] = statistics.stdev(errors)
        rows.append(row)
    return rows
