"""Numerical endurance: many steps, extreme scales, uneven and spoilt clouds, dimensions 1 to 8, D
to 1 000."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch

import tangentbundle as tb
from harness.records import Row
from tangentbundle.errors import TangentBundleError, TangentBundleWarning

STEPS = 10_000


def drift(method: tb.filters.Method, n: int) -> Row:
    """``STEPS`` small heat steps in both precisions against one large one, exactly."""
    points, rng = tb.manifolds.Sphere(2).sample(n, seed=0), np.random.default_rng(0)
    lap = tb.TangentBundle.from_points(points, dim=2).laplacian()
    x, step = rng.standard_normal((n, 2, 1)), tb.Heat(0.5 / STEPS)
    truth, ends = tb.Heat(0.5)(lap, x, tb.Exact()), {}
    for dtype in (np.float32, np.float64):
        operator = lap.to(dtype=getattr(torch, np.dtype(dtype).name))
        y = x.astype(dtype)
        for _ in range(STEPS):
            y = step(operator, y, method)
        ends[dtype] = y
    size = np.linalg.norm(truth)
    errors = {
        f"{np.dtype(t).name} error": float(np.linalg.norm(y - truth) / size)
        for t, y in ends.items()
    }
    return {"case": f"{STEPS} heat steps, {type(method).__name__}", "n": n, **errors}


def spectrum(
    case: str, points: np.ndarray, space: tb.manifolds.Manifold, unit: float = 1.0, **options
) -> Row:
    """The first group of eigenvalues of vector fields against the exact one, and what the library
    had to say."""
    exact = space.vector_spectrum(2 * space.dim + 2)
    group = exact[exact == exact[0]]
    row: Row = {"case": case, "n": len(points), "D": points.shape[1]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TangentBundleWarning)
        try:
            bundle = tb.TangentBundle.from_points(points, **options)
            found = bundle.laplacian().spectrum(len(group), tol=1e-6)[0] * unit**2
            row |= {
                "dimension": bundle.dim,
                "error": float(np.abs(found - group).mean() / (group[0] or 1.0)),
            }
        except TangentBundleError as error:
            row["refused"] = type(error).__name__
    names = sorted(
        {w.category.__name__ for w in caught if issubclass(w.category, TangentBundleWarning)}
    )
    return {**row, "warnings": ", ".join(names)}


def in_ambient(points: np.ndarray, dims: int, noise: float = 0.0) -> np.ndarray:
    """Points turned into ``R^dims``, with Gaussian noise of standard deviation ``noise`` in every
    coordinate."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((dims, points.shape[1])))[0]
    return points @ turn.T + noise * rng.standard_normal((len(points), dims))


def with_outliers(points: np.ndarray, share: float, reach: float) -> np.ndarray:
    """A share of the points replaced by points anywhere in a cube."""
    rng, out = np.random.default_rng(0), points.copy()
    rows = rng.choice(len(points), round(share * len(points)), replace=False)
    out[rows] = rng.uniform(-reach, reach, (len(rows), points.shape[1]))
    return out


def cases() -> list[Callable[[], Row]]:
    sphere, n, rng = tb.manifolds.Sphere(2), 1500, np.random.default_rng(1)
    points = sphere.sample(n, seed=0)
    twins = np.concatenate([points, points[:300] + 1e-12 * rng.standard_normal((300, 3))])
    jobs: list[Callable[[], Row]] = [
        lambda: drift(tb.Exact(), 300),
        lambda: drift(tb.Chebyshev(1e-7), 100),
        lambda: spectrum("unit sphere", points, sphere),
        lambda: spectrum("unit sphere, float32", points.astype(np.float32), sphere),
    ]
    for scale in (1e-9, 1e9):
        for dtype in (np.float64, np.float32):
            name = f"coordinates of {scale:g}, {np.dtype(dtype).name}"
            jobs.append(
                lambda name=name, s=scale, t=dtype: spectrum(
                    name, (s * points).astype(t), sphere, s
                )
            )
    jobs += [
        lambda: spectrum("unit sphere, 1e9 from the origin", points + 1e9, sphere),
        lambda: spectrum("300 twins 1e-12 apart", twins, sphere),
        lambda: spectrum("density 10:1", sphere.sample_nonuniform(n, 10.0, seed=0), sphere),
        lambda: spectrum(
            "20 % outliers in the cube of side 2", with_outliers(points, 0.2, 1.0), sphere
        ),
        lambda: spectrum(
            "20 % outliers in the cube of side 20", with_outliers(points, 0.2, 10.0), sphere
        ),
    ]
    for d in range(1, 9):
        space, count = tb.manifolds.Sphere(d), 1000 if d < 3 else 3000
        jobs.append(lambda s=space, m=count: spectrum(f"S^{s.dim}", s.sample(m, seed=0), s))
    for dims in (30, 300, 1000):
        jobs.append(lambda k=dims: spectrum(f"sphere in R^{k}", in_ambient(points, k), sphere))
    for dims, noise in ((30, 0.01), (300, 0.01), (1000, 0.01), (1000, 0.05)):
        name = f"sphere in R^{dims}, noise {noise:g}"
        jobs.append(
            lambda name=name, k=dims, e=noise: spectrum(name, in_ambient(points, k, e), sphere)
        )
    return jobs


def orientation() -> list[Row]:
    """Whether spaces are taken for orientable that are, and the other way round."""
    spaces = [tb.manifolds.Ellipsoid((1.0, 1.0, 0.1)), tb.manifolds.Ellipsoid((1.0, 1.0, 0.05))]
    spaces += [
        tb.manifolds.Torus(1.0, 0.3),
        tb.manifolds.Torus(1.0, 0.1),
        tb.manifolds.KleinBottle(4),
    ]
    rows = []
    for space in spaces:
        for n in (150, 500, 2000):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TangentBundleWarning)
                report = tb.TangentBundle.from_points(space.sample(n, seed=0), dim=2).diagnose(
                    quiet=True
                )
            right = report.orientable == space.orientable
            rows.append(
                {"case": f"orientable: {space!r}", "n": n, "answer": "right" if right else "wrong"}
            )
    return rows


def run() -> list[Row]:
    """The rows of all cases."""
    rows = []
    for job in cases():
        rows.append(job())
        print(rows[-1], flush=True)
    return rows + orientation()
