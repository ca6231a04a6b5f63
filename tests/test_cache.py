"""Compilation: never on import, once ever, then from the cache."""

import os
import subprocess
import sys

SCRIPT = """
import pathlib, sys
import numpy as np
import tangentbundle as tb
print([path.name for path in pathlib.Path(sys.argv[1]).rglob("*") if path.is_file()])
points = tb.manifolds.Sphere(2).sample(300, seed=0)
assert np.isfinite(tb.TangentBundle.from_points(points).laplacian() @ np.ones((300, 2, 4))).all()
"""


def run(folder):
    """What a process finds in numba's cache after the import, and the times of the files that it leaves there."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    at_import = subprocess.check_output(command, env=environment, text=True, timeout=300)
    return at_import, {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_the_first_call_compiles_and_later_processes_do_not(tmp_path):
    at_import, first = run(tmp_path)
    assert at_import.strip() == "[]" and len(first) > 4
    assert run(tmp_path)[1] == first
