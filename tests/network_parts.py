"""Networks, and parts of them, that tests run through: those of the library, and a user's own of
every kind."""

import functools
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import tangentbundle as tb
from tangentbundle.architecture.registry import CLASSES
from tangentbundle.manifolds import Sphere

nn = tb.nn


def parameter(value):
    return torch.nn.Parameter(torch.tensor(value))


# A user's own classes and functions.


def slope(x):
    return x / (1 + x.abs())


def decay(t):
    return torch.exp(-3 * t)


def response(lam, strength=1.0):
    return 1 / (1 + strength * lam) ** 2


@dataclass(eq=False)
class Rational(tb.filters.Filter):
    a: Any
    options: tuple = ()

    def evaluate(self, lam):
        return 1 / (1 + self.a**2 * lam)

    def parameters(self):
        return [self.a] if isinstance(self.a, torch.Tensor) else []


class Minutes(tb.Heat):
    """A dataclass of the library with another constructor."""

    def __init__(self, minutes):
        super().__init__(60 * minutes)


class Keyword(tb.filters.Filter):
    """No dataclass, with arguments of every kind, and a function that it makes."""

    def __init__(self, first, /, *others, scale=1.0, **options):
        total = first + sum(others) + sum(options.values())
        self.function = lambda lam: scale * torch.exp(-total * lam)

    def evaluate(self, lam):
        return self.function(lam)


class Stateful(tb.filters.Filter):
    """No constructor at all."""

    def evaluate(self, lam):
        return torch.exp(-self.time * lam)


class Tabulated(tb.filters.Filter):
    """Holds an array and a dictionary."""

    def __init__(self, table, names):
        self.table = np.asarray(table)
        self.names = names

    def evaluate(self, lam):
        return torch.exp(-float(self.table.sum()) * lam) * len(self.names)


def stateful():
    made = Stateful()
    made.time = 0.3
    return made


class PerChannel(nn.Activation):
    def __init__(self, channels=1, *, power=1.0, **options):
        super().__init__()
        self.power = power + sum(options.values())
        self.scale = torch.nn.Parameter(torch.ones(channels))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def sized(self, channels):
        return PerChannel(channels, power=self.power)

    def forward(self, x, operator):
        return self.scale * x / (1 + x.square().sum(dim=-2, keepdim=True)) ** self.power


class Shared(nn.Activation):
    """One number to learn, for any number of channels."""

    def __init__(self, start):
        super().__init__()
        self.start = parameter(float(start))

    def forward(self, x, operator):
        return x * torch.sigmoid(self.start * x.square().sum(dim=-2, keepdim=True))


class Energy(nn.Readout):
    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, in_channels, out_channels, hidden=4, seed=0)

    def forward(self, x, operator):
        energies = x.square().sum(dim=-2).mean(dim=-2, keepdim=True)
        return self.second(torch.tanh(self.first(energies)))


class Stack(nn.Configured):
    """A network of a user's own, with dropout and statistics."""

    def __init__(self, *channels, taps=2):
        super().__init__()
        self.convs = torch.nn.ModuleList(nn.BundleConv(a, b, taps) for a, b in pairwise(channels))
        self.dropout = torch.nn.Dropout(0.2)
        self.norm = torch.nn.BatchNorm1d(2 * channels[-1])
        self.offset = torch.tensor(0.25)

    def forward(self, x, operator):
        for conv in self.convs:
            x = self.dropout(torch.tanh(conv(x, operator)))
        return self.norm(x.flatten(-2)).unflatten(-1, x.shape[-2:]) + self.offset.to(x)


class Deeper(nn.TNN):
    """A network derived from one of the library."""

    def __init__(self, width, depth=2):
        super().__init__([1, *[width] * depth, 1])


FOREIGN = [
    slope,
    decay,
    response,
    Rational,
    Minutes,
    Keyword,
    Stateful,
    Tabulated,
    PerChannel,
    Shared,
    Energy,
    Stack,
    Deeper,
]
"""What ``load`` needs in ``allow``."""

FILTERS = {
    "heat": lambda: tb.Heat(0.3),
    "NumPy": lambda: tb.Heat(np.float32(0.3)),
    "tensor": lambda: tb.Heat(torch.tensor(0.3)),
    "learned": lambda: tb.Heat(parameter(0.3)),
    "FIR": lambda: tb.FIR([0.5, -0.25], np.float64(0.1)),
    "learned FIR": lambda: tb.FIR(parameter([0.5, -0.25]), parameter(0.1)),
    "array": lambda: tb.FIR(np.array([0.5, -0.25], np.float32), 0.1),
    "polynomial": lambda: tb.Polynomial([1.0, 0.1]),
    "Tikhonov": lambda: tb.Tikhonov(parameter(0.3)),
    "sum": lambda: tb.Heat(0.05) - tb.Heat(parameter(0.2)),
    "composition": lambda: 2.5 * (tb.Heat(0.1) @ tb.Tikhonov(parameter(1.0))),
    "learned factor": lambda: tb.Heat(0.1) * parameter(0.7),
    "long sum": lambda: functools.reduce(lambda a, b: a + b, [tb.Heat(0.1 * k) for k in range(20)]),
    "spectral": lambda: tb.Spectral(torch.cos, "cosine"),
    "partial": lambda: tb.Spectral(functools.partial(response, strength=0.5)),
    "impulse": lambda: tb.ImpulseResponse(decay),
    "foreign": lambda: Rational(parameter(0.7), (1, "a", None)),
    "another constructor": lambda: Minutes(0.01),
    "keywords": lambda: Keyword(0.1, 0.2, scale=2.0, more=0.1),
    "no constructor": stateful,
    "table": lambda: Tabulated(np.linspace(0, 1, 5), {"a": 1, "b": (2, 3)}),
    "learned heat": lambda: nn.LearnedHeat(np.float32(0.3)),
    "sum of heats": lambda: nn.HeatSum([0.1, 0.3], [0.5, -0.25]),
    "sum of decays": lambda: nn.DecaySum(np.array([0.1, 0.3])),
    "rational": lambda: nn.RationalFilter([0.1, 0.2], [-0.1], 0.5),
    "impulse network": lambda: nn.ImpulseNetwork(1.0, width=4),
    "learned in a sum": lambda: nn.HeatSum([0.1]) - 0.5 * nn.LearnedHeat(0.3),
    "foreign in a sum": lambda: tb.Heat(0.1) + 0.5 * Rational(0.3),
}

ACTIVATIONS = {
    "norm": nn.NormTanh,
    "none": nn.NoActivation,
    "ambient": lambda: nn.AmbientThenProject(F.relu),
    "functional": lambda: nn.Coordinatewise(F.relu),
    "module": lambda: nn.Coordinatewise(torch.nn.GELU(approximate="tanh")),
    "learned module": lambda: nn.Coordinatewise(torch.nn.PReLU(init=0.1)),
    "sequence": lambda: nn.Coordinatewise(
        torch.nn.Sequential(torch.nn.Softsign(), torch.nn.PReLU())
    ),
    "partial": lambda: nn.Coordinatewise(functools.partial(F.leaky_relu, negative_slope=0.2)),
    "named function": lambda: nn.Coordinatewise(slope),
    "for each channel": lambda: PerChannel(power=np.float32(0.5), more=0.25),
    "shared": lambda: Shared(1),
    "gates": nn.NormGate,
}

NORMS = {
    "points": lambda: nn.PointNorm(eps=1e-5),
    "clouds": nn.CloudNorm,
    "none": nn.NoNorm,
}

READOUTS = {
    "sum": lambda: nn.SumReadout(2, np.int64(3)),
    "invariant": lambda: nn.InvariantReadout(2, 3, pooling=nn.NoPooling()),
    "pooled": lambda: nn.InvariantReadout(2, 3),
    "mean": lambda: nn.InvariantReadout(2, 3, pooling=nn.MeanPooling()),
    "attention": lambda: nn.InvariantReadout(2, 3, pooling=nn.AttentionPooling(heads=4)),
    "foreign": lambda: Energy(2, 3),
}

WIDTHS = {
    "list": lambda: [1, 3, 1],
    "NumPy integer": lambda: [1, np.int64(3), 1],
    "tuple": lambda: (1, 3, 1),
    "array": lambda: np.array([1, 3, 1]),
    "map": lambda: map(int, "131"),
    "generator": lambda: (int(c) for c in "131"),
    "keys": lambda: {1: "a", 3: "b", 2: "c"}.keys(),
    "range": lambda: range(1, 4),
}

METHODS = {
    "Exact": tb.Exact,
    "Dense": tb.Dense,
    "Chebyshev": lambda: tb.Chebyshev(np.float64(1e-5)),
}

ON_BUNDLES = {
    **{
        f"filter: {name}": lambda f=f: nn.TNN([1, 2, 1], filters=[f(), tb.Heat(0.0)])
        for name, f in FILTERS.items()
    },
    **{
        f"activation: {name}": lambda a=a: nn.TNN([1, 3, 2, 1], activation=a())
        for name, a in ACTIVATIONS.items()
    },
    **{
        f"output: {name}": lambda a=a: nn.TNN([1, 2], output=a()) for name, a in ACTIVATIONS.items()
    },
    **{f"readout: {name}": lambda r=r: nn.TNN([1, 2], readout=r()) for name, r in READOUTS.items()},
    **{
        f"method: {name}": lambda m=m: nn.TNN([1, 2, 1], method=m(), step=0.1)
        for name, m in METHODS.items()
    },
    **{f"widths: {name}": lambda w=w: nn.TNN(w()) for name, w in WIDTHS.items()},
    "all filters": lambda: nn.TNN([1, 2, 1], filters=(f() for f in FILTERS.values())),
    "many filters": lambda: nn.TNN(
        [1, 1], filters=[tb.Heat(0.001 * k) + tb.Heat(0.1) for k in range(100)]
    ),
    **{
        f"norm: {name}": lambda n=n: nn.ResidualTNN([1, 4, 2], layers=2, norm=n())
        for name, n in NORMS.items()
    },
    "constrained": lambda: nn.TNN(
        [1, 2, 1], 3, step=0.1, constraints=[nn.Lowpass(np.float32(0.01)), nn.NonAmplifying()]
    ),
    "constrained, learned": lambda: nn.ResidualTNN(
        [1, 2, 1], 2, filters=[nn.HeatSum([0.1])], constraints=(nn.NonAmplifying(),)
    ),
    "one block": lambda: nn.ResidualBlock(1, taps=3, dropout=0.1),
    "deep": lambda: nn.ResidualTNN(
        map(int, "132"), np.int64(2), filters=[tb.Heat(0.0), tb.Heat(parameter(0.3))], dropout=0.1
    ),
    "deep, readout": lambda: nn.ResidualTNN(
        [1, 4, 2], activation=nn.NormTanh(), readout=nn.InvariantReadout(2, 3)
    ),
    "NumPy numbers": lambda: nn.TNN([1, 2, 1], np.int32(3), step=np.float32(0.1), seed=np.int64(4)),
    "one layer": lambda: nn.BundleConv(
        1, 2, filters=[tb.Heat(parameter(0.2)), tb.Heat(0.1) + tb.Tikhonov(1.0)]
    ),
    "recurrent": lambda: nn.RecurrentTNN(map(int, "121"), filters=[f() for f in FILTERS.values()]),
    "recurrent, foreign": lambda: nn.RecurrentTNN([1, 2, 3], activation=PerChannel()),
    "gated": lambda: nn.GatedTNN(range(1, 4), step=np.float32(0.1), activation=Shared(0.5)),
    "mixed": lambda: nn.MixedTNN(
        [0, np.int64(3), 1], map(int, "131"), taps=np.int64(2), step=np.float32(0.1)
    ),
    "mixed, oriented": lambda: nn.MixedTNN([0, 3, 1], [1, 3, 1], oriented=True),
    "mixed, readout": lambda: nn.MixedTNN([0, 5], [1, 2], readout=nn.MixedReadout(5, 2, 4)),
    "mixed, deep": lambda: nn.ResidualMixedTNN(
        [0, 3, 1], map(int, "131"), 2, norm=nn.PointNorm(), dropout=np.float32(0.1)
    ),
    "derived": lambda: Deeper(3),
    "a stack": lambda: Stack(1, 3, 2),
}

BUILDERS = {
    "learned": lambda: nn.SheafLearner(2),
    "general": lambda: nn.SheafLearner(np.int64(2), nn.General(), hidden=4),
    "diagonal": lambda: nn.SheafLearner(2, nn.Diagonal()),
    "reflections": lambda: nn.SheafLearner(2, nn.Householder()),
    "exponential": lambda: nn.SheafLearner(2, nn.MatrixExponential()),
    "large Cayley": lambda: nn.SheafLearner(4, nn.Cayley()),
    "connection": lambda: nn.ConnectionSheaf(2),
}

ON_GRAPHS = {
    **{
        f"diffusion: {name}": lambda b=b: nn.SheafDiffusion(4, 3, 2, b())
        for name, b in BUILDERS.items()
    },
    **{f"conv: {name}": lambda b=b: nn.SheafConv(4, 8, b()) for name, b in BUILDERS.items()},
    "blocks": lambda: nn.SheafDiffusion(
        4, 3, 2, normalization=tb.operators.BlockDegrees(0.5), own=False, dropout=0.1
    ),
    "scalar degrees": lambda: nn.SheafTNN(
        4, 3, 2, layers=1, normalization=tb.operators.ScalarDegrees(np.float32(0.5))
    ),
    "powers": lambda: nn.SheafTNN(4, 3, 2, taps=np.int64(4)),
    "filters": lambda: nn.SheafTNN(
        4, 3, 2, filters=[tb.Heat(0.0), Rational(parameter(0.7)) + tb.Heat(0.3)]
    ),
    "edge features": lambda: nn.EdgeFeatureConv(2, np.int64(3), edge_channels=5),
    "tangent": lambda: nn.TangentConv(2, 3, filters=[tb.Heat(0.0), tb.Heat(parameter(0.3))]),
}

NETWORKS = {**ON_BUNDLES, **ON_GRAPHS}

POINTS = Sphere(2).sample(24, seed=0)
EDGES = torch.tensor([[0, 1, 2, 3, 0, 5, 6, 1], [1, 2, 3, 0, 2, 6, 7, 5]])


@functools.cache
def bundle(dtype):
    return tb.TangentBundle.from_points(torch.from_numpy(POINTS).to(dtype), dim=2, neighbors=10)


@functools.cache
def laplacian(dtype):
    return bundle(dtype).laplacian()


@functools.cache
def mixed_operators(dtype):
    with warnings.catch_warnings():
        # a sphere of so few points has no certain orientation
        warnings.simplefilter("ignore", tb.errors.AccuracyWarning)
        return nn.MixedOperators.of(bundle(dtype), oriented=True)


def numbers(*shape, dtype=torch.float64, seed=0):
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def inputs(net, dtype=torch.float32, signal=None):
    """What a network of the registry takes: operators in ``dtype``, signals in ``signal``, by
    default the same."""
    signal = dtype if signal is None else signal
    if isinstance(net, (nn.MixedTNN, nn.ResidualMixedTNN)):
        return None, numbers(24, 2, 1, dtype=signal), mixed_operators(dtype)
    if isinstance(net, (nn.TangentConv, nn.EdgeFeatureConv)):
        angles = numbers(EDGES.shape[1], seed=1)
        turns = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], -1).reshape(
            -1, 2, 2
        )
        features = [numbers(EDGES.shape[1], 5, dtype=signal)]
        if isinstance(net, nn.TangentConv):
            features = []
        return numbers(9, 2, 2, dtype=signal), EDGES, turns.to(dtype), *features
    if isinstance(net, (nn.SheafConv, nn.SheafDiffusion, nn.SheafTNN)):
        return numbers(9, 4, dtype=signal), EDGES
    if isinstance(net, nn.Recurrent):
        return numbers(3, 24, 2, 1, dtype=signal), laplacian(dtype)
    return numbers(24, 2, 1, dtype=signal), laplacian(dtype)


def outputs(result):
    """All tensors of an answer."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result for tensor in outputs(part)]


def perturb(net, seed=3):
    """Weights as after a training: other than those that the constructor gives."""
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.02 * torch.rand(weight.shape, generator=source).to(weight))
    return net


def library_classes():
    return set(CLASSES.values())
