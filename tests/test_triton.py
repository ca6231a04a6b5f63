"""The Triton kernels against their readable twin, without a GPU: Triton's interpreter runs them on
the CPU.

Triton chooses between compiler and interpreter when kernels are first imported, so these tests run
in a process of their own, started with ``TRITON_INTERPRET=1``; ``test_in_the_interpreter`` does
that.
"""

import importlib.util
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from pairwise import all_pairs
from spaces import bundle_of

import tangentbundle as tb
from tangentbundle.geometry.block_search import BlockSearch
from tangentbundle.geometry.tree_search import ball_edges
from tangentbundle.manifolds import Sphere
from tangentbundle.operators import laplacian as laplacian_module
from tangentbundle.operators import product as product_module
from tangentbundle.operators.product import Extras, reference_step
from tangentbundle.operators.storage import (
    BEYOND,
    GROUP,
    PAIRS,
    WINDOW,
    BlockMatrix,
    SlicedMatrix,
)
from tangentbundle.testing import random_orthogonal, random_signal, relative_error

HERE = os.environ.get("TRITON_INTERPRET") == "1"
MISSING = importlib.util.find_spec("triton") is None

interpreted = pytest.mark.skipif(
    not HERE, reason="run by test_in_the_interpreter, in a process of its own"
)

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


def run_in_the_interpreter(marked):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-m",
        marked,
        "-k",
        "not in_the_interpreter",
    ]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command += ["-rs", *map(str, Path(__file__).parent.glob("test_triton*.py"))]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "SKIPPED" not in done.stdout


@pytest.mark.skipif(MISSING, reason="Triton is not installed")
@pytest.mark.skipif(HERE, reason="this is the interpreter")
def test_in_the_interpreter():
    run_in_the_interpreter("not slow")


@pytest.mark.slow
@pytest.mark.skipif(MISSING, reason="Triton is not installed")
@pytest.mark.skipif(HERE, reason="this is the interpreter")
def test_at_length_in_the_interpreter():
    run_in_the_interpreter("slow")


def random_matrix(d, dtype, n, seed=0):
    """Rows of very different length, some empty, with reflections where d = 2; columns and rows
    along the curve."""
    rng = np.random.default_rng(seed)
    degrees = np.minimum(rng.integers(0, 6, n), n)
    degrees[[0, n // 2]] = 0
    degrees[n // 3] = min(11, n)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    cols = np.concatenate([rng.choice(n, degree, replace=False) for degree in degrees]).astype(
        np.int32
    )
    if d == 2:
        cols = np.where(rng.random(len(cols)) < 0.5, ~cols, cols).astype(np.int32)
    values = rng.standard_normal((len(cols), 2) if d == 2 else (len(cols), d, d))
    tensors = [torch.from_numpy(a) for a in (indptr, cols, values)]
    return BlockMatrix(
        tensors[0], tensors[1], tensors[2].to(dtype), torch.arange(n, dtype=torch.int32)
    )


def dense(matrix, d):
    """The matrix written out."""
    n = len(matrix.curve_order)
    out = np.zeros((n, d, n, d))
    rows, columns, blocks = (
        matrix.rows().numpy(),
        matrix.columns().numpy(),
        matrix.blocks().double().numpy(),
    )
    for row, column, block in zip(rows, columns, blocks, strict=True):
        out[row, :, column] += block
    return out


def dense_sliced(matrix, d):
    """The sliced matrix written out, from its own description of where neighbours and their bits
    lie."""
    n, indptr, codes = len(matrix.curve_order), matrix.indptr.numpy(), matrix.cols.numpy()
    out = np.zeros((n + n % 2, d, n, d))
    for row in range(len(out)):
        which, pair = row // 2 // PAIRS, row // 2 % PAIRS
        for e in range(indptr[which] + pair, indptr[which + 1], PAIRS):
            column, flipped = codes[e] & (2**30 - 1), codes[e] & (-(2**31), 2**30)[row % 2]
            code = torch.tensor([~column if flipped else column])
            out[row, :, column] += (
                BlockMatrix(None, code, matrix.values[e, row % 2][None], None).blocks()[0].numpy()
            )
    assert (out[n:] == 0).all()
    return out[:n]


# The storage: no kernel needed.


@pytest.mark.parametrize("n", [1, 7, 8, 33, 64, 101])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_sliced_storage_holds_the_same_matrix(d, n):
    csr = random_matrix(d, torch.float64, max(n, 4))
    sliced = SlicedMatrix.from_csr(csr)
    order = sliced.curve_order.long().numpy()
    assert sorted(order) == list(range(len(order)))
    window = 2 * WINDOW
    assert (
        order // window == np.arange(len(order)) // window
    ).all()  # rows stay in their window of the curve
    full = dense(csr, d)
    np.testing.assert_array_equal(dense_sliced(sliced, d), full[order][:, :, order])
    lengths = sliced.indptr.diff()
    assert bool((lengths % (PAIRS * GROUP) == 0).all()) and len(lengths) == -(
        -len(order) // (2 * PAIRS)
    )
    assert int(sliced.indptr[-1]) + BEYOND == len(sliced.cols) == len(sliced.values)
    assert int((sliced.cols & (2**30 - 1)).max()) < len(
        order
    )  # padding, too, points at rows that exist


def test_sliced_storage_pads_little():
    lap = bundle_of(Sphere(2)).laplacian()
    sliced = SlicedMatrix.from_csr(lap.average)
    assert len(sliced.cols) < 0.85 * len(
        lap.average.cols
    )  # half as many, were the neighbours of a pair the same


# One step.


def both_steps(d, channels, dtype, n, scalars, sources=0, targets=0, terms=(), alias=False, seed=0):
    """Outputs and running sums of the kernel and of the reference, in the kernel's row order."""
    from tangentbundle.operators.cuda import cuda_step

    csr = random_matrix(d, dtype, n, seed)
    sliced = SlicedMatrix.from_csr(csr)
    rows = sliced.curve_order.long()
    noise = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=noise, dtype=dtype)  # noqa: E731
    x, z = draw(n, d, channels), draw(n, d, channels)
    sizes = (sources, ()), (targets, terms)
    extras = [Extras(draw(k, n, d, channels), draw(k, *more)) if k else None for k, more in sizes]
    expected = torch.empty_like(x)
    mine = [
        None if e is None else Extras(e.signals[:, rows].contiguous(), e.coefficients.clone())
        for e in extras
    ]
    my_x, my_z = x[rows].contiguous(), z[rows].contiguous()
    got = my_z if alias else torch.full_like(my_x, torch.nan)
    kept = my_x.clone()
    cuda_step(
        sliced.along_curve(),
        my_x,
        my_z,
        got,
        scalars,
        *mine,
    )
    reference_step(csr, x, z, expected, scalars, *extras)
    assert torch.equal(my_x, kept)
    sums = (None, None) if targets == 0 else (mine[1].signals, extras[1].signals[:, rows])
    return (got, expected[rows]), sums


@interpreted
@pytest.mark.parametrize(
    "d, channels, dtype, case",
    all_pairs(
        [1, 2, 3, 5],
        [1, 3, 16, 33, 64],
        [torch.float32, torch.float64],
        [
            {"scalars": (1.0, 0.0, 0.0)},
            {"scalars": (0.7, -1.3, 0.0)},
            {"scalars": (2.0, 0.25, -1.0), "alias": True},
            {"scalars": (2.0, 0.0, -1.0), "targets": 3},
            {"scalars": (1.1, 0.3, -1.0), "sources": 2, "targets": 1},
            {"scalars": (2.0, 0.0, -1.0), "targets": 2, "terms": (3,), "alias": True},
        ],
    ),
    ids=str,
)
def test_step_equals_the_reference(d, channels, dtype, case):
    """n is no multiple of the slice; with and without x, z, sources and targets; into z itself."""
    (got, expected), (sums, expected_sums) = both_steps(d, channels, dtype, n=21, **case)
    assert got.dtype == dtype
    assert relative_error(got, expected) < TOLERANCE[dtype]
    if sums is not None:
        assert relative_error(sums, expected_sums) < TOLERANCE[dtype]


@interpreted
@pytest.mark.parametrize(
    "n, d", [(4, 2), (8, 3), (9, 2), (16, 2), (31, 2), (32, 3), (33, 2), (65, 2)]
)
def test_step_for_every_number_of_rows(n, d):
    (got, expected), _ = both_steps(d, 5, torch.float64, n, (1.5, -0.5, 0.25), seed=n)
    assert relative_error(got, expected) < 1e-12


@interpreted
def test_scalars_keep_double_precision():
    """Triton passes Python floats in single precision; a third must come through all the same."""
    (got, expected), _ = both_steps(2, 2, torch.float64, 20, (1 / 3, 1e-9 / 3, 2 / 3))
    assert relative_error(got, expected) < 1e-14


# The search and the order of rows.


@interpreted
@pytest.mark.parametrize(
    "dims, dtype, radius",
    [(2, torch.float64, 0.1), (3, torch.float32, 0.2), (11, torch.float32, 0.9)],
)
def test_search_finds_what_the_cpu_finds(dims, dtype, radius):
    from tangentbundle.geometry.cuda_search import cuda_ball_edges

    points = np.random.default_rng(dims).standard_normal((101, dims))
    points[7] = points[5]
    search = BlockSearch.of(torch.from_numpy(points), dtype)
    found = cuda_ball_edges(search.coordinates, radius, *search.pairs_of_blocks(radius))
    expected = ball_edges(
        search.coordinates.numpy(), search.boxed.numpy(), radius, lambda edges: None
    )
    for a, b in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    np.testing.assert_allclose(found[2].numpy(), expected[2], rtol=1e-5, atol=1e-7)


@interpreted
@pytest.mark.parametrize("shape", [(9, 2, 3), (2, 9, 2, 200)])
def test_rows_go_to_the_order_and_back(shape):
    from tangentbundle.operators.cuda import copy_rows

    x, order = torch.randn(shape), torch.randperm(9).int()
    there = copy_rows(x, order, scatter=False)
    assert torch.equal(there, x.index_select(-3, order)) and torch.equal(
        copy_rows(there, order, scatter=True), x
    )


# The whole path.


def operator(space, n, scalar=False):
    """Few points with few neighbours: the interpreter is slow. Frames are turned and reflected at
    random."""
    points, turns = space.sample(n, seed=0), random_orthogonal(n, space.dim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bundle = tb.TangentBundle.from_frames(
            torch.from_numpy(points), space.frames(points) @ turns, neighbors=8 + space.dim
        )
    return (bundle.scalar() if scalar else bundle).laplacian()


def sheaf():
    """A ring with maps that are not orthogonal: planes stored as full blocks."""
    ring = np.stack([np.arange(21), (np.arange(21) + 1) % 21])
    maps = np.random.default_rng(0).standard_normal((21, 2, 2, 2))
    return tb.Sheaf.from_edges(ring, torch.from_numpy(maps)).laplacian()


SPACES = {
    "sheaf": sheaf,
    "S1": lambda: operator(Sphere(1), 21),
    "S2": lambda: operator(Sphere(2), 21),
    "S3": lambda: operator(Sphere(3), 21),
    "functions on S2": lambda: operator(Sphere(2), 21, True),
}


def results(lap, dtype, order):
    """Products, filters and gradients, in the order they are compared."""
    lap = lap.to(dtype=dtype)  # a copy, with nothing kept
    vars(lap)["largest_deficit"] = 2.0  # found by many products
    method = tb.Chebyshev(degree=order)
    x = random_signal(lap, channels=3).requires_grad_()
    t = torch.tensor(lap.scale, dtype=torch.float64, requires_grad=True)
    h = torch.tensor([0.4, 0.5, -0.2], dtype=torch.float64, requires_grad=True)
    g = random_signal(lap, channels=3, seed=5)
    y = lap @ x
    heat, fir = lap.evaluate([tb.Heat(t), tb.FIR(h, t)], x, method)
    loss = (g * heat).sum() + fir.square().sum() + y.square().sum() * lap.scale**2
    gradients = torch.autograd.grad(loss, (x, t, h), create_graph=True)
    (second,) = torch.autograd.grad((g * gradients[0]).sum(), t)
    return [y, heat, fir, *gradients, second, lap @ torch.stack([x, 2 * g]).detach()]


def as_on_a_gpu(monkeypatch):
    for module in (product_module, laplacian_module):
        monkeypatch.setattr(module, "use_triton", lambda device: True)


def assert_same_results(name, dtype, order, monkeypatch):
    lap = SPACES[name]()
    expected = results(lap, dtype, order)
    as_on_a_gpu(monkeypatch)
    for k, (a, b) in enumerate(zip(results(lap, dtype, order), expected, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert relative_error(a, b) < (1e-4 if dtype == torch.float32 else 1e-11), k


@interpreted
@pytest.mark.parametrize(
    "name, dtype",
    [("S1", torch.float64), ("S2", torch.float32), ("S3", torch.float64), ("sheaf", torch.float64)],
    ids=str,
)
def test_the_whole_path_equals_the_cpu_path(name, dtype, monkeypatch):
    assert_same_results(name, dtype, 3, monkeypatch)


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", SPACES)
def test_the_whole_path_equals_the_cpu_path_to_high_order(name, dtype, monkeypatch):
    assert_same_results(name, dtype, 25, monkeypatch)


@interpreted
def test_the_kernels_are_really_used(monkeypatch):
    from tangentbundle.operators import cuda

    lap = SPACES["S1"]()
    as_on_a_gpu(monkeypatch)
    calls = []
    original = cuda.cuda_step
    monkeypatch.setattr(cuda, "cuda_step", lambda *a, **k: (calls.append(1), original(*a, **k))[1])
    vars(lap)["largest_deficit"] = 2.0
    x = random_signal(lap)
    lap @ x
    assert len(calls) == 2
    tb.Heat(0.1)(lap, x, tb.Chebyshev(degree=3))
    assert len(calls) == 5


@interpreted
@pytest.mark.slow
def test_other_users_of_the_step(monkeypatch):
    """The spectrum and its interval, the exact method."""
    lap = SPACES["S2"]()
    x = random_signal(lap)

    def run():
        fresh = lap.to(dtype=torch.float64)
        methods = (tb.Exact(), tb.Chebyshev(1e-6))
        outputs = [tb.Heat(lap.scale)(fresh, x, method) for method in methods]
        return [
            torch.tensor(fresh.spectral_interval),
            torch.as_tensor(fresh.spectrum(4)[0]),
            *outputs,
        ]

    expected = run()
    as_on_a_gpu(monkeypatch)
    for a, b in zip(run(), expected, strict=True):
        assert relative_error(a, b) < 1e-9
