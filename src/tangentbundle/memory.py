"""Memory: refused before it is allocated where there is not enough, and buffers for large
results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .errors import MemoryLimitError

if TYPE_CHECKING:
    import torch

FREE_SHARE = 0.8
"""Share of the free memory that may be used: other programs need some of it meanwhile."""

LARGE_BUFFER_BYTES = 2**25
"""From this size on the C library returns freed memory to the system, and new buffers start
unmapped."""


def memory_limit(max_memory: float | None = None) -> float:
    """Bytes that may be used: as given, or 80 % of what is free."""
    if max_memory is not None:
        return max_memory
    import psutil  # only here: a machine without it can still run what was built elsewhere

    return FREE_SHARE * psutil.virtual_memory().available


def require_memory(need: float, what: str, remedy: str, max_memory: float | None = None) -> None:
    """Refuse what would need more bytes than there are, before anything is allocated.

    >>> require_memory(8e18, "a matrix of 10^9 rows", "Use the operator itself.", max_memory=16e9)
    Traceback (most recent call last):
    tangentbundle.errors.MemoryLimitError: a matrix of 10^9 rows would need about 8e+09 GB; ...
    """
    limit = memory_limit(max_memory)
    if need > limit:
        raise MemoryLimitError(
            f"{what} would need about {need / 1e9:.3g} GB; the limit is {limit / 1e9:.3g} GB. "
            f"{remedy}"
        )


@dataclass(frozen=True)
class EdgeMemory:
    """Memory for the edges of a graph, for the bundle of dimension ``dim`` and its Laplacian.

    ``max_memory`` is a number of bytes, by default 80 % of what is free.

    >>> EdgeMemory(dim=2, max_memory=1000.0).holds(edges=10)
    True
    """

    dim: int
    max_memory: float | None = None

    @property
    def bytes_per_edge(self) -> int:
        """Peak memory per directed edge (measured for d = 2, 3, 5 and 8)."""
        if self.dim <= 2:
            return 80
        return 48 + 16 * self.dim**2

    def holds(self, edges: float) -> bool:
        """Whether so many directed edges fit."""
        return self.bytes_per_edge * edges <= memory_limit(self.max_memory)

    def require(self, edges: float, remedy: str = "Use a smaller eps, or fewer neighbors.") -> None:
        """Refuse so many directed edges if they do not fit, before anything is allocated."""
        what = f"a bundle with {edges:.3g} directed edges"
        require_memory(edges * self.bytes_per_edge, what, remedy, self.max_memory)


def device_memory(device: torch.device) -> float | None:
    """80 % of the memory free on a GPU; None for others."""
    import torch  # slow to load

    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return FREE_SHARE * (free + cached)


def empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor for a result, not filled.

    NumPy allocates large ones on CPUs: it asks Linux for pages of 2 MB, and a product of 50 MB
    takes half the time.
    """
    import torch  # slow to load, and readers of files need the rest of this module

    if tensor.device.type != "cpu" or tensor.nbytes < LARGE_BUFFER_BYTES:
        return torch.empty_like(tensor, memory_format=torch.contiguous_format)
    dtype = np.float32 if tensor.dtype == torch.float32 else np.float64
    return torch.from_numpy(np.empty(tensor.shape, dtype))
