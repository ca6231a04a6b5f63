"""The ground truth is itself checked, against formulas it does not use."""

from math import pi

import numpy as np
import pytest
from charts import (
    MANIFOLDS,
    RNG,
    ROLL,
    jacobian,
    klein3,
    klein4,
    over,
    quadrature,
    surfaces,
    torus,
)
from scipy import special, stats
from spaces import projectors

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
    u, v = rng.uniform(*us, 500), rng.uniform(*vs, 500)
    x, J = jacobian(chart, u, v)
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


def test_torus_fields():
    ring = Torus()
    x = ring.sample(100_000, seed=0)
    tangent, paper = (
        np.einsum("nij,ni->nj", ring.frames(x), field)
        for field in (ring.tangent_field(x), ring.paper_field(x))
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
    np.testing.assert_allclose(
        projectors(klein.frames(x)), projectors(klein.frames(x, params)), atol=1e-9
    )
    delicate = np.array([(1.0, v) for v in (pi / 2, -pi / 2, 1e-5, pi + 1e-5)])
    x_delicate = np.array(chart(*delicate.T, 2.0, 0.5)).T
    np.testing.assert_allclose(
        np.exp(1j * klein.parameters(x_delicate)), np.exp(1j * delicate), atol=1e-14
    )
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
    [
        (Torus(), torus, 1),
        (KleinBottle(4), klein4, -1),
        (KleinBottle(3), klein3, -1),
    ],
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
    assert (
        repr(Product(Torus(), FlatTorus((1,))))
        == "Product(Torus(R=0.3, r=0.1), FlatTorus(radii=(1.0,)))"
    )
    assert not Product(Sphere(2), KleinBottle()).orientable
    assert Product(Sphere(2), ROLL).has_boundary and not Product(Sphere(2)).has_boundary
    for kind in (Sphere, Torus, FlatTorus, KleinBottle, Ellipsoid, SwissRoll, Product):
        assert issubclass(kind, Manifold) and (kind is Product or kind.__final__)
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
    with pytest.raises(ValueError, match=r"^(expected|every|.* must) .*got .*\.$"):
        bad()
