"""The ground truth is itself checked, against formulas it does not use."""

from math import pi

import numpy as np
import pytest
from scipy import special, stats

from tangentbundle import manifolds
from tangentbundle.manifolds import (
    Ellipsoid,
    FlatTorus,
    KleinBottle,
    Manifold,
    Product,
    Sphere,
    SwissRoll,
    Torus,
)

RNG = np.random.default_rng
TURN = (0.0, 2 * pi)
ROLL = SwissRoll(turns=(0.5, 1.5), width=3.0)

# Independent parametrisations: they accept complex numbers, so that derivatives are exact.


def torus(u, v, R=0.3, r=0.1):
    return [(R + r * np.cos(v)) * np.cos(u), (R + r * np.cos(v)) * np.sin(u), r * np.sin(v)]


def klein4(u, v, R=1.0, r=0.4):
    x, y, z = torus(u, v, R, r)
    return [x, y, z * np.cos(u / 2), z * np.sin(u / 2)]


def klein3(u, v, R=1.0, r=0.4):
    f = R + r * (np.cos(u / 2) * np.sin(v) - np.sin(u / 2) * np.sin(2 * v))
    z = r * (np.sin(u / 2) * np.sin(v) + np.cos(u / 2) * np.sin(2 * v))
    return [f * np.cos(u), f * np.sin(u), z]


def ellipsoid(u, v, axes=(1.0, 0.8, 0.6)):
    x = [np.sin(v) * np.cos(u), np.sin(v) * np.sin(u), np.cos(v)]
    return [a * b for a, b in zip(axes, x, strict=True)]


SURFACES = [  # manifold, parametrisation, range of u, range of v
    (Torus(), torus, TURN, TURN),
    (KleinBottle(4), klein4, TURN, TURN),
    (KleinBottle(3), klein3, TURN, TURN),
    (Ellipsoid(), ellipsoid, TURN, (0.0, pi)),
    (Ellipsoid((0.3, 2.0, 1.0)), lambda u, v: ellipsoid(u, v, (0.3, 2.0, 1.0)), TURN, (0.0, pi)),
    (Sphere(2, 1.5), lambda u, v: ellipsoid(u, v, 3 * (1.5,)), TURN, (0.0, pi)),
    (
        FlatTorus((1, 2)),
        lambda u, v: (np.cos(u), np.sin(u), 2 * np.cos(v), 2 * np.sin(v)),
        TURN,
        TURN,
    ),
    (ROLL, lambda t, h: [t * np.cos(t), t * np.sin(t), h + 0 * t], (pi, 3 * pi), (0.0, 3.0)),
]
MANIFOLDS = [
    *(row[0] for row in SURFACES),
    Sphere(1, 0.5),
    Sphere(3),
    Sphere(7, 2.0),
    Ellipsoid((1.0, 0.5)),
    Ellipsoid((1.0, 0.7, 0.5, 0.3, 2.0)),
    FlatTorus((0.5,)),
    FlatTorus((1.0, 0.3, 2.0)),
    Product(Sphere(2), Torus()),
    Product(Sphere(2, 2.0), Sphere(1), ROLL),
]
WITH_TRANSPORT = [
    manifold
    for manifold in MANIFOLDS
    if not any(
        isinstance(factor, Torus | KleinBottle | Ellipsoid) for factor in getattr(manifold, "factors", [manifold])
    )
]
surfaces = pytest.mark.parametrize("manifold, chart, us, vs", SURFACES, ids=[repr(s[0]) for s in SURFACES])


def over(items):
    return pytest.mark.parametrize("manifold", items, ids=repr)


def jacobian(chart, u, v):
    """Points (n, D) and derivatives (n, D, 2), exact to rounding, by complex steps."""
    h = 1e-30j
    columns = [np.imag(chart(u + h, v + 0j)) / 1e-30, np.imag(chart(u + 0j, v + h)) / 1e-30]
    return np.array(chart(u, v)).T, np.stack(columns, axis=-1).transpose(1, 0, 2)


def quadrature(chart, us, vs, order=200):
    """Points and area weights of the whole surface, by Gauss-Legendre on the chart."""
    x, w = special.roots_legendre(order)
    (u, wu), (v, wv) = (((b - a) / 2 * x + (a + b) / 2, (b - a) / 2 * w) for a, b in (us, vs))
    points, J = jacobian(chart, np.repeat(u, order), np.tile(v, order))
    return points, np.outer(wu, wv).ravel() * np.sqrt(np.linalg.det(J.swapaxes(1, 2) @ J))


def projectors(frames):
    return frames @ frames.swapaxes(1, 2)


def residual(manifold, x):
    """The defining equation, zero on the manifold."""
    match manifold:
        case Sphere():
            return np.linalg.norm(x, axis=1) - manifold.radius
        case Ellipsoid():
            return np.sum((x / manifold.axes) ** 2, axis=1) - 1
        case Torus():
            return np.hypot(np.hypot(x[:, 0], x[:, 1]) - manifold.R, x[:, 2]) - manifold.r
        case FlatTorus():
            return np.hypot(x[:, ::2], x[:, 1::2]) - manifold.radii
        case KleinBottle(ambient_dim=4):
            u = np.arctan2(x[:, 1], x[:, 0])
            tube = np.linalg.norm(x[:, 2:], axis=1), np.hypot(x[:, 0], x[:, 1]) - manifold.R
            twist = x[:, 2] * np.sin(u / 2) - x[:, 3] * np.cos(u / 2)
            return np.stack([np.hypot(*tube) - manifold.r, twist])
        case KleinBottle():  # sin^2 2v = 4 sin^2 v (1 - sin^2 v)
            u, f = np.arctan2(x[:, 1], x[:, 0]), np.hypot(x[:, 0], x[:, 1]) - manifold.R
            p = (np.cos(u / 2) * f + np.sin(u / 2) * x[:, 2]) / manifold.r
            q = (np.cos(u / 2) * x[:, 2] - np.sin(u / 2) * f) / manifold.r
            return q**2 - 4 * p**2 * (1 - p**2)
        case SwissRoll():
            t = np.hypot(x[:, 0], x[:, 1])
            assert np.all((x[:, 2] >= 0) & (x[:, 2] <= manifold.width))
            assert np.all((t / (2 * pi) >= manifold.turns[0]) & (t / (2 * pi) <= manifold.turns[1]))
            return np.exp(1j * t) - (x[:, 0] + 1j * x[:, 1]) / t
        case Product():
            ends = np.cumsum([f.ambient_dim for f in manifold.factors])[:-1]
            parts = zip(manifold.factors, np.split(x, ends, axis=1), strict=True)
            return np.concatenate([np.ravel(residual(f, y)) for f, y in parts])


@over(MANIFOLDS)
def test_samples_lie_on_the_manifold_and_follow_the_seed(manifold):
    x = manifold.sample(300, seed=3)
    assert x.shape == (300, manifold.ambient_dim) and x.dtype == np.float64
    np.testing.assert_allclose(residual(manifold, x), 0, atol=1e-12)
    np.testing.assert_array_equal(x, manifold.sample(300, seed=3))
    np.testing.assert_array_equal(x, manifold.sample(300, seed=RNG(3)))
    assert not np.array_equal(x, manifold.sample(300, seed=4))
    assert manifold.sample(5, seed=0, dtype=np.float32).dtype == np.float32
    assert eval(repr(manifold), vars(manifolds)).__dict__.keys() == vars(manifold).keys()


@over(MANIFOLDS)
def test_frames_are_orthonormal_and_want_good_points(manifold):
    x = manifold.sample(300, seed=1)
    F = manifold.frames(x)
    assert F.shape == (300, manifold.ambient_dim, manifold.dim)
    np.testing.assert_allclose(F.swapaxes(1, 2) @ F - np.eye(manifold.dim), 0, atol=1e-12)
    with pytest.raises(ValueError, match="shape"):
        manifold.frames(x[0])
    with pytest.raises(ValueError, match="finite"):
        manifold.frames(x * np.nan)


@surfaces
def test_frames_span_the_derivatives_of_the_chart(manifold, chart, us, vs):
    rng = RNG(0)
    x, J = jacobian(chart, rng.uniform(*us, 500), rng.uniform(*vs, 500))
    J /= np.linalg.norm(J, axis=1, keepdims=True)
    np.testing.assert_allclose(projectors(manifold.frames(x)) @ J, J, atol=1e-12)


@over([Sphere(1), Sphere(2), Sphere(5, 3.0), Ellipsoid((1, 2, 3, 4)), Ellipsoid((1, 3))])
def test_hypersurface_frames_are_orthogonal_to_the_gradient_and_oriented(manifold):
    x = np.concatenate([manifold.sample(200, seed=0), 3 * np.eye(manifold.ambient_dim)])
    normal = x / np.square(getattr(manifold, "axes", 1.0))
    F = manifold.frames(x)
    np.testing.assert_allclose(np.einsum("ni,nij->nj", normal, F), 0, atol=1e-12)
    assert np.all(np.linalg.det(np.concatenate([normal[:, :, None], F], axis=2)) > 0)


@surfaces
def test_volume_and_uniformity_against_quadrature(manifold, chart, us, vs):
    x, weight = quadrature(chart, us, vs)
    assert manifold.volume == pytest.approx(weight.sum(), rel=1e-9)
    y = manifold.sample(40_000, seed=7)
    for feature in (
        lambda x: x,
        lambda x: x**2,
        lambda x: x**4,
        lambda x: abs(x[:, :1] * x[:, -1:]),
    ):
        mean = weight @ feature(x) / weight.sum()
        error = feature(y).std(axis=0) / np.sqrt(len(y)) + 1e-9
        assert np.all(abs(feature(y).mean(axis=0) - mean) < 4.5 * error)


def test_volumes_in_closed_form():
    assert [Sphere(d).volume for d in (1, 2, 3, 4)] == pytest.approx(
        [2 * pi, 4 * pi, 2 * pi**2, 8 * pi**2 / 3], rel=1e-14
    )
    assert Sphere(3, 2.0).volume == pytest.approx(16 * pi**2)
    assert Torus(3, 1).volume == pytest.approx(12 * pi**2)
    assert FlatTorus((2, 3)).volume == pytest.approx(24 * pi**2)
    assert Product(Sphere(2), Sphere(1, 3.0)).volume == pytest.approx(24 * pi**2)
    assert Ellipsoid((5, 2)).volume == pytest.approx(20 * special.ellipe(1 - 4 / 25), rel=1e-13)
    for a, b, c in [(1.0, 0.8, 0.6), (1.0, 1e-3, 1e-6), (40.0, 3.0, 3.0)]:
        area = 4 * pi * special.elliprg((a * b) ** 2, (a * c) ** 2, (b * c) ** 2)
        assert Ellipsoid((a, b, c)).volume == pytest.approx(area, rel=1e-12)
    assert Ellipsoid(6 * (2.0,)).volume == pytest.approx(Sphere(5, 2.0).volume, rel=1e-13)
    x = Sphere(4).sample(200_000, seed=0)  # a Monte Carlo mean of the stretch of the sphere
    axes = np.array((1.0, 0.7, 0.5, 0.3, 2.0))
    stretch = np.linalg.norm(x / axes, axis=1).mean() * axes.prod() * Sphere(4).volume
    assert Ellipsoid(axes).volume == pytest.approx(stretch, rel=5e-3)


def test_known_distributions():
    theta, phi = Torus().angles(Torus().sample(100_000, seed=0))
    assert np.cos(theta).mean() == pytest.approx(0.1 / 0.6, abs=4 / np.sqrt(2e5))  # r / 2R
    assert stats.kstest(phi, stats.uniform(-pi, 2 * pi).cdf).pvalue > 1e-3
    assert stats.kstest(Sphere(2).sample(5000, 0)[:, 2], stats.uniform(-1, 2).cdf).pvalue > 1e-3
    t = np.hypot(*ROLL.sample(5000, 0)[:, :2].T)
    arc = (t * np.sqrt(1 + t * t) + np.log(t + np.sqrt(1 + t * t))) / 2
    start = (pi * np.sqrt(1 + pi * pi) + np.log(pi + np.sqrt(1 + pi * pi))) / 2
    assert stats.kstest(arc - start, stats.uniform(0, ROLL.length).cdf).pvalue > 1e-3


@pytest.mark.parametrize("ratio", [1.0, 3.0, 10.0])
def test_nonuniform_density_is_linear_with_the_given_ratio(ratio):
    z = Sphere(2, 2.0).sample_nonuniform(20_000, ratio, seed=0)[:, 2] / 2
    c = (ratio - 1) / (ratio + 1)
    assert (1 + c) / (1 - c) == pytest.approx(ratio)
    assert stats.kstest(z, lambda z: (z + 1) / 2 + c * (z**2 - 1) / 4).pvalue > 1e-3


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
    ids=repr,
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
    return list(zip(*(a.tolist() for a in np.unique(values.round(9), return_counts=True)), strict=True))


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
    np.testing.assert_allclose(FlatTorus(radii).vector_spectrum(301), np.repeat(expected, 3)[:301], atol=1e-12)
    L, W = ROLL.length / pi, ROLL.width / pi
    grid = np.add.outer((np.arange(99) / L) ** 2, (np.arange(99) / W) ** 2)
    np.testing.assert_allclose(ROLL.scalar_spectrum(50), np.sort(grid.ravel())[:50])
    np.testing.assert_allclose(ROLL.vector_spectrum(51), np.repeat(np.sort(grid.ravel()), 2)[:51])


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_product_spectra_against_brute_force(k):
    a, b, c = Sphere(2), Sphere(1, 0.8), Sphere(3, 1.5)
    s, v = ([getattr(m, f"{kind}_spectrum")(60) for m in (a, b, c)] for kind in ("scalar", "vector"))

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


def test_torus_fields():
    ring = Torus()
    x = ring.sample(100_000, seed=0)
    tangent, paper = (
        np.einsum("nij,ni->nj", ring.frames(x), field) for field in (ring.tangent_field(x), ring.paper_field(x))
    )
    np.testing.assert_allclose(np.linalg.norm(tangent, axis=1), 1, atol=1e-12)
    assert 1 - np.sum(paper**2) / len(x) == pytest.approx(0.25, abs=0.005)
    theta, phi = ring.angles(x)
    np.testing.assert_allclose(torus(phi, theta), x.T, atol=1e-14)


@pytest.mark.parametrize("dim", [3, 4])
def test_klein_bottle_parameters_and_crossing(dim):
    klein, chart = KleinBottle(dim, R=2.0, r=0.5), {3: klein3, 4: klein4}[dim]
    x, params = klein.sample_with_parameters(2000, seed=0)
    np.testing.assert_allclose(np.array(chart(*params.T, 2.0, 0.5)).T, x, atol=1e-12)
    found = klein.parameters(x)
    np.testing.assert_allclose(np.exp(1j * (found - params)), 1, atol=1e-9)
    np.testing.assert_allclose(projectors(klein.frames(x)), projectors(klein.frames(x, params)), atol=1e-9)
    delicate = np.array([(1.0, v) for v in (pi / 2, -pi / 2, 1e-5, pi + 1e-5)])
    x_delicate = np.array(chart(*delicate.T, 2.0, 0.5)).T
    np.testing.assert_allclose(np.exp(1j * klein.parameters(x_delicate)), np.exp(1j * delicate), atol=1e-14)
    crossing = np.array(chart(1.0, 0.0, 2.0, 0.5))[None]
    sheets = [klein.frames(crossing, [[1.0, v]]) for v in (0.0, pi)]
    if dim == 3:
        assert abs(projectors(sheets[0]) - projectors(sheets[1])).max() > 0.1
        with pytest.raises(ValueError, match="params"):
            klein.frames(crossing)
    with pytest.raises(ValueError, match="params"):
        klein.frames(x, params[1:])


@pytest.mark.parametrize(
    "manifold, chart, turns",
    [(Torus(), torus, 1), (KleinBottle(4), klein4, -1), (KleinBottle(3), klein3, -1)],
    ids=["torus", "klein4", "klein3"],
)
def test_orientation_along_a_loop(manifold, chart, turns):
    u = np.linspace(0, 2 * pi, 400)
    v = 0.3 * np.cos(u / 2) if turns < 0 else 0.3 + 0 * u  # (2 pi, -v) is (0, v) on a Klein bottle
    x = np.array(chart(u, v)).T
    np.testing.assert_allclose(x[0], x[-1], atol=1e-12)
    F = manifold.frames(x)
    steps = np.linalg.det(F[1:].swapaxes(1, 2) @ F[:-1])
    assert np.all(abs(steps) > 0.9)
    closing = np.linalg.det(F[0].T @ F[-1])
    assert np.prod(np.sign(steps)) * np.sign(closing) == turns
    assert manifold.orientable == (turns > 0)


def test_flags_and_names():
    assert repr(Sphere()) == "Sphere(dim=2, radius=1.0)"
    assert repr(Product(Torus(), FlatTorus((1,)))) == "Product(Torus(R=0.3, r=0.1), FlatTorus(radii=(1.0,)))"
    assert not Product(Sphere(2), KleinBottle()).orientable
    assert Product(Sphere(2), ROLL).has_boundary and not Product(Sphere(2)).has_boundary
    for kind in (Sphere, Torus, FlatTorus, KleinBottle, Ellipsoid, SwissRoll, Product):
        assert issubclass(kind, Manifold) and kind.__final__
    for unknown in (Torus(), KleinBottle(), Ellipsoid(), Product(Sphere(2), Torus())):
        for call in (
            lambda m: m.transport(m.sample(2, 0), m.sample(2, 1)),
            lambda m: m.scalar_spectrum(3),
            lambda m: m.vector_spectrum(3),
        ):
            with pytest.raises(NotImplementedError, match="closed form"):
                call(unknown)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Sphere(0),
        lambda: Sphere(2.5),
        lambda: Sphere(2, radius=0),
        lambda: Sphere(2, radius=np.nan),
        lambda: Torus(0.1, 0.3),
        lambda: Torus(0.1, 0.1),
        lambda: Torus(0.3, -0.1),
        lambda: FlatTorus(()),
        lambda: FlatTorus((1, -1)),
        lambda: KleinBottle(5),
        lambda: KleinBottle(4, R=1, r=1),
        lambda: KleinBottle(3, R=1, r=0.8),
        lambda: Ellipsoid((1,)),
        lambda: Ellipsoid((1, 0, 2)),
        lambda: SwissRoll(turns=(2, 1)),
        lambda: SwissRoll(turns=(0, 1)),
        lambda: SwissRoll(turns=(1, 2, 3)),
        lambda: SwissRoll(width=-1),
        lambda: Product(),
        lambda: Product([Sphere(2)]),
        lambda: Sphere().sample(0),
        lambda: Torus().sample(2.5),
        lambda: Torus().sample_with_parameters(-1),
        lambda: Sphere().sample_nonuniform(5, 0.5),
        lambda: Sphere().sample_nonuniform(0, 2.0),
        lambda: Sphere().vector_spectrum(0),
        lambda: SwissRoll().scalar_spectrum(1.5),
        lambda: Product(Sphere(2)).vector_spectrum(-2),
        lambda: Sphere().gradient_field(np.eye(3), 0),
        lambda: Sphere().gradient_eigenvalue(0),
        lambda: Torus().angles(np.zeros((2, 4))),
    ],
)
def test_bad_arguments(bad):
    with pytest.raises(ValueError, match=r"^expected .*, got .*; .*\.$"):
        bad()
