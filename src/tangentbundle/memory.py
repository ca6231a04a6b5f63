"""Large pages for large arrays.

Memory fresh from the system is mapped page by page when first written, and rows read at random miss the processor's
table of pages; with pages of 2 MB instead of 4 kB both cost next to nothing. Linux gives them on request.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

import torch

LEAST = 2**22
"""Bytes from which large pages are asked for, as NumPy does for its own arrays."""


@cache
def _madvise():
    return ctypes.CDLL(None).madvise if hasattr(mmap, "MADV_HUGEPAGE") else None


def in_large_pages(tensor: torch.Tensor) -> torch.Tensor:
    """The same new, contiguous tensor, with large pages asked for where there are any."""
    advise = _madvise()
    if advise is not None and tensor.device.type == "cpu" and tensor.nbytes >= LEAST:
        start, stop = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        start += -start % mmap.PAGESIZE
        advise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_HUGEPAGE)
    return tensor
