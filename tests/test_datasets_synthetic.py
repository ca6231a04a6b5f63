"""The paper's torus field and its clouds of tori and Klein bottles."""

import numpy as np
import pytest

from tangentbundle import errors
from tangentbundle.datasets import torus_field, torus_klein_clouds
from tangentbundle.manifolds import KleinBottle, Torus


def tangent_part(sample):
    return np.einsum("nda,nea,ne->nd", sample.frames, sample.frames, sample.vectors)


@pytest.fixture(scope="module")
def large():
    return {
        field: torus_field(40_000, field, seed=0)
        for field in (Torus.paper_field, Torus.tangent_field)
    }


def test_points_are_on_the_torus_and_uniform_by_area(large):
    points = large[Torus.tangent_field].points
    assert np.allclose(
        (np.hypot(points[:, 0], points[:, 1]) - 0.3) ** 2 + points[:, 2] ** 2, 0.1**2
    )
    theta, phi = Torus().angles(points)
    spread = 5 / np.sqrt(2 * len(points))
    assert abs(np.cos(theta).mean() - 0.1 / (2 * 0.3)) < spread  # zero if uniform in angle
    assert abs(np.sin(theta).mean()) < spread and abs(np.exp(1j * phi).mean()) < 2 * spread


def test_one_field_is_tangent_and_the_printed_one_is_a_quarter_normal(large):
    for field, normal in ((Torus.tangent_field, 0.0), (Torus.paper_field, 0.25)):
        sample = large[field]
        assert np.allclose(np.linalg.norm(sample.vectors, axis=1), 1)
        assert np.isclose(
            1 - (tangent_part(sample) ** 2).sum(axis=1).mean(), normal, atol=0.01 * bool(normal)
        )


def test_frames_are_tangent(large):
    sample = large[Torus.tangent_field]
    theta, phi = Torus().angles(sample.points)
    normal = np.stack(
        [np.cos(theta) * np.cos(phi), np.cos(theta) * np.sin(phi), np.sin(theta)], axis=1
    )
    assert np.abs(np.einsum("nd,nda->na", normal, sample.frames)).max() < 1e-12
    assert np.allclose(sample.frames.swapaxes(1, 2) @ sample.frames, np.eye(2))


def test_the_count_is_binomial_around_n():
    rng = np.random.default_rng(0)
    counts = [len(torus_field(100, seed=rng).points) for _ in range(300)]
    assert abs(np.mean(counts) - 100) < 5 * 10 / np.sqrt(300) and 7 < np.std(counts) < 13
    assert np.array_equal(torus_field(50, seed=3).points, torus_field(50, seed=3).points)


def test_noise_has_its_variance_in_every_direction(large):
    clean = large[Torus.paper_field]
    noisy = clean.noisy(0.3, seed=1)
    error = noisy.vectors - clean.vectors
    assert (
        np.allclose(np.cov(error.T), 0.09 * np.eye(3), atol=0.005) and noisy.points is clean.points
    )


def test_clouds_are_as_the_paper_says():
    clouds, labels = torus_klein_clouds(400, points=100, seed=0)
    assert len(clouds) == 400 and abs(labels.mean() - 0.5) < 0.125
    sizes = np.array([len(p) for p in clouds])
    assert abs(sizes.mean() - 100) < 2.5 and sizes.std() > 7
    for label in (0, 1):
        cloud = np.concatenate([p for p, y in zip(clouds, labels, strict=True) if y == label])
        low, high = cloud.min(axis=0), cloud.max(axis=0)
        assert np.abs(cloud).max() <= 0.5 + 1e-4 and np.isclose((high - low).max(), 1, atol=0.01)
    first = int(np.flatnonzero(labels == 0)[0])
    p = clouds[first] * 0.8  # scaled by its diameter
    assert np.allclose((np.hypot(p[:, 0], p[:, 1]) - 0.3) ** 2 + p[:, 2] ** 2, 0.1**2)


@pytest.mark.parametrize("stretch", [False, True])
def test_surfaces_fill_the_unit_cube(stretch):
    """With one factor the longest side is one and proportions are those of the surface; otherwise
    all sides are one."""
    clouds, labels = torus_klein_clouds(2, points=20_000, seed=2, stretch=stretch)
    for label, surface in enumerate((Torus(), KleinBottle(3))):
        sides = np.ptp(clouds[int(np.flatnonzero(labels == label)[0])], axis=0)
        free = np.ptp(surface.sample(20_000, seed=0), axis=0)
        expected = np.ones(3) if stretch else free / free.max()
        np.testing.assert_allclose(sides, expected, atol=0.02)


def test_the_same_seed_draws_the_same_clouds():
    clouds, again = (torus_klein_clouds(50, points=10, seed=1)[0] for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(clouds, again, strict=True))


@pytest.mark.parametrize(
    "call",
    [
        lambda: torus_field(0.5),
        lambda: torus_field(float("nan")),
        lambda: torus_field(10, seed=0).noisy(-1),
        lambda: torus_klein_clouds(0),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(errors.InvalidInputError):
        call()
