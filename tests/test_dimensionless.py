"""Operators in units of their own cloud: networks trained in metres run in millimetres."""

import numpy as np
import pytest
import torch
from test_known_frames import icosphere

import tangentbundle as tb
from benchmarks.meshes import genus_two, torus
from tangentbundle import nn
from tangentbundle.manifolds import Sphere, Torus
from tangentbundle.operators import Identity
from tangentbundle.testing import relative_error

MESHES = {
    "torus": lambda: torus(20, 12, 0.5),
    "genus two": lambda: genus_two(0.1),
    "sphere": lambda: icosphere(2),
}
MILLIMETRES = 1000.0


def mesh_bundle(name, unit):
    vertices, faces = MESHES[name]()
    return tb.TangentBundle.from_mesh(torch.from_numpy(unit * np.asarray(vertices)), faces)


def smooth_field(bundle, unit):
    """A field of the shape alone: numbers that do not depend on the units of the points."""
    points = bundle.points / unit
    return bundle.to_coordinates(torch.sin(3.0 * points.roll(1, dims=-1)))


def trained_network():
    """A network that has learned to smooth fields on one mesh in metres."""
    bundle = mesh_bundle("torus", 1.0)
    laplacian = bundle.laplacian().dimensionless
    x = smooth_field(bundle, 1.0)
    net = nn.TNN([1, 6, 1], taps=3, step=0.05).double()
    batches = [(x, laplacian, tb.Heat(0.1)(laplacian, x))]
    tb.fit(net, batches, epochs=20, progress=False)
    return net


@pytest.mark.parametrize("method", [None, tb.Chebyshev(1e-13)])
@pytest.mark.parametrize("name", MESHES)
def test_a_network_trained_in_metres_runs_in_millimetres(name, method):
    net = trained_network()
    for layer in net.layers:
        layer.conv.method = method
    fields = {}
    fields_with_units = {}
    for unit in (1.0, MILLIMETRES):
        bundle = mesh_bundle(name, unit)
        laplacian = bundle.laplacian()
        x = smooth_field(bundle, unit)
        fields[unit] = bundle.to_ambient(net(x, laplacian.dimensionless))
        fields_with_units[unit] = bundle.to_ambient(net(x, laplacian))
    assert relative_error(fields[MILLIMETRES], fields[1.0]) < 1e-10
    assert relative_error(fields_with_units[MILLIMETRES], fields_with_units[1.0]) > 1e-2


@pytest.mark.parametrize("name", MESHES)
def test_networks_of_functions_and_fields_run_in_other_units(name):
    net = nn.MixedTNN([1, 4, 1], [1, 4, 1], step=0.05).double()
    answers = {}
    for unit in (1.0, MILLIMETRES):
        bundle = mesh_bundle(name, unit)
        operators = nn.MixedOperators.of(bundle).dimensionless
        height = (bundle.points / unit)[:, 2, None, None]
        functions, fields = net(height, smooth_field(bundle, unit), operators)
        answers[unit] = functions, bundle.to_ambient(fields)
    for answer, expected in zip(answers[MILLIMETRES], answers[1.0], strict=True):
        assert relative_error(answer, expected) < 1e-10


def test_many_clouds_have_a_unit_each():
    clouds = [Sphere(2).sample(80, seed=0), 1000.0 * Sphere(2).sample(80, seed=0)]
    joined = tb.TangentBundle.from_batch(
        np.concatenate(clouds), np.repeat([0, 1], 80), dim=2, neighbors=15
    )
    small, large = joined.dimensionless.parts
    assert abs(small.scale / large.scale - 1.0) < 1e-12
    alone = [tb.TangentBundle.from_points(c, dim=2, neighbors=15).laplacian() for c in clouds]
    for part, laplacian in zip(joined.parts, alone, strict=True):
        assert abs(part.extent / laplacian.extent - 1.0) < 1e-9
        assert part.dimensionless.extent == 1.0


def test_the_unit_is_that_of_the_shape_and_not_of_the_sampling():
    """The mass corrects for the density of the points; functions and fields have one unit."""
    points = Torus().sample(3000, seed=0)
    rng = np.random.default_rng(0)
    uneven = points[rng.uniform(size=3000) < np.exp(4.0 * (points[:, 0] - points[:, 0].max()))]
    extents = []
    for sample in (points, uneven):
        bundle = tb.TangentBundle.from_points(sample, dim=2)
        assert bundle.scalar().laplacian().extent == bundle.laplacian().extent
        assert bundle.hodge().extent == bundle.laplacian().extent
        extents.append(bundle.laplacian().extent)
    plain = [np.sqrt((sample - sample.mean(0)).var(axis=0).sum()) for sample in (points, uneven)]
    assert abs(extents[1] / extents[0] - 1.0) < 0.5 * abs(plain[1] / plain[0] - 1.0)


def test_points_with_gradients_have_the_unit_of_the_points_as_they_are():
    points = torch.from_numpy(Sphere(2).sample(60, seed=0))
    bundle = tb.TangentBundle.from_points(points, dim=2)

    def energy(points):
        laplacian = bundle.moved(points).laplacian().dimensionless
        x = torch.ones(60, 2, 1, dtype=torch.float64)
        return -laplacian.inner(x, laplacian @ x).sum()

    gradient = torch.func.grad(energy)(points)
    assert float(gradient.norm()) > 0.0
    moving = tb.TangentBundle.from_points(points.clone().requires_grad_(), dim=2)
    assert moving.laplacian().extent == pytest.approx(bundle.laplacian().extent, rel=1e-12)


def test_operators_without_units_stay_as_they_are():
    identity = Identity.of(5)
    assert identity.dimensionless is identity
    bundle = tb.TangentBundle.from_points(Sphere(2).sample(60, seed=0), dim=2)
    walk = bundle.graph_laplacian(tb.operators.RandomWalk())
    assert walk.dimensionless.scale == walk.scale
    laplacian = bundle.laplacian()
    assert laplacian.dimensionless is laplacian.dimensionless  # with all that is cached on it
    assert laplacian.to(dtype=torch.float32).extent == laplacian.extent
