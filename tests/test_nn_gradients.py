"""One network, every way of evaluating it: equal outputs, and gradients that finite differences
confirm."""

import warnings
from functools import cache

import pytest
import torch
from pairwise import all_pairs

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.manifolds import Sphere
from tangentbundle.testing import random_signal, relative_error

METHODS = {"sparse": tb.Chebyshev(1e-13), "dense": tb.Dense(), "exact": tb.Exact()}
SIZES = {1: 12, 2: 9, 3: 7}
STEP = 0.3


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@cache
def laplacian(dim=2, n=None, seed=0):
    space = Sphere(dim)
    points = torch.from_numpy(space.sample(n or SIZES[dim], seed=seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few points have no small neighbourhoods
        return tb.TangentBundle.from_frames(
            points, space.frames(points), eps=3.0 + 0.05 * seed
        ).laplacian()


@cache
def joined(dim=2):
    return tb.join([laplacian(dim, n, seed=n) for n in (SIZES[dim] - 2, SIZES[dim])])


OPERATORS = {"one bundle": laplacian, "joined": joined}


def make(method, learned=False, activation=None, channels=(1, 3, 1)):
    """Layers on either side of the bank: more channels out than in, then fewer; fixed or learned
    times."""
    times = [torch.nn.Parameter(torch.tensor(k * STEP)) for k in (1, 2)]
    bank = [tb.Heat(t) for t in (0.0, *times)] if learned else None
    return nn.TNN(
        channels, taps=3, step=STEP, filters=bank, activation=activation, method=method
    ).double()


def in_parameters(net, operator):
    """The network as a function of the signal and all parameters."""
    names = [name for name, _ in net.named_parameters()]

    def run(x, *values):
        return torch.func.functional_call(net, dict(zip(names, values, strict=True)), (x, operator))

    return run, [p.detach().clone().requires_grad_() for p in net.parameters()]


# Equal outputs.


@pytest.mark.parametrize("kind, dim, learned", all_pairs(OPERATORS, SIZES, [False, True]))
def test_every_path_gives_the_same(kind, dim, learned):
    operator = OPERATORS[kind](dim)
    x = random_signal(operator, channels=2)
    x = torch.stack([x, -0.5 * x.flip(0), x.square()])
    outputs, gradients = {}, {}
    for name, method in {**METHODS, "default": None}.items():
        net = make(method, learned, channels=[2, 4, 4, 1])
        outputs[name] = net(x, operator)
        gradients[name] = torch.autograd.grad(outputs[name].square().sum(), list(net.parameters()))
    assert len(gradients["exact"]) == (9 if learned else 3)
    for name in outputs:
        assert relative_error(outputs[name], outputs["exact"]) < 1e-11, name
        for got, expected in zip(gradients[name], gradients["exact"], strict=True):
            assert relative_error(got, expected) < 1e-9, name


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", OPERATORS)
def test_merging_is_the_transpose_of_a_bank(kind, name):
    """``<y_k, h_k x>`` summed over k is ``<merge(y), x>``, as filters are self-adjoint; and it is
    the sum it says."""
    operator, method = OPERATORS[kind](), METHODS[name]
    filters = [tb.Heat(0.1), tb.FIR([0.5, -1.0, 0.3], 0.2), tb.Heat(0.7)]
    x, ys = random_signal(operator), [random_signal(operator, seed=s) for s in (1, 2, 3)]
    merged = operator.merge(filters, ys, method)
    single = sum(h(operator, y, method) for h, y in zip(filters, ys, strict=True))
    assert relative_error(merged, single) < 1e-12
    left = sum(
        operator.inner(y, o) for y, o in zip(ys, operator.evaluate(filters, x, method), strict=True)
    )
    assert relative_error(operator.inner(merged, x), left) < 1e-11


def test_both_sides_of_a_bank_are_one_map():
    """A layer with more channels in than out mixes first; zero columns must change nothing."""
    lap = laplacian()
    x = random_signal(lap, channels=4)
    narrow = nn.BundleConv(4, 3, taps=3, step=STEP, method=tb.Chebyshev(1e-13)).double()
    wide = nn.BundleConv(4, 4, taps=3, step=STEP, method=tb.Chebyshev(1e-13)).double()
    with torch.no_grad():
        wide.weight.zero_()
        wide.weight[..., :3] = narrow.weight
    assert relative_error(wide(x, lap)[..., :3], narrow(x, lap)) < 1e-12


def test_a_layer_is_the_formula():
    """``sum_k e^(k Ts Delta) X H_k`` by dense exponentials."""
    lap = laplacian(3)
    x = random_signal(lap, channels=2)
    for out in (1, 2, 5):
        conv = nn.BundleConv(2, out, taps=4, step=STEP).double()
        shift = torch.linalg.matrix_exp(STEP * lap.to_dense())
        rows = x.reshape(lap.shape[0], 2)
        expected = sum(
            torch.linalg.matrix_power(shift, k) @ rows @ conv.weight[k] for k in range(4)
        )
        assert relative_error(conv(x, lap).reshape(lap.shape[0], out), expected) < 1e-11


# Gradients.


@pytest.mark.parametrize("kind, name, learned", all_pairs(OPERATORS, METHODS, [False, True]))
def test_first_derivatives(kind, name, learned):
    """In the signal, all weights, and the times where they are learned."""
    operator = OPERATORS[kind]()
    run, values = in_parameters(make(METHODS[name], learned), operator)
    assert len(values) == (6 if learned else 2)
    x = random_signal(operator, channels=1).requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *values), atol=1e-7)


@pytest.mark.parametrize("name", METHODS)
def test_second_derivatives(name):
    operator = laplacian(1, 6)
    run, values = in_parameters(make(METHODS[name], learned=True, channels=(1, 2, 1)), operator)
    x = random_signal(operator, channels=1).requires_grad_()
    assert torch.autograd.gradgradcheck(run, (x, *values), atol=1e-6)


def kinds():
    return {
        "ambient": nn.TNN([1, 2, 1], step=STEP, activation=nn.AmbientThenProject()),
        "readout": nn.TNN(
            [1, 2], step=STEP, output=nn.NormTanh(), readout=nn.InvariantReadout(2, 2, hidden=3)
        ),
        "sums": nn.TNN(
            [1, 2], step=STEP, output=nn.NormTanh(), readout=nn.SumReadout(2, 2, hidden=3)
        ),
    }


@pytest.mark.parametrize("kind", kinds())
def test_first_derivatives_of_other_parts(kind):
    operator = joined()
    run, values = in_parameters(kinds()[kind].double(), operator)
    x = random_signal(operator, channels=1).requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *values), atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make_net", [nn.RecurrentTNN, nn.GatedTNN])
def test_first_derivatives_through_time(make_net, method):
    operator = laplacian(2, 5)
    net = make_net([1, 2, 1], step=STEP, method=METHODS[method]).double()
    run, values = in_parameters(net, operator)
    sequence = torch.stack(
        [random_signal(operator, channels=1, seed=s) for s in range(2)]
    ).requires_grad_()

    def outputs_and_states(*args):
        outputs, states = run(*args)
        return outputs, *states

    assert torch.autograd.gradcheck(outputs_and_states, (sequence, *values), atol=1e-7)


# What is kept on operators between calls.


@pytest.mark.parametrize("method", [None, *METHODS.values()], ids=str)
@pytest.mark.parametrize("kind", OPERATORS)
def test_inference_before_training_does_no_harm(kind, method):
    """What is made in inference mode and kept on the operator must serve training afterwards."""
    if kind == "joined":
        operator = tb.join([p.to(dtype=torch.float64) for p in joined().parts])
    else:
        operator = laplacian().to(dtype=torch.float64)
    net = make(method, activation=nn.AmbientThenProject())
    x = random_signal(operator, channels=1)
    with torch.inference_mode():
        expected = net(x, operator).clone()
    got = net(x, operator)
    got.sum().backward()
    assert torch.equal(got, expected) and all(p.grad is not None for p in net.parameters())


def test_learned_times_keep_no_matrices():
    """Every evaluation without gradients would otherwise form matrices of its own, and keep
    them."""
    operator = laplacian().to(dtype=torch.float64)
    net = make(None, learned=True)
    x = random_signal(operator, channels=1)
    with torch.no_grad():
        first = net(x, operator)
        for _ in range(3):
            net(x, operator)
        assert not operator.cache.get("banks")
        for layer in net.layers:
            for time in layer.conv.learned:
                time += 0.5
        assert relative_error(net(x, operator), first) > 1e-3


def test_matrices_are_kept_once_for_all_layers():
    operator = laplacian().to(dtype=torch.float64)
    net = make(None, channels=[1, 4, 4, 4, 1])
    with torch.no_grad():
        net(random_signal(operator, channels=1), operator)
        nn.TNN([2, 3, 1], taps=3, step=STEP, seed=9).double()(random_signal(operator), operator)
    assert len(operator.cache["banks"]) == 1


def test_which_method_networks_choose():
    """Matrices for small bundles; not where padding to the largest would make them large."""
    from tangentbundle.nn.evaluation import DENSE_SIZE, network_method

    class Sized(tb.operators.Identity):
        """An operator of which only the sizes matter."""

    def choose(*sizes, dim=2):
        return type(network_method(Sized(torch.ones(1), dim, sizes)))

    assert choose(DENSE_SIZE // 2) is tb.Dense and choose(DENSE_SIZE // 2 + 1) is tb.Chebyshev
    assert choose(*[100] * 500) is tb.Dense
    assert choose(DENSE_SIZE // 2, *[20] * 40) is tb.Dense
    assert choose(DENSE_SIZE // 2, *[20] * 1000) is tb.Chebyshev  # 4 billion numbers when padded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-3, 1.0, 1e8, 1e16])
@pytest.mark.parametrize("activation", [nn.NormTanh(), nn.NormGate(2)])
def test_derivatives_are_finite_at_vectors_of_any_size(activation, size, dtype):
    x = size * torch.randn(2, 6, 2, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    y = activation.to(dtype)(x, laplacian(1, 6))
    y.sum().backward()
    assert bool(y.isfinite().all()) and bool(x.grad.isfinite().all())
