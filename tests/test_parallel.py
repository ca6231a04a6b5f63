"""Many threads on one bundle, and processes that fork."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from tangentbundle import TangentBundle
from tangentbundle.manifolds import Sphere
from tangentbundle.parallel import one_thread, run_ranges

LAP = TangentBundle.from_points(Sphere(2).sample(3000, seed=0), dim=2).laplacian()
X = np.random.default_rng(0).standard_normal((3000, 2, 5))


@pytest.fixture
def several_threads():
    """More threads than the library would use here, so that the pool is at work even on one
    core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def fork():
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system cannot fork")
    return multiprocessing.get_context("fork")


def test_eight_threads_on_one_bundle(several_threads):
    expected = LAP @ X
    start = threading.Barrier(8)

    def work(k):
        start.wait()
        return [np.array_equal(LAP @ X, expected) for _ in range(12)]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(same) for same in pool.map(work, range(8)))


def test_eight_threads_building_bundles(several_threads):
    clouds = [Sphere(2).sample(800, seed=k) for k in range(8)]
    expected = [TangentBundle.from_points(c, dim=2).laplacian() @ X[:800] for c in clouds]
    with ThreadPoolExecutor(8) as pool:
        got = list(
            pool.map(lambda c: TangentBundle.from_points(c, dim=2).laplacian() @ X[:800], clouds)
        )
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_in_threads(several_threads):
    x = torch.from_numpy(X)

    def gradient(_):
        leaf = x.clone().requires_grad_()
        (LAP @ leaf).square().sum().backward()
        return leaf.grad

    expected = gradient(0)
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(g, expected) for g in pool.map(gradient, range(8)))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_does_not_change_the_result(threads):
    before = torch.get_num_threads()
    expected = LAP @ X
    try:
        torch.set_num_threads(threads)
        np.testing.assert_array_equal(LAP @ X, expected)
    finally:
        torch.set_num_threads(before)


def test_torch_governs_the_number_of_threads(several_threads):
    ranges, threads, all_at_work = [], set(), threading.Barrier(3)

    def kernel(start, stop):
        ranges.append((start, stop))
        if threading.get_ident() not in threads:
            threads.add(threading.get_ident())
            all_at_work.wait(timeout=60)

    run_ranges(kernel, 1000, grain=1)
    assert len(threads) == 3
    assert sorted(k for start, stop in ranges for k in range(start, stop)) == list(range(1000))
    torch.set_num_threads(1)
    run_ranges(
        lambda start, stop: ranges.append((start, stop, threading.get_ident())), 1000, grain=1
    )
    assert ranges[-1] == (0, 1000, threading.get_ident())


def test_threads_give_the_same_product(several_threads):
    expected = (LAP.to_scipy() @ X.reshape(6000, 5)).reshape(X.shape)
    np.testing.assert_allclose(LAP @ X, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_errors_come_out_of_threads(several_threads):
    def kernel(start, stop):
        raise ZeroDivisionError(f"rows {start} to {stop}")

    with pytest.raises(ZeroDivisionError, match="rows"):
        run_ranges(kernel, 1000, grain=1)


def test_ranges_inside_ranges(several_threads):
    out = np.zeros((6, 1000))

    def row(start, stop, k):
        out[k, start:stop] = k

    def rows(start, stop):
        for k in range(start, stop):
            run_ranges(row, 1000, k, grain=1)

    run_ranges(rows, 6, grain=1)
    assert (out == np.arange(6)[:, None]).all()


def test_one_thread_and_back(several_threads):
    with one_thread():
        assert torch.get_num_threads() == 1
        assert all(library["num_threads"] == 1 for library in threadpool_info())
    assert torch.get_num_threads() == 3


def _in_child(queue, expected):
    queue.put((os.getpid(), bool(np.array_equal(LAP @ X, expected))))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_can_multiply(several_threads, fork):
    """The parent's pool of threads does not survive in the child; a new one must be made there."""
    expected = LAP @ X  # the parent has used its pool
    queue = fork.Queue()
    children = [
        fork.Process(target=_in_child, args=(queue, expected), daemon=True) for _ in range(2)
    ]
    for child in children:
        child.start()
    try:
        answers = [queue.get(timeout=60) for _ in children]
    finally:
        for child in children:
            child.join(timeout=5)
            child.kill()  # where it hangs
    assert {pid for pid, _ in answers} == {child.pid for child in children}
    assert all(same for _, same in answers)
    np.testing.assert_array_equal(LAP @ X, expected)  # and the parent goes on
