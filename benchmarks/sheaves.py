"""Node classification on five heterophilous graphs with ten public splits: learned sheaves and
other networks.

Every row is trained with early stopping on the validation nodes; its hyperparameters are those of
the grid with the best mean validation score over the splits; the test score is that of the same
run. Data: ``shared/data/graphs`` next to the repository, or the folder ``TANGENTBUNDLE_GRAPHS``
(files of yandex-research/heterophilous-graphs).
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from harness.records import RESULTS, Row, load
from harness.timing import MissingBaseline
from tangentbundle import nn

from .graph_models import CONVOLUTIONS, LIBRARY, PLAIN, Blocks, Mix, convolution

FOLDER = Path(
    os.environ.get("TANGENTBUNDLE_GRAPHS", Path(__file__).parents[2] / "shared/data/graphs")
)
SPLITS, DIM, CHANNELS, TAPS = 10, 3, 20, 3
GPU_JOBS = 4
"""Processes that share a GPU."""

WIDTH = DIM * CHANNELS
"""Features of a node in all networks."""


@dataclass(frozen=True)
class DataSet:
    """A graph, how long to train on it at most and without progress, epochs between validations,
    and the grid."""

    metric: str
    epochs: int
    patience: int
    every: int
    grid: dict[str, tuple]
    on_gpu: bool = False
    published: dict[str, float] = field(default_factory=dict)

    def settings(self, row: str) -> list[Row]:
        """All combinations; logistic regression has no layers and no dropout, and no perceptron
        other weights."""
        fixed = {"logistic regression": ("layers", "dropout", "own"), "MLP": ("own",)}.get(row, ())
        used = {key: values[:1] if key in fixed else values for key, values in self.grid.items()}
        return [
            dict(zip(used, values, strict=True)) for values in itertools.product(*used.values())
        ]


SMALL = {
    "layers": (2,),
    "dropout": (0.5,),
    "rate": (0.01,),
    "decay": (5e-4, 5e-3),
    "own": (False, True),
}
LARGE = {"layers": (5,), "dropout": (0.2,), "rate": (0.01,), "decay": (0.0,), "own": (False, True)}
"""The same for all rows: ``own`` is a matrix in every block for the features of the node itself."""

ORTHOGONAL = "SheafDiffusion, orthogonal"

DATA = {
    "texas": DataSet("accuracy", 300, 100, 2, SMALL, published={ORTHOGONAL: 85.95}),
    "wisconsin": DataSet("accuracy", 300, 100, 2, SMALL, published={ORTHOGONAL: 89.41}),
    "cornell": DataSet("accuracy", 300, 100, 2, SMALL, published={ORTHOGONAL: 84.86}),
    "chameleon_filtered": DataSet(
        "accuracy", 300, 100, 2, SMALL, True, {"GCN": 40.9, "GraphSAGE": 37.8, "GAT": 39.2}
    ),
    "minesweeper": DataSet(
        "ROC AUC", 400, 100, 10, LARGE, True, {"GCN": 89.75, "GraphSAGE": 93.51, "GAT": 92.01}
    ),
}


def sheaf_learner(parametrization: nn.Parametrization) -> nn.SheafLearner:
    return nn.SheafLearner(DIM, parametrization)


BUILDERS: dict[str, Callable[[], nn.SheafBuilder]] = {
    "SheafDiffusion, diagonal": lambda: sheaf_learner(nn.Diagonal()),
    ORTHOGONAL: lambda: sheaf_learner(nn.Cayley()),
    "SheafDiffusion, general": lambda: sheaf_learner(nn.General()),
    "SheafTNN, ConnectionSheaf": lambda: nn.ConnectionSheaf(DIM),
    "SheafTNN, orthogonal": lambda: sheaf_learner(nn.Cayley()),
}
ROWS = ("logistic regression", "MLP", *CONVOLUTIONS, *BUILDERS)


def network(
    row: str, inputs: int, outputs: int, setting: Row, seed: int, cuda: bool
) -> torch.nn.Module:
    """An untrained network of a row; on GPUs convolutions in plain torch, which CUDA graphs can
    record."""
    torch.manual_seed(seed)
    options = {key: setting[key] for key in ("layers", "dropout", "own")}
    if row == "logistic regression":
        return Mix(inputs, outputs)
    if row == "MLP":
        return Blocks(lambda: Mix(WIDTH, WIDTH), inputs, WIDTH, outputs, **options)
    if row in CONVOLUTIONS:
        return Blocks(
            lambda: convolution(row, WIDTH, PLAIN if cuda else None),
            inputs,
            WIDTH,
            outputs,
            **options,
        )
    options["seed"] = seed
    if row.startswith("SheafTNN"):
        return nn.SheafTNN(inputs, CHANNELS, outputs, BUILDERS[row](), taps=TAPS, **options)
    return nn.SheafDiffusion(inputs, CHANNELS, outputs, BUILDERS[row](), **options)


@dataclass(frozen=True)
class Graph:
    """Features ``(n, F)`` with rows of length one, labels ``(n,)``, edges in both directions, masks
    ``(3, 10, n)``."""

    x: torch.Tensor
    y: torch.Tensor
    edge_index: torch.Tensor
    masks: torch.Tensor

    @classmethod
    @cache
    def read(cls, name: str, device: str) -> Graph:
        with np.load(FOLDER / f"{name}.npz") as file:
            edges = torch.from_numpy(file["edges"]).long().T
            masks = torch.stack(
                [torch.from_numpy(file[f"{part}_masks"]) for part in ("train", "val", "test")]
            )
            x, y = (
                torch.from_numpy(file["node_features"]).float(),
                torch.from_numpy(file["node_labels"]).long(),
            )
        return cls(
            *(
                t.to(device)
                for t in (F.normalize(x, dim=1), y, torch.cat([edges, edges.flip(0)], 1), masks)
            )
        )


def score(logits: torch.Tensor, y: torch.Tensor, metric: str) -> float:
    """Accuracy, or the area under the receiver operating characteristic, in per cent."""
    if metric == "accuracy":
        return 100 * float((logits.argmax(1) == y).double().mean())
    margins, positive = logits[:, 1] - logits[:, 0], y == 1
    _, inverse, counts = margins.unique(return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - (counts - 1) / 2.0)[
        inverse
    ].double()  # equal margins share their mean rank
    p, n = int(positive.sum()), int((~positive).sum())
    return 100 * float((ranks[positive].sum() - p * (p + 1) / 2) / (p * n))


class Run:
    """The training of one network on one split; on a GPU its steps are CUDA graphs on a stream of
    their own."""

    def __init__(self, graph: Graph, row: str, setting: Row, split: int) -> None:
        self.graph, (self.learn, self.validate, self.test) = graph, graph.masks[:, split]
        classes = int(graph.y.max()) + 1
        self.net = network(row, graph.x.shape[1], classes, setting, split, graph.x.is_cuda).to(
            graph.x.device
        )
        options = {"lr": setting["rate"], "weight_decay": setting["decay"]}
        if graph.x.is_cuda:
            options |= {"fused": True, "capturable": True}
        self.adam = torch.optim.Adam(self.net.parameters(), **options)
        self.nodes = self.learn.nonzero().squeeze(1)
        self.step, self.logits = self._step, self._logits
        if graph.x.is_cuda:
            self.stream = torch.cuda.Stream()
            self.step, self.logits = self._captured(self._step), self._captured(self._logits)
        self.best, self.answer, self.waited = (-1.0, 0.0), 0.0, 0

    def _step(self) -> None:
        self.net.train()
        self.adam.zero_grad(set_to_none=True)
        logits = self.net(self.graph.x, self.graph.edge_index).index_select(0, self.nodes)
        F.cross_entropy(logits, self.graph.y.index_select(0, self.nodes)).backward()
        self.adam.step()

    def _logits(self) -> torch.Tensor:
        self.net.eval()
        with torch.no_grad():
            return self.net(self.graph.x, self.graph.edge_index)

    def _captured(self, function: Callable) -> Callable:
        """The function as a CUDA graph, after two calls that fill caches; its result is always the
        same tensor."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            function()
            function()
        torch.cuda.synchronize()
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self.stream):
            recorded.capture_begin()
            result = function()
            recorded.capture_end()

        def replay() -> torch.Tensor | None:
            with torch.cuda.stream(self.stream):
                recorded.replay()
            return result

        return replay

    def judge(self, logits: torch.Tensor, metric: str, epochs: int) -> None:
        """Keep the test score of the best validation score so far (ties: the least validation
        loss)."""
        y, validate, test = self.graph.y.cpu(), self.validate.cpu(), self.test.cpu()
        loss = float(F.cross_entropy(logits[validate], y[validate]))
        now = score(logits[validate], y[validate], metric), -loss
        self.waited += epochs
        if now > self.best:
            self.best, self.answer, self.waited = now, score(logits[test], y[test], metric), 0


def train(graph: Graph, data: DataSet, row: str, setting: Row, splits: int) -> np.ndarray:
    """Validation and test scores ``(splits, 2)`` at the epochs of the best validation scores."""
    runs = [Run(graph, row, setting, split) for split in range(splits)]
    left = runs
    for epoch in range(1, data.epochs + 1):
        for run in left:
            run.step()
        if epoch % data.every == 0:
            found = [run.logits() for run in left]
            if graph.x.is_cuda:
                torch.cuda.synchronize()
            for run, logits in zip(left, torch.stack(found).cpu(), strict=True):
                run.judge(logits, data.metric, data.every)
            left = [run for run in left if run.waited < data.patience]
            if not left:
                break
    return np.array([(run.best[0], run.answer) for run in runs])


def run_task(
    name: str, row: str, setting: Row, device: str, splits: int, epochs: int | None
) -> Row:
    """All splits of one row with one setting, in a process with one thread."""
    torch.set_num_threads(1)
    start, data, graph = time.perf_counter(), DATA[name], Graph.read(name, device)
    scores = train(graph, replace(data, epochs=epochs or data.epochs), row, setting, splits)
    took = time.perf_counter() - start
    val, test = scores.T.tolist()
    library = "plain torch" if graph.x.is_cuda else LIBRARY
    return {
        "data": name,
        "row": row,
        "setting": setting,
        "val": val,
        "test": test,
        "library": library,
        "seconds": took,
    }


def tasks(names: list[str], device: str) -> Iterator[tuple[str, str, Row, str]]:
    """The longest ones first."""
    for name in reversed([name for name in DATA if name in names]):
        for row in reversed(ROWS):
            for setting in DATA[name].settings(row):
                yield name, row, setting, device if DATA[name].on_gpu else "cpu"


def summarize(found: list[Row]) -> list[Row]:
    """A row for each data set and method, with the setting of the best mean validation score."""
    rows = []
    for name in DATA:
        chosen = [
            max(
                (task for task in found if (task["data"], task["row"]) == (name, row)),
                key=lambda t: np.mean(t["val"]),
            )
            for row in ROWS
            if any((task["data"], task["row"]) == (name, row) for task in found)
        ]
        best = max((np.mean(task["test"]) for task in chosen), default=0.0)
        for task in chosen:
            gap, spread = best - np.mean(task["test"]), float(np.std(task["test"], ddof=1))
            rows.append(
                {
                    "data": name,
                    "method": task["row"]
                    + (f" ({task['library']})" if task["row"] in CONVOLUTIONS else ""),
                    "metric": DATA[name].metric,
                    "test": float(np.mean(task["test"])),
                    "std": spread,
                    "validation": float(np.mean(task["val"])),
                    "below best": float(gap),
                    "within one std": bool(gap <= spread),
                    "published": DATA[name].published.get(task["row"], ""),
                    "chosen": ", ".join(
                        f"{key} {value:g}" for key, value in task["setting"].items()
                    ),
                    "seconds": task["seconds"],
                }
            )
    return rows


def workers(count: int) -> ProcessPoolExecutor:
    """A pool of fresh processes."""
    return ProcessPoolExecutor(count, get_context("spawn"))


def run(
    device: str | None = None,
    jobs: int | None = None,
    only: list[str] | None = None,
    splits: int = SPLITS,
    epochs: int | None = None,
    log: Path | None = None,
) -> list[Row]:
    """The table of all data sets, of which ``only`` these are computed, the others as saved; small
    graphs on CPU cores, large ones on the device.

    With a ``log`` finished tasks are written there, and those that it has are not run again.
    """
    if not FOLDER.exists():
        raise MissingBaseline(
            f"there are no graphs in {FOLDER}; set TANGENTBUNDLE_GRAPHS to their folder"
        )
    names = only or list(DATA)
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    for name in names:
        print(
            f"{name}: grid {DATA[name].grid}, at most {DATA[name].epochs} epochs, patience "
            f"{DATA[name].patience}"
        )
    found = (
        [json.loads(line) for line in log.read_text().splitlines()]
        if log is not None and log.exists()
        else []
    )
    known = [(task["data"], task["row"], task["setting"]) for task in found]
    left = [task for task in tasks(names, device) if task[:3] not in known]
    jobs = jobs or os.cpu_count() or 1
    drivers = min(GPU_JOBS, jobs) if device == "cuda" else 0
    with workers(max(jobs - drivers, 1)) as on_cores, workers(max(drivers, 1)) as on_gpu:
        pools = {"cpu": on_cores, "cuda": on_gpu}
        for done in as_completed(
            [pools[task[3]].submit(run_task, *task, splits, epochs) for task in left]
        ):
            found.append(task := done.result())
            means = (
                f"validation {np.mean(task['val']):.2f}, test {np.mean(task['test']):.2f}, "
                f"{task['seconds']:.0f} s"
            )
            print(f"{task['data']}, {task['row']}, {task['setting']}: {means}", flush=True)
            if log is not None:
                with log.open("a") as file:
                    file.write(json.dumps(task) + "\n")
    rows = summarize([task for task in found if task["data"] in names])
    return sorted(rows + saved_rows_of_others(names), key=lambda row: [*DATA].index(row["data"]))


def saved_rows_of_others(names: list[str]) -> list[Row]:
    """The saved rows of other data sets than these."""
    if not (RESULTS / "sheaves.json").exists():
        return []
    return [row for row in load("sheaves") if row["data"] not in names]
