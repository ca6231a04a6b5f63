"""Buffers for results, and memory that is refused before it is allocated."""

import pytest
import torch

from tangentbundle.errors import MemoryLimitError
from tangentbundle.memory import empty_like, require_memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2**22 + 12_345])
def test_buffers_are_contiguous_tensors(size, dtype):
    like = torch.zeros(3, size, dtype=dtype).T
    out = empty_like(like)
    assert out.shape == like.shape and out.dtype == dtype and out.is_contiguous()
    assert bool((out.fill_(3.0) == 3.0).all())


def test_too_much_is_refused():
    require_memory(1e6, "a small array", "Do nothing.", max_memory=1e9)
    with pytest.raises(
        MemoryLimitError, match=r"a large array would need about 2 GB; the limit is 1 GB\. Use less"
    ):
        require_memory(2e9, "a large array", "Use less.", max_memory=1e9)
    with pytest.raises(MemoryLimitError):
        require_memory(1e20, "all there is", "Use less.")
