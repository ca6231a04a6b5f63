"""The choice between models: what its table says, and data that no model was made for."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tangentbundle import FieldDenoiser, FieldInterpolator
from tangentbundle.errors import (
    DimensionWarning,
    InvalidInputError,
    NoInformationWarning,
    SuspiciousDataWarning,
    TangentBundleError,
)
from tangentbundle.estimators import (
    Ambient,
    Candidates,
    DivergenceFree,
    GaussianProcess,
    Identity,
    Matern,
    NeighborMean,
    Tangent,
)
from tangentbundle.manifolds import Sphere, Torus

SPHERE = Sphere(2)
POINTS = SPHERE.sample(60, seed=0)
CLEAN = SPHERE.gradient_field(POINTS, 2)
VECTORS = CLEAN + 0.3 * np.random.default_rng(100).standard_normal((60, 3))
MODELS = [GaussianProcess(Tangent()), GaussianProcess(Ambient()), NeighborMean(), Identity()]


def densities(model, points=POINTS, vectors=VECTORS):
    """Of every left-out vector, in units of the data."""
    estimator = FieldDenoiser(model, manifold=SPHERE, random_state=0).fit(points, vectors)
    found = estimator.posterior_.left_out(np.arange(len(points)))
    covariances = np.einsum(
        "nda,nde,neb->nab", estimator.frames_, found.covariances(), estimator.frames_
    )
    errors = np.einsum(
        "nda,nd->na", estimator.frames_, estimator._observations.vectors - found.mean
    )
    return np.array(
        [multivariate_normal(cov=c).logpdf(e) for c, e in zip(covariances, errors, strict=True)]
    )


def test_the_table_of_scores_is_right_by_definition():
    chosen = FieldDenoiser(Candidates(MODELS), manifold=SPHERE, random_state=0).fit(POINTS, VECTORS)
    table = {row.model: row for row in chosen.scores_}
    assert set(table) == {str(model) for model in MODELS}
    assert [row.margin for row in chosen.scores_] == sorted(row.margin for row in chosen.scores_)
    expected = {str(model): densities(model) for model in MODELS}
    best = chosen.scores_[0].model
    assert best == max(expected, key=lambda name: expected[name].mean()) == chosen.posterior_.model
    assert table[best].margin == table[best].margin_error == 0
    for name, row in table.items():
        margin = expected[best] - expected[name]
        assert row.score == pytest.approx(expected[name].mean(), abs=0.05)
        assert row.margin == pytest.approx(margin.mean(), abs=0.05)
        assert row.margin_error == pytest.approx(margin.std() / np.sqrt(60), abs=0.05)
        assert row.seconds > 0 and row.noise > 0
    assert chosen.noise_ == pytest.approx(table[best].noise)


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
    """By the log density of left-out vectors, up to one standard error; the default has both in its
    table."""
    points, vectors = fields()[name]
    chosen = FieldDenoiser(dim=2, random_state=0).fit(points, vectors)
    index = np.arange(60)

    def density(estimator):
        return estimator.posterior_.left_out(index).log_density(estimator._observations.vectors)

    for simple in (NeighborMean(), Identity()):
        assert str(simple) in {row.model for row in chosen.scores_}
        margin = density(FieldDenoiser(simple, dim=2).fit(points, vectors)) - density(chosen)
        assert margin.mean() <= 1.01 * margin.std() / np.sqrt(60) + 1e-9


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


def test_candidates_without_a_fit_are_left_out():
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    points, vectors = np.c_[np.cos(angles), np.sin(angles)], np.c_[-np.sin(angles), np.cos(angles)]
    surface = GaussianProcess(DivergenceFree())
    chosen = FieldDenoiser(Candidates([surface, NeighborMean()]), dim=1).fit(points, vectors)
    assert [row.model for row in chosen.scores_] == [str(NeighborMean())]
    for none in ([surface], []):
        with pytest.raises(InvalidInputError, match="none of the candidates"):
            FieldDenoiser(Candidates(none), dim=1).fit(points, vectors)
    with pytest.raises(
        InvalidInputError, match="oriented surface"
    ):  # asked for, and not silently replaced
        FieldDenoiser(covariance=DivergenceFree(), dim=1).fit(points, vectors)


@pytest.mark.parametrize("max_left_out", [1, 40])
def test_any_number_of_left_out_vectors(max_left_out):
    model = Candidates([GaussianProcess(Tangent()), NeighborMean()], max_left_out)
    chosen = FieldDenoiser(model, manifold=SPHERE, random_state=0).fit(POINTS, VECTORS)
    assert len(chosen.scores_) == 2 and np.isfinite(chosen.predict(POINTS)).all()


def test_a_single_winner_is_fitted_to_all_points():
    """The first comparison uses few points: what answers must not."""
    points = SPHERE.sample(400, seed=3)
    vectors = SPHERE.gradient_field(points, 2) + 0.1 * np.random.default_rng(1).standard_normal(
        (400, 3)
    )
    model = GaussianProcess(Tangent(Matern(np.inf)))
    chosen = FieldDenoiser(Candidates([model, Identity()]), manifold=SPHERE, random_state=0).fit(
        points, vectors
    )
    alone = FieldDenoiser(model, manifold=SPHERE, random_state=0).fit(points, vectors)
    assert chosen.posterior_.parts.near == alone.posterior_.parts.near
    np.testing.assert_allclose(chosen.predict(points), alone.predict(points), atol=0.05)


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
    yield from (row.score for row in model.scores_)


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
        for model in (GaussianProcess(Ambient()), NeighborMean(), Identity()):
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
