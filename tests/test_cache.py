"""Compilation: never on import, once ever, then from the cache."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
count = lambda: sum(1 for f in folder.rglob("*") if f.is_file())
import numpy as np
import torch
import tangentbundle as tb
at_import = count()

def go(seed):
    points = tb.manifolds.Sphere(2).sample(1000, seed=seed)
    x = np.random.default_rng(0).standard_normal((1000, 2, 4))
    start = time.process_time()  # of the processor, not of the clock: other programs do not count
    y = tb.TangentBundle.from_points(points).laplacian() @ x
    took = time.process_time() - start
    assert np.isfinite(y).all()
    return took

first = go(0)
warm = min(go(k) for k in range(1, 4))
print(json.dumps({"at_import": at_import, "after": count(), "first": first, "warm": warm}))
"""


def run(folder):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two fresh caches, each used by two processes one after the other: the machine may be busy during one."""
    folders = [tmp_path_factory.mktemp("cache") for _ in range(2)]
    return [[run(folder) for _ in range(2)] for folder in folders]


def test_importing_compiles_nothing(runs):
    assert [first["at_import"] for first, *_ in runs] == [0, 0]


def test_the_first_call_ever_compiles_within_five_seconds(runs):
    assert all(first["after"] > 4 for first, *_ in runs)  # something was compiled, and kept
    assert min(first["first"] for first, *_ in runs) < 5.0


def test_later_processes_compile_nothing(runs):
    for first, *later in runs:
        assert {count for run in later for count in (run["at_import"], run["after"])} == {first["after"]}
    assert min(run["first"] - run["warm"] for _, *later in runs for run in later) < 0.3
