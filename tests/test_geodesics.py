"""Transport, distance, logarithm and nearest values along geodesics: exact spaces, invariances,
and the solvers against each other."""

import warnings

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull, Delaunay
from scipy.spatial.transform import Rotation

import tangentbundle as tb
from tangentbundle.errors import AmbiguousTransportWarning, InvalidInputError, ShapeError
from tangentbundle.geodesics.conditioned import ConditionedFields, SweptFunctions
from tangentbundle.geodesics.heat import DirectFieldsOnSurfaces, DirectFunctions


def sphere_truth(points, source, vector):
    """Transport of a vector along great circles, distances, and logarithms in ambient space."""
    base = points[source]
    angles = np.arccos(np.clip(points @ base, -1.0, 1.0))
    outward = points - (points @ base)[:, None] * base
    outward /= np.maximum(np.linalg.norm(outward, axis=1, keepdims=True), 1e-300)
    along = (outward @ vector)[:, None]
    turned = np.cos(angles)[:, None] * outward - np.sin(angles)[:, None] * base
    return vector - along * outward + along * turned, angles, angles[:, None] * outward


def angles_between(a, b):
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)))


def tangent_vector(points, source, seed=0):
    vector = np.random.default_rng(seed).standard_normal(points.shape[1])
    return vector - points[source] * (points[source] @ vector)


def quiet(call, *args):
    """Calls to the cut locus, whose warning is not at issue."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmbiguousTransportWarning)
        return call(*args)


def uv_sphere(rows, columns):
    """Vertices and triangles of a globe."""
    polar = np.pi * np.arange(1, rows) / rows
    around = 2 * np.pi * np.arange(columns) / columns
    theta, phi = np.meshgrid(polar, around, indexing="ij")
    ring = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1)
    vertices = np.concatenate([ring.reshape(-1, 3), [[0, 0, 1], [0, 0, -1]]])
    top, bottom = len(vertices) - 2, len(vertices) - 1
    faces = []
    for j in range(columns):
        k = (j + 1) % columns
        faces.append([top, j, k])
        faces.append([bottom, (rows - 2) * columns + k, (rows - 2) * columns + j])
        for i in range(rows - 2):
            a, b = i * columns + j, i * columns + k
            faces.append([a, a + columns, b + columns])
            faces.append([a, b + columns, b])
    return vertices, np.array(faces)


LIMITS = {(2, 2000): (2.0, 0.02, 0.04), (2, 8000): (1.0, 0.01, 0.02), (3, 2000): (5.0, 0.04, 0.1)}
"""Median error of directions in degrees, of distances and of logarithms, relative."""


@pytest.mark.parametrize(("dim", "n"), LIMITS)
def test_spheres(dim, n):
    points = tb.manifolds.Sphere(dim).sample(n, seed=1)
    bundle = tb.TangentBundle.from_points(points, dim=dim)
    vector = tangent_vector(points, 7)
    transported, distances, logarithms = sphere_truth(points, 7, vector)
    near = (distances < 0.8 * np.pi) & (distances > 0)
    degrees, relative, of_logarithms = LIMITS[dim, n]
    ours = quiet(bundle.transport, 7, vector)
    assert np.median(angles_between(ours[near], transported[near])) < degrees
    lengths = np.linalg.norm(ours, axis=1) / np.linalg.norm(vector)
    assert np.abs(lengths - 1).max() < 1e-3  # up to the part that the frame of the source drops
    errors = np.abs(bundle.distance(7) - distances)[near] / distances[near]
    assert np.median(errors) < relative
    at_source = quiet(bundle.log_map, 7) @ bundle.frames[7].T
    errors = np.linalg.norm(at_source - logarithms, axis=1)[near] / distances[near]
    assert np.median(errors) < of_logarithms


def test_meshes_of_spheres():
    vertices, faces = uv_sphere(40, 60)
    bundle = tb.TangentBundle.from_mesh(vertices, faces)
    source = 20 * 60
    vector = tangent_vector(vertices, source)
    transported, distances, _ = sphere_truth(vertices, source, vector)
    near = (distances < 0.8 * np.pi) & (distances > 0)
    ours = quiet(bundle.transport, source, vector)
    assert np.median(angles_between(ours[near], transported[near])) < 1.0
    errors = np.abs(bundle.distance(source) - distances)[near] / distances[near]
    assert np.median(errors) < 0.02


@pytest.mark.parametrize(("dims", "limit"), [(1, 1e-9), (2, 0.01), (3, 0.01)])
def test_flat_spaces_have_vectors_that_do_not_turn(dims, limit):
    rng = np.random.default_rng(dims)
    points = rng.random((1500, dims))
    frames = np.tile(np.eye(dims), (1500, 1, 1))
    bundle = tb.TangentBundle.from_frames(points, frames)
    vector = rng.standard_normal(dims)
    np.testing.assert_allclose(bundle.transport(3, vector), np.tile(vector, (1500, 1)), atol=1e-9)
    exact = points - points[3]
    lengths = np.linalg.norm(exact, axis=1)
    errors = np.linalg.norm(bundle.log_map(3) - exact, axis=1)
    assert np.median(errors[lengths > 0] / lengths[lengths > 0]) < limit


@pytest.mark.parametrize("seed", range(3))
def test_answers_do_not_depend_on_rotation_unit_origin_and_order(seed):
    rng = np.random.default_rng(seed)
    points = tb.manifolds.Torus(R=1.0, r=0.5).sample(1200, seed=seed)
    vectors = rng.standard_normal((2, 3))
    turn = Rotation.random(random_state=seed).as_matrix()
    order = rng.permutation(len(points))
    scale = 10.0 ** rng.uniform(-3, 3)
    moved = (scale * points @ turn.T + rng.standard_normal(3))[order]
    place = np.argsort(order)
    before = tb.TangentBundle.from_points(points)
    after = tb.TangentBundle.from_points(moved)
    sources = np.array([5, 700])
    there = place[sources]
    distances = before.distance(sources)
    np.testing.assert_allclose(after.distance(there)[place] / scale, distances, atol=1e-5)
    transported = quiet(before.transport, sources, vectors)
    again = quiet(after.transport, there, vectors @ turn.T)[place] @ turn
    unambiguous = np.linalg.norm(again - transported, axis=1) < 1e-3
    assert unambiguous.mean() > 0.99


@pytest.mark.parametrize("dim", [2, 3])
def test_both_solvers_agree_with_a_dense_one_at_every_point(dim):
    points = tb.manifolds.Sphere(dim).sample(700, seed=0)
    solver = tb.TangentBundle.from_points(points, dim=dim).geodesics()
    equation = solver.diffusion.equation
    n = equation.num_points
    matrix = np.zeros((n, dim, n, dim))
    matrix[equation.rows, :, equation.columns] = -equation.jumps[:, None, None] * equation.maps
    matrix[np.arange(n), :, np.arange(n)] = equation.decay[:, None, None] * np.eye(dim)
    matrix = matrix.reshape(n * dim, n * dim)
    amounts = np.zeros((n, 1))
    amounts[[3, 200]] = [[1.0], [2.0]]
    vectors = np.zeros((n, dim, 1))
    vectors[[3, 200], :, 0] = np.random.default_rng(0).standard_normal((2, dim))
    functions = DirectFunctions(equation)
    heat = functions.solve(amounts)
    np.testing.assert_allclose(SweptFunctions(equation).solve(amounts), heat, rtol=1e-3)
    # dense elimination in relative units, in which no number is far from one
    bound = functions.solve(np.linalg.norm(vectors, axis=1)).repeat(dim, axis=0)
    scaled = np.linalg.solve(matrix * bound.T / bound, vectors.reshape(-1, 1) / bound)
    exact = (scaled * bound).reshape(vectors.shape)
    steps = [ConditionedFields(equation, functions)]
    if dim == 2:
        steps.append(DirectFieldsOnSurfaces(equation, equation.orientation))
    for step in steps:
        errors = np.linalg.norm(step.solve(vectors) - exact, axis=1)
        assert (errors <= 1e-5 * np.linalg.norm(exact, axis=1)).all()


def test_heat_is_accurate_where_next_to_none_arrives():
    n = 4000
    x = np.linspace(0.0, 1.0, n)[:, None]
    bundle = tb.TangentBundle.from_frames(x, np.ones((n, 1, 1)))
    solver = bundle.geodesics(time=(1.0 / 200) ** 2)
    heat = solver.diffusion.of_sources(solver._rows(0))
    heat = heat[np.argsort(solver._numbers)]
    assert heat.min() < 1e-80
    rates = -np.diff(np.log(heat))[100:-100] * (n - 1)
    assert np.abs(rates / 200 - 1).max() < 0.02
    np.testing.assert_allclose(bundle.distance(0), x[:, 0], atol=2e-3)


def test_several_sources():
    points = tb.manifolds.Sphere(2).sample(3000, seed=2)
    bundle = tb.TangentBundle.from_points(points)
    sources = [10, 1500, 2500]
    exact = np.arccos(np.clip(points @ points[sources].T, -1, 1))
    nearest = exact.argmin(axis=1)
    gap = np.partition(exact, 1, axis=1)[:, 1] - exact.min(axis=1)
    errors = np.abs(bundle.distance(sources) - exact.min(axis=1))
    assert np.median(errors) < 0.04 and errors.max() < 0.3  # largest between the sources
    values = np.array([1.0, -2.0, 5.0])
    extended = bundle.extend(sources, values)
    assert extended.min() >= -2.0 - 1e-9 and extended.max() <= 5.0 + 1e-9
    clear = gap > 0.6
    closest = np.abs(extended[:, None] - values).argmin(axis=1)
    assert (closest == nearest)[clear].all()
    lengths = np.array([1.0, 2.0, 3.0])
    vectors = np.stack([tangent_vector(points, s) for s in sources])
    vectors *= (lengths / np.linalg.norm(vectors, axis=1))[:, None]
    transported = quiet(bundle.transport, sources, vectors)
    sizes = np.linalg.norm(transported, axis=1)
    closest = np.abs(sizes[:, None] - lengths).argmin(axis=1)
    assert (closest == nearest)[clear].all()


def test_maps_are_orthogonal_and_the_identity_at_the_source():
    points = tb.manifolds.Sphere(3).sample(600, seed=0)
    solver = tb.TangentBundle.from_points(points, dim=3).geodesics()
    maps = quiet(solver.transport_maps, 4)
    np.testing.assert_allclose(
        maps @ maps.swapaxes(1, 2), np.tile(np.eye(3), (600, 1, 1)), atol=1e-9
    )
    np.testing.assert_array_equal(maps[4], np.eye(3))


def test_what_is_not_connected():
    left = tb.manifolds.Sphere(2).sample(500, seed=0)
    points = np.concatenate([left, left + np.array([10.0, 0, 0])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bundle = tb.TangentBundle.from_points(points, neighbors=20)
    distances = bundle.distance(0)
    assert np.isfinite(distances[:500]).all() and np.isinf(distances[500:]).all()
    transported = quiet(bundle.transport, 0, [0.0, 1.0, 0.0])
    assert np.isfinite(transported).all() and (transported[500:] == 0).all()
    extended = bundle.extend([0, 1], [[1.0, 2.0], [3.0, 4.0]])
    assert extended.shape == (1000, 2) and np.isfinite(extended).all()


def test_non_orientable_surfaces():
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 120, endpoint=False), np.linspace(-0.3, 0.3, 9))
    u, v = u.ravel(), v.ravel()
    ring = 1 + v * np.cos(u / 2)
    points = np.stack([ring * np.cos(u), ring * np.sin(u), v * np.sin(u / 2)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bundle = tb.TangentBundle.from_points(points, dim=2)
        across = bundle.transport(4 * 120, [0.0, 0.0, 1.0])
    assert np.isfinite(across).all()


@pytest.mark.parametrize("dims", [2, 3])
def test_no_way_is_shorter_than_the_straight_line(dims):
    axes = [np.linspace(0.0, 1.0, 12)] * dims
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, dims)
    bundle = tb.TangentBundle.from_frames(points, np.tile(np.eye(dims), (len(points), 1, 1)))
    for sources in ([0], [0, len(points) // 2]):
        straight = np.linalg.norm(points[:, None] - points[sources], axis=2).min(axis=1)
        assert (bundle.distance(sources) >= straight - 1e-12).all()


def test_the_cut_locus_is_warned_of():
    points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    bundle = tb.TangentBundle.from_points(points)
    with pytest.warns(AmbiguousTransportWarning):
        bundle.transport(0, tangent_vector(points, 0, seed=1))


@pytest.mark.parametrize("dim", [2, 3])
def test_nothing_is_warned_of_where_one_way_is_shortest(dim):
    points = tb.manifolds.Sphere(dim).sample(6000, seed=0)
    points = points[points[:, -1] > 0.2]
    bundle = tb.TangentBundle.from_points(points, dim=dim)
    source = int(points[:, -1].argmax())
    with warnings.catch_warnings():
        warnings.simplefilter("error", AmbiguousTransportWarning)
        bundle.transport(source, tangent_vector(points, source, seed=1))
        bundle.log_map(source)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kinds_of_arrays(dtype):
    points = torch.as_tensor(tb.manifolds.Sphere(2).sample(600, seed=0), dtype=dtype)
    bundle = tb.TangentBundle.from_points(points)
    vectors = torch.ones(3, dtype=dtype)
    assert quiet(bundle.transport, 0, vectors).dtype == dtype
    assert quiet(bundle.transport, [0, 5], torch.ones(2, 3, 4, dtype=dtype)).shape == (600, 3, 4)
    assert bundle.distance(torch.tensor([0, 3])).dtype == dtype
    assert quiet(bundle.log_map, 0).shape == (600, 2)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (InvalidInputError, lambda b: b.distance(600)),
        (InvalidInputError, lambda b: b.distance(-1)),
        (InvalidInputError, lambda b: b.distance([0, 0])),
        (InvalidInputError, lambda b: b.distance([0.5])),
        (InvalidInputError, lambda b: b.distance([])),
        (InvalidInputError, lambda b: b.log_map([0, 1])),
        (ShapeError, lambda b: b.transport(0, [1.0, 0.0])),
        (ShapeError, lambda b: b.transport([0, 1], [[1.0, 0.0, 0.0]])),
        (InvalidInputError, lambda b: b.transport(0, [np.nan, 0.0, 0.0])),
        (ShapeError, lambda b: b.extend([0, 1], [1.0])),
        (InvalidInputError, lambda b: b.extend([0, 1], [1.0, np.inf])),
        (InvalidInputError, lambda b: b.geodesics(time=0.0)),
        (InvalidInputError, lambda b: b.scalar().distance(0)),
    ],
)
def test_bad_input(error, call):
    bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(600, seed=0))
    with pytest.raises(error):
        call(bundle)


def test_sources_have_their_vectors_and_no_distance():
    points = tb.manifolds.Sphere(3).sample(500, seed=0)
    frames = tb.manifolds.Sphere(3).frames(points)
    bundle = tb.TangentBundle.from_frames(points, frames)
    sources = [3, 100, 499]
    vectors = np.stack([tangent_vector(points, source) for source in sources])
    for chosen in ([0], [0, 1, 2]):
        rows = [sources[k] for k in chosen]
        transported = quiet(bundle.transport, rows, vectors[chosen])
        np.testing.assert_allclose(transported[rows], vectors[chosen], atol=1e-12)
        distances = bundle.distance(rows)
        assert (distances[rows] == 0).all() and (np.delete(distances, rows) > 0).all()
    assert (quiet(bundle.log_map, 3)[3] == 0).all()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_answers_do_not_depend_on_frames(dim):
    sphere = tb.manifolds.Sphere(dim)
    points = sphere.sample(600, seed=dim)
    frames = sphere.frames(points)
    rng = np.random.default_rng(dim)
    turns = np.linalg.qr(rng.standard_normal((600, dim, dim)))[0]  # reflections, too
    before = tb.TangentBundle.from_frames(points, frames)
    after = tb.TangentBundle.from_frames(points, frames @ turns)
    np.testing.assert_allclose(after.distance(5), before.distance(5), atol=1e-6)
    logarithms = quiet(before.log_map, 5) @ before.frames[5].T
    again = quiet(after.log_map, 5) @ after.frames[5].T
    near = points @ points[5] > -0.8
    np.testing.assert_allclose(again[near], logarithms[near], atol=1e-5)
    vector = tangent_vector(points, 5, seed=9)
    transported = quiet(before.transport, 5, vector)
    again = quiet(after.transport, 5, vector)
    np.testing.assert_allclose(again[near], transported[near], atol=1e-5)


@pytest.mark.parametrize("dim", [2, 3])
def test_transport_from_one_source_is_linear_and_keeps_angles(dim):
    points = tb.manifolds.Sphere(dim).sample(600, seed=0)
    frames = tb.manifolds.Sphere(dim).frames(points)
    bundle = tb.TangentBundle.from_frames(points, frames)
    vectors = np.stack([tangent_vector(points, 7, seed) for seed in (4, 5)], axis=1)
    both = quiet(bundle.transport, 7, vectors[None])
    single = quiet(bundle.transport, 7, vectors[:, 0])
    mixed = quiet(bundle.transport, 7, 2.0 * vectors[:, 0] - vectors[:, 1])
    np.testing.assert_allclose(both[:, :, 0], single, atol=1e-5)
    np.testing.assert_allclose(2.0 * both[:, :, 0] - both[:, :, 1], mixed, atol=1e-5)
    products = np.einsum("nia,nib->nab", both, both)
    np.testing.assert_allclose(products, np.tile(vectors.T @ vectors, (600, 1, 1)), atol=1e-9)


def test_frames_keep_directions_where_means_of_vectors_turn():
    points = tb.manifolds.Sphere(3).sample(4000, seed=0)
    bundle = tb.TangentBundle.from_points(points, dim=3)
    sources = [17, 900, 2500]
    vectors = np.stack([tangent_vector(points, source, seed=2) for source in sources])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    truths = [sphere_truth(points, source, v) for source, v in zip(sources, vectors, strict=True)]
    one = quiet(bundle.transport, 17, vectors[0])
    within = (truths[0][1] < 0.8 * np.pi) & (truths[0][1] > 0)
    assert np.quantile(angles_between(one[within], truths[0][0][within]), 0.95) < 5.0
    several = quiet(bundle.transport, sources, vectors)
    np.testing.assert_allclose(np.linalg.norm(several, axis=1), 1.0, atol=1e-3)
    distances = np.stack([truth[1] for truth in truths])
    nearest = distances.argmin(axis=0)
    by_distance = np.sort(distances, axis=0)
    clear = by_distance[1] - by_distance[0] > 0.5
    exact = np.stack([truth[0] for truth in truths])[nearest, np.arange(len(points))]
    assert np.median(angles_between(several[clear], exact[clear])) < 2.0


def test_distances_obey_the_triangle_inequality():
    points = tb.manifolds.Torus(R=1.0, r=0.4).sample(1500, seed=0)
    solver = tb.TangentBundle.from_points(points).geodesics()
    sources = [1, 700]
    distances = solver.distance(sources)
    stencils = solver.diffusion.stencils
    heat = solver.diffusion.of_sources(solver._rows(sources))
    along_curve = distances[solver.bundle.cloud.curve_order.numpy()]
    rows, columns = stencils.rows.numpy(), stencils.columns.numpy()
    comes_from = heat[columns] > heat[rows]
    growth = along_curve[rows] - along_curve[columns]
    assert (growth <= stencils.lengths.numpy() + 1e-12)[comes_from].all()
    np.testing.assert_allclose(solver.distance(sources[::-1]), distances, atol=1e-12)


def test_single_and_double_precision_agree():
    points = tb.manifolds.Torus(R=1.0, r=0.5).sample(1000, seed=0).astype(np.float32)
    single = tb.TangentBundle.from_points(points)
    double = tb.TangentBundle.from_points(points.astype(float))
    np.testing.assert_allclose(single.distance(3), double.distance(3), atol=1e-4)
    assert single.distance(3).dtype == np.float32


def test_logarithms_on_a_hemisphere_reach_its_boundary():
    points = tb.manifolds.Sphere(2).sample(6000, seed=0)
    points = points[points[:, 2] > 0]
    bundle = tb.TangentBundle.from_points(points)
    source = int(points[:, 2].argmax())
    _, distances, logarithms = sphere_truth(points, source, tangent_vector(points, source))
    ours = quiet(bundle.log_map, source) @ bundle.frames[source].T
    far = distances > 0
    errors = np.linalg.norm(ours - logarithms, axis=1)[far] / distances[far]
    assert np.median(errors) < 0.02 and np.quantile(errors, 0.95) < 0.06


def test_a_band_with_one_side():
    """On a Moebius band vectors keep their length, and no orientation is needed."""
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 160, endpoint=False), np.linspace(-0.3, 0.3, 11))
    ring = 1 + v.ravel() * np.cos(u.ravel() / 2)
    around, height = u.ravel(), v.ravel() * np.sin(u.ravel() / 2)
    points = np.stack([ring * np.cos(around), ring * np.sin(around), height], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bundle = tb.TangentBundle.from_points(points, dim=2)
        solver = bundle.geodesics()
        assert solver.diffusion.equation.orientation is None
        source = 5 * 160
        across = bundle.frames[source] @ [0.6, 0.8]
        transported = solver.transport(source, across)
    np.testing.assert_allclose(np.linalg.norm(transported, axis=1), 1.0, atol=1e-9)


# Irregular meshes.


def uneven_sphere(seed, slant):
    """A sphere whose vertices are crowded around a great circle, and its triangles."""
    points = np.random.default_rng(seed).standard_normal((2000, 3)) * [1.0, slant, slant**2]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    faces = ConvexHull(points).simplices
    is_inward = np.linalg.det(points[faces]) < 0
    faces[is_inward] = faces[is_inward, ::-1]
    return points, faces


def folded_sheet(gap, stretch):
    """Places ``(n, 2)`` in a rectangle with the sides 6 and 1, vertices (n, 3) of the same sheet
    folded to two layers at a distance of the gap, and its triangles.

    Places are crowded at one side, and there is one edge along each of the short sides. Triangles
    are Delaunay triangles after a stretch: with others than 1 they are slivers.
    """
    rng = np.random.default_rng(0)
    inside = rng.random((1200, 2)) ** [1.0, 1.5] * [6.0, 1.0]
    along = np.linspace(0.0, 6.0, 100)
    across = np.linspace(0.0, 1.0, 20)
    lines = [np.stack([along, np.full(100, y)], axis=1) for y in (0.0, 1.0)]
    folds = (3.0, 3.0 + gap)
    lines += [np.stack([np.full(20, x), across], axis=1) for x in folds]
    places = np.concatenate([inside, *lines])
    faces = []
    for low, high in ((0.0, folds[0]), folds, (folds[1], 6.0)):
        numbers = np.flatnonzero((places[:, 0] >= low) & (places[:, 0] <= high))
        triangles = Delaunay(places[numbers] * [stretch, 1.0]).simplices
        faces.append(numbers[triangles])
    from_fold = places[:, 0] - folds[0]
    there_and_back = np.minimum(from_fold, 0.0) - np.maximum(from_fold - gap, 0.0)
    heights = np.clip(from_fold, 0.0, gap)
    vertices = np.stack([there_and_back, places[:, 1], heights], axis=1)
    return places, vertices, np.concatenate(faces)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("slant", [1.0, 0.4])
def test_distances_on_uneven_meshes_of_spheres(seed, slant):
    vertices, faces = uneven_sphere(seed, slant)
    distances = tb.TangentBundle.from_mesh(vertices, faces).distance(7)
    exact = np.arccos(np.clip(vertices @ vertices[7], -1.0, 1.0))
    errors = np.abs(distances - exact)[exact > 0] / exact[exact > 0]
    assert np.median(errors) < 0.01 and np.quantile(errors, 0.95) < 0.05


@pytest.mark.parametrize("stretch", [1.0, 0.2])
@pytest.mark.parametrize("gap", [0.02, 0.05, 0.5])
def test_distances_do_not_depend_on_what_is_near_in_space(gap, stretch):
    """The layers of a folded sheet are nearer to each other than neighbours are, but distances are
    those in the plane."""
    places, vertices, faces = folded_sheet(gap, stretch)
    bundle = tb.TangentBundle.from_mesh(vertices, faces)
    for source in (5, 700):
        distances = bundle.distance(source)
        exact = np.linalg.norm(places - places[source], axis=1)
        errors = np.abs(distances - exact)[exact > 0] / exact[exact > 0]
        assert np.median(errors) < 0.01 and np.quantile(errors, 0.95) < 0.05
