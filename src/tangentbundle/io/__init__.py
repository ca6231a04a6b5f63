"""Read and write vector fields: tables, NumPy archives, meshes, NetCDF and Zarr.

>>> import tempfile, numpy as np, tangentbundle as tb
>>> from tangentbundle.io import read_field, write_field
>>> points = tb.manifolds.Sphere(2).sample(100, seed=0)
>>> with tempfile.TemporaryDirectory() as folder:
...     np.savez(
...         f"{folder}/field.npz",
...         points=points,
...         vectors=tb.manifolds.Sphere(2).gradient_field(points, 2),
...     )
...     field = read_field(f"{folder}/field.npz")
...     write_field(field.with_vectors(2 * field.vectors), f"{folder}/double.csv")
...     print(field, read_field(f"{folder}/double.csv").names)
100 points in R^3 ('vx', 'vy', 'vz')
"""

from ..formats import format_of
from ..layout import Layout
from .checks import FEW_POINTS, warn_if_suspicious
from .field import Field, Request
from .files import check_input, check_output, read_field, write_field
from .grid_files import GridFile

__all__ = [
    "FEW_POINTS",
    "Field",
    "GridFile",
    "Layout",
    "Request",
    "check_input",
    "check_output",
    "format_of",
    "read_field",
    "warn_if_suspicious",
    "write_field",
]
