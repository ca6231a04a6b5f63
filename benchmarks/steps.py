"""The steps of a computation on a CPU: points to Laplacian, its products, heat, and a step of
training."""

from __future__ import annotations

import time
import warnings
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import expm_multiply

import tangentbundle as tb
from harness.records import Row
from harness.timing import baseline, best_in_turns, seconds
from tangentbundle.testing import relative_error

POINTS = 40_000
NEIGHBORS = 30


# Points to Laplacian.

BUILD_TARGET = 8.0
"""How many times faster than potpourri3d the set-up was to become."""


def build() -> list[Row]:
    """Points to connection Laplacian, against setting up potpourri3d's point-cloud heat solver and
    one transport."""
    potpourri3d = baseline("potpourri3d")
    points = tb.manifolds.Sphere(2).sample(POINTS, seed=0)
    single = points.astype(np.float32)

    def ours() -> None:
        tb.TangentBundle.from_points(single, neighbors=NEIGHBORS).laplacian()

    def theirs() -> None:
        solver = potpourri3d.PointCloudHeatSolver(points)
        solver.transport_tangent_vector(0, [1.0, 0.0])

    best = best_in_turns({"tangentbundle": ours, "potpourri3d": theirs}, repeats=7)
    ratio = best["potpourri3d"] / best["tangentbundle"]
    return [
        {
            "library": "tangentbundle",
            "n": POINTS,
            "seconds": best["tangentbundle"],
            "faster": ratio,
            "asked": BUILD_TARGET,
        },
        {"library": "potpourri3d", "n": POINTS, "seconds": best["potpourri3d"]},
    ]


# Products.

PRODUCT_CHANNELS = (1, 4, 16, 32, 64)
PRODUCT_TARGETS = {32: 4.0}
"""How many times faster than the best other the product was to become, for some channels."""


def product() -> list[Row]:
    """``laplacian @ x`` in float32 against the same matrix as torch CSR and scipy CSR."""
    points = torch.from_numpy(tb.manifolds.Sphere(2).sample(POINTS, seed=0)).float()
    laplacian = tb.TangentBundle.from_points(points, neighbors=NEIGHBORS).laplacian()
    scipy_csr = laplacian.to_scipy()
    scipy_csr.sort_indices()
    rows = []
    for channels in PRODUCT_CHANNELS:
        x = torch.randn(POINTS, 2, channels, generator=torch.Generator().manual_seed(0))
        flat = x.reshape(2 * POINTS, channels)
        others = {
            "torch int32": partial(torch.matmul, torch_csr(scipy_csr, torch.int32), flat),
            "torch int64": partial(torch.matmul, torch_csr(scipy_csr, torch.int64), flat),
            "scipy": partial(scipy_csr.dot, flat.numpy()),
        }
        best = best_in_turns({"tangentbundle": partial(laplacian.__matmul__, x), **others}, 20)
        ours = best.pop("tangentbundle")
        y = (laplacian @ x).reshape(flat.shape)
        for name, other_seconds in best.items():
            rows.append(
                {
                    "channels": channels,
                    "ms": 1e3 * ours,
                    "against": name,
                    "their_ms": 1e3 * other_seconds,
                    "faster": other_seconds / ours,
                    "asked": PRODUCT_TARGETS.get(channels, ""),
                    "difference": relative_error(y, torch.as_tensor(others[name]())),
                }
            )
    return rows


def torch_csr(matrix: Any, index_type: torch.dtype) -> torch.Tensor:
    """A matrix of scipy as a sparse tensor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sparse CSR is in beta
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr).to(index_type),
            torch.from_numpy(matrix.indices).to(index_type),
            torch.from_numpy(matrix.data),
            matrix.shape,
        )


# Heat.

HEAT_CHANNELS = 16
HEAT_TARGET = 50.0
"""How many times faster than ``expm_multiply`` the filter was to become."""


def heat() -> list[Row]:
    """``Heat(t)`` on a CPU against ``scipy.sparse.linalg.expm_multiply``: n = 40 000, 30
    neighbours, 16 channels.

    One row for a time t and a precision; errors are relative to the output (white noise loses
    most of its energy). The first call, with its look for the spectral interval, is given apart.
    ``expm_multiply`` takes the operator of order 1, whose matrix has the neighbours only.
    ``order_2_ratio`` is the time of the default over that of order 1.
    """
    points = tb.manifolds.Sphere(2).sample(POINTS, seed=0)
    bundle = tb.TangentBundle.from_points(points, neighbors=NEIGHBORS)
    signal = np.random.default_rng(0).standard_normal((POINTS, 2, HEAT_CHANNELS))
    rows = []
    for t in (0.01, 0.1):
        reference = tb.Heat(t)(bundle.laplacian(terms=1), signal, tb.Chebyshev(1e-12))
        theirs = expm_multiply_row(bundle, signal, t, reference)
        for dtype, tol in ((torch.float64, 1e-8), (torch.float32, 1e-6)):
            row = heat_row(bundle, signal, t, reference, dtype=dtype, tol=tol)
            row["expm_multiply_s"] = theirs["seconds"]
            row["faster"] = theirs["seconds"] / row["seconds"]
            row["asked"] = HEAT_TARGET
            row["expm_multiply_error"] = theirs["error"]
            rows.append(row)
    return rows


def heat_row(
    bundle: tb.TangentBundle,
    signal: np.ndarray,
    t: float,
    reference: np.ndarray,
    *,
    dtype: torch.dtype,
    tol: float,
) -> Row:
    """Time and error of the filter at one precision, by the operators of order 1 and 2."""
    laplacian = bundle.laplacian(terms=1).to(dtype=dtype)
    second = bundle.laplacian(terms=2).to(dtype=dtype)
    x = torch.from_numpy(signal).to(dtype)
    filter = tb.Heat(t)
    method = tb.Chebyshev(tol)
    start = time.perf_counter()
    y = filter(laplacian, x, method)
    first_call = time.perf_counter() - start
    turns = {
        "order 1": partial(filter, laplacian, x, method),
        "order 2": partial(filter, second, x, method),
    }
    best = best_in_turns(turns, repeats=5)
    return {
        "t": t,
        "dtype": str(dtype).removeprefix("torch."),
        "seconds": best["order 1"],
        "first_call_s": first_call,
        "terms": method.coefficients([filter], laplacian).shape[1],
        "relative_error": distance(y.double().numpy(), reference),
        "order_2_terms": method.coefficients([filter], second).shape[1],
        "order_2_ratio": best["order 2"] / best["order 1"],
    }


def expm_multiply_row(
    bundle: tb.TangentBundle, signal: np.ndarray, t: float, reference: np.ndarray
) -> Row:
    """Time and error of scipy's exponential."""
    matrix = (bundle.laplacian(terms=1).to_scipy() * t).tocsr()
    start = time.perf_counter()
    result = expm_multiply(matrix, signal.reshape(-1, HEAT_CHANNELS))
    taken = time.perf_counter() - start
    return {"seconds": taken, "error": distance(result.reshape(signal.shape), reference)}


def distance(result: np.ndarray, reference: np.ndarray) -> float:
    """The norm of the difference, relative to that of the reference."""
    return float(np.linalg.norm(result - reference) / np.linalg.norm(reference))


# How heat grows.

GROWTH_SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
GROWTH_CHANNELS = 4
GROWTH_NEIGHBORS = 32
GROWTH_STEPS = 30
"""Degree of the polynomial, the same for all sizes."""


def heat_growth() -> list[Row]:
    """Cost of heat on a CPU: linear in points and edges, and as the square root of the time.

    Rows for growing n at a fixed number of steps, then for growing t at n = 40 000.
    """
    return [heat_at_size(n) for n in GROWTH_SIZES] + heat_at_times(POINTS)


def heat_at_size(n: int) -> Row:
    """The cost of a fixed number of steps on n points."""
    points = tb.manifolds.Sphere(2).sample(n, seed=0, dtype=np.float32)
    bundle = tb.TangentBundle.from_points(points, neighbors=GROWTH_NEIGHBORS, dim=2)
    laplacian = bundle.laplacian()
    x = torch.randn(n, 2, GROWTH_CHANNELS)
    method = tb.Chebyshev(degree=GROWTH_STEPS)
    taken = seconds(partial(tb.Heat(0.001), laplacian, x, method))
    edges = laplacian.num_edges
    return {
        "what": "n",
        "n": n,
        "edges": edges,
        "seconds": taken,
        "ns_per_edge_and_step": taken / edges / GROWTH_STEPS * 1e9,
    }


def heat_at_times(n: int) -> list[Row]:
    """The number of terms and the cost for growing times."""
    points = tb.manifolds.Sphere(2).sample(n, seed=0, dtype=np.float32)
    laplacian = tb.TangentBundle.from_points(points, neighbors=GROWTH_NEIGHBORS).laplacian()
    x = torch.randn(n, 2, GROWTH_CHANNELS)
    method = tb.Chebyshev()
    rows = []
    for t in np.geomspace(1e-4, 10.0, 11):
        filter = tb.Heat(float(t))
        rows.append(
            {
                "what": "t",
                "n": n,
                "edges": laplacian.num_edges,
                "t": float(t),
                "terms": method.coefficients([filter], laplacian).shape[1],
                "seconds": seconds(partial(filter, laplacian, x, method)),
            }
        )
    return rows


# A step of training.

TRAINING_POINTS = 400
REPLICAS = 64
WIDTHS = (1, 8, 4, 1)
TAPS = 2
STEP_TARGET = 5.0
REPLICAS_TARGET = 20.0
"""How many times faster than the plain network a step was to become, alone and with replicas."""


class PlainDense(torch.nn.Module):
    """The straightforward layer: ``sum_k E^k X H_k`` with E = exp(Delta) given and its powers
    computed in each call."""

    def __init__(self, shift: torch.Tensor, powers: range) -> None:
        super().__init__()
        self.shift = shift
        self.powers = powers
        weights = []
        for in_channels, out_channels in pairwise(WIDTHS):
            weights.append(0.3 * torch.randn(len(powers), in_channels, out_channels))
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last = len(self.weights) - 1
        for level, weight in enumerate(self.weights):
            terms = []
            for power, matrix in zip(self.powers, weight, strict=True):
                terms.append(torch.linalg.matrix_power(self.shift, power) @ x @ matrix)
            x = torch.stack(terms).sum(dim=0)
            if level < last:
                x = torch.tanh(x)
        return x


def training() -> list[Row]:
    """Training speed at n = 400 against a plain dense network that recomputes the powers of its
    exponential.

    One row for each way the plain network counts its taps: from 1, as the authors' code, or from
    0, as the paper. From 0 with two taps it has no power to recompute, only an identity to
    multiply by.
    """
    points = tb.manifolds.Torus(0.3, 0.1).sample(TRAINING_POINTS, seed=0).astype("float32")
    laplacian = tb.TangentBundle.from_points(points).laplacian()
    x = torch.randn(TRAINING_POINTS, 2, 1, generator=torch.Generator().manual_seed(0))
    xs = torch.randn(REPLICAS, TRAINING_POINTS, 2, 1, generator=torch.Generator().manual_seed(1))
    shift = torch.linalg.matrix_exp(laplacian.to_dense().double()).float()
    plain = {
        "from 1": PlainDense(shift, range(1, TAPS + 1)),
        "from 0": PlainDense(shift, range(TAPS)),
    }
    jobs = {
        "ours": partial(training_step, paper_network(), x, laplacian),
        "sparse": partial(training_step, paper_network(method=tb.Chebyshev(1e-6)), x, laplacian),
        "replicas": partial(
            training_step,
            tb.training.Replicas(lambda seed: paper_network(seed=seed), REPLICAS),
            xs,
            laplacian,
        ),
    }
    for name, net in plain.items():
        jobs[name] = partial(training_step, net, x.flatten(0, 1))
    times = best_in_turns(jobs, repeats=15)
    return [
        {
            "plain_taps": name,
            "plain_ms": 1e3 * times[name],
            "ours_ms": 1e3 * times["ours"],
            "ours_sparse_ms": 1e3 * times["sparse"],
            "faster": times[name] / times["ours"],
            "asked": STEP_TARGET,
            "replicas_ms": 1e3 * times["replicas"],
            "replicas_faster": REPLICAS * times[name] / times["replicas"],
            "replicas_asked": REPLICAS_TARGET,
        }
        for name in plain
    ]


def paper_network(**options: Any) -> tb.nn.TNN:
    """The paper's network of three layers."""
    return tb.nn.TNN(WIDTHS, TAPS, activation=tb.nn.Coordinatewise(torch.tanh), **options)


def training_step(net: torch.nn.Module, *inputs: Any) -> None:
    """Forward and backward."""
    net.zero_grad()
    (net(*inputs) - inputs[0]).square().sum().backward()
