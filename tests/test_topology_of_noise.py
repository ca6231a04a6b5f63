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
from tangentbundle.errors import AccuracyWarning, TangentBundleError, UndeterminedError
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
