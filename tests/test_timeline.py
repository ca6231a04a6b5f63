"""Clocks of any step: the same ticks whatever the unit of the dates, with gaps and jitter."""

import numpy as np
import pytest

from tangentbundle.errors import InvalidInputError
from tangentbundle.timeline import Clock, calendar_period, fill_single_steps, regular

START = np.datetime64("2026-01-01T00:00:00", "ns")
NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
STEPS = [1, 250, 20 * 10**6, 333_333_333, 500 * 10**6, 1_250 * 10**6, 1_500 * 10**6, 2_500 * 10**6]
STEPS += [10**9, 7 * 10**9, 90 * 10**9, 3_600 * 10**9, 86_400 * 10**9]
STEPS += [int(step) for step in np.random.default_rng(0).integers(1, 10**11, 8)]


def ticks_with_gaps(rng, length=40):
    ticks = np.sort(rng.choice(3 * length // 2, length, replace=False))
    return ticks - ticks[0]


@pytest.mark.parametrize("step", STEPS)
def test_steps_of_any_length_are_exact(step):
    """Also in each unit that holds the step, and on the clock of a forecast."""
    rng = np.random.default_rng(step % 1000)
    ticks = ticks_with_gaps(rng)
    exact = START + ticks * np.timedelta64(step, "ns")
    for unit, length in NANOSECONDS.items():
        if step % length:
            continue
        times = exact.astype(f"datetime64[{unit}]")
        line = regular(times)
        assert np.array_equal(line.ticks, ticks)
        assert line.step == np.timedelta64(step, "ns")
        assert np.array_equal(line.after(times[:1], ticks), exact)
        clock, steps = Clock.of(times, len(times))
        assert np.array_equal(steps, ticks)
        assert np.array_equal(clock.steps(times[7:], len(times) - 7), ticks[7:])
        filled = fill_single_steps(times, ticks.astype(float))
        assert np.array_equal(filled[1], (filled[0] - times[0]) / np.timedelta64(step, "ns"))


@pytest.mark.parametrize("step", [step for step in STEPS if step > 10**4])
def test_jitter_moves_no_tick(step):
    """The step found with jitter of 0.4 % on every time carries a clock to the end of the
    series."""
    rng = np.random.default_rng(step % 1000)
    ticks = ticks_with_gaps(rng, 200)
    jitter = (rng.uniform(-0.004, 0.004, len(ticks)) * step).astype(np.int64)
    times = START + ticks * np.timedelta64(step, "ns") + jitter
    assert np.array_equal(regular(times).ticks, ticks)
    clock, _ = Clock.of(times, len(times))
    assert np.array_equal(clock.steps(times, len(times)), ticks)
    if step in (3_600 * 10**9, 86_400 * 10**9, 10**9):
        assert regular(times).step == np.timedelta64(step, "ns")


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("per_second", [3, 7, 30, 60])
def test_rates_that_no_unit_holds_do_not_drift(unit, per_second):
    numbers = np.arange(600)
    length = 10**9 // NANOSECONDS[unit]
    if per_second * 100 > length:
        pytest.skip("the unit rounds by more than a hundredth of the step")
    times = START.astype(f"datetime64[{unit}]") + np.rint(numbers * length / per_second).astype(
        np.int64
    )
    clock, steps = Clock.of(times, len(times))
    assert np.array_equal(steps, numbers)
    assert np.array_equal(clock.steps(times, len(times)), numbers)


@pytest.mark.parametrize("step", [step for step in STEPS if step > 100])
def test_repeats_and_disorder_are_refused_in_every_unit(step):
    for ticks in ([0, 1, 1, 2], [0, 2, 1, 3]):
        with pytest.raises(InvalidInputError, match="ascend without repeats"):
            regular(START + np.array(ticks) * np.timedelta64(step, "ns"))
    with pytest.raises(InvalidInputError, match="regular clock"):
        regular(START + (np.array([0.0, 1.0, 1.55, 2.9, 4.45]) * step).astype(np.int64))


def test_days_have_as_many_steps_as_fit():
    for seconds, expected in ((3600, 24), (21600, 4), (0.5, 172_800), (1.5, 57_600)):
        step = np.timedelta64(int(seconds * 1000), "ms")
        times = START.astype("datetime64[ms]") + np.arange(3 * expected + 1) * step
        assert calendar_period(times) == expected
