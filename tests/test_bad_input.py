"""A named error or warning for every known trap; and for anything at all: a right answer or a named
error."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tangentbundle import TangentBundle, errors, kernels
from tangentbundle.errors import (
    DimensionWarning,
    DisconnectedWarning,
    DTypeError,
    DuplicatePointsWarning,
    GlobalNeighborhoodWarning,
    InvalidInputError,
    IsolatedPointsError,
    MemoryLimitError,
    NonFiniteError,
    NotTangentWarning,
    RankDeficientError,
    ShapeError,
    TangentBundleError,
    TangentBundleWarning,
    TooFewPointsError,
)
from tangentbundle.manifolds import KleinBottle, Sphere, Torus

SPHERE = Sphere(2).sample(300, seed=0)


def test_every_error_is_of_the_family_and_says_why():
    types = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    named = [kind for kind in types if issubclass(kind, BaseException)]
    assert len(named) > 15
    for kind in named:
        assert issubclass(kind, TangentBundleError | TangentBundleWarning) and kind.__doc__
    # They are also what a Python programmer would catch.
    for kind, plain in [
        (InvalidInputError, ValueError),
        (DTypeError, TypeError),
        (MemoryLimitError, MemoryError),
        (IsolatedPointsError, ValueError),
        (RankDeficientError, ValueError),
        (errors.ConvergenceError, RuntimeError),
    ]:
        assert issubclass(kind, plain)
    assert issubclass(TangentBundleWarning, UserWarning)
    for kind in named:  # they cross processes with all they carry
        remedy = errors.Remedy("Use {neighbors}.", neighbors=20)
        error = pickle.loads(pickle.dumps(kind("no neighbour.", remedy).at_point(3)))
        assert str(error) == "no neighbour. Use neighbors=20." and error.point == 3
        assert error.problem == "no neighbour."
        assert error.remedy.arguments == {"neighbors": errors.Argument("neighbors", 20)}
        assert type(kind.__new__(kind)) is kind  # as Dask makes an error that a worker raised


# The traps of the design, one by one.


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_not_finite(bad, dtype):
    points = SPHERE.astype(dtype)
    points[123, 2] = bad
    with pytest.raises(
        NonFiniteError, match=r"1 of 900 values .* index \(123, 2\)\). Drop or fill"
    ):
        TangentBundle.from_points(points)
    with pytest.raises(NonFiniteError):
        TangentBundle.from_points(torch.from_numpy(points))


def test_duplicates_are_reported_and_harmless():
    doubled = np.concatenate([SPHERE, SPHERE[:30]])
    with pytest.warns(DuplicatePointsWarning, match=r"60 of 330 .* np.unique"):
        bundle = TangentBundle.from_points(doubled)
    clean = TangentBundle.from_points(SPHERE)
    lap = bundle.laplacian()
    assert np.isfinite(lap @ np.ones((330, 2, 1))).all()
    np.testing.assert_allclose(lap.spectrum(6)[0], clean.laplacian().spectrum(6)[0], rtol=0.1)
    # Copies have the same tangent plane.
    first, second = bundle.frames[:30], bundle.frames[300:]
    overlap = np.linalg.svd(first.swapaxes(1, 2) @ second, compute_uv=False)
    np.testing.assert_allclose(overlap, 1.0, atol=1e-3)


def test_only_duplicates():
    with pytest.raises(TooFewPointsError, match="all 50 points coincide"):
        TangentBundle.from_points(np.ones((50, 3)))
    heaps = np.repeat(SPHERE[:10], 40, axis=0)
    with (
        pytest.warns(DuplicatePointsWarning),
        pytest.raises(TooFewPointsError, match="exact duplicates"),
    ):
        TangentBundle.from_points(heaps, dim=2)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_points(n):
    with pytest.raises(TooFewPointsError, match=f"at least 3 points.*got {n}"):
        TangentBundle.from_points(SPHERE[:n])


@pytest.mark.parametrize("neighbors", [50, 51, 10**7])
def test_fewer_points_than_neighbours(neighbors):
    with pytest.raises(TooFewPointsError, match=f"{neighbors} neighbours .* got 50"):
        TangentBundle.from_points(SPHERE[:50], neighbors=neighbors)


@pytest.mark.parametrize("n", range(3, 12))
def test_very_few_points_work_or_say_why(n):
    """As few as three points, at every dimension: a finite operator or a named error."""
    for dim in (None, 1, 2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TangentBundleWarning)
            try:
                lap = TangentBundle.from_points(SPHERE[:n], dim=dim).laplacian()
            except TangentBundleError:
                continue
        assert np.isfinite(lap @ np.ones((n, lap.rank, 1))).all()


def test_isolated_points():
    outlier = np.concatenate([SPHERE, [[50.0, 0.0, 0.0]]])
    with pytest.raises(
        IsolatedPointsError,
        match=r"1 of 301 points .* are 49\.\d* to 49\.\d* away.*remove outliers",
    ):
        TangentBundle.from_points(outlier, dim=2)
    with pytest.raises(IsolatedPointsError, match="larger eps"):
        TangentBundle.from_points(SPHERE, eps=1e-4)


def test_several_components():
    two = np.concatenate([SPHERE, SPHERE + 20.0])
    with pytest.warns(DisconnectedWarning, match="2 components"):
        bundle = TangentBundle.from_points(two, dim=2)
    values, _ = bundle.scalar().laplacian().spectrum(3)
    assert values[1] < 1e-8 < values[2]  # one constant for each component
    with pytest.warns(DisconnectedWarning):
        TangentBundle.from_frames(two, np.concatenate([Sphere(2).frames(SPHERE)] * 2), eps=0.3)


def test_a_neighbourhood_that_covers_the_cloud():
    with pytest.warns(GlobalNeighborhoodWarning, match="100% of the cloud"):
        TangentBundle.from_points(SPHERE, dim=2, eps=100.0, eps_pca=0.3)
    with pytest.warns(GlobalNeighborhoodWarning, match="units"):
        TangentBundle.from_points(SPHERE, dim=2, neighbors=200, eps_pca=0.3)


def test_the_papers_scale_on_its_torus_warns():
    """Torus with R = 0.3, r = 0.1, and eps = 0.5: the ball of radius 0.7 holds nearly all of it."""
    points = Torus(0.3, 0.1).sample(300, seed=0)
    with pytest.warns(GlobalNeighborhoodWarning):
        TangentBundle.from_points(points, dim=2, eps=0.5, eps_pca=0.02)


def test_kilometres_with_a_scale_for_the_unit_sphere():
    with pytest.raises(IsolatedPointsError, match="Mind the units"):
        TangentBundle.from_points(6371.0 * SPHERE, eps=0.1)
    kilometres = TangentBundle.from_points(6371.0 * SPHERE, eps=0.1 * 6371.0**2)
    unit = TangentBundle.from_points(SPHERE, eps=0.1)
    assert kilometres.graph.num_edges == unit.graph.num_edges
    with pytest.warns(GlobalNeighborhoodWarning, match="units"):  # and the other way round
        TangentBundle.from_points(SPHERE, dim=2, eps=300.0**2, eps_pca=0.3)


def test_frames_of_deficient_rank():
    line = np.linspace(0, 1, 60)[:, None] * np.array([[1.0, 2.0, 3.0]])
    with pytest.raises(RankDeficientError, match="span fewer than 2"):
        TangentBundle.from_points(line, dim=2)
    assert TangentBundle.from_points(line, dim=1).rank == 1
    with pytest.raises(RankDeficientError, match="orthonormal"):
        TangentBundle.from_frames(SPHERE, np.ones((300, 3, 2)))
    with pytest.raises(RankDeficientError, match="eps_pca"):
        TangentBundle.from_points(SPHERE, dim=2, eps=0.3, eps_pca=1e-6)


def test_vectors_that_are_not_tangent():
    bundle = TangentBundle.from_points(SPHERE)
    with pytest.warns(NotTangentWarning, match="normal to the tangent spaces"):
        assert bundle.diagnose(SPHERE, quiet=True).normal_share > 0.9
    components = np.ones((300, 2, 1))  # of another frame: only their shape gives them away
    with pytest.raises(ShapeError, match="vectors"):
        bundle.to_coordinates(components)


def test_a_space_that_is_not_orientable():
    bundle = TangentBundle.from_points(KleinBottle().sample(2000, seed=0))
    assert not bundle.diagnose(quiet=True).orientable


def test_memory_is_refused_with_the_number():
    with pytest.raises(
        MemoryLimitError, match=r"directed edges would need about .* GB; the limit is .* GB"
    ):
        TangentBundle.from_points(SPHERE, eps=100.0, max_memory=1000)
    with pytest.raises(MemoryLimitError, match="fewer neighbors"):
        TangentBundle.from_points(SPHERE, neighbors=250, max_memory=1000)


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.SuspiciousDataWarning")
def test_local_dimensions_that_disagree():
    circle = np.pad(Sphere(1).sample(400, seed=0), ((0, 0), (0, 1)))
    surface = Sphere(2).sample(400, seed=0) + np.array([1.5, 0.0, 0.0])
    with pytest.warns(DimensionWarning, match="dim="):
        TangentBundle.from_points(np.concatenate([circle, surface]), eps=0.2)


@pytest.mark.parametrize(
    "points, error",
    [
        (SPHERE[0], ShapeError),
        (SPHERE[None], ShapeError),
        (np.zeros((10, 0)), ShapeError),
        (1.0, ShapeError),
        ([], ShapeError),
        (SPHERE.astype(np.float16), DTypeError),
        (SPHERE.astype(np.longdouble), DTypeError),
        (SPHERE + 0j, DTypeError),
        (SPHERE.astype(str), DTypeError),
        (SPHERE.astype(object), DTypeError),
        (torch.from_numpy(SPHERE).bfloat16(), DTypeError),
        ("points.csv", DTypeError),
        (None, DTypeError),
        ({"x": 1}, DTypeError),
        ([[1.0, 2.0], [3.0]], InvalidInputError),
        (1e160 * SPHERE, InvalidInputError),
        (1e-160 * SPHERE, InvalidInputError),
        (np.ma.masked_array(SPHERE, mask=SPHERE > 0.9), NonFiniteError),
        (torch.from_numpy(SPHERE).to_sparse(), InvalidInputError),
    ],
    ids=lambda v: v.__name__ if isinstance(v, type) else None,
)
def test_what_is_not_a_cloud_of_points(points, error):
    with pytest.raises(error):
        TangentBundle.from_points(points)


def test_precisions_never_mix_silently():
    single = TangentBundle.from_points(SPHERE.astype(np.float32))
    double = TangentBundle.from_points(SPHERE)
    x = np.ones((300, 2, 1))
    with pytest.raises(DTypeError, match="never mixed"):
        single.laplacian() @ x
    with pytest.raises(DTypeError, match="never mixed"):
        double.laplacian() @ x.astype(np.float32)
    with pytest.raises(DTypeError, match="one kind"):
        TangentBundle.from_latlon(np.zeros(10, np.float32), np.arange(10.0))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e9])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_extreme_scales_and_offsets(size, offset):
    """Coordinates of any unit, anywhere: the same bundle, up to what the offset leaves of the
    digits."""
    points = size * SPHERE + offset
    digits = 1e-16 * offset / size
    if digits > 1e-4:  # the cloud drowns in the rounding of its place
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TangentBundleWarning)
            try:
                lap = TangentBundle.from_points(points, dim=2).laplacian()
            except TangentBundleError:
                return
        assert np.isfinite(lap @ np.ones((300, 2, 1))).all()
        return
    plain = TangentBundle.from_points(SPHERE, dim=2)
    bundle = TangentBundle.from_points(points, dim=2)
    assert bundle.eps == pytest.approx(size**2 * plain.eps, rel=1e-6 + 10 * digits)
    values = size**2 * bundle.laplacian().spectrum(6)[0]
    np.testing.assert_allclose(
        values, plain.laplacian().spectrum(6)[0], rtol=1e-3 if digits > 1e-9 else 1e-6
    )


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_extreme_scales_in_single_precision(size):
    plain = TangentBundle.from_points(SPHERE.astype(np.float32), dim=2).laplacian()
    lap = TangentBundle.from_points((size * SPHERE).astype(np.float32), dim=2).laplacian()
    x = np.random.default_rng(0).standard_normal((300, 2, 3)).astype(np.float32)
    assert np.isfinite(lap @ x).all()
    np.testing.assert_allclose(lap.spectrum(6)[0] * size**2, plain.spectrum(6)[0], rtol=1e-3)


# Anything at all.

REAL = st.one_of(
    st.floats(-10, 10),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 1e-9, 1e9, 1e-200, 1e200, 5e-324, 1.7e308]),
)


@st.composite
def clouds(draw):
    """Arrays of every sort: shapeless, flat, doubled, huge, tiny, displaced, and with things that
    are no numbers."""
    n, dims = (
        draw(st.sampled_from([60, 40, 30, 20, 12, 8, 5, 4, 3, 2, 0])),
        draw(st.sampled_from([3, 2, 4, 1, 6, 15])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sort = draw(
        st.sampled_from(
            ["normal", "lattice", "line", "plane", "copies", "sphere", "heaps", "heavy", "grid"]
        )
    )
    points = {
        "normal": lambda: rng.standard_normal((n, dims)),
        "lattice": lambda: rng.integers(-2, 3, (n, dims)).astype(float),
        "line": lambda: np.outer(rng.standard_normal(n), rng.standard_normal(dims)),
        "plane": lambda: rng.standard_normal((n, 2)) @ rng.standard_normal((2, dims)),
        "copies": lambda: np.repeat(rng.standard_normal((n // 3 + 1, dims)), 3, axis=0),
        "sphere": lambda: Sphere(dims).sample(max(n, 1), seed=rng),
        "heaps": lambda: rng.standard_normal((n, dims)) + 100.0 * rng.integers(0, 2, (n, 1)),
        "heavy": lambda: rng.standard_cauchy((n, dims)),
        "grid": lambda: (
            0.1 * np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0)), -1).reshape(-1, 2)
        ),
    }[sort]()
    with np.errstate(all="ignore"):
        points = points * draw(
            st.sampled_from([1.0] * 6 + [1e-9, 1e9, 1e-30, 1e30, 1e-100, 1e100, 1e-200])
        )
        points = points + draw(st.sampled_from([0.0] * 6 + [1e3, -1e9, 1e15]))
        if points.size and not draw(st.integers(0, 7)):
            spoiled = draw(st.one_of(REAL, st.sampled_from([np.nan, np.inf, -np.inf])))
            points.flat[rng.integers(points.size)] = spoiled
        if not draw(st.integers(0, 3)):
            cast = draw(st.sampled_from([np.int64, list, "torch", np.float16, object, str, "flat"]))
        else:
            cast = draw(st.sampled_from([np.float64, np.float32]))
        if cast is list:
            return points.tolist()
        if cast == "torch":
            return torch.from_numpy(points)
        if cast == "flat":
            return points.ravel()
        if cast is np.int64:
            return np.nan_to_num(np.clip(points, -1e6, 1e6)).astype(np.int64)
        return points.astype(cast)


@st.composite
def options(draw):
    chosen = {}
    if draw(st.booleans()):
        chosen["dim"] = draw(st.sampled_from([1, 1, 2, 2, 2, 3, 4, 0, 7, 1.5, "2", None]))
    scale = draw(
        st.sampled_from(["automatic", "automatic", "automatic", "eps", "neighbors", "wild"])
    )
    if scale == "eps":
        chosen["eps"] = draw(st.sampled_from([1.0, 10.0, 0.1, 0.02, 1e4, 1e18, 1e-18]))
    elif scale == "neighbors":
        chosen["neighbors"] = draw(st.sampled_from([10, 8, 6, 4, 12, 2, 1]))
    elif scale == "wild":
        chosen[draw(st.sampled_from(["eps", "neighbors", "eps_pca"]))] = draw(
            st.one_of(REAL, st.sampled_from([0, -1, np.nan, np.inf, "a", None, True, 10**9]))
        )
    if draw(st.booleans()):
        chosen["kernel"] = draw(
            st.sampled_from(
                [
                    kernels.Gaussian(),
                    kernels.Gaussian(0.01),
                    kernels.Gaussian(40.0),
                    kernels.Gaussian(1e4),
                    kernels.Uniform(),
                    kernels.Epanechnikov(),
                    kernels.Power(9.0),
                    "gaussian",
                ]
            )
        )
    return chosen


def assert_right(bundle, lap):
    """Finite, self-adjoint and negative semidefinite, with orthonormal frames and positive mass."""
    single = lap.dtype == torch.float32
    rounding = 1e-4 if single else 1e-9
    n, d = bundle.num_points, bundle.rank
    x = (
        np.random.default_rng(0)
        .standard_normal((n, d, 3))
        .astype(np.float32 if single else np.float64)
    )
    product = np.asarray(lap @ (torch.from_numpy(x) if lap.kind.is_torch else x))
    assert np.isfinite(product).all()
    mass = lap.mass.double().numpy()
    assert (mass > 0).all() and abs(mass.sum() - 1.0) < 1e-4
    frames = np.asarray(bundle.frames, dtype=float)
    assert np.abs(frames.swapaxes(1, 2) @ frames - np.eye(d)).max() < 1e-5
    step = np.eye(n * d) + lap.scale * lap.to_dense().double().numpy()
    root = np.sqrt(np.repeat(mass, d))
    symmetric = step * root[:, None] / root
    assert np.abs(symmetric - symmetric.T).max() < rounding
    assert np.linalg.eigvalsh((symmetric + symmetric.T) / 2).max() < 1 + rounding


@settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(points=clouds(), chosen=options())
def test_anything_gives_a_right_answer_or_a_named_error(points, chosen):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TangentBundleWarning)  # all other warnings are errors
        try:
            bundle = TangentBundle.from_points(points, **chosen)
            lap = bundle.laplacian()
        except TangentBundleError as error:
            assert len(str(error)) > 20  # it says why
            return
        assert_right(bundle, lap)
