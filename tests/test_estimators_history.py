"""What is learned from past fields, against definitions in a few lines."""

import numpy as np
import pytest
from field_models import NEW, PAST_POINTS, POINTS, SPHERE, VECTORS, history

from tangentbundle.estimators import FieldInterpolator, GaussianProcess, Tangent
from tangentbundle.estimators.covariance import terms_of
from tangentbundle.estimators.empirical import ChangeOfMean, from_history, within_history
from tangentbundle.estimators.history import (
    MAX_DISPLACEMENTS,
    MAX_SAMPLES,
    TAPER_LENGTH,
    History,
    recolored,
)

PAST = history(PAST_POINTS, 10) + SPHERE.gradient_field(PAST_POINTS, 1)


def interpolator(fields, points=PAST_POINTS):
    return FieldInterpolator(
        GaussianProcess(Tangent()), manifold=SPHERE, history=fields, history_points=points
    )


def test_displaced_fields_are_those_of_the_points_nearest_to_displaced_ones():
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    anomalies = PAST - PAST.mean(axis=0)
    expected = []
    for step in range(1, MAX_DISPLACEMENTS + 1):
        for axis in axes.T:
            for sign in (1, -1):
                moved = POINTS + sign * TAPER_LENGTH * step / MAX_DISPLACEMENTS * axis
                field = np.empty((len(POINTS), 3, len(PAST)))
                for i, place in enumerate(moved):
                    nearest = np.argmin(np.linalg.norm(PAST_POINTS - place, axis=1))
                    own = anomalies[:, nearest]
                    size = np.sqrt(np.mean(np.sum(own**2, axis=1)))
                    field[i] = own.T / size
                expected.append(field)
    found = list(History(PAST_POINTS, PAST).displaced(POINTS, axes, 2))
    np.testing.assert_allclose(found, expected)


def past_at(fields, points):
    """What ``FieldInBases`` tells of a history at training points of these numbers."""
    data = interpolator(fields).fit(POINTS, VECTORS).posterior_.fits[0].posterior.data
    frames = data.bases.at(points)
    return data.sites(data.observations.points[points], frames).past


def test_batches_of_sites_have_the_past_of_single_ones():
    single, batches = (past_at(PAST, index) for index in (np.arange(36), np.arange(36)[:, None]))
    for name in ("mean", "anomalies", "displaced"):
        np.testing.assert_array_equal(getattr(batches, name)[:, 0], getattr(single, name))


def test_the_order_of_times_changes_no_second_moments():
    order = np.random.default_rng(0).permutation(len(PAST))
    one, other = (past_at(fields, np.arange(36)) for fields in (PAST, PAST[order]))
    for name in ("anomalies", "displaced"):
        a, b = (getattr(past, name).flatten(0, 1) for past in (one, other))
        np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-9)


def test_displaced_fields_tell_of_correlations_and_not_of_local_sizes():
    past = past_at(PAST, np.arange(36))
    own = past.anomalies @ past.anomalies.mT / past.anomalies.shape[-1]
    new = past.displaced @ past.displaced.mT / past.displaced.shape[-1]
    np.testing.assert_allclose(new, own, atol=1e-6)


def test_long_histories_have_few_displaced_fields_or_none():
    for count in (10, 300, 600, 5000):
        fields = np.random.default_rng(0).standard_normal((count, 30, 3))
        displaced = History(PAST_POINTS, fields).displaced(POINTS, np.eye(3), 2)
        assert 2 * count * len(list(displaced)) <= MAX_SAMPLES


def test_recolored_samples_have_the_second_moments_of_anomalies():
    """Also where these vanish along a direction, or everywhere."""
    rng = np.random.default_rng(0)
    samples, anomalies = rng.standard_normal((4, 3, 50)), rng.standard_normal((4, 3, 9))
    anomalies[1, 2] = 0.0
    anomalies[2] = 0.0
    new = recolored(samples, anomalies)
    own = anomalies @ anomalies.swapaxes(1, 2) / 9
    np.testing.assert_allclose(new @ new.swapaxes(1, 2) / 50, own, atol=1e-6)


def test_a_history_does_not_tell_how_its_mean_changes():
    covariance = from_history(Tangent())
    terms = terms_of(covariance)
    assert isinstance(terms[-1], ChangeOfMean)
    assert terms_of(within_history(covariance)) == terms[:-1]
    few = within_history(covariance).parameters(3, 2)
    names = [parameter.name for parameter in covariance.parameters(3, 2)]
    assert names[: len(few)] == [parameter.name for parameter in few]


@pytest.mark.parametrize(("factor", "share"), [(-1.0, 0.0), (0.0, 0.0), (0.6, 0.6), (2.0, 1.0)])
def test_the_share_of_the_mean_is_that_of_the_observations(factor, share):
    past = History(PAST_POINTS, PAST)
    mean = past.mean(POINTS)
    found = past.with_mean_of(POINTS, factor * mean, np.ones(36))
    assert found.mean_share == pytest.approx(share)
    np.testing.assert_allclose(found.mean(NEW), share * past.mean(NEW), atol=1e-12)


def test_a_history_without_mean_has_no_share_of_it():
    fields = np.concatenate([PAST, -PAST])
    past = History(PAST_POINTS, fields - fields.mean(axis=0)).with_mean_of(
        POINTS, VECTORS, np.ones(36)
    )
    assert np.isfinite(past.mean(POINTS)).all() and np.abs(past.mean(POINTS)).max() < 1e-6


def test_answers_turn_with_the_space():
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    expected, std = interpolator(PAST).fit(POINTS, VECTORS).predict(NEW, return_cov=True)
    model = interpolator(PAST @ turn.T, PAST_POINTS @ turn.T).fit(POINTS @ turn.T, VECTORS @ turn.T)
    field, covariances = model.predict(NEW @ turn.T, return_cov=True)
    np.testing.assert_allclose(field, expected @ turn.T, atol=1e-4)
    np.testing.assert_allclose(covariances, turn @ std @ turn.T, atol=1e-4)


@pytest.mark.parametrize("factor", [1e-9, 1000.0])
def test_answers_scale_with_the_fields(factor):
    expected = interpolator(PAST).fit(POINTS, VECTORS).predict(NEW)
    field = interpolator(factor * PAST).fit(POINTS, factor * VECTORS).predict(NEW)
    np.testing.assert_allclose(field / factor, expected, atol=1e-4)


def test_the_order_of_points_changes_nothing():
    expected = interpolator(PAST).fit(POINTS, VECTORS).predict(NEW)
    rng = np.random.default_rng(0)
    order, past_order = rng.permutation(len(POINTS)), rng.permutation(len(PAST_POINTS))
    model = interpolator(PAST[:, past_order], PAST_POINTS[past_order])
    field = model.fit(POINTS[order], VECTORS[order]).predict(NEW)
    np.testing.assert_allclose(field, expected, atol=1e-4)


def test_other_units_keep_the_share_of_the_mean():
    past = History(PAST_POINTS, PAST, mean_share=0.3)
    scaled = past.scaled(np.ones(3), 2.0, 5.0)
    assert scaled.mean_share == 0.3
    np.testing.assert_allclose(scaled.mean((POINTS - 1) / 2), 5 * past.mean(POINTS), atol=1e-10)
