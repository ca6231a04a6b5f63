"""Mesh files, read by meshio, and glTF files, read by trimesh; all as ``meshio.Mesh``."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DamagedFileError, InvalidInputError, MissingExtraError
from ..extras import extra
from .gltf import read_gltf
from .vtp import read_vtp

COUNTS = re.compile(
    rb"^(element\s+\w+|POINTS|CELLS|CELL_TYPES|POLYGONS|VERTICES|LINES|TRIANGLE_STRIPS|POINT_DATA|CELL_DATA|DIMENSIONS)"
    rb"[ \t]+(\d[\d \t]*)",
    re.MULTILINE,
)
"""Element counts in PLY and VTK headers."""

GLTF_COUNTS = re.compile(rb'"count"\s*:\s*(\d+)')

GLTF_FILES = re.compile(rb'"uri"\s*:\s*"(?!data:)')
"""Numbers that lie in other files."""

STL_HEADER = 84
"""Bytes before the triangles of a binary STL file: 80 of text, and their number."""

STL_TRIANGLE = 50
"""Bytes of a triangle."""

FACE_TYPES = {3: "triangle", 4: "quad"}
"""What meshio calls faces by the number of their corners; all others are polygons."""


def read_mesh_file(path: str | Path) -> Any:
    """The ``meshio.Mesh`` of a file, whose format is told by its suffix.

    Damaged files are refused before memory is allocated for what they claim to hold.
    """
    source = Path(path).expanduser()
    if not source.is_file():
        raise InvalidInputError(f"no such file: {source}. Check the path.")
    meshio = extra("meshio", "Reading meshes", "files")
    suffix = source.suffix.lower()
    counts = check_counts(source)
    readers: dict[str, Callable[[Path], Any]] = {
        ".obj": _read_obj,
        ".ply": _read_ply,
        ".vtp": read_vtp,
        ".gltf": read_gltf,
        ".glb": read_gltf,
    }
    read = readers.get(suffix, meshio.read)
    printed = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            np.errstate(over="ignore"),
        ):
            mesh = read(source)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{error.name} is not installed, but needed for: reading {source.name}.",
            f"Run pip install {error.name}.",
            name=error.name or "",
        ) from error
    # meshio raises whatever its parsers meet, and exits on its own errors
    except (SystemExit, Exception) as error:
        is_known = not isinstance(error, SystemExit) and str(error)
        reason = "it is damaged or cut short"
        if is_known:
            reason = str(error).splitlines()[0].rstrip(".")
        other = "VTK" if suffix == ".ply" else "PLY"
        raise DamagedFileError(
            f"{source.name} is not a readable {suffix[1:].upper()} mesh ({reason}).",
            f"Write it anew, or convert it to {other}.",
        ) from error
    expected = counts.get("element vertex", len(mesh.points))
    if expected != len(mesh.points):
        raise DamagedFileError(
            f"{source.name} has {len(mesh.points)} of {expected} vertices: it is cut short."
        )
    return mesh


def _read_obj(path: Path) -> Any:
    """Vertices and faces; meshio's reader needs a texture coordinate for each vertex, and counts
    from the start."""
    points: list[list[float]] = []
    faces: dict[int, list[list[int]]] = {}
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        kind, *items = line.split() or [""]
        try:
            if kind == "v":
                points.append([float(items[axis]) for axis in range(3)])  # colours may follow
            elif kind == "f":
                faces.setdefault(len(items), []).append(_corners(items, len(points)))
        except (ValueError, IndexError) as error:
            raise DamagedFileError(f"line {number} is {line[:80]!r}") from error
    cells = [
        (FACE_TYPES.get(corners, "polygon"), np.array(block)) for corners, block in faces.items()
    ]
    meshio = extra("meshio", "Reading meshes", "files")
    return meshio.Mesh(np.array(points).reshape(-1, 3), cells)


def _corners(items: list[str], count: int) -> list[int]:
    """The vertices of a face of an OBJ file, from 0; negative numbers count back from the last of
    ``count`` vertices so far."""
    numbers = [int(item.partition("/")[0]) for item in items]
    return [number + count if number < 0 else number - 1 for number in numbers]


def _read_ply(path: Path) -> Any:
    """The mesh; faces may also be named ``vertex_index``, which meshio does not know."""
    head, mark, body = path.read_bytes().partition(b"end_header")
    content = io.BytesIO(head.replace(b"vertex_index", b"vertex_indices") + mark + body)
    return extra("meshio", "Reading meshes", "files").read(content, "ply")


def check_counts(path: Path) -> dict[str, int]:
    """Return the element counts in the header of a mesh file; raise if the file is too small for
    them."""
    content = path.read_bytes()
    suffix = path.suffix.lower()
    if suffix == ".stl" and len(content) >= STL_HEADER and not _is_text(content):
        count = int.from_bytes(content[STL_HEADER - 4 : STL_HEADER], "little")
        counts = {"bytes of triangles": STL_TRIANGLE * count}
    elif suffix in (".gltf", ".glb"):
        counts = _counts_in_gltf(content)
    else:
        counts = _counts_in(_header(path.name, content, suffix))
    for what, number in counts.items():
        if number > len(content):
            raise DamagedFileError(
                f"{path.name} says it has {number} {what}, but it has {len(content)} bytes. It is "
                "damaged or cut short."
            )
    return counts


def _counts_in_gltf(content: bytes) -> dict[str, int]:
    """The length of the longest array of a glTF file that has its numbers in it."""
    if GLTF_FILES.search(content):
        return {}
    return {"elements": max(map(int, GLTF_COUNTS.findall(content)), default=0)}


def _is_text(content: bytes) -> bool:
    """Whether an STL file is text."""
    return content.lstrip().startswith(b"solid")


def _header(name: str, content: bytes, suffix: str) -> bytes:
    """What may hold counts: the header of a PLY file, all of others."""
    if suffix != ".ply":
        return content
    head = content.partition(b"end_header")[0]
    if head == content:
        raise DamagedFileError(f"{name} is not a readable PLY mesh: its header is not complete.")
    return head


def _counts_in(head: bytes) -> dict[str, int]:
    """The counts of a header; of dimensions their product."""
    counts = {}
    for what, text in COUNTS.findall(head):
        numbers = [int(number) for number in text.split()]
        count = max(numbers)
        if what == b"DIMENSIONS":
            count = math.prod(numbers)
        counts[what.decode()] = count
    return counts
