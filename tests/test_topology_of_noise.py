"""Betti numbers and singular points of noisy data: right, or undetermined with the reason; degrees
of the fits."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.spatial import ConvexHull
from tool import run

import tangentbundle as tb
from tangentbundle.calculus import (
    Derivatives,
    betti_number,
    estimate_betti_number,
    euler_characteristic,
    singular_points,
)
from tangentbundle.errors import (
    AccuracyWarning,
    ConvergenceError,
    TangentBundleError,
    UndeterminedError,
)
from tangentbundle.testing import random_orthogonal

SPHERE, TORUS, FLAT = (
    tb.manifolds.Sphere(2),
    tb.manifolds.Torus(1.0, 0.4),
    tb.manifolds.FlatTorus((1.0, 1.0)),
)
ELLIPSOID, WIDE = tb.manifolds.Ellipsoid((1.0, 0.7, 0.5)), tb.manifolds.FlatTorus((1.0, 1.0, 1.0))
NUMBERS = [
    (SPHERE, 0),
    (TORUS, 2),
    (FLAT, 2),
    (ELLIPSOID, 0),
    (WIDE, 3),
    (tb.manifolds.Sphere(3), 0),
]


def difference(got, expected):
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


def noisy_sample(space, n, noise, seed, dims=None):
    """Points off the space by noise in every coordinate, in a space of so many dimensions."""
    rng = np.random.default_rng(seed)
    points = space.sample(n, seed=seed)
    if dims is not None:
        points = points @ random_orthogonal(1, dims, seed=seed)[0][: points.shape[1]]
    return points + noise * rng.standard_normal(points.shape)


def estimated(space, points):
    """The estimate, or None if the library refuses the cloud."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return estimate_betti_number(tb.TangentBundle.from_points(points, dim=space.dim))
        except TangentBundleError:
            return None


def check_estimate(estimate, number):
    """Never a wrong number with confidence."""
    if estimate is None or estimate.reason:
        return
    assert estimate.number == number
    assert 0.25 <= estimate.confidence <= 1.0


@pytest.mark.parametrize(("space", "number"), NUMBERS[:3], ids=repr)
@pytest.mark.parametrize(("noise", "dims"), [(0.03, None), (0.02, 20), (0.1, None)])
def test_betti_numbers_of_noisy_points_are_right_or_undetermined(space, number, noise, dims):
    check_estimate(estimated(space, noisy_sample(space, 600, noise, 1, dims)), number)


@pytest.mark.slow
@pytest.mark.parametrize(("space", "number"), NUMBERS, ids=repr)
@pytest.mark.parametrize("dims", [None, 8, 30])
@pytest.mark.parametrize("noise", [0.0, 0.003, 0.01, 0.02, 0.04, 0.08, 0.15])
def test_many_betti_numbers_of_noisy_points(space, number, dims, noise):
    for seed in range(3):
        for n in (400, 1200):
            check_estimate(estimated(space, noisy_sample(space, n, noise, seed, dims)), number)


@pytest.mark.parametrize(("space", "number"), NUMBERS[:3], ids=repr)
def test_clean_points_have_a_betti_number_with_confidence(space, number):
    estimate = estimated(space, space.sample(1000, seed=2))
    assert estimate.number == number and estimate.confidence > 0.4 and not estimate.reason
    assert abs(estimate.shift) < 0.25
    assert str(number) in str(estimate) and "confidence" in str(estimate)


def hemisphere(n, rng):
    points = rng.standard_normal((n, 3))
    points[:, 2] = np.abs(points[:, 2])
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def disc(n, rng):
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.sqrt(rng.uniform(size=n))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle], axis=1)


def cylinder(n, rng):
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.stack([np.cos(angle), np.sin(angle), rng.uniform(-1, 1, n)], axis=1)


def moebius_strip(n, rng):
    angle = rng.uniform(0, 2 * np.pi, n)
    across = rng.uniform(-0.4, 0.4, n)
    radius = 1 + across * np.cos(angle / 2)
    height = across * np.sin(angle / 2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)


def klein_bottle(n, rng):
    return tb.manifolds.KleinBottle().sample(n, seed=rng)


def projective_plane(n, rng):
    """The Veronese surface in R^5."""
    x, y, z = SPHERE.sample(n, seed=rng).T
    columns = [x * y, x * z, y * z, (x**2 - y**2) / 2, (1 - 3 * z**2) / np.sqrt(12)]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("n", [300, 900])
@pytest.mark.parametrize(
    ("surface", "reason"),
    [
        (hemisphere, "boundary"),
        (disc, "boundary"),
        (cylinder, "boundary"),
        (moebius_strip, "boundary"),
        (klein_bottle, "not orientable"),
        (projective_plane, "not orientable"),
    ],
)
def test_surfaces_with_a_boundary_or_without_orientation_are_undetermined(surface, reason, n):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        clean = surface(n, rng)
        for noise in (0.0, 0.01, 0.1):
            points = clean + noise * rng.standard_normal(clean.shape)
            estimate = strict_estimate(points, 2)
            assert estimate.number is None and estimate.confidence == 0.0
            if noise == 0.0 and n > 300:
                assert reason in estimate.reason


def strict_estimate(points, dim):
    """The estimate of a cloud, which must not fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimate_betti_number(tb.TangentBundle.from_points(points, dim=dim))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.01, 0.03, 0.05, 0.1])
def test_noise_in_many_dimensions_is_no_error_of_linear_algebra(seed, noise):
    """There the estimated curvature is strongly negative, and so are eigenvalues."""
    for space, number, n in ((FLAT, 2, 250), (FLAT, 2, 800), (SPHERE, 0, 800)):
        estimate = strict_estimate(noisy_sample(space, n, noise, seed, dims=50), 2)
        assert estimate.number in (number, None)
        assert (estimate.number is None) == bool(estimate.reason)


@pytest.mark.parametrize("n", [100, 400, 1500])
def test_closed_curves_have_one_harmonic_field_each_and_open_ones_are_undetermined(n):
    for seed in range(3):
        for dims in (None, 10):
            circle = tb.manifolds.Sphere(1)
            assert strict_estimate(noisy_sample(circle, n, 0.0, seed, dims), 1).number == 1
            for noise in (0.01, 0.2):
                noisy = strict_estimate(noisy_sample(circle, n, noise, seed, dims), 1)
                assert noisy.number in (1, None)
            time = np.random.default_rng(seed).uniform(size=n)
            arc = np.stack([time, time**2, 0 * time], axis=1)
            assert strict_estimate(arc, 1).number is None


def test_manifolds_that_are_thin_in_a_direction_are_right_or_undetermined():
    """Gradients of the first functions do not have that direction."""
    for thin in (0.5, 0.8):
        space = tb.manifolds.FlatTorus((1.0, 1.0, thin))
        for seed in range(2):
            for n, noise in ((500, 0.0), (500, 0.02), (1200, 0.06)):
                estimate = strict_estimate(noisy_sample(space, n, noise, seed), 3)
                assert estimate.number in (3, None)


@pytest.mark.parametrize(("space", "n"), [(SPHERE, 200), (SPHERE, 500), (WIDE, 400)], ids=repr)
def test_spectra_of_hodge_laplacians_have_their_negative_eigenvalues(space, n):
    """By the dense eigensolver and by products alike, for any curvature."""
    bundle = tb.TangentBundle.from_points(space.sample(n, seed=0), dim=space.dim)
    rng = np.random.default_rng(0)
    for size in (-0.3, -0.1, 0.3):
        noise = rng.uniform(-1, 1, size=(n, space.dim, space.dim)) / space.dim
        if space.dim == 2:
            noise = noise[:, :1, :1] * np.eye(2)
        tensors = size * (np.eye(space.dim) + (noise + noise.transpose(0, 2, 1)) / 2)
        hodge = bundle.hodge(ricci=tensors / bundle.laplacian().scale)
        root = np.sqrt(np.repeat(np.asarray(hodge.mass), space.dim))[:, None]
        dense = -root * np.asarray(hodge.to_dense()) / root.T
        exact = np.linalg.eigvalsh((dense + dense.T) / 2)[:8]
        values = hodge.spectrum(8, tol=1e-9)[0]
        assert np.allclose(values, exact, atol=1e-5 * np.abs(exact).max())
        assert (exact[0] < 0) == (size < 0)


@pytest.mark.parametrize("n", [200, 500])
def test_eigenvalues_of_hodge_laplacians_beyond_the_order_of_the_average_are_refused(n):
    """By the eigensolver of products, and curvatures out of range by the operator."""
    bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(3).sample(n, seed=0), dim=3)
    tensors = np.tile(np.eye(3), (n, 1, 1)) / bundle.laplacian().scale
    with pytest.raises(UndeterminedError, match="curvature"):
        bundle.hodge(ricci=-1e4 * tensors)
    if n > 200:
        with pytest.raises(ConvergenceError, match="curvature"):
            bundle.hodge(ricci=-2.0 * tensors).spectrum(4)


def test_what_is_undetermined_is_refused_with_the_reason(tmp_path, monkeypatch):
    """By the library and by the tool."""
    points = noisy_sample(FLAT, 600, 0.03, 0, dims=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bundle = tb.TangentBundle.from_points(points, dim=2)
        estimate = estimate_betti_number(bundle, min_confidence=0.99)
        with pytest.raises(UndeterminedError, match="noisy"):
            betti_number(bundle, min_confidence=0.99)
    assert estimate.number is None and "noisy" in estimate.reason and estimate.shift > 1
    assert str(estimate).startswith("undetermined: ")
    monkeypatch.chdir(tmp_path)
    cloud = noisy_sample(TORUS, 600, 0.06, 0)
    pd.DataFrame(cloud, columns=["x", "y", "z"]).to_csv("noisy.csv", index=False)
    report = json.loads(run("inspect", "noisy.csv", "--dim", 2, "-k", 1, "--json").stdout)
    assert report["betti"] in (2, None)
    text = run("inspect", "noisy.csv", "--dim", 2, "-k", 1).stdout
    assert ("independent harmonic fields, confidence" in text) == (report["betti"] == 2)
    assert ("undetermined: " in text) == (report["betti"] is None)


def sphere_mesh(n=300):
    points = SPHERE.sample(n, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return points, tb.TangentBundle.from_mesh(points, ConvexHull(points).simplices)


def test_euler_characteristics():
    assert euler_characteristic(sphere_mesh()[1]).number == 2
    for space, number in ((SPHERE, 2), (TORUS, 0)):
        points = space.sample(1000, seed=0)
        assert euler_characteristic(tb.TangentBundle.from_points(points, dim=2)).number == number
    points = np.random.default_rng(0).uniform(size=(400, 3)) * [1, 1, 0]
    flat = euler_characteristic(tb.TangentBundle.from_points(points, dim=2))
    assert flat.number is None and "boundary" in flat.reason


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("space", [SPHERE, TORUS], ids=["sphere", "torus"])
def test_sums_of_indices_are_checked(space, seed):
    """A warning if and only if they do not sum to the Euler characteristic; noise hardly ever
    does."""
    points = space.sample(800, seed=seed)
    noise = np.random.default_rng(seed).standard_normal(points.shape)
    bundle = tb.TangentBundle.from_frames(
        points, space.frames(points), second_form=space.second_form
    )
    euler = 2 if space is SPHERE else 0
    for vectors in (np.tile([0.1, -0.2, 1.0], (800, 1)), noise):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            zeros = singular_points(bundle, bundle.to_coordinates(vectors))
        assert zeros.euler == euler and zeros.agrees == (zeros.index.sum() == euler)
        assert any("zeros are missing or spurious" in str(one.message) for one in caught) == (
            not zeros.agrees
        )
        assert str(zeros.index.sum()) in zeros.check
    with pytest.warns(AccuracyWarning, match="sum to"):
        singular_points(bundle, bundle.to_coordinates(vectors), euler=1000)


def test_zeros_of_noisy_points_that_cannot_be_checked_are_warned_of():
    points = noisy_sample(TORUS, 600, 0.1, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bundle = tb.TangentBundle.from_points(points, dim=2)
    with pytest.warns(AccuracyWarning, match="not checked|missing or spurious"):
        zeros = singular_points(bundle, bundle.to_coordinates(points))
    assert zeros.agrees is None or not zeros.agrees


@pytest.mark.parametrize(
    ("d", "degree", "n"),
    [(1, 2, 60), (1, 4, 80), (2, 2, 300), (2, 3, 300), (2, 4, 500), (3, 3, 600)],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_derivatives_are_exact_for_polynomials_of_the_degree_at_each_point(d, degree, n, seed):
    """In frames turned at random, in a random order: of the degree that is said, at boundaries as
    inside."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-1, 1, size=(n, d))
    bundle = tb.TangentBundle.from_frames(y, random_orthogonal(n, d, seed=seed))
    calculus = Derivatives(bundle, degree=degree)
    gradient, degrees = calculus.gradient(), calculus.degrees
    assert degrees.shape == (n,) and degrees.max() == degree and degrees.min() >= 1
    for power in range(1, degree + 1):
        direction = rng.standard_normal(d)
        heights = y @ direction + 0.3
        slopes = power * heights[:, None] ** (power - 1) * direction
        found = bundle.to_ambient(gradient @ (heights**power)[:, None, None])
        rows = degrees >= power
        assert difference(found[rows], slopes[rows]) < 1e-7
        if power > 2 and (~rows).any():  # and not where another degree is said
            assert difference(found[~rows], slopes[~rows]) > 1e-7
