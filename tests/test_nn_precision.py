"""Networks in every precision, under autocast and not: they run forward and backward, or say why
not."""

import contextlib

import network_parts
import pytest
import torch
from network_parts import NETWORKS, bundle, inputs, numbers, outputs

import tangentbundle as tb
from tangentbundle.errors import DTypeError, InvalidInputError, ShapeError
from tangentbundle.operators import DirectedPath, Identity
from tangentbundle.testing import (
    assert_gauge_equivariant,
    assert_rotation_equivariant,
    relative_error,
)

nn = tb.nn
HALVES = [torch.bfloat16, torch.float16]
CASTS = [(None, torch.bfloat16), (torch.bfloat16, torch.bfloat16), (torch.bfloat16, None)]
ALIKE = ("filter:", "output:", "widths:", "all", "many")
NAMES = [
    *(name for name in NETWORKS if not name.startswith(ALIKE)),
    *("filter: learned", "filter: learned factor", "filter: partial", "filter: foreign in a sum"),
]


def run(net, dtype, signal=None, cast=None):
    """Outputs and gradients, in float64."""
    context = torch.autocast("cpu", cast) if cast else contextlib.nullcontext()
    net.zero_grad()
    with context:
        answers = outputs(net(*inputs(net, dtype, signal)))
        loss = sum(answer.double().square().mean() for answer in answers)
    loss.backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
    return answers, gradients


@pytest.mark.parametrize("signal, cast", [*CASTS, (torch.float16, torch.float16)], ids=str)
def test_autocast_and_signals_in_half_precision(signal, cast):
    """The answers are those in float32 within the precision; weights and their gradients stay in
    float32."""
    for name in NAMES:
        if cast is None and name.startswith(("activation", "method")):
            continue
        net = NETWORKS[name]().eval()
        expected, slopes = run(net, torch.float32)
        answers, gradients = run(net, torch.float32, signal, cast)
        for got, truth in zip(answers, expected, strict=True):
            assert relative_error(got, truth) < 0.1, name
        assert {slope.dtype for slope in gradients} == {torch.float32}, name
        flat, truth = (torch.cat([g.flatten() for g in each]) for each in (gradients, slopes))
        assert relative_error(flat, truth) < 0.3, name  # kinks move


def test_float64_is_the_same_under_autocast():
    for name in NAMES[::3]:
        net = NETWORKS[name]().double().eval()
        expected, slopes = run(net, torch.float64)
        answers, gradients = run(net, torch.float64, cast=torch.bfloat16)
        assert all(relative_error(a, b) < 1e-9 for a, b in zip(answers, expected, strict=True)), (
            name
        )
        assert all(
            torch.allclose(a, b, atol=1e-9) for a, b in zip(gradients, slopes, strict=True)
        ), name


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_networks_in_half_precision_say_what_they_are_and_what_to_do(half):
    for name in NAMES:
        net = NETWORKS[name]().to(half)
        for signal in (torch.float32, half):
            with pytest.raises(
                DTypeError, match=rf"network is {half}.*net\.float\(\).*autocast\('cpu', {half}"
            ):
                net(*inputs(net, torch.float32, signal))
    run(net.float(), torch.float32, half, half)  # the remedy


def test_training_under_autocast(tmp_path):
    lap, x = network_parts.laplacian(torch.float32), numbers(24, 2, 1, dtype=torch.float32)

    def loss(net, batch):
        with torch.autocast("cpu", torch.bfloat16):
            *inputs, target = batch
            return tb.training.squared_error(net(*inputs), target)

    net = nn.TNN([1, 4, 1], step=0.1)
    result = tb.fit(
        net,
        [(x, lap, 0.5 * x)],
        tb.training.BatchLoss(loss),
        epochs=25,
        lr=0.1,
        checkpoint=tmp_path,
        progress=False,
    )
    assert result.best < 0.2 * result.history["training loss"][0]


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_operators_are_exact_under_autocast(half):
    for name, operator in {
        "Laplacian": bundle(torch.float32).laplacian(),
        "functions": bundle(torch.float32).scalar().laplacian(),
        "gradient": bundle(torch.float32).gradient(),
        "divergence": bundle(torch.float32).divergence(),
        "adjoint": bundle(torch.float32).gradient().adjoint,
        "joined": tb.join([bundle(torch.float32).laplacian()] * 2),
    }.items():
        x = numbers(operator.num_points, operator.in_rank, 2, dtype=torch.float32).requires_grad_()
        (slope,) = torch.autograd.grad((operator @ x).square().sum(), x)
        with torch.autocast("cpu", half):
            y = operator @ x
            (other,) = torch.autograd.grad(y.square().sum(), x)
        assert y.dtype == torch.float32 and relative_error(y, operator @ x) < 1e-6, name
        assert relative_error(other, slope) < 1e-6, name


# Identities.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_an_identity_takes_networks_of_any_precision(dtype, dim):
    identity = Identity.of(12, dim)
    x = numbers(12, dim, 2, dtype=dtype)
    for operator in (
        identity,
        tb.join([Identity.of(5, dim), Identity.of(7, dim)]),
        identity.to(dtype=dtype),
    ):
        for net in (
            nn.TNN([2, 3, 2]),
            nn.TNN([2, 3], readout=nn.SumReadout(3, 2, rank=dim)),
            nn.TNN([2, 3], readout=nn.InvariantReadout(3, 2)),
        ):
            answer = net.to(dtype)(x, operator)
            answer.sum().backward()
            assert answer.dtype == dtype
        sequence = nn.RecurrentTNN([2, 2]).to(dtype)(x.expand(3, *x.shape), operator)[0]
        assert sequence.dtype == dtype
        assert (
            torch.equal(tb.Heat(0.3)(operator, x), x) and float((operator @ x).abs().max()) == 0.0
        )
        assert operator.inner(x, x).dtype == dtype
        assert torch.allclose(operator.norm(x).square(), operator.inner(x, x))
    other = torch.float64 if dtype == torch.float32 else torch.float32
    for operator in (
        Identity.of(12, dim, other),
        Identity.of(12, dim).to(dtype=other),
        DirectedPath.of(12, 1.0, other),
    ):
        with pytest.raises(DTypeError, match="never mixed"):
            tb.Heat(1.0)(operator, numbers(12, operator.rank, 2, dtype=dtype))


# Checks for users' own networks.


@pytest.mark.parametrize("check", [assert_gauge_equivariant, assert_rotation_equivariant])
def test_checks_of_symmetries_take_any_number_of_channels(check):
    for channels in (1, 2, 3, 5):
        net = nn.TNN([channels, 3, 2], step=0.1).double()
        options = {} if channels < 3 else {"channels": channels}
        check(lambda lap, x, net=net: net(x, lap), bundle(torch.float64), **options)
        check(lambda lap, x, net=net: net(x, lap), bundle(torch.float64), channels=channels)
    wide = nn.TNN([3, 3, 2], step=0.1).double()
    with pytest.raises(InvalidInputError, match="channels=3"):
        check(lambda lap, x: wide(x, lap), bundle(torch.float64))
    with pytest.raises(ShapeError, match="3 channels"):
        check(lambda lap, x: wide(x, lap), bundle(torch.float64), channels=1)
    for channels in (0, 1.5, "2"):
        with pytest.raises(InvalidInputError, match="channels must be a positive integer"):
            check(lambda lap, x: x, bundle(torch.float64), channels=channels)


def test_they_find_what_depends_on_frames_with_one_channel():
    net = nn.TNN([1, 3, 1], activation=nn.Coordinatewise(), step=0.1).double()
    with pytest.raises(AssertionError, match="change of frames"):
        assert_gauge_equivariant(lambda lap, x: net(x, lap), bundle(torch.float64))


# Activations of each layer.


@pytest.mark.parametrize("kind", [nn.TNN, nn.RecurrentTNN, nn.GatedTNN])
def test_every_layer_has_its_own_activation(kind):
    activation = network_parts.Shared(0.5)
    net = kind([1, 3, 2, 1], activation=activation)
    own = [module for module in net.modules() if isinstance(module, network_parts.Shared)]
    assert len(own) == {nn.TNN: 2, nn.RecurrentTNN: 3, nn.GatedTNN: 2}[kind]
    weights = {id(module.start) for module in own}
    assert len(weights) == len(own) and id(activation.start) not in weights
    x = (
        numbers(3, 24, 2, 1, dtype=torch.float32)
        if kind is not nn.TNN
        else numbers(24, 2, 1, dtype=torch.float32)
    )
    outputs(net(x, network_parts.laplacian(torch.float32)))[0].square().sum().backward()
    slopes = {float(module.start.grad) for module in own}
    assert len(slopes) == len(own) and activation.start.grad is None


@pytest.mark.parametrize("kind", [nn.TNN, nn.RecurrentTNN, nn.GatedTNN])
def test_weights_for_each_channel_fit_every_layer_or_are_refused(kind):
    widths = [1, 3, 2, 4]
    net = kind(widths, activation=network_parts.PerChannel())
    scales = [len(m.scale) for m in net.modules() if isinstance(m, network_parts.PerChannel)]
    assert scales == {nn.TNN: [3, 2], nn.RecurrentTNN: [3, 2, 4], nn.GatedTNN: [3, 2]}[kind]

    class Fixed(network_parts.PerChannel):
        sized = nn.Activation.sized  # the same number for every layer

    lap = network_parts.laplacian(torch.float32)
    x = (
        numbers(3, 24, 2, 1, dtype=torch.float32)
        if kind is not nn.TNN
        else numbers(24, 2, 1, dtype=torch.float32)
    )
    for width in (2, 3, 5):
        with pytest.raises(
            ShapeError, match=r"Fixed does not fit a layer with \d channels.*sized\(channels\)"
        ):
            kind(widths, activation=Fixed(width))(x, lap)
    assert outputs(kind([1, 3, 3, 3], activation=Fixed(3))(x, lap))[0].shape[-1] == 3

    class Wider(nn.Activation):
        def forward(self, x, operator):
            return torch.cat([x, x], dim=-1)

    with pytest.raises(ShapeError, match="Wider does not fit"):
        kind([1, 1, 1], activation=Wider())(x, lap)

    class Stuck(nn.Activation):
        def __deepcopy__(self, memo):
            raise TypeError("cannot pickle a lock")

        def sized_wrongly(self, channels):
            return torch.tanh

        def forward(self, x, operator):
            return x

    with pytest.raises(InvalidInputError, match=r"Stuck.*cannot be copied.*sized\(channels\)"):
        kind(widths, activation=Stuck())
    Stuck.sized = Stuck.sized_wrongly
    with pytest.raises(InvalidInputError, match=r"Stuck\.sized must return an Activation"):
        kind(widths, activation=Stuck())


FILTER_METHODS = [None, tb.Exact(), tb.Dense(), tb.Chebyshev()]


class Matrix(tb.operators.SquareOperator):
    """A self-adjoint operator of a user's own, by a dense product, which autocast would round."""

    def __init__(self, matrix):
        self.matrix = matrix
        self.mass = torch.full((len(matrix),), 1.0 / len(matrix))
        self.rank = 1

    @property
    def adjoint(self):
        return self

    def apply(self, x):
        return torch.einsum("ij,...jdc->...idc", self.matrix, x)


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("method", FILTER_METHODS, ids=str)
def test_filters_are_exact_under_autocast(method, half):
    """Signals in float32 are filtered to float32, by all methods alike, and nothing that is cached
    within autocast is less precise later."""
    points = torch.from_numpy(tb.manifolds.Sphere(2).sample(60, seed=3)).float()
    signal = numbers(60, 2, 4, dtype=torch.float32)
    for h in (tb.Heat(0.2), tb.Tikhonov(0.5) - tb.Heat(0.1)):
        expected = h(tb.TangentBundle.from_points(points).laplacian(), signal, method)
        lap = tb.TangentBundle.from_points(points).laplacian()
        with torch.autocast("cpu", half):
            within = h(lap, signal, method)
        assert within.dtype == torch.float32 and torch.equal(within, expected)
        assert torch.equal(h(lap, signal, method), expected)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_eigenfields_are_exact_under_autocast(half):
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(20, 20, generator=generator)
    operator = Matrix(-root @ root.T)
    expected = operator.decompose()[0]
    with torch.autocast("cpu", half):
        assert torch.equal(operator.decompose()[0], expected)
