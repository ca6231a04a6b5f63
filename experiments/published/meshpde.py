r"""MeshPDE (arXiv 2602.05352): the heat and the wave equation on triangle meshes.

Five fields are given, and 196 more are predicted step by step. The score of a rollout is the sum
over its steps of the relative error :math:`\|p_t - u_t\| / \|u_t\|`.

Both equations are one step with an unknown rate c and a known order m in time,

.. math:: u_{t+1} = u_t + m\,(u_t - u_{t-1}) + c\, L u_t, \qquad m = 0, 1,

and so is every method below. They differ in L, and where c comes from: by least squares from the
five fields that are given, for each rollout anew. Rates and units differ by factors of a million
from mesh to mesh; nothing that is learned sees them.

``LearnedLaplacian`` learns L from the training meshes as a function of their geometry.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

import tangentbundle as tb
from harness.ledger import Row, Task
from tangentbundle.errors import InvalidInputError
from tangentbundle.nn import Configured
from tangentbundle.operators import SquareOperator

from .base import SEEDS, Benchmark, Score

TRAINING_MESHES = ("sphere", "bunny_coarse", "lucy", "spider", "woman")
TEST_MESHES = ("armadillo", "urn")
TRAINING_SAMPLES = (0, 1, 2)
TEST_SAMPLES = (0, 1, 2, 3, 4)
LAST_TRAINING_TIME = 150

NUM_INPUTS = 5
"""Fields that are given."""

STEPS = 196
"""Fields that are predicted."""

ORDERS = {"heat": 0, "wave": 1}
"""m of the equations."""

UPDATES = 1000
"""Steps of training, of ``WINDOWS`` windows of each mesh and equation."""

QUICK_UPDATES = 20

WINDOWS = 4
LEARNING_RATE = 1e-2
CHECK_EVERY = 20

NO_ERROR = 1e-16
"""Added to squared errors before their logarithm: errors below 1e-8 count as none."""

METHOD = tb.Chebyshev(1e-13)
"""Of filters: relative errors far below those of the predictions."""

HIDDEN = 16
"""Width of the perceptron."""

FEATURES = 3
"""Of an edge: the logarithms of the areas of its ends, and of its squared length."""

Propagator = Callable[[torch.Tensor], torch.Tensor]
"""The product of a Laplacian with fields ``(..., n)``."""


# The data.


@dataclass(frozen=True, eq=False)
class MeshGraph:
    """The directed edges of a mesh, ``sources`` and ``targets`` (e,), their cotangent weights, the
    ``areas`` of the vertices (n,) in units of their mean, and dimensionless ``features`` (e, 3)."""

    sources: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    areas: torch.Tensor
    features: torch.Tensor

    @classmethod
    def of(cls, vertices: np.ndarray, faces: np.ndarray) -> MeshGraph:
        """From triangles. Where more than two triangles meet at an edge, its weight has a cotangent
        of each."""
        num_points = len(vertices)
        keys = []
        cotangents = []
        areas = np.zeros(num_points)
        for corner in range(3):
            apex = faces[:, corner]
            start = faces[:, (corner + 1) % 3]
            end = faces[:, (corner + 2) % 3]
            first = vertices[start] - vertices[apex]
            second = vertices[end] - vertices[apex]
            doubled_area = np.linalg.norm(np.cross(first, second), axis=1)
            half_cotangent = (first * second).sum(1) / doubled_area / 2
            keys += [start * num_points + end, end * num_points + start]
            cotangents += [half_cotangent, half_cotangent]
            np.add.at(areas, apex, doubled_area / 6)
        edges, position = np.unique(np.concatenate(keys), return_inverse=True)
        weights = np.bincount(position, np.concatenate(cotangents))
        sources = edges // num_points
        targets = edges % num_points
        relative_areas = areas / areas.mean()
        squares = ((vertices[sources] - vertices[targets]) ** 2).sum(1) / areas.mean()
        features = np.log([relative_areas[sources], relative_areas[targets], squares]).T
        return cls(
            sources=torch.from_numpy(sources),
            targets=torch.from_numpy(targets),
            weights=torch.from_numpy(weights),
            areas=torch.from_numpy(relative_areas),
            features=torch.from_numpy(features.copy()),
        )

    def to(self, device: str) -> MeshGraph:
        """The same graph on another device."""
        return MeshGraph(*(tensor.to(device) for tensor in vars(self).values()))

    def laplacian(self, outgoing: torch.Tensor, staying: torch.Tensor) -> Propagator:
        r""":math:`(L u)_i = \sum_j a_{ij} u_j - \big(\sum_j b_{ij}\big) u_i` with weights a, b
        ``(e,)`` of the edges."""
        diagonal = torch.zeros_like(self.areas).index_add(0, self.sources, staying)

        def product(fields: torch.Tensor) -> torch.Tensor:
            neighbors = fields[..., self.targets] * outgoing
            total = torch.zeros_like(fields).index_add(-1, self.sources, neighbors)
            return total - diagonal * fields

        return product


class CotangentLaplacian(SquareOperator):
    """The cotangent Laplacian over the areas, in which it is self-adjoint, as an operator of this
    library."""

    rank = 1

    def __init__(self, graph: MeshGraph) -> None:
        self.mass = graph.areas
        rates = graph.weights / graph.areas[graph.sources]
        self.product = graph.laplacian(rates, rates)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x.squeeze(-2).mT).mT.unsqueeze(-2)

    @property
    def adjoint(self) -> CotangentLaplacian:
        return self


@dataclass(frozen=True, eq=False)
class MeshSeries:
    """A mesh and the series ``(5, 201, n)`` of each equation on it."""

    graph: MeshGraph
    series: dict[str, torch.Tensor]


@cache
def load_mesh(path: Path, device: str = "cpu") -> MeshSeries:
    """A mesh of the benchmark; its series are made anew from their first fields, and the last
    fields must be those of the file."""
    with np.load(path) as stored:
        arrays = dict(stored)
    graph = MeshGraph.of(arrays["vertices"].astype(float), arrays["faces"].astype(np.int64))
    series = {}
    for equation in ORDERS:
        start = torch.from_numpy(arrays[f"{equation}_start"].astype(float))
        fields = simulate(graph, start, equation, float(arrays[f"{equation}_dt"]), arrays)
        end = torch.from_numpy(arrays[f"{equation}_end"].astype(float))
        if not float((fields[:, -1] - end).abs().max()) <= 1e-4 * float(end.abs().max()):
            raise InvalidInputError(f"{path} is damaged: its {equation} series end elsewhere.")
        series[equation] = fields.to(device)
    return MeshSeries(graph.to(device), series)


def simulate(
    graph: MeshGraph, start: torch.Tensor, equation: str, dt: float, arrays: dict[str, np.ndarray]
) -> torch.Tensor:
    """The series of the benchmark's authors: explicit steps with their symmetric Laplacian. No
    method sees it, or ``dt``."""
    areas = graph.areas * _mean_area(arrays)
    outgoing = graph.weights * (areas[graph.sources] * areas[graph.targets]) ** -0.5
    laplacian = graph.laplacian(outgoing, graph.weights / areas[graph.sources])
    order = ORDERS[equation]
    rate = dt ** (1 + order)
    fields = [start]
    previous = start
    for _ in range(NUM_INPUTS + STEPS - 1):
        current = fields[-1]
        fields.append(current + order * (current - previous) + rate * laplacian(current))
        previous = current
    return torch.stack(fields, dim=1)


def _mean_area(arrays: dict[str, np.ndarray]) -> float:
    """The area of a mesh over the number of its vertices."""
    corners = arrays["vertices"].astype(float)[arrays["faces"]]
    sides = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return float(np.linalg.norm(sides, axis=1).sum() / 2 / len(arrays["vertices"]))


# Rates from inputs, rollouts and their scores.


def identify_rate(laplacian: Propagator, inputs: torch.Tensor, order: int) -> torch.Tensor:
    """The rate c ``(...,)`` that explains given fields ``(..., 5, n)`` best; differentiable."""
    increments = inputs.diff(dim=-2)
    unexplained = increments[..., order:, :]
    if order == 1:
        unexplained = increments.diff(dim=-2)
    images = laplacian(inputs[..., order:-1, :])
    return (images * unexplained).sum((-2, -1)) / images.square().sum((-2, -1))


def predict(laplacian: Propagator, inputs: torch.Tensor, order: int, steps: int) -> torch.Tensor:
    """The next fields ``(..., steps, n)`` after the given ones ``(..., 5, n)``."""
    rate = identify_rate(laplacian, inputs, order)[..., None]
    previous = inputs[..., -2, :]
    current = inputs[..., -1, :]
    fields = []
    for _ in range(steps):
        step = order * (current - previous) + rate * laplacian(current)
        previous = current
        current = current + step
        fields.append(current)
    return torch.stack(fields, dim=-2)


def rollout_scores(predicted: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """The sum over the steps of the relative errors, one for each rollout ``(..., steps, n)``."""
    errors = (predicted - truth).square().mean(-1) / truth.square().mean(-1)
    return errors.sqrt().sum(-1)


# Methods that train nothing.


def zero(mesh: MeshSeries, inputs: torch.Tensor, order: int) -> torch.Tensor:
    """No field at all."""
    return torch.zeros_like(inputs[..., :1, :]).expand(-1, STEPS, -1)


def persistence(mesh: MeshSeries, inputs: torch.Tensor, order: int) -> torch.Tensor:
    """The last field that is given."""
    return inputs[..., -1:, :].expand(-1, STEPS, -1)


def cotangent(mesh: MeshSeries, inputs: torch.Tensor, order: int) -> torch.Tensor:
    """One rate on the cotangent Laplacian over the areas."""
    graph = mesh.graph
    rates = graph.weights / graph.areas[graph.sources]
    return predict(graph.laplacian(rates, rates), inputs, order, STEPS)


def identified_filter(mesh: MeshSeries, inputs: torch.Tensor, order: int) -> torch.Tensor:
    r"""Two taps from the given fields, by ``FIR.from_examples``: u_{t+1} + m u_{t-1} = h(L) u_t."""
    operator = CotangentLaplacian(mesh.graph)
    rollouts = []
    for fields in inputs[..., None, None]:
        now = fields[order:-1]
        later = fields[order + 1 :]
        if order == 1:
            later = later + fields[:-2]
        h = tb.FIR.from_examples(operator, now, later, taps=2, method=METHOD)
        predicted = list(fields[-2:])
        for _ in range(STEPS):
            (filtered,) = operator.evaluate([h], predicted[-1], METHOD)
            predicted.append(filtered - order * predicted[-2])
        rollouts.append(torch.stack(predicted[2:])[..., 0, 0])
    return torch.stack(rollouts)


UNTRAINED: dict[str, tuple[str, Callable[[MeshSeries, torch.Tensor, int], torch.Tensor]]] = {
    "zero": ("trivial", zero),
    "persistence": ("trivial", persistence),
    "one rate, cotangent Laplacian": ("classical", cotangent),
    "two taps, FIR.from_examples": ("ours", identified_filter),
}
"""Methods that train nothing, with their kinds."""


# The network.


class LearnedLaplacian(Configured):
    r"""A Laplacian whose weights are functions of the geometry of a mesh:

    .. math:: (L u)_i = \sum_j w_{ij} \big(e^{\phi_{ij}} u_j - e^{\psi_{ij}} u_i\big),

    with cotangent weights w, and :math:`\phi, \psi` the outputs of a perceptron with a linear skip
    connection, of the logarithms of the areas at both ends and of the squared length of the edge,
    all in units of the mean area. At first :math:`\phi = \psi = -\log A_i` up to the perceptron:
    the cotangent Laplacian over the areas.

    Args:
        hidden: width of the perceptron of two hidden layers.
        constants: whether :math:`\psi = \phi`, so that constants stay what they are.
        seed: of the initial weights.
    """

    def __init__(self, hidden: int = HIDDEN, constants: bool = False, *, seed: int = 0) -> None:
        super().__init__()
        source = torch.Generator().manual_seed(seed)
        self.constants = constants
        self.skip = torch.nn.Parameter(torch.tensor([[-1.0, 0.0, 0.0]] * 2).double())
        sizes = [FEATURES, hidden, hidden, 2]
        self.weights = torch.nn.ParameterList()
        self.biases = torch.nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            bound = fan_in**-0.5
            uniform = torch.rand(fan_out, fan_in, generator=source, dtype=torch.float64)
            self.weights.append(torch.nn.Parameter(bound * (2 * uniform - 1)))
            self.biases.append(torch.nn.Parameter(torch.zeros(fan_out, dtype=torch.float64)))
        with torch.no_grad():
            self.weights[-1].mul_(0.1)

    def exponents(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """phi and psi ``(e,)``."""
        hidden = features
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = torch.nn.functional.silu(hidden @ weight.mT + bias)
        outputs = features @ self.skip.mT + hidden @ self.weights[-1].mT + self.biases[-1]
        if self.constants:
            return outputs[:, 0], outputs[:, 0]
        return outputs[:, 0], outputs[:, 1]

    def forward(self, graph: MeshGraph) -> Propagator:
        phi, psi = self.exponents(graph.features)
        return graph.laplacian(graph.weights * phi.exp(), graph.weights * psi.exp())


def train(
    net: LearnedLaplacian, meshes: list[MeshSeries], updates: int, seed: int
) -> LearnedLaplacian:
    """Train on windows of six fields of the training samples, and keep the weights with the lowest
    loss on the windows of the first update, seen every ``CHECK_EVERY`` updates."""
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=updates)
    fixed = draw_windows(meshes, rng)
    lowest = math.inf
    weights = net.state_dict()
    for update in range(1, updates + 1):
        optimiser.zero_grad()
        window_loss(net, meshes, draw_windows(meshes, rng)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if update % CHECK_EVERY == 0:
            with torch.no_grad():
                loss = float(window_loss(net, meshes, fixed))
            if loss < lowest:
                lowest = loss
                weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.load_state_dict(weights)
    return net


Windows = list[dict[str, torch.Tensor]]
"""For each mesh and equation, windows ``(WINDOWS, 6, n)``."""


def window_loss(net: LearnedLaplacian, meshes: list[MeshSeries], windows: Windows) -> torch.Tensor:
    """Five fields of a window give the rate, the next is predicted: the mean over meshes and
    equations of the logarithm of the squared error, in units of the last increment.

    It counts factors, on every mesh alike.
    """
    losses = []
    for mesh, of_mesh in zip(meshes, windows, strict=True):
        laplacian = net(mesh.graph)
        for equation, order in ORDERS.items():
            inputs = of_mesh[equation][:, :NUM_INPUTS]
            truth = of_mesh[equation][:, NUM_INPUTS]
            predicted = predict(laplacian, inputs, order, steps=1)[:, 0]
            change = (truth - inputs[:, -1]).square().mean(-1)
            error = (predicted - truth).square().mean(-1) / change
            losses.append(torch.log(error.mean() + NO_ERROR))
    return torch.stack(losses).mean()


def draw_windows(meshes: list[MeshSeries], rng: np.random.Generator) -> Windows:
    """Windows of the training samples and times."""
    windows = []
    for mesh in meshes:
        of_mesh = {}
        for equation, series in mesh.series.items():
            drawn = []
            for _ in range(WINDOWS):
                sample = rng.choice(TRAINING_SAMPLES)
                start = rng.integers(0, LAST_TRAINING_TIME - NUM_INPUTS + 1)
                drawn.append(series[sample, start : start + NUM_INPUTS + 1])
            of_mesh[equation] = torch.stack(drawn)
        windows.append(of_mesh)
    return windows


# The table.

NETWORKS = {
    "learned Laplacian": {"constants": False},
    "learned Laplacian, constants kept": {"constants": True},
}
"""Networks that are trained, with their options."""


class MeshPDE(Benchmark):
    """The heat and the wave equation on meshes that were not seen in training."""

    name = "meshpde"
    title = "MeshPDE: sum of relative errors over 196 steps on two unseen meshes"
    scores = (Score("heat", "heat"), Score("wave", "wave"))
    data_source = (
        "Meshes and first fields are those of github.com/EdwardBerman/rayleigh_analysis, "
        "data/heat and data/wave, one file MESH.npz each with vertices, faces, heat_start, "
        "heat_end, heat_dt, wave_start, wave_end and wave_dt."
    )

    def tasks(self, full: bool) -> list[Task]:
        updates = UPDATES if full else QUICK_UPDATES
        tasks: list[Task] = [{"method": method} for method in UNTRAINED]
        for method in NETWORKS:
            tasks += [{"method": method, "updates": updates, "seed": seed} for seed in SEEDS]
        return tasks

    def run(self, task: Task) -> list[Row]:
        method = task["method"]
        if method in UNTRAINED:
            kind, forecast = UNTRAINED[method]
            scores = {equation: self.score(forecast, equation) for equation in ORDERS}
            return [{"method": method, "kind": kind, **_means(scores)}]
        start = time.perf_counter()
        net = self.trained(task)
        seconds = time.perf_counter() - start
        self.keep(net, task)
        row = {
            "method": method,
            "kind": "ours",
            **self.scores_of(net),
            "seed": task["seed"],
            "parameters": net.num_parameters,
            "seconds": seconds,
        }
        return [row]

    def trained(self, task: Task) -> LearnedLaplacian:
        """The network of a task."""
        net = LearnedLaplacian(**NETWORKS[task["method"]], seed=task["seed"]).to(self.device)
        meshes = [self.mesh(name) for name in TRAINING_MESHES]
        return train(net, meshes, task["updates"], task["seed"])

    def scores_of(self, net: LearnedLaplacian) -> Row:
        """The scores of a network, and the standard deviations of its rollouts."""

        def forecast(mesh: MeshSeries, inputs: torch.Tensor, order: int) -> torch.Tensor:
            return predict(net(mesh.graph), inputs, order, STEPS)

        return _means({equation: self.score(forecast, equation) for equation in ORDERS})

    def score(
        self, forecast: Callable[[MeshSeries, torch.Tensor, int], torch.Tensor], equation: str
    ) -> torch.Tensor:
        """The scores of the 10 rollouts on the test meshes."""
        scores = []
        for name in TEST_MESHES:
            mesh = self.mesh(name)
            series = mesh.series[equation][list(TEST_SAMPLES)]
            with torch.no_grad():
                predicted = forecast(mesh, series[:, :NUM_INPUTS], ORDERS[equation])
            scores.append(rollout_scores(predicted, series[:, NUM_INPUTS:]))
        return torch.cat(scores)

    def mesh(self, name: str) -> MeshSeries:
        """A mesh of the data."""
        return load_mesh(self.file(f"{name}.npz"), self.device)


def _means(scores: dict[str, torch.Tensor]) -> Row:
    """Means and standard deviations of the rollouts of each equation, as numbers of a row."""
    row: Row = {}
    for equation, values in scores.items():
        row[equation] = _number(values.mean())
        row[f"{equation}_rollouts_std"] = _number(values.std(correction=0))
    return row


def _number(value: torch.Tensor) -> float | None:
    """A number for JSON; none where a rollout diverged."""
    number = float(value)
    if math.isfinite(number):
        return number
    return None
