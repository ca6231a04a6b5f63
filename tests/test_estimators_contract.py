"""What every model promises with every option: finite, repeatable answers in the right units, or a
named error."""

import pickle
import tracemalloc

import numpy as np
import pytest
from field_models import (
    CLEAN,
    NEW,
    PAST_POINTS,
    POINTS,
    PROCESSES,
    SIMPLE,
    SPHERE,
    VECTORS,
    history,
)
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tangentbundle import FieldDenoiser, FieldInterpolator
from tangentbundle.errors import (
    InvalidInputError,
)
from tangentbundle.estimators import (
    CurlFree,
    DivergenceFree,
    GaussianProcess,
    Matern,
    NeighborMean,
    Stack,
    Tangent,
)
from tangentbundle.estimators.history import History
from tangentbundle.manifolds import KleinBottle, Torus

CHOICE = Stack([GaussianProcess(Tangent()), NeighborMean()])
MODELS = [*PROCESSES, *SIMPLE, CHOICE, None]


HISTORIES = [
    {},
    {"history": history(POINTS)},
    {"history": history(PAST_POINTS), "history_points": PAST_POINTS},
]
SPACES = [{"manifold": SPHERE}, {"dim": 1}, {"dim": 2}, {"dim": 3}, {}]
SUPPORTS = [{}, {"support": SPHERE.sample(40, seed=3)}]
NOISES = [None, 0.2, np.linspace(0.1, 0.3, 36), 0.0]
PAIRS = [
    (
        model,
        HISTORIES[(i + row) % 3],
        SPACES[row],
        SUPPORTS[(i + row) % 2],
        NOISES[(i + 2 * row) % 4],
    )
    for i, model in enumerate(MODELS)
    for row in range(5)
    if model is not None or row in (0, 2, 4)  # the default takes long
]


SURFACE_ONLY = [PROCESSES[3], PROCESSES[6], PROCESSES[7]]


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")
@pytest.mark.parametrize(("model", "past", "space", "support", "noise_std"), PAIRS)
def test_every_model_with_every_option(model, past, space, support, noise_std):
    estimator = FieldInterpolator(model, **past, **space, **support, random_state=0)
    if past and model in SIMPLE:
        with pytest.raises(InvalidInputError, match="no use for a history"):
            estimator.fit(POINTS, VECTORS, noise_std)
        return
    if model in SURFACE_ONLY and space.get("dim") in (1, 3):
        with pytest.raises(InvalidInputError, match="oriented surface"):
            estimator.fit(POINTS, VECTORS, noise_std)
        return
    estimator.fit(POINTS, VECTORS, noise_std)
    for where in (POINTS, NEW):
        field, std = estimator.predict(where, return_std=True)
        again, cov = estimator.predict(where, return_cov=True)
        _, wide = estimator.predict(where, return_cov=True, with_noise=True)
        assert np.isfinite(field).all() and np.isfinite(std).all() and np.isfinite(wide).all()
        assert np.array_equal(field, again)
        np.testing.assert_allclose(estimator.predict(where), field, atol=1e-12)
        np.testing.assert_allclose(
            std, np.sqrt(np.maximum(np.einsum("nii->ni", cov), 0.0)), atol=1e-7
        )
        assert np.linalg.eigvalsh(cov).min() > -1e-7
        assert np.linalg.eigvalsh(wide - cov).min() > -1e-12
    low, high = estimator.predict_interval(NEW, 0.5)
    assert (low <= high).all()
    wider = estimator.predict_interval(NEW, 0.95)
    assert (wider[0] <= low).all() and (wider[1] >= high).all()
    field = estimator.predict(POINTS)
    assert np.array_equal(pickle.loads(pickle.dumps(estimator)).predict(POINTS), field)
    if space == SPACES[0]:
        assert np.array_equal(
            clone(estimator).fit(POINTS, VECTORS, noise_std).predict(POINTS), field
        )
    if noise_std is not None:
        assert estimator.noise_ == pytest.approx(np.sqrt(np.mean(np.square(noise_std))))
    if "manifold" in space:
        assert np.abs(np.einsum("ni,ni->n", field, POINTS)).max() < 1e-10
        assert (
            np.abs(
                np.einsum("ni,nij->nj", POINTS, estimator.predict(POINTS, return_cov=True)[1])
            ).max()
            < 1e-10
        )


@pytest.mark.parametrize("make", [FieldDenoiser, FieldInterpolator])
def test_single_precision_and_lists_are_accepted(make):
    model = make(GaussianProcess(Tangent()), dim=2, random_state=0)
    field = model.fit(POINTS, VECTORS).predict(NEW)
    single = make(model.model, dim=2, random_state=0).fit(
        POINTS.astype(np.float32), VECTORS.astype(np.float32)
    )
    np.testing.assert_allclose(single.predict(NEW.astype(np.float32)), field, atol=1e-3)
    assert single.predict(NEW).dtype == np.float64
    np.testing.assert_allclose(
        make(model.model, dim=2).fit(POINTS.tolist(), VECTORS.tolist()).predict(NEW), field
    )


def test_denoiser_and_interpolator_are_the_same_without_a_history():
    one, other = (
        make(CHOICE, dim=2, random_state=0).fit(POINTS, VECTORS)
        for make in (FieldDenoiser, FieldInterpolator)
    )
    assert np.array_equal(one.predict(NEW), other.predict(NEW))


# Symmetries


def rotation(seed=0, D=3):
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((D, D)))[0]
    return turn * np.linalg.det(turn)


@pytest.mark.parametrize("model", [*PROCESSES[:7], *SIMPLE], ids=str)
def test_turning_points_and_vectors_turns_the_answer(model):
    turn = rotation()
    field, cov = (
        FieldInterpolator(model, manifold=SPHERE, random_state=0)
        .fit(POINTS, VECTORS)
        .predict(NEW, return_cov=True)
    )
    turned = FieldInterpolator(model, manifold=SPHERE, random_state=0).fit(
        POINTS @ turn.T, VECTORS @ turn.T
    )
    other, other_cov = turned.predict(NEW @ turn.T, return_cov=True)
    np.testing.assert_allclose(other @ turn, field, atol=1e-5)
    np.testing.assert_allclose(turn.T @ other_cov @ turn, cov, atol=1e-5)


def test_the_default_does_not_depend_on_the_choice_of_coordinates():
    new = SPHERE.sample(100, seed=7)
    truth, errors = SPHERE.gradient_field(new, 2), []
    for turn in (np.eye(3), rotation(1)):
        model = FieldInterpolator(random_state=0, dim=2).fit(POINTS @ turn.T, VECTORS @ turn.T)
        errors.append(np.square(model.predict(new @ turn.T) @ turn - truth).mean())
    assert max(errors) < 1.02 * min(errors)


def sparse_torus():
    """Planes of neighbours differ so much that they hardly tell orientations."""
    torus = Torus()
    points = torus.sample(120, seed=0)
    return points, torus.tangent_field(points)


def two_patches():
    rng = np.random.default_rng(0)
    plane = rng.uniform(-1, 1, (120, 2))
    plane[:, 0] += 0.5 * np.sign(plane[:, 0])
    points = np.c_[plane, 0.1 * plane[:, 0] * plane[:, 1]]
    return points, np.cross([0.0, 0.0, 1.0], points)


@pytest.mark.parametrize("cloud", [sparse_torus, two_patches])
@pytest.mark.parametrize("seed", range(2))
def test_estimated_orientations_do_not_depend_on_the_choice_of_coordinates(cloud, seed):
    points, vectors = cloud()
    vectors = vectors + 0.1 * np.random.default_rng(1).standard_normal(vectors.shape)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
    covariance = DivergenceFree() + CurlFree()
    model = FieldInterpolator(covariance=covariance, dim=2).fit(points, vectors)
    turned = FieldInterpolator(covariance=covariance, dim=2).fit(points @ turn.T, vectors @ turn.T)
    assert turned.noise_ == pytest.approx(model.noise_, rel=1e-6)
    np.testing.assert_allclose(
        turned.predict(points @ turn.T) @ turn, model.predict(points), atol=1e-6 * model.scale_
    )


@pytest.mark.parametrize("model", [*PROCESSES, *SIMPLE, None])
def test_units_change_nothing_but_units(model):
    plain = FieldInterpolator(model, dim=2, random_state=0).fit(POINTS, VECTORS)
    field, std = plain.predict(NEW, return_std=True)
    for length, size in ((1e3, 1e-3), (1e-3, 1e3))[: 1 if model is None else 2]:
        scaled = FieldInterpolator(model, dim=2, random_state=0).fit(
            length * POINTS, size * VECTORS
        )
        other, other_std = scaled.predict(length * NEW, return_std=True)
        np.testing.assert_allclose(other / size, field, atol=1e-4)
        np.testing.assert_allclose(other_std / size, std, atol=1e-4)
        assert scaled.noise_ / size == pytest.approx(plain.noise_, rel=1e-3)


@pytest.mark.parametrize("model", [*PROCESSES, *SIMPLE, None])
def test_the_order_of_points_does_not_matter(model):
    order = np.random.default_rng(0).permutation(36)
    one, other = (
        FieldInterpolator(model, manifold=SPHERE, random_state=0).fit(POINTS[index], VECTORS[index])
        for index in (np.arange(36), order)
    )
    assert np.array_equal(one.predict(NEW), other.predict(NEW))


@pytest.mark.parametrize("noise_std", [None, np.linspace(0.1, 0.3, 25 * 25)])
def test_the_order_of_a_grid_does_not_matter(noise_std):
    """Nor does that of support points: many neighbours are equally far, and halves equally wide."""
    x, y = np.meshgrid(np.arange(25.0), np.arange(25.0))
    grid = np.stack([x.ravel(), y.ravel(), 0.0 * x.ravel()], axis=1)
    vectors = np.stack([np.sin(grid[:, 1] / 3), np.cos(grid[:, 0] / 4), 0 * grid[:, 0]], axis=1)
    vectors += 0.2 * np.random.default_rng(1).standard_normal(vectors.shape)
    support = grid + np.array([0.5, 0.5, 0.0])
    order = np.random.default_rng(0).permutation(len(grid))
    answers = []
    for index in (np.arange(len(grid)), order):
        noise = noise_std if noise_std is None else noise_std[index]
        model = FieldInterpolator(CHOICE, dim=2, support=support[index])
        model.fit(grid[index], vectors[index], noise)
        answers.append((*model.predict(grid, return_std=True), model.frames_))
    np.testing.assert_allclose(answers[0][0], answers[1][0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(answers[0][1], answers[1][1], rtol=1e-12, atol=1e-12)
    assert np.array_equal(answers[0][2][order], answers[1][2])


def test_refits_do_not_grow():
    model, sizes = (
        FieldInterpolator(GaussianProcess(Tangent()), manifold=SPHERE, history=history(POINTS)),
        [],
    )
    model.fit(POINTS, VECTORS).predict_interval(NEW)
    tracemalloc.start()
    for _ in range(3):
        model.fit(POINTS, VECTORS).predict_interval(NEW)
        sizes.append((tracemalloc.get_traced_memory()[0], len(pickle.dumps(model))))
    tracemalloc.stop()
    assert sizes[2][0] - sizes[1][0] < 50_000
    assert sizes[2][1] == sizes[1][1]


# What is known of the field and its noise


def error(model, points, truth):
    return float(np.square(model.predict(points) - truth).mean())


def test_an_exact_history_helps_and_a_useless_one_hardly_harms():
    """Stations see a mixture of three fields, of which the past has other mixtures, or nothing of
    them."""
    points, stations = SPHERE.sample(150, seed=8), slice(0, 12)
    weights = np.array([1.0, -2.0, 1.5])
    truth = np.einsum(
        "k,kni->ni", weights, np.stack([SPHERE.gradient_field(points, k) for k in (1, 2, 3)])
    )
    frames, rng = SPHERE.frames(points), np.random.default_rng(0)
    noise = np.einsum("nij,tnj->tni", frames, 3 * rng.standard_normal((20, 150, 2)))
    errors = {}
    for name, past in {"none": None, "exact": history(points, 20), "useless": noise}.items():
        where = None if past is None else points
        model = FieldInterpolator(
            manifold=SPHERE, history=past, history_points=where, random_state=0
        )
        errors[name] = error(model.fit(points[stations], truth[stations]), points, truth)
    assert errors["exact"] < 0.2 * errors["none"]
    assert errors["useless"] < 1.2 * errors["none"]


def test_the_noise_of_the_field_is_not_that_of_its_history():
    points = SPHERE.sample(60, seed=8)
    fields = history(points, 21)
    for size in (0.1, 0.5):
        noisy = fields[-1] + size * np.random.default_rng(3).standard_normal((60, 3))
        model = FieldInterpolator(
            GaussianProcess(Tangent()), manifold=SPHERE, history=fields[:-1]
        ).fit(points, noisy)
        assert 0.7 * size < model.noise_ < 1.3 * size


@pytest.mark.parametrize("past", ["winds.nc", [[1.0], [2.0, 3.0]], (POINTS, history(POINTS))])
def test_a_history_that_is_no_array_is_refused(past):
    with pytest.raises(InvalidInputError, match="history"):
        FieldInterpolator(history=past).fit(POINTS, VECTORS)


def test_a_history_is_interpolated_between_its_points():
    fields = history(PAST_POINTS)
    past = History.of(PAST_POINTS, fields)
    np.testing.assert_array_equal(past.at(past.points), past.fields)
    np.testing.assert_allclose(past.at(PAST_POINTS), fields, atol=1e-10)
    np.testing.assert_allclose(past.at(PAST_POINTS[:7]), fields[:, :7], atol=1e-10)
    np.testing.assert_allclose(past.mean(NEW), past.at(NEW).mean(axis=0), atol=1e-10)


def test_a_history_at_the_stations_is_uncertain_between_them():
    """The past is known at the stations alone, and its fields vary over less than their
    distance."""
    rng = np.random.default_rng(0)
    points = SPHERE.sample(300, seed=0)
    waves = 6 * rng.standard_normal((25, 3))
    slopes = np.cos(points @ waves.T + np.arange(25))[:, :, None] * waves
    slopes -= np.einsum("nkd,nd->nk", slopes, points)[:, :, None] * points[:, None]
    weights = rng.standard_normal((31, 5)) @ rng.standard_normal((5, 25))
    fields = np.einsum("tk,nkd->tnd", weights, slopes)
    stations = np.arange(0, 300, 8)
    model = FieldInterpolator(manifold=SPHERE, history=fields[:30, stations])
    model.fit(points[stations], fields[30, stations])
    others = np.setdiff1d(np.arange(300), stations)
    field, std = model.predict(points[others], return_std=True)
    size = np.sqrt(np.square(field - fields[30, others]).mean())
    assert np.sqrt(np.square(std).mean()) > 0.25 * size
    std_at_stations = model.predict(points[stations], return_std=True)[1]
    assert std_at_stations.mean() < 0.1 * std.mean()


def test_known_uneven_noise_helps():
    points, rng = SPHERE.sample(150, seed=0), np.random.default_rng(7)
    clean, size = SPHERE.gradient_field(points, 3), np.where(np.arange(150) % 2, 0.01, 0.3)
    noisy = clean + size[:, None] * rng.standard_normal(clean.shape)
    model = FieldDenoiser(GaussianProcess(Tangent()), manifold=SPHERE)
    plain = error(model.fit(points, noisy), points, clean)
    assert error(model.fit(points, noisy, noise_std=size), points, clean) < 0.3 * plain


@pytest.mark.parametrize("noisy_rows", [[9], list(range(1, 120, 2))], ids=["one", "half"])
@pytest.mark.parametrize("size", [1.0, 50.0, 1e6])
def test_vectors_known_to_be_noise_change_little(noisy_rows, size):
    """Fields, standard deviations and the share off the tangent spaces are as without them."""
    torus = Torus()
    points = torus.sample(120, seed=1)
    places = torus.sample(40, seed=2)
    is_noisy = np.isin(np.arange(120), noisy_rows)
    levels = np.where(is_noisy, size, 0.1)
    noise = np.random.default_rng(1).standard_normal(points.shape)
    vectors = torus.tangent_field(points) + levels[:, None] * noise
    all_of_them = FieldInterpolator(dim=2).fit(points, vectors, levels)
    without = FieldInterpolator(dim=2).fit(points[~is_noisy], vectors[~is_noisy], 0.1)
    clean = torus.tangent_field(places)
    assert error(all_of_them, places, clean) < 4 * error(without, places, clean)
    std = all_of_them.predict(places, return_std=True)[1]
    std_without = without.predict(places, return_std=True)[1]
    assert 0.4 < std.mean() / std_without.mean() < 4
    assert all_of_them.normal_share_ == pytest.approx(without.normal_share_, abs=0.1)


def test_means_of_neighbors_leave_out_vectors_known_to_be_noise():
    points = SPHERE.sample(100, seed=0)
    clean = SPHERE.gradient_field(points, 2)
    levels = np.where(np.arange(100) == 7, 1e6, 0.0)
    vectors = clean + levels[:, None]
    model = FieldInterpolator(NeighborMean(4), manifold=SPHERE).fit(points, vectors, levels)
    near = points[[7]]
    assert np.abs(model.predict(near) - clean[[7]]).max() < np.abs(clean).max()


def test_a_known_manifold_is_not_worse_than_estimated_planes():
    points, new = SPHERE.sample(100, seed=0), SPHERE.sample(100, seed=1)
    field = SPHERE.gradient_field(points, 3)
    known, estimated = (
        error(
            FieldInterpolator(GaussianProcess(CurlFree()), random_state=0, **space).fit(
                points, field
            ),
            new,
            SPHERE.gradient_field(new, 3),
        )
        for space in ({"manifold": SPHERE}, {"dim": 2})
    )
    assert known <= 1.1 * estimated


def test_further_points_of_the_space_improve_tangent_spaces():
    torus = Torus()
    points, support = torus.sample(60, seed=0), torus.sample(600, seed=1)
    field = torus.tangent_field(points)

    def tilt(frames):
        exact = torus.frames(points)
        overlap = np.einsum("nij,nik->njk", exact, frames)
        return float(2 - np.square(overlap).sum(axis=(1, 2)).mean())

    plain = FieldInterpolator(GaussianProcess(Tangent()), dim=2).fit(points, field)
    more = FieldInterpolator(GaussianProcess(Tangent()), dim=2, support=support).fit(points, field)
    assert more.frames_.shape == (60, 3, 2)
    assert tilt(more.frames_) < 0.3 * tilt(plain.frames_)


def test_orientation_is_that_of_the_space():
    assert FieldDenoiser(NeighborMean(), dim=2).fit(POINTS, VECTORS).spaces_.oriented
    bottle = KleinBottle(4)
    points = bottle.sample(600, seed=0)
    field = np.einsum("nij,j->ni", bottle.frames(points), [1.0, 0.5])
    model = FieldDenoiser(GaussianProcess(DivergenceFree()), dim=2)
    with pytest.raises(InvalidInputError, match="do not agree"):
        model.fit(points, field)


def test_pipelines_and_searches():
    twice = make_pipeline(
        FunctionTransformer(lambda X: 2 * X), FieldDenoiser(NeighborMean(), dim=2)
    )
    assert twice.fit(POINTS, VECTORS).predict(POINTS).shape == (36, 3)
    models = [NeighborMean(), GaussianProcess(Tangent(Matern(np.inf)))]
    search = GridSearchCV(FieldInterpolator(manifold=SPHERE), {"model": models}, cv=3).fit(
        POINTS, CLEAN
    )
    assert search.best_params_["model"] == models[1]
    assert (
        FieldInterpolator(models[1], manifold=SPHERE)
        .fit(POINTS, CLEAN)
        .score(NEW, SPHERE.gradient_field(NEW, 2))
        > 0.9
    )
