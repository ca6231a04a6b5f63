"""One policy for threads: they sleep while they wait, work on large arrays alone, and users'
settings come back."""

import itertools
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import tangentbundle as tb
from tangentbundle import parallel
from tangentbundle.parallel import (
    MIN_NUMBERS,
    num_threads,
    numbers_in,
    one_thread,
    run_ranges,
    threads_for,
)

LARGE = 2.0 * MIN_NUMBERS * parallel.SPINNING_FACTOR
SMALL = MIN_NUMBERS / 2


def counts():
    """The limits of all libraries in this thread: OpenMP, the BLAS of NumPy and SciPy, torch and
    its MKL."""
    libraries = {library["filepath"]: library["num_threads"] for library in threadpool_info()}
    mkl = [
        line
        for line in torch.__config__.parallel_info().splitlines()
        if "mkl_get_max_threads" in line
    ]
    return libraries, torch.get_num_threads(), mkl


@pytest.fixture(params=[None, 3], ids=["as torch starts", "set by the user"])
def user_threads(request):
    """Numbers of threads that differ from one, everywhere."""
    before = torch.get_num_threads()
    with threadpool_limits(3):
        if request.param:
            torch.set_num_threads(request.param)
        yield
        torch.set_num_threads(before)


@pytest.mark.parametrize("nesting", [*itertools.product([SMALL, LARGE, None], repeat=3)])
def test_settings_hold_inside_and_come_back(user_threads, nesting):
    """The innermost context decides, unless ``one_thread`` (None) is around it; leaving restores
    what was before."""
    user = counts()

    def enter(rest, single):
        before = counts()
        if not rest:
            return
        size = rest[0]
        with one_thread() if size is None else threads_for(size):
            single = single or size is None
            if single or size == SMALL:
                libraries, threads, mkl = counts()
                assert set(libraries.values()) == {1} and threads == 1
                assert all(line.endswith(": 1") for line in mkl)
            else:
                assert counts() == user
            assert num_threads() == (1 if single else user[1])
            enter(rest[1:], single)
        assert counts() == before

    enter(nesting, False)
    assert counts() == user


def test_settings_come_back_after_errors(user_threads):
    before = counts()
    with pytest.raises(ZeroDivisionError), threads_for(SMALL), threads_for(LARGE), one_thread():
        _ = 1 / 0
    assert counts() == before


def test_what_the_user_sets_meanwhile_stays(user_threads):
    with threads_for(SMALL):
        torch.set_num_threads(2)
    assert torch.get_num_threads() == 2


def test_calls_from_many_threads_overlap_in_any_order(user_threads):
    """Contexts of several threads that begin and end in any order, and threads born meanwhile."""
    before = counts()

    def work(seed):
        rng = np.random.default_rng(seed)
        own = torch.get_num_threads()
        for _ in range(20):
            size = SMALL if rng.random() < 0.6 else LARGE
            with threads_for(size):
                time.sleep(2e-4 * rng.random())
                assert torch.get_num_threads() == (1 if size == SMALL else own)
        return own, torch.get_num_threads()

    with ThreadPoolExecutor(8) as pool:
        assert all(first == last for first, last in pool.map(work, range(16)))
    assert counts() == before


def test_threads_born_meanwhile_have_the_users_number(user_threads):
    """What torch gives to new threads is not changed by a limit that another thread has at that
    time."""

    def of_a_new_thread():
        numbers = []
        thread = threading.Thread(target=lambda: numbers.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return numbers[0]

    expected = of_a_new_thread()
    with threads_for(SMALL):
        assert of_a_new_thread() == expected
    with one_thread():
        assert of_a_new_thread() == expected


def entry_points():
    """Calls of small size, through every package of the library."""
    torus = tb.manifolds.Torus()
    points = torus.sample(400, seed=0)
    bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=14)
    laplacian = bundle.laplacian()
    x = bundle.to_coordinates(torus.tangent_field(points))
    tensor = torch.from_numpy(x).float()
    single = laplacian.to(dtype=torch.float32)
    few = points[:90]
    return {
        "points": lambda: tb.TangentBundle.from_points(points, dim=2, neighbors=14),
        "frames": lambda: tb.TangentBundle.from_frames(points, torus.frames(points), neighbors=14),
        "batch": lambda: tb.TangentBundle.from_batch(
            points, np.zeros(400, int), dim=2, neighbors=14
        ),
        "laplacian": lambda: bundle.laplacian(),
        "product": lambda: laplacian @ x,
        "spectrum": lambda: laplacian.spectrum(4),
        "heat": lambda: tb.Heat(0.1)(laplacian, x),
        "dense": lambda: tb.Heat(0.1)(laplacian, x, tb.Dense()),
        "curl": lambda: bundle.curl() @ x,
        "helmholtz": lambda: tb.helmholtz(bundle, x),
        "training": lambda: tb.fit(
            tb.nn.TNN([1, 1]), [(tensor, single, tensor)], epochs=2, progress=False
        ),
        "denoiser": lambda: (
            tb.FieldDenoiser(random_state=0).fit(few, torus.tangent_field(few)).predict(few)
        ),
    }


@pytest.mark.parametrize("user_threads", [3], indirect=True)
def test_small_calls_use_one_thread_and_leave_no_trace(user_threads, monkeypatch):
    """Inside every entry point one thread works for torch and BLAS; outside nothing has changed."""
    seen = []

    def watched(kernel, n, *args, grain=1024):
        seen.append(torch.get_num_threads())
        run_ranges(kernel, n, *args, grain=grain)

    for name, module in list(sys.modules.items()):
        if name.startswith("tangentbundle.") and getattr(module, "run_ranges", None) is run_ranges:
            monkeypatch.setattr(module, "run_ranges", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = entry_points()
        for name, call in calls.items():
            before = counts()[1:]
            seen.clear()
            call()
            assert set(seen) <= {1}, name
            assert counts()[1:] == before, name


@pytest.mark.parametrize("shape", [(5,), (40, 3), (2, 7, 3)])
def test_numbers_of_arguments(shape):
    values = np.ones(shape)
    size = values.size
    assert (
        numbers_in(values)
        == numbers_in(torch.ones(shape, dtype=torch.float64))
        == numbers_in(values.tolist())
        == size
    )
    assert numbers_in(values.astype(np.float32)) == numbers_in(torch.ones(shape)) == size
    assert numbers_in(object()) == numbers_in(None) == 0
    cloud = tb.manifolds.Sphere(2).sample(30, seed=0)
    bundle = tb.TangentBundle.from_points(cloud, dim=2, neighbors=8)
    assert numbers_in(bundle) == numbers_in(bundle.laplacian()) == bundle.graph.num_edges


@pytest.mark.parametrize("loaded", [False, True], ids=["torch later", "torch first"])
@pytest.mark.parametrize("setting", [None, *parallel.WAITING_SETTINGS])
def test_waiting_is_passive_unless_the_user_says_otherwise(monkeypatch, setting, loaded):
    for name in parallel.WAITING_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    if setting is not None:
        monkeypatch.setenv(setting, "9")
    if not loaded:
        monkeypatch.delitem(sys.modules, "torch")
    before = dict(os.environ)
    parallel.sleep_while_waiting()
    expected = before if loaded or setting else before | {"OMP_WAIT_POLICY": "PASSIVE"}
    assert dict(os.environ) == expected
    os.environ.pop("OMP_WAIT_POLICY", None)
    os.environ.update(before)


@pytest.mark.parametrize(
    "code, spins",
    [
        ("import torch, tangentbundle.parallel as p", True),
        ("import tangentbundle.parallel as p, torch", False),
        (
            "os.environ['OMP_WAIT_POLICY'] = 'ACTIVE'; import torch, tangentbundle.parallel as p",
            False,
        ),
    ],
)
def test_it_is_known_whether_the_threads_of_torch_spin(code, spins):
    environment = {
        name: value for name, value in os.environ.items() if name not in parallel.WAITING_SETTINGS
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import os; {code}; print(p._spinning)"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{spins}\n", done.stderr


def test_import_loads_torch_with_passive_waiting():
    code = (
        "import os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': raise SystemExit(print(os.environ.get('OMP_WAIT_POLICY')))\n"
        "sys.meta_path.insert(0, Watch())\n"
        "import tangentbundle as tb; tb.TangentBundle"
    )
    environment = {
        name: value for name, value in os.environ.items() if name not in parallel.WAITING_SETTINGS
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "PASSIVE\n", done.stderr


def warning_calls():
    """Calls that warn, from every layer with entry points."""
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample(300, seed=0)
    doubled = np.concatenate([points, points[:40]])
    apart = np.concatenate([points[:80], points[:80] + 50.0])
    torus = tb.manifolds.Torus()
    sites = torus.sample(150, seed=0)
    fitted = tb.FieldDenoiser(random_state=0).fit(sites, torus.tangent_field(sites))
    return {
        "duplicates": lambda: tb.TangentBundle.from_points(doubled, dim=2),
        "components": lambda: tb.TangentBundle.from_points(apart, dim=2, neighbors=8),
        "not local": lambda: tb.TangentBundle.from_points(points[:60], dim=2, eps=4.0),
        "batch": lambda: tb.TangentBundle.from_batch(
            doubled, np.zeros(340, int), dim=2, neighbors=10
        ),
        "far queries": lambda: fitted.predict(sites + 9.0),
    }


def test_warnings_point_at_the_callers_line():
    for name, call in warning_calls().items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert caught, name
        assert {warning.filename for warning in caught} == {__file__}, name
