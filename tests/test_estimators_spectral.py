"""Denoising by a filter of the connection Laplacian: one path for arrays and tensors, which stay
where they are."""

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError, NonFiniteError, ShapeError
from tangentbundle.estimators import Ambient, SpectralFilter
from tangentbundle.filters.shrinkage import least_risk

TORUS = tb.manifolds.Torus()
POINTS = TORUS.sample(600, seed=0)
CLEAN = TORUS.tangent_field(POINTS)
NOISY = CLEAN + 0.3 * np.random.default_rng(0).standard_normal(CLEAN.shape)
KINDS = {
    "float32 array": lambda a: np.asarray(a, dtype=np.float32),
    "float64 array": np.asarray,
    "float32 tensor": lambda a: torch.from_numpy(np.asarray(a, dtype=np.float32)),
    "float64 tensor": lambda a: torch.from_numpy(np.asarray(a)),
}


def denoiser(**options):
    return tb.FieldDenoiser(
        SpectralFilter(neighbors=24), **({"dim": 2, "random_state": 0} | options)
    )


def test_it_is_the_filter_of_least_risk():
    found = denoiser(random_state=3).fit(POINTS, NOISY)
    bundle = tb.TangentBundle.from_points(torch.from_numpy(POINTS), dim=2, neighbors=24)
    laplacian, scale = bundle.laplacian(), np.sqrt(np.mean(NOISY**2))
    x = bundle.to_coordinates(torch.from_numpy(NOISY))
    source = torch.Generator().manual_seed(int(np.random.RandomState(3).randint(2**31)))
    signs = 2.0 * torch.randint(0, 2, (600, 2, 8), generator=source) - 1
    response, variance = least_risk(laplacian, x / scale, signs.double())
    expected = bundle.to_ambient(response(laplacian, x)).numpy()
    np.testing.assert_allclose(found.predict(POINTS), expected, atol=1e-10)
    assert found.noise_ == pytest.approx(scale * variance**0.5)
    assert np.square(expected - CLEAN).mean() < 0.1 * np.square(NOISY - CLEAN).mean()


@pytest.mark.parametrize(
    "noise_std", [None, 0.3, np.linspace(0.2, 0.4, 600)], ids=["estimated", "known", "uneven"]
)
def test_answers_are_of_the_kind_and_dtype_of_the_points(noise_std):
    expected = denoiser().fit(POINTS, NOISY, noise_std).predict(POINTS)
    for kind in KINDS.values():
        model = denoiser().fit(kind(POINTS), kind(NOISY), noise_std)
        field = model.predict(kind(POINTS))
        for answer in (field, model.frames_):
            assert type(answer) is type(kind(POINTS)) and answer.dtype == kind(POINTS).dtype
        np.testing.assert_allclose(np.asarray(field), expected, atol=1e-4)
        assert model.noise_ == pytest.approx(0.3, rel=0.1)


def test_tensors_do_not_pass_through_scikit_learn(monkeypatch):
    monkeypatch.setattr("tangentbundle.estimators.inputs.validate_data", None)
    monkeypatch.setattr("tangentbundle.estimators.inputs.of_kind", None)
    points = torch.from_numpy(POINTS).requires_grad_()
    assert denoiser().fit(points, torch.from_numpy(NOISY)).predict(points).shape == (600, 3)


def test_units_change_nothing_but_units():
    plain = denoiser().fit(POINTS, NOISY).predict(POINTS)
    for length, size in ((1e9, 1e-9), (1e-9, 1e9)):
        scaled = denoiser().fit(length * POINTS, size * NOISY).predict(length * POINTS)
        np.testing.assert_allclose(scaled / size, plain, atol=1e-6)


def test_what_a_filter_cannot_do_is_refused():
    model = denoiser().fit(POINTS, NOISY)
    with pytest.raises(InvalidInputError, match="points of fit"):
        model.predict(POINTS[:5])
    with pytest.raises(InvalidInputError, match="no uncertainty"):
        model.predict(POINTS, return_std=True)
    for options in ({"manifold": TORUS}, {"covariance": Ambient()}):
        with pytest.raises(InvalidInputError, match="no use for"):
            denoiser(**options).fit(POINTS, NOISY)
    with pytest.raises(InvalidInputError, match="model must be"):
        tb.FieldInterpolator(SpectralFilter()).fit(POINTS, NOISY)
    with pytest.raises(ShapeError):
        denoiser().fit(POINTS, NOISY[:, :2])
    with pytest.raises(NonFiniteError):
        denoiser().fit(POINTS, np.where(np.arange(600) == 5, np.nan, NOISY.T).T)
    for noise in (-1.0, np.ones(7), np.nan):
        with pytest.raises(InvalidInputError, match="noise_std"):
            denoiser().fit(POINTS, NOISY, noise)
