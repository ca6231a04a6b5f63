"""From points to answers on one GPU: geometry, products, filters, training, denoising and
eigenfields.

Rows name the limit that was asked for, where there is one, the time on the CPU of the same machine,
and for products the time in which memory could be read once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

import tangentbundle as tb
from harness.timing import MissingBaseline
from tangentbundle.estimators import SpectralFilter
from tangentbundle.operators.product import reference_step, step
from tangentbundle.operators.storage import BlockMatrix, SlicedMatrix

DEVICE = torch.device("cuda")
BATCH = 10
LARGE = 10**6


def sphere(n: int, seed: int = 0) -> torch.Tensor:
    """Uniform random points of the unit sphere, float32, on the GPU."""
    noise = torch.Generator(DEVICE).manual_seed(seed)
    x = torch.randn((n, 3), generator=noise, dtype=torch.float64, device=DEVICE)
    return (x / torch.linalg.vector_norm(x, dim=1, keepdim=True)).float()


def rotated(points: torch.Tensor, dims: int) -> torch.Tensor:
    """The same points in a space of more dimensions."""
    noise = torch.Generator(DEVICE).manual_seed(1)
    turn = torch.linalg.qr(torch.randn((dims, dims), generator=noise, device=DEVICE))[0]
    return torch.nn.functional.pad(points, (0, dims - points.shape[1])) @ turn


def sphere_laplacian(n: int, neighbors: int, rank: int = 2) -> tb.Laplacian:
    """The Laplacian of the sphere, order 1; rank 1 is the scalar bundle, rank 3 three copies of
    it."""
    bundle = tb.TangentBundle.from_points(sphere(n), dim=2, neighbors=neighbors)
    lap = (bundle if rank == 2 else bundle.scalar()).laplacian(terms=1)
    if rank == 3:
        blocks = (lap.average.values * torch.eye(3, device=DEVICE)).contiguous()
        lap = replace(lap, average=replace(lap.average, values=blocks))
    return lap


def seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Least wall-clock time after a warm-up, with everything on the GPU done."""
    function()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def milliseconds(function: Callable[[], object], repeats: int = 20) -> float:
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


def build(points: torch.Tensor) -> tb.Laplacian:
    return tb.TangentBundle.from_points(points, neighbors=32).laplacian()


def geometry() -> list[dict]:
    """Points to Laplacian, also against the CPU's result; first call with compilation, then
    again."""
    rows = []
    for n, dims, limit in ((LARGE, 3, 0.25), (LARGE // 10, 50, 0.5)):
        points = sphere(n) if dims == 3 else rotated(sphere(n), dims)
        torch.cuda.synchronize()
        start = time.perf_counter()
        build(points)
        torch.cuda.synchronize()
        first, here = time.perf_counter() - start, points.cpu()
        row = {
            "what": "points to Laplacian",
            "n": n,
            "D": dims,
            "first_call_s": first,
            "s": seconds(partial(build, points)),
        }
        build(here[:5000])  # compile
        start = time.perf_counter()
        expected = build(here)
        row |= {"required_s": limit, "cpu_s": time.perf_counter() - start}
        rows.append(row | _difference(build(points), expected))
    return rows


def _difference(lap: tb.Laplacian, expected: tb.Laplacian) -> dict:
    """Of two Laplacians of the same points, in frames that need not agree: ambient fields are
    compared."""
    v = torch.randn(
        (lap.num_points, lap.frames.shape[1], 1), generator=torch.Generator().manual_seed(0)
    )

    def image(operator: tb.Laplacian, field: torch.Tensor) -> torch.Tensor:
        frames = operator.frames
        return torch.einsum(
            "nij,njc->nic", frames, operator @ torch.einsum("nij,nic->njc", frames, field)
        ).cpu()

    a, b = image(lap, v.to(DEVICE)), image(expected, v)
    return {
        "edges": lap.num_edges,
        "cpu_edges": expected.num_edges,
        "relative_difference": float((a - b).norm() / b.norm()),
    }


def batches() -> list[dict]:
    """2 000 clouds of 100 to 200 points to one joined operator."""
    sizes = torch.from_numpy(np.random.default_rng(0).integers(100, 201, 2000)).to(DEVICE)
    points, batch = (
        sphere(int(sizes.sum())),
        torch.repeat_interleave(torch.arange(2000, device=DEVICE), sizes),
    )
    options = {"dim": 2, "neighbors": 20}
    row = {"what": "clouds to joined operator", "clouds": 2000, "n": len(points), "required_s": 0.1}
    row["s"] = seconds(lambda: tb.TangentBundle.from_batch(points, batch, **options), 5)
    here, start = (points.cpu(), batch.cpu()), time.perf_counter()
    expected = tb.TangentBundle.from_batch(*here, **options)
    row["cpu_s"] = time.perf_counter() - start
    found = tb.TangentBundle.from_batch(points, batch, **options)
    scales = [[part.scale for part in lap.parts] for lap in (found, expected)]
    row["difference_of_scales"] = float(np.ptp(np.log(scales), axis=0).max())
    return [
        row | {"difference_of_masses": float((found.mass.cpu() / expected.mass - 1).abs().max())}
    ]


def products(bandwidth: float) -> list[dict]:
    """One product, with signals along the curve and in the user's order, against cuSPARSE."""
    rows = []
    for rank in (1, 2, 3):
        laplacian = sphere_laplacian(LARGE, 32, rank)
        edges = laplacian.num_edges
        csr = laplacian.average
        sliced = SlicedMatrix.from_csr(csr)
        curve = sliced.along_curve()
        for channels in (1, 4, 16, 32, 64) if rank == 2 else (16,):
            x = torch.randn(LARGE, rank, channels, device=DEVICE)
            inside, out = x[sliced.curve_order.long()].contiguous(), torch.empty_like(x)
            row = {
                "what": "product",
                "n": LARGE,
                "edges": edges,
                "rank": rank,
                "channels": channels,
            }
            row["ms"] = milliseconds(lambda: step(curve, inside, inside, out, (1.0, 0.0, 0.0)))  # noqa: B023
            if rank == 2 and channels > 4:
                row["required_ms"] = {16: 0.28, 32: 0.38, 64: 0.60}[channels]
            floor = (edges * 4 * (1 + {1: 1, 2: 2, 3: 9}[rank]) + 8 * x.numel()) / bandwidth * 1e3
            row |= {"floor_ms": floor, "share_of_floor": floor / row["ms"]}
            row["user_order_ms"] = milliseconds(lambda: laplacian @ x)  # noqa: B023
            if channels == 16:
                sorted_x = x.double()[csr.curve_order.long()]
                exact = torch.empty_like(sorted_x)
                double = replace(csr, values=csr.values.double()).along_curve()
                reference_step(double, sorted_x, sorted_x, exact, (1.0, 0.0, 0.0))
                got = laplacian.averaged(x)[csr.curve_order.long()]
                row["relative_error"] = float((got - exact).norm() / exact.norm())
                del exact, double, sorted_x, got
            if rank == 2:
                row["cusparse_ms"] = _cusparse(csr, x)
            rows.append(row)
    return rows


def _cusparse(csr: BlockMatrix, x: torch.Tensor) -> float:
    n, d, channels = x.shape
    blocks, rows, columns = csr.blocks(), csr.rows(), csr.columns()
    local = torch.arange(d, device=DEVICE)
    i = ((rows * d)[:, None, None] + local[:, None].expand(d, d)).flatten()
    j = ((columns * d)[:, None, None] + local.expand(d, d)).flatten()
    by_row = torch.argsort(i * (n * d) + j)
    indptr = torch.nn.functional.pad(torch.bincount(i, minlength=n * d).cumsum(0), (1, 0)).int()
    matrix = torch.sparse_csr_tensor(
        indptr, j[by_row].int(), blocks.flatten()[by_row], size=(n * d, n * d)
    )
    flat = x.reshape(n * d, channels)
    return milliseconds(lambda: matrix @ flat, 3)


def heat() -> list[dict]:
    """``Heat(0.01)`` forward and backward; no host synchronisation; CUDA graph; compiled."""
    laplacian, rows, filter = sphere_laplacian(LARGE, 32), [], tb.Heat(0.01)
    for channels in (16, 64):
        x = torch.randn(LARGE, 2, channels, device=DEVICE, requires_grad=True)
        grad = torch.randn_like(x)
        filter(laplacian, x)  # interval and coefficients are computed once

        def both(x=x, grad=grad):
            torch.autograd.grad(filter(laplacian, x), x, grad)

        torch.cuda.set_sync_debug_mode("error")
        both()
        torch.cuda.set_sync_debug_mode("default")
        still = x.detach()
        row = {"what": "heat", "t": 0.01, "n": LARGE, "channels": channels}
        row["terms"] = tb.Chebyshev().coefficients([filter], laplacian).shape[1]
        row["forward_ms"] = milliseconds(lambda: filter(laplacian, still), 1)  # noqa: B023
        row["required_ms"] = 40.0 if channels == 16 else None
        row["forward_backward_ms"] = milliseconds(both, 1)
        expected = filter(laplacian, still)
        graph, static = torch.cuda.CUDAGraph(), still.clone()
        with torch.cuda.graph(graph):
            captured = filter(laplacian, static)
        graph.replay()
        row["cuda_graph_equal"] = bool(torch.equal(captured, expected))
        row["cuda_graph_ms"] = milliseconds(graph.replay, 1)
        rows.append(row)
        del graph, captured, static
    return rows


def training() -> list[dict]:
    """A step of Adam for a network of two layers with three taps."""
    laplacian, rows = sphere_laplacian(LARGE, 32), []
    for channels, before in ((16, 255.0), (64, 783.0)):
        net = tb.nn.TNN([channels] * 3, 3, step=0.01, seed=0).to(DEVICE)
        x, optimizer = (
            torch.randn(LARGE, 2, channels, device=DEVICE),
            torch.optim.Adam(net.parameters()),
        )

        def train(net=net, x=x, optimizer=optimizer) -> None:
            optimizer.zero_grad()
            net(x, laplacian).square().mean().backward()
            optimizer.step()

        ms = 1e3 * seconds(train)
        rows.append(
            {
                "what": "training step",
                "n": LARGE,
                "channels": channels,
                "ms": ms,
                "required_ms": before / 2,
            }
        )
    return rows


def denoise() -> list[dict]:
    """A noisy field from points to the smooth field, by the filter of least estimated risk."""
    points = sphere(LARGE)
    clean = torch.linalg.cross(
        torch.tensor([[0.0, 0.0, 1.0]], device=DEVICE).expand_as(points), points
    )
    noisy = clean + 0.5 * torch.randn(
        points.shape, generator=torch.Generator(DEVICE).manual_seed(1), device=DEVICE
    )

    def run(points: torch.Tensor, noisy: torch.Tensor) -> torch.Tensor:
        return (
            tb.FieldDenoiser(SpectralFilter(neighbors=32), random_state=0)
            .fit(points, noisy)
            .predict(points)
        )

    row = {
        "what": "denoising",
        "n": LARGE,
        "s": seconds(lambda: run(points, noisy), 2),
        "required_s": 10.0,
    }
    row["error_left"] = float(
        (run(points, noisy) - clean).square().mean() / (noisy - clean).square().mean()
    )
    start = time.perf_counter()
    run(points.cpu(), noisy.cpu())
    return [row | {"cpu_s": time.perf_counter() - start}]


def spectrum() -> list[dict]:
    """The 50 lowest eigenfields of a million points; on the CPU those of a tenth as many."""
    rows = []
    for n, device in ((LARGE, DEVICE), (LARGE // 10, DEVICE), (LARGE // 10, torch.device("cpu"))):
        laplacian = sphere_laplacian(n, 32).to(device)
        start = time.perf_counter()
        values = laplacian.spectrum(50)[0]
        row = {
            "what": "spectrum",
            "n": n,
            "k": 50,
            "device": device.type,
            "s": time.perf_counter() - start,
        }
        rows.append(row | {"lowest": float(values[0]), "last": float(values[-1])})
    return rows


def growth(most: int) -> list[dict]:
    """Milliseconds and picoseconds an edge of one product with 4 channels, from 10^4 to ``most``
    points."""
    rows = []
    for n in (int(10**e) for e in np.arange(4, np.log10(most) + 1e-9, 0.5)):
        laplacian = sphere_laplacian(n, 32)
        sliced = SlicedMatrix.from_csr(laplacian.average)
        x = torch.randn(n, 2, 4, device=DEVICE)
        curve, out = (
            sliced.along_curve(),
            torch.empty_like(x),
        )
        ms = milliseconds(lambda: step(curve, x, x, out, (1.0, 0.0, 0.0)))  # noqa: B023
        edges = laplacian.num_edges
        rows.append(
            {
                "what": "growth",
                "n": n,
                "edges": edges,
                "channels": 4,
                "ms": ms,
                "ps_per_edge": ms * 1e9 / edges,
            }
        )
    return rows


def calculus(n: int = 10**6) -> list[dict]:
    """Gradient, divergence and decomposition of a known field on a torus."""
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
    parts = [
        bundle.to_coordinates(torch.from_numpy(part).to(DEVICE)) for part in torus_parts(points)
    ]
    field = torch.stack(parts).sum(0)
    row["divergence_ms"] = milliseconds(lambda: divergence @ field, 5)
    row["gradient_ms"] = milliseconds(lambda: gradient @ field[:, :1], 5)
    for fields in (1, 4):  # the coarse problem is solved on the CPU, one field after another
        start = time.time()
        found = tb.helmholtz(bundle, field.expand(-1, -1, fields).contiguous())
        torch.cuda.synchronize()
        row[f"decomposition_of_{fields}_s"] = time.time() - start
    got = torch.stack([found.gradient, found.rotational, found.remainder])[..., :1]
    assert got.device.type == DEVICE.type
    row["relative_error"] = max(
        float((g - p).norm() / p.norm()) for g, p in zip(got, parts, strict=True)
    )
    return [row]


def run(most: int = 10**7) -> list[dict]:
    """The rows of all parts; ``most`` is the largest number of points in the growth table."""
    if not torch.cuda.is_available():
        raise MissingBaseline("this benchmark needs a CUDA device; none is visible to torch")
    warnings.simplefilter("ignore")
    bandwidth = copy_bandwidth()
    parts = (
        geometry,
        batches,
        partial(products, bandwidth),
        heat,
        training,
        denoise,
        partial(growth, most),
        spectrum,
        calculus,
    )
    rows: list[dict] = [{"what": "copy", "tb_per_s": bandwidth / 1e12}]
    for part in parts:
        rows += part()
        print(f"{len(rows)} rows", end="\r", flush=True)
        torch.cuda.empty_cache()
    return rows
