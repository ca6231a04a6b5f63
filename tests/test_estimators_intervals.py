"""What intervals hold: of all components, where tangent spaces are estimated and where they are known."""

import numpy as np
import pytest

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError
from tangentbundle.estimators import AmbientProcess, GaussianProcess, SpectralShrinkage, UnlessHidden

SPHERE, TORUS = tb.manifolds.Sphere(2), tb.manifolds.Torus()
HALF, MOST = 0.6745, 1.6449


def held(off, std):
    return np.array([np.mean(np.abs(off) < width * std) for width in (HALF, MOST)])


def waves(space, length, rng):
    """The tangent part of a random smooth ambient field."""
    directions, phases = rng.standard_normal((200, 3)) / length, rng.uniform(0, 2 * np.pi, 200)
    weights = rng.standard_normal((200, 3)) * 0.1

    def field(points):
        frames = space.frames(points)
        return np.einsum("nij,nkj,nk->ni", frames, frames, np.cos(points @ directions.T + phases) @ weights)

    return field


def bent(n, rng, ambient=40):
    """A torus bent into many dimensions by waves: points, the image of its tangent field, and tangent frames."""
    fixed = np.random.default_rng(7)
    directions, phases = 2.0 * fixed.standard_normal((3, ambient)), fixed.uniform(0, 2 * np.pi, ambient)
    torus = tb.manifolds.Torus(1.0, 0.4)
    points = torus.sample(n, seed=rng)
    slopes = -np.sin(points @ directions + phases)[:, :, None] * directions.T
    field = np.einsum("nij,nj->ni", slopes, torus.tangent_field(points))
    return np.cos(points @ directions + phases), field, np.linalg.qr(slopes @ torus.frames(points))[0]


@pytest.mark.parametrize("noise_std", [None, 0.3], ids=["estimated", "known"])
def test_ambient_errors_left_out_are_those_of_a_process_without_the_point(noise_std):
    rng = np.random.default_rng(0)
    points = TORUS.sample(40, seed=rng)
    vectors = TORUS.tangent_field(points) + 0.3 * rng.standard_normal((40, 3))
    model = tb.FieldDenoiser(AmbientProcess(), dim=2).fit(points, vectors, noise_std)
    found = model.fitted_
    shape, root = found.profile.shape, found.correlations.root
    correlation = found.correlations.cross(points, shape) * root
    components = vectors @ found.axes / model.scale_
    for i in (0, 7, 39):
        rest = np.arange(40) != i
        expected, variance = np.empty(3), np.empty(3)
        for a, size in enumerate(found.profile.sizes):
            matrix = size * correlation[np.ix_(rest, rest)] + np.diag(found.profile.noise * root[rest] ** 2)
            weights = np.linalg.solve(matrix, size * correlation[rest, i])
            expected[a] = weights @ components[rest, a]
            variance[a] = size - weights @ (size * correlation[rest, i]) + found.profile.noise * root[i] ** 2
        off = (components[i] - expected) @ found.axes.T
        assert np.allclose(found.left_out[i], off, atol=1e-8)
        assert np.allclose(found.residuals[i], off / np.sqrt(np.square(found.axes) @ variance), atol=1e-8)


@pytest.mark.parametrize("around", [False, True], ids=["waves", "around the axis"])
def test_components_are_held_where_tangent_spaces_are_estimated(around):
    """Also those that the field does not have, which are held more often: axes found in noise are tilted."""
    shares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        field = TORUS.tangent_field if around else waves(TORUS, 0.15, rng)
        points, new = TORUS.sample(120, seed=rng), TORUS.sample(200, seed=rng)
        noisy = field(points) + 0.2 * rng.standard_normal((120, 3))
        for estimator, where in ((tb.FieldDenoiser, points), (tb.FieldInterpolator, new)):
            mean, std = estimator(dim=2, random_state=0).fit(points, noisy).predict(where, return_std=True)
            shares.append(held(mean - field(where), std))
    excess = np.mean(shares, axis=0) - [0.5, 0.9]
    assert excess.min() > -0.05
    assert excess.max() < (0.15 if around else 0.05)


def test_planes_that_are_estimated_are_tilted_and_known_ones_are_not():
    rng = np.random.default_rng(0)
    points = SPHERE.sample(120, seed=rng)
    vectors = SPHERE.gradient_field(points, 2) + 0.1 * rng.standard_normal((120, 3))
    estimated = tb.FieldDenoiser(GaussianProcess(), dim=2, random_state=0).fit(points, vectors)
    known = tb.FieldDenoiser(GaussianProcess(), manifold=SPHERE, random_state=0).fit(points, vectors)
    assert estimated.tilt_ > 0
    assert known.tilt_ == 0

    def across(model, **options):
        normal = points if model is known else np.cross(*np.moveaxis(model.frames_, 2, 0))
        return np.einsum("ni,nij,nj->n", normal, model.predict(points, return_cov=True, **options)[1], normal)

    assert across(estimated).min() > 0
    assert np.abs(across(known)).max() < 1e-12
    measured = np.square(np.einsum("ni,ni->n", points, vectors)).mean()
    assert np.allclose(across(known, with_noise=True), measured)
    tangent = tb.FieldDenoiser(GaussianProcess(), manifold=SPHERE).fit(points, SPHERE.gradient_field(points, 2))
    assert np.abs(across(tangent, with_noise=True)).max() < 1e-12


def test_noise_across_a_known_manifold_tells_that_along_it():
    """Few points of a rough field cannot tell it from noise; what is measured across can."""
    ratios, shares = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        field, points = waves(SPHERE, 0.35, rng), SPHERE.sample(100, seed=rng)
        noisy = field(points) + 0.1 * rng.standard_normal((100, 3))
        model = tb.FieldDenoiser(GaussianProcess(), manifold=SPHERE, random_state=0).fit(points, noisy)
        mean, cov = model.predict(points, return_cov=True)
        frames = SPHERE.frames(points)
        std = np.sqrt(np.einsum("nij,nik,nkj->nj", frames, cov, frames))
        shares.append(held(np.einsum("nij,ni->nj", frames, mean - field(points)), std))
        ratios.append(model.noise_ / 0.1)
    assert np.abs(np.array(ratios) - 1).max() < 0.25
    assert np.abs(np.mean(shares, axis=0) - [0.5, 0.9]).max() < 0.06


def test_noise_of_another_size_across_is_told_apart():
    rng = np.random.default_rng(0)
    points = SPHERE.sample(120, seed=rng)
    frames, radial = SPHERE.frames(points), points * rng.standard_normal((120, 1))
    along = SPHERE.gradient_field(points, 1) + 0.3 * np.einsum("nij,nj->ni", frames, rng.standard_normal((120, 2)))
    for size in (0.03, 0.9):
        model = tb.FieldDenoiser(GaussianProcess(), manifold=SPHERE, random_state=0).fit(points, along + size * radial)
        assert 0.24 < model.noise_ < 0.36


@pytest.mark.parametrize("noise", [0.2, 0.5])
def test_few_points_in_many_dimensions(noise):
    """Noise is not taken for signal, planes that hide the field are not used, and components are held."""
    rng = np.random.default_rng(0)
    points, field, _ = bent(240, rng)
    size = noise * float(np.sqrt(np.square(field).mean()))
    noisy, measured = (field + size * rng.standard_normal(field.shape) for _ in range(2))
    x, y, new = points[:120], noisy[:120], slice(120, None)
    denoiser = tb.FieldDenoiser(dim=2, random_state=0).fit(x, y)
    assert not denoiser.tangent_
    assert 0.9 < denoiser.noise_ / size < 1.1
    mean, std = denoiser.predict(x, return_std=True)
    assert np.square(mean - field[:120]).sum() < 0.7 * np.square(y - field[:120]).sum()
    assert np.abs(held(mean - field[:120], std) - [0.5, 0.9]).max() < 0.06
    interpolator = tb.FieldInterpolator(dim=2, random_state=0).fit(x, y)
    for level in (0.5, 0.9):
        low, high = interpolator.predict_interval(points[new], level)
        assert abs(np.mean((low < measured[new]) & (measured[new] < high)) - level) < 0.05


def test_what_planes_hide_needs_errors_left_out():
    points = SPHERE.sample(60, seed=0)
    with pytest.raises(InvalidInputError, match="left-out"):
        tb.FieldDenoiser(UnlessHidden(SpectralShrinkage()), dim=2).fit(points, SPHERE.gradient_field(points, 1))
