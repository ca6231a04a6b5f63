"""The forecaster: its contract for every method and option, brute-force references, known dynamics,
and bad input."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import tangentbundle as tb
from tangentbundle.errors import (
    InvalidInputError,
    NoInformationWarning,
    NonFiniteError,
    ShapeError,
    TooFewPointsError,
)
from tangentbundle.forecast import Autoregression, Climatology, Persistence
from tangentbundle.forecast.climate import (
    Climate,
    cycle_variance,
    fitted_correlation,
    mean_variance,
)
from tangentbundle.forecast.methods import fill_gaps
from tangentbundle.timeline import Clock, calendar_period

SPHERE = tb.manifolds.Sphere(2)
POINTS = SPHERE.sample(80, seed=0)
FRAMES = SPHERE.frames(POINTS)
METHODS = (
    Climatology(),
    Persistence(),
    Autoregression(),
    Autoregression(lags=(0,), neighbors=3, reach=4),
)


def red_noise(
    count: int, shape: tuple[int, ...] = (80, 2), memory: float = 0.8, seed: int = 0
) -> np.ndarray:
    """Independent first-order autoregressions of variance one, (T, *shape)."""
    rng = np.random.default_rng(seed)
    x = [rng.standard_normal(shape)]
    for _ in range(count - 1):
        x.append(memory * x[-1] + np.sqrt(1 - memory**2) * rng.standard_normal(shape))
    return np.stack(x)


def ambient(coordinates: np.ndarray) -> np.ndarray:
    return np.einsum("nij,tnj->tni", FRAMES, coordinates)


def rotation(angle: float) -> np.ndarray:
    """About the axis."""
    return np.array(
        [
            [np.cos(angle), -np.sin(angle), 0.0],
            [np.sin(angle), np.cos(angle), 0.0],
            [0.0, 0.0, 1.0],
        ]
    )


def rotating(count: int, speed: float = 0.15, noise: float = 0.0) -> np.ndarray:
    """A field carried round the axis: ``x_t = R_t f(R_t^-1 x)``, (T, n, 3)."""
    fields = []
    for t in range(count):
        c, s = np.cos(speed * t), np.sin(speed * t)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        fields.append(SPHERE.gradient_field(POINTS @ turn, 2) @ turn.T)
    return np.stack(fields) + noise * ambient(red_noise(count, memory=0.0))


def error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.square(a - b).sum(axis=-1).mean())


def forecasts(
    forecaster, series: np.ndarray, starts, window: int = 20, horizon: int = 3
) -> np.ndarray:
    return np.stack([forecaster.predict(series[s - window : s], horizon) for s in starts])


def futures(series: np.ndarray, starts, horizon: int = 3) -> np.ndarray:
    return np.stack([series[s : s + horizon] for s in starts])


@pytest.fixture(scope="module")
def red() -> tuple[np.ndarray, tb.FieldForecaster]:
    series = ambient(red_noise(420))
    return series, tb.FieldForecaster(manifold=SPHERE).fit(POINTS, series[:300])


# The contract


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fields", [16, 40, 120])
@pytest.mark.parametrize("period", [None, 4])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_every_method_and_option_gives_finite_tangent_answers(method, fields, period, dim):
    space = tb.manifolds.Sphere(dim)
    points = space.sample(24, seed=1)
    series = np.einsum("nij,tnj->tni", space.frames(points), red_noise(fields + 1, (24, dim)))
    times = np.delete(np.arange(fields + 1), 5)  # one field is missing
    forecaster = tb.FieldForecaster(method, manifold=space, period=period)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoInformationWarning)
        forecaster.fit(points, series[times], times=times)
    for window, horizon in [(1, 1), (3, 50), (12, 2)]:
        recent, steps = series[-window:], np.arange(fields + 1 - window, fields + 1)
        future, std = forecaster.predict(recent, horizon, times=steps, return_std=True)
        low, high = forecaster.predict_interval(recent, horizon, times=steps)
        for values in (future, std, low, high):
            assert values.shape == (horizon, 24, dim + 1) and np.isfinite(values).all()
        assert (std >= 0).all() and (low <= future).all() and (future <= high).all()
        assert np.abs(np.einsum("tni,ni->tn", future, points)).max() < 1e-9
        stored = pickle.loads(pickle.dumps(forecaster)).predict(recent, horizon, times=steps)
        assert np.allclose(stored, future, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_clone_gives_the_same_answers(method):
    series = rotating(60, noise=0.1)
    forecaster = tb.FieldForecaster(method, manifold=SPHERE, period=2).fit(POINTS, series)
    twin = clone(forecaster)
    assert twin.method == method and twin.period == 2 and twin.fit(POINTS, series) is twin
    assert np.allclose(twin.predict(series[-9:], 5), forecaster.predict(series[-9:], 5), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_long_leads_revert_to_the_climatology_with_its_spread(method):
    series = ambient(red_noise(300, seed=3)) + SPHERE.gradient_field(POINTS, 1)
    forecaster = tb.FieldForecaster(method, manifold=SPHERE).fit(POINTS, series)
    future, std = forecaster.predict(series[-20:], 90, return_std=True)
    climatology = tb.FieldForecaster(Climatology(), manifold=SPHERE).fit(POINTS, series)
    mean, spread = climatology.predict(series[-20:], 90, return_std=True)
    assert np.allclose(future[-10:], mean[-10:]) and np.allclose(std[-10:], spread[-10:])
    assert (std.mean(axis=(1, 2)) <= 1.02 * std[-1].mean()).all()
    sizes = np.sqrt(np.square(series - series.mean(axis=0)).mean())
    assert 1.0 < np.sqrt(np.square(std[-1]).mean()) / sizes < 1.15


def test_an_isolated_point_a_constant_point_and_repeated_points():
    points = np.concatenate([POINTS[:40], POINTS[:1], [[0.0, 0.0, 40.0]]])
    series = np.random.default_rng(0).standard_normal((60, 42, 3))
    series[:, 7] = [0.3, 0.1, 0.2]
    forecaster = tb.FieldForecaster(dim=3).fit(points, series)
    future, std = forecaster.predict(series[-5:], 4, return_std=True)
    assert np.isfinite(future).all() and np.isfinite(std).all()
    assert np.allclose(future[:, 7], series[0, 7], atol=0.05)


def test_a_second_fit_forgets_the_first():
    forecaster = tb.FieldForecaster(manifold=SPHERE)
    series = rotating(60, noise=0.1)
    first = forecaster.fit(POINTS, series).predict(series[-5:], 3)
    forecaster.fit(POINTS[:50], -2 * series[:, :50]).predict(series[-5:, :50], 3)
    assert np.allclose(forecaster.fit(POINTS, series).predict(series[-5:], 3), first, atol=1e-9)


# Brute-force references


def test_climatology_is_the_mean_of_each_phase():
    series = ambient(red_noise(40))
    forecaster = tb.FieldForecaster(Climatology(), manifold=SPHERE, period=4).fit(POINTS, series)
    future = forecaster.predict(series[-1:], 8)
    expected = np.stack([series[phase::4].mean(axis=0) for phase in range(4)])
    assert np.allclose(
        future, np.concatenate([expected, expected])
    )  # one recent field shows no drift


def test_persistence_is_damped_by_the_slope():
    series = ambient(red_noise(200))
    forecaster = tb.FieldForecaster(Persistence(), manifold=SPHERE).fit(POINTS, series)
    mean = series.mean(axis=0)
    a = series - mean
    slope = [(a[:-h] * a[h:]).sum() / np.square(a[:-h]).sum() for h in (1, 2, 3)]
    future = forecaster.predict(series[-1:], 3)
    drifted, *_ = forecaster.climate_.current(forecaster.climate_.mean[None], np.array([0]))
    assert np.allclose(drifted.mean, forecaster.climate_.mean)
    assert np.allclose(future, mean + np.array(slope)[:, None, None] * a[-1], atol=0.02)


def test_autoregression_is_a_shared_and_a_local_regression():
    """Against features and normal equations written out point by point."""
    method = Autoregression(lags=(0, 1), neighbors=4, reach=2, penalties=(0.5,))
    series = ambient(red_noise(80))
    forecaster = tb.FieldForecaster(method, manifold=SPHERE).fit(POINTS, series)
    a = np.einsum("nij,tni->tnj", FRAMES, series - series.mean(axis=0)) / forecaster.scale_
    mean = np.einsum("nij,ni->nj", FRAMES, series.mean(axis=0)) / forecaster.scale_
    away = np.linalg.norm(POINTS[:, None] - POINTS, axis=2)
    order = np.argsort(away, axis=1)[:, 1:5]
    unit = np.median(np.take_along_axis(away, order, axis=1))
    weights = np.exp(-((away / unit) ** 2) / 2)

    def carried(field, i):
        """The neighbours' vectors in the frame of point i."""
        return np.stack([field[..., j, :] @ FRAMES[j].T @ FRAMES[i] for j in order[i]])

    def smooth(field):
        means = []
        for i in range(80):
            around = np.einsum("k,k...a->...a", weights[i, order[i]], carried(field, i))
            means.append((field[..., i, :] + around) / (1 + weights[i, order[i]].sum()))
        return np.stack(means, axis=-2)

    def derivative(field):
        """Of the linear function through the point that is nearest to its neighbours."""
        rates = []
        for i in range(80):
            steps = (POINTS[order[i]] - POINTS[i]) @ FRAMES[i] / unit
            root = np.sqrt(weights[i, order[i]] / np.square(steps).sum(axis=1))
            slopes = np.linalg.pinv(steps * root[:, None])  # (d, k)
            along = flow[i] @ slopes * root
            rates.append(np.einsum("k,k...a->...a", along, carried(field, i) - field[..., i, :]))
        return np.stack(rates, axis=-2)

    def patterns(field):
        """Sums over neighbours of all vectors formed of theirs, the step and the flow."""
        at_points = []
        for i in range(80):
            v = carried(field, i)
            e = flow[i] / np.linalg.norm(flow[i])
            steps = (POINTS[order[i]] - POINTS[i]) @ FRAMES[i] / unit
            along = steps @ e
            products = []
            for factor in (along**0, along, along**2, (steps**2).sum(axis=1)):
                products.append(factor[:, None, None] * v)
            for factor in (along**0, along, along**2, (steps**2).sum(axis=1)):
                products.append(factor[:, None, None] * (v @ e)[:, :, None] * e)
            inner = np.einsum("kta,ka->kt", v, steps)[:, :, None]
            for factor in (along**0, along):
                products.append(factor[:, None, None] * inner * e)
                products.append(factor[:, None, None] * (v @ e)[:, :, None] * steps[:, None])
            products.append(inner * steps[:, None])
            sums = []
            for reach in (0.7, 1.4):
                w = np.exp(-((away[i, order[i]] / unit / reach) ** 2) / 2)
                sums += [np.einsum("k,kta->ta", w / (1 + w.sum()), x) for x in products]
            at_points.append(np.stack(sums))
        return list(np.stack(at_points, axis=2))  # (q, T, n, d)

    flow = smooth(mean)
    speeds = np.linalg.norm(flow, axis=1, keepdims=True)
    speeds = np.minimum(speeds / np.sqrt(np.square(speeds).mean()), 2.0)
    sizes = np.log(np.square(a).mean(axis=(0, 2)))
    sizes = (sizes - sizes.mean())[:, None]
    once, moved = smooth(a), derivative(a)
    fields = [once, smooth(once), moved, derivative(moved), *patterns(a)]
    shared = [a[1:], a[:-1], a[1:] * sizes, a[:-1] * sizes]
    for field in fields:
        shared += [field[1:], field[1:] * speeds, field[:-1], field[:-1] * speeds]
    z, later = np.stack(shared, axis=-1), a[2:]  # (79, n, d, s), (78, n, d)
    gram = np.einsum("tnas,tnar->sr", z, z) / 79
    side = np.einsum("tnas,tna->s", z[:-1], later) / 78
    ridge = 1e-2 * np.diag(gram) + 1e-9 * np.trace(gram)
    coefficients = np.linalg.solve(gram + np.diag(ridge), side)
    forecaster.predict(series[-2:], 1)
    found = forecaster.fitted_._coefficients[1, 2]
    np.testing.assert_allclose(found.shared, coefficients, atol=1e-6)
    local = forecaster._order.restored(found.local)
    for i in (0, 31):
        around = weights[i, order[i]][:, None, None] * carried(a, i)[:, 1:]
        x = np.concatenate([a[1:, i], a[:-1, i], *around], axis=1)  # (79, f)
        gram = x.T @ x / 79
        explained = np.einsum("tf,tas->fas", x, z[:, i]) @ coefficients / 79
        side = x[:-1].T @ later[:, i] / 78 - explained
        ridge = 0.5 * np.trace(gram) / 12
        expected = np.linalg.solve(gram + ridge * np.eye(12), side)
        np.testing.assert_allclose(local[i], expected, atol=1e-6)


@pytest.mark.parametrize("turn", [np.diag([1.0, 1.0, -1.0]), rotation(2.0)], ids=str)
def test_forecasts_turn_with_the_earth(turn):
    """About its axis, and to the other side of the equator; not about other axes."""
    earth = tb.earth.Earth()
    series = rotating(60, noise=0.1)
    future = tb.FieldForecaster(manifold=earth).fit(POINTS, series).predict(series[-9:], 2)
    turned = tb.FieldForecaster(manifold=earth).fit(POINTS @ turn.T, series @ turn.T)
    np.testing.assert_allclose(turned.predict(series[-9:] @ turn.T, 2), future @ turn.T, atol=1e-8)
    across = rotation(1.0)[:, [2, 0, 1]]
    other = tb.FieldForecaster(manifold=earth).fit(POINTS @ across.T, series @ across.T)
    assert error(other.predict(series[-9:] @ across.T, 2), future @ across.T) > 1e-8


def test_variance_of_a_mean_is_that_of_simulated_ones():
    x = red_noise(40, (20_000,))
    assert abs(x.mean(axis=0).var() / mean_variance(0.8, 40) - 1) < 0.05
    departures = x.reshape(10, 4, -1).mean(axis=0) - x.mean(axis=0)  # of four phases
    assert abs(departures.var() / cycle_variance(0.8, 40, 4) - 1) < 0.15
    sums = x.reshape(10, 4, -1).mean(axis=1) - x.mean(axis=0)
    within = np.square(x - x.mean(axis=0)).mean()
    assert abs(fitted_correlation(np.square(sums).mean() / within, 4, 40) - 0.8) < 0.03


# Known dynamics


def test_moving_field_is_followed():
    series = rotating(140, noise=0.05)
    forecaster = tb.FieldForecaster(manifold=SPHERE).fit(POINTS, series[:100])
    future = forecaster.predict(series[100:120], horizon=6)
    assert error(future, series[120:126]) < 0.1 * error(series[119], series[120:126])


def test_red_noise_is_damped_as_it_should(red):
    series, forecaster = red
    starts = range(320, 415, 4)
    found, truth = forecasts(forecaster, series, starts), futures(series, starts)
    for lead in range(3):
        least = 2 * (1 - 0.8 ** (2 * lead + 2))  # of the best linear forecast
        assert least * 0.9 < error(found[:, lead], truth[:, lead]) < 1.12 * least


def test_skill_of_red_noise_is_that_of_the_best_linear_forecast(red):
    rows = red[1].skill_
    assert [row.lead for row in rows] == list(range(1, len(rows) + 1))
    for row in rows[:3]:
        memory = 0.8**row.lead
        assert abs(row.climatology - np.sqrt(2)) < 0.05
        assert abs(row.persistence / np.sqrt(4 * (1 - memory)) - 1) < 0.05
        assert abs(row.over_climatology - memory**2) < 0.05
        assert abs((row.error / row.persistence) ** 2 - (1 + memory) / 2) < 0.05
    assert rows[-1].over_climatology < 0.01 or len(rows) == red[1].fitted_.reach


def test_no_skill_is_said(red):
    white = ambient(red_noise(200, memory=0.0))
    for method in METHODS[1:]:
        assert (
            tb.FieldForecaster(method, manifold=SPHERE)
            .fit(POINTS, white)
            .skill_[0]
            .over_climatology
            <= 0.01
        )
    assert tb.FieldForecaster(Climatology(), manifold=SPHERE).fit(POINTS, white).skill_ == []


def test_white_noise_is_left_to_the_climatology():
    series = ambient(red_noise(260, memory=0.0, seed=5))
    forecaster = tb.FieldForecaster(manifold=SPHERE).fit(POINTS, series[:200])
    starts = range(220, 256, 4)
    truth = futures(series, starts)
    assert error(forecasts(forecaster, series, starts), truth) < 1.03 * error(
        series[:200].mean(axis=0), truth
    )


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_cover_heavy_tails(level):
    rng = np.random.default_rng(3)
    x = [rng.standard_t(3, (80, 2))]
    for _ in range(399):
        x.append(0.7 * x[-1] + rng.standard_t(3, x[-1].shape))
    series = np.stack(x)
    forecaster = tb.FieldForecaster(manifold=SPHERE).fit(POINTS, ambient(series[:300]))
    inside = []
    for s in range(320, 390, 6):
        low, high = forecaster.predict_interval(ambient(series[s - 20 : s]), 6, level=level)
        middle = np.einsum("nij,tni->tnj", FRAMES, (low + high) / 2)
        half = np.sqrt(np.square(high - low).sum(axis=-1) / 8)[..., None]
        inside.append(np.mean(np.abs(series[s : s + 6] - middle) < half))
    assert abs(np.mean(inside) - level) < 0.04


@pytest.mark.parametrize("n", [40, 60])
@pytest.mark.parametrize("manifold", [None, SPHERE])
def test_intervals_cover_what_estimated_planes_do_not_hold(manifold, n):
    """Few points have inexact planes, and vectors a part across them that is never forecast."""
    points = SPHERE.sample(n, seed=1)
    axes = np.array([[np.cos(0.3 * t), np.sin(0.3 * t), 0.5] for t in range(130)])
    noise = 0.05 * np.random.default_rng(0).standard_normal((130, n, 3))
    series = np.cross(axes[:, None] + noise, points)
    forecaster = tb.FieldForecaster(dim=2, manifold=manifold).fit(points, series[:74])
    within_std = []
    within_interval = []
    for s in range(84, 126, 5):
        field, std = forecaster.predict(series[s - 10 : s], 3, return_std=True)
        low, high = forecaster.predict_interval(series[s - 10 : s], 3, level=0.9)
        truth = series[s : s + 3]
        within_std.append(np.mean(np.abs(truth - field) <= std))
        within_interval.append(np.mean((low <= truth) & (truth <= high)))
    assert 0.6 < np.mean(within_std) < 0.76
    assert 0.85 < np.mean(within_interval) < 0.95


def test_short_records_warn_and_claim_no_less_than_is_true():
    claimed, true = [], []
    for seed in range(6):
        series = ambient(red_noise(60, memory=0.9, seed=seed))
        with pytest.warns(NoInformationWarning, match="climatology"):
            forecaster = tb.FieldForecaster(manifold=SPHERE).fit(POINTS, series[:16])
        future, std = forecaster.predict(series[:16], 40, return_std=True)
        claimed.append(np.square(std[20:]).sum(axis=-1).mean())
        true.append(error(future[20:], series[36:56]))
    assert 0.8 < np.mean(claimed) / np.mean(true) < 1.5


def test_intervals_include_the_error_of_a_long_cycle():
    series = ambient(red_noise(150, memory=0.3))
    forecaster = tb.FieldForecaster(manifold=SPHERE, period=12).fit(POINTS, series[:72])
    inside = []
    for s in range(92, 140, 6):
        future, std = forecaster.predict(
            series[s - 20 : s], 10, times=np.arange(s - 20, s), return_std=True
        )
        inside.append(np.square(future - series[s : s + 10]).mean() / np.square(std).mean())
    assert 0.85 < np.mean(inside) < 1.1


def test_drift_of_the_climatology_is_taken_from_the_window():
    season = 3 * SPHERE.gradient_field(POINTS, 1)
    training, later = ambient(red_noise(200)), ambient(red_noise(100, seed=1)) + season
    forecaster = tb.FieldForecaster(manifold=SPHERE).fit(POINTS, training)
    far = forecaster.predict(later[:60], horizon=40)[20:]
    assert (
        error(far, later[80:])
        < 1.3 * error(season, later[80:])
        < 0.5 * error(training.mean(0), later[80:])
    )


def test_without_drift_the_training_mean_stays():
    climate = Climate.of(red_noise(400), np.arange(400))
    window = red_noise(12, seed=3)
    assert (
        np.square(climate.current(window, np.arange(12))[0].mean).mean()
        < 0.2 * np.square(window.mean(0)).mean()
    )


def test_a_cycle_is_learned_and_continued():
    times = np.datetime64("2026-03-01T00") + 6 * np.arange(160) * np.timedelta64(1, "h")
    tide = np.cos(np.pi / 2 * np.arange(160))[:, None, None] * SPHERE.gradient_field(POINTS, 2)
    series = tide + 0.1 * ambient(red_noise(160, memory=0.2))
    assert calendar_period(times[:120]) == 4
    forecaster = tb.FieldForecaster(manifold=SPHERE, period=4).fit(
        POINTS, series[:120], times=times[:120]
    )
    for start in (121, 123):  # another phase each
        future = forecaster.predict(
            series[start : start + 1], horizon=12, times=times[start : start + 1]
        )
        assert error(future, tide[start + 1 : start + 13]) < 0.02 * float(
            np.square(tide).sum(-1).mean()
        )


def test_gaps_are_allowed_in_training_and_refused_in_windows():
    times = np.delete(np.arange(200), [50, 90, 91, 92])
    series = ambient(red_noise(200))[times]
    forecaster = tb.FieldForecaster(manifold=SPHERE).fit(POINTS, series, times=times)
    record = forecaster.fitted_.record
    assert (
        record.observed.sum() == 196 and record.usable.sum() == 197 and len(record.anomalies) == 200
    )
    assert forecaster.predict(series[40:60], 2, times=times[40:60]).shape == (2, 80, 3)
    with pytest.raises(InvalidInputError, match="gap"):
        forecaster.predict(series[80:100], 2, times=times[80:100])
    full, *_ = fill_gaps(np.array([[[0.0]], [[2.0]]]), np.array([3, 5]))
    assert full.ravel().tolist() == [0, 1, 2]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "times", [3 * np.arange(40), np.sort(np.r_[10 * np.arange(20), 10 * np.arange(20) + 1])]
)
def test_many_gaps_leave_the_climatology(method, times):
    series = ambient(red_noise(40))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoInformationWarning)
        forecaster = tb.FieldForecaster(method, manifold=SPHERE).fit(POINTS, series, times=times)
    future, std = forecaster.predict(series[-1:], 5, times=times[-1:], return_std=True)
    assert np.isfinite(future).all() and (std > 0).all()


def test_forecasts_do_not_depend_on_frames_or_units():
    series = rotating(100, noise=0.1)
    method = Autoregression()
    plain = (
        tb.FieldForecaster(method, manifold=SPHERE)
        .fit(POINTS, series[:80])
        .predict(series[60:80], 8)
    )
    scaled = (
        tb.FieldForecaster(method, manifold=SPHERE)
        .fit(POINTS, 7 * series[:80])
        .predict(7 * series[60:80], 8)
    )
    assert np.allclose(scaled, 7 * plain, atol=1e-4)
    order = np.random.default_rng(0).permutation(80)
    mixed = tb.FieldForecaster(method, manifold=SPHERE).fit(POINTS[order], series[:80, order])
    assert np.array_equal(mixed.predict(series[60:80, order], 8), plain[:, order])
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[
        0
    ]  # other frames everywhere
    turned = tb.FieldForecaster(method, manifold=SPHERE).fit(POINTS @ turn, series[:80] @ turn)
    assert np.allclose(turned.predict(series[60:80] @ turn, 8), plain @ turn, atol=1e-4)


def test_estimated_tangent_spaces():
    series = rotating(60, noise=0.1)
    forecaster = tb.FieldForecaster(Autoregression(neighbors=4, reach=4), dim=2).fit(POINTS, series)
    assert forecaster.predict(series[-5:], 3).shape == (3, 80, 3)


# Bad input

SERIES = rotating(40)


def spoiled() -> np.ndarray:
    series = SERIES.copy()
    series[7, 3, 1] = np.nan
    return series


@pytest.mark.parametrize(
    ("points", "series", "options", "kind", "words"),
    [
        (POINTS, spoiled(), {}, NonFiniteError, "number 7"),
        (
            np.where(POINTS[4] == POINTS, np.nan, POINTS),
            SERIES,
            {},
            NonFiniteError,
            "points must be finite",
        ),
        (POINTS, SERIES[:, :70], {}, ShapeError, "80"),
        (POINTS, SERIES[0], {}, ShapeError, "(T, n, D)"),
        (POINTS, SERIES[:10], {}, InvalidInputError, "at least"),
        (POINTS, np.repeat(SERIES[:1], 40, axis=0), {}, InvalidInputError, "constant"),
        (POINTS[:2], SERIES[:, :2], {}, TooFewPointsError, "at least 3"),
        (POINTS, SERIES, {"times": np.arange(39)}, ShapeError, "(40,)"),
        (POINTS, SERIES, {"times": np.arange(40)[::-1]}, InvalidInputError, "ascend"),
        (POINTS, SERIES, {"times": np.linspace(0, 1, 40)}, InvalidInputError, "datetime64"),
    ],
)
def test_bad_input_of_fit(points, series, options, kind, words):
    with pytest.raises(kind) as caught:
        tb.FieldForecaster(manifold=SPHERE).fit(points, series, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("recent", "horizon", "times", "kind"),
    [
        (SERIES[:0], 2, None, InvalidInputError),
        (spoiled(), 2, None, NonFiniteError),
        (SERIES[:, :5], 2, None, ShapeError),
        (SERIES, 0, None, InvalidInputError),
        (SERIES, 2.5, None, InvalidInputError),
        (
            SERIES[:3],
            2,
            np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "datetime64[D]"),
            InvalidInputError,
        ),
    ],
)
def test_bad_input_of_predict(red, recent, horizon, times, kind):
    with pytest.raises(kind):
        red[1].predict(recent, horizon, times=times)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "ridge"}, "Autoregression"),
        ({"period": 0}, "period"),
        ({"period": 14}, "at least 3 times"),
    ],
)
def test_bad_parameters(options, words):
    with pytest.raises(InvalidInputError, match=words):
        tb.FieldForecaster(**options, manifold=SPHERE).fit(POINTS, SERIES)


@pytest.mark.parametrize(
    "options", [{"lags": (1,)}, {"reach": 0}, {"neighbors": 0}, {"penalties": ()}]
)
def test_bad_methods(options):
    with pytest.raises(InvalidInputError):
        Autoregression(**options)


def test_clocks():
    hours = np.datetime64("2026-01-01T00") + 6 * np.arange(40) * np.timedelta64(1, "h")
    with pytest.raises(InvalidInputError, match="clock"):
        Clock.of(hours, 40)[0].steps(hours[:3] + np.timedelta64(1, "h"), 3)
    months = np.arange("1990-01", "1994-01", dtype="datetime64[M]")
    clock, steps = Clock.of(months, 48)
    assert calendar_period(months) == 12 and steps[-1] == 47
    assert clock.steps(np.array(["1995-03", "1995-04"], "datetime64[M]"), 2).tolist() == [62, 63]
    assert calendar_period(None) is None and calendar_period(hours[:8]) is None


def test_the_spread_of_forecasts_from_short_records():
    """Slow anomalies, 16 fields: the spread is neither that of independent fields nor that of far
    times."""
    points, claimed, true = SPHERE.sample(20, seed=1), [], []
    modes = np.stack([SPHERE.gradient_field(points, degree) for degree in (1, 2, 3)])
    for seed in range(60):
        rng = np.random.default_rng(seed)
        weights = [rng.standard_normal(3) / np.sqrt(1 - 0.9**2)]
        for _ in range(23):
            weights.append(0.9 * weights[-1] + rng.standard_normal(3))
        series = np.einsum("tk,knd->tnd", np.array(weights), modes)
        model = tb.FieldForecaster(Climatology(), manifold=SPHERE).fit(points, series[:16])
        future, std = model.predict(series[:16], 8, return_std=True)
        claimed.append(np.square(std).sum(axis=2).mean(axis=1))
        true.append(np.square(future - series[16:]).sum(axis=2).mean(axis=1))
    ratio = np.sqrt(np.mean(claimed, axis=0) / np.mean(true, axis=0))
    assert ratio.min() > 0.8 and ratio.max() < 1.15
