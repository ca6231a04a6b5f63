"""Threads that wait for each other take many times longer on a busy machine: dense linear algebra
of the tests runs on one thread, and OpenMP's threads sleep while they wait. The library's own
threads are left as they are."""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported

import pytest
import torch
from threadpoolctl import threadpool_limits

from tangentbundle.parallel import one_thread

torch.set_warn_always(
    True
)  # warnings are errors: whether a test passes must not depend on which ran before it

WIND = Path(__file__).parents[2] / "shared/data/wind"
if WIND.is_dir():  # next to the repository, never part of it
    os.environ.setdefault("TANGENTBUNDLE_WIND", str(WIND))


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@pytest.fixture(scope="module")
def one_torch_thread():
    """For tests of small operators: threads would only wait for each other."""
    with one_thread():
        yield
