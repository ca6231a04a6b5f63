"""Derivatives, curvature, Hodge Laplacian and Helmholtz-Hodge decomposition against exact
answers."""

import time
import warnings

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull

import tangentbundle as tb
from benchmarks.calculus import torus_parts
from tangentbundle.calculus import Derivatives, betti_number, singular_points, streamlines
from tangentbundle.calculus.boundary import has_boundary
from tangentbundle.calculus.closed_cloud import Poisson
from tangentbundle.calculus.fit import default_degree
from tangentbundle.errors import (
    AccuracyWarning,
    ConvergenceError,
    DTypeError,
    InvalidInputError,
    NotOrientableError,
    RankDeficientError,
    ShapeError,
    UndeterminedError,
)
from tangentbundle.geometry import cloud as cloud_module
from tangentbundle.testing import OperatorContract, random_orthogonal, relative_error

SPHERE, TORUS, FLAT = (
    tb.manifolds.Sphere(2),
    tb.manifolds.Torus(1.0, 0.4),
    tb.manifolds.FlatTorus((1.0, 1.0)),
)


def column(values):
    return np.asarray(values)[:, None, None]


def difference(got, expected):
    return relative_error(torch.as_tensor(got), torch.as_tensor(expected))


def sphere(n=1500, seed=0, **options):
    points = SPHERE.sample(n, seed=seed)
    return points, tb.TangentBundle.from_points(points, dim=2, **options)


MAPS = {
    "gradient": lambda calculus: calculus.gradient(),
    "rot": lambda calculus: calculus.rot(),
    "divergence": lambda calculus: calculus.divergence(),
    "curl": lambda calculus: calculus.curl(),
    "jacobian": lambda calculus: calculus.jacobian(),
    "adjoint": lambda calculus: -calculus.gradient().adjoint,
}


@pytest.mark.parametrize(("d", "degree"), [(1, 2), (2, 2), (2, 3), (3, 2)])
def test_polynomials_on_flat_space_are_exact(d, degree):
    """Also at the boundary, in frames that are turned at random."""
    rng = np.random.default_rng(d)
    y = rng.uniform(size=(400, d))
    plane = random_orthogonal(1, d + 1, seed=1)[0][:, :d]
    frames = plane @ random_orthogonal(len(y), d, seed=2)
    bundle = tb.TangentBundle.from_frames(y @ plane.T, frames)
    calculus = Derivatives(bundle, degree=degree)
    slope, form = rng.standard_normal(d), rng.standard_normal((d, d))
    f = y @ slope + np.einsum("na,ab,nb->n", y, form, y)
    gradient = (slope + y @ (form + form.T)) @ plane.T
    found = bundle.to_ambient(calculus.gradient() @ column(f))
    assert difference(found, gradient) < 1e-9
    jacobian = (calculus.jacobian() @ bundle.to_coordinates(gradient)).reshape(-1, d, d)
    turns = np.einsum("nia,ij->naj", frames, plane)
    assert difference(jacobian, turns @ (form + form.T) @ turns.transpose(0, 2, 1)) < 1e-8


def test_integration_by_parts_on_any_cloud():
    clouds = [SPHERE.sample(300, seed=0), tb.manifolds.KleinBottle().sample(300, seed=0)]
    clouds += [
        tb.manifolds.SwissRoll().sample(300, seed=0),
        tb.manifolds.Sphere(3).sample(300, seed=0),
    ]
    for cloud in clouds:
        bundle = tb.TangentBundle.from_points(cloud, dim=tb.TangentBundle.from_points(cloud).dim)
        gradient, mass = bundle.gradient(), bundle.laplacian().mass.numpy()
        rng = np.random.default_rng(0)
        f, v = rng.standard_normal((300, 1, 1)), rng.standard_normal((300, bundle.dim, 1))
        left = np.einsum("n,ndc,ndc->", mass, gradient @ f, v)
        divergence = -gradient.adjoint
        right = -np.einsum("n,ndc,ndc->", mass, f, divergence @ v)
        assert abs(left - right) < 1e-12 * abs(mass[:, None, None] * (gradient @ f) * v).sum()


def test_curl_of_gradients_vanishes_on_periodic_grids():
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    u, v = (a.ravel() for a in np.meshgrid(angle, angle))
    points = np.stack([np.cos(u), np.sin(u), np.cos(v), np.sin(v)], axis=1)
    calculus = Derivatives(tb.TangentBundle.from_frames(points, FLAT.frames(points)))
    gradient = calculus.gradient() @ np.random.default_rng(0).standard_normal((len(points), 1, 1))
    for curl in (-calculus.rot().adjoint, calculus.curl()):
        assert np.abs(curl @ gradient).max() * angle[1] < 1e-10 * np.abs(gradient).max()


@pytest.mark.parametrize("manifold", [SPHERE, TORUS], ids=["sphere", "torus"])
def test_errors_fall_with_the_square_of_the_distance(manifold):
    errors, curls = [], []
    for n in (1000, 4000):
        points = manifold.sample(n, seed=0)
        calculus = Derivatives(tb.TangentBundle.from_frames(points, manifold.frames(points)))
        gradient = np.tile([0.3, -1.0, 0.5], (n, 1))  # of a linear function of space
        field = calculus.bundle.to_coordinates(gradient)
        found = calculus.gradient() @ column(points @ gradient[0])
        errors.append(difference(found, field))
        curls.append(np.linalg.norm(calculus.curl() @ found) / np.linalg.norm(found))
    assert errors[1] < 0.35 * errors[0] and errors[1] < 0.02
    assert curls[1] < 0.7 * curls[0]


def test_fields_of_spherical_harmonics():
    points, bundle = sphere(4000)
    calculus, (x, y, z) = Derivatives(bundle), points.T
    f, laplacian = column(z + x * y), column(-2 * z - 6 * x * y)
    slope = np.stack([y, x, np.ones_like(z)], axis=1)
    slope -= np.einsum("na,na->n", slope, points)[:, None] * points
    field = bundle.to_coordinates(slope)
    assert difference(calculus.gradient() @ f, field) < 0.01
    assert difference(calculus.divergence() @ field, laplacian) < 0.01
    turned = bundle.to_coordinates(np.cross(points, slope))  # seen from outside, to the left
    assert difference(calculus.rot() @ f, turned) < 0.01
    assert difference(calculus.curl() @ turned, laplacian) < 0.01
    jacobian = (calculus.jacobian() @ field).reshape(-1, 2, 2)
    assert np.linalg.norm(jacobian - jacobian.transpose(0, 2, 1)) < 0.02 * np.linalg.norm(jacobian)
    assert (
        difference(np.trace(jacobian, axis1=1, axis2=2), (calculus.divergence() @ field)[:, 0, 0])
        < 1e-12
    )


@pytest.mark.parametrize("name", MAPS)
def test_contract_of_maps(name):
    points = torch.from_numpy(SPHERE.sample(60, seed=1))
    calculus = Derivatives(tb.TangentBundle.from_points(points, dim=2))
    linear_map = MAPS[name](calculus)
    n, p, q = 60, linear_map.in_rank, linear_map.out_rank
    x = torch.randn(3, n, p, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    dense = torch.from_numpy(linear_map.to_scipy().toarray())
    expected = torch.einsum("ij,bjc->bic", dense, x.reshape(3, n * p, 2)).reshape(3, n, q, 2)
    assert relative_error(linear_map @ x, expected) < 1e-12
    assert relative_error(linear_map.to_torch().to_dense(), dense) == 0
    assert relative_error(torch.from_numpy(linear_map @ x.numpy()), expected) < 1e-12
    assert relative_error(linear_map.to(dtype=torch.float32) @ x.float(), expected) < 1e-4
    assert relative_error(torch.from_numpy(linear_map.T.to_scipy().toarray()), dense.T) == 0
    y, mass = torch.randn_like(expected[0]), linear_map.mass[:, None, None]
    adjoint = (mass * x[0] * (linear_map.adjoint @ y)).sum()
    assert abs((mass * (linear_map @ x[0]) * y).sum() - adjoint) < 1e-9 * abs(adjoint)
    small = torch.zeros(n, p, 1, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: linear_map @ s, small)
    assert torch.autograd.gradgradcheck(lambda s: (linear_map @ s) ** 2, small)
    for wrong, error in (
        (x[..., 0, :], ShapeError),
        (x.float(), DTypeError),
        (x * np.nan, InvalidInputError),
    ):
        with pytest.raises(error):
            linear_map @ wrong


def test_maps_between_bundles_have_no_spectrum():
    gradient = sphere(300)[1].gradient()
    assert difference(gradient.to_dense(), gradient.to_scipy().toarray()) < 1e-12
    assert np.allclose(gradient.to_scipy() @ np.ones(300), 0.0, atol=1e-9)
    with pytest.raises(InvalidInputError, match=r"bundle\.laplacian\(\)"):
        tb.Heat(1.0)(gradient, np.ones((300, 1, 1)))


@pytest.mark.parametrize("change", ["frames", "rotation", "permutation"])
def test_equivariance(change):
    """Fields turn with space, and depend neither on frames nor on the order of the points."""
    points, frames = SPHERE.sample(300, seed=0), SPHERE.frames(SPHERE.sample(300, seed=0))
    rng = np.random.default_rng(1)
    f, v = rng.standard_normal((300, 1, 1)), rng.standard_normal((300, 3))
    turn, order, turns = np.eye(3), np.arange(300), np.eye(2)
    if change == "frames":
        turns = random_orthogonal(300, 2, seed=3)
    elif change == "rotation":
        turn = random_orthogonal(1, 3, seed=6)[0]
        turn *= np.sign(np.linalg.det(turn))  # orientation is kept
    else:
        order = rng.permutation(300)
    one = tb.TangentBundle.from_frames(points, frames, eps=0.2)
    two = tb.TangentBundle.from_frames(
        (points @ turn.T)[order], (turn @ frames @ turns)[order], eps=0.2
    )
    first, second = Derivatives(one), Derivatives(two)
    for to_field in (Derivatives.gradient, Derivatives.rot):
        moved = two.to_ambient(to_field(second) @ f[order])
        assert difference(moved, (one.to_ambient(to_field(first) @ f) @ turn.T)[order]) < 1e-9
    for to_function in (Derivatives.divergence, Derivatives.curl):
        moved = to_function(second) @ two.to_coordinates((v @ turn.T)[order])
        assert difference(moved, (to_function(first) @ one.to_coordinates(v))[order]) < 1e-9


@pytest.mark.parametrize(
    ("manifold", "exact"),
    [
        (SPHERE, lambda x: np.ones(len(x))),
        (
            TORUS,
            lambda x: np.cos(TORUS.angles(x)[0]) / (0.4 * (1 + 0.4 * np.cos(TORUS.angles(x)[0]))),
        ),
        (FLAT, lambda x: np.zeros(len(x))),
    ],
    ids=["sphere", "torus", "flat torus"],
)
def test_gaussian_curvature(manifold, exact):
    points = manifold.sample(4000, seed=0)
    bundle, exact = tb.TangentBundle.from_points(points, dim=2), exact(points)
    curvature = bundle.curvature()
    assert np.abs(curvature.gaussian - exact).mean() < 0.02 * max(np.abs(exact).max(), 1.0)
    total = (
        manifold.volume * (bundle.laplacian().mass.numpy() @ curvature.gaussian) / (2 * np.pi)
    )  # Gauss-Bonnet
    assert abs(total - (2 if manifold is SPHERE else 0)) < 0.04
    assert np.abs(
        curvature.ricci - curvature.gaussian[:, None, None] * np.eye(2)
    ).max() < 1e-9 * np.abs(total + 10)


ELLIPSOID = tb.manifolds.Ellipsoid((1.0, 0.8, 0.6))


@pytest.mark.parametrize(
    ("manifold", "exact"),
    [
        (tb.manifolds.Sphere(2, radius=2.0), lambda x: 0.25),
        (
            TORUS,
            lambda x: np.cos(TORUS.angles(x)[0]) / (0.4 * (1 + 0.4 * np.cos(TORUS.angles(x)[0]))),
        ),
        (FLAT, lambda x: 0.0),
        (tb.manifolds.SwissRoll(), lambda x: 0.0),
        (ELLIPSOID, lambda x: 1 / (0.48 * (x**2 / np.array(ELLIPSOID.axes) ** 4).sum(axis=1)) ** 2),
    ],
    ids=["sphere", "torus", "flat torus", "roll", "ellipsoid"],
)
def test_known_manifolds_have_exact_curvature(manifold, exact):
    """In any frames; the Hodge Laplacian uses it."""
    points = manifold.sample(300, seed=0)
    frames = manifold.frames(points) @ random_orthogonal(300, 2, seed=1)
    bundle = tb.TangentBundle.from_frames(points, frames, second_form=manifold.second_form)
    curvature = bundle.curvature()
    assert np.allclose(curvature.gaussian, exact(points), atol=1e-6)
    assert (
        np.abs(np.einsum("nxa,nxbc->nabc", frames, curvature.second_form)).max() < 1e-6
    )  # normal to the frames
    known, given = bundle.hodge(), bundle.hodge(ricci=curvature.ricci)
    assert torch.equal(known.average.values, given.average.values)


def test_curvature_of_products_and_of_the_globe():
    product = tb.manifolds.Product(SPHERE, tb.manifolds.Sphere(1))
    points = product.sample(50, seed=0)
    frames = product.frames(points) @ random_orthogonal(50, 3, seed=1)
    bundle = tb.TangentBundle.from_frames(
        points, frames, second_form=product.second_form, neighbors=20
    )
    assert np.allclose(np.linalg.eigvalsh(bundle.curvature().ricci), [0.0, 1.0, 1.0])
    globe = tb.TangentBundle.from_latlon(
        np.linspace(-80, 80, 100), np.arange(100) * 137.5 % 360, radius=2.0
    )
    assert np.allclose(globe.curvature().ricci, 0.25 * np.eye(2))
    klein = tb.manifolds.KleinBottle()
    points = klein.sample(3000, seed=0)
    known = tb.TangentBundle.from_frames(
        points, klein.frames(points), second_form=klein.second_form
    )
    exact, fitted = known.curvature().second_form, known.curvature(degree=3).second_form
    assert difference(fitted, exact) < 0.05


def test_curvature_costs_little_in_many_dimensions():
    """The cost of projecting the second derivatives is linear in the number of coordinates."""
    points = SPHERE.sample(400, seed=0)
    wide = points @ np.linalg.qr(np.random.default_rng(0).standard_normal((900, 3)))[0].T
    bundles = [tb.TangentBundle.from_points(p, dim=2) for p in (points, wide)]
    start = time.process_time()
    low, high = (bundle.curvature().gaussian for bundle in bundles)
    assert np.allclose(low, high, atol=1e-6) and time.process_time() - start < 10


def test_the_degree_follows_the_neighbours():
    points, bundle = sphere(2000)
    assert Derivatives(bundle).degree == 3 and Derivatives(bundle, neighbors=20).degree == 2
    assert Derivatives(tb.TangentBundle.from_points(points, dim=2, neighbors=24)).degree == 2
    for wrong in ({"degree": 0}, {"neighbors": 2.5}):
        with pytest.raises(InvalidInputError, match="positive integer"):
            Derivatives(bundle, **wrong)


def test_ricci_curvature_in_three_dimensions():
    points = tb.manifolds.Sphere(3, radius=2.0).sample(3000, seed=0)
    curvature = tb.TangentBundle.from_points(points, dim=3).curvature()
    assert np.abs(curvature.ricci - 0.5 * np.eye(3)).max(axis=(1, 2)).mean() < 0.05
    assert abs(np.mean(curvature.scalar) - 1.5) < 0.1
    mean = np.trace(curvature.second_form, axis1=2, axis2=3) / 3
    assert np.abs(mean + points / 4).mean() < 0.02  # the mean curvature vector is -x / r^2
    with pytest.raises(InvalidInputError, match="surfaces"):
        curvature.gaussian  # noqa: B018


class TestHodgeOnASurface(OperatorContract):
    def make_operator(self):
        points = torch.from_numpy(TORUS.sample(150, seed=0))
        return tb.TangentBundle.from_points(points, dim=2).hodge()


class TestHodgeInThreeDimensions(OperatorContract):
    def make_operator(self):
        points = torch.from_numpy(tb.manifolds.Sphere(3).sample(150, seed=0))
        return tb.TangentBundle.from_points(points, dim=3).hodge()


def test_hodge_spectrum_of_spheres():
    bundle = sphere(3000)[1]
    exact = np.repeat([2.0, 6.0], [6, 10])
    assert np.abs(bundle.hodge().spectrum(16, tol=1e-6)[0] / exact - 1).mean() < 0.04
    known = bundle.hodge(ricci=np.tile(np.eye(2), (3000, 1, 1)))
    assert np.abs(known.spectrum(6, tol=1e-6)[0] / 2 - 1).mean() < 0.03
    three = tb.TangentBundle.from_points(tb.manifolds.Sphere(3).sample(2000, seed=0), dim=3)
    assert (
        np.abs(three.hodge().spectrum(10, tol=1e-6)[0] / np.repeat([3.0, 4.0], [4, 6]) - 1).mean()
        < 0.05
    )
    with pytest.raises(ShapeError, match="ricci"):
        bundle.hodge(ricci=np.eye(2))


def test_betti_numbers():
    for manifold, number in ((SPHERE, 0), (TORUS, 2), (FLAT, 2)):
        assert (
            betti_number(tb.TangentBundle.from_points(manifold.sample(2000, seed=1), dim=2))
            == number
        )
    twice = np.concatenate([TORUS.sample(1000, seed=2), TORUS.sample(1000, seed=3) + 5])
    with pytest.warns(tb.errors.DisconnectedWarning):
        bundle = tb.TangentBundle.from_points(twice, dim=2)
    assert betti_number(bundle) == 4
    roll = tb.manifolds.SwissRoll((1, 1.5), 30.0).sample(2000, seed=0)
    klein = tb.manifolds.KleinBottle().sample(1000, seed=0)
    for points, reason in ((roll, "boundary"), (klein, "not orientable")):
        with pytest.raises(UndeterminedError, match=reason):
            betti_number(tb.TangentBundle.from_points(points, dim=2))


def test_decomposition_of_a_known_sum():
    points = TORUS.sample(5000, seed=0)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    exact = [bundle.to_coordinates(part) for part in torus_parts(points)]
    found = tb.helmholtz(bundle, sum(exact))
    parts = found.gradient, found.rotational, found.remainder
    assert max(difference(part, true) for part, true in zip(parts, exact, strict=True)) < 0.03
    mass = bundle.laplacian().mass.numpy()
    gram = np.einsum("n,andc,bndc->ab", mass, parts, parts)
    assert np.abs(gram - np.diag(np.diag(gram))).max() < 1e-6 * np.trace(gram)
    assert (
        difference(sum(parts), sum(exact)) < 1e-12 and abs(sum(found.energies.values()) - 1) < 1e-9
    )
    assert difference(bundle.gradient() @ found.potential, found.gradient) < 0.02
    assert abs(mass @ found.potential[:, 0, 0]) < 1e-9
    around = tb.helmholtz(bundle, bundle.to_coordinates(TORUS.tangent_field(points))).energies
    assert around["gradient"] < 1e-3 and abs(around["remainder"] - (1 - 0.4**2) ** 0.5) < 0.01


def test_decomposition_of_a_batch_and_of_components():
    """Time steps one by one, components by themselves; potentials have mean zero on each."""
    points = np.concatenate([TORUS.sample(800, seed=0), SPHERE.sample(700, seed=1) + 5])
    with pytest.warns(tb.errors.DisconnectedWarning):
        bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=40)
    fields = np.random.default_rng(0).standard_normal((3, 1, 1, 2)) * points[None, :, :, None]
    field = bundle.to_coordinates(np.roll(fields, 1, axis=2))
    both = tb.helmholtz(bundle, field)
    assert both.gradient.shape == field.shape and both.energies["gradient"].shape == (3, 2)
    alone = tb.helmholtz(bundle, np.ascontiguousarray(field[1, :, :, 1:]), tol=1e-10)
    assert difference(both.remainder[1, :, :, 1:], alone.remainder) < 1e-3
    mass = bundle.laplacian().mass.numpy()
    for part in (slice(0, 800), slice(800, None)):
        assert abs(mass[part] @ alone.stream[part, 0, 0]) < 1e-6 * np.abs(alone.stream).max()


def test_solutions_have_the_residual_that_was_asked_for():
    bundle = tb.TangentBundle.from_points(SPHERE.sample(800, seed=0), dim=2)
    solver = Poisson(bundle, default_degree(bundle), torch.device("cpu"))
    source = solver.centred(torch.from_numpy(np.random.default_rng(0).normal(size=(800, 2))))
    for tol in (1e-4, 1e-12):
        found = solver.solve(source, tol)
        residual = source - solver.centred(solver.matrix @ found)
        assert (
            torch.linalg.vector_norm(residual, dim=0)
            < 1.1 * tol * torch.linalg.vector_norm(source, dim=0)
        ).all()
        torch.testing.assert_close(solver.centred(found), found, rtol=0, atol=1e-12)


def test_boundaries_are_found():
    x, y = np.random.default_rng(0).uniform(size=(2, 3000))
    square = np.stack([x, y, x * y], axis=1)
    ends = [square, tb.manifolds.SwissRoll().sample(3000, seed=0)]
    closed = [
        SPHERE.sample_nonuniform(3000, 4.0, seed=0),
        tb.manifolds.Ellipsoid((1, 0.5, 0.4)).sample(3000, seed=0),
    ]
    for cloud, neighbors in [(cloud, k) for cloud in (*ends, *closed) for k in (None, 24)]:
        bundle = tb.TangentBundle.from_points(cloud, dim=2, neighbors=neighbors)
        assert has_boundary(bundle) == any(cloud is other for other in ends)
    lat, lon = (
        a.ravel()
        for a in np.meshgrid(np.linspace(-90, 90, 37), np.arange(0, 360, 5), indexing="ij")
    )
    assert not has_boundary(tb.TangentBundle.from_latlon(lat, lon))


@pytest.mark.parametrize(
    "manifold", [tb.manifolds.KleinBottle(), tb.manifolds.Sphere(3)], ids=["klein", "sphere"]
)
def test_without_orientation_or_beyond_surfaces_there_are_two_parts(manifold):
    points = manifold.sample(3000, seed=0)
    bundle = tb.TangentBundle.from_points(points, dim=manifold.dim)
    gradient = bundle.to_coordinates(
        np.tile(np.eye(manifold.ambient_dim)[0], (3000, 1))
    )  # of a coordinate
    found = tb.helmholtz(bundle, gradient)
    assert found.rotational is None and found.stream is None and found.vorticity is None
    assert difference(found.gradient, gradient) < 0.05
    assert {*found.energies} == {"gradient", "remainder"}


@pytest.mark.parametrize(("manifold", "euler"), [(SPHERE, 2), (TORUS, 0)], ids=["sphere", "torus"])
def test_indices_sum_to_the_euler_characteristic(manifold, euler):
    """Of gradients: extrema and saddles."""
    points = manifold.sample(4000, seed=0)
    x, y, z = points.T
    bundle = tb.TangentBundle.from_frames(points, manifold.frames(points))
    for slope in ([0 * x + 0.3, 0 * x - 0.2, 0 * x + 1.0], [y * z + 0.1, x * z, x * y]):
        found = singular_points(bundle, bundle.to_coordinates(np.stack(slope, axis=1)))
        assert found.index.sum() == euler and len(found.index) >= 2
        assert np.abs(manifold.nearest(found.positions) - found.positions).max() < 0.02


def test_streamlines_of_a_rotation_are_circles():
    points, bundle = sphere(3000)
    field = bundle.to_coordinates(np.cross([0.0, 0.0, 1.0], points))
    starts = np.array([[1.0, 0, 0], [0.6, 0, 0.8]])
    lines = streamlines(bundle, field, starts, steps=60, step=0.05)
    assert lines.shape == (2, 61, 3)
    assert np.abs(lines[:, :, 2] - starts[:, 2:]).max() < 0.01
    angle = np.unwrap(np.arctan2(lines[:, :, 1], lines[:, :, 0]))[:, -1]
    assert np.allclose(angle, [3.0, 3.0 / 0.6], rtol=0.01)
    with pytest.raises(ShapeError, match="one field"):
        streamlines(bundle, np.concatenate([field, field], axis=2), starts)


def thin_fold(gap, spacing=0.09):
    """Vertices and triangles of a strip folded back over a half circle, and their arc lengths."""
    arc = np.pi * gap / 2
    lengths = np.arange(0.0, 2.0 + arc + spacing / 2, spacing)
    across = np.arange(0.0, 1.0 + spacing / 2, spacing)
    s, y = (values.ravel() for values in np.meshgrid(lengths, across, indexing="ij"))
    angle = np.clip((s - 1.0) / (gap / 2), 0.0, np.pi)
    x = np.where(s < 1.0, s, np.where(s < 1.0 + arc, 1.0, 2.0 + arc - s))
    x = x + gap / 2 * np.sin(angle)
    vertices = np.stack([x, y, gap / 2 * (1.0 - np.cos(angle))], axis=1)
    m = len(across)
    corner = (m * np.arange(len(lengths) - 1)[:, None] + np.arange(m - 1)).ravel()
    lower = np.stack([corner, corner + m, corner + 1], axis=1)
    upper = np.stack([corner + 1, corner + m, corner + m + 1], axis=1)
    return vertices, np.concatenate([lower, upper]), s


@pytest.mark.parametrize("gap", [0.02, 0.05])
def test_the_two_sides_of_a_thin_mesh_are_not_mixed(gap):
    """They are nearer to each other than vertices of one side. Where all is flat, the arc length
    is linear, and its gradient exact."""
    vertices, faces, s = thin_fold(gap)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.errors.TangentBundleWarning)
        bundle = tb.TangentBundle.from_mesh(vertices, faces)
        gradient = bundle.to_ambient(bundle.gradient() @ s[:, None, None])
    is_flat = abs(s - 1.0 - np.pi * gap / 4) > 0.5
    directions = np.where(s < 1.0, 1.0, -1.0)[:, None] * np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(gradient[is_flat], directions[is_flat], atol=1e-9)


def test_meshes():
    """The same derivatives and parts on a triangulated sphere, with the areas of its vertices as
    mass."""
    turn, z = np.arange(2000) * np.pi * (3 - 5**0.5), (np.arange(2000) + 0.5) / 1000 - 1  # a spiral
    points = np.stack(
        [np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1
    )
    with pytest.warns(tb.errors.MeshRepairWarning):
        bundle = tb.TangentBundle.from_mesh(points, ConvexHull(points).simplices)
    gradient, rotated = (
        bundle.to_coordinates(v) for v in (np.eye(3)[[2] * 2000], np.cross([1.0, 0, 0], points))
    )
    assert difference(bundle.gradient() @ column(points[:, 2]), gradient) < 0.02
    found = tb.helmholtz(bundle, gradient + rotated)
    assert (
        difference(found.gradient, gradient) < 0.02 and difference(found.rotational, rotated) < 0.02
    )
    assert np.abs(bundle.hodge().spectrum(6, tol=1e-6)[0] / 2 - 1).mean() < 0.03


def test_meshes_of_scattered_vertices_with_estimated_normals():
    """Normals are two degrees off; of tangent fields this is an error of second order."""
    points = SPHERE.sample(2000, seed=0)
    with pytest.warns(tb.errors.MeshRepairWarning):
        bundle = tb.TangentBundle.from_mesh(points, ConvexHull(points).simplices)
    parts = np.eye(3)[[2] * 2000] - points[:, 2:] * points, np.cross([1.0, 0, 0], points)
    gradient, rotated = (bundle.to_coordinates(part) for part in parts)
    found = tb.helmholtz(bundle, gradient + rotated)
    assert (
        difference(found.gradient, gradient) < 0.01 and difference(found.rotational, rotated) < 0.01
    )


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_vorticity_in_the_plane_has_the_usual_sign(seed):
    points = np.random.default_rng(seed).uniform(size=(200, 2))
    bundle = tb.TangentBundle.from_frames(points, random_orthogonal(200, 2, seed=seed))
    field = bundle.to_coordinates(np.stack([-points[:, 1], points[:, 0]], axis=1))
    assert np.allclose(bundle.curl() @ field, 2.0)


def test_what_has_no_curl():
    klein = tb.TangentBundle.from_points(tb.manifolds.KleinBottle().sample(1500, seed=0), dim=2)
    with pytest.raises(NotOrientableError, match="oriented alike"):
        klein.curl()
    with pytest.raises(NotOrientableError, match="oriented alike"):
        Derivatives(klein).rot()
    three = tb.TangentBundle.from_points(tb.manifolds.Sphere(3).sample(300, seed=0), dim=3)
    with pytest.raises(InvalidInputError, match="surfaces"):
        three.curl()
    with pytest.raises(InvalidInputError, match="no frames"):
        klein.scalar().gradient()


def test_decompositions_of_too_few_points_are_refused():
    """Where a quadratic fit is not determined, and where it is too coarse for the curvature."""
    for seed, error in ((0, ConvergenceError), (1, RankDeficientError)):
        bundle = tb.TangentBundle.from_points(
            tb.manifolds.Sphere(2).sample(60, seed=seed) * [1, 1, 0.3], dim=2
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            with pytest.raises(error, match="more"):
                tb.helmholtz(bundle, np.ones((60, 2, 1)))


@pytest.mark.parametrize(("n", "resolved"), [(120, False), (1500, True)])
def test_decompositions_that_the_points_do_not_resolve_give_a_warning(n, resolved):
    """A gradient on a flat ellipsoid: its parts are far too large before they are made orthogonal,
    or not."""
    space = tb.manifolds.Ellipsoid((1.0, 0.5, 0.3))
    points = space.sample(n, seed=3)
    frames = space.frames(points)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bundle = tb.TangentBundle.from_points(points, dim=2)
        field = bundle.to_coordinates(np.einsum("nij,nkj,k->ni", frames, frames, [1.0, 2.0, 3.0]))
        share = float(tb.helmholtz(bundle, field).energies["gradient"][0])
    assert (share > 0.98) == resolved
    assert any("times its energy" in str(one.message) for one in caught) != resolved


def test_too_few_neighbours_give_a_linear_fit():
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    bundle = tb.TangentBundle.from_frames(points, np.tile(np.eye(3)[:, :2], (4, 1, 1)), eps=4.0)
    with pytest.warns(AccuracyWarning, match="4 of 4 points"):
        gradient = bundle.gradient()
    assert np.allclose(gradient @ column(points @ [1.0, 2, 0]), [[1], [2]])
    line = np.linspace(0, 1, 30)[:, None] * [1.0, 0, 0]
    flat = tb.TangentBundle.from_frames(line, np.tile(np.eye(3)[:, :2], (30, 1, 1)))
    with pytest.raises(RankDeficientError, match="do not span 2 directions"):
        flat.gradient()


def test_bundles_of_tensors(monkeypatch):
    """As built on a GPU, where everything here reads copies on the host: the same answers, as
    tensors."""
    points = torch.from_numpy(TORUS.sample(600, seed=0))
    usual = tb.TangentBundle.from_points(points, dim=2)
    monkeypatch.setattr(cloud_module, "use_triton", lambda device: True)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    vectors = torch.from_numpy(TORUS.tangent_field(points.numpy()))
    parts, expected = (tb.helmholtz(b, b.to_coordinates(vectors)) for b in (bundle, usual))
    assert difference(parts.energies["rotational"], expected.energies["rotational"]) < 1e-6
    assert (
        difference(bundle.to_ambient(parts.rotational), usual.to_ambient(expected.rotational))
        < 1e-5
    )
    assert difference(bundle.curvature().gaussian, usual.curvature().gaussian) < 1e-6
    assert bundle.hodge().average.values.shape == usual.hodge().average.values.shape
    assert streamlines(bundle, parts.rotational, points[:2], steps=2).shape == (2, 3, 3)


def test_nothing_depends_on_hidden_state():
    """Twice the same numbers, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points, bundle = sphere(400)
        field = bundle.to_coordinates(np.roll(points, 1, axis=1))
        one, two = tb.helmholtz(bundle, field), tb.helmholtz(bundle, field)
    assert np.array_equal(one.gradient, two.gradient)
