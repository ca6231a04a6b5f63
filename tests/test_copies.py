"""Every public object can be pickled, copied and deep-copied; caches stay behind, answers stay the
same."""

import copy
import pickle
from functools import cache

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle import datasets, estimators, kernels, manifolds, nn, operators

POINTS = manifolds.Sphere(2).sample(120, seed=0)
VECTORS = np.cross(POINTS, [0.0, 0.0, 1.0])
BUNDLE = tb.TangentBundle.from_points(POINTS)
LAPLACIAN = BUNDLE.laplacian()
SIGNAL = torch.from_numpy(np.random.default_rng(0).standard_normal((120, 2, 1)))

FILTERS = [
    tb.Heat(0.1),
    tb.FIR([0.5, 0.5], 0.1),
    tb.Polynomial([1.0, 0.1]),
    tb.Tikhonov(0.1),
    tb.Spectral(torch.cos),
    tb.ImpulseResponse(torch.sinc, 1.0),
    2.0 * tb.Heat(0.1) + tb.Heat(0.2) @ tb.Tikhonov(0.1),
    tb.Heat(torch.nn.Parameter(torch.tensor(0.1))),
]
METHODS = [tb.Exact(), tb.Dense(), tb.Chebyshev()]


def used(lap):
    """An operator after all that fills its caches."""
    for method in METHODS:
        tb.Tikhonov(0.1)(lap, SIGNAL, method)
    if isinstance(lap, tb.Laplacian):
        lap.to_frequency(SIGNAL, 5)
        _ = lap @ SIGNAL, lap.frames
    return lap


def apply_operator(lap):
    return tb.Heat(0.1)(lap, SIGNAL)


def apply_filter(h):
    return h(LAPLACIAN, SIGNAL, tb.Exact())


def apply_network(net):
    if isinstance(net, nn.Recurrent):
        return net(SIGNAL.expand(3, -1, -1, -1), LAPLACIAN)[0]
    return net(SIGNAL, LAPLACIAN)


def describe(thing):
    return np.array([ord(c) for c in repr(thing)], dtype=float)


@cache
def cases():
    """Objects of every kind, and what to ask each and its copy."""
    return {
        "bundle": (BUNDLE, lambda b: b.laplacian() @ SIGNAL),
        "scalar bundle": (BUNDLE.scalar(), lambda b: b.laplacian() @ SIGNAL[:, :1]),
        "Laplacian": (used(BUNDLE.laplacian()), apply_operator),
        "Laplacian, float32": (
            used(BUNDLE.laplacian()).to(dtype=torch.float32),
            lambda lap: tb.Heat(0.1)(lap, SIGNAL.float()),
        ),
        "linear map": (BUNDLE.gradient(), lambda gradient: gradient @ SIGNAL[:, :1]),
        "joined": (used(tb.join([LAPLACIAN])), apply_operator),
        "identity": (operators.Identity.of(120, 2), apply_operator),
        "path": (
            operators.DirectedPath.of(120),
            lambda path: tb.FIR([0.5, 0.5])(path, SIGNAL[:, :1]),
        ),
        **{f"{h}": (h, apply_filter) for h in FILTERS},
        **{f"{m}": (m, lambda m: tb.Heat(0.1)(LAPLACIAN, SIGNAL, m)) for m in METHODS},
        "TNN": (nn.TNN([1, 4, 1], step=0.1).double(), apply_network),
        "TNN, learnable times": (
            nn.TNN([1, 4, 1], filters=[tb.Heat(torch.nn.Parameter(torch.tensor(0.1)))]).double(),
            apply_network,
        ),
        "RecurrentTNN": (nn.RecurrentTNN([1, 4, 1]).double(), apply_network),
        "GatedTNN": (nn.GatedTNN([1, 4, 1]).double(), apply_network),
        "classifier": (nn.TNN([1, 4], readout=nn.InvariantReadout(4, 2)).double(), apply_network),
        **{
            f"{k}": (k, lambda k: k(np.linspace(0, 2, 9)))
            for k in (kernels.Gaussian(), kernels.Epanechnikov())
        },
        **{
            f"{m}": (m, lambda m: m.sample(20, seed=1))
            for m in (
                manifolds.Sphere(2),
                manifolds.Torus(),
                manifolds.KleinBottle(4),
                manifolds.FlatTorus((1.0, 0.7)),
            )
        },
        "rules": ((tb.VarianceShare(), tb.WidestGap()), describe),
        "wind": (datasets.load_wind(), lambda w: w.points),
        "sample": (datasets.torus_field(50, seed=0), lambda s: s.vectors),
        "denoiser": (tb.FieldDenoiser(dim=2).fit(POINTS, VECTORS), lambda e: e.predict(POINTS)),
        "interpolator": (
            tb.FieldInterpolator(dim=2).fit(POINTS, VECTORS),
            lambda e: e.predict(POINTS[:5]),
        ),
        "forecaster": (tb.FieldForecaster(), describe),
        "methods": (
            [estimators.GaussianProcess(estimators.Tangent()), estimators.SpectralFilter()],
            describe,
        ),
    }


def close(a, b):
    return np.allclose(*(torch.as_tensor(value).detach().numpy() for value in (a, b)))


@pytest.mark.parametrize(
    "duplicate", [lambda t: pickle.loads(pickle.dumps(t)), copy.copy, copy.deepcopy]
)
def test_a_copy_gives_the_same_answers(duplicate):
    for name, (thing, answer) in cases().items():
        expected = answer(thing)
        assert close(answer(duplicate(thing)), expected), name


def test_pickles_hold_no_caches():
    fresh = tb.TangentBundle.from_points(POINTS).laplacian()
    before = len(pickle.dumps(fresh))
    assert len(pickle.dumps(used(fresh))) == before
    joined = tb.join([fresh])
    before = len(pickle.dumps(joined))
    assert len(pickle.dumps(used(joined))) == before
