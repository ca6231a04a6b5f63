"""ManifoldClassifier: learns, respects the symmetries of clouds, keeps scikit-learn's
conventions."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import tangentbundle as tb
from tangentbundle.errors import (
    InvalidInputError,
    NonFiniteError,
    RankDeficientError,
    ShapeError,
    TooFewPointsError,
)
from tangentbundle.estimators import ManifoldClassifier
from tangentbundle.estimators.classifier import clouds_at_once, network_inputs
from tangentbundle.geometry.scale import target_neighbors
from tangentbundle.manifolds import Sphere, Torus
from tangentbundle.nn import NoActivation
from tangentbundle.testing import random_orthogonal

COUNT = 36
SHAPES = Sphere(2), Torus()
CLOUDS = [SHAPES[i % 2].sample(50 + i % 7, seed=i) for i in range(COUNT)]
NAMES = np.array(["sphere", "torus"] * (COUNT // 2))
TRAIN, TEST = slice(0, 24), slice(24, COUNT)


def fitted(**options):
    return ManifoldClassifier(dim=2, epochs=15, random_state=0, **options).fit(
        CLOUDS[TRAIN], NAMES[TRAIN]
    )


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_tells_spheres_from_tori(model):
    assert model.score(CLOUDS[TEST], NAMES[TEST]) >= 0.9
    assert model.classes_.tolist() == ["sphere", "torus"]
    assert model.history_.monitor == "validation loss"


@pytest.mark.parametrize("options", [{"activation": NoActivation()}, {"validation": 0.0}], ids=str)
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
    np.testing.assert_allclose(
        model.predict_proba(moved), model.predict_proba(CLOUDS[TEST]), atol=1e-4
    )


def test_frames_do_not_matter(model):
    """The network's scores for one cloud in two gauges."""
    clouds = clouds_at_once(CLOUDS[:1], 2)
    turns = torch.from_numpy(random_orthogonal(len(CLOUDS[0]), 2, seed=3))
    turned = replace(clouds.frames, matrices=clouds.frames.matrices @ turns)
    scores = [
        model.network_(*network_inputs(replace(clouds, frames=frames))).detach().numpy()
        for frames in (clouds.frames, turned)
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)


def test_inputs_are_those_of_single_bundles():
    """Signals and products, as ambient vectors; the second cloud has a point far from all
    others."""
    clouds = [CLOUDS[0], np.concatenate([CLOUDS[1], [[5.0, 0.0, 0.0]]]), CLOUDS[2]]
    signal, operator = network_inputs(clouds_at_once(clouds, 2))
    for cloud, got, part in zip(clouds, operator.split(signal), operator.parts, strict=True):
        centred = cloud - cloud.mean(axis=0)
        points = centred / np.sqrt(np.square(centred).sum(axis=1).mean())
        reach = np.sort(np.linalg.norm(points[:, None] - points, axis=2), axis=1)
        radius = max(np.median(reach[:, target_neighbors(len(points), 2)]), reach[:, 1].max())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bundle = tb.TangentBundle.from_points(points, dim=2, eps=(radius * (1 + 1e-6)) ** 2)
        curvature = bundle.cloud.in_user_order(bundle.estimate.pca.residual(2)).numpy()
        lengths = np.square(points).sum(axis=1)
        fields = np.stack(
            [points, points * lengths[:, None], 10 * points * curvature[:, None]], axis=-1
        )
        expected = bundle.to_coordinates(fields)
        np.testing.assert_allclose(part.frames @ got, bundle.to_ambient(expected), atol=1e-5)
        image = bundle.to_ambient(bundle.laplacian() @ expected)
        np.testing.assert_allclose(
            part.frames @ (part @ got), image, atol=1e-5 * np.abs(image).max()
        )


def test_an_error_names_the_cloud():
    line = np.linspace(0, 1, 30)[:, None] * [1.0, 2.0, 3.0]
    with pytest.raises(RankDeficientError, match=r"cloud 2: .*span fewer than 2"):
        ManifoldClassifier(dim=2).fit([*CLOUDS[:2], line, CLOUDS[3]], [0, 1, 0, 1])


def test_conventions():
    model = ManifoldClassifier(NoActivation(), channels=(4,), random_state=3)
    twin = clone(model)
    assert twin.get_params()["channels"] == (4,) and isinstance(twin.activation, NoActivation)
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
    ids=[
        "none",
        "one class",
        "lengths",
        "no labels",
        "one cloud",
        "NaN",
        "two points",
        "one point",
        "two spaces",
    ],
)
def test_errors_say_what_to_do(clouds, labels, error, word):
    with pytest.raises(error, match=word):
        ManifoldClassifier(dim=2).fit(clouds, labels)


def test_bad_settings():
    for options in ({"validation": 1.0}, {"dim": 0}, {"activation": np.tanh}):
        with pytest.raises(InvalidInputError):
            ManifoldClassifier(**{"dim": 2, **options}).fit(CLOUDS[:8], NAMES[:8])
