"""How many held-out measurements and true fields lie within the intervals that are given for
them."""

import numpy as np
import pytest
from scipy.stats import norm

from tangentbundle import FieldDenoiser, FieldInterpolator
from tangentbundle.estimators import Ambient, GaussianProcess, Matern, Tangent
from tangentbundle.estimators.calibration import tail
from tangentbundle.estimators.tangents import TangentSpaces
from tangentbundle.manifolds import Sphere, Torus

LEVELS, SPHERE = (0.5, 0.9), Sphere(2)


def waves(space, length, rng):
    """The tangent part of a random smooth ambient field."""
    directions, phases = rng.standard_normal((100, 3)) / length, rng.uniform(0, 2 * np.pi, 100)
    weights = rng.standard_normal((100, 3)) * np.sqrt(2 / 100)

    def field(points):
        frames = space.frames(points)
        return np.einsum(
            "nij,nkj,nk->ni", frames, frames, np.cos(points @ directions.T + phases) @ weights
        )

    return field


def shares(model, space, rng, noise, n=80):
    """Of new measurements within the intervals, and of the field within those of a normal
    distribution."""
    field = waves(space, 0.6, rng)
    points, new = space.sample(n, seed=rng), space.sample(150, seed=rng)
    model.fit(points, field(points) + noise(rng, (n, 3)))
    measured = field(new) + noise(rng, (150, 3))
    found = [model.predict_interval(new, level) for level in LEVELS]
    mean, std = model.predict(new, return_std=True)
    widths = [norm.ppf((1 + level) / 2) * std for level in LEVELS]
    return (
        [np.mean((low <= measured) & (measured <= high)) for low, high in found],
        [np.mean(np.abs(field(new) - mean) <= width) for width in widths],
    )


@pytest.mark.parametrize(
    ("space", "options", "too_few"),
    [(Sphere(2), {"manifold": Sphere(2)}, 0.12), (Torus(), {"dim": 2}, 0.2)],
    ids=["known manifold", "estimated planes"],
)
def test_intervals_cover_what_they_say(space, options, too_few):
    """Measurements always; the field itself less often where planes are estimated, whose tilt has
    no variance."""

    def noise(rng, shape):
        return 0.3 * rng.standard_normal(shape)

    found = [
        shares(
            FieldInterpolator(random_state=0, **options),
            space,
            np.random.default_rng(200 + seed),
            noise,
        )
        for seed in range(4)
    ]
    measured, field = np.mean(found, axis=0)
    assert np.abs(measured - LEVELS).max() < 0.08
    assert (field > np.array(LEVELS) - too_few).all()


def test_intervals_of_measurements_know_heavy_tails():
    """With noise of Student's t the normal width of 50 % is too wide, that of left-out errors is
    not."""

    def noise(rng, shape):
        return 0.3 * rng.standard_t(2, shape)

    found = [
        shares(
            FieldInterpolator(GaussianProcess(Tangent()), manifold=Sphere(2)),
            Sphere(2),
            np.random.default_rng(300 + seed),
            noise,
        )
        for seed in range(6)
    ]
    assert np.abs(np.mean(found, axis=0)[0] - LEVELS).max() < 0.08


def test_the_denoised_field_is_as_uncertain_as_it_says():
    sphere, ratios = Sphere(2), []
    for seed in range(4):
        rng = np.random.default_rng(400 + seed)
        field, points = waves(sphere, 0.6, rng), sphere.sample(80, seed=rng)
        model = FieldDenoiser(GaussianProcess(Tangent(Matern(np.inf))), manifold=sphere)
        model.fit(points, field(points) + 0.3 * rng.standard_normal((80, 3)))
        mean, std = model.predict(points, return_std=True)
        ratios.append(np.square(mean - field(points)).mean() / np.square(std).mean())
    assert 0.6 < np.mean(ratios) < 1.6


@pytest.mark.parametrize("noise", [0.3, 0.0])
@pytest.mark.parametrize("covariance", [Tangent(), Ambient()], ids=str)
def test_measurements_have_as_much_normal_noise_as_the_data(covariance, noise):
    """On a known manifold, whether the model is one of tangent or of ambient vectors; the field
    itself has no normal component, and neither have measurements that are exactly tangent."""
    rng = np.random.default_rng(7)
    points = SPHERE.sample(300, seed=rng)
    vectors = SPHERE.gradient_field(points, 2) + noise * rng.standard_normal((300, 3))
    model = FieldInterpolator(GaussianProcess(covariance), manifold=SPHERE).fit(points, vectors)
    new = SPHERE.sample(50, seed=rng)
    for with_noise in (False, True):
        _, covariances = model.predict(new, return_cov=True, with_noise=with_noise)
        normal = np.sqrt(np.einsum("ni,nij,nj->n", new, covariances, new).clip(0.0))
        expected = noise if with_noise else 0.0
        np.testing.assert_allclose(normal, expected, rtol=0.1, atol=1e-3)


def test_widths_are_conformal_quantiles():
    """Of 9 exchangeable errors and a tenth, that lies within the k-th smallest of the 9 with
    probability k / 10."""
    errors = np.random.default_rng(0).standard_normal((4000, 10))
    for level in (0.5, 0.8):
        inside = [abs(new) <= tail(level, np.array(rest)) for new, *rest in errors]
        assert np.mean(inside) == pytest.approx(level, abs=0.03)
    assert tail(0.95, errors[0, :9]) == pytest.approx(norm.ppf(0.975))  # too few for that level


def test_the_spread_of_inexact_positions_is_found():
    """The variance of points about a surface, and what it adds to that of the field."""
    points, rng = SPHERE.sample(800, seed=1), np.random.default_rng(2)
    spaces = TangentSpaces.of(points, 2)
    assert spaces.position_variance < 1e-6
    off = points + 0.03 * rng.standard_normal(points.shape)
    assert TangentSpaces.of(off, 2).position_variance == pytest.approx(0.03**2, rel=0.2)
    dense = SPHERE.sample(20_000, seed=1) + 0.03 * rng.standard_normal(
        (20_000, 3)
    )  # wider than to the next point
    for dim in (2, 3):  # as in a dense cloud whose dimension is overestimated
        assert TangentSpaces.of(dense, dim).position_variance == pytest.approx(0.03**2, rel=0.2)
    assert TangentSpaces.of(rng.uniform(size=(5000, 3)), 3).position_variance == 0.0
    field = SPHERE.gradient_field(points, 3)
    vectors = field + 0.3 * np.sqrt(np.square(field).mean()) * rng.standard_normal(field.shape)
    model = FieldDenoiser(GaussianProcess(Ambient(Matern(np.inf))), dim=2, random_state=0).fit(
        off, vectors
    )
    found, std = model.predict(off, return_std=True)
    inside = [np.mean(np.abs(found - field) < width * std) for width in (0.6745, 1.6449)]
    assert abs(inside[0] - 0.5) < 0.06 and abs(inside[1] - 0.9) < 0.05
