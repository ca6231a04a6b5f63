"""Products and heat on one GPU: times, fractions of the memory floor, growth with n.

Runs alone with torch, triton, numpy and scipy: ``PYTHONPATH=src python -m benchmarks.gpu [--out FILE] [--most N]``; the
part ``calculus``, on a million points, needs numba, too, and is left out without it.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy
import torch
from scipy.spatial import cKDTree

import tangentbundle as tb
from tangentbundle.arrays import ArrayKind
from tangentbundle.operators.product import reference_step, step
from tangentbundle.operators.storage import BlockMatrix, SlicedMatrix, along_curve

DEVICE = torch.device("cuda")
BATCH = 10


def sphere_laplacian(n: int, neighbors: int, rank: int = 2) -> tb.ConnectionLaplacian:
    """The connection Laplacian of n random points of S^2, built by torch on the GPU: no compiled CPU kernels needed.

    Exact frames, turned and reflected at random, with transport in closed form; rank 1 is the scalar bundle, rank 3
    three copies of it. The user's order is random.
    """
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points = points[_hilbert(points)]
    radius = float(np.sqrt(4 * neighbors / n))
    pairs = torch.from_numpy(cKDTree(points).query_pairs(radius, output_type="ndarray")).to(DEVICE)
    x = torch.from_numpy(points).to(DEVICE)
    i, j = torch.cat([pairs[:, 0], pairs[:, 1]]), torch.cat([pairs[:, 1], pairs[:, 0]])
    by_row = torch.argsort(i * n + j)
    i, j = i[by_row], j[by_row]
    indptr = torch.nn.functional.pad(torch.bincount(i, minlength=n).cumsum(0), (1, 0))
    weight = torch.exp(-((x[i] - x[j]).square().sum(1)) / radius**2)
    degree = torch.zeros(n, dtype=x.dtype, device=DEVICE).index_add(0, i, weight)
    weight = weight / (degree[i] * degree[j])
    mass = torch.zeros_like(degree).index_add(0, i, weight)
    weight = weight / mass[i]
    cols, values = j.int(), weight[:, None, None] * torch.eye(rank, device=DEVICE)
    if rank == 2:
        noise = torch.Generator(DEVICE).manual_seed(0)
        first = torch.linalg.cross(x, torch.randn(x.shape, generator=noise, dtype=x.dtype, device=DEVICE))
        first = first / torch.linalg.vector_norm(first, dim=1, keepdim=True)
        second = torch.linalg.cross(x, first) * (torch.randint(0, 2, (n, 1), generator=noise, device=DEVICE) * 2 - 1)
        a, b = (first[i] * first[j]).sum(1), (first[i] * second[j]).sum(1)
        c, d = (second[i] * first[j]).sum(1), (second[i] * second[j]).sum(1)
        flip = a * d - b * c < 0
        turn = torch.stack([torch.where(flip, a - d, a + d), torch.where(flip, c + b, c - b)], 1)
        values = weight[:, None] * turn / torch.linalg.vector_norm(turn, dim=1, keepdim=True)
        cols = torch.where(flip, ~cols, cols)
    scale = tb.kernels.Gaussian().calibration(2) * radius**2
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).int().to(DEVICE)
    kind = ArrayKind(True, torch.float32, DEVICE)
    mass = torch.empty_like(mass).index_copy_(0, order.long(), mass / mass.sum()).float()
    return tb.ConnectionLaplacian(indptr, cols, values.float().contiguous(), order, mass, scale, rank, kind)


def _hilbert(points: np.ndarray, bits: int = 14) -> np.ndarray:
    """Order along a Hilbert curve, with NumPy alone (J. Skilling, 2004)."""
    cells = ((points + 1) / 2 * (2**bits - 1)).astype(np.int64).T.copy()
    bit = 1 << (bits - 1)
    while bit > 1:
        for axis in range(3):
            up = (cells[axis] & bit) != 0
            swap = np.where(up, 0, (cells[0] ^ cells[axis]) & (bit - 1))
            cells[0] ^= np.where(up, bit - 1, 0) ^ swap
            cells[axis] ^= swap
        bit >>= 1
    cells[1] ^= cells[0]
    cells[2] ^= cells[1]
    flip = np.zeros_like(cells[0])
    bit = 1 << (bits - 1)
    while bit > 1:
        flip ^= np.where(cells[2] & bit, bit - 1, 0)
        bit >>= 1
    cells ^= flip
    code = np.zeros(len(points), np.int64)
    for level in range(bits - 1, -1, -1):
        for axis in range(3):
            code = (code << 1) | ((cells[axis] >> level) & 1)
    return np.argsort(code, kind="stable")


def milliseconds(function, repeats: int = 30) -> float:
    """Median time by CUDA events, after a warm-up."""
    for _ in range(3):
        function()
    times: list[float] = []
    for _ in range(repeats):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(BATCH):  # one after another, so that the time to launch them is hidden
            function()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / BATCH)
    return float(np.median(times))


def copy_bandwidth() -> float:
    """Bytes read plus written by a large copy, a second."""
    a = torch.randint(0, 255, (2**30,), dtype=torch.uint8, device=DEVICE)
    b = torch.empty_like(a)
    return 2 * 2**30 / (milliseconds(lambda: b.copy_(a)) * 1e-3)


def products(n: int, bandwidth: float) -> list[dict]:
    """One product, with signals along the curve and in the user's order, against cuSPARSE."""
    rows = []
    for rank in (1, 2, 3):
        laplacian = sphere_laplacian(n, 32, rank)
        edges = laplacian.num_edges
        csr = BlockMatrix(laplacian.indptr, laplacian.cols, laplacian.values, laplacian.order)
        sliced = SlicedMatrix.from_csr(csr)
        curve = along_curve(sliced.indptr, sliced.cols, sliced.values, sliced.order)
        for channels in (1, 4, 16, 32, 64) if rank == 2 else (16,):
            x = torch.randn(n, rank, channels, device=DEVICE)
            inside, out = x[sliced.order.long()].contiguous(), torch.empty_like(x)
            row = {"what": "product", "n": n, "edges": edges, "rank": rank, "channels": channels}
            row["ms"] = milliseconds(lambda: step(curve, inside, inside, out, (1.0, 0.0, 0.0)))  # noqa: B023
            numbers = {1: 1, 2: 2, 3: 9}[rank]
            floor = (edges * 4 * (1 + numbers) + 8 * x.numel()) / bandwidth * 1e3
            row |= {"floor_ms": floor, "share_of_floor": floor / row["ms"]}
            row["user_order_ms"] = milliseconds(lambda: laplacian @ x)  # noqa: B023
            if channels == 16:
                sorted_x = x.double()[csr.order.long()]
                exact = torch.empty_like(sorted_x)
                double = along_curve(csr.indptr, csr.cols, csr.values.double(), csr.order)
                reference_step(double, sorted_x, sorted_x, exact, (1.0, 0.0, 0.0))
                got = laplacian.average(x)[csr.order.long()]
                row["relative_error"] = float((got - exact).norm() / exact.norm())
                del exact, double, sorted_x, got
            if rank == 2:
                row["cusparse_ms"] = _cusparse(csr, x)
            rows.append(row)
            print(row, flush=True)
    return rows


def _cusparse(csr: BlockMatrix, x: torch.Tensor) -> float:
    n, d, channels = x.shape
    blocks, rows, columns = csr.blocks(), csr.rows(), csr.columns()
    local = torch.arange(d, device=DEVICE)
    i = ((rows * d)[:, None, None] + local[:, None].expand(d, d)).flatten()
    j = ((columns * d)[:, None, None] + local.expand(d, d)).flatten()
    by_row = torch.argsort(i * (n * d) + j)
    indptr = torch.nn.functional.pad(torch.bincount(i, minlength=n * d).cumsum(0), (1, 0)).int()
    matrix = torch.sparse_csr_tensor(indptr, j[by_row].int(), blocks.flatten()[by_row], size=(n * d, n * d))
    flat = x.reshape(n * d, channels)
    return milliseconds(lambda: matrix @ flat, 5)


def heat(n: int) -> list[dict]:
    """``Heat(0.01)`` forward and backward; no host synchronisation; CUDA graph; compiled."""
    laplacian, rows = sphere_laplacian(n, 32), []
    filter = tb.Heat(0.01)
    for channels in (16, 64):
        x = torch.randn(n, 2, channels, device=DEVICE, requires_grad=True)
        grad = torch.randn_like(x)
        filter(laplacian, x)  # interval and coefficients are computed once

        def both(x=x, grad=grad):
            torch.autograd.grad(filter(laplacian, x), x, grad)

        torch.cuda.set_sync_debug_mode("error")
        both()
        torch.cuda.set_sync_debug_mode("default")
        still = x.detach()
        row = {"what": "heat", "t": 0.01, "n": n, "channels": channels}
        row["terms"] = tb.Chebyshev().coefficients([filter], laplacian).shape[1]
        row["forward_ms"] = milliseconds(lambda: filter(laplacian, still), 10)  # noqa: B023
        row["forward_backward_ms"] = milliseconds(both, 10)
        expected = filter(laplacian, still)
        graph, static = torch.cuda.CUDAGraph(), still.clone()
        with torch.cuda.graph(graph):
            captured = filter(laplacian, static)
        graph.replay()
        row["cuda_graph_equal"] = bool(torch.equal(captured, expected))
        row["cuda_graph_ms"] = milliseconds(graph.replay, 10)
        compiled = torch.compile(lambda y: torch.tanh(filter(laplacian, y)))
        row["compiled_equal"] = bool(torch.allclose(compiled(still), torch.tanh(expected), atol=1e-6))
        rows.append(row)
        print(row, flush=True)
        del graph, captured, static
    return rows


def growth(most: int) -> list[dict]:
    """Milliseconds and picoseconds an edge of one product with 4 channels, from 10^4 to ``most`` points."""
    rows = []
    for n in (10**k for k in range(4, 8) if 10**k <= most):
        rows.append(_growth_row(n))
        print(rows[-1], flush=True)
        torch.cuda.empty_cache()
    return rows


def _growth_row(n: int) -> dict:
    start = time.time()
    laplacian = sphere_laplacian(n, 32)
    x, edges = torch.randn(n, 2, 4, device=DEVICE), laplacian.num_edges
    sliced = SlicedMatrix.from_csr(BlockMatrix(laplacian.indptr, laplacian.cols, laplacian.values, laplacian.order))
    inside, out = x[sliced.order.long()].contiguous(), torch.empty_like(x)
    curve = along_curve(sliced.indptr, sliced.cols, sliced.values, sliced.order)
    ms = milliseconds(lambda: step(curve, inside, inside, out, (1.0, 0.0, 0.0)))
    row = {"what": "growth", "n": n, "edges": edges, "channels": 4, "ms": ms, "ps_per_edge": ms * 1e9 / edges}
    return row | {"setup_s": time.time() - start}


def calculus(n: int) -> list[dict]:
    """Gradient, divergence and decomposition of a known field on a torus: geometry on the CPU, the rest on the GPU."""
    from tangentbundle.calculus import Derivatives

    from .calculus import TORUS, torus_parts

    points = TORUS.sample(n, seed=0)
    start = time.time()
    bundle = tb.TangentBundle.from_points(torch.from_numpy(points).to(DEVICE), dim=2, neighbors=40)
    row: dict = {"what": "calculus", "n": n, "bundle_s": time.time() - start}
    start = time.time()
    maps = Derivatives(bundle)
    gradient, divergence = maps.gradient(), maps.divergence()
    row["maps_s"] = time.time() - start
    parts = [bundle.to_coordinates(torch.from_numpy(part).to(DEVICE)) for part in torus_parts(points)]
    field = torch.stack(parts).sum(0)
    row["divergence_ms"] = milliseconds(lambda: divergence @ field, 5)
    row["gradient_ms"] = milliseconds(lambda: gradient @ field[:, :1], 5)
    for fields in (1, 16):
        start = time.time()
        found = tb.helmholtz(bundle, field.expand(-1, -1, fields).contiguous())
        torch.cuda.synchronize()
        row[f"decomposition_of_{fields}_s"] = time.time() - start
    got = torch.stack([found.gradient, found.rotational, found.remainder])[..., :1]
    assert got.device.type == DEVICE.type
    row["relative_error"] = max(float((g - p).norm() / p.norm()) for g, p in zip(got, parts, strict=True))
    print(row, flush=True)
    return [row]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "gpu.json"), help="result file")
    parser.add_argument("--most", type=float, default=1e7, help="most points in the growth table")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device; none is visible to torch")
    import triton

    bandwidth = copy_bandwidth()
    versions = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    versions |= {"numpy": np.__version__, "scipy": scipy.__version__}
    machine = {"gpu": torch.cuda.get_device_name(), "copy_tb_per_s": bandwidth / 1e12}
    rows: list[dict] = []
    parts = [lambda: products(10**6, bandwidth), lambda: heat(10**6), lambda: growth(int(options.most))]
    if find_spec("numba"):
        parts.append(lambda: calculus(10**6))
    for part in parts:
        rows += part()
        content = {"name": "gpu", "machine": machine, "versions": versions, "rows": rows}
        Path(options.out).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
