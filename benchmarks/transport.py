"""Transport, distance and logarithm along geodesics against exact ones, and against potpourri3d:
errors on clouds and meshes, and times.

Errors are those of points within 0.8 of the distance to the cut locus. Angles are between vectors
in space, so they include the error of estimated tangent planes. potpourri3d has surfaces in space
only.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

import tangentbundle as tb
from harness.records import Row
from harness.timing import baseline, in_new_process
from tangentbundle.errors import AmbiguousTransportWarning
from tangentbundle.geodesics import GeodesicSolver
from tangentbundle.geodesics.heat import DirectFieldsOnSurfaces, DirectFunctions

from .geodesic_truth import Torus, Truth, cross_matrices, on_rotations, on_sphere
from .large import peak_bytes
from .meshes import bunny, torus

SOURCES = (17, 1000, 3000)
"""The points that everything is asked of, one by one; errors are of all together."""

SIZES = (5_000, 20_000)
"""Points of the clouds and vertices of the meshes."""

RADII = (1.0, 0.4)
"""Of the torus of the clouds: to the middle of the tube, and of the tube."""

MESH_RADII = (2.0, 0.7)
"""Of the torus of the meshes."""

BUNNY_SOURCES = (0, 500, 1000, 1500, 2000, 2500)
"""Vertices of the bunny from which distances are measured."""

TIMED_POINTS = 40_000
"""Points of the cloud on which times are measured."""

MANY_POINTS = 1_000_000
"""Points of the largest cloud."""

REPEATS = 5
"""Calls of which the fastest counts."""


@dataclass(frozen=True)
class Answers:
    """What a library says: the ``transported`` vector ``(n, D)``, ``distances`` (n,) and
    ``logarithms`` (n, D) in space."""

    transported: np.ndarray
    distances: np.ndarray
    logarithms: np.ndarray

    def errors(self, truth: Truth) -> np.ndarray:
        """Errors ``(3, m)`` of transport in degrees, and of distances and logarithms in per cent
        of the distance."""
        within = truth.is_within
        lengths = truth.distances[within]
        angles = angles_between(self.transported[within], truth.transported[within])
        of_distances = np.abs(self.distances[within] - lengths) / lengths
        gaps = np.linalg.norm(self.logarithms - truth.logarithms, axis=1)[within]
        return np.stack([angles, 100 * of_distances, 100 * gaps / lengths])


Method = Callable[[int, np.ndarray], Answers]
"""A library's answers to the number of a source and a vector there."""


def angles_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Degrees between rows."""
    cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)))


def of_bundle(bundle: tb.TangentBundle) -> Method:
    """This library."""

    def ask(source: int, vector: np.ndarray) -> Answers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AmbiguousTransportWarning)
            return Answers(
                transported=bundle.transport(source, vector),
                distances=bundle.distance(source),
                logarithms=bundle.log_map(source) @ bundle.frames[source].T,
            )

    return ask


def of_potpourri3d(points: np.ndarray, faces: np.ndarray | None) -> Method:
    """potpourri3d, on a cloud or a mesh."""
    potpourri3d = baseline("potpourri3d")
    if faces is None:
        heat = potpourri3d.PointCloudHeatSolver(points)
        distance = heat.compute_distance
    else:
        heat = potpourri3d.MeshVectorHeatSolver(points, faces)
        distance = potpourri3d.MeshHeatMethodDistanceSolver(points, faces).compute_distance
    axes = np.stack(heat.get_tangent_frames()[:2], axis=2)

    def ask(source: int, vector: np.ndarray) -> Answers:
        transported = heat.transport_tangent_vector(source, vector @ axes[source])
        return Answers(
            transported=np.einsum("nij,nj->ni", axes, transported),
            distances=distance(source),
            logarithms=heat.compute_log_map(source) @ axes[source].T,
        )

    return ask


@dataclass(frozen=True)
class Case:
    """A space with exact answers: ``frames`` (n, D, d) are exact, too; ``faces`` of a mesh."""

    space: str
    points: np.ndarray
    frames: np.ndarray
    truth: Callable[[np.ndarray, int, np.ndarray], Truth]
    faces: np.ndarray | None = None

    def rows(self) -> list[Row]:
        """A row for each library that can do it."""
        if self.faces is None:
            bundle = tb.TangentBundle.from_points(self.points, dim=self.dim)
        else:
            bundle = tb.TangentBundle.from_mesh(self.points, self.faces)
        methods = {"tangentbundle": of_bundle(bundle)}
        if self.dim == 2:
            methods["potpourri3d"] = of_potpourri3d(self.points, self.faces)
        else:
            known = tb.TangentBundle.from_frames(self.points, self.frames)
            methods["tangentbundle, known frames"] = of_bundle(known)
        errors: dict[str, list[np.ndarray]] = {name: [] for name in methods}
        for source in SOURCES:
            vector = self.frames[source] @ np.arange(1.0, self.dim + 1.0)
            exact = self.truth(self.points, source, vector)
            for name, method in methods.items():
                errors[name].append(method(source, vector).errors(exact))
        return [self._row(name, np.hstack(values)) for name, values in errors.items()]

    def _row(self, library: str, errors: np.ndarray) -> Row:
        """Medians and 95 % quantiles of the errors ``(3, m)``."""
        row: Row = {"space": self.space, "n": len(self.points), "library": library}
        for name, values in zip(("degrees", "distance %", "log %"), errors, strict=True):
            row[name] = float(np.median(values))
            row[f"{name}, 95"] = float(np.quantile(values, 0.95))
        return row

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return self.frames.shape[2]


def cases(n: int) -> list[Case]:
    """The spaces with about n points."""
    sphere = tb.manifolds.Sphere(2)
    ring = tb.manifolds.Torus(R=RADII[0], r=RADII[1])
    solid = tb.manifolds.Sphere(3)
    on_ball = sphere.sample(n, seed=0)
    on_ring = ring.sample(n, seed=0)
    on_solid = solid.sample(n, seed=0)
    rotations = Rotation.random(n, random_state=0).as_matrix()
    along = int(np.sqrt(n / 2))
    vertices, triangles = torus(2 * along, along, unevenness=0.5)
    mesh_ring = tb.manifolds.Torus(R=MESH_RADII[0], r=MESH_RADII[1])
    return [
        Case("sphere", on_ball, sphere.frames(on_ball), on_sphere),
        Case("torus", on_ring, ring.frames(on_ring), Torus(*RADII).truth),
        Case(
            "sphere, mesh",
            on_ball,
            sphere.frames(on_ball),
            on_sphere,
            faces=outward_hull(on_ball),
        ),
        Case(
            "torus, mesh",
            vertices,
            mesh_ring.frames(vertices),
            Torus(*MESH_RADII).truth,
            faces=triangles,
        ),
        Case("3-sphere", on_solid, solid.frames(on_solid), on_sphere),
        Case("rotations", rotations.reshape(-1, 9), frames_of_rotations(rotations), on_rotations),
    ]


def outward_hull(points: np.ndarray) -> np.ndarray:
    """The triangles of the convex hull, counterclockwise from outside."""
    faces = ConvexHull(points).simplices
    a, b, c = points[faces].swapaxes(0, 1)
    is_inward = (np.cross(b - a, c - a) * a).sum(axis=1) < 0
    return np.where(is_inward[:, None], faces[:, ::-1], faces)


def frames_of_rotations(matrices: np.ndarray) -> np.ndarray:
    """Orthonormal tangents ``(n, 9, 3)`` of rotations ``(n, 3, 3)``: products with antisymmetric
    matrices."""
    axes = cross_matrices(np.eye(3)) / np.sqrt(2.0)
    return np.einsum("nij,ajk->nika", matrices, axes).reshape(-1, 9, 3)


def errors() -> list[Row]:
    """All spaces and sizes."""
    return [row for n in SIZES for case in cases(n) for row in case.rows()]


# The bunny.


def bunny_rows(vertices: np.ndarray, faces: np.ndarray) -> list[Row]:
    """Distances against exact ones on the polyhedron, and vectors against the exact solution of
    their equations."""
    exact = baseline("pygeodesic.geodesic").PyGeodesicAlgorithmExact(vertices, faces)
    bundle = tb.TangentBundle.from_mesh(vertices, faces)
    methods = {
        "tangentbundle": bundle.distance,
        "tangentbundle, vertices alone": tb.TangentBundle.from_points(vertices).distance,
        "potpourri3d": baseline("potpourri3d")
        .MeshHeatMethodDistanceSolver(vertices, faces)
        .compute_distance,
    }
    errors: dict[str, list[np.ndarray]] = {name: [] for name in methods}
    for source in BUNNY_SOURCES:
        lengths, _ = exact.geodesicDistances(np.array([source]), None)
        others = lengths > 0
        for name, method in methods.items():
            gaps = np.abs(method(source) - lengths)[others] / lengths[others]
            errors[name].append(100 * gaps)
    rows = []
    for name, values in errors.items():
        together = np.concatenate(values)
        rows.append(
            {
                "space": "bunny, mesh",
                "n": len(vertices),
                "library": name,
                "distance %": float(np.median(together)),
                "distance %, 95": float(np.quantile(together, 0.95)),
            }
        )
    rows[0]["largest angle to the exact solution"] = angle_to_exact_solution(bundle.geodesics())
    return rows


def angle_to_exact_solution(solver: GeodesicSolver) -> float:
    """Degrees between the heat of a vector and the solution of the same equations by dense
    elimination with pivoting, in units of the heat at each point: the largest of all points."""
    equation = solver.diffusion.equation
    n = equation.num_points
    amounts = np.zeros((n, 1))
    amounts[SOURCES[0]] = 1.0
    vectors = np.zeros((n, 2, 1))
    vectors[SOURCES[0]] = [[1.0], [2.0]]
    matrix = np.zeros((n, 2, n, 2))
    matrix[equation.rows, :, equation.columns] = -equation.jumps[:, None, None] * equation.maps
    matrix[np.arange(n), :, np.arange(n)] = equation.decay[:, None, None] * np.eye(2)
    heat = DirectFunctions(equation).solve(amounts).repeat(2, axis=0)
    matrix = matrix.reshape(2 * n, 2 * n)
    exact = np.linalg.solve(matrix * heat.T / heat, vectors.reshape(-1, 1) / heat) * heat
    direct = DirectFieldsOnSurfaces(equation, equation.orientation).solve(vectors)
    return float(angles_between(direct[:, :, 0], exact.reshape(n, 2)).max())


# Times.


def times(n: int) -> list[Row]:
    """Seconds on a cloud of a sphere: from points to the first transported vector, and each
    further answer; the libraries take turns."""
    points = tb.manifolds.Sphere(2).sample(n, seed=0)
    best: dict[str, Row] = {}
    for _ in range(REPEATS):
        for library, prepare in (("tangentbundle", our_solver), ("potpourri3d", their_solver)):
            measured = timed_answers(points, prepare)
            before = best.get(library, measured)
            best[library] = {name: min(before[name], measured[name]) for name in measured}
    return [{"space": "sphere", "n": n, "library": name, **row} for name, row in best.items()]


def our_solver(points: np.ndarray) -> dict[str, Callable[[int], object]]:
    """This library's answers to a number of a source."""
    solver = tb.TangentBundle.from_points(points).geodesics()
    return {
        "transport": lambda source: solver.transport(source, [1.0, 2.0, 3.0]),
        "distance": solver.distance,
        "log": solver.log_map,
    }


def their_solver(points: np.ndarray) -> dict[str, Callable[[int], object]]:
    """potpourri3d's."""
    solver = baseline("potpourri3d").PointCloudHeatSolver(points)
    return {
        "transport": lambda source: solver.transport_tangent_vector(source, [1.0, 2.0]),
        "distance": solver.compute_distance,
        "log": solver.compute_log_map,
    }


def timed_answers(points: np.ndarray, prepare: Callable) -> Row:
    """Seconds to the first transport, and to a second answer of each kind."""
    row: Row = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmbiguousTransportWarning)
        start = time.perf_counter()
        answers = prepare(points)
        answers["transport"](SOURCES[0])
        row["set-up and first s"] = time.perf_counter() - start
        for name, answer in answers.items():
            answer(SOURCES[0])
            start = time.perf_counter()
            answer(SOURCES[1])
            row[f"{name} ms"] = 1e3 * (time.perf_counter() - start)
    return row


def million(n: int) -> Row:
    """Seconds and memory of one source on a large cloud."""
    points = tb.manifolds.Sphere(2).sample(n, seed=0)
    prepared = our_solver(points[:1000])
    for answer in prepared.values():
        answer(SOURCES[0])  # compiles
    before = time.process_time()
    row = timed_answers(points, our_solver)
    processor = time.process_time() - before
    return {
        "space": "sphere",
        "n": n,
        "library": "tangentbundle",
        **row,
        "processor s of all": processor,
        "peak GB": peak_bytes() / 1e9,
    }


def run() -> list[Row]:
    """All rows."""
    rows = errors()
    rabbit = bunny()
    if rabbit is not None:
        rows += bunny_rows(*rabbit)
    rows += times(TIMED_POINTS)
    rows.append(in_new_process(million, MANY_POINTS))
    return rows
