"""Transport, spectra and eigenfields of the exact manifolds, against formulas they do not use."""

from math import pi

import numpy as np
import pytest
from charts import (
    ROLL,
    WITH_TRANSPORT,
    over,
)
from spaces import projectors

from tangentbundle.manifolds import (
    FlatTorus,
    Product,
    Sphere,
)


@over(WITH_TRANSPORT)
def test_transport_is_an_isometry_of_tangent_spaces(manifold):
    x, y = manifold.sample(100, seed=0), manifold.sample(100, seed=1)
    P, F, G = manifold.transport(x, y), manifold.frames(x), manifold.frames(y)
    eye = np.eye(manifold.ambient_dim)
    np.testing.assert_allclose(P.swapaxes(1, 2) @ P - eye, 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(P), 1, atol=1e-12)
    np.testing.assert_allclose(projectors(G) @ P @ F, P @ F, atol=1e-11)
    np.testing.assert_allclose(manifold.transport(x, x) - eye, 0, atol=1e-12)
    np.testing.assert_allclose(manifold.transport(y, x) @ P - eye, 0, atol=1e-12)
    with pytest.raises(ValueError, match="shape"):
        manifold.transport(x, y[1:])


def slerp(x, y, t):
    a = np.arccos(x @ y / (x @ x))
    return (np.sin((1 - t) * a)[:, None] * x + np.sin(t * a)[:, None] * y) / np.sin(a)


def along_roll(x, y, s):
    """Straight line of the unrolled rectangle; the arclength is inverted by interpolation."""
    t = np.linspace(pi, 3 * pi, 200_001)
    arc = (t * np.sqrt(1 + t * t) + np.arcsinh(t)) / 2
    a, b = (np.interp(np.hypot(*p[:2]), t, arc) for p in (x, y))
    t = np.interp(a + s * (b - a), arc, t)
    return np.stack([t * np.cos(t), t * np.sin(t), x[2] + s * (y[2] - x[2])], axis=1)


@pytest.mark.parametrize(
    "manifold, geodesic",
    [
        (Sphere(2, 2.0), slerp),
        (Sphere(4), slerp),
        (Sphere(1), slerp),
        (
            FlatTorus((1, 2)),
            lambda x, y, t: np.hstack([slerp(*p, t) for p in ((x[:2], y[:2]), (x[2:], y[2:]))]),
        ),
        (ROLL, along_roll),
    ],
    ids=lambda value: None if callable(value) else repr(value),
)
def test_transport_is_the_limit_of_projections_along_the_geodesic(manifold, geodesic):
    for x, y in zip(manifold.sample(3, seed=5), manifold.sample(3, seed=6), strict=True):
        path = geodesic(x, y, np.linspace(0, 1, 3001))
        np.testing.assert_allclose(path[-1], y, atol=1e-6)
        moved = manifold.frames(x[None])[0]
        expected = manifold.transport(x[None], y[None])[0] @ moved
        for projector in projectors(manifold.frames(path)):
            moved = projector @ moved
        np.testing.assert_allclose(moved, expected, atol=5e-3)
        np.testing.assert_allclose(moved / np.linalg.norm(moved, axis=0), expected, atol=1e-3)


def test_antipodal_points_have_no_unique_transport_except_on_circles():
    pole = np.array([[0.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="antipodal"):
        Sphere(2).transport(pole, -pole)
    np.testing.assert_allclose(Sphere(1).transport(pole[:, 1:], -pole[:, 1:])[0], -np.eye(2))


def counted(values):
    return list(
        zip(*(a.tolist() for a in np.unique(values.round(9), return_counts=True)), strict=True)
    )


def test_sphere_spectra():
    assert counted(Sphere(2).vector_spectrum(30)) == [(1, 6), (5, 10), (11, 14)]
    assert counted(Sphere(2, 2.0).vector_spectrum(16)) == [(0.25, 6), (1.25, 10)]
    assert counted(Sphere(3).vector_spectrum(35)) == [(1, 4), (2, 6), (6, 9), (7, 16)]
    # SO(5) representations of highest weights (1), (1, 1), (2), (2, 1), (3), (3, 1)
    levels = [(1, 5), (3, 10), (7, 14), (9, 35), (15, 30), (17, 81)]
    assert counted(Sphere(4).vector_spectrum(175)) == levels
    assert counted(Sphere(1).vector_spectrum(5)) == [(0, 1), (1, 2), (4, 2)]
    assert counted(Sphere(2).scalar_spectrum(16)) == [(0, 1), (2, 3), (6, 5), (12, 7)]
    assert counted(Sphere(3).scalar_spectrum(30)) == [(0, 1), (3, 4), (8, 9), (15, 16)]
    assert counted(Sphere(1, 2.0).scalar_spectrum(5)) == [(0, 1), (0.25, 2), (1, 2)]
    assert len(Sphere(300).vector_spectrum(1000)) == 1000


def test_flat_spectra():
    assert counted(FlatTorus((1, 1)).scalar_spectrum(13)) == [(0, 1), (1, 4), (2, 4), (4, 4)]
    assert counted(FlatTorus((1, 1)).vector_spectrum(26)) == [(0, 2), (1, 8), (2, 8), (4, 8)]
    radii = np.array((1.0, 0.7, 1.9))
    waves = np.stack(np.meshgrid(*3 * [np.arange(-25, 26)]), -1).reshape(-1, 3) / radii
    expected = np.sort(np.sum(waves**2, axis=1))[:300]
    np.testing.assert_allclose(FlatTorus(radii).scalar_spectrum(300), expected, atol=1e-12)
    np.testing.assert_allclose(
        FlatTorus(radii).vector_spectrum(301), np.repeat(expected, 3)[:301], atol=1e-12
    )
    L, W = ROLL.length / pi, ROLL.width / pi
    grid = np.add.outer((np.arange(99) / L) ** 2, (np.arange(99) / W) ** 2)
    np.testing.assert_allclose(ROLL.scalar_spectrum(50), np.sort(grid.ravel())[:50])
    np.testing.assert_allclose(ROLL.vector_spectrum(51), np.repeat(np.sort(grid.ravel()), 2)[:51])


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_product_spectra_against_brute_force(k):
    a, b, c = Sphere(2), Sphere(1, 0.8), Sphere(3, 1.5)
    s, v = (
        [getattr(m, f"{kind}_spectrum")(60) for m in (a, b, c)] for kind in ("scalar", "vector")
    )

    def sums(*lists):
        return np.add.outer(np.add.outer(lists[0], lists[1]), lists[2]).ravel()

    scalar = np.sort(sums(*s))[:k]
    vector = [sums(v[0], s[1], s[2]), sums(s[0], v[1], s[2]), sums(s[0], s[1], v[2])]
    np.testing.assert_allclose(Product(a, b, c).scalar_spectrum(k), scalar)
    np.testing.assert_allclose(Product(a, b, c).vector_spectrum(k), np.sort(np.hstack(vector))[:k])


@pytest.mark.parametrize(
    "manifold, curvature, t, k",
    [
        (Sphere(2), 2, 0.04, 6_000),
        (Sphere(2, 2.0), 0.5, 0.16, 6_000),
        (Sphere(3), 6, 0.08, 20_000),
        (Sphere(4), 12, 0.1, 60_000),
        (Product(Sphere(2), Sphere(1)), 2, 0.12, 20_000),
    ],
    ids=repr,
)
def test_heat_trace_gives_dimension_volume_and_scalar_curvature(manifold, curvature, t, k):
    """sum exp(-t lambda) = rank volume / (4 pi t)^(d/2) (1 + t Scal / 6 + O(t^2)), t -> 0."""
    d = manifold.dim
    for rank, spectrum in ((1, manifold.scalar_spectrum(k)), (d, manifold.vector_spectrum(k))):
        assert np.all(np.diff(spectrum) >= 0) and np.exp(-t * spectrum[-1] / 2) < 1e-7

        def density(t, rank=rank, spectrum=spectrum):
            return np.exp(-t * spectrum).sum() * (4 * pi * t) ** (d / 2) / manifold.volume / rank

        slope, half = (density(t) - 1) / t, (density(t / 2) - 1) / (t / 2)
        assert 2 * half - slope == pytest.approx(curvature / 6, rel=0.02)


@pytest.mark.parametrize("dim, radius", [(1, 1.0), (2, 1.0), (2, 2.0), (3, 0.5), (5, 1.0)])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_gradient_fields_are_eigenfields(dim, radius, degree):
    """The Laplacian is the sum of second derivatives, transported back, along d geodesics."""
    sphere, h = Sphere(dim, radius), 0.01
    if degree > dim + 1:
        with pytest.raises(ValueError, match="degree"):
            sphere.gradient_field(sphere.sample(3), degree)
        return
    x = sphere.sample(50, seed=0)
    field, laplacian = sphere.gradient_field(x, degree), 0
    np.testing.assert_allclose(np.sum(field * x, axis=1), 0, atol=1e-14)
    for e in sphere.frames(x).transpose(2, 0, 1):
        for step, weight in zip((-2, -1, 0, 1, 2), (-1, 16, -30, 16, -1), strict=True):
            a = step * h
            y = np.cos(a) * x + np.sin(a) * radius * e
            speed = np.cos(a) * e - np.sin(a) * x / radius
            there = sphere.gradient_field(y, degree)
            back = there + np.sum(there * speed, axis=1, keepdims=True) * (e - speed)
            laplacian = laplacian + weight * back / (12 * (h * radius) ** 2)
    eigenvalue = sphere.gradient_eigenvalue(degree)
    np.testing.assert_allclose(-laplacian, eigenvalue * field, atol=1e-5 / radius**2)
    assert np.any(np.isclose(sphere.vector_spectrum(300), eigenvalue))
