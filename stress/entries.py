"""Property-based fuzzing of the public entry points: a checked result or a named error for anything
at all."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

import tangentbundle as tb
from tangentbundle.parallel import one_thread

from .clouds import KERNELS, NUMBER, POSITIVE, WHOLE, clouds, signals
from .tally import Tally


@dataclass(frozen=True)
class Entry:
    """A public entry point: how to draw its arguments, what to do with them, and how many of
    ``INPUTS``."""

    name: str
    arguments: st.SearchStrategy
    call: Callable[..., Any]
    inputs: int


def check(condition: Any, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def finite(*arrays: Any) -> None:
    check(
        all(bool(torch.isfinite(torch.as_tensor(np.asarray(a))).all()) for a in arrays),
        "a result is not finite",
    )


def sound_bundle(bundle: tb.TangentBundle) -> None:
    """Frames are orthonormal, products finite, constants harmonic."""
    frames = np.asarray(bundle.frames, np.float64)
    single = bundle.kind.dtype == torch.float32
    gram = frames.swapaxes(1, 2) @ frames
    check(
        np.abs(gram - np.eye(bundle.rank)).max() < (1e-5 if single else 1e-9),
        "frames are not orthonormal",
    )
    lap, line = bundle.laplacian(), bundle.scalar().laplacian()
    x = bundle.kind.wrap(np.ones((bundle.num_points, bundle.rank, 1)))
    finite(lap @ x)
    flat = np.asarray(line @ bundle.kind.wrap(np.ones((bundle.num_points, 1, 1))))
    check(
        np.abs(flat).max() * line.scale < (1e-4 if single else 1e-10), "constants are not harmonic"
    )


@cache
def small(dtype: type = np.float64) -> tb.TangentBundle:
    return tb.TangentBundle.from_points(tb.manifolds.Torus().sample(40, seed=0, dtype=dtype), dim=2)


@cache
def small_lap(dtype: type = np.float64) -> tb.Laplacian:
    return small(dtype).laplacian()


def from_points(points, dim, eps, neighbors, eps_pca, kernel):
    sound_bundle(
        tb.TangentBundle.from_points(
            points, dim=dim, eps=eps, neighbors=neighbors, eps_pca=eps_pca, kernel=kernel
        )
    )


def from_frames(points, dim, turn, neighbors):
    frames = np.linalg.qr(
        np.random.default_rng(turn).standard_normal((40, 3, max(1, min(dim, 3))))
    )[0]
    frames = frames * (1.0 if turn % 3 else 1.01)
    sound_bundle(tb.TangentBundle.from_frames(points, frames[: len(points)], neighbors=neighbors))


def from_latlon(lat, lon, neighbors):
    sound_bundle(tb.TangentBundle.from_latlon(lat, lon, neighbors=neighbors))


def from_mesh(points, faces):
    """Random triangles, hardly ever a surface, or those of the convex hull."""
    faces = ConvexHull(points).simplices if faces is None else faces
    sound_bundle(tb.TangentBundle.from_mesh(points, faces))


def scalar_from_mesh(points, faces):
    """Functions on random triangles; constants are harmonic."""
    bundle = tb.TangentBundle.scalar_from_mesh(points, faces)
    laplacian = bundle.laplacian()
    change = laplacian @ np.ones((bundle.num_points, 1, 1), dtype=bundle.points.dtype)
    finite(change)
    assert bool((laplacian.mass > 0).all())


def cut_sheets(points, faces):
    """The triangles of a mesh stay, with other vertices."""
    cut = tb.meshes.cut_sheets(points, faces)
    assert len(cut.origin) == len(cut.vertices)


def coordinates(vectors, back):
    bundle = small()
    x = bundle.to_coordinates(vectors)
    finite(x, bundle.to_ambient(x), bundle.to_ambient(back))


def product(signal, k):
    lap = small_lap()
    y = lap @ signal
    if np.asarray(y).size and float(np.abs(np.asarray(y)).max()) < 1e100:
        finite(y, lap.norm(signal), lap.from_frequency(lap.to_frequency(signal, k)))


def spectrum(k, tol, start):
    values, fields = small_lap().spectrum(k, tol=abs(tol) + 1e-10, seed=start)
    finite(values, fields)
    check(
        (np.diff(values) >= -1e-9).all() and values[0] >= 0, "eigenvalues do not ascend from zero"
    )


def filtering(make, parameters, signal, method):
    filt = make(*parameters)
    y = filt(small_lap(), signal, method)
    if np.asarray(y).size:
        response = filt.response(np.linspace(0, 10, 5))
        check(np.isfinite(response).all() or not np.isfinite(y).all(), "a response is not finite")
        if np.abs(np.asarray(signal)).max() < 1e100 and np.abs(response).max() < 1e100:
            finite(y)


def properties(make, parameters, lam):
    filt = make(*parameters)
    filt.response(lam)
    filt.properties(small_lap())


def network(channels, taps, step, activation, signal):
    options = {name: value for name, value in (("taps", taps), ("step", step)) if value is not None}
    net = tb.nn.TNN(channels, activation=activation, **options)
    signal = torch.as_tensor(np.asarray(signal, np.float32))
    y = net(signal, small_lap(np.float32).to(dtype=torch.float32))
    if y.numel() and float(signal.abs().max()) < 1e10:
        finite(y.detach())


def training(epochs, lr, patience, clip, accumulate, batches):
    lap = small_lap(np.float32)
    x = torch.ones(40, 2, 1)
    net = tb.nn.TNN([1, 1])
    options = {"epochs": epochs, "lr": lr, "patience": patience, "clip": clip}
    options |= {} if accumulate is None else {"accumulate": accumulate}
    tb.fit(net, [(x, lap, 0.5 * x)] * batches, progress=False, **options)
    finite(*(p.detach() for p in net.parameters()))


def manifold(make, parameters, n, start, k):
    space = make(*parameters)
    points = space.sample(n, seed=start)
    finite(points, space.frames(points))
    check(points.shape == (n, space.ambient_dim), "a sample has another shape")
    if isinstance(space, tb.manifolds.Sphere):
        finite(space.vector_spectrum(k))


def diagnosis(points, neighbors):
    report = tb.TangentBundle.from_points(points, neighbors=neighbors).diagnose(quiet=True)
    check(
        report.components >= 1 and 0 <= report.frustration <= 1 and str(report), "a report is odd"
    )


def joined(number, signal):
    finite(tb.join([small_lap()] * number) @ signal)


def estimators(name, points, vectors):
    model = getattr(tb, name)()
    try:
        model.fit(points, vectors)
    except (
        ValueError
    ) as error:  # of scikit-learn, about shapes and NaN, in the words its users know
        raise tb.errors.InvalidInputError(str(error)) from error
    finite(model.predict(points))


def _signal(dtype, start):
    return np.random.default_rng(start).standard_normal((40, 2, 2)).astype(dtype)


def learnable(kind, values, dtype, method, start):
    """A tensor that is changed in place, with or without gradients, gives what a new filter
    gives."""
    lap, x = small_lap(dtype), _signal(dtype, start)
    numbers = values[0] if kind not in (tb.FIR, tb.Polynomial) else np.atleast_1d(values[0])
    parameter = torch.nn.Parameter(
        torch.tensor(numbers, dtype=lap.dtype).mul(0.5), requires_grad=bool(start % 2)
    )
    h = kind(parameter)
    h(lap, x, method)
    parameter.data.mul_(2.0)
    fresh = kind(parameter.detach().clone().requires_grad_(bool(start % 2)))
    check(
        np.array_equal(h(lap, x, method), fresh(lap, x, method)), "a changed parameter is not seen"
    )


def precision(kind, values, method, start):
    """float32 is within its tolerance, and what a shift of eigenvalues changes, of float64."""
    wide, h, x = small_lap(), kind(values[0]), _signal(np.float32, start)
    lap = wide.to(dtype=torch.float32)
    lam = torch.linspace(0, wide.spectral_interval[1], 20_001, dtype=torch.float64)
    shift = 2 * torch.finfo(torch.float32).eps * float(lam[-1]) / wide.shape[0] ** 0.5
    change = float((h.evaluate(lam + shift) - h.evaluate(lam)).abs().max())
    expected = h(wide, x.astype(np.float64), tb.Exact())
    error = wide.norm(h(lap, x, method).astype(np.float64) - expected) / wide.norm(
        x.astype(np.float64)
    )
    size = max(float(h.evaluate(lam).abs().max()), 1.0)
    check(
        float(error.max()) <= (2e-6 + getattr(method, "tol", 0.0)) * size + 4 * change,
        f"error {float(error.max())}",
    )


def copies(kind, values, method, start):
    """Pickles and copies of a filter and of a used operator give the same answers."""
    h, lap, x = kind(values[0]), small_lap(), _signal(np.float64, start)
    expected = h(lap, x, method)
    for duplicate in (copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))):
        check(
            np.allclose(duplicate(h)(duplicate(lap), x, duplicate(method)), expected),
            "a copy differs",
        )


def rules(gamma, eps_pca, points):
    tb.TangentBundle.from_points(points, dim=tb.VarianceShare(gamma), eps_pca=eps_pca)


FILTERS = st.sampled_from([tb.Heat, tb.FIR, tb.Polynomial, tb.Tikhonov])
PARAMETERS = st.lists(
    st.one_of(NUMBER, POSITIVE, st.lists(st.floats(-3, 3), max_size=6)), min_size=1, max_size=1
)
METHODS = st.sampled_from([None, tb.Exact(), tb.Dense(), tb.Chebyshev(1e-4), tb.Exact, "exact"])
SOUND = st.lists(
    st.floats(1e-4, 1e2) | st.lists(st.floats(-3, 3), min_size=1, max_size=6),
    min_size=1,
    max_size=1,
)
SOUND_METHODS = st.sampled_from([tb.Exact(), tb.Dense(), tb.Chebyshev()])
REALS = st.sampled_from([np.float32, np.float64])
SPACES = st.sampled_from(
    [
        tb.manifolds.Sphere,
        tb.manifolds.Torus,
        tb.manifolds.FlatTorus,
        tb.manifolds.Ellipsoid,
        tb.manifolds.KleinBottle,
    ]
)
ANGLES = st.tuples(
    st.integers(0, 2**32), st.integers(0, 50), st.sampled_from([90.0, 1.0, 95.0, 1e-7, np.nan])
).map(lambda t: np.random.default_rng(t[0]).uniform(-1, 1, t[1]) * t[2])
FACES = st.tuples(st.integers(0, 2**32), st.integers(0, 80), st.sampled_from([40, 30, 41, 3])).map(
    lambda t: np.random.default_rng(t[0]).integers(-1 if t[2] == 41 else 0, t[2], (t[1], 3))
)
POINTS3 = st.integers(0, 2**32).map(lambda s: tb.manifolds.Sphere(2).sample(40, seed=s))
SHAPES = [(40, 3)] * 4 + [(40, 3, 2), (2, 40, 3), (39, 3), (40,)]
VECTORS = st.tuples(st.integers(0, 2**32), st.sampled_from(SHAPES)).map(
    lambda t: np.random.default_rng(t[0]).standard_normal(t[1])
)
EPOCHS = st.one_of(st.integers(-1, 3), st.just("2"))
TINY = st.floats(1e-12, 1.0)
ACTIVATIONS = st.sampled_from(
    [None, tb.nn.NormTanh(), tb.nn.Coordinatewise(torch.tanh), torch.tanh]
)
CHANNELS = st.one_of(st.lists(WHOLE, max_size=4), st.just([1, 2, 1]), st.just([3, 1]), NUMBER)

SOME = st.one_of(st.none(), st.none(), st.none(), NUMBER)
COUNT = st.one_of(st.none(), st.none(), st.integers(1, 12), WHOLE)
KERNEL = st.one_of(st.none(), st.none(), KERNELS)
START = st.integers(0, 99)
GIVEN = st.sampled_from(["FieldDenoiser", "FieldInterpolator"])
LAMBDAS = st.one_of(NUMBER, st.lists(NUMBER, max_size=5), st.lists(st.floats(0, 1e6), max_size=5))
SIZES = st.lists(st.one_of(WHOLE, POSITIVE, st.lists(POSITIVE, max_size=4)), max_size=1)

ENTRIES = (
    Entry(
        "TangentBundle.from_points",
        st.tuples(clouds(), COUNT, SOME, COUNT, SOME, KERNEL),
        from_points,
        4_800,
    ),
    Entry(
        "TangentBundle.from_frames",
        st.tuples(clouds(40, 3), st.integers(1, 3), START, COUNT),
        from_frames,
        1_200,
    ),
    Entry(
        "TangentBundle.from_latlon",
        st.tuples(ANGLES, ANGLES.map(lambda a: 4 * a), COUNT),
        from_latlon,
        1_200,
    ),
    Entry("TangentBundle.from_mesh", st.tuples(POINTS3, FACES | st.none()), from_mesh, 1_200),
    Entry("TangentBundle.scalar_from_mesh", st.tuples(POINTS3, FACES), scalar_from_mesh, 1_200),
    Entry("meshes.cut_sheets", st.tuples(POINTS3, FACES), cut_sheets, 1_200),
    Entry(
        "to_coordinates, to_ambient",
        st.tuples(VECTORS | clouds(40, 3), signals(40, 2)),
        coordinates,
        2_400,
    ),
    Entry("products, norms, transforms", st.tuples(signals(40, 2), COUNT), product, 3_600),
    Entry("spectrum", st.tuples(COUNT, TINY, START), spectrum, 240),
    Entry("filters", st.tuples(FILTERS, PARAMETERS, signals(40, 2), METHODS), filtering, 3_600),
    Entry(
        "learnable parameters",
        st.tuples(FILTERS, SOUND, REALS, SOUND_METHODS, START),
        learnable,
        1_200,
    ),
    Entry(
        "float32 against float64", st.tuples(FILTERS, SOUND, SOUND_METHODS, START), precision, 1_200
    ),
    Entry("copies and pickles", st.tuples(FILTERS, SOUND, SOUND_METHODS, START), copies, 600),
    Entry("responses, properties", st.tuples(FILTERS, PARAMETERS, LAMBDAS), properties, 2_400),
    Entry("nn.TNN", st.tuples(CHANNELS, COUNT, SOME, ACTIVATIONS, signals(40, 2)), network, 1_200),
    Entry("fit", st.tuples(EPOCHS, NUMBER, COUNT, SOME, COUNT, st.integers(0, 2)), training, 360),
    Entry(
        "manifolds",
        st.tuples(SPACES, SIZES, st.integers(-1, 40), START, st.integers(0, 30)),
        manifold,
        2_400,
    ),
    Entry(
        "diagnose", st.tuples(clouds(), st.one_of(st.none(), st.integers(1, 12))), diagnosis, 480
    ),
    Entry("join", st.tuples(st.integers(0, 3), signals(80, 2)), joined, 600),
    Entry("VarianceShare", st.tuples(NUMBER, POSITIVE, clouds()), rules, 600),
    Entry("estimators", st.tuples(GIVEN, POINTS3 | clouds(40, 3), VECTORS), estimators, 36),
)


def fuzz(entry: Entry, inputs: int) -> Tally:
    """Draw inputs; hypothesis shrinks a failing one before it is reported."""
    tally = Tally(entry.name)

    @seed(20_240_601)
    @settings(
        max_examples=inputs,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(entry.arguments)
    def run_one(arguments):
        tally.try_out(lambda: entry.call(*arguments), arguments)

    try:
        run_one()
    except BaseException as error:
        if not tally.failures:
            raise
        print(f"{entry.name}: {tally.failures[-1]}", flush=True)
        if isinstance(error, KeyboardInterrupt):
            raise
    return tally


def row(name: str, inputs: int) -> dict[str, Any]:
    """Fuzz one entry, on one thread."""
    with warnings.catch_warnings(), one_thread():
        warnings.filterwarnings(
            "ignore", category=RuntimeWarning
        )  # of the strategies' own arithmetic
        return fuzz(next(entry for entry in ENTRIES if entry.name == name), inputs).row()


def run(share: float = 1.0) -> list[dict[str, Any]]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(row, entry.name, max(3, round(entry.inputs * share))) for entry in ENTRIES
        ]
        return [job.result() for job in jobs]
