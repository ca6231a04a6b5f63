"""Clouds larger than memory, on one machine or a Dask cluster.

``DistributedBundle`` reads points and vectors from Zarr, Parquet or ``.npy`` files, works partition by partition, and
writes results to Zarr or Parquet. The mathematics and the compiled kernels are those of the rest of the library.
"""

from .bundle import DistributedBundle
from .files import NpyArray, ParquetColumns, Source, ZarrArray

__all__ = ["DistributedBundle", "NpyArray", "ParquetColumns", "Source", "ZarrArray"]
