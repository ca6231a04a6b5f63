"""Blocks of networks: one test of symmetry for all of them, and what each promises by itself."""

from functools import cache

import numpy as np
import pytest
import torch
from network_parts import numbers
from test_nn_symmetry import bundle, shuffled, step

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.testing import (
    assert_gauge_equivariant,
    assert_rotation_equivariant,
    random_orthogonal,
    random_signal,
    relative_error,
)

CHANNELS = 4
DIMENSIONS = (1, 2, 3)
TOLERANCE = 1e-10

BLOCKS = {
    "PointNorm": lambda dim: nn.PointNorm(CHANNELS),
    "CloudNorm": lambda dim: nn.CloudNorm(CHANNELS),
    "NoNorm": lambda dim: nn.NoNorm(),
    "NormTanh": lambda dim: nn.NormTanh(),
    "NormGate": lambda dim: nn.NormGate(CHANNELS),
    "VectorDropout": lambda dim: nn.VectorDropout(0.5),
    "BundleConv": lambda dim: nn.BundleConv(CHANNELS, CHANNELS, step=step(dim)),
    "ResidualBlock": lambda dim: nn.ResidualBlock(CHANNELS, step=step(dim), dropout=0.2),
    "ResidualBlock of clouds": lambda dim: nn.ResidualBlock(
        CHANNELS, step=step(dim), norm=nn.CloudNorm(), activation=nn.NormTanh()
    ),
    "TNN": lambda dim: nn.TNN([CHANNELS, 3, CHANNELS], step=step(dim), activation=nn.NormGate()),
    "ResidualTNN": lambda dim: nn.ResidualTNN([CHANNELS, 3, CHANNELS], layers=3, step=step(dim)),
    "attention": lambda dim: nn.InvariantReadout(CHANNELS, 3, pooling=nn.AttentionPooling()),
}
"""Modules ``module(x, operator)`` of signals with four channels."""


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dim", DIMENSIONS)
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_do_not_see_frames_and_rotations(name, dim, training):
    module = shuffled(BLOCKS[name](dim)).train(training)

    def function(laplacian, x):
        torch.manual_seed(0)  # the same vectors are dropped
        return module(x, laplacian)

    assert_gauge_equivariant(function, bundle(dim), channels=CHANNELS, tol=TOLERANCE)
    assert_rotation_equivariant(function, bundle(dim), channels=CHANNELS, tol=TOLERANCE)


@cache
def mixed_signals(dim):
    n = bundle(dim).num_points
    return numbers(n, 1, 3), numbers(n, dim, CHANNELS, seed=1)


def mixed_networks(dim, **options):
    return {
        "MixedTNN": nn.MixedTNN([3, 4, 2], [CHANNELS, 3, 2], step=step(dim), **options),
        "ResidualMixedTNN": nn.ResidualMixedTNN(
            [3, 4, 2], [CHANNELS, 3, 2], layers=2, step=step(dim), **options
        ),
        "ResidualMixedTNN of points": nn.ResidualMixedTNN(
            [3, 4, 2], [CHANNELS, 3, 2], layers=2, norm=nn.PointNorm(), step=step(dim), **options
        ),
    }


def rotated_answers(net, dim, rotation, oriented):
    """The answers on a bundle, and those on one that is rotated and has other frames, turned
    back."""
    base = bundle(dim)
    functions, fields = mixed_signals(dim)
    turns = torch.from_numpy(random_orthogonal(base.num_points, dim, 1))
    other = base.rebuilt(base.points @ rotation.T, rotation @ base.frames @ turns)
    operators = nn.MixedOperators.of(base, oriented=oriented)
    other_operators = nn.MixedOperators.of(other, oriented=oriented)
    expected = net(functions, fields, operators)
    got_functions, got_fields = net(functions, turns.mT @ fields, other_operators)
    return expected, (got_functions, turns @ got_fields)


@pytest.mark.parametrize("dim", DIMENSIONS)
@pytest.mark.parametrize("name", mixed_networks(2))
def test_networks_of_functions_and_fields_do_not_see_frames(name, dim):
    net = shuffled(mixed_networks(dim)[name])
    rotation = torch.from_numpy(random_orthogonal(1, dim + 1, 2)[0])
    expected, answers = rotated_answers(net, dim, rotation, oriented=False)
    for answer, wanted in zip(answers, expected, strict=True):
        assert relative_error(answer, wanted) < 1e-9


@pytest.mark.parametrize("name", mixed_networks(2))
def test_oriented_networks_see_mirrors_and_neither_frames_nor_rotations(name):
    net = shuffled(mixed_networks(2, oriented=True)[name])
    rotation = torch.from_numpy(random_orthogonal(1, 3, 2)[0])
    rotation = rotation * torch.linalg.det(rotation).sign()
    expected, answers = rotated_answers(net, 2, rotation, oriented=True)
    for answer, wanted in zip(answers, expected, strict=True):
        assert relative_error(answer, wanted) < 1e-9
    expected, answers = rotated_answers(net, 2, -rotation, oriented=True)
    assert relative_error(answers[0], expected[0]) > 1e-3


def test_oriented_layers_have_curls_and_turned_fields():
    """All weights but one are zero: what is left is a curl, an area, and fields turned by J."""
    base = bundle(2)
    operators = nn.MixedOperators.of(base, oriented=True)
    derivatives = tb.calculus.Derivatives(base, degree=2)
    functions, fields = mixed_signals(2)
    s, v = functions[..., :1], fields[..., :1]
    layer = nn.MixedTNN([1, 1], [1, 1], taps=1, oriented=True).double().layers[0]
    with torch.no_grad():
        layer.left.fill_(1.0)
        layer.right.fill_(2.0)
    got_functions, got_fields = layer.exchange(s, v, operators)
    curl = derivatives.curl() @ v
    assert relative_error(got_functions[..., 3:4], curl) < 1e-12
    assert float(got_functions[..., 4].detach().abs().max()) < 1e-12  # <v, 2 J v>
    rot = derivatives.rot() @ s
    assert relative_error(got_fields[..., 4:5], rot) < 1e-12
    twice = operators.turn(operators.turn(v))
    assert relative_error(twice, -v) < 1e-15


def test_oriented_networks_need_an_orientation():
    net = nn.MixedTNN([3, 2], [CHANNELS, 2], oriented=True).double()
    operators = nn.MixedOperators.of(bundle(2))
    with pytest.raises(tb.errors.InvalidInputError, match="oriented=True"):
        net(*mixed_signals(2), operators)
    with pytest.raises(tb.errors.InvalidInputError, match="d = 2"):
        nn.MixedOperators.of(bundle(3), oriented=True)
    oriented = nn.MixedOperators.of(bundle(2), oriented=True)
    with pytest.raises(tb.errors.InvalidInputError, match="1 of 2 operators are oriented"):
        nn.MixedOperators.join([operators, oriented])


@pytest.mark.parametrize("dimensionless", [False, True])
def test_joined_operators_are_their_parts(dimensionless):
    clouds = [tb.manifolds.Sphere(2).sample(60, seed=0), 3.0 * tb.manifolds.Sphere(2).sample(90)]
    parts = []
    for cloud in clouds:
        points = torch.from_numpy(cloud)
        operators = nn.MixedOperators.of(
            tb.TangentBundle.from_points(points, dim=2, neighbors=12), oriented=True
        )
        parts.append(operators)
    joined = nn.MixedOperators.join(parts)
    if dimensionless:
        joined = joined.dimensionless
        parts = [part.dimensionless for part in parts]
    net = shuffled(mixed_networks(2, oriented=True)["ResidualMixedTNN"])
    s, v = numbers(150, 1, 3), numbers(150, 2, CHANNELS)
    together = net(s, v, joined)
    alone = [
        net(own_s, own_v, part)
        for own_s, own_v, part in zip(s.split([60, 90]), v.split([60, 90]), parts, strict=True)
    ]
    for number, answer in enumerate(together):
        expected = torch.cat([outputs[number] for outputs in alone])
        assert relative_error(answer, expected) < 1e-10


def test_messages_with_features_of_edges_do_not_see_frames():
    """And each neighbour weighs as much as the perceptron says."""
    base = bundle(2)
    turns = torch.from_numpy(random_orthogonal(base.num_points, 2, 1))
    rotation = torch.from_numpy(random_orthogonal(1, 3, 2)[0])
    other = base.rebuilt(base.points @ rotation.T, rotation @ base.frames @ turns)
    conv = shuffled(nn.EdgeFeatureConv(CHANNELS, 3, edge_channels=1))
    x = numbers(base.num_points, 2, CHANNELS)
    answers = []
    for part, signal in ((base, x), (other, turns.mT @ x)):
        data = tb.interop.to_pyg(part)
        source, target = data.edge_index
        lengths = torch.linalg.vector_norm(data.pos[source] - data.pos[target], dim=1)
        answers.append(conv(signal, data.edge_index, data.transport, lengths[:, None]))
    assert relative_error(turns @ answers[1], answers[0]) < TOLERANCE
    with pytest.raises(tb.errors.ShapeError, match="edge_features"):
        conv(x, data.edge_index, data.transport, lengths)
    with pytest.raises(tb.errors.DTypeError, match=r"float64 but x torch\.float32"):
        conv(x.float(), data.edge_index, data.transport, lengths[:, None])


# What each part promises.


def test_layer_norm_of_vectors_removes_their_size():
    laplacian = bundle(2).laplacian()
    x = random_signal(laplacian, CHANNELS)
    sizes = 1.0 + torch.rand(len(x), 1, 1, dtype=torch.float64)
    norm = nn.PointNorm(CHANNELS, eps=1e-12).double()
    assert relative_error(norm(sizes * x, laplacian), norm(x, laplacian)) < 1e-9
    assert relative_error(norm(x, laplacian).square().mean((1, 2)), torch.ones(len(x))) < 1e-9
    assert float(norm(0.0 * x, laplacian).detach().abs().max()) == 0.0


def test_norms_of_clouds_commute_with_filters():
    """And are those of each cloud by itself."""
    both = tb.join([bundle(2).laplacian()] * 2)
    x = torch.cat([random_signal(both.parts[0], CHANNELS), 100.0 * random_signal(both.parts[0], 4)])
    norm = nn.CloudNorm(CHANNELS, eps=1e-14).double()
    y = norm(x, both)
    first, second = both.split(y)
    assert relative_error(second, first) < 1e-9
    factors = y / x
    for cloud in both.split(factors):
        assert relative_error(cloud, cloud[:1, :1].expand_as(cloud)) < 1e-12


def test_gates_see_all_channels():
    gate = shuffled(nn.NormGate(2))
    x = numbers(5, 2, 2)
    other = x.clone()
    other[..., 1] *= 3.0
    assert relative_error(gate(x, None)[..., 0], gate(other, None)[..., 0]) > 1e-3
    along = gate(x, None) / x
    assert relative_error(along[:, 0], along[:, 1]) < 1e-12  # directions stay
    assert torch.equal(nn.NormGate(2)(torch.zeros(5, 2, 2), None), torch.zeros(5, 2, 2))


def test_dropout_drops_vectors_and_keeps_the_mean():
    torch.manual_seed(0)
    x = torch.ones(20_000, 3, 2)
    dropout = nn.VectorDropout(0.25)
    y = dropout(x)
    assert torch.equal(y, y[:, :1].expand_as(y))
    assert abs(float((y == 0).double().mean()) - 0.25) < 0.01
    assert abs(float(y.mean()) - 1.0) < 0.02
    assert torch.equal(dropout.eval()(x), x)
    for bad in (-0.1, 1.0, "a half", float("nan")):
        with pytest.raises(tb.errors.InvalidInputError, match="dropout"):
            nn.VectorDropout(bad)


def test_attention_is_a_mean_with_positive_weights():
    both = tb.join([bundle(2).laplacian(), bundle(2).laplacian()])
    pooling = nn.AttentionPooling(features=6, heads=2).double()
    features = numbers(both.num_points, 6)
    weights = pooling.attention(features, both)
    for part in both.split(weights.unsqueeze(-2)):
        assert bool((part > 0).all())
        np.testing.assert_allclose(part.sum(0).detach().numpy(), 1.0, rtol=1e-12)
    with torch.no_grad():
        pooling.score.zero_()
    assert relative_error(pooling(features, both), nn.MeanPooling()(features, both)) < 1e-12
    shifted = shuffled(pooling)
    high = features + 1e4  # exponentials of scores do not overflow
    assert bool(torch.isfinite(shifted(high, both)).all())


# Deep networks.


def test_twenty_layers_train():
    """20 blocks learn a field that no filter makes, and better than 20 plain layers."""
    laplacian = bundle(2).laplacian().dimensionless.to(dtype=torch.float32)
    x = numbers(8, bundle(2).num_points, 2, 1, dtype=torch.float32)
    sharp = x - tb.Heat(0.2)(laplacian, x)
    target = sharp / (1.0 + sharp.square().sum(dim=-2, keepdim=True))
    losses = {}
    for name, net in {
        "points": nn.ResidualTNN([1, 8, 1], layers=20, step=0.1),
        "clouds": nn.ResidualTNN([1, 8, 1], layers=20, step=0.1, norm=nn.CloudNorm()),
        "plain": nn.TNN([1, *[8] * 19, 1], step=0.1),
    }.items():
        result = tb.fit(net, [(x, laplacian, target)], epochs=150, lr=5e-3, progress=False)
        losses[name] = result.best / float(target.square().mean())
    assert losses["points"] < 0.01
    assert losses["clouds"] < 0.01
    assert losses["plain"] > 1.5 * max(losses["points"], losses["clouds"])


def test_refusals():
    for channels in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(tb.errors.InvalidInputError):
            nn.ResidualTNN(channels)
    with pytest.raises(tb.errors.InvalidInputError, match="input, blocks and output"):
        nn.ResidualMixedTNN([1, 2], [1, 2])
    with pytest.raises(tb.errors.InvalidInputError, match="FieldNorm"):
        nn.ResidualBlock(2, norm=torch.nn.LayerNorm(2))
    with pytest.raises(tb.errors.ShapeError, match="4 channels"):
        nn.PointNorm(4)(torch.zeros(80, 2, 3).double(), bundle(2).laplacian())
