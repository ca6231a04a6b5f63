"""Forecasts by a network that attends to neighbours, and several methods together."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError
from tangentbundle.estimators import AttentionNetwork, Autoregression, Stacked
from tangentbundle.estimators.attention import NeighborAttention
from tangentbundle.estimators.forecaster import default_method
from tangentbundle.estimators.stacked import _least_squares
from tangentbundle.estimators.surroundings import Symmetry, directed

SPHERE = tb.manifolds.Sphere(2)
POINTS = SPHERE.sample(60, seed=0)
FRAMES = SPHERE.frames(POINTS)
SMALL = AttentionNetwork(width=16, neighbors=4, window=3, reach=2, steps=40, batch=64)


def error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.square(a - b).sum(axis=-1).mean())


def noise(count: int, points: np.ndarray = POINTS, seed: int = 0) -> np.ndarray:
    """Tangent white noise, (T, n, 3)."""
    x = np.random.default_rng(seed).standard_normal((count, *points.shape))
    return x - np.einsum("tni,ni->tn", x, points)[..., None] * points


def whirl(count: int, points: np.ndarray = POINTS, seed: int = 0) -> np.ndarray:
    """A vector that is turned by a quarter if it is short, the other way if it is long: no line fits that.

    Its next length is random, and both sides of the equator are mirror images.
    """
    rng, side = np.random.default_rng(seed), np.sign(points[:, 2:])
    series = [noise(1, points, seed + 100)[0]]
    for _ in range(count - 1):
        size = np.linalg.norm(series[-1], axis=1, keepdims=True)
        turned = side * np.sign(size - 1.2) * np.cross(points, series[-1]) / size
        series.append(rng.uniform(0.5, 2.0, size.shape) * turned)
    return np.stack(series)


def forecasts(method, series: np.ndarray, split: int, horizon: int = 1, **options) -> tuple[np.ndarray, np.ndarray]:
    """What is forecast after every window of ten fields from ``split`` on, and what came."""
    forecaster = tb.FieldForecaster(method, manifold=SPHERE, random_state=0, **options).fit(POINTS, series[:split])
    starts = range(split + 10, len(series) - horizon + 1, 3)
    made = np.stack([forecaster.predict(series[s - 10 : s], horizon) for s in starts])
    return made, np.stack([series[s : s + horizon] for s in starts])


@pytest.mark.slow
def test_a_law_that_is_not_linear_is_learnt():
    series = whirl(160)
    network = AttentionNetwork(width=32, neighbors=4, window=2, reach=1, steps=400, batch=256)
    methods = Autoregression(), network, Stacked((Autoregression(), network))
    line, net, both = (error(*forecasts(method, series, 120)) for method in methods)
    least = (2.0 - 0.5) ** 2 / 12  # of the random length
    assert net - least < 0.2 * (line - least) and both < 1.05 * net


def test_a_network_that_knows_nothing_is_left_out():
    series = noise(140)
    for t in range(1, 140):
        series[t] = 0.9 * series[t - 1] + 0.3 * series[t]
    untrained = AttentionNetwork(width=16, neighbors=4, window=3, reach=4, steps=1, batch=2)
    forecaster = tb.FieldForecaster(Stacked((Autoregression(), untrained)), manifold=SPHERE, random_state=0)
    forecaster.fit(POINTS, series[:110])
    alone = tb.FieldForecaster(Autoregression(), manifold=SPHERE).fit(POINTS, series[:110])
    for h in range(1, 5):
        weights, told = forecaster.fitted_._lead(h, 10)
        assert (weights >= 0).all() and weights.sum() <= 1 + 1e-12 and weights[1] < 0.1
        assert 0 < told.skill < 1
    made, plain = (f.predict(series[100:110], 4) for f in (forecaster, alone))
    assert error(made, plain) < 0.01 * error(plain, 0 * plain)


def test_short_windows_are_left_to_methods_that_need_no_more():
    series = whirl(120)
    forecaster = tb.FieldForecaster(Stacked((Autoregression(), SMALL)), manifold=SPHERE, random_state=0)
    forecaster.fit(POINTS, series[:110])
    assert forecaster.fitted_._lead(1, 2)[0][1] == 0.0
    future, std = forecaster.predict(series[108:110], 5, return_std=True)
    assert future.shape == std.shape == (5, 60, 3) and np.isfinite(future).all() and (std > 0).all()
    alone = tb.FieldForecaster(SMALL, manifold=SPHERE, random_state=0).fit(POINTS, series[:110])
    made = alone.predict(series[109:110], 5)  # shorter than its window, longer than its reach
    assert np.isfinite(made).all()
    climate = alone.climate_.updated(
        np.einsum("nij,tni->tnj", FRAMES, series[109:110]) / alone.scale_, np.array([109])
    )[0]
    assert np.allclose(made[2:], alone.scale_ * np.einsum("nij,nj->ni", FRAMES, climate))


def test_forecasts_turn_with_the_world_about_its_axis():
    series = whirl(90)
    made = tb.FieldForecaster(SMALL, manifold=SPHERE, random_state=0).fit(POINTS, series).predict(series[-10:], 2)
    c, s = np.cos(0.7), np.sin(0.7)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    other = tb.FieldForecaster(SMALL, manifold=SPHERE, random_state=0).fit(POINTS @ turn, 3 * series @ turn)
    turned = other.predict(3 * series[-10:] @ turn, 2)  # in other units, too
    assert error(turned, 3 * made @ turn) < 1e-6 * error(turned, 0 * turned)


def test_weights_are_those_of_nonnegative_least_squares():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 40, 5, 2))
    assert np.allclose(_least_squares([a, b], 0.3 * a + 0.5 * b), [0.3, 0.5], atol=1e-6)
    assert np.allclose(_least_squares([a, c], 0.4 * a - 0.5 * c + 0 * b)[1], 0, atol=1e-12)
    assert np.allclose(_least_squares([a, b], 2 * a + 2 * b), [0.5, 0.5], atol=1e-6)
    assert (_least_squares([0 * a, 0 * a], b) == 0).all()
    assert np.allclose(_least_squares([a, a], a).sum(), 1, atol=1e-6)


def test_a_fitted_forecaster_can_be_stored_and_is_the_same_again():
    series = whirl(90)
    forecaster = tb.FieldForecaster(Stacked((Autoregression(), SMALL)), manifold=SPHERE, random_state=0)
    made = forecaster.fit(POINTS, series).predict(series[-10:], 3)
    assert np.array_equal(pickle.loads(pickle.dumps(forecaster)).predict(series[-10:], 3), made)
    assert np.allclose(clone(forecaster).fit(POINTS, series).predict(series[-10:], 3), made, atol=1e-5)


@pytest.mark.parametrize("dim", [1, 3])
def test_any_dimension_and_estimated_tangent_spaces(dim):
    sphere = tb.manifolds.Sphere(dim)
    points = sphere.sample(80, seed=1)
    series = noise(90, points)
    for t in range(1, 90):
        series[t] = 0.8 * series[t - 1] + 0.6 * series[t]
    future = tb.FieldForecaster(SMALL, dim=dim, random_state=0).fit(points, series[:80]).predict(series[70:80], 2)
    assert future.shape == (2, 80, dim + 1)
    assert error(future[0], series[80]) < error(0 * future[0], series[80])


@pytest.mark.slow
def test_more_places_are_learnt_from():
    others, few = SPHERE.sample(900, seed=5), POINTS[:10]
    series = whirl(80, np.concatenate([few, others]))
    network = AttentionNetwork(width=32, neighbors=3, window=2, reach=1, steps=400, batch=128)
    errors = []
    for more in (None, (others, series[:60, 10:])):
        forecaster = tb.FieldForecaster(network, manifold=SPHERE, random_state=0).fit(few, series[:60, :10], more=more)
        made = np.stack([forecaster.predict(series[t - 5 : t, :10], 1)[0] for t in range(65, 80)])
        errors.append(error(made, series[65:80, :10]))
    assert errors[1] < 0.8 * errors[0]


def test_the_default_has_a_network_where_there_is_enough_to_learn_from():
    assert isinstance(default_method(100, 50), Stacked)
    assert all(isinstance(default_method(*size), Autoregression) for size in [(99, 1000), (100, 49)])


def test_directed_bases_on_a_torus_and_at_the_poles():
    torus = tb.manifolds.Torus()
    points = torus.sample(50, seed=0)
    turns, heights = directed(points, torus.frames(points), torus.axis)
    assert np.allclose(turns @ turns.transpose(0, 2, 1), np.eye(2)) and np.abs(heights).max() <= 1
    assert np.allclose(np.linalg.det(turns), 1)
    poles = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
    turns, heights = directed(poles, SPHERE.frames(poles), SPHERE.axis)
    assert np.allclose(turns @ turns.transpose(0, 2, 1), np.eye(2)) and heights[:, 0].tolist() == [1, -1, 0]
    assert directed(POINTS, FRAMES, None)[1].shape == (60, 0)


@pytest.mark.parametrize(
    ("dim", "axis", "oriented"), [(2, True, True), (1, False, False), (2, False, True), (3, False, False)]
)
def test_symmetries_are_turns(dim, axis, oriented):
    symmetry, rng = Symmetry(dim, axis, oriented), np.random.default_rng(0)
    found = [symmetry.random(rng) for _ in range(20)]
    for turn in found + symmetry.some():
        assert torch.allclose(turn @ turn.T, torch.eye(dim), atol=1e-6)
    signs = {round(float(torch.linalg.det(turn))) for turn in found}
    assert signs == ({1} if oriented and not axis else {1, -1})


def test_network_ignores_the_order_of_a_batch_and_has_gradients():
    torch.manual_seed(0)
    net = NeighborAttention(own=5, token=3, neighbors=6, out=2, width=16, layers=2, dropout=0.0)
    own, tokens = torch.randn(9, 5), torch.randn(9, 6, 3)
    order = torch.randperm(9)
    assert torch.allclose(net(own, tokens)[order], net(own[order], tokens[order]), atol=1e-6)
    torch.nn.init.normal_(net.out.weight)
    net(own, tokens).square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())


def test_bad_input():
    with pytest.raises(InvalidInputError, match="Autoregression"):
        tb.FieldForecaster(AttentionNetwork(), manifold=SPHERE).fit(POINTS, noise(45))
    with pytest.raises(InvalidInputError, match="methods"):
        Stacked(())
    with pytest.raises(InvalidInputError, match="methods"):
        Stacked(("ridge",))
    nested = Stacked((Stacked((Autoregression(),)), Autoregression()))
    with pytest.raises(InvalidInputError, match="part of another"):
        tb.FieldForecaster(nested, manifold=SPHERE).fit(POINTS, noise(40)).predict(noise(8), 2)
