"""The continuous limit of a network, computed on a meridian, is that of the manifold."""

import numpy as np
import pytest
import torch

import tangentbundle as tb
from benchmarks.limit import SphereMeridian, TorusMeridian, banks, difference, limit, network

MERIDIANS = {"sphere": SphereMeridian(), "torus": TorusMeridian()}


@pytest.fixture(params=MERIDIANS)
def meridian(request):
    return MERIDIANS[request.param]


def test_fields_are_tangent_and_do_not_depend_on_the_longitude(meridian):
    points = meridian.manifold.sample(60, seed=0)
    vectors = meridian.field(meridian.signal(), points)[:, :, 0]
    frames = meridian.manifold.frames(points)
    np.testing.assert_allclose(
        frames @ (frames.mT @ vectors[:, :, None]), vectors[:, :, None], atol=1e-12
    )
    turn = np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(
        meridian.field(meridian.signal(), points @ turn.T)[:, :, 0], vectors @ turn.T, atol=1e-9
    )


def test_eigenfields_of_the_sphere_are_filtered_by_their_eigenvalues():
    meridian = MERIDIANS["sphere"]
    z = meridian.nodes
    u = -np.sqrt(1 - z**2) * 3 * z  # the gradient of a Legendre polynomial of degree 2
    values = np.stack([u, 0 * u], axis=1)[:, :, None]
    np.testing.assert_allclose(
        meridian.filtered(tb.Heat(0.2), values), np.exp(-0.2 * 5) * values, atol=1e-12
    )


def test_a_finer_meridian_changes_nothing(meridian):
    """The limit is exact far beyond what samples reach."""
    finer = type(meridian)(2 * (len(meridian.nodes) if isinstance(meridian, TorusMeridian) else 80))
    points = meridian.manifold.sample(50, seed=1)
    for filters in banks(meridian.unit).values():
        net = network(filters, seed=1)
        outputs = [limit(net, filters, m, points) for m in (meridian, finer)]
        np.testing.assert_allclose(*outputs, atol=1e-9)


def test_weights_amplify_nothing(meridian):
    for filters in banks(meridian.unit).values():
        for layer in network(filters, seed=3).layers:
            assert torch.all(layer.conv.weight.abs().sum(dim=0) <= 1 + 1e-12)


@pytest.mark.parametrize("bank", banks(1.0))
def test_samples_come_nearer_to_the_limit(meridian, bank):
    filters = banks(meridian.unit)[bank]
    few, many = (
        np.mean([difference(meridian, filters, n, seed) for seed in range(3)]) for n in (300, 3000)
    )
    assert many < 0.6 * few < 0.15
