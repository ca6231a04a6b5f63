"""Fields of directions: the index theorem, energies, symmetries, alignment, curves along them."""

import numpy as np
import pytest
import torch
from test_known_frames import icosphere

import tangentbundle as tb
from benchmarks.meshes import genus_two, torus
from tangentbundle.directions import Curvature, DirectionField, Fixed
from tangentbundle.errors import InvalidInputError, ShapeError
from tangentbundle.testing import random_orthogonal

ORDERS = (1, 2, 3, 4, 6)
SPHERE = tb.manifolds.Sphere(2)
TORUS = tb.manifolds.Torus(1.0, 0.4)


def mesh_of(surface):
    vertices, faces = surface
    return tb.TangentBundle.from_mesh(vertices, faces)


@pytest.fixture(scope="module")
def plate():
    """A closed surface with two handles."""
    return mesh_of(genus_two(0.1))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("surface", "euler"),
    [(icosphere(3), 2), (torus(30, 16, 0.5), 0), (genus_two(0.1), -2)],
    ids=["sphere", "torus", "genus two"],
)
def test_indices_on_meshes_sum_to_the_euler_characteristic(surface, euler, order):
    bundle = mesh_of(surface)
    for field in (tb.smoothest_field(bundle, order=order), rough_field(bundle, order)):
        points = field.singularities()
        assert points.index.sum() == pytest.approx(euler) and points.agrees
        assert points.positions.shape == (len(points.index), 3)
        assert np.allclose(points.index * order, np.rint(points.index * order))


def rough_field(bundle, order):
    powers = np.random.default_rng(order).normal(size=(bundle.num_points, 2, 1))
    return DirectionField(bundle, order, powers)


@pytest.mark.parametrize("order", [1, 2, 4, 6])
@pytest.mark.parametrize(("space", "euler"), [(SPHERE, 2), (TORUS, 0)], ids=["sphere", "torus"])
def test_indices_on_clouds_sum_to_the_euler_characteristic(space, euler, order):
    bundle = tb.TangentBundle.from_points(space.sample(4000, seed=0), dim=2)
    points = tb.smoothest_field(bundle, order=order).singularities(euler=euler)
    assert points.agrees and points.index.sum() == pytest.approx(euler)
    assert np.abs(space.nearest(points.positions) - points.positions).max(initial=0.0) < 0.02


@pytest.mark.parametrize("order", [1, 2, 3])
def test_known_singular_points_have_their_index(order):
    """The powers (x + i y)^k in the plane turn k times, so directions turn k/n times."""
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, 3000))
    points = np.stack([x, y], axis=1)
    bundle = tb.TangentBundle.from_frames(points, np.tile(np.eye(2), (3000, 1, 1)))
    for sign in (1, -1):
        powers = np.stack([x - 0.2, sign * (y + 0.1)], axis=1)[:, :, None]
        found = DirectionField(bundle, order, powers).singularities()
        assert found.index.tolist() == [sign / order]
        assert np.allclose(found.positions, [[0.2, -0.1]], atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_energies_on_the_sphere_are_the_orders(order):
    """Of the sections of powers the first have the eigenvalue l (l + 1) - n^2 with l = n."""
    assert tb.smoothest_field(mesh_of(icosphere(4)), order=order).energy == pytest.approx(
        order, rel=0.02
    )
    bundle = tb.TangentBundle.from_points(SPHERE.sample(6000, seed=0), dim=2)
    assert tb.smoothest_field(bundle, order=order).energy == pytest.approx(order, rel=0.05)


def test_no_other_field_has_less_energy(plate):
    best = tb.smoothest_field(plate, order=4).energy
    rng = np.random.default_rng(0)
    smooth = tb.Heat(0.02)(plate.power(4).laplacian(), rng.normal(size=(plate.num_points, 2, 1)))
    assert best < DirectionField(plate, 4, smooth).energy
    assert best <= tb.smoothest_field(plate, order=4, alignment=Curvature()).energy
    spectrum = plate.power(4).laplacian().spectrum(2)[0]
    assert best == pytest.approx(float(spectrum[0]), rel=1e-8)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_frames_do_not_matter(plate, order):
    """Turned and mirrored frames: the same directions, but for one common angle."""
    n = plate.num_points
    turned = plate.rebuilt(plate.points, plate.frames @ random_orthogonal(n, 2, seed=1))
    here = tb.smoothest_field(plate, order=order)
    there = tb.smoothest_field(turned, order=order)
    assert here.energy == pytest.approx(there.energy, rel=1e-9)
    lengths = [np.linalg.norm(field.powers[:, :, 0], axis=1) for field in (here, there)]
    assert np.allclose(lengths[0], lengths[1], atol=1e-5 * lengths[0].max())
    first, second = here.singularities(), there.singularities()
    nearest = np.linalg.norm(first.positions[:, None] - second.positions, axis=2)
    assert nearest.min(axis=1).max() < 1e-3 and len(first.index) == len(second.index)
    assert np.allclose(first.index, second.index[nearest.argmin(axis=1)])


def test_given_frames_and_aligned_directions(plate):
    """Alignment fixes the common angle, too: the same vectors in space."""
    n = plate.num_points
    turned = plate.rebuilt(plate.points, plate.frames @ random_orthogonal(n, 2, seed=1))
    here, there = (
        tb.smoothest_field(bundle, order=4, alignment=Curvature()).vectors()
        for bundle in (plate, turned)
    )
    assert same_crosses(here, there) > 0.999


def same_crosses(here, there):
    """The least cosine of the angle between directions of two fields, four times the angle."""
    cosines = np.einsum("nd,knd->kn", here[0], there)
    return np.quantile(cosines.max(axis=0), 0.01)


def test_size_and_place_do_not_matter(plate):
    turn = random_orthogonal(1, 3, seed=0)[0]
    moved = tb.TangentBundle.from_mesh(3.0 * plate.points @ turn.T + 5.0, plate.weights.mesh.faces)
    for alignment in (None, Curvature()):
        here = tb.smoothest_field(plate, order=2, alignment=alignment)
        there = tb.smoothest_field(moved, order=2, alignment=alignment)
        assert there.energy == pytest.approx(here.energy / 9.0, rel=1e-3)
    aligned = np.abs(np.einsum("nd,nd->n", here.vectors()[0] @ turn.T, there.vectors()[0]))
    assert np.quantile(aligned, 0.02) > 0.99


def test_representatives_are_tangent_units_at_equal_angles(plate):
    for order in ORDERS:
        vectors = tb.smoothest_field(plate, order=order).vectors()
        assert vectors.shape == (order, plate.num_points, 3)
        assert np.allclose(np.linalg.norm(vectors, axis=2), 1.0)
        assert np.allclose(plate.to_ambient(plate.to_coordinates(vectors)), vectors)
        if order > 1:
            following = np.einsum("knd,knd->kn", vectors, np.roll(vectors, 1, axis=0))
            assert np.allclose(following, np.cos(2 * np.pi / order))


def test_fields_from_vectors_have_these_among_their_representatives(plate):
    vectors = np.random.default_rng(0).normal(size=(plate.num_points, 2, 1))
    units = plate.to_ambient(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    for order in (1, 2, 5):
        field = DirectionField.from_vectors(plate, vectors, order=order)
        cosines = np.einsum("knd,nd->kn", field.vectors(), units)
        assert np.allclose(cosines.max(axis=0), 1.0)
    with pytest.raises(ShapeError, match="vectors must have shape"):
        DirectionField.from_vectors(plate, vectors[:5], order=2)


@pytest.mark.parametrize("kind", ["mesh", "cloud"])
def test_lines_and_crosses_follow_the_curvature_of_a_torus(kind):
    if kind == "mesh":
        bundle = mesh_of(torus(60, 30))
    else:
        bundle = tb.TangentBundle.from_points(TORUS.sample(4000, seed=0), dim=2)
    points = np.asarray(bundle.points)
    east = np.cross([0, 0, 1.0], points)
    east /= np.linalg.norm(east, axis=1, keepdims=True)
    lines = tb.smoothest_field(bundle, order=2, alignment=Curvature()).vectors()
    assert np.median(np.abs((lines[0] * east).sum(axis=1))) < 0.05  # around the tube
    crosses = tb.smoothest_field(bundle, order=4, alignment=Curvature()).vectors()
    assert np.median(np.einsum("knd,nd->kn", crosses, east).max(axis=0)) > 0.99


def test_curvature_has_no_directions_on_spheres_nor_for_odd_orders():
    latlon = tb.TangentBundle.from_latlon(
        np.degrees(np.arcsin(np.linspace(-0.99, 0.99, 400))), 222.5 * np.arange(400) % 360
    )
    with pytest.raises(InvalidInputError, match="same in all directions"):
        tb.smoothest_field(latlon, order=4, alignment=Curvature())
    with pytest.raises(InvalidInputError, match="even order"):
        tb.smoothest_field(latlon, order=3, alignment=Curvature())


@pytest.mark.parametrize("order", [1, 2, 4])
def test_fixed_directions_are_kept_and_the_others_are_smooth(plate, order):
    rows = np.array([3, 70, 200])
    vectors = 2.0 * np.asarray(plate.frames)[rows][:, :, 1]
    field = tb.smoothest_field(plate, order=order, alignment=Fixed(rows, vectors))
    cosines = np.einsum("knd,nd->kn", field.vectors()[:, rows], vectors / 2.0)
    assert np.allclose(cosines.max(axis=0), 1.0)
    residual = (plate.power(order).laplacian() @ field.powers)[:, :, 0]
    others = np.delete(np.arange(plate.num_points), rows)
    assert np.abs(residual[others]).max() < 1e-6 * np.abs(residual[rows]).max()
    assert field.singularities().agrees


def test_fixed_directions_are_checked(plate):
    along = np.ones((1, 3))
    for rows, vectors, error in [
        ([0.5], along, "numbers"),
        ([plate.num_points], along, "numbers of the"),
        ([2, 2], np.ones((2, 3)), "given twice"),
        ([2], np.ones((2, 3)), "must have shape"),
        ([2], 0.0 * along, "tangent part"),
    ]:
        with pytest.raises((InvalidInputError, ShapeError), match=error):
            tb.smoothest_field(plate, alignment=Fixed(rows, vectors))
    with pytest.raises(InvalidInputError, match="alignment must be"):
        tb.smoothest_field(plate, alignment="curvature")


def test_components_have_a_field_each():
    """Two spheres of different sizes: each has its smoothest field, with all singular points."""
    vertices, faces = icosphere(2)
    both = np.concatenate([vertices, 0.5 * vertices + 3.0])
    bundle = tb.TangentBundle.from_mesh(both, np.concatenate([faces, faces + len(vertices)]))
    field = tb.smoothest_field(bundle, order=4)
    points = field.singularities()
    is_first = points.positions[:, 0] < 1.5
    assert points.index[is_first].sum() == pytest.approx(2)
    assert points.index[~is_first].sum() == pytest.approx(2)
    alone = tb.smoothest_field(mesh_of((vertices, faces)), order=4)
    part = field.powers[: len(vertices)]
    assert DirectionField(alone.bundle, 4, part).energy == pytest.approx(alone.energy, rel=1e-6)
    one_fixed = Fixed([0], np.asarray(bundle.frames)[:1, :, 0])
    with pytest.raises(InvalidInputError, match="1 of 2 connected components"):
        tb.smoothest_field(bundle, alignment=one_fixed)


def test_surfaces_need_not_be_orientable():
    """On a Klein bottle, two samples have the same energy, and the indices sum to zero."""
    bottle = tb.manifolds.KleinBottle()
    fields = []
    for seed in (0, 1):
        points = bottle.sample(4000, seed=seed)
        bundle = tb.TangentBundle.from_frames(points, bottle.frames(points))
        fields.append(tb.smoothest_field(bundle, order=2))
    assert fields[0].energy == pytest.approx(fields[1].energy, rel=0.05)
    assert fields[0].singularities(euler=0).agrees


@pytest.mark.parametrize("order", [1, 2, 4])
def test_streamlines_run_along_one_of_the_directions(order):
    points = TORUS.sample(4000, seed=0)
    bundle = tb.TangentBundle.from_frames(points, TORUS.frames(points))
    around = bundle.to_coordinates(np.cross([0, 0, 1.0], points))
    field = DirectionField.from_vectors(bundle, around, order=order)
    starts = points[:20]
    cosines = np.einsum("kmd,md->km", field.vectors()[:, :20], np.cross([0, 0, 1.0], starts))
    branch = int(cosines[:, 0].argmax())
    lines = field.streamlines(starts[:1], branch=branch, steps=40, step=0.05)
    assert lines.shape == (1, 81, 3)
    radius = np.hypot(lines[0, :, 0], lines[0, :, 1])
    assert np.ptp(radius) < 0.02 and np.ptp(lines[0, :, 2]) < 0.02  # a circle around the axis
    turns = np.unwrap(np.arctan2(lines[0, :, 1], lines[0, :, 0]))
    assert (np.diff(turns) > 0).all() and np.ptp(turns) == pytest.approx(4.0 / radius[0], rel=0.01)
    all_lines = field.streamlines(starts, steps=40)
    assert np.abs(TORUS.nearest(all_lines.reshape(-1, 3)) - all_lines.reshape(-1, 3)).max() < 0.01
    with pytest.raises(InvalidInputError, match="branch"):
        field.streamlines(starts, branch=order)


def test_tensors_come_back_as_tensors():
    points = torch.from_numpy(SPHERE.sample(500, seed=0))
    field = tb.smoothest_field(tb.TangentBundle.from_points(points, dim=2), order=2)
    assert isinstance(field.powers, torch.Tensor) and isinstance(field.vectors(), torch.Tensor)
    single = tb.TangentBundle.from_points(points.float(), dim=2)
    assert tb.smoothest_field(single, order=2).vectors().dtype == torch.float32


def test_powers_are_for_surfaces():
    solid = tb.TangentBundle.from_points(tb.manifolds.Sphere(3).sample(300, seed=0), dim=3)
    flat = tb.TangentBundle.from_points(SPHERE.sample(300, seed=0), dim=2)
    for bundle in (solid, flat.scalar()):
        with pytest.raises(InvalidInputError, match="surface"):
            bundle.power(2)
    with pytest.raises(InvalidInputError, match="order"):
        flat.power(0)
