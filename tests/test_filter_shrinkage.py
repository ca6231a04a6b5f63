"""Denoising filters chosen by estimated risk: moments, noise level and risk against their dense definitions."""

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.filters.chebyshev import band_of
from tangentbundle.filters.shrinkage import (
    Rational,
    best_response,
    laplacian_moments,
    moment_terms,
    rational_family,
    white_noise_variance,
)

SPHERE = tb.manifolds.Sphere(2)


@pytest.fixture(scope="module")
def problem():
    """A Laplacian, a smooth field, the same with noise of known level, and random signs."""
    points, rng = SPHERE.sample(1500, seed=0), np.random.default_rng(0)
    bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=24)
    clean = bundle.to_coordinates(SPHERE.gradient_field(points, 2))
    noisy = clean + 0.5 * rng.standard_normal(clean.shape)
    signs = rng.choice([-1.0, 1.0], size=(1500, 2, 8))
    return bundle.laplacian(), torch.from_numpy(clean), torch.from_numpy(noisy), torch.from_numpy(signs)


@pytest.mark.parametrize("dtype, tol", [(torch.float64, 1e-11), (torch.float32, 1e-4)])
def test_moments_are_inner_products_with_chebyshev_polynomials(problem, dtype, tol):
    lap, _, noisy, signs = problem
    x = torch.cat([noisy, signs], dim=2)
    found = laplacian_moments(lap.to(dtype=dtype), x.to(dtype), 20)
    radius, s = band_of(lap).radius, lap.scale
    weighed = (lap.mass / lap.mass.mean())[:, None, None] * x
    for m in (0, 1, 2, 7, 38):
        polynomial = tb.filters.Spectral(  # sqrt(1 + 2 s lam) - 1 is the eigenvalue of I - P, at order 2
            lambda lam, m=m: torch.cos(m * torch.acos((1 - ((1 + 2 * s * lam).sqrt() - 1) / radius).clamp(-1, 1)))
        )
        expected = (weighed * polynomial(lap, x, tb.filters.Lanczos(1e-11))).sum(dim=(0, 1)).numpy()
        assert np.abs(found[m] - expected).max() < tol * np.abs(found[0]).max()


def test_noise_and_risk_are_those_of_the_truth(problem):
    lap, clean, noisy, signs = problem
    band = band_of(lap)
    family = rational_family(band.top)
    moments = laplacian_moments(lap, torch.cat([noisy, signs], dim=2), moment_terms(family, band))
    data, probes = moments[:, 0], moments[:, 1:].mean(axis=1)
    variance = white_noise_variance(band, data, probes)
    assert np.sqrt(variance) == pytest.approx(0.5, rel=0.04)
    response, risk = best_response(family, band, data, variance * probes)
    mass = (lap.mass / lap.mass.mean())[:, None, None]
    losses = [float((mass * (h(lap, noisy) - clean).square()).sum()) for h in family]
    chosen = losses[family.index(response)]
    assert chosen < 1.1 * min(losses) and chosen < 0.2 * losses[0]
    assert abs(risk - chosen) < 0.05 * losses[0]


def test_without_noise_the_data_are_returned(problem):
    lap, clean, _, signs = problem
    band = band_of(lap)
    moments = laplacian_moments(lap, torch.cat([clean, signs], dim=2), 100)
    response, _ = best_response(rational_family(band.top), band, moments[:, 0], 0.0 * moments[:, 1])
    assert response.cutoff == np.inf and torch.equal(response(lap, clean, tb.Chebyshev()), clean)


def test_the_cutoff_halves_the_signal():
    h = Rational(3.0, 4.0)
    assert h.response(np.array([0.0, 3.0])).tolist() == [1.0, 0.5] and h.is_lowpass() and h.is_nonamplifying()
