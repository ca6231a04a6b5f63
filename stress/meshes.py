"""Damaged meshes: functions on every one, fields or a named reason, and fields on each that is cut.

A mesh of a few hundred triangles is damaged in one to four ways at random. On the result

* ``functions``: ``scalar_from_mesh`` must have positive masses, weights that are not negative,
  constants in the kernel of the Laplacian, an energy that is not negative, and heat that stays
  between the extremes of where it began;
* ``fields``: ``from_mesh`` must have an energy that is not negative, or refuse the mesh by name;
* ``cut fields``: the same for what ``meshes.cut_sheets`` makes of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

import tangentbundle as tb
from benchmarks.meshes import Triangles, torus
from harness.records import Row
from tangentbundle.errors import TangentBundleWarning

from .tally import Tally

MESHES = 1000

Damage = Callable[[Triangles, np.random.Generator], Triangles]


def closed(rng: np.random.Generator) -> Triangles:
    """A torus of uneven triangles."""
    return torus(int(rng.integers(6, 16)), int(rng.integers(5, 10)), rng.uniform(0, 0.9))


def sheet(rng: np.random.Generator) -> Triangles:
    """A wavy rectangle, with a boundary."""
    m = int(rng.integers(4, 12))
    x, y = np.meshgrid(np.arange(m, dtype=float), np.arange(m, dtype=float), indexing="ij")
    x += rng.uniform(-0.3, 0.3, x.shape)
    y += rng.uniform(-0.3, 0.3, y.shape)
    z = rng.uniform(0, 1) * np.sin(x) * np.cos(y)
    vertices = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    return vertices, _grid_faces(m)


def _grid_faces(m: int) -> np.ndarray:
    """Two triangles in each cell of a grid of m x m vertices."""
    i, j = np.mgrid[: m - 1, : m - 1]
    here = (i * m + j).ravel()
    first = np.stack([here, here + m, here + m + 1], axis=1)
    second = np.stack([here, here + m + 1, here + 1], axis=1)
    return np.concatenate([first, second])


def band(rng: np.random.Generator) -> Triangles:
    """A Möbius band."""
    m = int(rng.integers(6, 30))
    angle = 2 * np.pi * np.arange(m) / m
    across = rng.uniform(0.1, 0.6) * np.array([-1.0, 1.0])[:, None]
    radius = 1 + across * np.cos(angle / 2)
    height = across * np.sin(angle / 2)
    rims = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=-1)
    lower = np.arange(m)
    upper = lower + m
    after = np.append(lower[1:], upper[0])
    over = np.append(upper[1:], lower[0])
    first = np.stack([lower, after, upper], axis=1)
    second = np.stack([after, over, upper], axis=1)
    return rims.reshape(-1, 3), np.concatenate([first, second])


SOUND = (closed, sheet, band)


def remove_triangles(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Holes, and vertices in no triangle."""
    vertices, faces = mesh
    remaining = rng.random(len(faces)) > rng.uniform(0.02, 0.6)
    if not remaining.any():
        remaining[0] = True
    return vertices, faces[remaining]


def turn_over(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Triangles that run the other way."""
    vertices, faces = mesh
    turned = rng.random(len(faces)) < 0.3
    return vertices, np.where(turned[:, None], faces[:, ::-1], faces)


def repeat_triangles(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Triangles that are there several times."""
    vertices, faces = mesh
    return vertices, np.concatenate([faces, faces[rng.integers(len(faces), size=5)]])


def add_fins(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Edges with three triangles and more."""
    vertices, faces = mesh
    count = int(rng.integers(1, 6))
    chosen = faces[rng.integers(len(faces), size=count)]
    tips = vertices[chosen].mean(axis=1) + rng.normal(size=(count, 3))
    fins = np.column_stack([chosen[:, :2], len(vertices) + np.arange(count)])
    return np.concatenate([vertices, tips]), np.concatenate([faces, fins])


def join_vertices(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Vertices where several parts meet."""
    vertices, faces = mesh
    numbers = np.arange(len(vertices))
    numbers[rng.integers(len(vertices), size=3)] = rng.integers(len(vertices))
    return vertices, numbers[faces]


def tear_vertices(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Triangles with vertices of their own, at the same places."""
    vertices, faces = mesh
    torn = np.flatnonzero(rng.random(len(faces)) < 0.3)
    places = vertices[faces[torn]].reshape(-1, 3)
    damaged = faces.copy()
    damaged[torn] = len(vertices) + np.arange(len(places)).reshape(-1, 3)
    return np.concatenate([vertices, places]), damaged


def add_loose_vertices(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Vertices in no triangle."""
    vertices, faces = mesh
    return np.concatenate([vertices, rng.normal(size=(3, 3))]), faces


def flatten_triangles(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Triangles without area, or nearly: a corner moves onto the opposite edge."""
    vertices, faces = mesh
    damaged = vertices.copy()
    for a, b, c in faces[rng.integers(len(faces), size=4)]:
        share = rng.uniform(-0.2, 1.2)
        offset = rng.normal(size=3) * rng.choice([0.0, 1e-12, 1e-6])
        damaged[a] = share * damaged[b] + (1 - share) * damaged[c] + offset
    return damaged, faces


def collapse_edges(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Vertices at one place."""
    vertices, faces = mesh
    damaged = vertices.copy()
    for a, b, _ in faces[rng.integers(len(faces), size=3)]:
        damaged[a] = damaged[b] + rng.normal(size=3) * rng.choice([0.0, 1e-12, 1e-8])
    return damaged, faces


def repeat_corners(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Triangles with a repeated corner."""
    vertices, faces = mesh
    damaged = faces.copy()
    rows = rng.integers(len(faces), size=2)
    damaged[rows, 0] = damaged[rows, 1]
    return vertices, damaged


def shake(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Vertices that are moved as far as triangles are wide."""
    vertices, faces = mesh
    size = rng.uniform(0.01, 0.5) * np.ptp(vertices) / len(vertices) ** 0.5
    return vertices + size * rng.normal(size=vertices.shape), faces


def rescale(mesh: Triangles, rng: np.random.Generator) -> Triangles:
    """Other units, far from the origin."""
    vertices, faces = mesh
    scale = 10.0 ** rng.integers(-6, 7)
    return scale * (vertices + rng.choice([0.0, 1000.0])), faces


DAMAGES: tuple[Damage, ...] = (
    remove_triangles,
    turn_over,
    repeat_triangles,
    add_fins,
    join_vertices,
    tear_vertices,
    add_loose_vertices,
    flatten_triangles,
    collapse_edges,
    repeat_corners,
    shake,
    rescale,
)


def damaged_mesh(seed: int) -> Triangles:
    """A mesh with one to four kinds of damage."""
    rng = np.random.default_rng(seed)
    mesh = SOUND[rng.integers(len(SOUND))](rng)
    for number in rng.choice(len(DAMAGES), rng.integers(1, 5), replace=False):
        mesh = DAMAGES[number](mesh, rng)
    return mesh


def check_functions(mesh: Triangles) -> None:
    """The Laplacian of functions on any triangles."""
    bundle = tb.TangentBundle.scalar_from_mesh(*mesh)
    laplacian = bundle.laplacian()
    largest = laplacian.spectral_interval[1]
    assert bool((laplacian.mass > 0).all()), "a mass is not positive"
    assert bool((bundle.edge_weights() >= 0).all()), "a weight is negative"
    ones = np.ones((bundle.num_points, 1, 1))
    assert np.abs(laplacian @ ones).max() <= 1e-9 * largest, "constants are not in the kernel"
    x = np.random.default_rng(0).uniform(size=ones.shape)
    assert_not_positive(laplacian, x)
    diffused = tb.Heat(4.0 / largest)(laplacian, x)
    assert diffused.min() >= -1e-6 and diffused.max() <= 1 + 1e-6, "heat leaves its range"


def check_fields(mesh: Triangles) -> None:
    """The Laplacian of fields on a surface."""

    bundle = tb.TangentBundle.from_mesh(*mesh)
    x = np.random.default_rng(0).normal(size=(bundle.num_points, 2, 1))
    assert_not_positive(bundle.laplacian(), x)


def check_cut_fields(mesh: Triangles) -> None:
    """That of fields on a mesh that is cut into surfaces."""
    cut = tb.meshes.cut_sheets(*mesh)
    bundle = tb.TangentBundle.from_mesh(cut)
    x = np.random.default_rng(0).normal(size=(bundle.num_points, 2, 1))
    assert_not_positive(bundle.laplacian(), x)


def assert_not_positive(laplacian: tb.Laplacian, x: np.ndarray) -> None:
    """The energy of a signal, up to rounding errors."""
    applied = laplacian @ x
    assert np.isfinite(applied).all(), "the Laplacian is not finite"
    product = float(laplacian.inner(x, applied).sum())
    size = float(laplacian.inner(x, x).sum())
    assert product <= 1e-12 * laplacian.spectral_interval[1] * size, "the Laplacian is positive"


CHECKS = {
    "functions": check_functions,
    "fields": check_fields,
    "cut fields": check_cut_fields,
}


def run(share: float = 1.0) -> list[Row]:
    """A row for each kind of Laplacian."""
    rows = []
    for name, check in CHECKS.items():
        tally = Tally(name)
        for seed in range(max(3, int(MESHES * share))):
            mesh = damaged_mesh(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TangentBundleWarning)
                try:
                    tally.try_out(lambda mesh=mesh, check=check: check(mesh), f"seed {seed}")
                except Exception as error:
                    print(f"seed {seed}: {error!r}")
        rows.append(tally.row())
        print(name, dict(tally.errors), flush=True)
    return rows
