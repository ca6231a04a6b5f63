"""Meshes of other libraries and of files as vertices and triangles, and what repairs them.

``TangentBundle.from_mesh`` and ``scalar_from_mesh`` read all that ``read_mesh`` reads.
"""

from .repair import cut_sheets, merge_vertices
from .sources import read_mesh
from .triangles import Triangles

__all__ = ["Triangles", "cut_sheets", "merge_vertices", "read_mesh"]
