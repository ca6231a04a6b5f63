"""The forecaster: known dynamics, drift, cycles, free windows, uncertainty, symmetry, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError, NonFiniteError, ShapeError, TooFewPointsError
from tangentbundle.estimators.attentive import AttentionNetwork
from tangentbundle.estimators.autoregression import Autoregression, Neighborhood
from tangentbundle.estimators.climate import Climate
from tangentbundle.estimators.clock import Clock
from tangentbundle.estimators.stacked import Stacked
from tangentbundle.estimators.tangents import TangentSpaces

SPHERE = tb.manifolds.Sphere(2)
POINTS = SPHERE.sample(80, seed=0)
FRAMES = SPHERE.frames(POINTS)
LINEAR = Autoregression()
BOTH = Stacked((LINEAR, AttentionNetwork(width=32, steps=200, batch=256)))


def rotating(count: int, speed: float = 0.15, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """A field carried round the axis: ``x_t = R_t f(R_t^-1 x)``, (T, n, 3)."""
    fields = []
    for t in range(count):
        c, s = np.cos(speed * t), np.sin(speed * t)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        fields.append(SPHERE.gradient_field(POINTS @ turn, 2) @ turn.T)
    extra = np.random.default_rng(seed).standard_normal((count, len(POINTS), 2))
    return np.stack(fields) + noise * np.einsum("nij,tnj->tni", FRAMES, extra)


def red_noise(count: int, memory: float = 0.8, seed: int = 0) -> np.ndarray:
    """Independent first-order autoregressions of variance one at all points, (T, n, 2)."""
    rng = np.random.default_rng(seed)
    x = [rng.standard_normal((len(POINTS), 2))]
    for _ in range(count - 1):
        x.append(memory * x[-1] + np.sqrt(1 - memory**2) * rng.standard_normal(x[-1].shape))
    return np.stack(x)


def ambient(coordinates: np.ndarray) -> np.ndarray:
    return np.einsum("nij,tnj->tni", FRAMES, coordinates)


def error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.square(a - b).sum(axis=-1).mean())


@pytest.fixture(scope="module")
def red() -> tuple[np.ndarray, tb.FieldForecaster]:
    series = ambient(red_noise(420))
    return series, tb.FieldForecaster(BOTH, manifold=SPHERE).fit(POINTS, series[:300])


def test_moving_field_is_followed():
    series = rotating(140, noise=0.05)
    forecaster = tb.FieldForecaster(BOTH, manifold=SPHERE).fit(POINTS, series[:100])
    future = forecaster.predict(series[100:120], horizon=6)
    assert error(future, series[120:126]) < 0.1 * error(series[119], series[120:126])


def test_red_noise_is_damped_as_it_should(red):
    series, forecaster = red
    starts = range(300, 395, 4)
    futures = np.stack([forecaster.predict(series[s - 20 : s], horizon=3) for s in starts])
    truth = np.stack([series[s : s + 3] for s in starts])
    for lead in range(3):
        least = 2 * (1 - 0.8 ** (2 * lead + 2))  # of the best linear forecast
        assert least * 0.9 < error(futures[:, lead], truth[:, lead]) < 1.12 * least


def test_white_noise_is_left_to_the_climate():
    series = ambient(red_noise(260, memory=0.0, seed=5))
    forecaster = tb.FieldForecaster(BOTH, manifold=SPHERE).fit(POINTS, series[:200])
    starts = range(200, 256, 4)
    futures = np.stack([forecaster.predict(series[s - 20 : s], horizon=4) for s in starts])
    truth = np.stack([series[s : s + 4] for s in starts])
    assert error(futures, truth) < 1.03 * error(series[:200].mean(axis=0), truth)


def test_persistence_is_beaten_where_there_is_memory(red):
    series, forecaster = red
    starts = range(300, 410, 5)
    futures = np.stack([forecaster.predict(series[s - 20 : s], horizon=8) for s in starts])
    truth = np.stack([series[s : s + 8] for s in starts])
    last = np.stack([series[s - 1 : s] for s in starts])
    assert error(futures, truth) < 0.75 * error(last, truth)  # the best linear forecast: 0.67


def test_intervals_cover(red):
    series, forecaster = red
    inside = []
    for s in range(300, 400, 10):
        future, std = forecaster.predict(series[s - 20 : s], horizon=10, return_std=True)
        spread = np.sqrt(np.square(std).sum(axis=-1) / 2)[..., None]
        off = np.einsum("nij,tni->tnj", FRAMES, future - series[s : s + 10]) / spread
        inside.append([np.mean(np.abs(off) < z) for z in (0.6745, 1.6449)])
        assert np.isfinite(std).all() and (std[0] <= std[5] + 1e-9).mean() > 0.9
    assert np.abs(np.mean(inside, axis=0) - [0.5, 0.9]).max() < 0.05


def test_intervals_know_heavy_tails():
    rng = np.random.default_rng(3)
    x = [rng.standard_t(3, (len(POINTS), 2))]
    for _ in range(399):
        x.append(0.7 * x[-1] + rng.standard_t(3, x[-1].shape))
    series = np.stack(x)
    forecaster = tb.FieldForecaster(LINEAR, manifold=SPHERE).fit(POINTS, ambient(series[:300]))
    for level in (0.5, 0.9):
        inside = []
        for s in range(300, 390, 6):
            low, high = forecaster.predict_interval(ambient(series[s - 20 : s]), 6, level=level)
            middle = np.einsum("nij,tni->tnj", FRAMES, (low + high) / 2)
            half = np.sqrt(np.square(high - low).sum(axis=-1) / 8)[..., None]
            inside.append(np.mean(np.abs(series[s : s + 6] - middle) < half))
        assert abs(np.mean(inside) - level) < 0.04, level
    with pytest.raises(InvalidInputError, match="level"):
        forecaster.predict_interval(ambient(series[:20]), 2, level=90)


def test_drift_of_the_climate_is_taken_from_the_window():
    season = 3 * SPHERE.gradient_field(POINTS, 1)
    training, later = ambient(red_noise(200)), ambient(red_noise(100, seed=1)) + season
    forecaster = tb.FieldForecaster(LINEAR, manifold=SPHERE).fit(POINTS, training)
    far = forecaster.predict(later[:60], horizon=40)[20:]
    assert error(far, later[80:]) < 1.3 * error(season, later[80:]) < 0.5 * error(training.mean(0), later[80:])


def test_without_drift_the_training_mean_stays():
    climate = Climate.of(red_noise(400), np.arange(400), 1)
    mean, *_ = climate.updated(red_noise(12, seed=3), np.arange(12))
    window = red_noise(12, seed=3).mean(axis=0)
    assert np.square(mean).mean() < 0.2 * np.square(window).mean()


def test_daily_cycle_is_known_from_dates():
    times = np.datetime64("2026-03-01T00") + 6 * np.arange(160) * np.timedelta64(1, "h")
    tide = np.cos(np.pi / 2 * np.arange(160))[:, None, None] * SPHERE.gradient_field(POINTS, 2)
    series = tide + 0.1 * ambient(red_noise(160, memory=0.2))
    forecaster = tb.FieldForecaster(BOTH, manifold=SPHERE).fit(POINTS, series[:120], times=times[:120])
    assert forecaster.clock_.cycle == 4
    for start in (121, 123):  # another phase each
        future = forecaster.predict(series[start : start + 1], horizon=12, times=times[start : start + 1])
        assert error(future, tide[start + 1 : start + 13]) < 0.02 * float(np.square(tide).sum(-1).mean())


def test_gaps_are_allowed_in_training_and_refused_in_windows():
    times = np.delete(np.arange(200), [50, 90, 91, 92])
    series = ambient(red_noise(200))[times]
    forecaster = tb.FieldForecaster(BOTH, manifold=SPHERE).fit(POINTS, series, times=times)
    record = forecaster.fitted_.record
    assert record.observed.sum() == 196 and record.usable.sum() == 197 and len(record.anomalies) == 200
    assert forecaster.predict(series[40:60], 2, times=times[40:60]).shape == (2, 80, 3)
    with pytest.raises(InvalidInputError, match="gap"):
        forecaster.predict(series[80:100], 2, times=times[80:100])


@pytest.mark.parametrize(("window", "horizon"), [(1, 1), (2, 40), (50, 3), (100, 120)])
def test_windows_and_horizons_are_free(red, window, horizon):
    series, forecaster = red
    future, std = forecaster.predict(series[300 : 300 + window], horizon, return_std=True)
    assert future.shape == std.shape == (horizon, 80, 3)
    assert np.isfinite(future).all() and (std >= 0).all()
    assert np.abs(np.einsum("tni,ni->tn", future, POINTS)).max() < 1e-9


def test_forecasts_do_not_depend_on_frames_units_or_the_order_of_points():
    series = rotating(100, noise=0.1)
    plain = tb.FieldForecaster(manifold=SPHERE).fit(POINTS, series[:80]).predict(series[60:80], 8)
    scaled = tb.FieldForecaster(manifold=SPHERE).fit(POINTS, 7 * series[:80]).predict(7 * series[60:80], 8)
    assert np.allclose(scaled, 7 * plain, atol=1e-5)
    order = np.random.default_rng(0).permutation(80)
    mixed = tb.FieldForecaster(manifold=SPHERE).fit(POINTS[order], series[:80, order])
    assert np.allclose(mixed.predict(series[60:80, order], 8), plain[:, order], atol=1e-5)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]  # other frames everywhere
    turned = tb.FieldForecaster(manifold=SPHERE).fit(POINTS @ turn, series[:80] @ turn)
    assert np.allclose(turned.predict(series[60:80] @ turn, 8), plain @ turn, atol=1e-5)


def test_nothing_looks_ahead(red):
    series, forecaster = red
    before = forecaster.predict(series[300:320], 5)
    forecaster.predict(series[350:420], 70)
    assert np.array_equal(before, forecaster.predict(series[300:320], 5))


def test_derivative_along_a_velocity():
    points = SPHERE.sample(2000, seed=1)
    spaces = TangentSpaces.of(points, manifold=SPHERE)
    spin = np.cross([0.0, 0.0, 1.0], points)
    field = SPHERE.gradient_field(points, 1)  # of z: its derivative along a circle of latitude is -z times the spin
    coordinates = [np.einsum("nij,ni->nj", spaces.frames, v) for v in (spin, field)]
    found = Neighborhood.of(spaces, 12).along(coordinates[0], coordinates[1][None])[0]
    wanted = -points[:, 2:] * coordinates[0]
    assert np.square(found - wanted).mean() < 0.01 * np.square(wanted).mean()


def test_estimated_tangent_spaces_and_scikit_learn_manners():
    series = rotating(60, noise=0.1)
    forecaster = tb.FieldForecaster(Autoregression(neighbors=4, reach=4), dim=2, cycle=2)
    assert clone(forecaster).get_params() == forecaster.get_params()
    assert forecaster.fit(POINTS, series) is forecaster
    assert forecaster.predict(series[-5:], 3).shape == (3, 80, 3)


SERIES = rotating(40)


def spoiled() -> np.ndarray:
    series = SERIES.copy()
    series[7, 3, 1] = np.nan
    return series


@pytest.mark.parametrize(
    ("points", "series", "times", "kind", "words"),
    [
        (POINTS, spoiled(), None, NonFiniteError, "number 7"),
        (POINTS, SERIES[:, :70], None, ShapeError, "80"),
        (POINTS, SERIES[0], None, ShapeError, "(T, n, D)"),
        (POINTS, SERIES[:10], None, InvalidInputError, "at least"),
        (POINTS, np.repeat(SERIES[:1], 40, axis=0), None, InvalidInputError, "constant"),
        (POINTS[:2], SERIES[:, :2], None, TooFewPointsError, "at least 3"),
        (POINTS, SERIES, np.arange(39), ShapeError, "(40,)"),
        (POINTS, SERIES, np.arange(40)[::-1], InvalidInputError, "ascend"),
        (POINTS, SERIES, np.linspace(0, 1, 40), InvalidInputError, "datetime64"),
    ],
)
def test_bad_input_of_fit(points, series, times, kind, words):
    with pytest.raises(kind) as caught:
        tb.FieldForecaster(manifold=SPHERE).fit(points, series, times=times)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("recent", "horizon", "times", "kind"),
    [
        (SERIES[:0], 2, None, InvalidInputError),
        (spoiled(), 2, None, NonFiniteError),
        (SERIES[:, :5], 2, None, ShapeError),
        (SERIES, 0, None, InvalidInputError),
        (SERIES, 2.5, None, InvalidInputError),
        (SERIES[:3], 2, np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "datetime64[D]"), InvalidInputError),
    ],
)
def test_bad_input_of_predict(red, recent, horizon, times, kind):
    with pytest.raises(kind):
        red[1].predict(recent, horizon, times=times)


def test_other_bad_input():
    with pytest.raises(InvalidInputError, match="Autoregression"):
        tb.FieldForecaster("ridge", manifold=SPHERE).fit(POINTS, SERIES)
    with pytest.raises(InvalidInputError, match="cycle"):
        tb.FieldForecaster(cycle=0, manifold=SPHERE).fit(POINTS, SERIES)
    hours = np.datetime64("2026-01-01T00") + 6 * np.arange(40) * np.timedelta64(1, "h")
    clock, _ = Clock.of(hours, 40)
    with pytest.raises(InvalidInputError, match="clock"):
        clock.ticks(hours[:3] + np.timedelta64(1, "h"), 3)


def test_months_have_a_cycle_of_a_year():
    months = np.arange("1990-01", "1994-01", dtype="datetime64[M]")
    clock, ticks = Clock.of(months, 48)
    assert clock.cycle == 12 and ticks[-1] == 47
    assert clock.ticks(np.array(["1995-03", "1995-04"], "datetime64[M]"), 2).tolist() == [62, 63]
