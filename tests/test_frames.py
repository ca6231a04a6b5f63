"""Estimated tangent spaces against exact ones."""

import numpy as np
import pytest
import torch
from clouds import ball_graph, equal, pca_within
from paper_algorithms import displacements
from spaces import projectors

from tangentbundle import TangentBundle
from tangentbundle.errors import RankDeficientError
from tangentbundle.geometry import local_pca
from tangentbundle.manifolds import Ellipsoid, FlatTorus, Sphere, SwissRoll, Torus


def sine(estimated, exact):
    """Largest sine of the angles between estimated and exact tangent spaces, ``(n,)``."""
    return np.linalg.norm(projectors(estimated) - projectors(exact), ord=2, axis=(1, 2))


@pytest.mark.parametrize(
    "space", [Sphere(2), Sphere(3), Torus(), Ellipsoid(), FlatTorus()], ids=repr
)
def test_pca_converges_to_the_tangent_spaces(space):
    errors = []
    for n in (500, 2000, 4000):
        points = space.sample(n, seed=0)
        bundle = TangentBundle.from_points(points, dim=space.dim)
        errors.append(np.median(sine(bundle.frames, space.frames(points))))
    # At the automatic scale the radius shrinks like n^(-1/(d+2)), and so must the error.
    rate = 8 ** (-1 / (space.dim + 2))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1.2 * rate * errors[0]


def test_frames_are_orthonormal_and_in_the_users_order():
    points = Sphere(2).sample(1000, seed=0)
    bundle = TangentBundle.from_points(points)
    np.testing.assert_allclose(
        bundle.frames.swapaxes(1, 2) @ bundle.frames, np.tile(np.eye(2), (1000, 1, 1)), atol=1e-12
    )
    # Nearly perpendicular to the radius: rows mixed up would not be.
    assert np.abs(np.einsum("ni,nij->nj", points, bundle.frames)).max() < 0.35


def test_weighted_covariance_is_what_it_says():
    """One neighbourhood by hand: displacements, weights, weighted mean, eigenvectors."""
    points = np.random.default_rng(0).standard_normal((60, 4)) * [3.0, 2.0, 1.0, 0.5]
    radius = 5.0
    pca = pca_within(points, radius)
    for i in (0, 17, 59):
        far = np.linalg.norm(points - points[i], axis=1)
        weights = np.where((far < radius) & (far > 0), (1 - (far / radius) ** 2) ** 2, 0.0)
        weights[i] = 0.0
        share = weights / weights.sum()
        steps = points - share @ points
        values, vectors = np.linalg.eigh((steps * share[:, None]).T @ steps)
        np.testing.assert_allclose(pca.variances[i], values[::-1], rtol=1e-9, atol=1e-14)
        axes = pca.axes[i].numpy()
        np.testing.assert_allclose(np.abs(axes.T @ vectors[:, ::-1]), np.eye(4), atol=1e-7)
        assert pca.total[i] == pytest.approx(values.sum())
        assert pca.counts[i] == (weights > 0).sum()
        assert pca.residual(2)[i] == pytest.approx(values[:2].sum() / values.sum())


@pytest.mark.parametrize("dims", [3, 40])
def test_displacements_from_the_point_itself(dims):
    """``pca_center=False`` is Algorithm 1 of the paper, whichever of the two Gram matrices is
    decomposed."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((dims, dims)))[0]
    points = Torus(0.3, 0.1).sample(300, seed=0) @ turn[:3]
    bundle = TangentBundle.from_points(points, dim=2, eps=0.05, eps_pca=0.02, pca_center=False)
    mean = TangentBundle.from_points(points, dim=2, eps=0.05, eps_pca=0.02)
    planes = projectors(bundle.frames)
    for i, plane in enumerate(planes):
        axes = np.linalg.svd(displacements(points, i, 0.02))[0][:, :2]
        np.testing.assert_allclose(plane, axes @ axes.T, atol=1e-9)
    assert np.abs(planes - projectors(mean.frames)).max() > 0.05


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_gram_path_equals_covariance_path(noise, monkeypatch):
    """The two matrices of which the smaller is decomposed: neighbours by neighbours, or D by D."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    points = Sphere(2).sample(400, seed=0) @ turn[:3] + noise * rng.standard_normal((400, 40))
    assert ball_graph(points, 0.4).degrees.max() < 40
    results = []
    for size in (0, 100):  # ambient dimensions above this use the Gram matrix
        called = []
        weighted_steps = local_pca._Neighborhoods._weighted_steps

        def logged(self, rows, pca, called=called, weighted_steps=weighted_steps):
            called.append(rows)
            return weighted_steps(self, rows, pca)

        monkeypatch.setattr(local_pca, "GRAM_SIZE", size)
        monkeypatch.setattr(local_pca._Neighborhoods, "_weighted_steps", logged)
        results.append(pca_within(points, 0.4))
        assert bool(called) == (size == 0)
        monkeypatch.undo()
    gram, covariance = results
    np.testing.assert_allclose(
        gram.variances[:, :3], covariance.variances[:, :3], rtol=1e-9, atol=1e-14
    )
    np.testing.assert_allclose(gram.total, covariance.total, rtol=1e-10)
    np.testing.assert_allclose(
        projectors(gram.frames(2)), projectors(covariance.frames(2)), atol=1e-7
    )
    assert equal(gram.counts, covariance.counts)


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("origin", [0.0, 1e6])
@pytest.mark.parametrize("dim, ambient", [(1, 2), (1, 3), (2, 3), (2, 5), (3, 4), (2, 20)])
def test_a_given_scale_determines_every_tangent_space_or_is_refused(dim, ambient, origin, center):
    """Flat sheets, points in general position or twice, balls from much too small to large
    enough."""
    refused = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.standard_normal((ambient, dim)))[0]
        points = rng.uniform(size=(30, dim)) @ basis.T + origin
        if seed % 4 == 0:
            points[:3] = points[3]
        reach = np.sort(np.linalg.norm(points[:, None] - points, axis=2), axis=1)
        eps_pca = float(1.1 * np.median(reach[:, rng.integers(2, 20)])) ** 2
        try:
            frames = TangentBundle.from_points(
                points, dim=dim, eps=9.0, eps_pca=eps_pca, pca_center=center
            ).frames
        except RankDeficientError as error:
            assert "eps_pca" in str(error)
            refused += 1
        else:
            assert sine(frames, np.broadcast_to(basis, frames.shape)).max() < np.sin(np.radians(6))
    assert 0 < refused < 24


@pytest.mark.parametrize("ambient", [13, 50, 300])
def test_an_isometric_embedding_changes_nothing(ambient):
    """S^2 turned into R^D: the same dimension, scale and spectrum as in R^3."""
    points = Sphere(2).sample(2000, seed=0)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((ambient, 3)))[0]
    plain = TangentBundle.from_points(points)
    lifted = TangentBundle.from_points(points @ turn.T + 5.0)
    assert lifted.dim == plain.dim == 2
    assert lifted.eps == pytest.approx(plain.eps, rel=1e-9)
    assert lifted.graph.num_edges == plain.graph.num_edges
    overlap = lifted.frames.swapaxes(1, 2) @ (turn @ plain.frames)
    np.testing.assert_allclose(
        overlap @ overlap.swapaxes(1, 2), np.tile(np.eye(2), (2000, 1, 1)), atol=1e-9
    )
    np.testing.assert_allclose(
        lifted.laplacian().spectrum(16)[0], plain.laplacian().spectrum(16)[0], rtol=1e-6
    )


@pytest.mark.parametrize("ambient, noise", [(3, 0.01), (50, 0.005)])
def test_noise_in_all_directions(ambient, noise):
    """Noise in each of D directions, up to a sixth of the PCA radius: tangent spaces within 8
    degrees in the median."""
    rng = np.random.default_rng(0)
    clean = np.zeros((3000, ambient))
    clean[:, :3] = Sphere(2).sample(3000, seed=0)
    exact = np.zeros((3000, ambient, 2))
    exact[:, :3] = Sphere(2).frames(clean[:, :3])
    bundle = TangentBundle.from_points(clean + noise * rng.standard_normal(clean.shape))
    assert bundle.dim == 2
    assert np.median(sine(bundle.frames, exact)) < np.sin(np.radians(8))


def test_the_boundary_of_a_swiss_roll():
    """Neighbourhoods at the rim are one-sided; centring at their mean keeps the frames tangent all
    the same."""
    roll = SwissRoll()
    points, params = roll.sample_with_parameters(6000, seed=0)
    bundle = TangentBundle.from_points(points)
    assert bundle.dim == 2
    angle = sine(bundle.frames, roll.frames(points, params))
    rim = np.minimum(params[:, 1], roll.width - params[:, 1]) < 0.5 * np.sqrt(bundle.eps)
    assert 200 < rim.sum() < 3000
    assert np.median(angle[rim]) < 1.5 * np.median(angle[~rim]) + 0.02
    assert np.quantile(angle[rim], 0.95) < 0.3


def test_the_rim_of_an_arc():
    """At the end of an arc the axis is a chord of the one-sided neighbourhood, in its middle the
    tangent."""
    t = np.linspace(0, 1.2, 401)
    arc = np.stack([np.cos(t), np.sin(t)], axis=1)
    axis = pca_within(arc, 0.3).frames(1)[:, :, 0]
    lean = np.abs(np.einsum("ni,ni->n", axis, arc))  # the radius is normal to the arc
    assert lean[200] < 1e-3
    assert 0.05 < lean[0] < np.sin(0.3 / 2)


def test_deficient_rank_is_refused():
    line = np.linspace(0, 1, 30)[:, None] * np.ones((1, 3))
    pca = pca_within(line, 0.5)
    assert pca.frames(1).shape == (30, 3, 1)
    with pytest.raises(RankDeficientError, match="span fewer than 2"):
        pca.frames(2)
    with pytest.raises(RankDeficientError, match="at most 3"):
        pca.frames(4)


def test_duplicates_do_not_count_as_directions():
    points = np.repeat(Sphere(2).sample(100, seed=0), 4, axis=0)
    pca = pca_within(points, 1e-3)  # only copies of itself in the ball
    with pytest.raises(RankDeficientError, match="duplicate"):
        pca.frames(1)


def test_a_radius_for_each_point():
    points = Sphere(2).sample(300, seed=0)
    graph = ball_graph(points, 0.6)
    radii = torch.from_numpy(np.random.default_rng(0).uniform(0.3, 0.6, 300))
    pca = local_pca.local_pca(torch.from_numpy(points), graph, radii)
    counts = [int((graph.distances[graph.rows == i] < radii[i]).sum()) for i in range(300)]
    assert pca.counts.tolist() == counts


def test_points_without_neighbours_have_no_variance():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [50.0, 50.0]])
    pca = pca_within(points, 2.0)
    assert pca.counts.tolist() == [2, 2, 2, 0]
    assert pca.total[3] == 0 and not pca.variances[3].any()


@pytest.mark.parametrize("dim", [17, 20])
def test_more_than_sixteen_dimensions(dim):
    points = np.zeros((80, 30))
    points[:, :dim] = np.random.default_rng(0).uniform(size=(80, dim))
    bundle = TangentBundle.from_points(points, dim=dim, neighbors=40)
    assert bundle.rank == dim
    np.testing.assert_allclose(projectors(bundle.frames)[:, dim:], 0, atol=1e-9)
