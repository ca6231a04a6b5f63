"""A forecaster that learns at more places than it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError, NonFiniteError, ShapeError
from tangentbundle.estimators.places import copies
from tangentbundle.estimators.tangents import TangentSpaces

SPHERE = tb.manifolds.Sphere(2)
POINTS = SPHERE.sample(80, seed=0)
EVERYWHERE = SPHERE.sample(1500, seed=7)


def error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.square(a - b).sum(axis=-1).mean())


def turning(points: np.ndarray, count: int, memory: float = 0.8, seed: int = 0) -> np.ndarray:
    """Noise whose memory turns it, by an angle that changes from place to place, (T, n, 3)."""
    rng, frames = np.random.default_rng(seed), SPHERE.frames(points)
    angle = 2 * points[:, 2:]
    series = [np.zeros_like(points)]
    for _ in range(count + 20):
        noise = np.einsum("nij,nj->ni", frames, rng.standard_normal((len(points), 2)))
        turned = np.cos(angle) * series[-1] + np.sin(angle) * np.cross(points, series[-1])
        series.append(memory * turned + np.sqrt(1 - memory**2) * noise)
    return np.stack(series[21:])


def test_more_places_teach():
    series = turning(np.concatenate([POINTS, EVERYWHERE]), 140)
    here, starts = series[:, :80], range(60, 140, 4)
    errors = []
    for more in (None, (EVERYWHERE, series[:60, 80:])):
        forecaster = tb.FieldForecaster(manifold=SPHERE, random_state=0).fit(POINTS, here[:60], more=more)
        forecasts = np.stack([forecaster.predict(here[s - 10 : s], 1) for s in starts])
        errors.append(error(forecasts, np.stack([here[s : s + 1] for s in starts])))
    least = 2 * (1 - 0.8**2)
    assert errors[1] - least < 0.5 * (errors[0] - least)


def test_more_places_change_nothing_else():
    series = turning(np.concatenate([POINTS, EVERYWHERE]), 90)
    here, there = series[:, :80], series[:70, 80:]
    times = np.delete(np.arange(70), [30, 40, 41])
    forecaster = tb.FieldForecaster(manifold=SPHERE, random_state=0)
    forecaster.fit(POINTS, here[times], times=times, more=(EVERYWHERE, there[times]))
    future, std = forecaster.predict(here[70:80], 30, return_std=True)
    assert future.shape == std.shape == (30, 80, 3) and np.isfinite(future).all() and (std > 0).all()
    assert np.abs(np.einsum("tni,ni->tn", future, POINTS)).max() < 1e-9
    assert forecaster.predict(here[79:80], 3).shape == (3, 80, 3)
    low, high = forecaster.predict_interval(here[70:80], 3)
    assert (low <= high).all()
    again = clone(forecaster).fit(POINTS, 7 * here[times], times=times, more=(EVERYWHERE, 7 * there[times]))
    assert np.allclose(again.predict(7 * here[70:80], 30), 7 * future, atol=1e-3)
    # points that are given twice are known once
    both = np.concatenate([POINTS, EVERYWHERE]), series[times]
    same = clone(forecaster).fit(POINTS, here[times], times=times, more=both).predict(here[70:80], 30)
    assert np.allclose(same, future, atol=1e-6)


def test_neighbourhoods_are_moved_as_they_are():
    known = TangentSpaces.of(np.concatenate([POINTS, SPHERE.sample(40_000, seed=3)]), manifold=SPHERE)
    spaces = known.part(np.arange(80))
    near = spaces.tree.query(POINTS, k=9)[1]
    here, *others = copies(spaces, known, near, 0.3, np.random.default_rng(0))
    spin = np.einsum("nij,ni->nj", known.frames, np.cross([0.0, 0.0, 1.0], known.points))
    for copy in others[:4]:
        moved = known.points[copy.index]
        assert np.abs(moved @ moved.transpose(0, 2, 1) - POINTS[near] @ POINTS[near].transpose(0, 2, 1)).max() < 0.1
        assert np.linalg.norm(moved[:, 0] - POINTS, axis=1).max() < 1.5
        # lengths and angles at the place itself are kept: the map from there is a rotation
        turn = copy.maps[:, 0]
        assert np.allclose(turn @ turn.transpose(0, 2, 1), np.eye(2), atol=1e-9)
    assert np.allclose(here.fields(spin[None])[:, 0, 0], spin[:80])


SERIES = turning(POINTS, 40)


@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        (EVERYWHERE, InvalidInputError, "pair"),
        ((EVERYWHERE, np.zeros((40, 7, 3))), ShapeError, "1500"),
        ((EVERYWHERE[:, :2], np.zeros((40, 1500, 2))), ShapeError, "(m, 3)"),
        ((EVERYWHERE, np.zeros((41, 1500, 3))), ShapeError, "41"),
        ((EVERYWHERE, np.full((40, 1500, 3), np.nan)), NonFiniteError, "NaN"),
    ],
)
def test_bad_other_places(more, kind, words):
    with pytest.raises(kind) as caught:
        tb.FieldForecaster(manifold=SPHERE).fit(POINTS, SERIES, more=more)
    assert words in str(caught.value)
