"""Operators and measures that the tests of filters share."""

from functools import cache

import torch

import tangentbundle as tb
from tangentbundle.manifolds import KleinBottle, Sphere

SPACES = {
    "S1": (Sphere(1), 60, 3),
    "S2": (Sphere(2), 90, 2),
    "S3": (Sphere(3), 80, 3),
    "Klein bottle": (KleinBottle(4), 120, 1),
    "functions on S2": (Sphere(2), 120, 2),
}
"""Manifold, number of points and order of the Laplacian."""

METHODS = [tb.Exact(), tb.Chebyshev(1e-11)]


@cache
def laplacian(name="S2", dtype=torch.float64):
    space, n, order = SPACES[name]
    points = torch.from_numpy(space.sample(n, seed=0)).to(dtype)
    bundle = tb.TangentBundle.from_points(points, dim=space.dim)
    return (bundle.scalar() if name.startswith("functions") else bundle).laplacian(terms=order)


def filters_at(t):
    """Filters of every kind that change at eigenvalues of about 1 / t."""
    return {
        "heat": tb.Heat(t),
        "FIR": tb.FIR([0.5, -0.3, 0.8], t),
        "lowpass FIR": tb.FIR([0.0, 2.0, -1.0], t),
        "impulse": tb.ImpulseResponse(lambda s: s * torch.exp(-s / t) / t**2),
        "Tikhonov": tb.Tikhonov(t),
        "composition": 3.0 * (tb.Heat(t) @ tb.FIR([1.0, -1.0], 0.3 * t) - tb.Tikhonov(t)),
    }


def errors(lap, got, expected, x):
    """Error in the mass norm by channel, in units of the input's."""
    wide = lap.to(dtype=torch.float64)
    return float((wide.norm(got.double() - expected) / wide.norm(x.double())).max())


def count_products(monkeypatch, module, name):
    calls = []
    original = getattr(module, name)
    monkeypatch.setattr(
        module, name, lambda *args, **options: (calls.append(1), original(*args, **options))[1]
    )
    return calls


def exp_impulse(t):
    return t * torch.exp(-t)
