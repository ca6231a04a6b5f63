"""Laplacians on meshes that are no surfaces, against robust_laplacian.

The seven meshes of MeshPDE (arXiv 2602.05352, ``data/heat`` of EdwardBerman/rayleigh_analysis) are
read from ``shared/data/meshpde`` next to the repository, or from the folder that
TANGENTBUNDLE_MESHPDE names; without them only random triangles are compared. Files are
``NAME.npz`` with ``vertices`` (n, 3) and ``faces`` (f, 3).
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import tangentbundle as tb
from harness.records import Row
from harness.timing import baseline, best_in_turns
from tangentbundle.errors import MeshRepairWarning, NotManifoldError
from tangentbundle.geometry.cloud import PointCloud
from tangentbundle.geometry.tufted import MOLLIFY_FACTOR, tufted_mesh

from .meshes import Triangles

RANDOM_MESHES = 200
"""Meshes of random triangles, most of whose edges have several."""


def meshpde() -> dict[str, Triangles]:
    """The meshes of MeshPDE, if they are there."""
    default = Path(__file__).parents[2] / "shared/data/meshpde"
    folder = Path(os.environ.get("TANGENTBUNDLE_MESHPDE", default))
    meshes = {}
    for path in sorted(folder.glob("*.npz")):
        stored = np.load(path)
        meshes[path.stem] = (stored["vertices"].astype(float), stored["faces"].astype(np.int64))
    return meshes


def random_triangles(seed: int) -> Triangles:
    """Distinct triangles between random points."""
    rng = np.random.default_rng(seed)
    n = rng.integers(4, 40)
    corners = np.array([rng.choice(n, 3, replace=False) for _ in range(rng.integers(1, 80))])
    distinct = np.unique(np.sort(corners, axis=1), axis=0, return_index=True)[1]
    used, faces = np.unique(corners[distinct], return_inverse=True)
    return rng.normal(size=(len(used), 3)), faces.reshape(-1, 3)


def crowded_edges(faces: np.ndarray) -> int:
    """Edges with more than two triangles."""
    sides = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    counts = np.unique(sides, axis=0, return_counts=True)[1]
    return int((counts > 2).sum())


def differences(mesh: Triangles) -> tuple[float, float]:
    """Of the stiffness matrix and of the masses, relative to the largest entry of
    robust_laplacian's."""
    vertices, faces = mesh
    n = len(vertices)
    expected, expected_mass = baseline("robust_laplacian").mesh_laplacian(
        vertices, faces, MOLLIFY_FACTOR
    )
    cloud = PointCloud.from_points(vertices)
    cover = tufted_mesh(cloud, faces)
    order = cloud.curve_order.numpy()
    rows = order[cover.graph.rows.numpy()]
    columns = order[cover.graph.indices.numpy()]
    weights = sp.csr_array((cover.cotangents.numpy(), (rows, columns)), shape=(n, n))
    matrix = sp.diags_array(weights.sum(axis=1)) - weights
    areas = np.empty(n)
    areas[order] = cover.areas.numpy()
    mass = expected_mass.diagonal()
    return (
        float(abs(matrix - expected).max() / abs(expected).max()),
        float(np.abs(areas - mass).max() / mass.max()),
    )


def fields_on(mesh: Triangles) -> tuple[str, int]:
    """Whether the mesh is a surface or why not, and how many vertices it has more when it is cut.

    Fields on the cut mesh are built, too.
    """
    vertices, faces = mesh
    cut = tb.meshes.cut_sheets(vertices, faces)
    tb.TangentBundle.from_mesh(cut).laplacian()
    try:
        tb.TangentBundle.from_mesh(vertices, faces).laplacian()
    except NotManifoldError as error:
        return f"cut at {len(error.edges)} edges", len(cut.vertices) - len(vertices)
    return "surface", len(cut.vertices) - len(vertices)


def compared(name: str, mesh: Triangles) -> Row:
    """What a mesh is, what must hold, and the differences from robust_laplacian."""
    vertices, faces = mesh
    laplacian = tb.TangentBundle.scalar_from_mesh(vertices, faces).laplacian()
    constants = np.abs(laplacian @ np.ones((len(vertices), 1, 1))).max()
    stiffness, mass = differences(mesh)
    state, additional = fields_on(mesh)
    library = baseline("robust_laplacian")
    best = best_in_turns(
        {
            "robust_laplacian": lambda: library.mesh_laplacian(vertices, faces),
            "tangentbundle": lambda: tb.TangentBundle.scalar_from_mesh(vertices, faces).laplacian(),
        },
        repeats=3,
    )
    return {
        "mesh": name,
        "n": len(vertices),
        "edges with 3 triangles": crowded_edges(faces),
        "least mass": float(laplacian.mass.min()),
        "constants": float(constants / laplacian.spectral_interval[1]),
        "stiffness": stiffness,
        "mass": mass,
        "fields": state,
        "more vertices": additional,
        "robust_laplacian ms": 1e3 * best["robust_laplacian"],
        "tangentbundle ms": 1e3 * best["tangentbundle"],
    }


def run() -> list[Row]:
    """A row for each mesh, and one for all meshes of random triangles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeshRepairWarning)
        rows = [compared(name, mesh) for name, mesh in meshpde().items()]
        meshes = [random_triangles(seed) for seed in range(RANDOM_MESHES)]
        largest = np.max([differences(mesh) for mesh in meshes], axis=0)
    rows.append(
        {
            "mesh": f"{RANDOM_MESHES} times random triangles, largest",
            "n": max(len(vertices) for vertices, _ in meshes),
            "edges with 3 triangles": max(crowded_edges(faces) for _, faces in meshes),
            "stiffness": float(largest[0]),
            "mass": float(largest[1]),
        }
    )
    return rows
