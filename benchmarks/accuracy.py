"""Eigenvalues of the connection Laplacian against exact ones, automatic scale, estimated frames."""

from __future__ import annotations

import numpy as np

import tangentbundle as tb

from .harness import Row


def group_errors(case: str, bundle: tb.TangentBundle, exact: np.ndarray) -> list[Row]:
    """A row for each group of equal exact eigenvalues: their mean, and the mean relative error of its members.

    Where the exact value is 0 the error is absolute.
    """
    found = bundle.laplacian().spectrum(len(exact), tol=1e-7)[0]
    rows = []
    for value in np.unique(exact):
        group = found[exact == value]
        rows.append(
            {
                "case": case,
                "n": bundle.num_points,
                "neighbours": int(np.median(bundle.sorted_graph.degrees)),
                "exact": float(value),
                "fold": len(group),
                "mean": float(group.mean()),
                "error": float(np.abs(group - value).mean() / (value or 1.0)),
                "spread": float(np.ptp(group) / (value or 1.0)),
            }
        )
    return rows


def run() -> list[Row]:
    sphere, three, flat = tb.manifolds.Sphere(2), tb.manifolds.Sphere(3), tb.manifolds.FlatTorus((1.0, 1.0))
    rows = []
    for n in (1000, 5000, 20_000, 80_000):
        bundle = tb.TangentBundle.from_points(sphere.sample(n, seed=0))
        rows += group_errors("S2 fields", bundle, sphere.vector_spectrum(30))
    for n in (5000, 20_000):
        bundle = tb.TangentBundle.from_points(three.sample(n, seed=0))
        rows += group_errors("S3 fields", bundle, three.vector_spectrum(19))
    for n in (5000, 20_000):
        bundle = tb.TangentBundle.from_points(flat.sample(n, seed=0))
        rows += group_errors("flat torus fields", bundle, flat.vector_spectrum(10))
    for n in (5000, 20_000):
        bundle = tb.TangentBundle.from_points(sphere.sample(n, seed=0))
        rows += group_errors("S2 functions", bundle.scalar(), sphere.scalar_spectrum(16))
    for n in (5000, 20_000):
        bundle = tb.TangentBundle.from_points(sphere.sample_nonuniform(n, 5.0, seed=0))
        rows += group_errors("S2 fields, density 5:1", bundle, sphere.vector_spectrum(30))
    return rows
