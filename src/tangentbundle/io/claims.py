"""Mesh files that claim more than they hold: refused before a parser believes them."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path

from ..errors import DamagedFileError
from ..memory import require_memory

PLY = re.compile(rb"^element[ \t]+(\w+)[ \t]+(\d+)", re.MULTILINE)
VTK = re.compile(
    rb"^(POINTS|CELLS|CELL_TYPES|POLYGONS|VERTICES|LINES|TRIANGLE_STRIPS|POINT_DATA|CELL_DATA)[ \t]+(\d+)", re.MULTILINE
)
DIMENSIONS = re.compile(rb"^DIMENSIONS[ \t]+(\d+)[ \t]+(\d+)[ \t]+(\d+)", re.MULTILINE)
OFF = re.compile(rb"\AOFF\s+(?:#[^\n]*\n\s*)*(\d+)[ \t]+(\d+)")


def claims(path: Path) -> dict[str, int]:
    """How many of what a mesh file says it has, by the format of its suffix; empty where it does not say.

    Something of which there are more than bytes in the file, or than memory holds, is refused.
    """
    content, suffix = path.read_bytes(), path.suffix.lower()
    found: dict[str, int] = {}
    if suffix == ".ply":
        header, end, _ = content.partition(b"end_header")
        if not end:
            raise DamagedFileError(f"{path.name} is no readable PLY mesh: its header has no end_header.")
        found = {what.decode(): int(n) for what, n in PLY.findall(header)}
    elif suffix == ".vtk":
        found = {what.decode(): int(n) for what, n in VTK.findall(content)}
        if grid := DIMENSIONS.search(content):
            cells = math.prod(int(n) for n in grid.groups())
            require_memory(100.0 * cells, f"the grid of {path.name}, {cells:.3g} points,", "Sample it first.")
    elif suffix == ".off":
        if not (counts := OFF.match(content)):
            raise DamagedFileError(f"{path.name} is no readable OFF mesh: it does not begin with OFF and its counts.")
        found = {"vertices": int(counts[1]), "faces": int(counts[2])}
    elif suffix == ".stl" and len(content) >= 84 and not content.lstrip().startswith(b"solid"):
        found = {"bytes of triangles": 50 * struct.unpack("<I", content[80:84])[0]}
    for what, number in found.items():
        if number > len(content):
            raise DamagedFileError(
                f"{path.name} says it has {number} {what}, but it has {len(content)} bytes. It is damaged or cut short."
            )
    return found
