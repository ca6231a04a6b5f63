"""Helmholtz-Hodge decompositions with a boundary, harmonic fields, and triangles between points."""

import numpy as np
import pytest

import tangentbundle as tb
from benchmarks.decompositions import (
    DOMAINS,
    Annulus,
    disc_with_holes,
    errors,
    torus_with_hole,
)
from benchmarks.meshes import genus_two, torus
from tangentbundle.calculus import NoFlow, NoSlip, harmonic_fields
from tangentbundle.errors import BoundaryError, InvalidInputError
from tangentbundle.geometry.triangulation import triangulate
from tangentbundle.testing import random_orthogonal

CONDITIONS = (NoFlow(), NoSlip())

MESHES = {
    "disc": (disc_with_holes(400, []), 0),
    "annulus": (disc_with_holes(400, [(0, 0, 0.4)]), 1),
    "pair of pants": (disc_with_holes(900, [(0.4, 0, 0.2), (-0.4, 0.1, 0.25)]), 2),
    "torus": (torus(24, 12), 2),
    "torus with a hole": (torus_with_hole(), 2),
    "genus two": (genus_two(0.12), 4),
}


@pytest.mark.parametrize("boundary", CONDITIONS, ids=str)
@pytest.mark.parametrize("name", MESHES)
def test_harmonic_fields_are_as_many_as_the_first_betti_number(name, boundary):
    mesh, betti = MESHES[name]
    bundle = tb.TangentBundle.from_mesh(*mesh)
    fields = harmonic_fields(bundle, boundary=boundary)
    assert fields.shape == (bundle.num_points, 2, betti)
    parts = tb.helmholtz(bundle, fields, boundary=boundary)
    if betti:
        assert np.median(parts.energies["remainder"]) > 0.97


@pytest.mark.parametrize("boundary", CONDITIONS, ids=str)
@pytest.mark.parametrize("kind", ["mesh", "cloud"])
@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_exact_parts_are_found(domain, kind, boundary):
    if kind == "mesh":
        bundle = tb.TangentBundle.from_mesh(*domain.mesh(3000))
    else:
        bundle = tb.TangentBundle.from_points(domain.sample(3000), dim=2)
    assert max(errors(bundle, domain, boundary).values()) < 0.02
    betti = 0 if domain.name == "spherical cap" else 1
    assert harmonic_fields(bundle, boundary=boundary).shape[2] == betti


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_errors_vanish_with_more_points(domain):
    coarse, fine = (
        max(errors(tb.TangentBundle.from_mesh(*domain.mesh(n)), domain, NoFlow()).values())
        for n in (1500, 6000)
    )
    assert fine < 0.5 * coarse


@pytest.fixture(scope="module")
def ring():
    return tb.TangentBundle.from_mesh(*Annulus().mesh(1500))


@pytest.mark.parametrize("boundary", CONDITIONS, ids=str)
def test_parts_are_orthogonal_and_sum_to_the_field(ring, boundary):
    points = np.asarray(ring.points)
    field = ring.to_coordinates(np.sin(3 * points[:, [1, 0, 2]]) + np.array([0.2, 0.5, 0]))
    several = np.concatenate([field, 2 * field[::-1]], axis=2)
    parts = tb.helmholtz(ring, several, boundary=boundary)
    fields = [parts.gradient, parts.rotational, parts.remainder]
    assert np.allclose(sum(fields), several)
    assert np.allclose(sum(parts.energies.values()), 1.0)
    areas = np.asarray(ring.laplacian().mass)  # the mesh is Delaunay: those of its triangles
    for a in range(3):
        for b in range(a):
            product = np.einsum("n,ndc,ndc->c", areas, fields[a], fields[b])
            sizes = np.einsum("n,ndc->c", areas, several**2)
            assert np.abs(product / sizes).max() < 1e-3


def test_conditions_hold_at_the_boundary(ring):
    """The parts without flow are along the boundary, those without slip perpendicular to it."""
    points = np.asarray(ring.points)
    radius = np.linalg.norm(points, axis=1)
    rim = (radius < 0.4 + 1e-9) | (radius > 1 - 1e-9)
    outward = points[rim] / radius[rim, None]
    field = ring.to_coordinates(np.sin(3 * points[:, [1, 0, 2]]) + np.array([0.2, 0.5, 0]))
    free = tb.helmholtz(ring, field, boundary=NoFlow())
    along = ring.to_ambient(free.rotational)[rim], ring.to_ambient(free.remainder)[rim]
    held = tb.helmholtz(ring, field, boundary=NoSlip())
    across = ring.to_ambient(held.gradient)[rim], ring.to_ambient(held.remainder)[rim]
    size = np.sqrt(np.mean(field**2))
    for part in along:
        assert np.sqrt(np.mean((part * outward).sum(axis=1) ** 2)) < 0.05 * size
    for part in across:
        tangential = part - (part * outward).sum(axis=1, keepdims=True) * outward
        assert np.sqrt(np.mean(tangential**2)) < 0.05 * size
    assert np.abs(free.stream[rim]).max() < 1e-3 * np.abs(free.stream).max()
    assert np.abs(held.potential[rim]).max() < 1e-3 * np.abs(held.potential).max()


@pytest.mark.parametrize("boundary", CONDITIONS, ids=str)
def test_harmonic_fields_have_neither_divergence_nor_vorticity(ring, boundary):
    field = harmonic_fields(ring, boundary=boundary)
    scale = np.abs(ring.gradient() @ field[:, :1]).max()
    assert np.median(np.abs(ring.divergence() @ field)) < 0.05 * scale
    assert np.median(np.abs(ring.curl() @ field)) < 0.05 * scale
    mean_square = np.einsum("n,ndk->k", np.asarray(ring.laplacian().mass), field**2)
    assert np.allclose(mean_square, 1.0, rtol=1e-3)
    # 1/r, around the axis or away from it
    radius = np.linalg.norm(np.asarray(ring.points), axis=1)
    speed = np.linalg.norm(field[:, :, 0], axis=1) * radius
    assert speed.std() < 0.05 * speed.mean()


@pytest.mark.parametrize("kind", ["mesh", "cloud"])
def test_frames_do_not_matter(kind):
    if kind == "mesh":
        bundle = tb.TangentBundle.from_mesh(*Annulus().mesh(600))
    else:
        points = Annulus().sample(1000)[:, :2]
        bundle = tb.TangentBundle.from_frames(points, np.tile(np.eye(2), (len(points), 1, 1)))
    n = bundle.num_points
    turns = random_orthogonal(n, 2, seed=0)
    turned = bundle.rebuilt(bundle.points, bundle.frames @ turns)
    vectors = np.sin(3 * np.asarray(bundle.points)[:, ::-1])
    here, there = (tb.helmholtz(b, b.to_coordinates(vectors)) for b in (bundle, turned))
    for part in ("gradient", "rotational", "remainder"):
        expected = bundle.to_ambient(getattr(here, part))
        assert np.allclose(turned.to_ambient(getattr(there, part)), expected, atol=1e-8)


def test_uniform_flow_through_a_disc_is_a_gradient_or_a_rotation():
    """It has no sources and no vortices: which part it is depends on the condition alone."""
    bundle = tb.TangentBundle.from_mesh(*disc_with_holes(800, []))
    field = bundle.to_coordinates(np.tile([1.0, 0, 0], (bundle.num_points, 1)))
    assert tb.helmholtz(bundle, field).energies["gradient"][0] > 0.9999
    held = tb.helmholtz(bundle, field, boundary=NoSlip())
    assert held.energies["rotational"][0] > 0.9999


def test_closed_surfaces_have_the_same_parts_under_both_conditions():
    bundle = tb.TangentBundle.from_mesh(*torus(24, 12))
    field = np.random.default_rng(0).normal(size=(bundle.num_points, 2, 1))
    one, two = (tb.helmholtz(bundle, field, boundary=boundary) for boundary in CONDITIONS)
    assert np.allclose(one.gradient, two.gradient) and np.allclose(one.remainder, two.remainder)


def test_what_is_refused():
    ball = np.random.default_rng(0).normal(size=(3000, 3))
    ball = ball / np.linalg.norm(ball, axis=1, keepdims=True)
    ball *= np.random.default_rng(1).uniform(size=(3000, 1)) ** (1 / 3)
    bundle = tb.TangentBundle.from_points(ball, dim=3)
    with pytest.raises(BoundaryError, match="surfaces"):
        tb.helmholtz(bundle, bundle.to_coordinates(ball))
    with pytest.raises(InvalidInputError, match="NoFlow"):
        tb.helmholtz(bundle, bundle.to_coordinates(ball), boundary="no flow")


@pytest.mark.parametrize(
    ("points", "euler"),
    [
        (tb.manifolds.Sphere(2).sample(3000, seed=0), 2),
        (tb.manifolds.Torus(1.0, 0.4).sample(3000, seed=1), 0),
        (Annulus().sample(2000), 0),
        (Annulus().scattered(2000), 0),
        (tb.manifolds.FlatTorus((1.0, 1.0)).sample(3000, seed=0), 0),
    ],
    ids=["sphere", "torus", "annulus", "scattered", "flat torus in four dimensions"],
)
def test_triangles_between_points_form_a_surface(points, euler):
    bundle = tb.TangentBundle.from_points(points, dim=2)
    faces = triangulate(bundle.cloud, bundle.tangent_frames.matrices.numpy())
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [0, 2]]])
    edges, counts = np.unique(np.sort(ends, axis=1), axis=0, return_counts=True)
    assert counts.max() == 2 and len(np.unique(faces)) == len(points)
    assert len(points) - len(edges) + len(faces) == euler
