"""Clouds whose Laplacian is larger than memory, on one machine or a Dask cluster.

``DistributedBundle`` holds points and signals in memory, and builds frames and operator in files,
partition by partition. The mathematics and the compiled kernels are those of the rest of the
library.
"""

from .bundle import DistributedBundle

__all__ = ["DistributedBundle"]
