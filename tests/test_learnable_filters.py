"""Filters that learn, and what constraints make of layers: responses, gains, training, files."""

import numpy as np
import pytest
import torch
from network_parts import numbers
from test_nn_symmetry import bundle

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.errors import InvalidInputError
from tangentbundle.testing import relative_error

EIGENVALUES = np.concatenate([[0.0], np.geomspace(1e-3, 1e5, 200)])


def impulse_network_response(filter, lam):
    """The Laplace transform by the trapezoidal rule on a fine logarithmic grid."""
    t = np.concatenate([[0.0], np.geomspace(1e-9, filter.horizon, 200_001)])
    places = np.log1p(1000.0 * t / filter.horizon) / np.log(1001.0)
    weights = [p.detach().double().numpy() for p in filter.parameters()]
    hidden = np.tanh(places[:, None] * weights[0].T + weights[1])
    height = (hidden @ weights[2].T + weights[3])[:, 0] * t / filter.horizon**2
    return np.array([np.trapezoid(height * np.exp(-rate * t), t) for rate in lam])


FILTERS = {
    "LearnedHeat": (lambda: nn.LearnedHeat(0.3), lambda f, x: np.exp(-0.3 * x)),
    "HeatSum": (
        lambda: nn.HeatSum([0.1, 2.0], [0.5, -1.5]),
        lambda f, x: 0.5 * np.exp(-0.1 * x) - 1.5 * np.exp(-2.0 * x),
    ),
    "DecaySum": (
        lambda: nn.DecaySum([0.1, 2.0], [0.5, -1.5]),
        lambda f, x: 0.5 / (1 + 0.1 * x) - 1.5 / (1 + 2.0 * x),
    ),
    "RationalFilter": (
        lambda: nn.RationalFilter([0.1, 2.0], [-0.3], 0.5),
        lambda f, x: 0.5 * (1 - 0.3 * x) / ((1 + 0.1 * x) * (1 + 2.0 * x)),
    ),
    "ImpulseNetwork": (lambda: nn.ImpulseNetwork(2.0, 4), impulse_network_response),
}


@pytest.mark.parametrize("name", FILTERS)
def test_responses(name):
    make, formula = FILTERS[name]
    filter = make()
    expected = formula(filter, EIGENVALUES)
    np.testing.assert_allclose(filter.response(EIGENVALUES), expected, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("name", FILTERS)
def test_gains_are_bounded(name):
    filter = FILTERS[name][0]()
    responses = filter.response(EIGENVALUES)
    bound = float(filter.gain_bound().detach())
    assert np.abs(responses).max() <= bound * (1 + 1e-12)
    both = filter @ tb.Tikhonov(0.1) - 0.5 * filter
    assert np.abs(both.response(EIGENVALUES)).max() <= float(both.gain_bound().detach()) * (
        1 + 1e-12
    )
    with pytest.raises(InvalidInputError, match="gain"):
        tb.Spectral(torch.cos).gain_bound()


@pytest.mark.parametrize("name", FILTERS)
def test_all_parameters_have_gradients(name):
    filter = FILTERS[name][0]()
    filter.evaluate(torch.tensor([0.5, 3.0], dtype=torch.float64)).sum().backward()
    assert all(float(p.grad.abs().max()) > 0.0 for p in filter.parameters())
    assert filter.signature() is None


def test_times_stay_positive():
    filter = nn.HeatSum([1e-6, 1e4])
    np.testing.assert_allclose(filter.times().detach(), [1e-6, 1e4], rtol=1e-5)
    with torch.no_grad():
        filter.times.free.sub_(1e5)
    assert bool((filter.times() >= 0).all())
    assert np.isfinite(filter.response(EIGENVALUES)).all()


@pytest.mark.parametrize("method", [None, tb.Chebyshev(), tb.Exact()])
@pytest.mark.parametrize("name", FILTERS)
def test_they_learn_in_networks(name, method):
    """A layer learns a heat flow of another time than the one that it begins with."""
    laplacian = bundle(2).laplacian().to(dtype=torch.float32)
    x = numbers(len(laplacian.mass), 2, 1, dtype=torch.float32)
    target = tb.Heat(0.2)(laplacian, x)
    net = nn.TNN([1, 1], filters=[FILTERS[name][0]()], method=method)
    before = [p.detach().clone() for p in net.parameters()]
    result = tb.fit(net, [(x, laplacian, target)], epochs=60, lr=0.05, progress=False)
    assert result.best < 0.5 * result.history["training loss"][0]
    for parameter, first in zip(net.parameters(), before, strict=True):
        assert not torch.equal(parameter, first)


def test_layers_have_filters_of_their_own():
    filter = nn.HeatSum([0.1])
    net = nn.TNN([1, 2, 1], filters=[filter, tb.Heat(0.1)])
    assert net.num_parameters == 2 * (2 + 4)
    assert len({id(p) for p in net.parameters()} & {id(p) for p in filter.parameters()}) == 0
    assert net.double()(numbers(80, 2, 1), bundle(2).laplacian()).dtype == torch.float64


def test_replicas_learn_times_of_their_own():
    laplacian = bundle(2).laplacian()
    x = numbers(80, 2, 1)

    def make(seed):
        return nn.TNN(
            [1, 1], filters=[nn.LearnedHeat(0.1 * (1 + seed))], method=tb.Exact()
        ).double()

    nets = tb.training.Replicas(make, 3)
    together = nets(torch.stack([x] * 3), laplacian)
    for number, output in enumerate(together):
        assert relative_error(output, nets[number](x, laplacian)) < 1e-12


def test_refusals():
    with pytest.raises(InvalidInputError, match="as many weights"):
        nn.HeatSum([0.1, 0.2], [1.0])
    with pytest.raises(InvalidInputError, match="positive"):
        nn.DecaySum([0.1, -0.2])
    with pytest.raises(InvalidInputError, match="list of numbers"):
        nn.HeatSum([])
    with pytest.raises(InvalidInputError, match="grows without bound"):
        nn.RationalFilter([0.1], [0.1, 0.2])
    with pytest.raises(InvalidInputError, match="horizon"):
        nn.ImpulseNetwork(0.0)
    with pytest.raises(InvalidInputError, match="constraints"):
        nn.TNN([1, 1], constraints="lowpass")
    with pytest.raises(InvalidInputError, match="constraints"):
        nn.TNN([1, 1], constraints=[nn.NonAmplifying])
    with pytest.raises(InvalidInputError, match="time"):
        nn.Lowpass(0.0)


# Constraints.

BANKS = {
    "taps": {"taps": 3, "step": 0.1},
    "learned": {"filters": [tb.Heat(0.0), nn.HeatSum([0.1, 0.5], [2.0, -1.0]), nn.DecaySum([0.2])]},
    "rational": {"filters": [nn.RationalFilter([0.1, 0.1], [-0.5, 0.3], 3.0), tb.Tikhonov(0.1)]},
    "network": {"filters": [nn.ImpulseNetwork(1.0), tb.Heat(0.0)]},
}


def amplifying_network(bank, constraints):
    """A network that learns to amplify the high frequencies of a field."""
    laplacian = bundle(2).laplacian().to(dtype=torch.float32)
    x = numbers(80, 2, 2, dtype=torch.float32)
    target = 5.0 * x - 4.0 * tb.Heat(0.1)(laplacian, x)
    net = nn.TNN([2, 3, 2], constraints=constraints, activation=nn.NoActivation(), **BANKS[bank])
    tb.fit(net, [(x, laplacian, target)], epochs=30, lr=0.1, progress=False)
    return net


@pytest.mark.parametrize("bank", BANKS)
def test_no_training_makes_them_amplify(bank):
    free = amplifying_network(bank, [])
    bound = amplifying_network(bank, [nn.NonAmplifying()])
    gains = {}
    for name, net in {"free": free, "bound": bound}.items():
        responses = [layer.conv.responses(EIGENVALUES).detach().abs() for layer in net.layers]
        gains[name] = max(float(response.max()) for response in responses)
    assert gains["bound"] <= 1.0 + 1e-6
    assert gains["free"] > 1.0


@pytest.mark.parametrize("bank", BANKS)
def test_no_training_makes_them_pass_high_frequencies(bank):
    constraints = [nn.Lowpass(0.01), nn.NonAmplifying()]
    net = amplifying_network(bank, constraints)
    for layer in net.layers:
        assert all(filter.is_lowpass() for filter in layer.conv.bank)
        responses = layer.conv.responses(EIGENVALUES).detach().abs()
        limit = np.exp(-0.01 * EIGENVALUES) * (1 + 1e-6)
        assert bool((responses.amax((1, 2)) <= torch.from_numpy(limit)).all())


def test_responses_are_those_of_the_layer():
    laplacian = bundle(2).laplacian()
    values, fields = laplacian.spectrum(6)
    for constraints in ([], [nn.NonAmplifying()], [nn.Lowpass(0.05), nn.NonAmplifying()]):
        conv = nn.BundleConv(2, 3, taps=4, step=0.1, constraints=constraints).double()
        with torch.no_grad():
            conv.weight.mul_(3.0)
        x = torch.stack([fields[..., 5], fields[..., 5]], dim=-1)
        response = conv.responses(values)[5].sum(0)
        assert relative_error(conv(x, laplacian), fields[..., 5:6] * response) < 1e-8


def test_weights_within_the_constraint_stay_as_they_are():
    laplacian = bundle(2).laplacian()
    x = numbers(80, 2, 2)
    plain = nn.BundleConv(2, 3, taps=2, step=0.1).double()
    bound = nn.BundleConv(2, 3, taps=2, step=0.1, constraints=[nn.NonAmplifying()]).double()
    assert float(plain.weight.detach().abs().sum(0).max()) < 1.0
    assert torch.equal(plain(x, laplacian), bound(x, laplacian))
    assert len(bound.bank) == 1  # the identity is not evaluated


@pytest.mark.parametrize("name", FILTERS)
def test_files(name, tmp_path):
    laplacian = bundle(2).laplacian()
    x = numbers(80, 2, 1)
    net = nn.TNN(
        [1, 3, 1], filters=[FILTERS[name][0](), tb.Heat(0.1)], constraints=[nn.Lowpass(0.01)]
    ).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1)
    tb.save(net, tmp_path / "net.safetensors")
    again = tb.load(tmp_path / "net.safetensors")
    assert torch.equal(again(x, laplacian), net(x, laplacian))
