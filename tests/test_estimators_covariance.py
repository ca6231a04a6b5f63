"""Covariances of tangent fields: positive, differentiable, and the second derivatives they claim to be."""

import numpy as np
import pytest
import torch

from tangentbundle.errors import InvalidInputError
from tangentbundle.estimators import Helmholtz, Isotropic, Meridional, Planetary, Potential, Rotational, Zonal
from tangentbundle.estimators.covariance import Sites, matern
from tangentbundle.estimators.history import Empirical, Modulated, Past, gaspari_cohn, learned
from tangentbundle.estimators.likelihood import Evidence, maximise
from tangentbundle.estimators.seasons import Seasonal, change
from tangentbundle.manifolds import Sphere

SPHERE = Sphere(2)


def sites(n, seed=0, past=None):
    points = SPHERE.sample(n, seed=seed)
    plain = Sites(torch.from_numpy(points), torch.from_numpy(SPHERE.frames(points)))
    return plain if past is None else past.attach(plain, points)


@pytest.fixture(scope="module")
def past():
    points = SPHERE.sample(80, seed=5)
    noise = np.random.default_rng(0).standard_normal((12, 80, 3))
    return Past.of(points, noise)


COVARIANCES = [Isotropic(s) for s in (0.5, 1.5, 2.5, np.inf)] + [
    Potential(),
    Rotational(),
    Helmholtz(),
    Zonal(),
    Meridional((1.0, -2.0, 0.5)),
    Planetary(),
    Empirical(),
    Modulated(Isotropic(1.5)),
    Seasonal(),
    change((1.0, -2.0, 0.5)),
    learned(Helmholtz()),
    learned(Helmholtz(), (0.0, 0.0, 1.0)),
]


@pytest.mark.parametrize("covariance", COVARIANCES, ids=str)
def test_positive_with_matching_diagonal_and_gradient(covariance, past):
    a, theta = sites(40, past=past), torch.tensor(covariance.start, dtype=torch.float64)
    matrix = covariance(theta, a, a)
    assert torch.allclose(matrix, matrix.T, atol=1e-10)
    assert float(torch.linalg.eigvalsh(matrix).min()) > -1e-8 * float(matrix.diagonal().max())
    blocks = matrix.unflatten(0, (40, 2)).unflatten(2, (40, 2))
    own = torch.stack([blocks[i, :, i] for i in range(40)])
    assert torch.allclose(own, covariance.diagonal(theta, a), atol=1e-6)
    assert len(covariance.names) == len(covariance.start)
    cross = covariance(theta, a[slice(0, 7)], a)
    assert torch.allclose(cross, matrix[:14], atol=1e-10)


def test_potential_is_the_second_derivative_of_the_matern_correlation():
    a, b, length, h = sites(5, 1), sites(6, 2), 0.7, 1e-4

    def k(x, y):
        return float(matern((x - y).norm() / length, 2.5))

    eye, expected = torch.eye(3, dtype=torch.float64), torch.zeros(5, 6, 3, 3, dtype=torch.float64)
    for i, x in enumerate(a.points):
        for j, y in enumerate(b.points):
            for p in range(3):
                for q in range(3):
                    u, v = h * eye[p], h * eye[q]
                    change = k(x + u, y + v) - k(x + u, y - v) - k(x - u, y + v) + k(x - u, y - v)
                    expected[i, j, p, q] = change / (4 * h**2)
    expected = torch.einsum("ipa,ijpq,jqb->iajb", a.frames, expected, b.frames).reshape(10, 12)
    theta = torch.tensor([0.0, np.log(length)], dtype=torch.float64)
    got = Potential()(theta, a, b) * 5 / (3 * length**2)  # scaled to one at zero distance
    assert torch.allclose(got, expected, atol=1e-5)


def test_zonal_fields_go_around_the_axis_and_meridional_ones_along_it():
    a, theta = sites(30), torch.tensor([0.2, -0.5, 12.0], dtype=torch.float64)  # a stretch without end: bands
    axis = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    around, along = torch.linalg.cross(axis.expand(30, 3), a.points), axis - a.points * (a.points @ axis)[:, None]
    z = a.points @ axis
    k = np.exp(0.4) * matern((z[:, None] - z).abs() / np.exp(-0.5), 1.5)
    for covariance, field in ((Zonal(), around), (Meridional(), along)):
        ambient = torch.einsum("nip,npmq,mjq->nimj", a.frames, covariance(theta, a, a).reshape(30, 2, 30, 2), a.frames)
        expected = torch.einsum("nm,ni,mj->nimj", k, field, field)
        assert torch.allclose(ambient, expected, atol=1e-6)


def test_the_axis_turns_with_space():
    """Points, frames and axis rotated together: the same covariance."""
    a, turn = sites(20), torch.linalg.qr(torch.from_numpy(np.random.default_rng(3).standard_normal((3, 3))))[0]
    turn = turn * torch.linalg.det(turn).sign()
    b = Sites(a.points @ turn.T, turn @ a.frames)
    theta = torch.tensor(Planetary().start, dtype=torch.float64)
    turned = Planetary(tuple((turn[:, 2] * 2.5).tolist()))  # of any length
    assert torch.allclose(Planetary()(theta, a, a), turned(theta, b, b), atol=1e-10)


@pytest.mark.parametrize("axis", [(0.0, 0.0, 0.0), (1.0, 0.0), (np.nan, 0.0, 1.0)])
def test_an_axis_is_a_vector_of_space(axis):
    with pytest.raises(InvalidInputError, match="axis"):
        Zonal(axis)


def test_the_gradient_of_the_likelihood_is_that_of_differences(past):
    covariance, a = learned(Helmholtz()), sites(15, past=past)
    seen = Evidence(a, torch.from_numpy(np.random.default_rng(1).standard_normal((30, 2))))
    start = np.array([*covariance.start, -1.0])
    theta = torch.from_numpy(start).requires_grad_()
    seen.loss(covariance, theta)
    for p in range(len(start)):
        step = 1e-5 * np.eye(len(start))[p]
        up, down = (seen.loss(covariance, torch.from_numpy(start + s).requires_grad_()) for s in (step, -step))
        assert np.isclose((up - down) / 2e-5, float(theta.grad[p]), rtol=1e-4, atol=1e-4)


def test_likelihood_finds_the_parameters_that_made_the_data():
    a, truth = sites(200), np.array([0.3, -0.6, -1.5])
    covariance = Isotropic(1.5)
    zeros = Evidence(a, torch.zeros(400, 1, dtype=torch.float64))
    factor = torch.linalg.cholesky(zeros.matrix(covariance, torch.from_numpy(truth)))
    values = factor @ torch.from_numpy(np.random.default_rng(0).standard_normal((400, 8)))
    found, _ = maximise(covariance, [Evidence(a, values)], np.array([0.0, -1.0, -2.0]), 3.0)
    assert np.abs(found - truth).max() < 0.15


def test_the_taper_is_continuous_and_ends():
    z = torch.linspace(0, 2.5, 2001, dtype=torch.float64)
    values = gaspari_cohn(z)
    assert values[0] == 1 and (values[z >= 2] == 0).all() and float(values.diff().abs().max()) < 2e-3


def test_past_fields_are_exact_where_they_were_seen(past):
    assert np.allclose(past.interpolate(past.points[:9], past.fields), past.fields[:, :9], atol=1e-12)


def rough(count, points, seed=0):
    """Ambient fields ``(count, n, 3)`` of one stationary process, twice as large in the north."""
    k = np.exp(-np.square(points[:, None] - points[None]).sum(axis=-1) / (2 * 0.4**2))
    root = np.linalg.cholesky(k + 1e-9 * np.eye(len(points)))
    fields = np.einsum("nm,tmi->tni", root, np.random.default_rng(seed).standard_normal((count, *points.shape)))
    frames = SPHERE.frames(points)
    fields = np.einsum("nij,nkj,tnk->tni", frames, frames, fields)
    return fields * np.where(points[:, 2] > 0, 2.0, 1.0)[:, None]


def test_shifted_fields_tell_more_of_correlations_and_leave_local_sizes():
    points, rng = SPHERE.sample(500, seed=3), np.random.default_rng(0)
    plain = Past.of(points, rough(20, points))
    a, b, truth = (
        sites(60, seed=4, past=p) for p in (plain, plain.shifted(0.4, 2, rng), Past.of(points, rough(4000, points, 1)))
    )
    theta = torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert torch.allclose(Empirical().diagonal(theta, a), Empirical().diagonal(theta, b))
    assert b.past.shape[0] > 5 * a.past.shape[0]

    def correlations(s):
        matrix = Empirical()(theta, s, s)
        return matrix / torch.sqrt(torch.outer(matrix.diagonal(), matrix.diagonal()))

    errors = [(correlations(s) - correlations(truth)).square().mean() for s in (a, b)]
    assert errors[1] < 0.75 * errors[0]
    whole, part = Empirical()(theta, b, b), Empirical()(theta, b[slice(0, 7)], b)
    assert torch.linalg.eigvalsh(whole).min() > -1e-8 * whole.max() and torch.allclose(part, whole[:14])


def test_points_of_a_history_are_drawn_evenly():
    points = SPHERE.sample_nonuniform(4000, 6.0, seed=0)
    chosen = points[Past.of(points, np.zeros((8, 4000, 3))).spread(300, 2, np.random.default_rng(0))]
    shares = [float((p[:, 2] > 0).mean()) for p in (points, chosen)]
    assert abs(shares[1] - 0.5) < 0.08 and abs(shares[0] - 0.5) > 0.15


def test_many_past_fields_are_not_shifted():
    points = SPHERE.sample(10, seed=0)
    past = Past.of(points, np.random.default_rng(0).standard_normal((2100, 10, 3)))
    assert past.shifted(0.4, 2, np.random.default_rng(0)).shifts is None
