"""Large pages change nothing but the time."""

import pytest
import torch

from tangentbundle.memory import LEAST, in_large_pages


@pytest.mark.parametrize("size", [1, LEAST // 4 - 1, LEAST // 4 + 12_345, LEAST])
def test_tensors_in_large_pages_are_tensors(size):
    tensor = torch.arange(size, dtype=torch.float32)
    place, before = tensor.data_ptr(), tensor.clone()
    assert in_large_pages(tensor) is tensor
    assert tensor.data_ptr() == place and torch.equal(tensor, before)
    fresh = in_large_pages(torch.empty(size)).fill_(3.0)
    assert bool((fresh == 3.0).all())
