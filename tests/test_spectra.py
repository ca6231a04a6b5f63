"""The spectrum of the estimated Laplacian against the known one, from bare points and automatic
scales."""

from functools import cache

import numpy as np
import pytest
import torch
from spaces import group_errors, groups

from tangentbundle import TangentBundle, kernels, memory
from tangentbundle.errors import ConvergenceError, InvalidInputError, MemoryLimitError
from tangentbundle.manifolds import FlatTorus, KleinBottle, Sphere, Torus
from tangentbundle.operators import KernelMoments
from tangentbundle.operators.spectrum import in_double_precision
from tangentbundle.testing import relative_error

VECTORS_S2 = (6, 10, 14), (1.0, 5.0, 11.0)
VECTORS_S3 = (4, 6, 9), (1.0, 2.0, 6.0)
SCALARS_S2 = (3, 5, 7), (2.0, 6.0, 12.0)


@cache
def sphere_spectrum(n: int, seed: int, dim: int = 2, ratio: float | None = None) -> np.ndarray:
    """The lowest three groups and one eigenvalue more; read-only."""
    sphere = Sphere(dim)
    points = (
        sphere.sample(n, seed=seed)
        if ratio is None
        else sphere.sample_nonuniform(n, ratio, seed=seed)
    )
    bundle = TangentBundle.from_points(points)
    assert bundle.dim == dim
    multiplicities = {2: VECTORS_S2, 3: VECTORS_S3}[dim][0]
    values, _ = bundle.laplacian().spectrum(sum(multiplicities) + 1, tol=1e-7)
    values.setflags(write=False)
    return values


def assert_separated(values, multiplicities, factor):
    """Every gap between groups is wider than the groups beside it are broad, by the factor."""
    parts = groups(values, multiplicities)
    highs, lows = [part[-1] for part in parts], [*(part[0] for part in parts[1:]), values[-1]]
    spreads = [part[-1] - part[0] for part in parts]
    for k, (high, low) in enumerate(zip(highs, lows, strict=True)):
        assert low - high > factor * max(spreads[k : k + 2]), (k, high, low, spreads)


def test_sphere_5000():
    values = sphere_spectrum(5000, 0)
    assert group_errors(values, *VECTORS_S2).mean() < 0.008
    assert_separated(values, VECTORS_S2[0], 3.0)


def test_convergence_on_the_sphere():
    """The errors of eigenvalues fall at least as the square root of n; those of group means are
    small already."""
    exact = np.repeat(VECTORS_S2[1], VECTORS_S2[0])
    coarse, fine = (sphere_spectrum(n, 0)[: len(exact)] / exact - 1 for n in (1250, 5000))
    assert np.abs(fine).mean() < 0.5 * np.abs(coarse).mean()
    assert group_errors(sphere_spectrum(1250, 0), *VECTORS_S2).mean() < 0.015


@pytest.mark.slow
def test_sphere_20000():
    values = sphere_spectrum(20_000, 0)
    errors = group_errors(values, *VECTORS_S2)
    assert errors.mean() < 0.003
    assert_separated(values, VECTORS_S2[0], 10.0)


def test_three_sphere():
    values = sphere_spectrum(3000, 0, dim=3)
    assert group_errors(values, *VECTORS_S3).mean() < 0.02
    assert_separated(values[: sum(VECTORS_S3[0][:2]) + 1], VECTORS_S3[0][:2], 3.0)


@pytest.mark.slow
def test_three_sphere_20000():
    values = sphere_spectrum(20_000, 0, dim=3)
    errors = group_errors(values, *VECTORS_S3)
    assert errors.mean() < 0.006
    assert_separated(values, VECTORS_S3[0], 4.0)  # 6 is followed by 7: gaps 1, 4 and 1


def test_the_sampling_density_drops_out():
    uniform, denser = sphere_spectrum(2500, 0), sphere_spectrum(2500, 0, ratio=5.0)
    pairs = zip(groups(uniform, VECTORS_S2[0]), groups(denser, VECTORS_S2[0]), strict=True)
    for even, uneven in pairs:
        assert abs(uneven.mean() / even.mean() - 1.0) < 0.015


def test_an_estimate_without_density_correction_would_fail_the_same_check():
    """The check above has teeth: weights by plain degrees shift the first group by more than 3
    %."""
    shifts = []
    for ratio in (1.0, 5.0):
        points = Sphere(2).sample_nonuniform(1000, ratio, seed=0)
        bundle = TangentBundle.from_points(points).scalar()
        graph = bundle.sorted_graph
        weights = bundle.weights.kernel(graph.distances / np.sqrt(bundle.eps))
        matrix = graph.to_scipy()
        matrix.data = weights.numpy()
        degree = matrix.sum(axis=1)
        symmetric = matrix.toarray() / np.sqrt(np.outer(degree, degree))
        values = np.linalg.eigvalsh(symmetric)[::-1]
        shifts.append((1 - values[1:4]).mean() / bundle.weights.kernel.calibration(2) / bundle.eps)
    assert abs(shifts[1] / shifts[0] - 1.0) > 0.03


def test_parallel_fields_of_the_flat_torus_are_in_the_kernel():
    lap = TangentBundle.from_points(FlatTorus().sample(2000, seed=0)).laplacian()
    values, fields = lap.spectrum(11)
    assert values[1] < 0.02 * values[2]
    assert abs(values[2:10].mean() - 1.0) < 0.015  # eightfold, as functions' fourfold 1, doubled
    assert values[10] > 1.5
    # A parallel field has constant length.
    lengths = np.linalg.norm(fields[:, :, 0], axis=1)
    assert lengths.std() < 0.15 * lengths.mean()


def test_scalar_bundle_of_the_sphere():
    lap = TangentBundle.from_points(Sphere(2).sample(5000, seed=0)).scalar().laplacian()
    values, functions = lap.spectrum(17, tol=1e-8)
    assert values[0] < 1e-6
    np.testing.assert_allclose(
        np.abs(functions[:, 0, 0]), 1.0, rtol=1e-4
    )  # the constant, of mass norm one
    errors = group_errors(values[1:], *SCALARS_S2)
    assert errors.mean() < 0.008
    assert_separated(values[1:], SCALARS_S2[0], 3.0)


@pytest.mark.parametrize(
    "kernel", [kernels.Uniform(), kernels.Epanechnikov(), kernels.Biweight(), kernels.Gaussian(3)]
)
def test_every_kernel_is_calibrated(kernel):
    """The same eigenvalues, whatever the kernel, though the uncalibrated ones differ by the
    constant."""
    points = Sphere(2).sample(2000, seed=0)
    values, _ = TangentBundle.from_points(points, kernel=kernel).laplacian().spectrum(6, tol=1e-7)
    assert abs(values.mean() - 1.0) < 0.01


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_uncalibrated_differs_by_exactly_the_constant(dim):
    points = Sphere(dim).sample(400, seed=0)
    bundle = TangentBundle.from_points(points, dim=dim)
    plain, calibrated = (
        bundle.laplacian(calibrate=False),
        bundle.laplacian(calibrate=KernelMoments(), terms=1),
    )
    c = bundle.weights.kernel.calibration(dim)
    assert plain.scale == bundle.eps
    assert calibrated.scale == c * bundle.eps
    np.testing.assert_allclose(
        plain.spectrum(9)[0], c * calibrated.spectrum(9)[0], rtol=1e-9, atol=1e-12
    )
    x = np.random.default_rng(0).standard_normal((400, dim, 2))
    np.testing.assert_allclose(plain @ x, c * (calibrated @ x), rtol=1e-9, atol=1e-11)


CLOUDS = {
    "random points": lambda: Sphere(2).sample(4000, seed=1),
    "a lattice": lambda: fibonacci(4000),
    "uneven density": lambda: Sphere(2).sample_nonuniform(4000, 3.0, seed=1),
    "noise": lambda: (
        Sphere(2).sample(4000, seed=1) + 0.01 * np.random.default_rng(7).standard_normal((4000, 3))
    ),
}


def fibonacci(n):
    """The Fibonacci lattice on the sphere."""
    z, phi = 1 - (2 * np.arange(n) + 1) / n, np.pi * (1 + np.sqrt(5)) * np.arange(n)
    return np.stack([np.sqrt(1 - z**2) * np.cos(phi), np.sqrt(1 - z**2) * np.sin(phi), z], axis=1)


@pytest.mark.parametrize("name", CLOUDS)
def test_few_neighbours_are_calibrated_by_the_sample(name):
    """The kernel's constant is off by several percent at 30 neighbours, the sample's is not."""
    bundle = TangentBundle.from_points(CLOUDS[name](), dim=2, neighbors=30)
    for part, exact in ((bundle, 1.0), (bundle.scalar(), 2.0)):
        plain, lap = part.laplacian(calibrate=KernelMoments()), part.laplacian()
        values = lap.spectrum(7, tol=1e-7)[0]
        mean = values[:6].mean() if exact == 1.0 else values[1:4].mean()
        assert abs(mean / exact - 1) < 0.012
        assert abs(mean * lap.scale / plain.scale / exact - 1) > 0.03


def test_the_sample_constant_is_one_of_the_shape():
    """It changes with neither units, position nor orientation, and clouds without a scale of their
    own keep c."""
    points = Sphere(2).sample(1500, seed=0)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    factors = []
    for cloud, neighbors in ((points, 20), (50.0 * points @ turn + 3.0, 20), (points[:200], 100)):
        bundle = TangentBundle.from_points(cloud, dim=2, neighbors=neighbors)
        factors.append(bundle.laplacian().scale / bundle.laplacian(calibrate=KernelMoments()).scale)
    assert factors[1] == pytest.approx(factors[0], rel=1e-9) and 0.8 < factors[0] < 0.97
    assert factors[2] == 1.0
    with pytest.raises(InvalidInputError, match="SampleEnergy"):
        bundle.laplacian(calibrate="sample")
    with pytest.raises(InvalidInputError, match="terms"):
        bundle.laplacian(terms=0)


def test_radius_scales_eigenvalues_by_its_inverse_square():
    small, large = (
        TangentBundle.from_points(r * Sphere(2).sample(1500, seed=0)).laplacian()
        for r in (1.0, 6371.0)
    )
    np.testing.assert_allclose(large.spectrum(6)[0] * 6371.0**2, small.spectrum(6)[0], rtol=1e-6)


def test_gradient_fields_of_harmonics_have_their_energy():
    """Rayleigh quotients of exact eigenfields; point by point the operator is noisy, on average it
    is not."""
    sphere = Sphere(2)
    points = sphere.sample(5000, seed=0)
    bundle = TangentBundle.from_points(points)
    lap = bundle.laplacian()
    for degree in (1, 2, 3):
        field = bundle.to_coordinates(sphere.gradient_field(points, degree))
        quotient = -float(lap.inner(field, lap @ field) / lap.inner(field, field))
        assert abs(quotient / sphere.gradient_eigenvalue(degree) - 1.0) < 0.05


def dense_spectrum(lap):
    """All eigenvalues of minus the operator, by a dense solver."""
    root = np.sqrt(np.repeat(lap.mass.double().numpy(), lap.rank))
    matrix = -lap.to_dense().double().numpy() * root[:, None] / root
    return np.linalg.eigvalsh((matrix + matrix.T) / 2)


def test_multiple_eigenvalues_are_found_as_often_as_they_occur():
    """On an oriented surface the quarter turn of the tangent planes doubles every eigenvalue
    exactly."""
    lap = TangentBundle.from_points(Sphere(2).sample(400, seed=0)).laplacian()
    assert lap.shape[0] > 600  # no dense solver
    expected = dense_spectrum(lap)
    np.testing.assert_allclose(expected[:16:2], expected[1:16:2], rtol=1e-9)
    for k in (1, 2, 6, 17):
        for seed in range(3):
            np.testing.assert_allclose(lap.spectrum(k, seed=seed)[0], expected[:k], rtol=1e-7)


def test_sixteenfold_eigenvalues_of_a_lattice():
    t = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    a, b = (angle.ravel() for angle in np.meshgrid(t, t))
    points = np.stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)], axis=1)
    lap = TangentBundle.from_points(points, dim=2, eps=0.5).laplacian()
    expected = dense_spectrum(lap)
    assert (
        expected[1] < 1e-12 and expected[2] > 0.5
    )  # translations: parallel fields, exactly in the kernel
    assert (
        np.ptp(expected[26:42]) < 1e-9 and expected[42] > expected[41] + 1e-3
    )  # waves (1, 2) in all 8 ways, twice
    values, fields = lap.spectrum(42)
    np.testing.assert_allclose(values, expected[:42], atol=1e-7)
    gram = np.einsum("n,ndi,ndj->ij", lap.mass.numpy(), fields, fields)
    np.testing.assert_allclose(gram, np.eye(42), atol=1e-9)


def test_too_tight_a_cluster_is_an_error_not_a_wrong_answer(monkeypatch):
    monkeypatch.setattr("tangentbundle.operators.spectrum.MAX_FILTERS", 1)
    lap = TangentBundle.from_points(Sphere(2).sample(700, seed=0)).laplacian()
    with pytest.raises(ConvergenceError, match="0 of 5"):
        lap.spectrum(5)


def test_the_sample_calibrates_only_where_its_energy_has_a_plateau():
    """Coarse clouds and wide neighbourhoods at a boundary keep the kernel's constant; few
    neighbours are corrected."""
    sphere = Sphere(2).sample(4000, seed=0)
    clouds = {
        "coarse torus": (Torus().sample(200, seed=0), None, (1.0, 1.0)),
        "half sphere": (sphere[sphere[:, 2] > 0], 120, (1.0, 1.0)),
        "sphere": (sphere, 20, (0.91, 0.96)),
    }
    for name, (points, neighbors, (low, high)) in clouds.items():
        bundle = TangentBundle.from_points(points, dim=2, neighbors=neighbors)
        factor = bundle.laplacian().scale / bundle.laplacian(calibrate=KernelMoments()).scale
        assert low <= factor <= high, name


# Operators in float32: P and the masses are rounded separately.

SINGLE = [
    (space, rows, seed)
    for seed, space in enumerate(
        (Sphere(1), Sphere(2), Torus(), KleinBottle(4), Sphere(3), FlatTorus((1.0, 0.7)))
    )
    for rows in (640, 1100)
]


@pytest.mark.parametrize("space, rows, seed", SINGLE, ids=str)
def test_spectra_of_operators_in_single_precision(space, rows, seed):
    """The rounded operator is as good as any other: its eigenpairs have the accuracy that is
    promised."""
    points = space.sample(rows // space.dim, seed=seed).astype(np.float32)
    lap = TangentBundle.from_points(torch.from_numpy(points), dim=space.dim).laplacian()
    values, fields = lap.spectrum(30, tol=1e-11)
    wide = in_double_precision(lap)
    values, fields = values.double(), fields.double()
    residual = wide @ fields + values * fields
    assert float(wide.norm(residual).max()) < 1e-5 * lap.spectral_interval[1]
    dense = wide.to_dense() * wide.mass.repeat_interleave(wide.rank)[:, None]
    assert float((dense - dense.T).abs().max()) < 1e-14 * float(dense.abs().max())
    assert relative_error(wide.to_dense(), lap.to(dtype=torch.float64).to_dense()) < 1e-6


def test_memory_for_eigenpairs_is_estimated_before_anything_is_allocated(monkeypatch):
    lap = TangentBundle.from_points(Sphere(2).sample(3000, seed=0)).laplacian()
    monkeypatch.setattr(memory, "memory_limit", lambda max_memory=None: 1e8)
    for name in ("to", "average", "apply"):
        monkeypatch.setattr(type(lap), name, lambda *a, **o: pytest.fail("something was computed"))
    for k in (2500, 6000):
        with pytest.raises(MemoryLimitError, match=f"{k} eigenpairs of 6000 rows"):
            lap.spectrum(k)


@pytest.mark.parametrize("manifold", [Sphere(2), Torus(), KleinBottle(4), Sphere(3)], ids=str)
def test_operators_rounded_and_widened_have_the_same_spectrum(manifold):
    """Built in float32, or rounded to it, and then converted to float64, at sizes on both sides of
    the dense solver."""
    for n in (50, 150, 301, 420, 1100):
        points = manifold.sample(n, seed=1)
        bundle = TangentBundle.from_points(points.astype("float32"), dim=manifold.dim, neighbors=20)
        narrow = bundle.laplacian()
        wide = narrow.to(dtype=torch.float64)
        twice = wide.to(dtype=torch.float32).to(dtype=torch.float64)
        for k in (3, 10):
            expected = narrow.spectrum(k)[0]
            size = float(np.abs(expected).max())
            for operator in (wide, twice):
                values, fields = operator.spectrum(k)
                np.testing.assert_allclose(values, expected, atol=1e-6 * size)
                residual = operator @ fields + values * fields
                assert np.linalg.norm(residual) < 1e-5 * operator.spectral_interval[1]


@pytest.mark.parametrize("order", [1, 2])
def test_operators_in_float64_are_not_symmetrised_again(order):
    lap = TangentBundle.from_points(Torus().sample(400, seed=0)).laplacian(terms=order)
    assert in_double_precision(lap).average.values is lap.average.values
