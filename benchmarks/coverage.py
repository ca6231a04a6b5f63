"""What intervals of 50 and 90 % hold, of all components of fields and measurements.

Random smooth fields on spheres and tori, and the denoising fields of the torus, at several sizes
and noises; tangent spaces estimated or known. ``FieldDenoiser``: the field at the noisy points;
``FieldInterpolator``: the field, and measurements by ``predict_interval``, at 300 other points.
Components that are normal to a known manifold are zero and not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from joblib import Parallel, delayed

import tangentbundle as tb
from experiments.general import measured, shares_inside
from harness.records import Row
from tangentbundle.manifolds import Manifold

Field = Callable[[np.ndarray], np.ndarray]

SPACES: dict[str, Manifold] = {
    "sphere": tb.manifolds.Sphere(2),
    "torus": tb.manifolds.Torus(0.3, 0.1),
}
SIZES, NOISES = (100, 400), (0.03, 0.1, 0.3)
OTHERS, DRAWS = 300, 8


def waves(space: Manifold, rng: np.random.Generator) -> Field:
    """A random smooth tangent field: the tangent part of a sum of ambient waves of about a third of
    the radius."""
    length = 0.35 * float(np.sqrt(space.sample(2000, seed=0).var(axis=0).sum()))
    directions, phases = rng.standard_normal((200, 3)) / length, rng.uniform(0, 2 * np.pi, 200)
    weights = rng.standard_normal((200, 3)) * np.sqrt(2 / 200)

    def field(points: np.ndarray) -> np.ndarray:
        frames = space.frames(points)
        return np.einsum(
            "nij,nkj,nk->ni", frames, frames, np.cos(points @ directions.T + phases) @ weights
        )

    return field


def turning(space: Manifold, rng: np.random.Generator) -> Field:
    """The tangent field of the denoising experiment, around the axis of the torus."""
    return space.tangent_field  # type: ignore[attr-defined]


FIELDS: dict[str, tuple[str, Callable[[Manifold, np.random.Generator], Field]]] = {
    "waves on a sphere": ("sphere", waves),
    "waves on a torus": ("torus", waves),
    "around a torus": ("torus", turning),
}


ESTIMATED, KNOWN = "estimated", "known"


def cells() -> Iterator[tuple[str, str, int, float]]:
    return (
        (name, spaces, n, s)
        for name in FIELDS
        for spaces in (ESTIMATED, KNOWN)
        for n in SIZES
        for s in NOISES
    )


def once(name: str, spaces: str, n: int, noise: float, seed: int) -> list[float]:
    """Shares inside 50 and 90 % intervals: denoised, interpolated, measured."""
    known = spaces == KNOWN
    rng = np.random.default_rng([seed, n, int(1000 * noise)])
    space, make = SPACES[FIELDS[name][0]], FIELDS[name][1]
    field, points, new = make(space, rng), space.sample(n, seed=rng), space.sample(OTHERS, seed=rng)
    noisy, others = (field(x) + noise * rng.standard_normal(x.shape) for x in (points, new))
    options = {"manifold": space} if known else {"dim": 2}
    shares: list[float] = []
    for estimator, where in ((tb.FieldDenoiser, points), (tb.FieldInterpolator, new)):
        model = estimator(**options, random_state=0).fit(points, noisy)
        mean, cov = model.predict(where, return_cov=True)
        axes = space.frames(where) if known else np.broadcast_to(np.eye(3), (len(where), 3, 3))
        std = np.sqrt(np.maximum(np.einsum("nij,nik,nkj->nj", axes, cov, axes), 0.0))
        shares += shares_inside(np.einsum("nij,ni->nj", axes, mean - field(where)), std).values()
    shares += measured(model, new, others).values()
    return shares


def run(jobs: int = -1, draws: int = DRAWS) -> list[Row]:
    """One row for each field, kind of tangent spaces, size and noise: shares over all draws."""
    kinds = [
        f"{kind} {level}" for kind in ("denoised", "interpolated", "measured") for level in (50, 90)
    ]
    calls = (delayed(once)(*cell, seed) for cell in cells() for seed in range(draws))
    shares = (
        np.array(Parallel(n_jobs=jobs)(calls))
        .reshape(-1, draws, len(kinds))
        .mean(axis=1)
        .round(3)
        .tolist()
    )
    names = ("field", "tangent spaces", "n", "noise")
    return [
        dict(zip((*names, *kinds), (*cell, *row), strict=True))
        for cell, row in zip(cells(), shares, strict=True)
    ]
