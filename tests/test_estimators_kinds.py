"""Kind and dtype of answers are those of the input, for all four estimators; tables, scores, and
copies of points."""

import numpy as np
import pandas as pd
import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import DimensionWarning, NoInformationWarning
from tangentbundle.estimators import Ambient, GaussianProcess, ManifoldClassifier, Tangent

SPHERE = tb.manifolds.Sphere(2)
POINTS, NEW = SPHERE.sample(60, seed=0), SPHERE.sample(20, seed=1)
VECTORS = SPHERE.gradient_field(POINTS, 2) + 0.1 * np.random.default_rng(0).standard_normal((60, 3))
SERIES = np.sin(np.arange(40))[:, None, None] * SPHERE.gradient_field(POINTS, 1)
MODEL = GaussianProcess(Tangent())


def read_only(values):
    array = np.array(values)
    array.flags.writeable = False
    return array


KINDS = {
    "float32 array": lambda a: np.asarray(a, dtype=np.float32),
    "float64 array": np.asarray,
    "read-only array": read_only,
    "float32 tensor": lambda a: torch.from_numpy(np.asarray(a, dtype=np.float32)),
    "float64 tensor": lambda a: torch.from_numpy(np.asarray(a)),
}


def field_answers(make, kind):
    model = make(MODEL, dim=2, random_state=0).fit(kind(POINTS), kind(VECTORS))
    yield from model.predict(kind(NEW), return_std=True)
    yield from model.predict(kind(NEW), return_cov=True, with_noise=True)
    if make is tb.FieldInterpolator:
        yield from model.predict_interval(kind(NEW))


def forecasts(kind):
    model = tb.FieldForecaster(manifold=SPHERE).fit(kind(POINTS), kind(SERIES))
    yield from model.predict(kind(SERIES[-5:]), 3, return_std=True)
    yield from model.predict_interval(kind(SERIES[-5:]), 3)


def classes(kind):
    clouds = [
        kind(shape.sample(40, seed=k)) for k in range(4) for shape in (SPHERE, tb.manifolds.Torus())
    ]
    model = ManifoldClassifier(epochs=1, dim=2, random_state=0).fit(clouds, [0, 1] * 4)
    yield model.predict_proba(clouds[:3])
    assert isinstance(model.predict(clouds[:3]), np.ndarray)


ANSWERS = {
    "denoiser": lambda kind: field_answers(tb.FieldDenoiser, kind),
    "interpolator": lambda kind: field_answers(tb.FieldInterpolator, kind),
    "forecaster": forecasts,
    "classifier": classes,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_of_the_kind_and_dtype_of_the_input(name):
    expected = list(ANSWERS[name](np.asarray))
    for kind in KINDS.values():
        sample = kind(POINTS)
        for answer, double in zip(ANSWERS[name](kind), expected, strict=True):
            assert type(answer) is type(sample) and answer.dtype == sample.dtype
            np.testing.assert_allclose(np.asarray(answer), double, atol=2e-3)


def test_tables_with_columns_are_points_and_vectors():
    table = pd.DataFrame(np.hstack([VECTORS, POINTS]), columns=["vx", "vy", "vz", "x", "y", "z"])
    model = tb.FieldInterpolator(MODEL, dim=2, random_state=0).fit(
        table[["x", "y", "z"]], table[["vx", "vy", "vz"]]
    )
    plain = tb.FieldInterpolator(MODEL, dim=2, random_state=0).fit(POINTS, VECTORS)
    assert model.feature_names_in_.tolist() == ["x", "y", "z"]
    new = pd.DataFrame(NEW, columns=["x", "y", "z"])
    np.testing.assert_allclose(model.predict(new), plain.predict(NEW), atol=1e-9)
    assert (model.predict(new).dtype, model.predict(new.astype("float32")).dtype) == (
        np.float64,
        np.float32,
    )
    assert model.score(table[["x", "y", "z"]], table[["vx", "vy", "vz"]]) == pytest.approx(
        plain.score(POINTS, VECTORS)
    )
    with pytest.raises(ValueError, match="feature names"):
        model.predict(new[["z", "y", "x"]])


def test_the_score_is_the_explained_share_of_the_vectors_variance():
    """A component without variance counts as little as it has of it."""
    vectors = VECTORS * [1.0, 1.0, 1e-3]
    model = tb.FieldDenoiser(GaussianProcess(Ambient()), dim=2, random_state=0).fit(POINTS, vectors)
    off = np.square(model.predict(POINTS) - vectors).sum()
    expected = 1 - off / np.square(vectors - vectors.mean(axis=0)).sum()
    assert model.score(POINTS, vectors) == pytest.approx(expected)
    assert model.score(torch.from_numpy(POINTS), torch.from_numpy(vectors)) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_copies_in_single_precision_are_the_points_themselves(offset):
    points = POINTS + offset
    model = tb.FieldDenoiser(MODEL, dim=2, random_state=0).fit(
        points, VECTORS + 0.3 * POINTS
    )  # a normal part, too
    exact, copies = (
        model.predict(where, return_std=True) for where in (points, points.astype(np.float32))
    )
    for a, b in zip(exact, copies, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_too_few_points_and_no_field_are_warned_of():
    points, noise = np.random.default_rng(1).standard_normal((2, 20, 5))
    with pytest.warns(DimensionWarning, match=r"20 points are too few .* in 5 dimensions"):
        tb.FieldDenoiser(MODEL).fit(points, noise)
    with pytest.warns(NoInformationWarning, match="Give noise_std"):
        tb.FieldDenoiser(dim=2, random_state=0).fit(
            POINTS, np.random.default_rng(12).standard_normal((60, 3))
        )
