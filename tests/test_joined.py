"""Several bundles as one operator: all it does is what its parts do, one by one."""

import itertools
from functools import cache, partial

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.errors import DTypeError, InvalidInputError, ShapeError
from tangentbundle.manifolds import KleinBottle, Sphere, Torus
from tangentbundle.nn.pooling import cloud_means
from tangentbundle.operators import DirectedPath, Identity
from tangentbundle.testing import (
    OperatorContract,
    assert_self_adjoint,
    random_signal,
    relative_error,
)

CLOUDS = {
    1: [(Sphere(1), 40, 1.0), (Sphere(1), 25, 3.0), (Sphere(1), 60, 0.2)],
    2: [(Torus(), 70, 1.0), (Sphere(2), 50, 2.0), (Sphere(2), 90, 0.3), (Torus(), 60, 1.0)],
    3: [(Sphere(3), 60, 1.0), (Sphere(3), 50, 0.5)],
}
METHODS = {"exact": tb.Exact(), "dense": tb.Dense(), "sparse": tb.Chebyshev(1e-13)}


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@cache
def parts(kind=2, dtype=torch.float64):
    """Bundles of different sizes, scales and orders, of rank 1, 2 or 3, with reflections ("Klein"),
    or of functions."""
    if kind == "Klein":
        clouds = [(KleinBottle(4), 90, 1.0), (KleinBottle(4), 110, 2.0)]
    else:
        clouds = CLOUDS[2 if kind == "functions" else kind]
    made = []
    for seed, (space, n, size) in enumerate(clouds):
        points = torch.from_numpy(size * space.sample(n, seed=seed)).to(dtype)
        bundle = tb.TangentBundle.from_points(points, dim=space.dim)
        made.append(
            (bundle.scalar() if kind == "functions" else bundle).laplacian(terms=1 + seed % 3)
        )
    return tuple(made)


KINDS = [1, 2, 3, "Klein", "functions"]


def joined(kind=2, dtype=torch.float64):
    return tb.join(parts(kind, dtype))


def step(kind):
    return float(np.median([p.scale for p in parts(kind)]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_product_is_the_products_of_the_parts(kind):
    both = joined(kind)
    assert len({p.scale for p in both.parts}) > 1
    x = torch.stack([random_signal(both, channels=3, seed=s) for s in range(2)])
    pieces = both.split(x)
    assert [p.shape[-3] for p in pieces] == list(both.sizes) == [p.num_points for p in parts(kind)]
    expected = torch.cat([p @ piece for p, piece in zip(both.parts, pieces, strict=True)], dim=-3)
    assert relative_error(both @ x, expected) < 1e-12
    got = both @ x.numpy()
    assert isinstance(got, np.ndarray) and relative_error(torch.from_numpy(got), expected) < 1e-12
    assert (
        relative_error(both.to_dense(), torch.block_diag(*(p.to_dense() for p in both.parts)))
        < 1e-12
    )


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_filters_are_the_filters_of_the_parts(kind, name):
    both, method, t = joined(kind), METHODS[name], step(kind)
    filters = [
        tb.Heat(2 * t),
        tb.FIR([0.5, -0.3, 0.8], t),
        tb.Spectral(lambda lam: 1 / (1 + t * lam)),
    ]
    x = torch.stack([random_signal(both, seed=s) for s in range(2)])
    outputs = both.evaluate(filters, x, method)
    for k, h in enumerate(filters):
        expected = torch.cat(
            [h(p, s, tb.Exact()) for p, s in zip(both.parts, both.split(x), strict=True)], dim=-3
        )
        assert relative_error(outputs[k], expected) < 1e-10
        assert relative_error(h(both, x, method), expected) < 1e-10
    ys = [random_signal(both, seed=9 + k) for k in range(3)]
    expected = sum(h(both, y, tb.Exact()) for h, y in zip(filters, ys, strict=True))
    assert relative_error(both.merge(filters, ys, method), expected) < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_the_spectrum_is_enclosed_and_is_that_of_the_parts(kind):
    both = joined(kind)
    together = both.decompose()[0]
    apart = torch.cat([p.decompose()[0] for p in both.parts]).sort().values
    np.testing.assert_allclose(together, apart, atol=1e-9 * float(apart[-1]))
    low, high = both.spectral_interval
    assert low == 0.0 and float(apart[-1]) <= high < 1.5 * float(apart[-1])


@pytest.mark.parametrize("kind", KINDS)
def test_self_adjoint(kind):
    assert_self_adjoint(joined(kind))
    assert joined(kind).adjoint.to_dense().equal(joined(kind).to_dense())


class TestContract(OperatorContract):
    def make_operator(self):
        return joined()

    def test_mass_is_a_probability(self):
        """On each part."""
        both = self.make_operator()
        for mass, part in zip(both.mass.split(both.sizes), both.parts, strict=True):
            assert torch.equal(mass, part.mass) and abs(float(mass.sum()) - 1) < 1e-12


class TestContractOfFunctions(TestContract):
    def make_operator(self):
        return joined("functions")


class TestContractInSinglePrecision(TestContract):
    def make_operator(self):
        return joined("Klein", torch.float32)

    def test_mass_is_a_probability(self):
        both = self.make_operator()
        assert both.dtype == torch.float32
        np.testing.assert_allclose(
            [float(m.sum()) for m in both.mass.split(both.sizes)], 1.0, atol=1e-5
        )


@pytest.mark.parametrize("name", ["exact", "dense", "sparse"])
def test_single_precision(name):
    both = joined(3, torch.float32)
    x = random_signal(both)
    assert both.to(dtype=torch.float64).dtype == torch.float64
    double = tb.Heat(step(3))(both.to(dtype=torch.float64), x.double(), METHODS["exact"])
    method = tb.Chebyshev(1e-6) if name == "sparse" else METHODS[name]
    single = tb.Heat(step(3))(both, x, method)
    assert single.dtype == torch.float32 and relative_error(single, double) < 1e-5


def test_nothing_flows_between_bundles():
    """A signal on one part alone stays there, to the last bit."""
    both = joined()
    x = random_signal(both)
    inside = torch.zeros_like(x)
    both.split(inside)[1].copy_(both.split(x)[1])
    for method in METHODS.values():
        y = both.split(tb.Heat(step(2))(both, inside, method))
        assert [bool((piece == 0).all()) for piece in y] == [True, False, True, True]


@pytest.mark.parametrize("kind", KINDS)
def test_networks_and_readouts_are_those_of_the_parts(kind):
    both = joined(kind)
    x = torch.stack([random_signal(both, seed=s) for s in range(3)])
    makers = (
        nn.InvariantReadout,
        partial(nn.SumReadout, rank=both.rank),
    )
    for method, maker in itertools.product((None, tb.Chebyshev(1e-13)), makers):
        readout = maker(4, 3)
        net = nn.TNN(
            [2, 4], taps=3, step=step(kind), output=nn.NormTanh(), readout=readout, method=method
        ).double()
        got = net(x, both)
        assert got.shape == (3, len(both.parts), 3)
        for b, (part, piece) in enumerate(zip(both.parts, both.split(x), strict=True)):
            assert relative_error(got[:, b], net(piece, part)[:, 0]) < 1e-10
    for net in (
        nn.RecurrentTNN([2, 3, 2], step=step(kind)),
        nn.GatedTNN([2, 3, 2], step=step(kind)),
    ):
        outputs, states = net.double()(x, both)
        for index, (part, piece) in enumerate(zip(both.parts, both.split(x), strict=True)):
            alone, ends = net(piece, part)
            assert relative_error(both.split(outputs)[index], alone) < 1e-10
            assert relative_error(both.split(states[0])[index], ends[0]) < 1e-10


def test_ambient_activations_use_the_frames_of_each():
    both = joined()
    x = random_signal(both)
    assert torch.equal(both.frames, torch.cat([p.frames for p in both.parts]))
    act = nn.AmbientThenProject()
    expected = torch.cat([act(s, p) for p, s in zip(both.parts, both.split(x), strict=True)])
    assert torch.equal(act(x, both), expected)


def test_means_over_clouds_weigh_by_mass():
    both = joined()
    features = torch.randn(
        5, both.num_points, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    means = cloud_means(features, both)
    assert means.shape == (5, 4, 3)
    for b, (part, piece) in enumerate(
        zip(both.parts, features.split(both.sizes, dim=-2), strict=True)
    ):
        expected = torch.einsum("n,snf->sf", part.mass, piece)
        assert relative_error(means[:, b], expected) < 1e-13
        assert relative_error(cloud_means(piece, part)[:, 0], expected) < 1e-13
    np.testing.assert_allclose(cloud_means(torch.ones_like(features), both), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_sum_readouts_in_plain_numpy(kind):
    """Sums of the coordinates of every cloud, then a perceptron."""
    both = joined(kind)
    x = random_signal(both)
    net = nn.SumReadout(2, 3, hidden=5, rank=both.rank).double()
    w1, c1, w2, c2 = (p.detach().numpy() for p in net.parameters())
    for got, piece, part in zip(net(x, both), both.split(x), both.parts, strict=True):
        z = piece.reshape(part.num_points, -1).numpy().sum(0)
        np.testing.assert_allclose(
            got.detach(), w2 @ np.maximum(w1 @ z + c1, 0) + c2, rtol=1e-10, atol=1e-12
        )


def test_identities_join_too():
    small, large = Identity.of(4, 2), Identity.of(6, 2)
    both = tb.join([small, large])
    assert isinstance(both, Identity) and both.sizes == (4, 6) and both.num_points == 10
    x = random_signal(both)
    assert [p.shape[0] for p in both.split(x)] == [4, 6]
    assert torch.equal(tb.Heat(1.0)(both, x), x)
    net = nn.TNN([2, 3], readout=nn.InvariantReadout(3, 2)).double()
    apart = [net(p, op) for op, p in zip((small, large), both.split(x), strict=True)]
    assert relative_error(net(x, both), torch.cat(apart)) < 1e-13
    assert tb.join([both, small]).sizes == (4, 6, 4)
    assert both.to(dtype=torch.float32).sizes == (4, 6)


def test_joins_nest_and_one_is_enough():
    first, *rest = joined().parts
    nested = tb.join([tb.join([first]), tb.join(rest)])
    assert nested.parts == joined().parts
    x = random_signal(first)
    assert relative_error(tb.join([first]) @ x, first @ x) < 1e-15
    assert (
        relative_error(tb.join([first] * 3) @ torch.cat([x] * 3), torch.cat([first @ x] * 3))
        < 1e-15
    )


def test_matrices_stay_with_the_parts():
    """Joins in another order, as in training with shuffled clouds, compute no decomposition
    again."""
    fresh = [p.to(dtype=torch.float64) for p in parts()]
    h = tb.Heat(step(2))
    tb.join(fresh)
    assert all("banks" not in p.cache for p in fresh)
    x = random_signal(tb.join(fresh))
    h(tb.join(fresh), x, tb.Dense())
    kept = [next(iter(p.cache["banks"].values())) for p in fresh]
    h(tb.join(fresh[::-1]), torch.cat(tb.join(fresh).split(x)[::-1]), tb.Dense())
    assert all(next(iter(p.cache["banks"].values())) is k for p, k in zip(fresh, kept, strict=True))
    assert all(len(p.cache["banks"]) == 1 for p in fresh)


def test_what_cannot_be_joined():
    two, one, single = parts()[0], parts(1)[0], parts(2, torch.float32)[0]
    cases = [
        ([], InvalidInputError, "at least one"),
        (two, InvalidInputError, "list of operators"),
        ([None], InvalidInputError, "NoneType"),
        ([DirectedPath.of(4)], InvalidInputError, "DirectedPath"),
        ([two, Identity.of(4, 2)], InvalidInputError, "one kind.*Laplacian and Identity"),
        ([two, one], ShapeError, "one dimension, got 2 and 1"),
        ([two, single], DTypeError, r"float64 and torch.float32: use .to\(\)"),
    ]
    for operators, error, message in cases:
        with pytest.raises(error, match=message):
            tb.join(operators)
    both = joined()
    with pytest.raises(ShapeError, match=rf"\(\.\.\., {both.num_points}, 2, c\)"):
        tb.Heat(0.1)(both, random_signal(two))
    with pytest.raises(DTypeError, match=r"operator is torch\.float64"):
        tb.Heat(0.1)(both, random_signal(both).float())
    with pytest.raises(ShapeError, match=r"different dimensions, \[3, 4\]"):
        tb.join([two, parts("Klein")[0]]).frames  # noqa: B018
    with pytest.raises(InvalidInputError, match="frames"):
        nn.AmbientThenProject()(random_signal(joined("functions")), joined("functions"))
    with pytest.raises(ShapeError, match=r"share a shape.*\(270, 2, 2\), \(270, 2, 3\)"):
        both.merge([tb.Heat(0.1)] * 2, [random_signal(both), random_signal(both, 3)])
    with pytest.raises(InvalidInputError, match="one signal a filter"):
        both.merge([tb.Heat(0.1)] * 2, [random_signal(both)])
