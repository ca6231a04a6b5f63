"""A look over a bundle: what ``diagnose`` says about known spaces."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch
from spaces import SPACES, bundle_of

from tangentbundle import TangentBundle
from tangentbundle.calculus.orientation import confident_edges
from tangentbundle.diagnostics import Diagnosis
from tangentbundle.errors import (
    DisconnectedWarning,
    InvalidInputError,
    NonFiniteError,
    NotTangentWarning,
    ShapeError,
    TangentBundleWarning,
)
from tangentbundle.geometry.cloud import PointCloud
from tangentbundle.geometry.frame_signs import cover_signs
from tangentbundle.manifolds import Ellipsoid, FlatTorus, KleinBottle, Sphere, SwissRoll, Torus
from tangentbundle.testing import random_orthogonal


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("space", [Torus(), KleinBottle(4)], ids=["torus", "klein"])
def test_torus_is_orientable_and_klein_bottle_is_not(space, seed):
    report = TangentBundle.from_points(space.sample(2000, seed=seed)).diagnose(quiet=True)
    assert report.orientable == space.orientable
    assert report.consistent == space.orientable
    assert (report.frustration == 0) == space.orientable
    assert ("yes" if space.orientable else "no") in str(report).split("orientable")[1].split()[0]


@pytest.mark.parametrize(
    "space",
    [Sphere(1), Sphere(2), Sphere(3), FlatTorus(), Ellipsoid(), SwissRoll(), KleinBottle(3)],
    ids=repr,
)
def test_orientability_of_other_spaces(space):
    points = space.sample(2000, seed=0)
    crossing = repr(space) == repr(
        KleinBottle(3)
    )  # there no scale is right, and the automatic one warns
    with warnings.catch_warnings():
        if crossing:
            warnings.simplefilter("ignore", TangentBundleWarning)
        bundle = TangentBundle.from_points(
            points, dim=space.dim, neighbors=40 if crossing else None
        )
    assert bundle.diagnose(quiet=True).orientable == space.orientable


@pytest.mark.parametrize("space", [Sphere(2), KleinBottle(4)], ids=repr)
def test_orientability_does_not_depend_on_the_frames(space):
    points = space.sample(1500, seed=0)
    frames = TangentBundle.from_points(points).frames @ random_orthogonal(1500, 2)
    report = TangentBundle.from_frames(points, frames).diagnose(quiet=True)
    assert report.orientable == report.consistent == space.orientable


@pytest.mark.parametrize("seed", [0, 1])
def test_a_few_wrong_edges_do_not_unmake_orientability(seed):
    """A sphere on which the transport of three pairs of points is turned into a reflection: no
    signs fit them all."""
    bundle = TangentBundle.from_points(Sphere(2).sample(1000, seed=seed))
    graph = bundle.sorted_graph
    rows = graph.rows
    columns = graph.indices
    det = bundle.connection.det.clone()
    for e in np.random.default_rng(seed).choice(graph.num_edges, 3, replace=False):
        i = rows[e]
        j = columns[e]
        det[((rows == i) & (columns == j)) | ((rows == j) & (columns == i))] *= -1
    wrong = dataclasses.replace(
        bundle, connection=dataclasses.replace(bundle.connection, det=det), tangent_frames=None
    )
    report = wrong.diagnose(quiet=True)
    assert not report.consistent and report.frustration == pytest.approx(6 / graph.num_edges)
    assert report.orientable
    assert "of edges remain reflections" in str(report)


def test_steep_edges_have_no_say():
    """The length of an edge is the determinant between its frames; where it is small its sign is
    chance."""
    sphere = Sphere(2)
    points = sphere.sample(400, seed=0)
    bundle = TangentBundle.from_frames(points, sphere.frames(points), eps=1.5)
    edges = confident_edges(bundle)
    graph = bundle.sorted_graph
    sorted_points = bundle.cloud.points
    cosine = (sorted_points[graph.rows] * sorted_points[graph.indices]).sum(dim=1).abs()
    assert edges.num_edges == (cosine > 0.8).sum() < graph.num_edges
    np.testing.assert_allclose(edges.distances.abs(), cosine[cosine > 0.8], atol=1e-12)


def test_signs_on_a_cycle():
    """Signs exist exactly if the product of determinants around the cycle is one."""
    angle = np.linspace(0, 2 * np.pi, 10, endpoint=False)
    cloud = PointCloud(torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], axis=1)))
    graph = cloud.within(0.7)
    assert graph.num_edges == 20
    lower = torch.minimum(graph.rows, graph.indices)
    upper = torch.maximum(graph.rows, graph.indices)
    for wrong in range(4):
        det = torch.ones(20, dtype=torch.int8)
        for k in range(wrong):  # the first edges (k, k + 1) reflect
            det[(lower == k) & (upper == k + 1)] = -1
        assert (cover_signs(graph, det) is not None) == (wrong % 2 == 0)


def test_everything_promised_is_there():
    """Each attribute of the docstring, against its own definition."""
    space = Torus()
    points = space.sample(1000, seed=0)
    bundle = TangentBundle.from_points(points)
    report = bundle.diagnose(space.tangent_field(points), quiet=True)
    promised = {line.strip(" ,") for line in Diagnosis.__doc__.split("``")[1::2]} - {
        "TangentBundle.diagnose",
        "print",
    }
    assert promised == {f.name for f in dataclasses.fields(Diagnosis)} - {
        "num_points",
        "dim",
        "eps",
    }
    degrees = bundle.graph.degrees.numpy()
    assert report.num_points == 1000 and report.dim == 2 and report.eps == bundle.eps
    assert report.neighbors == (degrees.min(), np.median(degrees), degrees.max())
    assert report.components == 1
    assert report.neighborhood_share == pytest.approx(np.median(degrees) / 999)
    assert sum(report.dimension_histogram.values()) == 1000 and report.dimension_histogram[2] > 800
    residual = bundle.estimate.pca.residual(2).numpy()
    assert report.frame_residual == (
        pytest.approx(np.median(residual)),
        pytest.approx(residual.max()),
    )
    assert 0 < report.frame_residual[0] < report.frame_residual[1] < 0.5
    assert report.normal_share < 0.01


def test_everything_is_printed(capsys):
    points = Torus().sample(1000, seed=0)
    bundle = TangentBundle.from_points(points)
    report = bundle.diagnose(Torus().tangent_field(points))
    text = capsys.readouterr().out
    assert text == f"{report}\n"
    low, middle, high = report.neighbors
    for part in (
        "1000, 2",
        f"{report.eps:.4g}",
        f"{report.eps**0.5:.4g}",
        f"{low} to {high}, median {middle:.0f}",
        f"{report.neighborhood_share:.1%}",
        "components                1",
        f"2: {report.dimension_histogram[2]}",
        "median {:.2%}, worst {:.2%}".format(*report.frame_residual),
        "yes (consistent frames)",
        f"{report.normal_share:.1%} of the energy",
    ):
        assert part in text, part
    bundle.diagnose(quiet=True)
    assert capsys.readouterr().out == ""
    klein = TangentBundle.from_points(KleinBottle().sample(2000, seed=0)).diagnose(quiet=True)
    assert f"no ({klein.frustration:.2%} of edges remain reflections)" in str(klein)


def test_what_is_not_known_is_not_printed():
    points = Sphere(2).sample(300, seed=0)
    report = TangentBundle.from_frames(points, Sphere(2).frames(points)).diagnose(quiet=True)
    assert (
        report.dimension_histogram is None
        and report.frame_residual is None
        and report.normal_share is None
    )
    assert not any(
        word in str(report)
        for word in ("local dimensions", "residual variance", "normal component")
    )


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_small_bundles_of_every_kind(space):
    report = bundle_of(space).diagnose(quiet=True)
    assert report.dim == space.dim and report.components == 1
    assert 0 <= report.frustration < 0.5


def test_several_components():
    points = np.concatenate([Sphere(2).sample(300, seed=0), Sphere(2).sample(300, seed=1) + 10.0])
    with pytest.warns(DisconnectedWarning):
        bundle = TangentBundle.from_points(points, dim=2)
    assert bundle.diagnose(quiet=True).components == 2


def test_scalar_bundle():
    report = bundle_of(Sphere(2)).scalar().diagnose(quiet=True)
    assert report.orientable and report.frame_residual is None
    with pytest.raises(InvalidInputError, match="scalar bundle"):
        bundle_of(Sphere(2)).scalar().diagnose(bundle_of(Sphere(2)).points, quiet=True)


# How tangent a field is.


def test_the_papers_field_on_the_torus_has_a_quarter_of_its_energy_normal():
    torus = Torus()
    points = torus.sample(4000, seed=0)
    bundle = TangentBundle.from_points(points)
    with pytest.warns(NotTangentWarning, match=r"2\d% of the field"):
        report = bundle.diagnose(torus.paper_field(points), quiet=True)
    assert report.normal_share == pytest.approx(0.25, abs=0.02)


def test_normal_share_of_known_fields():
    sphere = Sphere(2)
    points = sphere.sample(500, seed=0)
    bundle = TangentBundle.from_frames(points, sphere.frames(points))
    tangent = np.cross([0.0, 0.0, 1.0], points)
    energy = np.square(tangent).sum()
    assert bundle.diagnose(tangent, quiet=True).normal_share == pytest.approx(0.0, abs=1e-12)
    with pytest.warns(NotTangentWarning, match="100%"):
        assert bundle.diagnose(points, quiet=True).normal_share == pytest.approx(1.0)
    for normal in (0.1, 2.0):
        share = normal**2 * 500 / (normal**2 * 500 + energy)
        mixed = tangent + normal * points
        if share > 0.1:
            with pytest.warns(NotTangentWarning):
                report = bundle.diagnose(mixed, quiet=True)
        else:
            report = bundle.diagnose(mixed, quiet=True)
        assert report.normal_share == pytest.approx(share, rel=1e-6)
    assert bundle.diagnose(np.zeros((500, 3)), quiet=True).normal_share == 0.0


@pytest.mark.parametrize("size", [1e-30, 1e-10, 1e10, 1e30])
def test_normal_share_at_any_size_in_single_precision(size):
    sphere = Sphere(2)
    points = sphere.sample(300, seed=0, dtype=np.float32)
    bundle = TangentBundle.from_frames(points, sphere.frames(points).astype(np.float32))
    field = (size * np.cross([0.0, 0.0, 1.0], points)).astype(np.float32)
    assert bundle.diagnose(field, quiet=True).normal_share == pytest.approx(0.0, abs=1e-5)


def test_channels_and_batches_of_fields():
    sphere = Sphere(2)
    points = sphere.sample(200, seed=0)
    bundle = TangentBundle.from_frames(points, sphere.frames(points))
    fields = np.stack([np.cross(axis, points) for axis in np.eye(3)], axis=2)
    assert bundle.diagnose(fields, quiet=True).normal_share < 1e-12
    assert bundle.diagnose(np.moveaxis(fields, 2, 0), quiet=True).normal_share < 1e-12
    assert bundle.diagnose(fields[:, :, :1], quiet=True).normal_share < 1e-12


def test_rows_in_another_order_are_noticed():
    torus = Torus()
    points = torus.sample(500, seed=0)
    bundle = TangentBundle.from_points(points)
    mixed = torus.tangent_field(points)[np.random.default_rng(0).permutation(500)]
    with pytest.warns(NotTangentWarning, match="order of the points"):
        bundle.diagnose(mixed, quiet=True)


def test_bad_fields():
    bundle = bundle_of(Sphere(2))
    n = bundle.num_points
    with pytest.raises(NonFiniteError):
        bundle.diagnose(np.full((n, 3), np.nan), quiet=True)
    with pytest.raises(ShapeError):
        bundle.diagnose(np.zeros((n, 2)), quiet=True)
