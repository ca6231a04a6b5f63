"""Directions of errors in many dimensions, and noise told by what is measured across estimated tangent spaces."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from test_estimators_intervals import bent, held, waves

import tangentbundle as tb
from tangentbundle.estimators import AmbientProcess, GaussianProcess
from tangentbundle.estimators.directions import Directions, _minus_log_density
from tangentbundle.estimators.likelihood import Tilted
from tangentbundle.estimators.tangents import TangentSpaces

SPHERE = tb.manifolds.Sphere(2)


def noisy(field, rng, size=0.2):
    return field + size * float(np.sqrt(np.square(field).mean())) * rng.standard_normal(field.shape)


def test_density_is_that_of_whole_covariances():
    rng = np.random.default_rng(0)
    errors, variance, wide = rng.standard_normal((5, 7)), rng.uniform(0.5, 2, (5, 7)), rng.standard_normal((5, 7, 3))
    dense = [
        multivariate_normal(cov=np.diag(v) + w @ w.T).logpdf(e) for e, v, w in zip(errors, variance, wide, strict=True)
    ]
    assert np.isclose(_minus_log_density(errors, variance, wide), -2 * sum(dense) - 35 * np.log(2 * np.pi))


@pytest.mark.parametrize("known_noise", [False, True])
def test_directions_of_simulated_errors_are_found(known_noise):
    rng = np.random.default_rng(0)
    points, field, _ = bent(400, rng)
    spaces, axes = TangentSpaces.of(points, 2), np.linalg.qr(rng.standard_normal((40, 40)))[0]
    own, noise = rng.uniform(0.5, 2, (400, 40)), np.full((400, 40), 0.3)
    factors = np.array([0.6, 0.3, 0.2, 1.0 if known_noise else 1.4])
    truth = Directions.learn(spaces, axes, field @ axes, np.zeros((400, 40)), own, noise, known_noise=True)
    spread = replace(truth, factors=factors).covariance(points, field @ axes, own, noise)
    errors = np.einsum("nij,nj->ni", np.linalg.cholesky(spread), rng.standard_normal((400, 40)))
    found = Directions.learn(spaces, axes, field @ axes + errors, errors, own, noise, known_noise=known_noise)
    assert np.allclose(found.factors, factors, rtol=0.35)
    plain = replace(found, factors=np.array([1.0, 0.0, 0.0, 1.0])).covariance(points, field @ axes, own, noise)
    assert np.allclose(plain, (own + noise)[:, :, None] * np.eye(40))
    told = found.covariance(points, field @ axes, own, noise)
    along_coordinates = np.einsum("ia,nab,ib->ni", axes, told, axes)
    assert np.allclose(found.variances(points, field @ axes, own, noise), along_coordinates)
    tangent = spaces.frames.transpose(0, 2, 1) @ axes
    along = [np.einsum("nja,nab,njb->nj", tangent, c, tangent).mean() for c in (spread, told)]
    assert np.isclose(*along, rtol=0.1)


def test_left_out_errors_consist_of_noise_and_of_what_is_not_known():
    """Of a process without the point: the noise it passes on and that of the vector itself, and the rest."""
    rng = np.random.default_rng(0)
    points, field, _ = bent(50, rng, 12)
    found = tb.FieldDenoiser(AmbientProcess(), dim=2).fit(points, noisy(field, rng)).fitted_
    correlation, level = found.correlations.cross(points, found.profile.shape), found.profile.noise
    _, own, noise = found._left_out
    for i in (0, 20, 49):
        rest = np.arange(50) != i
        for a, size in enumerate(found.profile.sizes):
            matrix = size * correlation[np.ix_(rest, rest)] + level * np.eye(49)
            weights = np.linalg.solve(matrix, size * correlation[rest, i])
            assert np.isclose(noise[i, a], level * (1 + np.square(weights).sum()))
            unknown = size - weights @ (size * correlation[rest, i]) - level * np.square(weights).sum()
            assert np.isclose(own[i, a], unknown, atol=1e-8)


def test_errors_along_tangent_spaces_are_as_large_as_told():
    """With fixed axes alone their squares are a third larger."""
    shares, ratios = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        points, field, frames = bent(240, rng)
        new = slice(120, None)
        model = tb.FieldInterpolator(AmbientProcess(), dim=2).fit(points[:120], noisy(field, rng)[:120])
        mean, cov = model.predict(points[new], return_cov=True)
        off = np.einsum("nij,ni->nj", frames[new], mean - field[new])
        variance = np.einsum("nij,nik,nkj->nj", frames[new], cov, frames[new])
        shares.append(held(off, np.sqrt(variance)))
        ratios.append(np.mean(np.square(off) / variance))
        assert np.linalg.eigvalsh(cov).min() > 0
        assert np.allclose(model.predict(points[new], return_std=True)[1] ** 2, np.einsum("nii->ni", cov))
    assert np.abs(np.mean(shares, axis=0) - [0.5, 0.9]).max() < 0.05
    assert abs(np.mean(ratios) - 1) < 0.15


def test_few_points_and_fields_without_noise_have_directions_too():
    rng = np.random.default_rng(0)
    points, field, _ = bent(20, rng, 12)
    for vectors in (noisy(field[:4], rng), field[:4], np.ones((4, 12))):
        model = tb.FieldInterpolator(AmbientProcess(), dim=2).fit(points[:4], vectors)
        mean, cov = model.predict(points, return_cov=True)
        assert np.isfinite(mean).all()
        assert np.isfinite(cov).all()


def test_noise_across_tilted_planes():
    rng = np.random.default_rng(0)
    energy = rng.uniform(0, 4, 2000)
    values = rng.standard_normal((2000, 2)) * np.sqrt(0.09 + 0.02 * energy)[:, None]
    tilted = Tilted(torch.from_numpy(values), torch.from_numpy(energy))
    assert abs(np.exp(tilted.level) - 0.3) < 0.02
    theta = torch.tensor([0.0, -1.0], dtype=torch.float64, requires_grad=True)
    tilted.loss(None, theta)
    step = 1e-6
    shifted = (torch.tensor([0.0, -1.0 + s], dtype=torch.float64) for s in (step, -step))
    after, before = (tilted.loss(None, t, grad=False) for t in shifted)
    assert np.allclose(theta.grad.numpy(), [0, (after - before) / (2 * step)], rtol=1e-4)


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_is_told_from_rough_fields_where_planes_are_estimated(seed):
    """Few points on one side: without what is across, half the fits take noise for a field."""
    rng = np.random.default_rng([20, seed])
    points = SPHERE.sample_nonuniform(150, 10.0, seed=rng)
    field = SPHERE.gradient_field(points, 3)
    vectors = noisy(field, rng)
    size = 0.2 * float(np.sqrt(np.square(field).mean()))
    x = points + 0.02 * rng.standard_normal(points.shape)
    assert 0.75 < tb.FieldDenoiser(GaussianProcess(), dim=2, random_state=0).fit(x, vectors).noise_ / size < 1.25


@pytest.mark.parametrize("size", [0.003, 0.03])
def test_denoising_little_noise_is_not_worse_than_doing_nothing(size):
    """Planes estimated from few points hide more of the field than there is noise."""
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        field, points = waves(SPHERE, 0.35, rng), SPHERE.sample(100, seed=rng)
        noise = size * rng.standard_normal((100, 3))
        denoiser = tb.FieldDenoiser(dim=2, random_state=0).fit(points, field(points) + noise)
        assert np.square(denoiser.predict(points) - field(points)).mean() < 1.1 * np.square(noise).mean()


def test_more_points_than_the_likelihood_has_are_fitted_from_its_parameters():
    """Fitted from others, everything may look like noise: of the third of these draws it did."""
    torus, rng = tb.manifolds.Torus(), np.random.default_rng([400, 2])
    points = torus.sample(rng.binomial(1600, 0.25), seed=rng)
    vectors = torus.paper_field(points) + 0.01 * rng.standard_normal(points.shape)
    assert len(points) > AmbientProcess().likelihood_size
    assert 0.009 < tb.FieldDenoiser(AmbientProcess(), dim=2, random_state=0).fit(points, vectors).noise_ < 0.011
