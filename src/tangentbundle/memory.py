"""Memory: refused before it is allocated where there is not enough, and large pages for large arrays.

Memory fresh from the system is mapped page by page when first written, and rows read at random miss the processor's
table of pages; with pages of 2 MB instead of 4 kB both cost next to nothing. Linux gives them on request. It must still
fill them with zeros, an eighth of the time of a product on a million points: a few large arrays are therefore used
again when nobody holds them any more, as the C library does with all of up to 32 MB.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from functools import cache

import numpy as np
import torch

from .errors import MemoryLimitError

LEAST = 2**22
"""Bytes from which large pages are asked for, as NumPy does for its own arrays."""

LARGE, SPARE = 2**25, 2**28
"""Bytes from which memory is used again, and the most that is kept for it."""

_spare: list[np.ndarray] = []
_taking = threading.Lock()


def memory_limit(max_memory: float | None = None) -> float:
    """Bytes that may be used: as given, or 80 % of what is free."""
    import psutil  # only here: a machine without it can still run what was built elsewhere

    return 0.8 * psutil.virtual_memory().available if max_memory is None else max_memory


def require_memory(need: float, what: str, remedy: str, max_memory: float | None = None) -> None:
    """Refuse what would need more bytes than there are, before anything is allocated.

    >>> require_memory(8e18, "a matrix of 10^9 rows", "Use the operator itself.", max_memory=16e9)
    Traceback (most recent call last):
    tangentbundle.errors.MemoryLimitError: a matrix of 10^9 rows would need about 8e+09 GB; the limit is 16 GB. Use ...
    """
    limit = memory_limit(max_memory)
    if need > limit:
        raise MemoryLimitError(
            f"{what} would need about {need / 1e9:.3g} GB; the limit is {limit / 1e9:.3g} GB. {remedy}"
        )


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


def empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor for a result, not filled, in large pages; a large one in memory that an earlier one had.

    >>> first = empty_like(torch.zeros(2**23))
    >>> place = first.data_ptr()
    >>> del first
    >>> empty_like(torch.zeros(2**23)).data_ptr() == place
    True
    """
    size = tensor.nbytes
    if tensor.device.type != "cpu" or not LARGE <= size <= SPARE // 2:
        return in_large_pages(torch.empty_like(tensor, memory_format=torch.contiguous_format))
    with _taking:
        free = [k for k in range(len(_spare)) if _spare[k].nbytes == size + 64 and sys.getrefcount(_spare[k]) == 2]
        array = _spare.pop(free[0]) if free else np.empty(size + 64, np.uint8)
        _spare.append(array)  # the last used last
        while sum(spare.nbytes for spare in _spare) > SPARE:
            _spare.pop(0)
        start = -array.ctypes.data % 64
        return torch.from_numpy(array[start : start + size]).view(tensor.dtype).view(tensor.shape)
