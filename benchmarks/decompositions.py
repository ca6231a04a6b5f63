"""Helmholtz-Hodge decompositions of surfaces with a boundary against exact parts, and the number of
harmonic fields.

The rotational parts are turned gradients of functions that vanish at the boundary; the harmonic
ones run along it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter

import numpy as np
from scipy.spatial import Delaunay

import tangentbundle as tb
from benchmarks.meshes import Triangles, genus_two, torus
from harness.records import Row
from tangentbundle.calculus import NoFlow, NoSlip, harmonic_fields

PARTS = ("gradient", "rotational", "harmonic")


class Domain(ABC):
    """A surface with a boundary in space, and fields on it whose parts are known."""

    name: str
    area: float

    @abstractmethod
    def interior(self, n: int, rng: np.random.Generator, spacing: float) -> np.ndarray:
        """About n random points ``(m, 3)``, ``spacing`` away from the boundary."""

    @abstractmethod
    def boundary(self, spacing: float) -> np.ndarray:
        """Points ``(m, 3)`` on the boundary, so far apart."""

    @abstractmethod
    def normals(self, points: np.ndarray) -> np.ndarray:
        """The unit normals ``(n, 3)``."""

    @abstractmethod
    def potential_gradient(self, points: np.ndarray) -> np.ndarray:
        """The gradient ``(n, 3)`` in space of a potential."""

    @abstractmethod
    def stream_gradient(self, points: np.ndarray) -> np.ndarray:
        """The gradient ``(n, 3)`` in space of a stream function that vanishes at the boundary."""

    @abstractmethod
    def harmonic(self, points: np.ndarray) -> np.ndarray:
        """A harmonic field ``(n, 3)`` along the boundary; zero if there is none."""

    @abstractmethod
    def chart(self, points: np.ndarray) -> np.ndarray:
        """Coordinates ``(n, 2)`` in a plane where angles are nearly those of the surface."""

    @abstractmethod
    def contains(self, chart: np.ndarray) -> np.ndarray:
        """Whether places of the chart belong to the surface."""

    def spacing(self, n: int) -> float:
        """The mean distance of n points."""
        return float(np.sqrt(self.area / n))

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """About n points, some of them on the boundary."""
        spacing = self.spacing(n)
        inside = self.interior(n, np.random.default_rng(seed), 0.4 * spacing)
        return np.concatenate([self.boundary(spacing), inside])

    def scattered(self, n: int, seed: int = 0) -> np.ndarray:
        """About n random points, none of them on the boundary on purpose."""
        return self.interior(n, np.random.default_rng(seed), 0.0)

    def mesh(self, n: int, seed: int = 0) -> Triangles:
        """A mesh of about n points."""
        points = self.sample(n, seed)
        chart = self.chart(points)
        faces = Delaunay(chart).simplices
        faces = faces[self.contains(chart[faces].mean(axis=1))]
        a, b, c = points[faces].swapaxes(0, 1)
        upward = np.einsum("fi,fi->f", np.cross(b - a, c - a), self.normals(points[faces[:, 0]]))
        return points, np.where(upward[:, None] > 0, faces, faces[:, ::-1])

    def parts(self, points: np.ndarray, boundary: NoFlow | NoSlip) -> tuple[np.ndarray, ...]:
        """The gradient, the rotational and the harmonic part ``(n, 3)`` of a field under a
        condition at the boundary; those of ``NoSlip()`` are those of ``NoFlow()`` turned."""
        normals = self.normals(points)

        def tangent(vectors: np.ndarray) -> np.ndarray:
            return vectors - (vectors * normals).sum(axis=1, keepdims=True) * normals

        gradient = tangent(self.potential_gradient(points))
        rotational = np.cross(normals, self.stream_gradient(points))
        harmonic = self.harmonic(points)
        if isinstance(boundary, NoFlow):
            return gradient, rotational, harmonic
        return (
            np.cross(normals, rotational),
            np.cross(normals, gradient),
            np.cross(normals, harmonic),
        )


class Annulus(Domain):
    """The flat ring between the radii 0.4 and 1."""

    name = "annulus"
    area = np.pi * (1 - 0.4**2)

    def interior(self, n: int, rng: np.random.Generator, spacing: float) -> np.ndarray:
        radius = np.sqrt(rng.uniform(0.4**2, 1, n))
        angle = rng.uniform(0, 2 * np.pi, n)
        keep = (radius > 0.4 + spacing) & (radius < 1 - spacing)
        return _ring(radius[keep], angle[keep])

    def boundary(self, spacing: float) -> np.ndarray:
        return np.concatenate([_circle(radius, spacing) for radius in (0.4, 1.0)])

    def normals(self, points: np.ndarray) -> np.ndarray:
        return np.tile([0.0, 0.0, 1.0], (len(points), 1))

    def potential_gradient(self, points: np.ndarray) -> np.ndarray:
        x, y, z = points.T
        return np.stack([2 * x * y + np.cos(x), x**2, z], axis=1)

    def stream_gradient(self, points: np.ndarray) -> np.ndarray:
        """Of (r - 0.4) (1 - r) (1 + x)."""
        x, y, z = points.T
        r = np.hypot(x, y)
        outward = np.stack([x / r, y / r, z], axis=1)
        along_x = np.array([1.0, 0.0, 0.0])
        slope = (1.4 - 2 * r) * (1 + x)
        return slope[:, None] * outward + ((r - 0.4) * (1 - r))[:, None] * along_x

    def harmonic(self, points: np.ndarray) -> np.ndarray:
        return 0.3 * np.cross([0, 0, 1.0], points) / (points**2).sum(axis=1, keepdims=True)

    def chart(self, points: np.ndarray) -> np.ndarray:
        return points[:, :2]

    def contains(self, chart: np.ndarray) -> np.ndarray:
        # the sides of the inner polygon are inside its circle
        return np.hypot(*chart.T) > 0.4 * (1 - 1e-3)


class Cap(Domain):
    """The part of the unit sphere above z = 0.3."""

    name = "spherical cap"
    area = 2 * np.pi * 0.7

    def interior(self, n: int, rng: np.random.Generator, spacing: float) -> np.ndarray:
        z = rng.uniform(0.3, 1, n)
        z = z[z > 0.3 + spacing]
        points = _ring(np.sqrt(1 - z**2), rng.uniform(0, 2 * np.pi, len(z)))
        return points + np.outer(z, [0, 0, 1])

    def boundary(self, spacing: float) -> np.ndarray:
        return _circle(np.sqrt(1 - 0.3**2), spacing) + np.array([0, 0, 0.3])

    def normals(self, points: np.ndarray) -> np.ndarray:
        return points

    def potential_gradient(self, points: np.ndarray) -> np.ndarray:
        x, y, z = points.T
        return np.stack([y, x, 1 + 0 * z], axis=1)

    def stream_gradient(self, points: np.ndarray) -> np.ndarray:
        """Of (z - 0.3) (1 + x)."""
        x, _, z = points.T
        return np.stack([z - 0.3, 0 * x, 1 + x], axis=1)

    def harmonic(self, points: np.ndarray) -> np.ndarray:
        return np.zeros_like(points)

    def chart(self, points: np.ndarray) -> np.ndarray:
        return points[:, :2] / (1 + points[:, 2:])

    def contains(self, chart: np.ndarray) -> np.ndarray:
        return np.ones(len(chart), bool)


class HalfTorus(Domain):
    """The half y >= 0 of the torus of radii 1 and 0.4, a bent tube, by its angles s around the axis
    and t around the tube."""

    name = "half torus"
    area = 2 * np.pi**2 * 0.4
    tube = 0.4

    def interior(self, n: int, rng: np.random.Generator, spacing: float) -> np.ndarray:
        points = tb.manifolds.Torus(1.0, self.tube).sample(2 * n, seed=rng)
        return points[points[:, 1] > spacing]

    def boundary(self, spacing: float) -> np.ndarray:
        circle = _circle(self.tube, spacing)
        ends = [circle[:, [0, 2, 1]] + [sign, 0, 0] for sign in (1.0, -1.0)]
        return np.concatenate(ends)

    def mesh(self, n: int, seed: int = 0) -> Triangles:
        """A grid of the angles with random shifts."""
        spacing = self.spacing(n)
        along = round(np.pi / spacing)
        around = round(2 * np.pi * self.tube / spacing)
        rng = np.random.default_rng(seed)
        shift = 0.3 * rng.uniform(-1, 1, (2, along + 1, around))
        shift[0, [0, -1]] = 0
        s = np.pi * (np.arange(along + 1)[:, None] + shift[0]) / along
        t = 2 * np.pi * (np.arange(around) + shift[1]) / around
        radius = 1 + self.tube * np.cos(t)
        points = np.stack([radius * np.cos(s), radius * np.sin(s), self.tube * np.sin(t)], axis=-1)
        i, j = (k.ravel() for k in np.mgrid[:along, :around])
        here = i * around + j
        beside = i * around + (j + 1) % around
        first = np.stack([here, here + around, beside + around], axis=1)
        second = np.stack([here, beside + around, beside], axis=1)
        return points.reshape(-1, 3), np.concatenate([first, second])

    def normals(self, points: np.ndarray) -> np.ndarray:
        radius = np.hypot(points[:, 0], points[:, 1])
        centres = points / radius[:, None] * [1, 1, 0]
        return (points - centres) / self.tube

    def potential_gradient(self, points: np.ndarray) -> np.ndarray:
        x, y, z = points.T
        return np.stack([z, 1 + 0 * y, x], axis=1)

    def stream_gradient(self, points: np.ndarray) -> np.ndarray:
        """Of y (1 + z)."""
        y, z = points[:, 1], points[:, 2]
        return np.stack([0 * y, 1 + z, y], axis=1)

    def harmonic(self, points: np.ndarray) -> np.ndarray:
        """The turned gradient of the angle s."""
        squares = (points[:, :2] ** 2).sum(axis=1, keepdims=True)
        slope = np.cross([0, 0, 1.0], points) / squares
        return 0.5 * np.cross(self.normals(points), slope)

    def chart(self, points: np.ndarray) -> np.ndarray:
        raise NotImplementedError("a tube has no chart in the plane; its mesh is a grid")

    def contains(self, chart: np.ndarray) -> np.ndarray:
        raise NotImplementedError("a tube has no chart in the plane; its mesh is a grid")


DOMAINS = (Annulus(), Cap(), HalfTorus())


def _ring(radius: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle], axis=1)


def _circle(radius: float, spacing: float) -> np.ndarray:
    """Points on a circle about the third axis."""
    count = round(2 * np.pi * radius / spacing)
    return _ring(np.full(count, radius), 2 * np.pi * np.arange(count) / count)


def disc_with_holes(n: int, holes: list[tuple[float, float, float]], seed: int = 0) -> Triangles:
    """A mesh of about n points of the unit disc without some discs ``(x, y, radius)``."""
    spacing = np.sqrt(np.pi / n)
    rng = np.random.default_rng(seed)
    inside = rng.uniform(-1, 1, (n, 2))
    inside = inside[np.hypot(*inside.T) < 1 - 0.5 * spacing]
    rings = [_circle(1.0, spacing)[:, :2]]
    for x, y, radius in holes:
        inside = inside[np.hypot(*(inside - [x, y]).T) > radius + 0.5 * spacing]
        rings.append(_circle(radius, spacing)[:, :2] + [x, y])
    chart = np.concatenate([*rings, inside])
    faces = Delaunay(chart).simplices
    for x, y, radius in holes:
        far = np.hypot(*(chart[faces] - [x, y]).transpose(2, 0, 1)) > radius * (1 + 1e-9)
        faces = faces[far.any(axis=1)]
    return np.concatenate([chart, np.zeros((len(chart), 1))], axis=1), faces


def torus_with_hole() -> Triangles:
    """A torus without the triangles around one vertex."""
    vertices, faces = torus(30, 16)
    faces = faces[(faces != 0).all(axis=1)]
    return vertices[1:], faces - 1


def errors(bundle: tb.TangentBundle, domain: Domain, boundary: NoFlow | NoSlip) -> dict[str, float]:
    """The error of each part of a field, as a share of the norm of the field."""
    points = np.asarray(bundle.points)
    exact = domain.parts(points, boundary)
    field = bundle.to_coordinates(sum(exact))
    parts = tb.helmholtz(bundle, field, boundary=boundary)
    found = (parts.gradient, parts.rotational, parts.remainder)
    norm = np.sqrt((sum(exact) ** 2).sum())
    return {
        name: float(np.sqrt(((bundle.to_ambient(part) - expected) ** 2).sum()) / norm)
        for name, part, expected in zip(PARTS, found, exact, strict=True)
    }


def run(n: int = 20_000) -> list[Row]:
    """Errors of the parts, and numbers of harmonic fields."""
    rows: list[Row] = []
    for domain in DOMAINS:
        bundles = {
            "mesh": tb.TangentBundle.from_mesh(*domain.mesh(n)),
            "cloud, points on the boundary": tb.TangentBundle.from_points(domain.sample(n), dim=2),
            "cloud, random points": tb.TangentBundle.from_points(domain.scattered(n), dim=2),
        }
        for kind, bundle in bundles.items():
            for boundary in (NoFlow(), NoSlip()):
                start = perf_counter()
                shares = errors(bundle, domain, boundary)
                seconds = perf_counter() - start
                rows.append(
                    {
                        "what": "errors of parts",
                        "case": f"{domain.name}, {kind}",
                        "boundary": str(boundary),
                        "n": bundle.num_points,
                        **{name: f"{share:.2%}" for name, share in shares.items()},
                        "harmonic fields": harmonic_fields(bundle, boundary=boundary).shape[2],
                        "seconds": round(seconds, 1),
                    }
                )
    return rows + harmonic_rows()


def harmonic_rows() -> list[Row]:
    """Numbers of harmonic fields of meshes, against their first Betti numbers."""
    meshes = {
        "disc": (disc_with_holes(1000, []), 0),
        "annulus": (disc_with_holes(1000, [(0, 0, 0.4)]), 1),
        "pair of pants": (disc_with_holes(2000, [(0.4, 0, 0.2), (-0.4, 0.1, 0.25)]), 2),
        "torus": (torus(30, 16), 2),
        "torus with a hole": (torus_with_hole(), 2),
        "genus two": (genus_two(0.1), 4),
    }
    rows: list[Row] = []
    for name, (mesh, betti) in meshes.items():
        bundle = tb.TangentBundle.from_mesh(*mesh)
        for boundary in (NoFlow(), NoSlip()):
            rows.append(
                {
                    "what": "harmonic fields",
                    "case": name,
                    "boundary": str(boundary),
                    "n": bundle.num_points,
                    "harmonic fields": harmonic_fields(bundle, boundary=boundary).shape[2],
                    "expected": betti,
                }
            )
    return rows
