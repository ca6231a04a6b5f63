"""Smoothest fields of directions: sums of their indices, and their energies against exact ones and
those of geometry-central, by potpourri3d.

potpourri3d has the connection Laplacian of geometry-central; its n-th power is the matrix whose
first eigenfield geometry-central takes.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh

import tangentbundle as tb
from benchmarks.meshes import Triangles, genus_two, torus
from harness.records import Row
from harness.timing import baseline

ORDERS = (1, 2, 4, 6)


def sphere(n: int) -> Triangles:
    """A mesh of the unit sphere with n random vertices."""
    from scipy.spatial import ConvexHull

    vertices = tb.manifolds.Sphere(2).sample(n, seed=0)
    faces = ConvexHull(vertices).simplices
    a, b, c = vertices[faces].swapaxes(0, 1)
    inward = np.einsum("fi,fi->f", np.cross(b - a, c - a), a) < 0
    return vertices, np.where(inward[:, None], faces[:, ::-1], faces)


def geometry_central_energy(vertices: np.ndarray, faces: np.ndarray, order: int) -> float:
    """The first eigenvalue of the n-th power of geometry-central's connection Laplacian."""
    solver = baseline("potpourri3d").MeshVectorHeatSolver(vertices, faces)
    laplacian = solver.get_connection_laplacian().tocoo()
    areas = baseline("potpourri3d").vertex_areas(vertices, faces)
    values = np.array(laplacian.data, dtype=complex)
    is_edge = (laplacian.row != laplacian.col) & (np.abs(values) > 0)
    sizes = np.abs(values[is_edge])
    values[is_edge] = -sizes * (-values[is_edge] / sizes) ** order
    entries = (values, (laplacian.row, laplacian.col))
    matrix = sparse.csc_array(sparse.coo_array(entries, shape=laplacian.shape))
    roots = sparse.diags_array(1 / np.sqrt(areas))
    scaled = sparse.csc_array(roots @ matrix @ roots)
    return float(eigsh(scaled, k=1, sigma=-1e-3, return_eigenvectors=False)[0])


def run(n: int = 10_000) -> list[Row]:
    """Sums of indices and energies of orders 1, 2, 4 and 6, on meshes and clouds."""
    meshes = {
        "sphere": (sphere(n), 2),
        "torus": (torus(round(np.sqrt(2 * n)), round(np.sqrt(n / 2))), 0),
        "genus two": (genus_two(0.05), -2),
    }
    clouds = {
        "sphere": (tb.manifolds.Sphere(2).sample(n, seed=0), 2),
        "torus": (tb.manifolds.Torus(1.0, 0.4).sample(n, seed=0), 0),
        "genus two": (_even_cloud(*genus_two(0.05), n), -2),
    }
    rows: list[Row] = []
    for name, (mesh, euler) in meshes.items():
        bundle = tb.TangentBundle.from_mesh(*mesh)
        for order in ORDERS:
            row = _row(f"{name}, mesh", bundle, order, euler)
            row["geometry-central"] = round(geometry_central_energy(*mesh, order), 4)
            rows.append(row)
    for name, (points, euler) in clouds.items():
        bundle = tb.TangentBundle.from_points(points, dim=2)
        rows += [_row(f"{name}, cloud", bundle, order, euler) for order in ORDERS]
    return rows


def _even_cloud(vertices: np.ndarray, faces: np.ndarray, n: int) -> np.ndarray:
    """n random points of a mesh, evenly by area."""
    rng = np.random.default_rng(0)
    corners = vertices[faces]
    sides = corners[:, 1:] - corners[:, :1]
    areas = np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)
    rows = rng.choice(len(faces), n, p=areas / areas.sum())
    return np.einsum("nk,nkd->nd", rng.dirichlet(np.ones(3), n), corners[rows])


def _row(case: str, bundle: tb.TangentBundle, order: int, euler: int) -> Row:
    start = perf_counter()
    field = tb.smoothest_field(bundle, order=order)
    seconds = perf_counter() - start
    points = field.singularities(euler=euler)
    row: Row = {
        "case": case,
        "n": bundle.num_points,
        "order": order,
        "singular points": len(points.index),
        "sum of indices": round(float(points.index.sum()), 3),
        "Euler characteristic": euler,
        "energy": round(field.energy, 4),
        "seconds": round(seconds, 2),
    }
    if case.startswith("sphere"):
        row["exact energy"] = order
    return row
