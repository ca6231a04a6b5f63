"""Learned sheaves: layers against dense formulas, symmetries, PyTorch Geometric, files, and bad
input."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.errors import DTypeError, InvalidInputError, NonFiniteError, ShapeError
from tangentbundle.nn.sheaf_inputs import graph_of
from tangentbundle.nn.sheaf_networks import connection_laplacian
from tangentbundle.operators import BlockDegrees, ScalarDegrees
from tangentbundle.testing import assert_gauge_equivariant, relative_error

N, FEATURES = 9, 5
EDGES = torch.tensor([[0, 1, 2, 3, 0, 5, 6, 1], [1, 2, 3, 0, 2, 6, 7, 5]])  # node 8 has none
PARAMETRIZATIONS = [
    nn.Diagonal(),
    nn.Cayley(),
    nn.Householder(),
    nn.MatrixExponential(),
    nn.General(),
]


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def weights(m=EDGES.shape[1]):
    return 0.5 + normal(m, seed=9).square()


def networks(builder=None):
    builder = builder or nn.SheafLearner(3, nn.General())
    return {
        "diffusion": nn.SheafDiffusion(FEATURES, 4, 2, builder, layers=2, seed=1),
        "blocks": nn.SheafDiffusion(
            FEATURES, 4, 2, builder, normalization=BlockDegrees(1.0), own=False
        ),
        "orthogonal": nn.SheafDiffusion(FEATURES, 4, 2, nn.SheafLearner(3), layers=2, seed=2),
        "sheaf network": nn.SheafTNN(FEATURES, 4, 2, builder, layers=2),
        "polynomial": nn.SheafTNN(FEATURES, 4, 2, builder, taps=4),
        "heat": nn.SheafTNN(FEATURES, 4, 2, builder, filters=[tb.Heat(0.0), tb.Heat(0.7)]),
    }


NAMES = list(networks())
MODULES = {
    **networks(nn.SheafLearner(2, nn.Householder(), hidden=7)),
    "conv": nn.SheafConv(6, 4, nn.SheafLearner(2), taps=3),
    "connection": nn.SheafConv(4, 4, nn.ConnectionSheaf(2), normalization=ScalarDegrees(0.5)),
    "tangent": nn.TangentConv(
        2, 3, filters=[tb.Heat(0.0), tb.Heat(torch.nn.Parameter(torch.tensor(0.3)))]
    ),
    "learner": nn.SheafLearner(3, nn.Diagonal(), 4),
}


@pytest.mark.parametrize("parametrization", PARAMETRIZATIONS, ids=str)
def test_the_map_of_an_end_depends_on_its_own_and_the_other_features(parametrization):
    learner, x = nn.SheafLearner(3, parametrization, FEATURES).double(), normal(N, FEATURES)
    sheaf = learner(x, EDGES)
    for edge, (source, target) in enumerate(EDGES.T):
        for side, (own, other) in enumerate(((source, target), (target, source))):
            hidden = torch.tanh(learner.first(x[own])[:16] + learner.first(x[other])[16:])
            assert torch.allclose(
                sheaf.maps[edge, side], parametrization(learner.last(hidden), 3), atol=1e-12
            )


@pytest.mark.parametrize("weight", [None, weights()], ids=["", "weighted"])
def test_diffusion_is_its_formula(weight):
    for parametrization in (nn.General(), nn.Cayley()):
        net = nn.SheafDiffusion(
            FEATURES, 4, 2, nn.SheafLearner(3, parametrization), layers=1, seed=1
        ).double()
        block, x = net.blocks[0], normal(N, FEATURES)
        torch.nn.init.normal_(block.layer.left)
        signal = F.elu(net.encoder(x))
        fed = F.layer_norm(signal, (12,))
        delta = torch.from_numpy(net.builders[0](fed, EDGES, weight).coboundary().toarray())
        square = delta.T @ delta
        root = (square.diagonal().reshape(N, 3).mean(1) + 1).rsqrt().repeat_interleave(3)
        step = torch.eye(3 * N) - root[:, None] * square * root
        mixed = (block.layer.left.T @ fed.unflatten(1, (3, 4)) @ block.layer.right).flatten(0, 1)
        expected = signal + F.elu(block.own(fed) + (step @ mixed).reshape(N, 12))
        assert torch.allclose(net(x, EDGES, weight), net.decoder(expected), atol=1e-12)


def test_a_node_has_weights_of_its_own_where_asked():
    for kind, own in itertools.product((nn.SheafDiffusion, nn.SheafTNN), (True, False)):
        assert all((block.own is not None) == own for block in kind(FEATURES, 4, 2, own=own).blocks)


@pytest.mark.parametrize("number", [2, 4])
def test_a_polynomial_network_is_its_formula(number):
    net = nn.SheafTNN(
        FEATURES, 4, 2, nn.SheafLearner(2, nn.Cayley()), layers=1, taps=number
    ).double()
    x = normal(N, FEATURES)
    signal = F.elu(net.encoder(x))
    fed = F.layer_norm(signal, (8,))
    operator = net.builders[0](fed, EDGES).laplacian(ScalarDegrees(1.0))
    shift = torch.eye(2 * N, dtype=torch.float64) + operator.to_dense()
    flat, bank = fed.reshape(2 * N, 4), net.blocks[0].layer.weight
    taps = sum(torch.linalg.matrix_power(shift, k) @ flat @ bank[k] for k in range(number))
    expected = net.decoder(signal + F.elu(net.blocks[0].own(fed) + taps.reshape(N, -1)))
    assert torch.allclose(net(x, EDGES), expected, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name):
    net, x = networks()[name].double(), normal(N, FEATURES).requires_grad_()
    torch.autograd.gradcheck(
        lambda x, w, *_: net(x, EDGES, w),
        (x, weights().requires_grad_(), *net.parameters()),
        atol=2e-5,
        fast_mode=True,
    )
    gradients = torch.autograd.grad(net(x, EDGES).square().sum(), list(net.parameters()))
    assert all(gradient.abs().max() > 0 for gradient in gradients)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_nodes_and_directions_of_edges_do_not_matter(name):
    net, x, order = (
        networks()[name].double(),
        normal(N, FEATURES),
        torch.randperm(N, generator=torch.Generator().manual_seed(1)),
    )
    expected = net(x, EDGES)
    assert relative_error(net(x[order], torch.argsort(order)[EDGES]), expected[order]) < 1e-9
    assert relative_error(net(x, EDGES.flip(0, 1)), expected) < 1e-9
    assert relative_error(net(x, torch.cat([EDGES, EDGES.flip(0)], 1)), expected) < 1e-9
    assert relative_error(net.float()(x.float(), EDGES), expected) < 1e-4


# Connection sheaves.


@pytest.mark.parametrize("dim", [2, 3])
def test_connection_sheaves_are_the_tangent_bundle(dim):
    """Their spectrum is that of exact tangent spaces. On a flat space the d parallel fields have no
    energy."""
    space = tb.manifolds.Sphere(dim)
    points = space.sample(400, seed=0)
    graph = tb.TangentBundle.from_points(points, dim=dim).graph
    pairs = np.stack([graph.rows, graph.indices])[:, graph.rows < graph.indices].astype(np.int64)
    frames = torch.from_numpy(space.frames(points))
    left, _, right = torch.linalg.svd(frames[pairs[1]].mT @ frames[pairs[0]])
    truth = tb.Sheaf.from_edges(pairs, left @ right).laplacian(ScalarDegrees()).spectrum(8)[0]
    found = nn.ConnectionSheaf(dim)(torch.from_numpy(points), torch.from_numpy(pairs)).laplacian(
        ScalarDegrees()
    )
    assert np.allclose(found.spectrum(8)[0], truth, rtol=0.15)
    flat = torch.from_numpy(
        points[:, :dim] @ np.linalg.qr(np.random.default_rng(0).standard_normal((7, dim)))[0].T
    )
    parallel = (
        nn.ConnectionSheaf(dim)(flat, torch.from_numpy(pairs)).laplacian().spectrum(dim + 1)[0]
    )
    assert parallel[:dim].max() < 1e-9 < 1e-3 < parallel[dim]


def test_connection_sheaves_are_orthogonal_whatever_the_neighbourhoods():
    for x in (
        normal(N, FEATURES),
        torch.ones(N, FEATURES, dtype=torch.float64),
        F.one_hot(torch.arange(N) % 3).double(),
    ):
        maps = nn.ConnectionSheaf(3)(x, EDGES).maps
        assert torch.allclose(maps.mT @ maps, torch.eye(3, dtype=x.dtype), atol=1e-9)
    with pytest.raises(InvalidInputError, match="rank = 7"):
        nn.ConnectionSheaf(7)(normal(N, FEATURES), EDGES)


# Layers for PyTorch Geometric.


def edges_of(frames):
    """All edges of a small complete graph, and the transports between frames."""
    n = len(frames)
    edge_index = torch.combinations(torch.arange(n)).T
    left, _, right = torch.linalg.svd(frames[edge_index[1]].mT @ frames[edge_index[0]])
    return edge_index, left @ right


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_tangent_convolutions_do_not_depend_on_frames(dim):
    bundle = tb.TangentBundle.from_points(
        torch.from_numpy(tb.manifolds.Sphere(dim).sample(40, seed=0)), dim=dim
    )
    conv = nn.TangentConv(2, 3, taps=3, step=0.5).double()
    assert_gauge_equivariant(lambda lap, x: conv(x, *edges_of(lap.frames)), bundle, tol=1e-9)


def test_operators_are_built_once_and_again_when_something_changes():
    conv, x = nn.TangentConv(1, 1), torch.randn(3, 2, 1)
    edge_index, transport = torch.tensor([[0, 1], [1, 2]]), torch.eye(2).repeat(2, 1, 1)
    first = conv(x, edge_index, transport)
    operator = connection_laplacian(edge_index, transport, None, 3)
    assert connection_laplacian(edge_index, transport, None, 3) is operator
    assert connection_laplacian(edge_index, transport, torch.ones(2), 3) is not operator
    transport[0] = -torch.eye(2)
    assert not torch.allclose(conv(x, edge_index, transport), first)
    assert (
        graph_of(edge_index, 3) is graph_of(edge_index, 3)
        and graph_of(edge_index, 4).num_nodes == 4
    )
    assert torch.equal(
        copy.deepcopy(conv)(x, edge_index, transport), conv(x, edge_index, transport)
    )
    learned = torch.eye(2).repeat(2, 1, 1).requires_grad_()
    conv(x, edge_index, learned).square().sum().backward()
    assert learned.grad.abs().max() > 0


def test_batches_are_what_their_graphs_are_alone():
    pyg = pytest.importorskip("torch_geometric")
    net = pyg.nn.Sequential(
        "x, edge_index",
        [
            (nn.SheafConv(FEATURES + 1, 8), "x, edge_index -> x"),
            torch.nn.ELU(),
            (nn.SheafConv(8, 2), "x, edge_index -> x"),
        ],
    ).double()
    graphs = [
        pyg.data.Data(x=normal(N, FEATURES + 1, seed=s), edge_index=edges)
        for s, edges in enumerate((EDGES, EDGES[:, :3], EDGES[:, :0]))
    ]
    graphs.append(pyg.data.Data(x=normal(0, FEATURES + 1), edge_index=EDGES[:, :0]))
    batch = pyg.data.Batch.from_data_list(graphs)
    alone = torch.cat([net(graph.x, graph.edge_index) for graph in graphs[:3]])
    assert relative_error(net(batch.x, batch.edge_index), alone) < 1e-9
    data = tb.interop.to_pyg(
        tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(50, seed=0))
    )
    assert nn.TangentConv(1, 4).double()(
        normal(50, 2, 1), data.edge_index, data.transport, data.edge_weight
    ).shape == (
        50,
        2,
        4,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["diffusion", "conv"])
def test_compiled(name):
    torch.compiler.reset()
    net = MODULES[name].double()
    x = normal(N, FEATURES if name == "diffusion" else 6)
    got = torch.compile(net, backend="aot_eager")(x, EDGES)
    gradients = torch.autograd.grad(got.square().sum(), list(net.parameters()))
    expected = net(x, EDGES)
    truth = torch.autograd.grad(expected.square().sum(), list(net.parameters()))
    assert relative_error(got, expected) < 1e-12
    assert all(relative_error(g, t) < 1e-10 for g, t in zip(gradients, truth, strict=True))
    torch.compiler.reset()


@pytest.mark.parametrize("name", MODULES)
def test_files(name, tmp_path):
    net = MODULES[name].float()
    tb.save(net, tmp_path / "net.safetensors")
    again = tb.load(tmp_path / "net.safetensors")
    assert repr(again) == repr(net) and again.arguments.keys() == net.arguments.keys()
    assert all(
        torch.equal(a, b)
        for a, b in zip(net.state_dict().values(), again.state_dict().values(), strict=True)
    )
    if name in NAMES:
        x, again = normal(N, FEATURES).float(), pickle.loads(pickle.dumps(again))
        assert torch.equal(net(x, EDGES), again(x, EDGES))


# Bad input.


def test_maps_that_are_not_finite_name_their_layer():
    net = nn.SheafDiffusion(FEATURES, 4, 2, layers=3).double()
    with torch.no_grad():
        net.builders[1].last.bias.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="layer 1"):
        net(normal(N, FEATURES), EDGES)
    x = normal(N, FEATURES)
    x[3, 1] = float("nan")
    with pytest.raises(NonFiniteError, match="x must be finite"):
        net(x, EDGES)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda net, x: net(x[:, :3], EDGES), ShapeError, r"\(n, 5\)"),
        (lambda net, x: net(x.float(), EDGES), DTypeError, "float64"),
        (lambda net, x: net(x[:4], EDGES), InvalidInputError, "vertex 7"),
        (lambda net, x: net(x, torch.cat([EDGES, EDGES], 1)), InvalidInputError, "twice"),
        (lambda net, x: net(x, EDGES, weights(3)), ShapeError, "edge_weight"),
        (lambda net, x: net(x[:0], EDGES[:, :0]), InvalidInputError, "num_nodes"),
        (
            lambda net, x: nn.SheafLearner(2, in_channels=3).double()(x, EDGES),
            ShapeError,
            r"\(n, 3\)",
        ),
        (lambda net, x: nn.SheafConv(6, 4)(normal(N, 6), EDGES), DTypeError, "float32"),
        (lambda net, x: nn.SheafConv(6, 4)(x.numpy(), EDGES), ShapeError, "tensor"),
        (lambda net, x: net(x, EDGES.numpy()), InvalidInputError, "torch tensors"),
        (lambda net, x: nn.SheafConv(5, 4), InvalidInputError, "multiple"),
        (lambda net, x: nn.SheafDiffusion(5, 4, 2, nn.Cayley()), InvalidInputError, "SheafBuilder"),
        (lambda net, x: nn.SheafDiffusion(5, 4, 2, dropout=1.0), InvalidInputError, "dropout"),
        (lambda net, x: nn.SheafDiffusion(5, 4, 2, dropout="0.5"), InvalidInputError, "dropout"),
        (lambda net, x: nn.SheafDiffusion(5, 4, 2, own="no"), InvalidInputError, "own=True"),
        (lambda net, x: net(x, EDGES, -weights()), InvalidInputError, "negative"),
        (lambda net, x: net(x, EDGES, float("nan") * weights()), NonFiniteError, "weights"),
        (lambda net, x: net(x, EDGES - 1), InvalidInputError, "at least 0"),
        (lambda net, x: net(x, EDGES.double()), InvalidInputError, "integers"),
        (lambda net, x: net(x, EDGES.T), ShapeError, r"\(2, e\)"),
        (lambda net, x: nn.TangentConv(1, 1)(x, EDGES, torch.eye(2)), ShapeError, "channels"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(nn.SheafDiffusion(FEATURES, 4, 2).double(), normal(N, FEATURES))


@pytest.mark.parametrize(
    "builder", [nn.SheafLearner(2), nn.ConnectionSheaf(2)], ids=lambda b: type(b).__name__
)
def test_the_numbering_of_nodes_does_not_matter(builder):
    net, x = nn.SheafDiffusion(FEATURES, 4, 2, builder).double(), normal(N, FEATURES)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    assert relative_error(net(x[order], torch.argsort(order)[EDGES]), net(x, EDGES)[order]) < 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_what_inference_has_cached_serves_training(name):
    net, x, edge_index = networks()[name].double(), normal(N, FEATURES), EDGES.clone()
    with torch.inference_mode():
        expected = net(x, edge_index).clone()
    got = net(x, edge_index)
    got.square().sum().backward()
    assert relative_error(got, expected.clone()) < 1e-14


@pytest.mark.parametrize("name", NAMES)
def test_self_loops_do_not_matter(name):
    net, x = networks()[name].double(), normal(N, FEATURES)
    loops = torch.cat([EDGES, torch.tensor([[3, 8], [3, 8]])], 1)
    assert torch.equal(net(x, loops), net(x, EDGES))


@pytest.mark.parametrize("parametrization", PARAMETRIZATIONS, ids=str)
@pytest.mark.parametrize("dim", [1, 4])
def test_any_dimension_of_the_stalks(parametrization, dim):
    """Maps that are known to be orthogonal have the Laplacian that is computed of them."""
    learner, x = nn.SheafLearner(dim, parametrization, FEATURES).double(), normal(N, FEATURES)
    for weight, degrees in itertools.product(
        (None, weights()), (None, ScalarDegrees(1.0), BlockDegrees())
    ):
        sheaf = learner(x, EDGES, weight)
        plain = tb.Sheaf(sheaf.graph, sheaf.maps, sheaf.weights)
        assert torch.allclose(
            sheaf.laplacian(degrees).to_dense(), plain.laplacian(degrees).to_dense(), atol=1e-12
        )


def test_replicas_of_features():
    net, x = (
        networks()["orthogonal"].double(),
        torch.stack([normal(N, FEATURES, seed=s) for s in range(3)]),
    )
    edge_index = EDGES.clone()
    got = torch.vmap(lambda features: net(features, edge_index))(x)
    assert relative_error(got, torch.stack([net(features, edge_index) for features in x])) < 1e-12


def test_a_graph_without_edges():
    for net in networks(nn.ConnectionSheaf(2)).values():
        assert net.double()(normal(N, FEATURES), EDGES[:, :0]).shape == (N, 2)
