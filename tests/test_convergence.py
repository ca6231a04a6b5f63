"""Theorem 1 of the paper: filters of sampled bundles converge to filters of the manifold.

Gradients of spherical harmonics are exact eigenfields, on which a filter is multiplication by its
response. Everything is estimated from bare points at the automatic scale; errors are relative,
between ambient vectors.
"""

from functools import cache

import numpy as np
import pytest

import tangentbundle as tb
from tangentbundle.manifolds import FlatTorus, Sphere

FILTERS = {
    "heat": tb.Heat(0.2),
    "FIR": tb.FIR([0.0, 0.6, 0.4], step=0.1),
    "impulse": tb.ImpulseResponse(lambda t: 100 * t * (-10 * t).exp()),
}


@cache
def errors(dim: int, n: int, seed: int, calibrate: bool = True) -> dict:
    """Errors of each filter on the eigenfields of degree 1 and 2."""
    sphere = Sphere(dim)
    points = sphere.sample(n, seed=seed)
    bundle = tb.TangentBundle.from_points(points, dim=dim)
    lap = bundle.laplacian(calibrate=calibrate)
    found = {}
    for degree in (1, 2):
        field = sphere.gradient_field(points, degree)
        x = bundle.to_coordinates(field)
        for name, h in FILTERS.items():
            expected = float(h.response(sphere.gradient_eigenvalue(degree))) * field
            got = bundle.to_ambient(h(lap, x, tb.Chebyshev(1e-6)))
            found[name, degree] = np.linalg.norm(got - expected) / np.linalg.norm(expected)
    return found


def mean_errors(dim, n, seeds, case):
    return np.mean([errors(dim, n, seed)[case] for seed in range(seeds)])


CASES = [(name, degree) for name in FILTERS for degree in (1, 2)]


def test_the_filters_are_as_the_theorem_asks():
    for h in FILTERS.values():
        known = h.properties()
        assert known.lowpass and known.gain <= 1 + 1e-9 and known.lipschitz < 1.0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_errors_on_the_sphere_fall(case):
    sizes = (200, 800, 3200)
    found = [mean_errors(2, n, 2, case) for n in sizes]
    assert found[0] > found[1] > found[2], found
    slope = np.polyfit(np.log(sizes), np.log(found), 1)[0]
    assert slope < -0.35, (found, slope)


@pytest.mark.parametrize("dim, sizes", [(1, (100, 1600)), (3, (400, 1600))])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_errors_on_other_spheres_fall(case, dim, sizes):
    found = [mean_errors(dim, n, 2, case) for n in sizes]
    slope = np.log(found[1] / found[0]) / np.log(sizes[1] / sizes[0])
    assert slope < -0.35, (found, slope)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_errors_of_large_samples(case):
    sizes = (800, 3200, 20_000)
    found = [mean_errors(2, n, 2, case) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(found), 1)[0]
    assert slope < -0.5, (found, slope)
    assert found[-1] < {1: 0.01, 2: 0.025}[case[1]], found


@pytest.mark.slow
def test_errors_of_a_large_three_sphere():
    found = [mean_errors(3, n, 2, ("heat", 1)) for n in (400, 1600, 6400, 20_000)]
    assert (np.diff(found) < 0).all() and found[-1] < 0.03, found


def test_the_sampling_density_does_not_matter():
    """Nor does uneven sampling: four times as many points in the north."""
    sphere = Sphere(2)
    found = []
    for n in (800, 3200):
        points = sphere.sample_nonuniform(n, 4.0, seed=0)
        bundle = tb.TangentBundle.from_points(points, dim=2)
        field = sphere.gradient_field(points, 1)
        got = bundle.to_ambient(
            tb.Heat(0.2)(bundle.laplacian(), bundle.to_coordinates(field), tb.Chebyshev())
        )
        expected = np.exp(-0.2) * field
        found.append(np.linalg.norm(got - expected) / np.linalg.norm(expected))
    assert found[1] < 0.6 * found[0], found


def test_parallel_fields_of_a_flat_torus_stay():
    """Eigenvalue zero: a filter multiplies by its response there, more and more exactly."""
    torus = FlatTorus()
    found = []
    for n in (500, 2000):
        points = torus.sample(n, seed=0)
        bundle = tb.TangentBundle.from_points(points, dim=2)
        field = np.stack(
            [-points[:, 1], points[:, 0], 0 * points[:, 0], 0 * points[:, 0]], axis=1
        )  # along one circle
        got = bundle.to_ambient(
            tb.Heat(0.2)(bundle.laplacian(), bundle.to_coordinates(field), tb.Chebyshev())
        )
        found.append(np.linalg.norm(got - field) / np.linalg.norm(field))
    assert found[1] < 0.6 * found[0], found


def test_the_checks_have_teeth():
    """The uncalibrated operator of the paper converges to another multiple of the Laplacian."""
    assert errors(2, 3200, 0, calibrate=False)["heat", 2] > 0.5
    # and without a lowpass filter nothing converges point by point: the operator itself amplifies
    # its own noise
    sphere = Sphere(2)
    points = sphere.sample(3200, seed=0)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    field = sphere.gradient_field(points, 1)
    got = bundle.to_ambient(bundle.laplacian() @ bundle.to_coordinates(field))
    assert np.linalg.norm(got + field) / np.linalg.norm(field) > 10 * errors(2, 3200, 0)["heat", 1]
