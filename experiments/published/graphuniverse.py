r"""GraphUniverse, TDL Challenge 2026: which community does each node belong to, on graphs that were
not seen in training?

A universe has 20 communities with centres of features; a graph has 5 to 10 of them. Settings differ
in homophily, average degree and the exponent of the degrees. What can be known:

* features: communities k are Gaussians around centres that all graphs share;
* which communities a graph has: not given, but its nodes together tell (a mixture, fitted to each
  graph by expectation maximisation);
* edges: homophily, and rates between pairs of communities that hold within a graph. The generator
  assigns the universe's rates to communities in another order in each graph
  (``GraphSample`` takes them of sorted communities, labels of unsorted ones), so that nothing
  about them carries over from graph to graph;
* degrees: communities have a rank among those of a graph.

``CommunityMixture`` uses the first three without a network. ``SheafTNN, on the mixture`` learns
what it leaves: a network on a learned sheaf, whose inputs have the posterior of the mixture, and
whose output is added to its logarithm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harness.ledger import Row, Task
from tangentbundle.nn import Configured, SheafBuilder, SheafDiffusion, SheafLearner, SheafTNN

from .base import Benchmark, Score

NUM_COMMUNITIES = 20
NUM_FEATURES = 15

HOMOPHILY = {"low": (0.0, 0.1), "mid": (0.4, 0.6), "high": (0.9, 1.0)}
DEGREE = {"sparse": (1.0, 2.5), "dense": (4.0, 5.0)}
EXPONENT = {"heavy": (1.5, 2.0), "light": (4.0, 5.0)}

UNIVERSE = {
    "K": NUM_COMMUNITIES,
    "feature_dim": NUM_FEATURES,
    "center_variance": 0.2,
    "cluster_variance": 0.4,
    "edge_propensity_variance": 0.5,
    "seed": 42,
}
FAMILY = {
    "n_graphs": 1000,
    "n_nodes_range": (50, 300),
    "n_communities_range": (5, 10),
    "degree_separation_range": (0.5, 1.0),
    "seed": 42,
}

TRAINING = slice(0, 700)
VALIDATION = slice(700, 850)
TEST = slice(850, 1000)

SEEDS = (42, 43, 44)
BATCH = 16
WIDTH = 64
PATIENCE = 10
MAX_EPOCHS = 40
QUICK_EPOCHS = 2
LEARNING_RATE = 5e-3
DROPOUT = 0.1

CORRECTION_LEARNING_RATE = 1e-3
CORRECTION_DROPOUT = 0.4
"""Of networks that correct a mixture, which fit noise sooner: chosen on the validation graphs of
the setting mid-dense-heavy, as the best of rates 1e-3 and 5e-3 and dropout 0.1 and 0.4."""


# The data.


@dataclass(frozen=True, eq=False)
class Graph:
    """Features (n, 15), labels (n,) and directed edges (2, e), each edge in both directions;
    ``posterior`` (n, 20) of a mixture where there is one."""

    features: Tensor
    labels: Tensor
    edges: Tensor
    posterior: Tensor | None = None

    def to(self, device: str) -> Graph:
        """The same graph on another device."""
        posterior = self.posterior
        if posterior is not None:
            posterior = posterior.to(device)
        return Graph(
            features=self.features.to(device),
            labels=self.labels.to(device),
            edges=self.edges.to(device),
            posterior=posterior,
        )

    @property
    def degrees(self) -> Tensor:
        """Degrees of the nodes."""
        return torch.bincount(self.edges[0], minlength=len(self.labels)).float()


def generate(setting: str) -> list[Graph]:
    """The graphs of a setting such as ``low-sparse-heavy``, by the package graph-universe 0.1.2."""
    from graph_universe import GraphFamilyGenerator, GraphUniverse

    homophily, degree, exponent = setting.split("-")
    family = GraphFamilyGenerator(
        universe=GraphUniverse(**UNIVERSE),
        homophily_range=HOMOPHILY[homophily],
        avg_degree_range=DEGREE[degree],
        power_law_exponent_range=EXPONENT[exponent],
        **FAMILY,
    )
    family.generate_family(show_progress=False)
    graphs = []
    for sample in family.graphs:
        graph = sample.to_pyg_graph("community_detection")
        graphs.append(Graph(graph.x, graph.y, graph.edge_index))
    return graphs


def write_graphs(path: Path, graphs: list[Graph]) -> None:
    """Graphs as one file; features are rounded to half precision, a thousandth of their noise."""
    np.savez_compressed(
        path,
        sizes=np.array([graph.edges.shape[1] for graph in graphs]),
        nodes=np.array([len(graph.labels) for graph in graphs]),
        features=torch.cat([graph.features for graph in graphs]).half().numpy(),
        labels=torch.cat([graph.labels for graph in graphs]).numpy().astype(np.int8),
        edges=torch.cat([graph.edges for graph in graphs], dim=1).numpy().astype(np.int16),
    )


def read_graphs(path: Path) -> list[Graph]:
    """The graphs of a file."""
    with np.load(path) as stored:
        nodes = stored["nodes"].tolist()
        features = torch.from_numpy(stored["features"].astype(np.float32)).split(nodes)
        labels = torch.from_numpy(stored["labels"].astype(np.int64)).split(nodes)
        edges = torch.from_numpy(stored["edges"].astype(np.int64))
        edges_of_each = edges.split(stored["sizes"].tolist(), dim=1)
    return [Graph(*parts) for parts in zip(features, labels, edges_of_each, strict=True)]


# Several graphs at once.


@dataclass(frozen=True, eq=False)
class Batch:
    """Several graphs as one."""

    features: Tensor
    labels: Tensor
    edges: Tensor
    graph_of_node: Tensor
    num_graphs: int
    posterior: Tensor | None

    @classmethod
    def of(cls, graphs: list[Graph]) -> Batch:
        """Graphs side by side."""
        nodes = [len(graph.labels) for graph in graphs]
        starts = np.concatenate([[0], np.cumsum(nodes)[:-1]]).tolist()
        edges = [graph.edges + start for graph, start in zip(graphs, starts, strict=True)]
        features = torch.cat([graph.features for graph in graphs])
        posteriors = [graph.posterior for graph in graphs if graph.posterior is not None]
        posterior = None
        if posteriors:
            posterior = torch.cat(posteriors)
        counts = torch.tensor(nodes, device=features.device)
        numbers = torch.arange(len(graphs), device=features.device)
        return cls(
            features=features,
            labels=torch.cat([graph.labels for graph in graphs]),
            edges=torch.cat(edges, dim=1),
            graph_of_node=numbers.repeat_interleave(counts, output_size=sum(nodes)),
            num_graphs=len(graphs),
            posterior=posterior,
        )

    @property
    def degrees(self) -> Tensor:
        """Degrees of the nodes."""
        return torch.bincount(self.edges[0], minlength=len(self.labels)).to(self.features)

    def graph_sums(self, values: Tensor) -> Tensor:
        """The sum of values ``(n, ...)`` over the nodes of each graph, ``(num_graphs, ...)``."""
        zeros = values.new_zeros(self.num_graphs, *values.shape[1:])
        return zeros.index_add(0, self.graph_of_node, values)

    def graph_means(self, values: Tensor) -> Tensor:
        """The mean of values ``(n, c)`` over each graph, ``(num_graphs, c)``."""
        counts = torch.bincount(self.graph_of_node, minlength=self.num_graphs)
        return self.graph_sums(values) / counts[:, None]

    def neighbor_sums(self, values: Tensor) -> Tensor:
        """The sum of values ``(n, c)`` over the neighbours of each node, ``(n, c)``."""
        source, target = self.edges
        return torch.zeros_like(values).index_add(0, source, values[target])


# A mixture for each graph.


@dataclass(frozen=True, eq=False)
class CommunityMixture:
    r"""Posteriors of the communities, with shares and rates fitted to each graph.

    Features of community k are Gaussian around ``centers`` (20, 15) with one ``variance``. The
    posteriors q are those of a mean field,

    .. math:: q_{ik} \propto \pi_k\, p(x_i | k)\,
              \exp\Big(\sum_{j \sim i} \sum_l q_{jl} \log B_{kl}\Big), \qquad
              \pi_k = \operatorname{mean}_i q_{ik},

    where B is the number of edges between communities over what degrees alone predict, as counted
    with q, and with ``PRIOR`` more edges of which the share ``same`` lies within communities.
    Without ``edges`` it is expectation maximisation of the shares alone.
    """

    centers: Tensor
    variance: float
    same: float

    ROUNDS = 100
    """Of expectation maximisation, before edges are looked at."""

    SWEEPS = 30
    DAMPING = 0.5
    PRIOR = 50.0
    SMALLEST_SHARE = 5e-3
    """Share of the nodes below which a community takes no part in the rates."""

    @classmethod
    def fit(cls, graphs: list[Graph]) -> CommunityMixture:
        """Centres, variance and homophily of training graphs with labels."""
        batch = Batch.of(graphs)
        members = F.one_hot(batch.labels, NUM_COMMUNITIES).to(batch.features)
        centers = (members.mT @ batch.features) / members.sum(0)[:, None]
        source, target = batch.labels[batch.edges]
        return cls(
            centers=centers,
            variance=float((batch.features - centers[batch.labels]).square().mean()),
            same=float((source == target).float().mean()),
        )

    def posterior(self, batch: Batch, edges: bool = True) -> Tensor:
        """The posteriors ``(n, 20)`` of the communities of all nodes."""
        squares = torch.cdist(batch.features, self.centers.to(batch.features)).square()
        evidence = -squares / (2 * self.variance)
        posterior = torch.full_like(evidence, 1 / NUM_COMMUNITIES)
        for _ in range(self.ROUNDS):
            posterior = torch.softmax(evidence + self._log_shares(batch, posterior), dim=1)
        if not edges:
            return posterior
        for _ in range(self.SWEEPS):
            around = batch.neighbor_sums(posterior)
            log_rates = self._log_rates(batch, posterior, around)[batch.graph_of_node]
            from_edges = (around[:, None, :] @ log_rates).squeeze(1)
            scores = evidence + self._log_shares(batch, posterior) + from_edges
            updated = torch.softmax(scores, dim=1)
            posterior = (1 - self.DAMPING) * posterior + self.DAMPING * updated
        return posterior

    def _log_shares(self, batch: Batch, posterior: Tensor) -> Tensor:
        """The logarithms of the shares of the communities in each node's graph, ``(n, 20)``."""
        return torch.log(batch.graph_means(posterior) + 1e-12)[batch.graph_of_node]

    def _log_rates(self, batch: Batch, posterior: Tensor, around: Tensor) -> Tensor:
        """log B ``(num_graphs, 20, 20)``, zero where communities have next to no nodes."""
        shares = batch.graph_means(posterior)
        counts = batch.graph_sums(posterior[:, :, None] * around[:, None, :])
        ends = batch.graph_sums(posterior * batch.degrees[:, None])
        total = ends.sum(dim=1)[:, None, None]
        expected = ends[:, :, None] * ends[:, None, :] / total**2
        within = torch.eye(NUM_COMMUNITIES, device=shares.device, dtype=torch.bool)
        pairs = shares[:, :, None] * shares[:, None, :]
        apart = pairs.masked_fill(within, 0.0)
        between = (1 - self.same) * apart / apart.sum(dim=(1, 2), keepdim=True).clamp(min=1e-9)
        typical = torch.where(within, self.same * shares[:, :, None], between)
        typical = typical / typical.sum(dim=(1, 2), keepdim=True)
        rates = (counts + self.PRIOR * typical) / ((total + self.PRIOR) * expected + 1e-9)
        present = shares > self.SMALLEST_SHARE
        both_present = present[:, :, None] & present[:, None, :]
        return torch.where(both_present, torch.log(rates.clamp(1e-3, 1e3)), 0.0)


# Networks.


class IdentitySheaf(SheafBuilder):
    """The constant sheaf: all maps are the unit matrix."""

    orthogonal = True

    def __init__(self, rank: int = 2) -> None:
        super().__init__()
        self.rank = rank

    def maps(self, x: Tensor, edges: Tensor) -> Tensor:
        return torch.eye(self.rank, dtype=x.dtype, device=x.device).expand(len(edges), -1, -1)


class GCN(torch.nn.Module):
    """Three graph convolutions of PyTorch Geometric."""

    def __init__(self, in_channels: int, dropout: float, seed: int) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        torch.manual_seed(seed)
        self.first = GCNConv(in_channels, WIDTH)
        self.second = GCNConv(WIDTH, WIDTH)
        self.decoder = GCNConv(WIDTH, NUM_COMMUNITIES)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = self.dropout(F.relu(self.first(x, edges)))
        x = self.dropout(F.relu(self.second(x, edges)))
        return self.decoder(x, edges)


MIXTURE_FEATURES = NUM_FEATURES + 3 * NUM_COMMUNITIES + 2
"""Of ``mixture_inputs``."""


def mixture_inputs(batch: Batch) -> Tensor:
    """Features, posterior, its logarithm, shares of the graph, and degrees of node and graph."""
    assert batch.posterior is not None
    log_degrees = torch.log1p(batch.degrees)[:, None]
    own = torch.log(batch.posterior + 1e-4) / 3
    shares = torch.log(batch.graph_means(batch.posterior) + 1e-4)[batch.graph_of_node] / 3
    relative = log_degrees - batch.graph_means(log_degrees)[batch.graph_of_node]
    inputs = [batch.features, batch.posterior, own, shares, log_degrees, relative]
    return torch.cat(inputs, dim=1)


@dataclass(frozen=True)
class Recipe:
    """How a network is built from a seed and trained."""

    kind: str
    build: Callable[[int], torch.nn.Module]

    learning_rate = LEARNING_RATE

    def initial(self, seed: int) -> torch.nn.Module:
        """The network before training."""
        return self.build(seed)

    def logits(self, net: torch.nn.Module, batch: Batch) -> Tensor:
        """The logits ``(n, 20)`` of the nodes of a batch."""
        return net(batch.features, batch.edges)


class Correction(Recipe):
    """A network that sees the posterior of the mixture, and whose output, at first zero, is added
    to its logarithm."""

    learning_rate = CORRECTION_LEARNING_RATE

    def initial(self, seed: int) -> torch.nn.Module:
        net = self.build(seed)
        with torch.no_grad():
            for parameter in net.get_submodule("decoder").parameters():
                parameter.zero_()
        return net

    def logits(self, net: torch.nn.Module, batch: Batch) -> Tensor:
        assert batch.posterior is not None
        correction = net(mixture_inputs(batch), batch.edges)
        return torch.log(batch.posterior + 1e-6) + correction


def sheaf_tnn(in_channels: int, builder: SheafBuilder, dropout: float, seed: int) -> SheafTNN:
    """The network of all rows with filters."""
    return SheafTNN(
        in_channels,
        WIDTH // builder.rank,
        NUM_COMMUNITIES,
        builder,
        layers=2,
        taps=3,
        dropout=dropout,
        seed=seed,
    )


def identity_sheaf(seed: int) -> SheafTNN:
    """Filters of the graph itself."""
    return sheaf_tnn(NUM_FEATURES, IdentitySheaf(), DROPOUT, seed)


def learned_sheaf(seed: int) -> SheafTNN:
    """Filters of a learned sheaf of rotations."""
    return sheaf_tnn(NUM_FEATURES, SheafLearner(2), DROPOUT, seed)


def sheaf_on_mixture(seed: int) -> SheafTNN:
    """The same, with the posterior of the mixture among the inputs."""
    return sheaf_tnn(MIXTURE_FEATURES, SheafLearner(2), CORRECTION_DROPOUT, seed)


def sheaf_diffusion(seed: int) -> SheafDiffusion:
    """Neural sheaf diffusion."""
    builder = SheafLearner(2)
    return SheafDiffusion(
        NUM_FEATURES, WIDTH // 2, NUM_COMMUNITIES, builder, layers=3, dropout=DROPOUT, seed=seed
    )


RECIPES = {
    "GCN": Recipe("network", lambda seed: GCN(NUM_FEATURES, DROPOUT, seed)),
    "identity sheaf": Recipe("network", identity_sheaf),
    "SheafDiffusion": Recipe("ours", sheaf_diffusion),
    "SheafTNN": Recipe("ours", learned_sheaf),
    "GCN, on the mixture": Correction(
        "network", lambda seed: GCN(MIXTURE_FEATURES, CORRECTION_DROPOUT, seed)
    ),
    "SheafTNN, on the mixture": Correction("ours", sheaf_on_mixture),
}
"""The networks of the table."""


def train(
    recipe: Recipe, training: list[Graph], validation: list[Graph], epochs: int, seed: int
) -> torch.nn.Module:
    """Adam until the accuracy on the validation graphs has not risen for ``PATIENCE`` epochs; the
    weights of the best epoch."""
    device = training[0].features.device
    net = recipe.initial(seed).to(device)
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=recipe.learning_rate)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, mode="max", factor=0.5, patience=PATIENCE // 3
    )
    best = accuracy(recipe, net, validation)
    best_epoch = -1
    weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    for epoch in range(epochs):
        net.train()
        order = rng.permutation(len(training))
        for start in range(0, len(order), BATCH):
            batch = Batch.of([training[index] for index in order[start : start + BATCH]])
            loss = F.cross_entropy(recipe.logits(net, batch), batch.labels)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
        score = accuracy(recipe, net, validation)
        schedule.step(score)
        if score > best:
            best = score
            best_epoch = epoch
            weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        if epoch - best_epoch >= PATIENCE:
            break
    net.load_state_dict(weights)
    return net.eval()


def accuracy(recipe: Recipe, net: torch.nn.Module, graphs: list[Graph]) -> float:
    """The share of the nodes of all graphs whose community is found."""
    net.eval()
    with torch.no_grad():
        correct = 0
        for start in range(0, len(graphs), 10 * BATCH):
            batch = Batch.of(graphs[start : start + 10 * BATCH])
            guesses = recipe.logits(net, batch).argmax(dim=1)
            correct += int((guesses == batch.labels).sum())
    return correct / sum(len(graph.labels) for graph in graphs)


# Methods without a network.


def degree_statistics(graph: Graph) -> np.ndarray:
    """Degrees of nodes, of their neighbours, and of the graph, ``(n, 6)``, as logarithms."""
    degrees = graph.degrees.cpu().numpy()
    source, target = graph.edges.cpu().numpy()
    own = np.log1p(degrees)
    around = np.bincount(source, own[target], len(own)) / np.maximum(degrees, 1)
    of_graph = np.full_like(own, own.mean())
    rank = own.argsort().argsort() / len(own)
    return np.stack([own, around, of_graph, rank, own**2, np.ones_like(own)], axis=1)


def ridge_accuracy(training: list[Graph], test: list[Graph]) -> float:
    """Ridge regression of the communities on degree statistics."""
    inputs = np.concatenate([degree_statistics(graph) for graph in training])
    labels = np.concatenate([graph.labels.numpy() for graph in training])
    targets = np.eye(NUM_COMMUNITIES)[labels]
    gram = inputs.T @ inputs + np.eye(inputs.shape[1])
    weights = np.linalg.solve(gram, inputs.T @ targets)
    scored = []
    for graph in test:
        guesses = (degree_statistics(graph) @ weights).argmax(1)
        scored.append(guesses == graph.labels.numpy())
    return float(np.concatenate(scored).mean())


def untrained_accuracies(training: list[Graph], test: list[Graph]) -> dict[str, float]:
    """The rows without networks."""
    mixture = CommunityMixture.fit(training)
    batch = Batch.of(test)
    distances = torch.cdist(batch.features, mixture.centers)
    guesses = {
        "nearest centre of features": distances.argmin(dim=1),
        "mixture of each graph, features": mixture.posterior(batch, edges=False).argmax(dim=1),
        "mixture of each graph, features and edges": mixture.posterior(batch).argmax(dim=1),
    }
    accuracies = {"degree statistics, ridge regression": ridge_accuracy(training, test)}
    for method, communities in guesses.items():
        accuracies[method] = float((communities == batch.labels).float().mean())
    return accuracies


# The table.

SETTINGS = [f"{homophily}-{degree}-heavy" for homophily, degree in product(HOMOPHILY, DEGREE)]
"""The settings of the table: all homophilies and degrees, with heavy tails of the degrees."""


@cache
def load_setting(path: Path, num_training: int | None, device: str) -> tuple[list[Graph], ...]:
    """Training, validation and test graphs, each with the posterior of the mixture."""
    graphs = [graph.to(device) for graph in read_graphs(path)]
    training = graphs[TRAINING][:num_training]
    mixture = CommunityMixture.fit(training)
    splits = []
    for part in (training, graphs[VALIDATION], graphs[TEST]):
        posterior = mixture.posterior(Batch.of(part))
        nodes = [len(graph.labels) for graph in part]
        completed = []
        for graph, own in zip(part, posterior.split(nodes), strict=True):
            completed.append(replace(graph, posterior=own))
        splits.append(completed)
    return tuple(splits)


class GraphUniverseChallenge(Benchmark):
    """Communities of nodes on unseen graphs, in settings of homophily and degree."""

    name = "graphuniverse"
    title = "GraphUniverse, TDL Challenge 2026: accuracy of the communities of nodes"
    scores = (
        Score("all", "all"),
        Score("low", "low homophily"),
        Score("mid", "mid homophily"),
        Score("high", "high homophily"),
    )
    data_source = "Make them with python -m experiments.published.make graphuniverse FOLDER."

    @classmethod
    def make_data(cls, folder: Path, source: Path | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for setting in SETTINGS:
            write_graphs(folder / f"{setting}.npz", generate(setting))

    def tasks(self, full: bool) -> list[Task]:
        tasks: list[Task] = [{"setting": setting, "method": "no network"} for setting in SETTINGS]
        for method in RECIPES:
            for setting in SETTINGS:
                for seed in SEEDS:
                    tasks.append({"setting": setting, "method": method, "seed": seed})
        if not full:
            tasks = [{**task, "training": 20} for task in tasks if task["setting"] == SETTINGS[0]]
        return tasks

    def summaries(self, rows: list[Row]) -> list[Row]:
        """The means over the settings of each method and seed, all and by homophily."""
        groups: dict[tuple, list[Row]] = {}
        for row in rows:
            groups.setdefault((row["method"], row.get("seed")), []).append(row)
        combined = []
        for group in groups.values():
            first = group[0]
            summary: Row = {
                key: first[key] for key in ("method", "kind", "seed", "device") if key in first
            }
            summary["all"] = float(np.mean([row["accuracy"] for row in group]))
            for homophily in HOMOPHILY:
                values = [row["accuracy"] for row in group if row["homophily"] == homophily]
                summary[homophily] = float(np.mean(values)) if values else None
            if "parameters" in first:
                summary["parameters"] = first["parameters"]
                summary["seconds"] = float(np.mean([row["seconds"] for row in group]))
            combined.append(summary)
        return combined

    def run(self, task: Task) -> list[Row]:
        path = self.file(f"{task['setting']}.npz")
        num_training = task.get("training")
        homophily = task["setting"].split("-")[0]
        common = {"setting": task["setting"], "homophily": homophily}
        if task["method"] == "no network":
            graphs = read_graphs(path)
            accuracies = untrained_accuracies(graphs[TRAINING][:num_training], graphs[TEST])
            rows = []
            for method, value in accuracies.items():
                rows.append({**common, "method": method, "kind": "classical", "accuracy": value})
            rows[0]["kind"] = "trivial"
            return rows
        recipe = RECIPES[task["method"]]
        training, validation, test = load_setting(path, num_training, self.device)
        epochs = MAX_EPOCHS if num_training is None else QUICK_EPOCHS
        start = time.perf_counter()
        net = train(recipe, training, validation, epochs, task["seed"])
        seconds = time.perf_counter() - start
        if isinstance(net, Configured):
            self.keep(net, task)
        row = {
            **common,
            "method": task["method"],
            "kind": recipe.kind,
            "accuracy": accuracy(recipe, net, test),
            "validation": accuracy(recipe, net, validation),
            "seed": task["seed"],
            "parameters": sum(parameter.numel() for parameter in net.parameters()),
            "seconds": seconds,
        }
        return [row]
