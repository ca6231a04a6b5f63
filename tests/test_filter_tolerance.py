"""Outputs below the tolerance of a filter: warned of where they mean nothing, and not in ordinary
use."""

import math
import warnings
from functools import cache

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import AccuracyWarning
from tangentbundle.filters import accuracy
from tangentbundle.manifolds import KleinBottle, Sphere, Torus

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SPACES = {
    "sphere": Sphere(2),
    "torus": Torus(),
    "Klein bottle": KleinBottle(4),
    "circle": Sphere(1),
}


@cache
def laplacian(name):
    space = SPACES[name]
    points = torch.from_numpy(space.sample(400 * space.dim, seed=1))
    return tb.TangentBundle.from_points(points, dim=space.dim, neighbors=14).laplacian()


def filters_at(scale):
    times = [30.0 * scale, 300.0 * scale]
    return [
        make(t)
        for t in times
        for make in (tb.Heat, tb.Tikhonov, lambda t: tb.Heat(t) @ tb.Tikhonov(t))
    ]


def quietly(call):
    """A result whose smallest values may be rounding: no method has digits for all of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        return call()


def is_warned_of(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return any(
        "smaller than the error" in str(w.message) for w in caught if w.category is AccuracyWarning
    )


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("name", SPACES)
def test_directions_that_mean_nothing_are_warned_of(name, tol):
    """From a single vector: wherever several percent of the outputs point elsewhere, there is a
    warning."""
    lap = laplacian(name)
    x = torch.zeros(lap.num_points, lap.rank, 1, dtype=torch.float64)
    x[5, 0] = 1.0
    wrong = []
    for h in filters_at(lap.scale):
        exact = quietly(lambda: h(lap, x, tb.Exact()))[:, :, 0]  # noqa: B023
        answers = []
        warned = is_warned_of(lambda: answers.append(h(lap, x, tb.Chebyshev(tol))[:, :, 0]))  # noqa: B023
        error = (answers[0] - exact).norm(dim=1) / answers[0].norm(dim=1).clamp_min(1e-300)
        share = float((error > 0.7)[answers[0].norm(dim=1) > 0].double().mean())
        wrong.append(share)
        assert warned or share < 0.03, (h, share)


@pytest.mark.parametrize("name", SPACES)
def test_no_warning_in_ordinary_use(name):
    """Fields and noise, in one or many channels, of any unit, in both precisions, also where fields
    vanish."""
    lap = laplacian(name)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(lap.num_points, lap.rank, 3, generator=generator, dtype=torch.float64)
    smooth = tb.Heat(50 * lap.scale)(lap, noise, tb.Chebyshev(1e-12))
    zeros = torch.zeros_like(noise)
    part = torch.where(lap.frames[:, :1, :1] > 0, noise, zeros)
    for x in (
        noise,
        smooth,
        zeros,
        part,
        1e-12 * noise,
        1e9 * smooth,
        torch.stack([noise, smooth]),
    ):
        for h in (
            tb.Heat(3 * lap.scale),
            tb.Tikhonov(10 * lap.scale),
            tb.FIR([0.2, 0.8], lap.scale),
        ):
            h(lap, x, tb.Chebyshev())
            h(lap.to(dtype=torch.float32), x.float(), tb.Chebyshev())
            h(tb.join([lap, lap]), torch.cat([x, x], dim=-3), tb.Chebyshev())


def test_exact_methods_and_fixed_degrees_promise_no_tolerance():
    lap = laplacian("sphere")
    x = torch.zeros(lap.num_points, lap.rank, 1, dtype=torch.float64)
    x[0, 0] = 1.0
    h = tb.Tikhonov(30.0 * lap.scale)
    h(lap, x, tb.Exact())
    h(lap, x, tb.Chebyshev(degree=60))


def test_the_check_is_a_small_part_of_the_work(monkeypatch):
    """Nothing is looked at on a GPU (or in a transform), and few points of a large output."""
    lap = laplacian("sphere")
    x = torch.ones(lap.num_points, lap.rank, 2, dtype=torch.float64)
    shapes = []
    monkeypatch.setattr(accuracy, "MAX_POINTS_COMPARED", 100)
    square = np.square
    monkeypatch.setattr(accuracy.np, "square", lambda a: (shapes.append(np.shape(a)), square(a))[1])
    tb.Heat(0.1)(lap, x, tb.Chebyshev())
    assert shapes[0] == (100, lap.rank, 2)
    monkeypatch.setattr(accuracy, "is_seen", lambda tensor: False)
    monkeypatch.setattr(accuracy, "_share_below", lambda *a: pytest.fail("values were read"))
    tb.Heat(0.1)(lap, x, tb.Chebyshev())


def by_powers_of_the_average(operator, x, filter_type, time):
    """Heat or Tikhonov of order one as a sum of powers of P with positive weights, in which nothing
    cancels: small outputs have all their digits."""
    total = torch.zeros_like(x)
    power = x.clone()
    heat = filter_type is tb.Heat
    weight = math.exp(-time) if heat else 1.0 / (1.0 + time)
    for k in range(1, 3000):
        total += weight * power
        power = operator.averaged(power)
        weight *= time / k if heat else time / (1.0 + time)
        if weight == 0.0:
            break
    return total


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("filter_type", [tb.Heat, tb.Tikhonov])
@pytest.mark.parametrize("name", SPACES)
def test_small_clouds_have_right_directions_or_a_warning(name, filter_type, dtype):
    """The automatic method, from one vector: in float32, too, outputs of any size have the
    direction of the exact ones."""
    space = SPACES[name]
    points = torch.from_numpy(space.sample(140 * space.dim, seed=2)).to(dtype)
    bundle = tb.TangentBundle.from_points(points, dim=space.dim, neighbors=14)
    lap = bundle.laplacian(terms=1)
    x = torch.zeros(lap.num_points, lap.rank, 1, dtype=dtype)
    x[5, 0] = 1.0
    smallest_certain = 1.0
    for time in (0.3, 3.0, 30.0):
        answers = []
        h = filter_type(time * lap.scale)
        warned = is_warned_of(lambda: answers.append(h(lap, x).double()))  # noqa: B023
        exact = by_powers_of_the_average(lap.to(dtype=torch.float64), x.double(), filter_type, time)
        sizes = exact.norm(dim=1)
        reached = sizes > 0
        wrong = ((answers[0] - exact).norm(dim=1) > 0.5 * sizes)[reached].double().mean()
        assert warned or wrong < 0.03, (time, float(wrong))
        if not warned:
            smallest_certain = min(smallest_certain, float(sizes[reached].min()))
    assert smallest_certain < 1e-7  # far below what sums in float32 can give


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9, 1e-13])
@pytest.mark.parametrize("points, filter_type", [(300, tb.Heat), (5500, tb.Tikhonov)])
def test_the_advice_is_no_worse_than_what_was_done(points, filter_type, tol, dtype):
    """A method that is advised has a smaller error than the one that was warned of."""
    if tol < 1e-6 and dtype == torch.float32:
        return
    cloud = torch.from_numpy(SPACES["circle"].sample(points, seed=1)).to(dtype)
    lap = tb.TangentBundle.from_points(cloud, dim=1, neighbors=24).laplacian()
    x = torch.zeros(points, 1, 1, dtype=dtype)
    x[5, 0] = 1.0
    time = 3.0 if filter_type is tb.Heat else 100.0
    with pytest.warns(AccuracyWarning) as caught:
        filter_type(time * lap.scale)(lap, x, tb.Chebyshev(tol))
    (message,) = {str(w.message) for w in caught}
    advised = [method for method in (tb.Exact(), tb.Chebyshev(1e-12)) if repr(method) in message]
    advised += [tb.Chebyshev(1e-12)] if "Chebyshev(1e-12)" in message else []
    errors = [method.relative_error for method in advised]
    assert all(error < tol for error in errors) and (errors or tol <= 1e-12)
