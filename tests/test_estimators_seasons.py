"""What is left of a mean in another season: parts of a field around an axis, and what is told of them."""

import numpy as np
import pytest

import tangentbundle as tb
from tangentbundle.estimators.seasons import LEFT, faded
from tangentbundle.manifolds import Sphere, Torus

SPHERE = Sphere(2)


def left_of(mean, points, manifold=SPHERE, left=LEFT):
    return faded(mean, points, manifold.frames(points), np.ones(len(points)), manifold.axis, left)


def tangent(vectors, points, manifold=SPHERE):
    frames = manifold.frames(points)
    return np.einsum("nij,nkj,nk->ni", frames, frames, vectors)


def rms(field):
    return float(np.sqrt(np.square(field).sum(axis=1).mean()))


def mirror(field):
    return field * [1, 1, -1]


@pytest.mark.parametrize("manifold", [SPHERE, Torus()], ids=str)
def test_parts_add_up_and_are_parts(manifold):
    """All of a mean is left by shares of one; a part of a part is itself or nothing."""
    points = manifold.sample(3000, seed=0)
    points = np.concatenate([points, mirror(points)])
    vectors = np.random.default_rng(0).standard_normal((6000, 3)) + np.cross([0, 0, 1.0], points)
    mean = tangent(vectors, points, manifold)
    np.testing.assert_allclose(left_of(mean, points, manifold, (1, 1, 1)), mean, atol=1e-12)
    parts = [left_of(mean, points, manifold, tuple(row)) for row in np.eye(3)]
    np.testing.assert_allclose(sum(parts), mean, atol=1e-12)
    year, season, _ = parts
    half = len(points) // 2
    np.testing.assert_allclose(mirror(year[half:]), year[:half], atol=1e-9)
    np.testing.assert_allclose(mirror(season[half:]), -season[:half], atol=1e-9)


def test_a_torus_has_two_circles_at_a_height():
    """A flow around the outer rim alone stays there: heights alone would spread it to the inner one."""
    torus = Torus()
    points = torus.sample(20000, seed=0)
    outer = np.hypot(points[:, 0], points[:, 1]) > torus.R
    mean = np.cross([0, 0, 1.0], points) * outer[:, None]
    kept = left_of(mean, points, torus)
    far = np.abs(np.hypot(points[:, 0], points[:, 1]) - torus.R) > 0.5 * torus.r
    assert rms((kept - mean)[far]) < 0.02 * rms(mean)


def test_where_the_mirror_image_is_not_known_halves_are_expected():
    points = SPHERE.sample(8000, seed=0)
    points = points[points[:, 2] > 0.4]
    around = np.cross([0, 0, 1.0], points)
    inside = points[:, 2] > 0.6
    expected = (LEFT[0] + LEFT[1]) / 2 * around
    assert rms((left_of(around, points) - expected)[inside]) < 0.03 * rms(around)


def test_turning_everything_turns_the_answer():
    """Rotations about the axis, and bases turned at each point."""
    points = SPHERE.sample(3000, seed=0)
    mean = tangent(np.random.default_rng(0).standard_normal((3000, 3)), points)
    c, s = np.cos(1.0), np.sin(1.0)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    plain, one = left_of(mean, points), np.ones(3000)
    np.testing.assert_allclose(left_of(mean @ turn.T, points @ turn.T), plain @ turn.T, atol=1e-9)
    angles = np.random.default_rng(1).uniform(0, 2 * np.pi, 3000)
    turns = np.moveaxis(np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]), 2, 0)
    again = faded(mean, points, SPHERE.frames(points) @ turns, one, SPHERE.axis)
    np.testing.assert_allclose(again, plain, atol=1e-9)


def test_half_a_year_later():
    """The part of the season has turned round: the interpolator is told so by few stations."""
    rng = np.random.default_rng(0)
    points = SPHERE.sample(600, seed=1)
    year = 2 * np.cross([0, 0, 1.0], points)
    season = year * points[:, 2:]
    weather = [SPHERE.gradient_field(points, k) * rng.standard_normal() for k in range(1, 4) for _ in range(20)]
    past = np.stack([year + season + 0.3 * field for field in weather])
    now = year - season
    model = tb.FieldInterpolator(manifold=SPHERE, history=past, history_points=points, random_state=0)
    model.fit(points[:40], now[:40])
    assert model.fitted_.problem.past.expected is not None
    assert rms((model.predict(points) - now)[40:]) < 0.1 * rms((year + season - now)[40:])
