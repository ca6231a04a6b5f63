"""The signs of estimated frames follow one rule on every path, in every precision and order of the
points."""

from itertools import product

import numpy as np
import pytest
import torch
from spaces import DTYPES, SIZE, SPACES

import tangentbundle as tb
from tangentbundle.errors import RankDeficientError
from tangentbundle.estimators.tangents import TangentSpaces
from tangentbundle.geometry import cloud as cloud_module
from tangentbundle.geometry import local_pca as pca_module
from tangentbundle.geometry.frame_signs import (
    determinants_along_edges,
    facing_edges,
    signs_along_edges,
    tree_signs,
)
from tangentbundle.geometry.local_pca import with_stated_signs

pytestmark = pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")


def signed_by_hand(frames: np.ndarray) -> np.ndarray:
    """The rule, as the documentation states it, one column at a time."""
    signed = np.array(frames, dtype=float)
    for point, axis in product(range(len(signed)), range(signed.shape[2])):
        column = signed[point, :, axis]
        magnitudes = np.abs(column)
        first = next(
            k for k in range(len(column)) if magnitudes[k] >= (1 - 1e-3) * magnitudes.max()
        )
        if column[first] < 0:
            signed[point, :, axis] = -column
    return signed


def assert_same_columns(frames, expected: np.ndarray) -> None:
    """Columns agree with their signs; those of nearly equal variances may be turned by rounding."""
    cosines = np.einsum("nij,nij->nj", np.asarray(frames, dtype=float), expected)
    assert (np.abs(cosines) > 0.99).mean() > 0.98
    assert (cosines[np.abs(cosines) > 0.99] > 0).all()


def frames_of_every_path(points: np.ndarray, dim: int, monkeypatch) -> dict[str, np.ndarray]:
    """Estimated frames in the order of the points, by the name of the path."""
    options = {"dim": dim, "neighbors": 20}
    tensor = torch.from_numpy(points)
    batch = np.repeat([0, 1], [len(points), len(points)])
    both = np.concatenate([points[::-1], points])
    joined = tb.TangentBundle.from_batch(both, batch, **options)
    paths = {
        "arrays": tb.TangentBundle.from_points(points, **options).frames,
        "tensors": tb.TangentBundle.from_points(tensor, **options).frames.numpy(),
        "batch": joined.parts[1].frames.numpy(),
        "batch, reversed": joined.parts[0].frames.numpy()[::-1],
    }
    moving = tb.TangentBundle.from_points(tensor.clone().requires_grad_(), **options)
    assert moving.frames.requires_grad
    paths["with gradients"] = moving.frames.detach().numpy()
    with monkeypatch.context() as patched:
        patched.setattr(cloud_module, "use_triton", lambda device: True)
        paths["device"] = tb.TangentBundle.from_points(tensor, **options).frames.numpy()
    with monkeypatch.context() as patched:
        patched.setattr(pca_module, "GRAM_SIZE", 0)
        paths["matrices of neighbours"] = tb.TangentBundle.from_points(points, **options).frames
    return paths


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_every_path_has_the_stated_signs(space, monkeypatch):
    points = space.sample(SIZE[space.dim], seed=0)
    reference = signed_by_hand(
        tb.TangentBundle.from_points(points, dim=space.dim, neighbors=20).frames
    )
    shuffled = np.random.default_rng(1).permutation(len(points))
    for dtype, order in zip(DTYPES, (shuffled, np.arange(len(points))), strict=True):
        paths = frames_of_every_path(points[order].astype(dtype), space.dim, monkeypatch)
        for name, frames in paths.items():
            np.testing.assert_array_equal(signed_by_hand(frames), frames, err_msg=name)
            assert_same_columns(frames, reference[order])


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_estimators_turn_the_last_column_alone_and_as_few_as_possible(space):
    points = space.sample(SIZE[space.dim], seed=0)
    shuffled = np.random.default_rng(1).permutation(len(points))
    spaces = [
        TangentSpaces.of(points[order], space.dim) for order in (np.arange(len(points)), shuffled)
    ]
    for tangents in spaces:
        signed = signed_by_hand(tangents.frames)
        np.testing.assert_array_equal(signed[:, :, :-1], tangents.frames[:, :, :-1])
        kept = (signed == tangents.frames).all(axis=1)[:, -1]
        assert kept.mean() >= 0.5
    if spaces[0].oriented:
        assert_same_columns(spaces[1].frames, spaces[0].frames[shuffled])
    nearest = TangentSpaces.from_nearest(points, space.dim).frames
    np.testing.assert_array_equal(signed_by_hand(nearest), nearest)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_does_not_decide_between_entries_of_equal_size(dtype):
    rng = np.random.default_rng(0)
    corners = np.array(list(product([-1.0, 0.0, 1.0], repeat=4)))[:-1]
    corners = corners[np.abs(corners).any(axis=1)]
    exact = corners[:, :, None] / np.linalg.norm(corners, axis=1)[:, None, None]
    expected = with_stated_signs(torch.from_numpy(exact)).numpy()
    rounding = 1e2 * np.finfo(dtype).eps
    for _ in range(20):
        noisy = (rng.choice([-1, 1], len(exact))[:, None, None] * exact).astype(dtype)
        noisy += rounding * rng.uniform(-1, 1, noisy.shape).astype(dtype)
        got = with_stated_signs(torch.from_numpy(noisy)).numpy()
        np.testing.assert_allclose(got, expected, atol=2 * rounding)


def test_analyses_without_axes_have_no_signs():
    assert with_stated_signs(torch.zeros(5, 3, 0)).shape == (5, 3, 0)
    assert not with_stated_signs(torch.zeros(5, 3, 2)).any()


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_estimators_have_the_frames_of_a_bundle_but_for_signs(space):
    points = space.sample(SIZE[space.dim], seed=0)
    frames = TangentSpaces.of(points, space.dim).frames
    bundle = tb.TangentBundle.from_points(points, dim=space.dim)
    np.testing.assert_array_equal(np.abs(frames), np.abs(bundle.frames))


@pytest.mark.parametrize("space", SPACES, ids=repr)
@pytest.mark.parametrize("least", [0.0, 0.8])
def test_signs_that_agree_are_those_of_a_spanning_tree(space, least):
    bundle = tb.TangentBundle.from_points(space.sample(SIZE[space.dim], seed=0), dim=space.dim)
    det = determinants_along_edges(bundle.tangent_frames.matrices, bundle.sorted_graph)
    edges = facing_edges(bundle.sorted_graph, det, least)
    assert torch.equal(signs_along_edges(edges), tree_signs(edges))


def test_estimators_refuse_perpendicular_tangent_spaces_as_bundles_do():
    side = np.arange(40.0)
    corner = np.concatenate([np.c_[side, 0 * side], np.c_[0 * side, 1 + side]])
    messages = []
    for build in (tb.TangentBundle.from_points, TangentSpaces.of):
        with pytest.raises(RankDeficientError, match="perpendicular directions") as caught:
            build(corner, dim=1)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.filterwarnings("error::tangentbundle.errors.TangentBundleWarning")
def test_estimators_do_not_warn_of_scales():
    pieces = [tb.manifolds.Sphere(2).sample(300, seed=0) + 9.0 * k for k in range(2)]
    points = np.concatenate([*pieces, pieces[0][:50]])
    assert TangentSpaces.of(points, 2).oriented
