"""Denoising filters chosen by estimated risk: moments, noise level and risk against their dense
definitions."""

from functools import cache

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.filters.shrinkage import Rational, laplacian_moments, least_risk, rational_family

SPHERE = tb.manifolds.Sphere(2)


@cache
def problem(n):
    """A Laplacian, a smooth field, the same with noise of known level, and random signs."""
    points, rng = SPHERE.sample(n, seed=0), np.random.default_rng(0)
    bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=24)
    clean = bundle.to_coordinates(SPHERE.gradient_field(points, 2))
    noisy = clean + 0.5 * rng.standard_normal(clean.shape)
    signs = rng.choice([-1.0, 1.0], size=(n, 2, 8))
    return (
        bundle.laplacian(),
        torch.from_numpy(clean),
        torch.from_numpy(noisy),
        torch.from_numpy(signs),
    )


@pytest.mark.parametrize("dtype, tol", [(torch.float64, 1e-11), (torch.float32, 1e-4)])
def test_moments_are_inner_products_with_chebyshev_polynomials(dtype, tol):
    lap, _, noisy, signs = problem(300)
    x = torch.cat([noisy, signs], dim=2)
    found = laplacian_moments(lap.to(dtype=dtype), x.to(dtype), 20)
    radius, s = lap.band.radius, lap.scale
    weighed = (lap.mass / lap.mass.mean())[:, None, None] * x
    for m in (0, 1, 2, 7, 38):
        polynomial = (
            tb.filters.Spectral(  # sqrt(1 + 2 s lam) - 1 is the eigenvalue of I - P, at order 2
                lambda lam, m=m: torch.cos(
                    m * torch.acos((1 - ((1 + 2 * s * lam).sqrt() - 1) / radius).clamp(-1, 1))
                )
            )
        )
        expected = (weighed * polynomial(lap, x, tb.Exact())).sum(dim=(0, 1)).numpy()
        assert np.abs(found[m] - expected).max() < tol * np.abs(found[0]).max()


@pytest.mark.filterwarnings("ignore:.*outputs are smaller")  # of candidates that remove everything
def test_noise_and_choice_are_those_of_the_truth():
    lap, clean, noisy, signs = problem(1500)
    family = rational_family(lap.band.top)
    mass = (lap.mass / lap.mass.mean())[:, None, None]
    losses = [float((mass * (h(lap, noisy) - clean).square()).sum()) for h in family]
    known = torch.full((1500,), 0.25, dtype=torch.float64)
    for response, _ in (least_risk(lap, noisy, signs), least_risk(lap, noisy, signs, known)):
        chosen = float((mass * (response(lap, noisy) - clean).square()).sum())
        assert chosen < 1.1 * min(losses) and chosen < 0.2 * losses[0]
    assert least_risk(lap, noisy, signs, known)[1] == 1.0 and np.sqrt(
        least_risk(lap, noisy, signs)[1]
    ) == pytest.approx(0.5, rel=0.04)


def test_without_noise_the_data_are_returned():
    lap, clean, _, signs = problem(300)
    response, _ = least_risk(lap, clean, signs, torch.zeros(300))
    assert response.cutoff == np.inf and torch.equal(response(lap, clean, tb.Chebyshev()), clean)


def test_the_cutoff_halves_the_signal():
    h = Rational(3.0, 4.0)
    assert (
        h.response(np.array([0.0, 3.0])).tolist() == [1.0, 0.5]
        and h.is_lowpass()
        and h.is_nonamplifying()
    )
