"""The connection Laplacian of meshes against potpourri3d: ten lowest eigenvalues times area, and
time to build.

The Stanford bunny (2 503 vertices) is read from ``shared/data/meshes/bunny.obj`` next to the
repository, or from the file that TANGENTBUNDLE_BUNNY names; without a file it is left out.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

import tangentbundle as tb
from harness.records import Row
from harness.timing import baseline, best_in_turns
from tangentbundle.io import Request, read_field

Triangles = tuple[np.ndarray, np.ndarray]
"""Vertices ``(n, 3)`` and oriented triangles ``(f, 3)``."""


def torus(around: int, along: int, unevenness: float = 0.0, seed: int = 0) -> Triangles:
    """A torus of radii 2 and 0.7 whose grid lines crowd on one side and are shifted at random.

    ``unevenness`` 0 is a regular grid; at 0.9 the widest triangles are some 20 times as wide as the
    narrowest.
    """
    rng = np.random.default_rng(seed)
    s, t = (2 * np.pi * np.arange(m) / m for m in (around, along))
    jitter = unevenness * (rng.random((2, around, along)) - 0.5)
    s = s[:, None] + jitter[0] * 2 * np.pi / around
    t = t[None, :] + jitter[1] * 2 * np.pi / along
    s, t = s + unevenness * np.sin(s), t + unevenness * np.sin(t)
    radius = 2 + 0.7 * np.cos(t)
    vertices = np.stack([radius * np.cos(s), radius * np.sin(s), 0.7 * np.sin(t)], axis=-1).reshape(
        -1, 3
    )
    i, j = (k.ravel() for k in np.mgrid[:around, :along])
    corner = lambda a, b: (i + a) % around * along + (j + b) % along  # noqa: E731
    first = np.stack([corner(0, 0), corner(1, 0), corner(1, 1)], axis=1)
    return vertices, np.concatenate(
        [first, np.stack([corner(0, 0), corner(1, 1), corner(0, 1)], axis=1)]
    )


def level_set(function: Callable, low: tuple, high: tuple, step: float) -> Triangles:
    """The surface ``function(x, y, z) = 0`` by marching tetrahedra: closed, with slivers, outward
    normals."""
    axes = [np.arange(a, b + step, step) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    value, shape = function(*np.moveaxis(grid, -1, 0)).ravel(), grid.shape[:3]
    number = np.arange(value.size).reshape(shape)
    path = itertools.permutations(
        range(3)
    )  # the six tetrahedra of a cube, each along three of its edges
    steps = [
        np.concatenate([[[0, 0, 0]], np.cumsum(np.eye(3, dtype=int)[list(p)], axis=0)])
        for p in path
    ]

    def cells(corner: np.ndarray) -> np.ndarray:
        return number[
            tuple(slice(a, n - 1 + a) for a, n in zip(corner, shape, strict=True))
        ].ravel()

    tets = np.concatenate([np.stack([cells(s) for s in tet], axis=1) for tet in steps])
    inside = value[tets] < 0
    crossed = []
    for count in (1, 2, 3):
        some = tets[inside.sum(axis=1) == count]
        a = np.take_along_axis(some, np.argsort(value[some] >= 0, axis=1, kind="stable"), axis=1)
        if count == 1:
            crossed.append(np.stack([a[:, [0, k]] for k in (1, 2, 3)], axis=1))
        elif count == 3:
            crossed.append(np.stack([a[:, [k, 3]] for k in (0, 1, 2)], axis=1))
        else:
            quad = np.stack([a[:, [0, 2]], a[:, [0, 3]], a[:, [1, 3]], a[:, [1, 2]]], axis=1)
            crossed += [quad[:, [0, 1, 2]], quad[:, [0, 2, 3]]]
    ends = np.concatenate(crossed).reshape(
        -1, 2
    )  # an edge of the grid for each corner, inside first
    edges, faces = np.unique(ends, axis=0, return_inverse=True)
    p, q = grid.reshape(-1, 3)[edges].swapaxes(0, 1)
    share = (value[edges[:, 0]] / (value[edges[:, 0]] - value[edges[:, 1]]))[:, None]
    vertices, faces = p + np.clip(share, 0.02, 0.98) * (q - p), faces.reshape(-1, 3)
    a, b, c = vertices[faces].swapaxes(0, 1)
    outward = np.einsum("fi,fi->f", np.cross(b - a, c - a), (q - p)[faces].sum(axis=1)) > 0
    return vertices, np.where(outward[:, None], faces, faces[:, ::-1])


def genus_two(step: float = 0.05) -> Triangles:
    """A plate with two holes."""
    return level_set(
        lambda x, y, z: (x**2 * (1 - x**2) - y**2) ** 2 + z**2 / 2 - 0.017,
        (-1.2, -0.7, -0.33),
        (1.2, 0.7, 0.33),
        step * 1.0007,
    )


def head(step: float = 0.05) -> Triangles:
    """A head with two thin ears, and two eyes beside it: three parts, sheets that lie close to each
    other."""

    def ball(x, y, z, at, radii):
        return (
            np.sqrt(sum(((u - a) / r) ** 2 for u, a, r in zip((x, y, z), at, radii, strict=True)))
            - 1
        )

    def solid(x, y, z):
        ears = [ball(x, y, z, (s * 1.2, 0, 0.3), (0.7, 0.08, 0.5)) for s in (-1, 1)]
        eyes = [ball(x, y, z, (s * 0.35, 0.95, 0.25), (0.17, 0.17, 0.17)) for s in (-1, 1)]
        return np.minimum.reduce([ball(x, y, z, (0, 0, 0), (0.9, 0.7, 0.8)), *ears, *eyes])

    return level_set(solid, (-2.0, -0.8, -0.9), (2.0, 1.2, 0.9), step * 1.0007)


def bunny() -> Triangles | None:
    """The Stanford bunny, if there is one."""
    path = Path(
        os.environ.get(
            "TANGENTBUNDLE_BUNNY", Path(__file__).parents[2] / "shared/data/meshes/bunny.obj"
        )
    )
    if not path.exists():
        return None
    space = read_field(path, Request(needs_vectors=False)).space
    return space.points, space.faces  # type: ignore[attr-defined]


def without_holes(vertices: np.ndarray, faces: np.ndarray) -> Triangles:
    """The mesh with a new vertex in the middle of each boundary curve, joined to it by
    triangles."""
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    directed = {(int(a), int(b)) for a, b in sides}
    before = {b: a for a, b in directed if (b, a) not in directed}
    points = [*vertices]
    triangles = [*faces]
    while before:
        vertex = next(iter(before))
        curve = []
        while vertex in before:
            curve.append(vertex)
            vertex = before.pop(vertex)
        middle = len(points)
        points.append(vertices[curve].mean(axis=0))
        for a, b in zip(curve, [*curve[1:], curve[0]], strict=True):
            triangles.append(np.array([a, b, middle]))
    return np.array(points), np.array(triangles)


def vertex_areas(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """A third of the triangles around each vertex."""
    a, b, c = vertices[faces].swapaxes(0, 1)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 6
    return np.bincount(faces.ravel(), np.repeat(area, 3), len(vertices))


def reference(vertices: np.ndarray, faces: np.ndarray, k: int) -> np.ndarray:
    """The lowest eigenvalues times area by potpourri3d; its operator is complex, so each of them
    counts twice."""
    matrix = (
        baseline("potpourri3d").MeshVectorHeatSolver(vertices, faces).get_connection_laplacian()
    )
    areas = vertex_areas(vertices, faces)
    mass = sp.diags_array(areas).tocsc()
    return eigsh(matrix.tocsc(), k, mass, sigma=-1e-2 / areas.sum(), which="LM")[0] * areas.sum()


def compared(name: str, mesh: Triangles, k: int = 10) -> list[Row]:
    """A row for each of the first k pairs of eigenvalues."""
    bundle = tb.TangentBundle.from_mesh(*mesh)
    found = bundle.laplacian().spectrum(2 * k)[0] * vertex_areas(*mesh).sum()
    rows = []
    for number, (pair, value) in enumerate(
        zip(found.reshape(k, 2), reference(*mesh, k), strict=True)
    ):
        rows.append(
            {
                "mesh": name,
                "n": bundle.num_points,
                "components": bundle.sorted_graph.num_components,
                "pair": number,
                "potpourri3d": float(value),
                "tangentbundle": float(pair.mean()),
                "difference": float(abs(pair.mean() / value - 1)),
                "within the pair": float(np.ptp(pair) / pair.mean()),
            }
        )
    return rows


def timed(name: str, mesh: Triangles) -> Row:
    """Milliseconds from vertices and triangles to the operator, least of several calls in turns."""
    solver = baseline("potpourri3d").MeshVectorHeatSolver
    best = best_in_turns(
        {
            "potpourri3d": lambda: solver(*mesh).get_connection_laplacian(),
            "tangentbundle": lambda: tb.TangentBundle.from_mesh(*mesh).laplacian(),
        },
        repeats=7,
    )
    milliseconds = {f"{library} ms": 1e3 * value for library, value in best.items()}
    return {
        "mesh": name,
        "n": len(mesh[0]),
        **milliseconds,
        "faster": best["potpourri3d"] / best["tangentbundle"],
    }


def run() -> list[Row]:
    """The rows of all meshes, and the times to build."""
    uneven = "torus, uneven triangles"
    meshes = {uneven: torus(70, 36, 0.9), "genus 2": genus_two(), "head, thin ears, 2 eyes": head()}
    rabbit = bunny()
    if rabbit is not None:
        # potpourri3d scales the angles at a boundary to pi, so the two are compared on closed
        # surfaces
        meshes = {"bunny, holes closed": without_holes(*rabbit), **meshes}
    rows = [row for name, mesh in meshes.items() for row in compared(name, mesh)]
    small = timed(uneven, meshes[uneven]) if rabbit is None else timed("bunny", rabbit)
    return [*rows, small, timed(uneven, torus(316, 160, 0.9)), timed("torus", torus(316, 160))]
