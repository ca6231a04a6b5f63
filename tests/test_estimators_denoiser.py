"""FieldDenoiser's methods: likelihoods, flows, filters, networks without clean data, and what they promise."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tangentbundle.estimators.correlations import LEAST, Correlations, Prior, Shape, likelihood, matern, slope

import tangentbundle as tb
from tangentbundle.errors import FarPointsWarning, InvalidInputError, TooFewPointsError
from tangentbundle.estimators import (
    AmbientProcess,
    FlowProcess,
    Incompressible,
    Irrotational,
    SpectralShrinkage,
    baselines,
)
from tangentbundle.estimators.covariance import Sites
from tangentbundle.estimators.spectral import Rational, Recurrence
from tangentbundle.experiments.smoothing import ambient_process

SPHERE, TORUS = tb.manifolds.Sphere(2), tb.manifolds.Torus()


def in_frames(frames, vectors):
    return np.einsum("nij,ni->nj", frames, vectors)


def energy(values):
    return float(np.square(values).sum(axis=1).mean())


def noisy_torus(n, tau, seed=0, field=TORUS.tangent_field):
    rng = np.random.default_rng(seed)
    points = TORUS.sample(n, seed=rng)
    return points, field(points), field(points) + tau * rng.standard_normal((n, 3))


def test_the_likelihood_through_eigenvectors_is_that_of_the_dense_matrix():
    points, rng = TORUS.sample(30, seed=0), np.random.default_rng(1)
    values, shape = rng.standard_normal((30, 2)), Shape(2.5, (-4, -4, 2))
    correlations = Correlations(points)
    spectrum, vectors = correlations.decomposed(shape)
    theta = np.array([0.3, -0.2, -1.0])
    place = correlations.stretched(correlations.places, shape)
    dense = matern(np.square(place[:, None] - place[None]).sum(axis=2), 2.5)
    expected = -sum(
        multivariate_normal(cov=np.exp(2 * a) * dense + (np.exp(-2.0) + LEAST) * np.eye(30)).logpdf(column)
        for a, column in zip(theta, values.T, strict=False)
    )
    powers = np.square(vectors.T @ values)
    assert np.isclose(likelihood(theta, spectrum, powers), expected)
    gradient = slope(theta, spectrum, powers)[0]
    for p, step in enumerate(1e-5 * np.eye(3)):
        difference = likelihood(theta + step, spectrum, powers) - likelihood(theta - step, spectrum, powers)
        assert np.isclose(gradient[p], difference / 2e-5, atol=1e-5)


def test_an_axis_that_does_not_matter_gets_a_long_length():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (150, 3)) * [0.5, 0.5, 1.0]
    values = np.sin(6 * points[:, :2]) + 0.1 * rng.standard_normal((150, 2))
    correlations = Correlations(points)
    prior = Prior(np.array([0.0, 0.0, -2.0]))
    lengths = np.array(correlations.best((np.inf,), values, prior).shape.steps)
    across = np.argmax(np.abs(correlations.axes[2]))
    assert lengths[across] >= np.delete(lengths, across).max() + 2


def test_the_fast_ambient_process_is_scikit_learns():
    points, clean, noisy = noisy_torus(90, 0.1)
    ours, theirs = (
        ambient_process(points, noisy[None])[0],
        baselines.AmbientProcess().fit(points, noisy).predict(points),
    )
    assert energy(ours - theirs) < 0.05 * energy(theirs - clean)


@pytest.mark.parametrize("r", [2, 3])
@pytest.mark.parametrize("kind", [Incompressible(), Irrotational()], ids=str)
def test_flows_have_no_divergence_or_no_circulation(kind, r):
    """Every column of the covariance is a field of x: its derivatives are taken by differences."""
    rng, h = np.random.default_rng(0), 1e-4
    theta = torch.tensor([0.2, -0.1, 0.3], dtype=torch.float64)
    axes = np.linalg.qr(rng.standard_normal((3, r)))[0]

    def sites(points):
        return Sites(torch.from_numpy(points), torch.from_numpy(np.broadcast_to(axes, (len(points), 3, r)).copy()))

    x, y = rng.standard_normal((1, 3)), sites(rng.standard_normal((4, 3)))
    slopes = np.stack(
        [(kind(theta, sites(x + h * a), y) - kind(theta, sites(x - h * a), y)).numpy() / (2 * h) for a in axes.T]
    )  # (derivative along axis a, component b, column)
    if isinstance(kind, Incompressible):
        assert np.abs(np.einsum("aac->c", slopes)).max() < 1e-6
    else:
        assert np.abs(slopes - slopes.transpose(1, 0, 2)).max() < 1e-6
    matrix = kind(theta, y, y)
    assert torch.allclose(matrix, matrix.T) and float(torch.linalg.eigvalsh(matrix).min()) > -1e-10
    own = matrix.unflatten(0, (4, r)).unflatten(2, (4, r))[0, :, 0]
    assert torch.allclose(own, kind.diagonal(theta, y)[0], atol=1e-6)


def test_evidence_finds_a_flow_without_divergence_and_gains_by_it():
    points, clean, noisy = noisy_torus(200, 0.1, seed=3)  # turns around the axis: no divergence
    flow = tb.FieldDenoiser(FlowProcess(Incompressible()), dim=2).fit(points, noisy)
    plain = tb.FieldDenoiser(AmbientProcess(), dim=2).fit(points, noisy)
    wrong = tb.FieldDenoiser(FlowProcess(Irrotational()), dim=2).fit(points, noisy)
    assert flow.fitted_.axes.shape == (3, 2)  # the third component is noise alone
    assert flow.fitted_.evidence > plain.fitted_.evidence > wrong.fitted_.evidence
    errors = [energy(in_frames(m.frames_, m.predict(points) - clean)) for m in (flow, plain)]
    assert errors[0] < 0.9 * errors[1]
    assert isinstance(tb.FieldDenoiser(dim=2, random_state=0).fit(points, noisy).fitted_, type(flow.fitted_))


def test_fitted_again_on_the_same_points_it_gives_the_same_as_anew():
    points, _, noisy = noisy_torus(120, 0.3)
    again = tb.FieldDenoiser(dim=2, random_state=0).fit(points, noisy[::-1].copy()).fit(points, noisy)
    anew = tb.FieldDenoiser(dim=2, random_state=0).fit(points, noisy)
    assert np.allclose(again.predict(points), anew.predict(points), atol=1e-10)
    assert again.set_params(dim=1).fit(points, noisy).frames_.shape == (120, 3, 1)


def smooth_field(seed, length):
    """A random smooth ambient field, as a sum of waves."""
    rng = np.random.default_rng(seed)
    waves, phases = rng.standard_normal((200, 3)) / length, rng.uniform(0, 2 * np.pi, 200)
    weights = rng.standard_normal((200, 3)) * np.sqrt(2 / 200)
    return lambda points: np.cos(points @ waves.T + phases) @ weights


@pytest.mark.parametrize("space, length", [(SPHERE, 0.5), (TORUS, 0.2)], ids=["sphere", "torus"])
def test_intervals_of_the_denoiser_cover_what_they_say(space, length):
    """50 and 90 % intervals at the noisy points and at others, within 5 points."""
    hits = []
    for seed in range(8):
        rng, truth = np.random.default_rng(seed), smooth_field(2000 + seed, length)
        points, new = space.sample(150, seed=rng), space.sample(150, seed=rng)
        noisy = truth(points) + 0.3 * rng.standard_normal((150, 3))
        model = tb.FieldDenoiser(AmbientProcess(), manifold=space, random_state=0).fit(points, noisy)
        for where in (points, new):
            mean, cov = model.predict(where, return_cov=True)
            frames = space.frames(where)
            std = np.sqrt(np.einsum("nij,nik,nkj->nj", frames, cov, frames))
            off = np.abs(in_frames(frames, mean - truth(where)))
            hits.append([np.mean(off < z * std) for z in (0.6745, 1.6449)])
    assert np.abs(np.mean(hits, axis=0) - [0.5, 0.9]).max() < 0.05


def test_moments_and_filters_are_those_of_the_eigenvectors():
    points = SPHERE.sample(150, seed=0)
    lap = tb.TangentBundle.from_frames(points, SPHERE.frames(points)).laplacian()
    steps, x = Recurrence(lap), torch.from_numpy(np.random.default_rng(0).standard_normal((150, 2, 2)))
    dense = (-torch.as_tensor(lap.to_dense())).double()
    mass = lap.mass.repeat_interleave(2).double()
    root = mass.sqrt()
    values, vectors = torch.linalg.eigh(0.5 * ((root[:, None] * dense / root) + (root[:, None] * dense / root).T))
    response = Rational(0.05 * steps.top, 2.0)
    spread = (vectors * torch.from_numpy(response(values.numpy()))) @ vectors.T
    expected = ((spread * root) @ x.reshape(300, 2)) / root[:, None]
    assert torch.allclose(steps.apply(response, x).reshape(300, 2), expected, atol=1e-4)
    quadratic = (mass[:, None] * x.reshape(300, 2) * expected).sum(dim=0) / mass.mean()
    assert np.allclose(steps.coefficients(response) @ steps.moments(x), quadratic.numpy(), rtol=1e-4)


@pytest.mark.parametrize("told", [True, False])
def test_filters_weigh_vectors_by_their_precision(told):
    points, rng = SPHERE.sample(1000, seed=0), np.random.default_rng(7)
    tau = np.where(np.arange(1000) % 2, 0.05, 0.5) if told else np.where(points[:, 2] > 0, 0.05, 0.5)
    clean = SPHERE.gradient_field(points, 3)
    noisy = clean + tau[:, None] * rng.standard_normal(clean.shape)
    plain = tb.FieldDenoiser(SpectralShrinkage(), manifold=SPHERE, random_state=0).fit(points, noisy)
    if told:
        better = clone(plain).fit(points, noisy, noise_std=tau)
        assert energy(better.predict(points) - clean) < 0.5 * energy(plain.predict(points) - clean)
    else:
        uneven = tb.FieldDenoiser(SpectralShrinkage(uneven=True), manifold=SPHERE, random_state=0).fit(points, noisy)
        std = uneven.predict(points, return_std=True)[1].mean(axis=1)
        assert std[points[:, 2] < -0.2].mean() > 2.5 * std[points[:, 2] > 0.2].mean()


@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_details_finer_than_the_automatic_scale_are_no_noise(noise):
    sphere, rng = tb.manifolds.Sphere(2), np.random.default_rng(5)
    points = sphere.sample(3000, seed=2)
    waves, phases = 12 * rng.standard_normal((12, 3)), rng.uniform(0, 6, 12)
    rough = np.sin(points @ waves.T + phases) @ rng.standard_normal((12, 3))
    field = rough - np.sum(rough * points, axis=1, keepdims=True) * points
    field /= np.sqrt(np.square(field).mean())
    noisy = field + noise * rng.standard_normal(field.shape)
    denoiser = tb.FieldDenoiser(SpectralShrinkage(), manifold=sphere, random_state=0).fit(points, noisy)
    assert denoiser.noise_ == pytest.approx(noise, rel=0.5, abs=0.05)
    tangent = noisy - np.sum(noisy * points, axis=1, keepdims=True) * points
    left, before = (np.square(v - field).mean() for v in (denoiser.predict(points), tangent))
    assert left < 1.05 * before


POINTS = SPHERE.sample(60, seed=0)
FIELD = SPHERE.gradient_field(POINTS, 2)
METHODS = [None, AmbientProcess(), FlowProcess(), SpectralShrinkage()]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_every_method_refuses_bad_input_and_doubts_far_points(method):
    model = tb.FieldDenoiser(method, dim=2, random_state=0)
    with pytest.raises(InvalidInputError, match="normal to the tangent"):
        tb.FieldDenoiser(method, manifold=SPHERE).fit(POINTS, POINTS)
    with pytest.raises(TooFewPointsError):
        model.fit(POINTS[:1], FIELD[:1])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(POINTS, np.where(np.arange(60)[:, None] == 3, np.nan, FIELD))
    model.fit(POINTS, FIELD)
    with pytest.warns(FarPointsWarning):
        far = model.predict(6 * POINTS[:5], return_std=True)[1]
    assert far.max(axis=1).min() > 0.5 * model.scale_ and np.isfinite(model.predict(POINTS)).all()


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_constant_fields_stay(method):
    points = np.random.default_rng(0).uniform(size=(60, 2))
    field, std = tb.FieldDenoiser(method, random_state=0).fit(points, np.full((60, 2), 2.0)).predict(points, True)
    assert np.isfinite(std).all() and np.abs(field - 2.0).mean() < 0.3


def test_clone_pipeline_and_grid_search():
    model = tb.FieldDenoiser(AmbientProcess((np.inf,)), manifold=SPHERE, random_state=0)
    assert clone(model).get_params()["method"] == model.method
    assert make_pipeline(FunctionTransformer(), clone(model)).fit(POINTS, FIELD).score(POINTS, FIELD) > 0.99
    grid = {"method": [AmbientProcess((0.5,)), AmbientProcess((np.inf,))]}
    assert GridSearchCV(model, grid, cv=3).fit(POINTS, FIELD).best_params_["method"].smoothness == (np.inf,)


def test_few_points_in_many_dimensions():
    """Planes estimated from so few points are wrong; what the field has off them is not thrown away."""
    fixed = np.random.default_rng(1)
    waves, phases = 2.0 * fixed.standard_normal((3, 40)), fixed.uniform(0, 2 * np.pi, 40)
    torus = tb.manifolds.Torus(1.0, 0.4)
    flat = torus.sample(160, seed=2)
    points = np.cos(flat @ waves + phases)
    clean = np.einsum("nij,nj->ni", -np.sin(flat @ waves + phases)[:, :, None] * waves.T, torus.tangent_field(flat))
    noisy = clean + 0.2 * clean.std() * fixed.standard_normal(clean.shape)
    denoiser = tb.FieldDenoiser(dim=2, random_state=0).fit(points[:120], noisy[:120])
    off = np.square(denoiser.predict(points[:120]) - clean[:120]).mean()
    assert not denoiser.tangent_ and off < 0.5 * np.square(noisy - clean)[:120].mean()
    interpolator = tb.FieldInterpolator(dim=2, random_state=0).fit(points[:120], noisy[:120])
    field, cov = interpolator.predict(points[120:], return_cov=True)
    assert cov.shape == (40, 40, 40)
    assert np.square(field - clean[120:]).sum() < 0.1 * np.square(clean[120:]).sum()


def test_answers_on_a_known_manifold_are_tangent():
    torus = tb.manifolds.Torus()
    points = torus.sample(80, seed=0)
    lifted = torus.tangent_field(points) + points  # a part of it is normal
    denoiser = tb.FieldDenoiser(AmbientProcess(), manifold=torus).fit(points, lifted)
    frames, answer = torus.frames(points), denoiser.predict(points)
    np.testing.assert_allclose(np.einsum("nij,nkj,nk->ni", frames, frames, answer), answer, atol=1e-9)
    assert denoiser.tangent_ and not tb.FieldDenoiser(AmbientProcess(), dim=2).fit(points, lifted).tangent_
