"""FieldDenoiser and FieldInterpolator: what they promise about fields, noise and uncertainty."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tangentbundle as tb
from tangentbundle.errors import (
    FarPointsWarning,
    InvalidInputError,
    MemoryLimitError,
    NonFiniteError,
    NotTangentWarning,
    ShapeError,
    TooFewPointsError,
)
from tangentbundle.estimators import (
    GCV,
    GaussianProcess,
    Helmholtz,
    Isotropic,
    LocalProcess,
    Meridional,
    Potential,
    Rotational,
    SpectralShrinkage,
)
from tangentbundle.estimators.covariance import Sites
from tangentbundle.estimators.likelihood import JITTER, Evidence
from tangentbundle.estimators.process import Posterior
from tangentbundle.experiments.baselines import CLASSICS, AmbientProcess, ComponentProcess

SPHERE, TORUS = tb.manifolds.Sphere(2), tb.manifolds.Torus()
ISOTROPIC = GaussianProcess(Isotropic(1.5))


def in_frames(frames, vectors):
    return np.einsum("nij,ni->nj", frames, vectors)


def energy(values):
    return float(np.square(values).sum(axis=1).mean())


@pytest.mark.parametrize("field", [TORUS.tangent_field, TORUS.paper_field])
@pytest.mark.parametrize("tau, most", [(0.3, 0.25), (0.01, 0.7)])
def test_denoising_the_torus_leaves_a_small_share_of_the_noise(field, tau, most):
    points = TORUS.sample(150, seed=0)
    clean = field(points)
    noisy = clean + tau * np.random.default_rng(1).standard_normal(clean.shape)
    denoiser = tb.FieldDenoiser(GaussianProcess(Isotropic(np.inf)), dim=2).fit(points, noisy)
    left = energy(in_frames(denoiser.frames_, denoiser.predict(points) - clean))
    assert left < most * energy(in_frames(denoiser.frames_, noisy - clean))
    assert 0.7 * tau < denoiser.noise_ < 1.3 * tau


def test_the_default_is_no_worse_than_its_candidates_by_much():
    points = TORUS.sample(120, seed=3)
    clean = TORUS.tangent_field(points)
    noisy = clean + 0.2 * np.random.default_rng(0).standard_normal(clean.shape)
    denoiser = tb.FieldDenoiser(dim=2, random_state=0).fit(points, noisy)
    assert energy(in_frames(denoiser.frames_, denoiser.predict(points) - clean)) < 0.3 * 2 * 0.2**2


@pytest.mark.parametrize("criterion", [None, GCV()])
def test_filters_denoise_many_points(criterion):
    points = SPHERE.sample(2000, seed=0)
    clean = SPHERE.gradient_field(points, 3)
    noisy = clean + 0.3 * np.random.default_rng(1).standard_normal(clean.shape)
    method = SpectralShrinkage() if criterion is None else SpectralShrinkage(criterion)
    denoiser = tb.FieldDenoiser(method, manifold=SPHERE, random_state=0).fit(points, noisy)
    field, std = denoiser.predict(points, return_std=True)
    assert np.mean((field - clean) ** 2) < 0.1 * 0.3**2
    assert abs(denoiser.noise_ - 0.3) < 0.02
    assert 0.5 < np.sqrt(np.mean(std**2) / np.mean((field - clean) ** 2)) < 2


def test_known_uneven_noise_helps():
    points, rng = SPHERE.sample(200, seed=0), np.random.default_rng(7)  # not the points' seed: noise would be radial
    clean, tau = SPHERE.gradient_field(points, 3), np.where(np.arange(200) % 2, 0.01, 0.3)
    noisy = clean + tau[:, None] * rng.standard_normal(clean.shape)
    plain = tb.FieldDenoiser(ISOTROPIC, manifold=SPHERE).fit(points, noisy)
    told = tb.FieldDenoiser(ISOTROPIC, manifold=SPHERE).fit(points, noisy, noise_std=tau)
    assert energy(told.predict(points) - clean) < 0.3 * energy(plain.predict(points) - clean)


def test_points_and_vectors_may_be_turned_and_scaled_together():
    points, new = SPHERE.sample(150, seed=0), SPHERE.sample(20, seed=1)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    y = SPHERE.gradient_field(points, 3)
    plain, plain_std = tb.FieldInterpolator(ISOTROPIC).fit(points, y).predict(new, return_std=True)
    moved = tb.FieldInterpolator(ISOTROPIC).fit(7 * points @ turn.T, 5 * y @ turn.T)
    field, cov = moved.predict(7 * new @ turn.T, return_cov=True)
    assert np.allclose(field, 5 * plain @ turn.T, atol=0.02)
    assert np.allclose(np.sqrt(np.einsum("nii->ni", turn.T @ cov @ turn)), 5 * plain_std, rtol=0.1, atol=0.01)


def random_field(seed, length=0.4, amplitude=1.0):
    """A smooth random ambient field, as a sum of waves; callers project it."""
    rng = np.random.default_rng(seed)
    waves, phases = rng.standard_normal((200, 3)) / length, rng.uniform(0, 2 * np.pi, 200)
    weights = amplitude * rng.standard_normal((200, 3)) * np.sqrt(2 / 200)
    return lambda points: np.cos(points @ waves.T + phases) @ weights


@pytest.mark.parametrize("space, length", [(SPHERE, 0.5), (TORUS, 0.15)], ids=["sphere", "torus"])
def test_intervals_cover_what_they_say(space, length):
    """50 and 90 % intervals of held-out fields and of noisy measurements, within 5 points."""
    field_hits, noisy_hits = [], []
    for seed in range(5):
        rng, truth = np.random.default_rng(seed), random_field(1000 + seed, length)
        points, new = space.sample(130, seed=rng), space.sample(300, seed=rng)
        frames = space.frames(new)
        y = truth(points) + 0.2 * rng.standard_normal((130, 3))
        model = tb.FieldInterpolator(GaussianProcess(Isotropic(np.inf)), manifold=space, random_state=0).fit(points, y)
        for hits, extra in ((field_hits, 0.0), (noisy_hits, 0.2)):
            mean, cov = model.predict(new, return_cov=True, with_noise=extra > 0)
            off = in_frames(frames, mean - truth(new)) + extra * rng.standard_normal((300, 2))
            std = np.sqrt(np.einsum("nij,nik,nkj->nj", frames, cov, frames))
            hits.append([np.mean(np.abs(off) < z * std) for z in (0.6745, 1.6449)])
    assert np.abs(np.mean(noisy_hits, axis=0) - [0.5, 0.9]).max() < 0.05
    assert np.abs(np.mean(field_hits, axis=0) - [0.5, 0.9]).max() < 0.05


def test_calibrated_intervals_know_heavy_tails():
    rng, frames = np.random.default_rng(0), SPHERE.frames
    points, places = SPHERE.sample(300, seed=1), SPHERE.sample(600, seed=2)

    def measured(x):
        return SPHERE.gradient_field(x, 1) + np.einsum("nij,nj->ni", frames(x), rng.standard_t(2.2, (len(x), 2)))

    model = tb.FieldInterpolator(ISOTROPIC, manifold=SPHERE).fit(points, measured(points))
    truth = measured(places)
    for level in (0.5, 0.9):
        low, high = model.predict_interval(places, level)
        assert abs(np.mean((low < truth) & (truth < high)) - level) < 0.05
    field, std = model.predict(places, return_std=True, with_noise=True)
    assert np.mean(np.abs(truth - field) < 0.6745 * std) > 0.6  # a Gaussian's half holds more


def test_errors_left_out_are_those_of_fits_without_the_point():
    points = SPHERE.sample(40, seed=3)
    vectors = SPHERE.gradient_field(points, 2)
    whole = tb.FieldInterpolator(ISOTROPIC, manifold=SPHERE).fit(points, vectors).fitted_
    seen, keep = whole.seen, np.arange(1, 40)
    rows = np.arange(2, 80)
    rest = Posterior.of(whole.covariance, whole.theta, Evidence(seen.sites[keep], seen.values[rows]), whole.problem)
    mean, cov = rest.predict(points[:1], SPHERE.frames(points[:1]), with_covariance=True)
    std = np.sqrt(np.diag(cov[0]) + whole.noise**2 + JITTER)
    np.testing.assert_allclose(whole.residuals[0], (seen.values[:2, 0].numpy() - mean[0]) / std, rtol=1e-4, atol=1e-6)


def test_the_local_process_is_the_exact_one_where_all_count_and_near_it_where_few_do():
    truth, stations, places = random_field(1000, 0.3), SPHERE.sample(300, seed=0), SPHERE.sample(200, seed=1)

    def tangent(x):
        return np.einsum("nij,nj->ni", SPHERE.frames(x), in_frames(SPHERE.frames(x), truth(x)))

    y = tangent(stations) + 0.1 * np.random.default_rng(7).standard_normal((300, 3))
    options = {"likelihood_size": 200, "patches": 3}
    methods = [GaussianProcess(Isotropic(1.5), **options)]
    methods += [LocalProcess(Isotropic(1.5), neighbors=k, **options) for k in (300, 80)]
    models = [tb.FieldInterpolator(m, manifold=SPHERE, random_state=0).fit(stations, y) for m in methods]
    exact, whole, few = (m.predict(places, return_std=True) for m in models)
    np.testing.assert_allclose(whole, exact, atol=1e-9)
    assert energy(few[0] - tangent(places)) < 1.2 * energy(exact[0] - tangent(places))
    assert (few[1] > exact[1] - 1e-9).all() and few[1].mean() < 1.2 * exact[1].mean()


def test_history_beats_a_single_field():
    """Fields whose size and pattern vary from place to place, which only the past can tell."""
    points = SPHERE.sample(300, seed=0)
    frames, size = SPHERE.frames(points), np.where(points[:, 2] > 0, 2.0, 0.2)[:, None]
    steady = random_field(99, 0.3)(points)
    fields = np.stack([size * random_field(s, 0.3)(points) + steady for s in range(41)])
    fields = np.einsum("nij,tnj->tni", frames, np.einsum("nij,tni->tnj", frames, fields))
    past, now, seen = fields[:40], fields[40], np.arange(60)
    alone = tb.FieldInterpolator(manifold=SPHERE, random_state=0).fit(points[seen], now[seen])
    told = tb.FieldInterpolator(manifold=SPHERE, history=past, history_points=points, random_state=0)
    told.fit(points[seen], now[seen])
    errors = [energy((m.predict(points) - now)[60:]) for m in (alone, told)]
    assert errors[1] < 0.75 * errors[0]
    std = told.predict(points, return_std=True)[1][60:]
    assert std[points[60:, 2] > 0].mean() > 3 * std[points[60:, 2] < 0].mean()


def embedded_sphere(n, seed):
    """S^2 in R^50, a little noisy and unevenly sampled."""
    points = SPHERE.sample_nonuniform(n, 4.0, seed=seed)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 3)))[0]
    noise = 0.002 * np.random.default_rng(seed).standard_normal((n, 50))
    return points @ basis.T + noise, SPHERE.gradient_field(points, 2) @ basis.T


def three_sphere(n, seed):
    points = tb.manifolds.Sphere(3).sample(n, seed=seed)
    return points, tb.manifolds.Sphere(3).gradient_field(points, 2)


def swiss_roll(n, seed):
    roll = tb.manifolds.SwissRoll((0.5, 1.0), 3.0)
    points = roll.sample(n, seed=seed)
    return points, roll.frames(points)[:, :, 0] * np.cos(points[:, 2:])


@pytest.mark.parametrize("make, dim", [(embedded_sphere, 2), (three_sphere, 3), (swiss_roll, 2)])
def test_other_dimensions_densities_and_boundaries(make, dim):
    points, clean = make(260, 0)
    new, truth = make(60, 1)
    noisy = clean + 0.05 * np.random.default_rng(2).standard_normal(clean.shape)
    model = tb.FieldInterpolator(GaussianProcess(Isotropic(1.5)), dim=dim).fit(points, noisy)
    assert energy(model.predict(new) - truth) < 0.15 * energy(truth)


def test_far_points_bring_a_warning_and_wide_uncertainty():
    points = SPHERE.sample(100, seed=0)
    model = tb.FieldInterpolator(ISOTROPIC).fit(points, SPHERE.gradient_field(points, 2))
    near = model.predict(points[:5] * 1.0001, return_std=True)[1]
    with pytest.warns(FarPointsWarning, match="units"):
        far = model.predict(1000 * points[:5], return_std=True)[1]
    assert far.max() > 10 * near.max()


POINTS = SPHERE.sample(60, seed=0)
FIELD = SPHERE.gradient_field(POINTS, 2)
NAN = np.where(np.arange(60)[:, None] == 3, np.nan, FIELD)


@pytest.mark.parametrize("kind", [tb.FieldDenoiser, tb.FieldInterpolator])
@pytest.mark.parametrize(
    "points, vectors, error, words",
    [
        (POINTS, POINTS, InvalidInputError, "normal to the tangent"),
        (POINTS, FIELD[:, :2], ShapeError, "ambient"),
        (POINTS[:1], FIELD[:1], TooFewPointsError, "at least 3"),
        (POINTS, NAN, ValueError, "NaN"),
        (NAN, FIELD, ValueError, "NaN"),
        (POINTS[:0], FIELD[:0], ValueError, "0 sample"),
        (POINTS, FIELD[:50], ValueError, "50"),
        (np.zeros((60, 3)), FIELD, ValueError, "coincide"),
    ],
)
def test_bad_input(kind, points, vectors, error, words):
    with pytest.raises(error, match=words):
        kind(ISOTROPIC, dim=2, manifold=SPHERE if points is POINTS else None).fit(points, vectors)


def test_mostly_normal_vectors_bring_a_warning():
    with pytest.warns(NotTangentWarning):
        tb.FieldDenoiser(ISOTROPIC, manifold=SPHERE).fit(POINTS, FIELD + 3 * POINTS)


@pytest.mark.parametrize(
    "options, fit, error",
    [
        ({"method": "gp"}, {}, InvalidInputError),
        ({"method": GaussianProcess("matern")}, {}, InvalidInputError),
        ({"method": GaussianProcess(max_points=10)}, {}, MemoryLimitError),
        ({"history": np.zeros((20, 5, 3))}, {}, ShapeError),
        ({"history": np.zeros((3, 60, 3))}, {}, ShapeError),
        ({"history": np.full((20, 60, 3), np.nan)}, {}, NonFiniteError),
        ({"support": np.zeros((5, 2))}, {}, ShapeError),
        ({}, {"noise_std": -1.0}, InvalidInputError),
        ({}, {"noise_std": np.ones(7)}, ShapeError),
        ({}, {"noise_std": np.nan}, NonFiniteError),
    ],
)
def test_bad_options(options, fit, error):
    with pytest.raises(error):
        tb.FieldInterpolator(**{"method": ISOTROPIC, "manifold": SPHERE, **options}).fit(POINTS, FIELD, **fit)


def test_bands_of_latitude_are_found_and_help():
    """Jets around the axis of the sphere, from few stations."""
    rng = np.random.default_rng(0)
    stations, places = SPHERE.sample(50, seed=rng), SPHERE.sample(400, seed=rng)

    def jets(x):
        return np.cross([0.0, 0.0, 1.0], x) * np.cos(5 * x[:, 2:]) + 0.3 * SPHERE.gradient_field(x, 2)

    def error(method):
        model = tb.FieldInterpolator(method, manifold=SPHERE, random_state=0).fit(stations, jets(stations))
        return model, np.mean((model.predict(places) - jets(places)) ** 2)

    (model, ours), (_, plain) = error(None), error(GaussianProcess(Helmholtz()))
    assert any("zonal" in name for name in model.fitted_.covariance.names)
    assert ours < 0.2 * plain


def seasons(now, seed=0):
    """A history of a mean field with weather, and stations of a new field: ``now`` times the mean, with weather."""
    rng = np.random.default_rng(seed)
    points = SPHERE.sample(250, seed=rng)
    mean = 2 * np.cross([0.3, 0.2, 1.0], points)
    theta = torch.tensor([-0.5, -1.0], dtype=torch.float64)
    sites = Sites(torch.from_numpy(points), torch.from_numpy(SPHERE.frames(points)))
    root = np.linalg.cholesky(Isotropic(1.5)(theta, sites, sites).numpy() + 1e-8 * np.eye(500))
    fields = (root @ rng.standard_normal((500, 61))).T.reshape(61, 250, 2)
    fields = np.einsum("nij,tnj->tni", SPHERE.frames(points), fields)
    return points, mean + fields[:60], now * mean + fields[60]


@pytest.mark.parametrize(("now", "changed"), [(1.0, False), (0.1, True)])
def test_a_change_of_season_is_told_by_the_field(now, changed):
    points, past, field = seasons(now)
    model = tb.FieldInterpolator(manifold=SPHERE, history=past, history_points=points, random_state=0)
    model.fit(points[:40], field[:40])
    assert (model.fitted_.problem.past.expected is not None) == changed
    mean = past.mean(axis=0)
    error = np.square(model.predict(points[40:]) - field[40:]).mean()
    assert error < 0.7 * np.square(mean - field)[40:].mean()


def test_axes_need_a_surface_in_space():
    points = tb.manifolds.FlatTorus().sample(60, seed=0)
    with pytest.raises(InvalidInputError, match="D = 4"):
        tb.FieldInterpolator(GaussianProcess(Meridional()), dim=2).fit(points, points[:, [1, 0, 3, 2]] * [-1, 1, -1, 1])


def test_turns_need_an_oriented_surface():
    bottle = tb.manifolds.KleinBottle(4)
    points = bottle.sample(100, seed=0)
    with pytest.raises(InvalidInputError, match="oriented"):
        tb.FieldInterpolator(GaussianProcess(Rotational() + Potential()), manifold=bottle).fit(points, points)


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_constant_and_zero_fields_are_learned(value):
    points = np.random.default_rng(0).uniform(size=(60, 2))
    model = tb.FieldInterpolator(ISOTROPIC).fit(points, np.full((60, 2), value))
    field, std = model.predict(points[:7] + 1e-3, return_std=True)
    assert np.allclose(field, value, atol=0.02) and np.isfinite(std).all()


def test_clone_pipeline_and_grid_search():
    model = tb.FieldInterpolator(ISOTROPIC, manifold=SPHERE, random_state=0)
    assert clone(model).get_params()["manifold"] is not None
    pipe = make_pipeline(FunctionTransformer(), clone(model)).fit(POINTS, FIELD)
    assert pipe.score(POINTS, FIELD) > 0.99
    grid = {"method": [GaussianProcess(Isotropic(0.5)), GaussianProcess(Isotropic(2.5))]}
    search = GridSearchCV(clone(model), grid, cv=3).fit(POINTS, FIELD)
    assert search.best_params_["method"].covariance.smoothness == 2.5


def test_the_same_seed_gives_the_same_answer():
    models = [tb.FieldDenoiser(SpectralShrinkage(), manifold=SPHERE, random_state=4).fit(POINTS, FIELD) for _ in "ab"]
    assert np.array_equal(models[0].predict(POINTS), models[1].predict(POINTS))


@pytest.mark.parametrize("baseline", [*CLASSICS, AmbientProcess(), ComponentProcess()], ids=str)
def test_baselines_fit_and_predict(baseline):
    answer = clone(baseline).fit(POINTS, FIELD).predict(POINTS[:5])
    assert answer.shape == (5, 3) and np.isfinite(answer).all()
