"""Requests that no machine could hold: refused by name, with the bytes they would need, before they
are allocated."""

from __future__ import annotations

import io
import json
import resource
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tangentbundle as tb
from tangentbundle.errors import DamagedFileError, MemoryLimitError
from tangentbundle.io import read_field

ALLOWANCE = 100e6
"""Bytes by which the process may grow on the way to a refusal."""


def circle(n: int) -> tb.TangentBundle:
    """Evenly spaced points, four neighbours each: the cheapest bundle of so many points."""
    angle = 2 * np.pi * np.arange(n) / n
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return tb.TangentBundle.from_points(points, dim=1, eps=(2.5 * 2 * np.pi / n) ** 2)


def hollow_npz(path: Path, shape: tuple[int, ...]) -> Path:
    """An archive whose header claims an array that is not there."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("points.npy", header.getvalue())
    return path


def hollow_zarr(path: Path, size: int) -> Path:
    """A store whose arrays are nothing but a fill value, ``size`` times."""
    for name in ("x", "y", "vx", "vy"):
        (path / name).mkdir(parents=True)
        about = {
            "zarr_format": 2,
            "shape": [size],
            "chunks": [size],
            "dtype": "<f8",
            "order": "C",
            "compressor": None,
        }
        (path / name / ".zarray").write_text(
            json.dumps({**about, "fill_value": 0.0, "filters": None})
        )
        (path / name / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["point"]}')
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    return path


def text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


PLY = (
    "ply\nformat {} 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float "
    "z\nend_header\n0 0 0\n"
)
VTK = "# vtk DataFile Version 3.0\nx\nASCII\nDATASET {}\n"


def requests(n: int, folder: Path) -> dict[str, Callable[[], Any]]:
    lap = circle(n).laplacian()
    x = np.ones((n, 1, 1))
    huge = 10**12
    grid = (
        VTK.format("STRUCTURED_POINTS")
        + "DIMENSIONS 10000 10000 10000\nORIGIN 0 0 0\nSPACING 1 1 1\n"
    )
    points = circle(1000).points
    return {
        f"dense exponential, n = {n}": lambda: tb.Heat(0.1)(lap, x, tb.Dense()),
        f"exact exponential, n = {n}": lambda: tb.Heat(0.1)(lap, x, tb.Exact()),
        f"to_dense, n = {n}": lambda: lap.to_dense(),
        f"spectrum k = n = {n}": lambda: lap.spectrum(n),
        f"spectrum k = n / 4, n = {n}": lambda: lap.spectrum(n // 4),
        f"to_frequency k = n / 4, n = {n}": lambda: lap.to_frequency(x, n // 4),
        "every pair of 10^5 points": lambda: tb.TangentBundle.from_points(
            tb.manifolds.Sphere(2).sample(100_000, seed=0), dim=2, eps=10.0, max_memory=4e9
        ),
        "neighbors with 1 MB allowed": lambda: tb.TangentBundle.from_points(
            points, neighbors=100, max_memory=1e6
        ),
        "a sample of 10^12 points": lambda: tb.manifolds.Sphere(2).sample(huge, seed=0),
        "npz header of 10^12 rows": lambda: read_field(hollow_npz(folder / "a.npz", (huge, 3))),
        "zarr of 10^12 fill values": lambda: read_field(hollow_zarr(folder / "a.zarr", huge)),
        "ASCII PLY of 10^12 vertices": lambda: read_field(
            text(folder / "a.ply", PLY.format("ascii", huge))
        ),
        "binary PLY of 10^12 vertices": lambda: read_field(
            text(folder / "b.ply", PLY.format("binary_little_endian", huge))
        ),
        "VTK of 10^12 points": lambda: read_field(
            text(folder / "a.vtk", VTK.format("POLYDATA") + f"POINTS {huge} float\n0 0 0\n")
        ),
        "VTK grid of 10^12 points": lambda: read_field(text(folder / "b.vtk", grid)),
    }


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def run(share: float = 1.0) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, call in requests(1_000_000 if share >= 1 else 50_000, Path(folder)).items():
            before, start = peak(), time.process_time()
            row: dict[str, Any] = {"what": name, "inputs": 1, "answer": "none", "failures": 1}
            try:
                call()
            except (MemoryLimitError, DamagedFileError) as error:
                row["answer"] = f"{type(error).__name__}: {error}"[:140]
                row["failures"] = int(peak() - before > ALLOWANCE)
            except MemoryError as error:
                row["answer"] = repr(error)[:100]
            row["grew_mb"] = round((peak() - before) / 1e6)
            rows.append({**row, "cpu_s": round(time.process_time() - start, 2)})
    return rows
