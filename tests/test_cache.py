"""Compilation: never on import, once ever, then from the cache."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import tangentbundle as tb

SCRIPT = """
import pathlib, sys
import numpy as np
import tangentbundle as tb
print([path.name for path in pathlib.Path(sys.argv[1]).rglob("*") if path.is_file()])
ring = np.stack([np.arange(9), (np.arange(9) + 1) % 9])
lap = tb.Sheaf.from_edges(ring, np.ones((9, 2, 1, 1))).laplacian()
assert np.isfinite(lap @ np.ones((9, 1, 2))).all()
"""


def run(folder):
    """What a process finds in numba's cache after the import, and the times of the files that it
    leaves there."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    at_import = subprocess.check_output(command, env=environment, text=True, timeout=300)
    return at_import, {
        path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()
    }


def test_the_first_call_compiles_and_later_processes_do_not(tmp_path):
    at_import, first = run(tmp_path)
    assert at_import.strip() == "[]" and {path.suffix for path in first} == {".nbi", ".nbc"}
    assert run(tmp_path)[1] == first


def test_every_kernel_is_cached():
    kernels = 0
    for path in Path(tb.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for decorator in getattr(node, "decorator_list", []):
                if "njit" in ast.unparse(decorator):
                    assert "cache=True" in ast.unparse(decorator), f"{node.name} of {path.name}"
                    kernels += 1
    assert kernels > 20
