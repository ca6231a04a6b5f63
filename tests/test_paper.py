"""The paper to the letter: its algorithms against plain NumPy, and a page on which every numbered
item is found."""

import re
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest
import torch
from paper_algorithms import frames, sheaf_laplacian
from scipy.linalg import block_diag, expm

import tangentbundle as tb
from tangentbundle.manifolds import KleinBottle, Sphere, Torus

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs/theory/paper.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ")
]
ROWS = [row for row in ROWS if row[0] != "paper"]

ITEMS = {
    "Definition": range(1, 14),
    "Proposition": range(1, 4),
    "Theorem": range(1, 2),
    "Remark": range(1, 5),
    "Algorithm": range(1, 3),
    "Figure": range(1, 8),
    "Eq.": range(1, 41),
    "Table": ["I", "II", "III", "IV", "V", "VI"],
}
"""The numbered items of the paper; its equations beyond 40 are steps of proofs."""

CLOUDS = {
    "torus of the experiments": (Torus(0.3, 0.1), 200, 0.06, 0.03),
    "sphere": (Sphere(2), 150, 0.4, 0.3),
    "circle": (Sphere(1), 60, 0.2, 0.1),
    "three-sphere": (Sphere(3), 150, 1.0, 0.8),
    "Klein bottle": (KleinBottle(4), 200, 1.5, 1.0),
}


def test_every_numbered_item_has_a_row():
    found = [item.strip() for row in ROWS for item in row[0].split(",")]
    wanted = [f"{kind} {number}" for kind, numbers in ITEMS.items() for number in numbers]
    assert {item for item in wanted if found.count(item) != 1} == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_named_objects_and_tests_exist(row):
    """A row has five cells: item, what it is, status, objects of the library or experiments, and a
    test."""
    _, _, status, objects, test = row
    assert status.split(":")[0] in ("as printed", "corrected", "extended")
    names = re.findall(r"`([^`]+)`", objects)
    assert names
    for name in names:
        path = name.partition("(")[0]
        if not path.startswith("experiments."):
            path = f"tangentbundle.{path}"
        assert resolve_name(path) is not None
    file, _, function = test.strip("`").partition("::")
    assert re.search(rf"^ *def {function}\(", (TESTS / file).read_text(), re.MULTILINE)


@cache
def bundle(name):
    space, n, eps, eps_pca = CLOUDS[name]
    points = space.sample(n, seed=0)
    return tb.TangentBundle.from_points(
        points, dim=space.dim, eps=eps, eps_pca=eps_pca, pca_center=False
    )


@pytest.mark.parametrize("name", CLOUDS)
def test_algorithm_1(name):
    """Tangent planes; their bases are determined up to rotations and reflections."""
    space, _, _, eps_pca = CLOUDS[name]
    bases = frames(bundle(name).points, eps_pca, space.dim)
    planes = bases @ bases.swapaxes(1, 2)
    np.testing.assert_allclose(
        bundle(name).frames @ bundle(name).frames.swapaxes(1, 2), planes, atol=1e-9
    )


@pytest.mark.parametrize("name", CLOUDS)
def test_algorithm_2(name):
    """The Laplacian of NumPy's own bases, turned to those of the library."""
    space, _, eps, eps_pca = CLOUDS[name]
    ours = bundle(name)
    bases = frames(ours.points, eps_pca, space.dim)
    turns = block_diag(*(ours.frames.swapaxes(1, 2) @ bases))
    expected = turns @ sheaf_laplacian(ours.points, bases, eps) @ turns.T
    got = ours.laplacian(calibrate=False).to_dense().numpy()
    np.testing.assert_allclose(got, expected, atol=1e-8 / eps)


def test_the_sampling_operator():
    """Each point's coordinates are d consecutive numbers of the flat signal."""
    ours, field = bundle("sphere"), np.random.default_rng(0).standard_normal((150, 3))
    flat = ours.to_coordinates(field).reshape(-1)
    for i in range(150):
        np.testing.assert_allclose(
            flat[2 * i : 2 * (i + 1)], ours.frames[i].T @ field[i], atol=1e-14
        )


def test_the_dd_tnn():
    """The network of the experiments, in matrix form: X' = tanh(sum_k (e^Delta)^k X H_k), linear at
    the end."""
    lap = bundle("torus of the experiments").laplacian(calibrate=False)
    net = tb.nn.TNN([1, 8, 4, 1], taps=2, activation=tb.nn.Coordinatewise(torch.tanh)).double()
    x = np.random.default_rng(0).standard_normal((200, 2, 1))
    shift, flat = expm(lap.to_dense().numpy()), x.reshape(400, 1)
    for level, layer in enumerate(net.layers):
        h = layer.conv.weight.detach().numpy()
        flat = flat @ h[0] + shift @ flat @ h[1]
        flat = np.tanh(flat) if level < 2 else flat
    got = net(torch.from_numpy(x), lap).detach().numpy()
    np.testing.assert_allclose(got.reshape(400, 1), flat, atol=1e-9)


def test_the_filter_of_figure_4():
    """t^2/6 has the response 1/(3 lambda^3): lowpass, and non-amplifying and Lipschitz away from
    zero only."""
    lam = np.array([0.75, *np.log(np.arange(3, 10))])
    h = tb.ImpulseResponse(lambda t: t**2 / 6, horizon=80.0)
    np.testing.assert_allclose(h.response(lam), 1 / (3 * lam**3), rtol=1e-9)
    on = h.properties((lam[0], lam[-1]))
    assert on.lowpass and on.gain == pytest.approx(1 / (3 * lam[0] ** 3)) and on.gain < 1
    assert on.lipschitz == pytest.approx(lam[0] ** -4)
    printed = tb.Spectral(lambda lam: 1 / (3 * lam**3))
    assert (
        printed.is_lowpass()
        and printed.lipschitz() == np.inf
        and not printed.is_nonamplifying((0.68, 10.0))
    )


ACTIVATIONS = {
    "NoActivation": tb.nn.NoActivation(),
    "NormTanh": tb.nn.NormTanh(),
    "Coordinatewise": tb.nn.Coordinatewise(torch.tanh),
    "AmbientThenProject": tb.nn.AmbientThenProject(torch.tanh),
}


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_assumption_a3(name, size):
    """|sigma(a) - sigma(b)| <= |a - b| at every point, and sigma(0) = 0."""
    sphere = tb.manifolds.Sphere(2)
    lap = tb.TangentBundle.from_points(sphere.sample(300, seed=0), dim=2).laplacian()
    source = torch.Generator().manual_seed(0)
    a, b = size * torch.randn(2, 300, 2, 5, generator=source, dtype=torch.float64)
    near = a + 1e-3 * (b - a)
    activation = ACTIVATIONS[name]
    for other in (b, near, torch.zeros_like(a)):
        change = (activation(a, lap) - activation(other, lap)).norm(dim=1)
        assert torch.all(change <= (a - other).norm(dim=1) * (1 + 1e-9) + 1e-12)
    assert not activation(torch.zeros_like(a), lap).any()


@pytest.mark.parametrize(
    "manifold, reach, injectivity",
    [
        (tb.manifolds.Sphere(2), 1.0, np.pi),
        (tb.manifolds.Sphere(2, 0.01), 0.01, 0.01 * np.pi),
        (tb.manifolds.FlatTorus((1.0, 0.5)), 0.5, 0.5 * np.pi),
        (tb.manifolds.Torus(), 0.1, 0.1 * np.pi),
        (tb.manifolds.Torus(1.0, 0.4), 0.4, 0.4 * np.pi),
    ],
    ids=lambda value: str(value),
)
def test_the_automatic_scale_keeps_the_bound_of_theorem_1(manifold, reach, injectivity):
    """The radius of neighbourhoods, sqrt(eps), is below the injectivity radius and the inverse
    condition number."""
    for n, seed in ((2_000, 0), (5_000, 1)):
        bundle = tb.TangentBundle.from_points(manifold.sample(n, seed=seed), dim=2)
        assert 0 < np.sqrt(bundle.eps) <= min(injectivity, reach)


def test_the_papers_scales_against_the_bound_of_theorem_1():
    """Neighbourhoods of radius 0.71 on a tube of radius 0.1; on an Earth of radius 6356.8 no point
    has a neighbour."""
    assert np.sqrt(0.5) > 0.1
    with pytest.warns(tb.errors.GlobalNeighborhoodWarning):
        tb.TangentBundle.from_points(
            tb.manifolds.Torus().sample(100, seed=0), dim=2, eps=0.5, eps_pca=0.8
        )
    earth = tb.manifolds.Sphere(2).sample(400, seed=0)
    with pytest.raises(tb.errors.IsolatedPointsError):
        tb.TangentBundle.from_points(6356.8 * earth, dim=2, eps=0.5, eps_pca=0.8)
    assert (
        tb.TangentBundle.from_points(earth, dim=2, eps=0.5, eps_pca=0.8).graph.num_components == 1
    )
