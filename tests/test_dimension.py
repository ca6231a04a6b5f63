"""The dimension, from clouds of known dimension."""

import warnings

import numpy as np
import pytest
from clouds import cloud_of
from paper_algorithms import local_dimension

from tangentbundle import TangentBundle, VarianceShare, WidestGap
from tangentbundle.errors import DimensionWarning, InvalidInputError
from tangentbundle.geometry.dimension import resolve_dimension
from tangentbundle.manifolds import (
    Ellipsoid,
    FlatTorus,
    KleinBottle,
    Product,
    Sphere,
    SwissRoll,
    Torus,
)

SPACES = [
    Sphere(1),
    Ellipsoid((1.0, 0.3)),
    Sphere(2),
    Torus(),
    FlatTorus(),
    KleinBottle(),
    SwissRoll(),
    Ellipsoid(),
    Sphere(3),
    FlatTorus((1.0, 1.0, 1.0)),
    Product(Sphere(2), Sphere(1)),
    Sphere(4),
    Product(Sphere(2), Sphere(2)),
    Sphere(5),
]


def turned(points, ambient, noise=0.0, seed=0):
    """The cloud turned into R^ambient, with noise there relative to its half width."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((ambient, points.shape[1])))[0]
    noise *= np.ptp(points, axis=0).max() / 2
    return points @ basis.T + noise * rng.standard_normal((len(points), ambient))


def found(points, rule=None, eps_pca=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DimensionWarning)
        return resolve_dimension(cloud_of(points), rule or WidestGap(), eps_pca)[0]


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_clean_clouds(space):
    assert found(space.sample(2000, seed=0)) == space.dim


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_noise_in_fifty_dimensions(space):
    assert found(turned(space.sample(2000, seed=0), 50, noise=0.005)) == space.dim


@pytest.mark.parametrize("n, spaces", [(60, [Sphere(1), Sphere(2), Sphere(3)]), (200, SPACES[:11])])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_few_points(n, spaces, seed):
    assert {repr(s): found(s.sample(n, seed=seed)) for s in spaces} == {
        repr(s): s.dim for s in spaces
    }


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("dims", [1, 2, 3, 4, 5, 6, 8])
def test_full_dimensional_clouds(dims, n):
    rng = np.random.default_rng(dims)
    assert found(rng.uniform(size=(n, dims))) == dims
    assert found(rng.standard_normal((n, dims))) == dims


@pytest.mark.parametrize("dims", [1, 2, 3, 4, 5])
def test_flat_clouds_in_ten_dimensions(dims):
    assert found(turned(np.random.default_rng(0).uniform(size=(1000, dims)), 10)) == dims


@pytest.mark.parametrize("space", [Sphere(2), Torus(), Sphere(3)], ids=repr)
def test_is_a_property_of_the_shape(space):
    """Not of scale, place or embedding."""
    points = space.sample(1000, seed=0)
    for other in (1e-9 * points, 1e9 * points, points + 1e4, turned(points, 300)):
        assert found(other) == space.dim


def test_local_estimates_and_their_agreement():
    dim, local = resolve_dimension(cloud_of(Sphere(2).sample(1000, seed=0)), WidestGap())
    assert local.shape == (1000,) and dim == np.median(local) == 2
    assert (local == 2).mean() > 0.9


def test_a_union_of_a_curve_and_a_surface_warns():
    circle = np.pad(Sphere(1).sample(500, seed=0), ((0, 0), (0, 1)))
    surface = Sphere(2).sample(500, seed=0) + 5.0
    with pytest.warns(DimensionWarning, match="points by dimension"):
        resolve_dimension(cloud_of(np.concatenate([circle, surface])), WidestGap())


def test_a_clean_sphere_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve_dimension(cloud_of(Sphere(2).sample(500, seed=0)), WidestGap())


# The paper's rule.


def test_variance_share_by_hand():
    # Shares 0.4, 0.7, 0.9, 1.
    singular = np.array([[4.0, 3.0, 2.0, 1.0]])
    for gamma, expected in [
        (0.3, 1),
        (0.4, 1),
        (0.41, 2),
        (0.7, 2),
        (0.8, 3),
        (0.9, 3),
        (0.95, 4),
        (1.0, 4),
    ]:
        assert VarianceShare(gamma).count(singular).tolist() == [expected]


@pytest.mark.parametrize(
    "points, eps_pca",
    [
        *((Torus(0.3, 0.1).sample(200, seed=0), eps) for eps in (0.02, 0.1, 0.8)),
        (Sphere(2).sample(150, seed=0), 0.2),
        (Sphere(3).sample(200, seed=1), 0.8),
        (SwissRoll().sample(200, seed=2), 40.0),
        (turned(Sphere(2).sample(150, seed=0), 50), 0.2),
        (turned(Sphere(2).sample(150, seed=0), 50, noise=0.01), 0.3),
        (np.random.default_rng(0).standard_normal((80, 5)), 20.0),
    ],
)
def test_variance_share_is_that_of_the_paper(points, eps_pca):
    for gamma in (0.5, 0.8, 0.9, 0.99, 1.0):
        expected = np.array(
            [local_dimension(points, i, eps_pca, gamma) for i in range(len(points))]
        )
        assert np.array_equal(VarianceShare(gamma).local(cloud_of(points), eps_pca), expected)
        assert found(points, VarianceShare(gamma), eps_pca) == int(np.median(expected))
        assert found(points, VarianceShare(gamma, mean=True), eps_pca) == int(
            np.floor(expected.mean() + 0.5)
        )


@pytest.mark.filterwarnings(
    "ignore::tangentbundle.errors.DimensionWarning"
)  # at 0.03 many points say 2
@pytest.mark.parametrize("eps_pca", [0.03, 0.1])
def test_variance_share_on_the_torus_of_the_experiments(eps_pca):
    """Curvature fills the third direction at these scales: the rule of the paper answers 3."""
    bundle = TangentBundle.from_points(
        Torus(0.3, 0.1).sample(400, seed=0), dim=VarianceShare(0.8), eps_pca=eps_pca, eps=0.1
    )
    assert bundle.dim == 3 and len(bundle.estimate.local_dimensions) == 400
    assert bundle.estimate.eps_pca == eps_pca


def test_variance_share_needs_its_scale():
    with pytest.raises(InvalidInputError, match="give eps_pca"):
        TangentBundle.from_points(Sphere(2).sample(100, seed=0), dim=VarianceShare(0.8))


@pytest.mark.parametrize("space", [Sphere(1), Sphere(2), SwissRoll(), Sphere(3)], ids=repr)
def test_variance_share_on_dense_samples(space):
    points = space.sample(4000, seed=0)
    eps_pca = float(np.median(cloud_of(points).nearest(24)[0][:, -1])) ** 2
    assert found(points, VarianceShare(0.9), eps_pca) == space.dim


def test_variance_share_takes_noise_for_dimensions():
    """Why it is not the default: a little noise in many directions outweighs the surface."""
    noisy = turned(Sphere(2).sample(2000, seed=0), 50, noise=0.01)
    assert found(noisy, VarianceShare(0.9), eps_pca=0.1) > 2
    assert found(noisy) == 2


@pytest.mark.parametrize("gamma", [0.0, -0.1, 1.1, np.nan, np.inf])
def test_bad_gamma(gamma):
    with pytest.raises(InvalidInputError, match="gamma"):
        VarianceShare(gamma)


# Given dimensions.


def test_a_given_dimension_is_taken():
    points = Sphere(2).sample(200, seed=0)
    assert resolve_dimension(cloud_of(points), 1) == (1, None)
    assert resolve_dimension(cloud_of(points), np.int64(3)) == (3, None)
    assert TangentBundle.from_points(points, dim=2).estimate.local_dimensions is None


@pytest.mark.parametrize("dim", [0, -1, 4, 2.0, "2", True, np.nan, [2], WidestGap])
def test_bad_dimension(dim):
    with pytest.raises(InvalidInputError, match="integer from 1 to the ambient dimension 3"):
        resolve_dimension(cloud_of(Sphere(2).sample(50, seed=0)), dim)


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")
@pytest.mark.parametrize("ambient", [2, 3, 4, 5])
@pytest.mark.parametrize("n", range(3, 9))
def test_few_points_have_a_dimension_that_their_neighbours_span(n, ambient):
    for seed in range(6):
        points = np.random.default_rng(seed).standard_normal((n, ambient))
        assert TangentBundle.from_points(points).rank <= n - 1


def grid(*counts, spacing):
    axes = [step * np.arange(count) for count, step in zip(counts, spacing, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(counts))


STRETCHED = [
    ((40, 40), (1.0, 2.5)),
    ((40, 40), (1.0, 3.0)),
    ((60, 20), (1.0, 3.3)),
    ((30, 50), (4.0, 1.0)),
    ((100, 8), (0.1, 0.7)),
    ((50, 50), (1.0, 12.0)),
    ((40, 40), (1.0, 25.0)),
    ((12, 12, 12), (1.0, 1.0, 2.0)),
    ((15, 15, 15), (1.0, 4.0, 4.0)),
]


@pytest.mark.parametrize("jitter", [0.0, 0.05])
@pytest.mark.parametrize("counts, spacing", STRETCHED)
def test_stretched_grids_have_the_dimension_of_their_space(counts, spacing, jitter):
    """Rows of a grid are no manifolds of their own, however far apart they are."""
    points = grid(*counts, spacing=spacing)
    points += jitter * min(spacing) * np.random.default_rng(0).standard_normal(points.shape)
    assert found(points) == len(counts)
    assert found(turned(points, len(counts) + 1, seed=1)) == len(counts)


FEW_OR_SHORT_ROWS = [
    ((12, 12, 12), (1.0, 1.0, 4.0)),
    ((12, 12, 12), (1.0, 1.0, 5.0)),
    ((20, 20, 10), (1.0, 1.0, 4.0)),
    ((30, 30, 6), (1.0, 1.0, 10.0)),
    ((15, 15, 15), (1.0, 4.0, 30.0)),
    ((50, 6, 6), (1.0, 9.0, 9.0)),
    ((100, 3), (1.0, 3.0)),
    ((300, 3), (1.0, 15.0)),
    ((3, 60), (1.0, 3.0)),
    ((8, 60), (1.0, 6.0)),
    ((4, 40), (1.0, 5.0)),
    ((20, 12), (1.0, 20.0)),
    ((200, 50), (1.0, 20.0)),
]


@pytest.mark.parametrize("jitter", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("counts, spacing", FEW_OR_SHORT_ROWS)
def test_rows_beyond_the_nearest_neighbours_are_rows(counts, spacing, jitter):
    """Also where all neighbours looked at lie on one row, or rows are few or short."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        points = grid(*counts, spacing=spacing)
        points += jitter * min(spacing) * rng.standard_normal(points.shape)
        shuffled = rng.permutation(points)
        assert found(shuffled) == len(counts)
        plane = np.linalg.qr(rng.standard_normal((len(counts) + 2, len(counts))))[0]
        assert found(0.01 * shuffled @ plane.T) == len(counts)


@pytest.mark.parametrize("seed", range(30))
def test_grids_of_any_shape_have_their_dimension(seed):
    """With rows of three points or more, at least four times as far apart as points in rows."""
    rng = np.random.default_rng(seed)
    dims = int(rng.integers(2, 4))
    counts = rng.integers(3, 60 if dims == 2 else 14, dims)
    counts[0] = max(counts[0], 8)
    spacing = np.ones(dims)
    spacing[1:] = rng.uniform(4.0, 30.0, dims - 1)
    points = grid(*counts.tolist(), spacing=spacing.tolist())
    points += rng.uniform(0.0, 0.1) * rng.uniform(-1.0, 1.0, points.shape)
    assert found(rng.permutation(points)) == dims


def test_rows_that_decide_the_dimension_are_warned_of():
    with pytest.warns(DimensionWarning, match="dim=1"):
        bundle = TangentBundle.from_points(grid(40, 30, spacing=(1.0, 4.0)))
    field = np.random.default_rng(0).standard_normal((1200, 2))
    np.testing.assert_allclose(bundle.to_ambient(bundle.to_coordinates(field)), field)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [150, 500, 2000])
def test_curves_stay_curves(n, seed):
    """Windings of a spiral, and two circles, are near each other in places; they are no grids."""
    rng = np.random.default_rng(seed)
    turns = np.sqrt(rng.uniform(25.0, 400.0, n))
    spiral = np.stack([turns * np.cos(turns), turns * np.sin(turns)], axis=1)
    circles = Sphere(1).sample(n, seed=seed) * np.where(np.arange(n) % 2, 1.0, 1.3)[:, None]
    helix = np.stack([np.cos(turns), np.sin(turns), 0.4 * turns], axis=1)
    assert found(spiral) == found(circles) == found(helix) == 1


@pytest.mark.parametrize("jitter", [0.0, 0.05])
@pytest.mark.parametrize("gap", [2.0, 4.0, 10.0])
def test_two_rows_and_two_sheets_are_no_grid(gap, jitter):
    rng = np.random.default_rng(0)
    lines = grid(200, 2, spacing=(1.0, gap))
    lines += jitter * rng.standard_normal(lines.shape)
    assert found(lines) == 1
    sheets = grid(30, 30, 2, spacing=(1.0, 1.0, 2 * gap))
    sheets += jitter * rng.standard_normal(sheets.shape)
    assert found(sheets) == 2


@pytest.mark.parametrize("seed", range(3))
def test_pieces_that_no_shift_moves_onto_each_other_are_no_grid(seed):
    """Rows that follow each other, circles beside or around each other, and random sheets."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(200) / 200
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    beside = np.concatenate([circle + np.array([3.0 * number, 0.0]) for number in range(3)])
    around = np.concatenate([radius * circle for radius in (1.0, 1.3, 1.6)])
    dashes = np.concatenate([np.arange(25.0) + 30.0 * number for number in range(5)])
    dashed = np.pad(dashes[:, None], ((0, 0), (0, 1)))
    assert found(beside) == found(around) == found(dashed) == 1
    sheets = rng.uniform(0.0, 30.0, (1500, 3))
    sheets[:, 2] = 6.0 * rng.integers(0, 3, 1500)
    assert found(sheets) == 2
    assert found(SwissRoll().sample(1000, seed=seed)) == 2


@pytest.mark.parametrize("steps_per_turn", [60, 64.5, 100])
@pytest.mark.parametrize("windings_apart", [4.0, 6.0])
def test_evenly_sampled_windings_stay_curves(steps_per_turn, windings_apart):
    """A shift along its axis moves a helix onto itself, and a spiral nearly so."""
    turn = 2 * np.pi * np.arange(12 * steps_per_turn) / steps_per_turn
    pitch = windings_apart / steps_per_turn
    helix = np.stack([np.cos(turn), np.sin(turn), pitch * turn], axis=1)
    assert found(helix) == 1


@pytest.mark.parametrize("rows, points_of_row", [(11, 200), (4, 100), (30, 60)])
def test_rings_of_a_cylinder_are_a_surface(rows, points_of_row):
    angle = 2 * np.pi * np.arange(points_of_row) / points_of_row
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(points_of_row)], axis=1)
    step = 5.0 * 2 * np.pi / points_of_row
    rings = np.concatenate([circle + np.array([0.0, 0.0, step * row]) for row in range(rows)])
    assert found(rings) == 2


@pytest.mark.parametrize(
    "counts, spacing", [((100, 3), (1.0, 3.0)), ((12, 12, 12), (1.0, 1.0, 5.0))]
)
def test_rows_of_grids_are_warned_of(counts, spacing):
    with pytest.warns(DimensionWarning) as caught:
        dim, local = resolve_dimension(cloud_of(grid(*counts, spacing=spacing)), WidestGap())
    assert len(caught) == 1
    assert dim == len(counts) and (local == dim).all()
