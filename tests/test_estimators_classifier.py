"""ManifoldClassifier: learns, respects the symmetries of clouds, keeps scikit-learn's conventions."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError, NonFiniteError, ShapeError, TooFewPointsError
from tangentbundle.estimators import Holonomy, LowSpectrum, ManifoldClassifier, Neighborhoods
from tangentbundle.estimators.shape import CloudBundle
from tangentbundle.manifolds import KleinBottle, Sphere, Torus
from tangentbundle.nn import Linear
from tangentbundle.testing import random_orthogonal

COUNT = 36
SHAPES = Sphere(2), Torus()
CLOUDS = [SHAPES[i % 2].sample(50 + i % 7, seed=i) for i in range(COUNT)]
NAMES = np.array(["sphere", "torus"] * (COUNT // 2))
TRAIN, TEST = slice(0, 24), slice(24, COUNT)


def fitted(**options):
    return ManifoldClassifier(dim=2, epochs=15, random_state=0, **options).fit(CLOUDS[TRAIN], NAMES[TRAIN])


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_tells_spheres_from_tori(model):
    assert model.score(CLOUDS[TEST], NAMES[TEST]) >= 0.9
    assert model.classes_.tolist() == ["sphere", "torus"]
    assert model.history_.monitor == "validation loss"


@pytest.mark.parametrize("options", [{"activation": Linear()}, {"geometry": ()}, {"validation": 0.0}], ids=str)
def test_its_variants_learn_too(options):
    assert fitted(**options).score(CLOUDS[TEST], NAMES[TEST]) >= 0.9


def test_probabilities(model):
    proba = model.predict_proba(CLOUDS[TEST])
    assert proba.shape == (COUNT - 24, 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(CLOUDS[TEST])).all()


def test_same_seed_same_numbers(model):
    assert np.array_equal(model.predict_proba(CLOUDS[TEST]), fitted().predict_proba(CLOUDS[TEST]))


def test_a_cloud_is_classified_alike_in_any_company(model):
    together, alone = model.predict_proba(CLOUDS[TEST]), model.predict_proba(CLOUDS[TEST][:1])
    np.testing.assert_allclose(together[:1], alone, atol=1e-5)


def test_position_orientation_size_and_order_do_not_matter(model):
    rng = np.random.default_rng(0)
    turn = random_orthogonal(1, 3, seed=1)[0]
    moved = [rng.permutation(3.7 * cloud @ turn.T + [5.0, -2.0, 1.0]) for cloud in CLOUDS[TEST]]
    np.testing.assert_allclose(model.predict_proba(moved), model.predict_proba(CLOUDS[TEST]), atol=1e-4)


def test_frames_do_not_matter(model):
    """The network's scores and the geometric numbers, for one cloud in two gauges."""
    bundle = CloudBundle.from_points(CLOUDS[0], 2).bundle
    turns = random_orthogonal(bundle.num_points, 2, seed=3)
    gauged = tb.TangentBundle.from_frames(bundle.points, np.asarray(bundle.frames) @ turns, eps=bundle.eps)
    plain = tb.TangentBundle.from_frames(bundle.points, bundle.frames, eps=bundle.eps)
    numbers, scores = [], []
    for one in (CloudBundle(plain), CloudBundle(gauged)):
        table = [[v for part in (LowSpectrum(), Holonomy(), Neighborhoods()) for v in part(one)]]
        ((signal, operator, geometry, _),) = model._batches([one], np.array(table), np.zeros(1, int))
        numbers.append(table[0])
        scores.append(model.network_(signal, operator, geometry).detach().numpy())
    np.testing.assert_allclose(numbers[0], numbers[1], atol=1e-8)
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)


def test_holonomy_sees_that_a_klein_bottle_has_no_sides():
    bottle = Holonomy()(CloudBundle.from_points(KleinBottle(4).sample(600, seed=0), 2))
    torus = Holonomy()(CloudBundle.from_points(Torus().sample(600, seed=0), 2))
    assert bottle[0] == 0.0 and torus[0] == 1.0
    assert bottle[1] > torus[1]


def test_low_spectrum_has_one_length_for_all_clouds():
    tiny = CloudBundle.from_points(CLOUDS[0][:8], 2)
    assert len(LowSpectrum(12)(tiny)) == 24


def test_conventions():
    model = ManifoldClassifier(Linear(), channels=(4,), random_state=3)
    twin = clone(model)
    assert twin.get_params()["channels"] == (4,) and isinstance(twin.activation, Linear)
    with pytest.raises(NotFittedError):
        model.predict(CLOUDS)
    assert model.set_params(taps=3).taps == 3


@pytest.mark.parametrize(
    ("clouds", "labels", "error", "word"),
    [
        ([], [], InvalidInputError, "empty"),
        (CLOUDS[:4], ["a"] * 4, InvalidInputError, "at least two"),
        (CLOUDS[:4], ["a", "b"], ShapeError, "equally many"),
        (CLOUDS[:2], None, InvalidInputError, "requires y"),
        (CLOUDS[0], [0, 1], ShapeError, "list of clouds"),
        ([CLOUDS[0], np.full((9, 3), np.nan)], [0, 1], NonFiniteError, "cloud 1"),
        ([CLOUDS[0], CLOUDS[1][:2]], [0, 1], TooFewPointsError, "cloud 1"),
        ([CLOUDS[0], np.ones((9, 3))], [0, 1], TooFewPointsError, "coincide"),
        ([CLOUDS[0], CLOUDS[1][:, :2]], [0, 1], ShapeError, "one space"),
    ],
    ids=["none", "one class", "lengths", "no labels", "one cloud", "NaN", "two points", "one point", "two spaces"],
)
def test_errors_say_what_to_do(clouds, labels, error, word):
    with pytest.raises(error, match=word):
        ManifoldClassifier(dim=2).fit(clouds, labels)


def test_bad_settings():
    for options in ({"geometry": [1]}, {"validation": 1.0}, {"dim": 0}, {"activation": np.tanh}):
        with pytest.raises(InvalidInputError):
            ManifoldClassifier(**{"dim": 2, **options}).fit(CLOUDS[:8], NAMES[:8])
