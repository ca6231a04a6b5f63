"""One training step of neural sheaf diffusion on a graph, against gather, batched product and
scatter in plain torch.

Two layers, d = 3, 20 channels, forward and backward, on minesweeper (10 000 nodes, 39 402 edges):
both compute the same function of the same weights. On a GPU also as CUDA graphs, where no time goes
into launches. Data: ``shared/data/graphs`` next to the repository, or the folder
``TANGENTBUNDLE_GRAPHS`` (files of yandex-research/heterophilous-graphs).
``python -m benchmarks.sheaf_speed cuda`` is the part for GPUs alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import tangentbundle as tb
from harness.records import Row
from harness.tables import print_rows
from harness.timing import MissingBaseline, best_in_turns, in_new_process

FOLDER = Path(
    os.environ.get("TANGENTBUNDLE_GRAPHS", Path(__file__).parents[2] / "shared/data/graphs")
)
DIM, CHANNELS, LAYERS, REPEATS = 3, 20, 2, 10
ASKED = {"cpu": 2.0, "cuda": 5.0}

Loss = Callable[[], torch.Tensor]


def usual(
    net: tb.nn.SheafDiffusion, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """The network in the usual formulation; edges in both directions, the second half reversed."""
    n, half = len(x), len(source) // 2
    signal = F.elu(net.encoder(x))
    for builder, block in zip(net.builders, net.blocks, strict=True):
        normal = block.norm(signal)
        ends = torch.cat([normal.index_select(0, source), normal.index_select(0, target)], dim=1)
        weight, bias = (
            torch.cat(p.chunk(2), dim=-1)
            for p in (builder.first.weight, builder.first.bias[:, None])
        )
        maps = builder.parametrization(
            builder.last(torch.tanh(F.linear(ends, weight, bias.sum(1)))), DIM
        )
        others = torch.cat([maps[half:], maps[:half]])
        diagonal = maps.new_zeros(n, DIM, DIM).index_add(0, source, maps.mT @ maps)
        factor = (diagonal.diagonal(dim1=1, dim2=2).mean(1) + net.normalization.shift).rsqrt()
        scale = factor.index_select(0, source) * factor.index_select(0, target)
        across = scale[:, None, None] * (maps.mT @ others)
        mixed = block.layer.left.T @ normal.unflatten(1, (DIM, CHANNELS)) @ block.layer.right
        step = mixed - factor.square()[:, None, None] * diagonal @ mixed
        step = step.index_add(0, source, across @ mixed.index_select(0, target))
        signal = signal + F.elu(block.own(normal) + step.flatten(1))
    return net.decoder(signal)


def losses(device: str) -> tuple[torch.nn.Module, dict[str, Loss]]:
    """The network, and its loss in both formulations."""
    path = FOLDER / "minesweeper.npz"
    if not path.exists():
        raise MissingBaseline(
            f"there is no {path}; set TANGENTBUNDLE_GRAPHS to the folder of the graphs"
        )
    with np.load(path) as file:
        features, labels, edges = (
            torch.from_numpy(file[name]).to(device)
            for name in ("node_features", "node_labels", "edges")
        )
    net = tb.nn.SheafDiffusion(features.shape[1], CHANNELS, 2, tb.nn.SheafLearner(DIM), LAYERS).to(
        device
    )
    once, both = edges.T.contiguous(), torch.cat([edges, edges.flip(1)]).T.contiguous()
    return net, {
        "usual": lambda: F.cross_entropy(usual(net, features, *both), labels),
        "ours": lambda: F.cross_entropy(net(features, once), labels),
    }


def gradients(net: torch.nn.Module, loss: Loss) -> list[torch.Tensor]:
    """The training step: forward and backward."""
    return list(torch.autograd.grad(loss(), list(net.parameters())))


def check(net: torch.nn.Module, jobs: dict[str, Loss]) -> None:
    """Refuse to compare two networks that are not the same function."""
    first, second = (
        torch.cat([g.flatten() for g in gradients(net, loss)]) for loss in jobs.values()
    )
    error = float((first - second).norm() / first.norm())
    if not error < 1e-4:
        raise AssertionError(f"gradients of the two formulations differ by {error:.2g}")


def captured(net: torch.nn.Module, loss: Loss) -> Callable[[], None]:
    """The step as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            gradients(net, loss)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = gradients(net, loss)
    return lambda: (graph.replay(), kept)[0]


def cuda_seconds(step: Callable, calls: int = 50) -> float:
    """Least seconds of a step, among repeats of many in a row."""
    best = float("inf")
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            step()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def cuda_memory(step: Callable) -> float:
    """MiB that a step allocates at most."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def cpu_memory(name: str) -> float:
    """MiB by which steps raise the memory of a process of their own; libraries and compiled code
    are loaded before."""
    net, jobs = losses("cpu")
    graph, maps = torch.tensor([[0], [1]]), torch.ones(1, DIM, DIM, requires_grad=True)
    (tb.Sheaf.from_edges(graph, maps).laplacian() @ torch.ones(2, DIM, CHANNELS)).sum().backward()
    before = _peak()
    for _ in range(3):
        gradients(net, jobs[name])
    return _peak() - before


def _peak() -> float:
    """MiB that this process has had at most, on Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10


def rows_of(device: str, seconds: dict[str, float], memory: dict[str, float]) -> list[Row]:
    """A row for each way to run a step; ``faster`` than the usual formulation run the same way."""
    rows = []
    for name, time_of in seconds.items():
        row: Row = {
            "device": device,
            "step": name,
            "ms": 1e3 * time_of,
            "memory_mib": memory.get(name, ""),
        }
        if name.startswith("ours"):
            row |= {
                "faster": seconds[name.replace("ours", "usual")] / time_of,
                "asked": ASKED[device],
            }
            row["than_plain_torch"] = seconds["usual"] / time_of
        rows.append(row)
    return rows


def on_cpu() -> list[Row]:
    """Rows of the CPU, with all cores."""
    net, jobs = losses("cpu")
    check(net, jobs)
    seconds = best_in_turns(
        {name: (lambda loss=loss: gradients(net, loss)) for name, loss in jobs.items()}, REPEATS
    )
    return rows_of(
        "cpu", seconds, {name: in_new_process("benchmarks.sheaf_speed", name) for name in jobs}
    )


def on_cuda() -> list[Row]:
    """Rows of the GPU; no compiled CPU code is needed."""
    net, jobs = losses("cuda")
    check(net, jobs)
    steps = {name: (lambda loss=loss: gradients(net, loss)) for name, loss in jobs.items()}
    memory = {name: cuda_memory(step) for name, step in steps.items()}
    steps |= {f"{name}, CUDA graph": captured(net, loss) for name, loss in jobs.items()}
    return rows_of("cuda", {name: cuda_seconds(step) for name, step in steps.items()}, memory)


def run() -> list[Row]:
    """CPU, then CUDA where there is any."""
    return on_cpu() + (on_cuda() if torch.cuda.is_available() else [])


if __name__ == "__main__":
    if sys.argv[1] == "cuda":
        print_rows(on_cuda())
    else:
        print(json.dumps(cpu_memory(sys.argv[1])))
