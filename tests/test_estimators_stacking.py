"""Stacked models: what their weights are, and data that no model was made for."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from tangentbundle import FieldDenoiser, FieldInterpolator
from tangentbundle.earth.covariances import Earth, planetary
from tangentbundle.errors import (
    DimensionWarning,
    InvalidInputError,
    NoInformationWarning,
    SuspiciousDataWarning,
    TangentBundleError,
)
from tangentbundle.estimators import (
    Ambient,
    Coordinates,
    CurlFree,
    DivergenceFree,
    GaussianProcess,
    Matern,
    NearestVector,
    NeighborMean,
    Stack,
    Tangent,
    helmholtz_covariance,
)
from tangentbundle.estimators.stacking import stacking_weights
from tangentbundle.manifolds import Sphere, Torus

SPHERE = Sphere(2)
POINTS = SPHERE.sample(60, seed=0)
CLEAN = SPHERE.gradient_field(POINTS, 2)
VECTORS = CLEAN + 0.3 * np.random.default_rng(100).standard_normal((60, 3))
MODELS = [GaussianProcess(Tangent()), GaussianProcess(Ambient()), NeighborMean(), NearestVector()]


def densities(model, points=POINTS, vectors=VECTORS):
    """Of every left-out vector, in units of the data."""
    estimator = FieldDenoiser(model, manifold=SPHERE).fit(points, vectors)
    found = estimator.posterior_.left_out(np.arange(len(points)))
    covariances = np.einsum(
        "nda,nde,neb->nab", estimator.frames_, found.covariances(), estimator.frames_
    )
    errors = np.einsum(
        "nda,nd->na", estimator.frames_, estimator.posterior_.observations.vectors - found.mean
    )
    return np.array(
        [multivariate_normal(cov=c).logpdf(e) for c, e in zip(covariances, errors, strict=True)]
    )


def test_weights_maximise_the_log_density_of_left_out_vectors():
    stacked = FieldDenoiser(Stack(MODELS), manifold=SPHERE).fit(POINTS, VECTORS)
    assert set(stacked.models_) == set(MODELS)
    assert stacked.weights_.sum() == pytest.approx(1) and (np.diff(stacked.weights_) <= 0).all()
    table = np.exp([densities(model) for model in stacked.models_])
    best = np.log(stacked.weights_ @ table).mean()
    rng = np.random.default_rng(0)
    for other in (*np.eye(len(MODELS)), *rng.dirichlet(np.ones(len(MODELS)), 200)):
        assert np.log(other @ table).mean() <= best + 1e-3
    np.testing.assert_allclose(
        densities(Stack(MODELS)).mean(), best, atol=0.02
    )  # that of normal distributions with the moments of the mixture


def mixture_loss(densities, weights):
    return -np.log(weights @ densities).mean()


def test_weights_are_those_of_a_general_solver():
    rng = np.random.default_rng(3)
    for _ in range(5):
        log_densities = rng.standard_normal((4, 50)) + rng.standard_normal((4, 1))
        loss = partial(mixture_loss, np.exp(log_densities))

        simplex = {"type": "eq", "fun": lambda weights: weights.sum() - 1}
        expected = minimize(
            loss, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=simplex, tol=1e-10
        )
        weights = stacking_weights(log_densities)
        assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
        assert loss(weights) <= expected.fun + 1e-5


def test_the_mixture_knows_that_its_models_disagree():
    stacked = FieldInterpolator(Stack(MODELS), manifold=SPHERE).fit(POINTS, VECTORS)
    new = SPHERE.sample(20, seed=9)
    field, std = stacked.predict(new, return_std=True)
    used = [(w, m) for w, m in zip(stacked.weights_, stacked.models_, strict=True) if w > 0]
    alone = [FieldInterpolator(m, manifold=SPHERE).fit(POINTS, VECTORS) for _, m in used]
    answers = [model.predict(new, return_std=True) for model in alone]
    mean = sum(w * answer[0] for (w, _), answer in zip(used, answers, strict=True))
    np.testing.assert_allclose(field, mean, atol=1e-8)
    variance = sum(
        w * ((answer[1] / model._calibration) ** 2 + (answer[0] - mean) ** 2)
        for (w, _), answer, model in zip(used, answers, alone, strict=True)
    )
    np.testing.assert_allclose((std / stacked._calibration) ** 2, variance, atol=1e-8)


@pytest.mark.parametrize("n", [40, 1500])
def test_nothing_is_random(n):
    points = SPHERE.sample(n, seed=3)
    vectors = SPHERE.gradient_field(points, 2) + 0.1 * np.random.default_rng(1).standard_normal(
        (n, 3)
    )
    models = Stack([GaussianProcess(helmholtz_covariance()), NeighborMean()])
    answers = [
        FieldInterpolator(models, manifold=SPHERE, random_state=seed)
        .fit(points, vectors)
        .predict(points[:50], return_std=True)
        for seed in range(3)
    ]
    for field, std in answers[1:]:
        np.testing.assert_array_equal(field, answers[0][0])
        np.testing.assert_array_equal(std, answers[0][1])


def fields():
    rng = np.random.default_rng(7)
    torus = Torus()
    points = torus.sample(60, seed=1)
    return {
        "smooth": (POINTS, CLEAN),
        "noisy": (POINTS, VECTORS),
        "noise": (POINTS, rng.standard_normal((60, 3))),
        "torus": (points, torus.tangent_field(points) + 0.1 * rng.standard_normal((60, 3))),
        "heavy tails": (POINTS, CLEAN + 0.1 * rng.standard_t(1.5, (60, 3))),
    }


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.NoInformationWarning")
@pytest.mark.parametrize("name", fields())
def test_the_default_is_not_worse_than_the_simplest_models(name):
    """By the log density of left-out vectors; the default has both among its models."""
    points, vectors = fields()[name]
    stacked = FieldDenoiser(dim=2, random_state=0).fit(points, vectors)
    index = np.arange(60)

    def density(estimator):
        left_out = estimator.posterior_.left_out(index)
        return left_out.log_density(estimator.posterior_.observations.vectors)

    for simple in (NeighborMean(), NearestVector()):
        assert simple in stacked.models_
        margin = density(FieldDenoiser(simple, dim=2).fit(points, vectors)) - density(stacked)
        assert margin.mean() <= 0.01


def test_the_default_finds_the_kind_of_field():
    """A gradient, and constant vectors of space: neither is the other's model."""
    gradient = FieldInterpolator(dim=2, random_state=0).fit(POINTS, CLEAN)
    new = SPHERE.sample(50, seed=5)
    assert (
        np.square(gradient.predict(new) - SPHERE.gradient_field(new, 2)).mean()
        < 1e-3 * np.square(CLEAN).mean()
    )
    constant = FieldInterpolator(dim=2, random_state=0).fit(
        POINTS, np.tile([1.0, 2.0, 3.0], (60, 1))
    )
    np.testing.assert_allclose(constant.predict(new), np.tile([1.0, 2.0, 3.0], (50, 1)), atol=1e-2)


def test_denoising_leaves_a_small_share_of_the_noise():
    torus = Torus()
    points = torus.sample(100, seed=0)
    clean = torus.tangent_field(points)
    noise = np.random.default_rng(101).standard_normal(clean.shape)
    for size in (0.02, 0.3):
        denoiser = FieldDenoiser(dim=2, random_state=0).fit(points, clean + size * noise)
        assert np.square(denoiser.predict(points) - clean).mean() < 0.35 * size**2
        assert 0.7 * size < denoiser.noise_ < 1.3 * size


def test_models_without_a_fit_are_left_out():
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    points, vectors = np.c_[np.cos(angles), np.sin(angles)], np.c_[-np.sin(angles), np.cos(angles)]
    surface = GaussianProcess(DivergenceFree())
    stacked = FieldDenoiser(Stack([surface, NeighborMean()]), dim=1).fit(points, vectors)
    assert stacked.models_ == [NeighborMean()] and stacked.weights_.tolist() == [1.0]
    with pytest.raises(InvalidInputError, match="oriented surface"):
        FieldDenoiser(Stack([surface]), dim=1).fit(points, vectors)
    with pytest.raises(InvalidInputError, match="none of the models"):
        FieldDenoiser(Stack([]), dim=1).fit(points, vectors)
    with pytest.raises(
        InvalidInputError, match="oriented surface"
    ):  # asked for, and not silently replaced
        FieldDenoiser(covariance=DivergenceFree(), dim=1).fit(points, vectors)


def test_models_are_fitted_in_full():
    """A model in a stack is the model alone."""
    points = SPHERE.sample(400, seed=3)
    vectors = SPHERE.gradient_field(points, 2) + 0.1 * np.random.default_rng(1).standard_normal(
        (400, 3)
    )
    model = GaussianProcess(Tangent(Matern(np.inf)))
    stacked = FieldDenoiser(Stack([model, NearestVector()]), manifold=SPHERE).fit(points, vectors)
    alone = FieldDenoiser(model, manifold=SPHERE).fit(points, vectors)
    first, only = stacked.posterior_.fits[0].posterior, alone.posterior_.fits[0].posterior
    assert first.parameters == only.parameters
    assert first.neighborhoods.exact and only.neighborhoods.exact
    np.testing.assert_allclose(stacked.predict(points), alone.predict(points), atol=0.05)


def test_the_default_models_are_those_of_the_space():
    def covariances(model):
        return {getattr(one, "covariance", None) for one in model.models_}

    known = FieldInterpolator(manifold=SPHERE).fit(POINTS, VECTORS)
    assert helmholtz_covariance() in covariances(known)
    assert planetary() not in covariances(known)
    assert planetary() in covariances(FieldInterpolator(manifold=Earth()).fit(POINTS, VECTORS))
    assert CurlFree(Matern(np.inf), ambient=True) in covariances(known)
    space = FieldInterpolator(dim=3).fit(POINTS, VECTORS)
    assert helmholtz_covariance() not in covariances(space)
    assert Tangent(Matern(np.inf)) in covariances(space)
    for model in (known, space):
        assert {NeighborMean(), NearestVector()} <= set(model.models_)
        assert Ambient(Matern(np.inf), Coordinates()) not in covariances(model)


def waves(n, seed, D=12):
    """A sheet whose coordinates are waves of very different lengths, and the flow along one side of
    it."""
    fixed = np.random.default_rng(12)
    wavenumbers = fixed.standard_normal((2, D)) * np.geomspace(0.5, 5, D)
    places = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    phases = places @ wavenumbers + fixed.uniform(0, 2 * np.pi, D)
    return np.cos(phases), -np.sin(phases) * wavenumbers[0]


def test_coordinates_may_be_quantities_of_their_own():
    """Then each has a size of its own, which axes that mix them have not; where space is turned,
    nothing is lost."""
    (points, clean), (new, truth) = waves(120, 0), waves(200, 1)
    noisy = clean + 0.2 * np.random.default_rng(2).standard_normal(clean.shape)
    own = GaussianProcess(Ambient(Matern(np.inf), Coordinates()))
    other = GaussianProcess(Ambient(Matern(np.inf)))
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((12, 12)))[0]
    for Q, gain in ((np.eye(12), 0.9), (turn, 1.05)):
        errors = []
        for model in (None, Stack([other])):
            estimator = FieldInterpolator(model, dim=2).fit(points @ Q.T, noisy @ Q.T)
            assert model or own in estimator.models_
            errors.append(np.square(estimator.predict(new @ Q.T) @ Q - truth).mean())
        assert errors[0] < gain * errors[1]


def test_terms_of_a_sum_share_their_directions():
    with pytest.raises(InvalidInputError, match="same directions"):
        Ambient() + Ambient(directions=Coordinates())


def line():
    return np.random.default_rng(8).uniform(0, 1, (40, 1))


def around(angles):
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


RNG = np.random.default_rng(9)
ODD = {
    "exactly tangent": (POINTS, CLEAN),
    "zero": (POINTS, 0 * POINTS),
    "constant": (POINTS, np.ones((60, 3))),
    "one vector is not zero": (POINTS, np.eye(60)[:, :3]),
    "curve in the plane": (
        np.c_[np.cos(6 * line()), np.sin(6 * line())],
        np.c_[-np.sin(6 * line()), np.cos(6 * line())],
    ),
    "line": (line(), np.sin(3 * line())),
    "collinear in space": (line() * [1.0, 2.0, 3.0], np.sin(3 * line()) * [1.0, 2.0, 3.0]),
    "collinear, vectors in all directions": (
        line() * [1.0, 2.0, 3.0],
        RNG.standard_normal((40, 3)),
    ),
    "parallel vectors": (POINTS, np.outer(np.sin(POINTS[:, 0]), [1.0, 2.0, 0.0])),
    "every point twice": (np.repeat(POINTS[:30], 2, axis=0), VECTORS),
    "every point and vector twice": (
        np.repeat(POINTS[:30], 2, axis=0),
        np.repeat(CLEAN[:30], 2, axis=0),
    ),
    "two places": (np.repeat(POINTS[:2], 30, axis=0), VECTORS),
    "one place": (np.repeat(POINTS[:1], 60, axis=0), VECTORS),
    "few points in many dimensions": (RNG.standard_normal((60, 30)), RNG.standard_normal((60, 30))),
    "fewer points than dimensions": (RNG.standard_normal((10, 50)), RNG.standard_normal((10, 50))),
    "vectors with outliers": (POINTS, VECTORS * np.where(np.arange(60) == 3, 1e4, 1.0)[:, None]),
    "two clusters": (POINTS + 1000.0 * (np.arange(60) % 2)[:, None], VECTORS),
    "integers": ((3 * POINTS).round(), (3 * VECTORS).round()),
    "huge points, tiny vectors": (1e100 * POINTS, 1e-100 * VECTORS),
}


def answers(points, vectors):
    """Everything that can be asked for, at training points and near them."""
    model = FieldInterpolator(random_state=0).fit(points, vectors)
    for where in (points, points + 1e-3 * points.std()):
        yield from model.predict(where, return_std=True)
        yield from model.predict(where, return_cov=True, with_noise=True)
        yield from model.predict_interval(where)
    yield from (model.noise_, model.normal_share_)
    yield model.weights_


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")
@pytest.mark.parametrize("name", ODD)
def test_odd_data_have_finite_answers_or_named_errors(name):
    try:
        assert all(np.isfinite(answer).all() for answer in answers(*ODD[name]))
    except TangentBundleError as error:
        assert name == "one place" and len(str(error)) > 40


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.NotTangentWarning")
@pytest.mark.filterwarnings("ignore::tangentbundle.errors.NoInformationWarning")
@pytest.mark.parametrize(("n", "D"), [(3, 1), (3, 3), (4, 2), (8, 3), (15, 4), (29, 2), (29, 3)])
def test_few_points(n, D):
    points, vectors = np.random.default_rng(10 * n + D).standard_normal((2, n, D))
    with pytest.warns(DimensionWarning, match="too few to estimate the dimension"):
        assert all(np.isfinite(answer).all() for answer in answers(points, vectors))


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.NotTangentWarning")
def test_a_point_far_from_all_others_is_warned_of():
    points = np.concatenate([POINTS, [[1e6, 0.0, 0.0]]])
    with pytest.warns(SuspiciousDataWarning, match=r"1 of 61 points \(first: 60, counted from 0\)"):
        assert all(
            np.isfinite(answer).all()
            for answer in answers(points, np.concatenate([VECTORS, VECTORS[:1]]))
        )


def test_zero_and_constant_fields_stay():
    for vectors in (0 * POINTS, np.ones((60, 3))):
        for model in (GaussianProcess(Ambient()), NeighborMean(), NearestVector()):
            field = FieldDenoiser(model, random_state=0).fit(POINTS, vectors).predict(POINTS)
            np.testing.assert_allclose(field, vectors, atol=1e-3)


def data_without_a_field(kind, seed):
    """White noise along known tangent spaces and in all directions, and vectors in the order of
    other points."""
    rng, points = np.random.default_rng(seed), SPHERE.sample(300, seed=seed)
    if kind == "tangent noise":
        return (
            points,
            np.einsum("nda,na->nd", SPHERE.frames(points), rng.standard_normal((300, 2))),
            SPHERE,
        )
    turn = np.linalg.qr(rng.standard_normal((12, 3)))[0]
    field = np.cross([0, 0, 1.0], points) + 0.3 * SPHERE.gradient_field(points, 2)
    if kind == "shuffled rows":
        return points @ turn.T, rng.permutation(field) @ turn.T, None
    return points, rng.standard_normal((300, 3)), None


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ["tangent noise", "noise", "shuffled rows"])
def test_data_without_a_field_are_warned_of(kind, seed):
    points, vectors, manifold = data_without_a_field(kind, seed)
    with pytest.warns(NoInformationWarning, match="no better than noise"):
        model = FieldDenoiser(manifold=manifold, random_state=0).fit(points, vectors)
    if kind != "shuffled rows":
        assert model.noise_ == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tangent_noise_as_large_as_the_field_is_removed(seed):
    """Lengths far below the distance of neighbours would take the noise for the field."""
    points, noise, _ = data_without_a_field("tangent noise", seed)
    field = np.cross([0, 0, 1.0], points)
    model = FieldDenoiser(manifold=SPHERE, random_state=0).fit(points, field + noise)
    assert np.square(model.predict(points) - field).sum(axis=1).mean() < 0.1
