"""Large pages, and memory that is used again, change nothing but the time."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tangentbundle import TangentBundle, memory
from tangentbundle.manifolds import Sphere
from tangentbundle.memory import LEAST, in_large_pages


@pytest.mark.parametrize("size", [1, LEAST // 4 - 1, LEAST // 4 + 12_345, LEAST])
def test_tensors_in_large_pages_are_tensors(size):
    tensor = torch.arange(size, dtype=torch.float32)
    place, before = tensor.data_ptr(), tensor.clone()
    assert in_large_pages(tensor) is tensor
    assert tensor.data_ptr() == place and torch.equal(tensor, before)
    fresh = in_large_pages(torch.empty(size)).fill_(3.0)
    assert bool((fresh == 3.0).all())


@pytest.fixture
def reuse_early(monkeypatch):
    monkeypatch.setattr(memory, "LARGE", 2**10)
    monkeypatch.setattr(memory, "_spare", [])


def test_memory_is_used_again_only_when_nobody_holds_it(reuse_early):
    like = torch.zeros(50, 10, dtype=torch.float64)
    first, second = memory.empty_like(like).fill_(1.0), memory.empty_like(like).fill_(2.0)
    row, place = first[3], first.data_ptr()
    assert place % 64 == 0 and second.data_ptr() != place
    del first
    third = memory.empty_like(like).fill_(3.0)  # a row of the first is still held
    assert third.data_ptr() != place and bool((row == 1.0).all()) and bool((second == 2.0).all())
    array = third.numpy()
    del row, third
    assert memory.empty_like(like).fill_(4.0).data_ptr() == place
    assert (array == 3.0).all()  # NumPy holds it


def test_no_more_is_kept_than_allowed(reuse_early, monkeypatch):
    monkeypatch.setattr(memory, "SPARE", 10 * 4000)
    held = [memory.empty_like(torch.zeros(1000)).fill_(float(k)) for k in range(30)]
    assert sum(array.nbytes for array in memory._spare) <= 11 * 4064
    assert all(bool((tensor == k).all()) for k, tensor in enumerate(held))


def test_threads_never_share_memory(reuse_early):
    def work(k):
        for step in range(200):
            tensor = memory.empty_like(torch.zeros(600)).fill_(1000.0 * k + step)
            time.sleep(0)
            assert bool((tensor == 1000.0 * k + step).all())
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_products_in_reused_memory_are_the_same(reuse_early):
    points = Sphere(2).sample(400, seed=0)
    laplacian = TangentBundle.from_points(points, dim=2).laplacian()
    x = torch.randn(400, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = (laplacian.to_scipy() @ x.reshape(800, 3).numpy()).reshape(x.shape)
    kept = [laplacian @ x for _ in range(3)]
    for _ in range(5):
        torch.testing.assert_close(laplacian @ x, torch.from_numpy(expected), rtol=1e-9, atol=1e-9)
    assert len({y.data_ptr() for y in kept}) == 3
    leaf = x.clone().requires_grad_()
    (laplacian @ (laplacian @ leaf)).square().sum().backward()
    again = x.clone().requires_grad_()
    (laplacian @ (laplacian @ again)).square().sum().backward()
    assert torch.equal(leaf.grad, again.grad) and all(torch.equal(kept[0], y) for y in kept)
