"""Manifolds with parametrisations of their own, to check them against."""

from math import pi

import numpy as np
import pytest
from scipy import special

from tangentbundle.manifolds import (
    Ellipsoid,
    FlatTorus,
    KleinBottle,
    Product,
    Sphere,
    SwissRoll,
    Torus,
)

RNG = np.random.default_rng
TURN = (0.0, 2 * pi)
ROLL = SwissRoll(turns=(0.5, 1.5), width=3.0)

# Independent parametrisations: they accept complex numbers, so that derivatives are exact.


def torus(u, v, R=0.3, r=0.1):
    return [(R + r * np.cos(v)) * np.cos(u), (R + r * np.cos(v)) * np.sin(u), r * np.sin(v)]


def klein4(u, v, R=1.0, r=0.4):
    x, y, z = torus(u, v, R, r)
    return [x, y, z * np.cos(u / 2), z * np.sin(u / 2)]


def klein3(u, v, R=1.0, r=0.4):
    f = R + r * (np.cos(u / 2) * np.sin(v) - np.sin(u / 2) * np.sin(2 * v))
    z = r * (np.sin(u / 2) * np.sin(v) + np.cos(u / 2) * np.sin(2 * v))
    return [f * np.cos(u), f * np.sin(u), z]


def ellipsoid(u, v, axes=(1.0, 0.8, 0.6)):
    x = [np.sin(v) * np.cos(u), np.sin(v) * np.sin(u), np.cos(v)]
    return [a * b for a, b in zip(axes, x, strict=True)]


SURFACES = [  # manifold, parametrisation, range of u, range of v
    (Torus(), torus, TURN, TURN),
    (KleinBottle(4), klein4, TURN, TURN),
    (KleinBottle(3), klein3, TURN, TURN),
    (Ellipsoid(), ellipsoid, TURN, (0.0, pi)),
    (Ellipsoid((0.3, 2.0, 1.0)), lambda u, v: ellipsoid(u, v, (0.3, 2.0, 1.0)), TURN, (0.0, pi)),
    (Sphere(2, 1.5), lambda u, v: ellipsoid(u, v, 3 * (1.5,)), TURN, (0.0, pi)),
    (
        FlatTorus((1, 2)),
        lambda u, v: (np.cos(u), np.sin(u), 2 * np.cos(v), 2 * np.sin(v)),
        TURN,
        TURN,
    ),
    (ROLL, lambda t, h: [t * np.cos(t), t * np.sin(t), h + 0 * t], (pi, 3 * pi), (0.0, 3.0)),
]
MANIFOLDS = [
    *(row[0] for row in SURFACES),
    Sphere(1, 0.5),
    Sphere(3),
    Sphere(7, 2.0),
    Ellipsoid((1.0, 0.5)),
    Ellipsoid((1.0, 0.7, 0.5, 0.3, 2.0)),
    FlatTorus((0.5,)),
    FlatTorus((1.0, 0.3, 2.0)),
    Product(Sphere(2), Torus()),
    Product(Sphere(2, 2.0), Sphere(1), ROLL),
]
WITH_TRANSPORT = [
    manifold
    for manifold in MANIFOLDS
    if not any(
        isinstance(factor, Torus | KleinBottle | Ellipsoid)
        for factor in getattr(manifold, "factors", [manifold])
    )
]
surfaces = pytest.mark.parametrize(
    "manifold, chart, us, vs", SURFACES, ids=[repr(s[0]) for s in SURFACES]
)


def over(items):
    return pytest.mark.parametrize("manifold", items, ids=repr)


def jacobian(chart, u, v):
    """Points (n, D) and derivatives (n, D, 2), exact to rounding, by complex steps."""
    h = 1e-30j
    columns = [np.imag(chart(u + h, v + 0j)) / 1e-30, np.imag(chart(u + 0j, v + h)) / 1e-30]
    return np.array(chart(u, v)).T, np.stack(columns, axis=-1).transpose(1, 0, 2)


def quadrature(chart, us, vs, order=200):
    """Points and area weights of the whole surface, by Gauss-Legendre on the chart."""
    x, w = special.roots_legendre(order)
    (u, wu), (v, wv) = (((b - a) / 2 * x + (a + b) / 2, (b - a) / 2 * w) for a, b in (us, vs))
    points, J = jacobian(chart, np.repeat(u, order), np.tile(v, order))
    return points, np.outer(wu, wv).ravel() * np.sqrt(np.linalg.det(J.swapaxes(1, 2) @ J))
