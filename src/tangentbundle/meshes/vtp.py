"""VTP files: the polygons of VTK in XML, which meshio does not know.

They differ from VTU files, which meshio reads and writes, in a few names, and in that cells have no
types. All arrays, in whatever encoding, are the same.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from ..errors import DamagedFileError
from ..extras import extra

POLYGON = b"7 "
"""The number of polygons among the cells of VTK."""

ONE_VERTEX = b"""<Cells>
<DataArray type="Int64" Name="connectivity" format="ascii">0</DataArray>
<DataArray type="Int64" Name="offsets" format="ascii">1</DataArray>
<DataArray type="UInt8" Name="types" format="ascii">1</DataArray>
</Cells></Piece>"""
"""The cells of a cloud of points: meshio reads no file without cells."""

OTHER_CELLS = re.compile(rb"<(Verts|Lines|Strips)\b[^>]*?(/>|>.*?</\1>)", re.DOTALL)
"""Points, lines and strips of triangles, which are left out."""

POLYGON_SECTION = re.compile(rb"<(Polys)\b[^>]*?(/>|>.*?</Polys>)", re.DOTALL)

CELL_DATA = re.compile(rb"<(CellData)\b[^>]*?(/>|>.*?</CellData>)", re.DOTALL)

OTHER_COUNTS = re.compile(rb"NumberOf(?:Verts|Lines|Strips)=\"(\d+)\"")

POLYGONS = re.compile(rb"NumberOfPolys=\"(\d+)\"")

DATA_ARRAYS = re.compile(rb"<DataArray\b[^>]*?/>|<DataArray\b.*?</DataArray>", re.DOTALL)

MAX_POLYGONS_PER_BYTE = 10
"""Polygons that a byte of a compressed file may hold; files that claim to have more are damaged."""


def read_vtp(path: Path) -> Any:
    """The ``meshio.Mesh`` of a VTP file with one piece."""
    meshio = extra("meshio", "Reading meshes", "files")
    content = as_vtu(path.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        renamed = Path(folder, "mesh.vtu")
        renamed.write_bytes(content)
        return meshio.read(renamed)


def as_vtu(content: bytes) -> bytes:
    """The VTU file with the polygons of a VTP file."""
    head, mark, appended = content.partition(b"<AppendedData")
    counts = [int(count) for count in POLYGONS.findall(head)]
    if len(counts) != 1:
        raise DamagedFileError(f"a VTP file with {len(counts)} pieces, expected one")
    if counts[0] > MAX_POLYGONS_PER_BYTE * len(content):
        raise DamagedFileError(f"{counts[0]} polygons in {len(content)} bytes")
    left_out = [OTHER_CELLS]
    if counts[0] == 0:
        left_out.append(POLYGON_SECTION)
    if any(int(count) for count in OTHER_COUNTS.findall(head)):
        left_out.append(CELL_DATA)  # of all cells, also of those left out
    unused = b""
    for section in left_out:
        for match in section.finditer(head):
            unused += b"".join(DATA_ARRAYS.findall(match[0]))
        head = section.sub(b"", head)
    head = OTHER_COUNTS.sub(b"", head)
    if b'encoding="raw"' in appended.partition(b">")[0]:  # which meshio reads array by array
        head = head.replace(b"<PolyData>", b"<PolyData><FieldData>" + unused + b"</FieldData>")
    if counts[0] == 0:
        head = POLYGONS.sub(b'NumberOfPolys="1"', head).replace(b"</Piece>", ONE_VERTEX)
    types = b'<DataArray type="UInt8" Name="types" format="ascii">%b</DataArray></Cells>'
    for before, after in (
        (b"PolyData", b"UnstructuredGrid"),
        (b"NumberOfPolys", b"NumberOfCells"),
        (b"<Polys", b"<Cells"),
        (b"</Polys>", types % (POLYGON * counts[0])),
    ):
        head = head.replace(before, after)
    return head + mark + appended


def write_vtp(mesh: Any, path: Path) -> None:
    """Write a ``meshio.Mesh`` of triangles, or of vertices."""
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder, "mesh.vtu")
        mesh.write(grid)
        content = grid.read_bytes()
    section = b"Polys"
    count = b"NumberOfPolys"
    if mesh.cells[0].type == "vertex":
        section = b"Verts"
        count = b'NumberOfPolys="0" NumberOfVerts'
    types = re.compile(rb"<DataArray [^>]*Name=\"types\".*?</DataArray>", re.DOTALL)
    content = types.sub(b"", content)
    for before, after in (
        (b"UnstructuredGrid", b"PolyData"),
        (b"NumberOfCells", count),
        (b"<Cells>", b"<" + section + b">"),
        (b"</Cells>", b"</" + section + b">"),
    ):
        content = content.replace(before, after)
    path.write_bytes(content)
