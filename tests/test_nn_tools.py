"""Networks in the tools of others: torch.func, torch.compile, autocast, Lightning, accelerate."""

import warnings

import pytest
import torch
from network_parts import numbers
from test_nn_symmetry import bundle, step
from torch.utils.data import DataLoader

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.testing import relative_error
from tangentbundle.training import collate_fields

NETWORKS = {
    "TNN": lambda: nn.TNN([1, 3, 1], step=step(2)),
    "ResidualTNN": lambda: nn.ResidualTNN([1, 3, 1], layers=2, step=step(2), norm=nn.CloudNorm()),
    "learned filters": lambda: nn.ResidualTNN(
        [1, 3, 1],
        layers=2,
        filters=[nn.HeatSum([0.1, 0.5]), nn.DecaySum([0.2]), nn.RationalFilter([0.1], [-0.2])],
        constraints=[nn.Lowpass(0.01), nn.NonAmplifying()],
        method=tb.Exact(),
    ),
    "attention": lambda: nn.ResidualTNN(
        [1, 3, 2], readout=nn.InvariantReadout(2, 1, pooling=nn.AttentionPooling())
    ),
}


def laplacian(dtype=torch.float64):
    return bundle(2).laplacian().dimensionless.to(dtype=dtype)


def fields(count=3, dtype=torch.float64):
    return numbers(count, bundle(2).num_points, 2, 1, dtype=dtype)


def parameters(net):
    return {name: p.detach() for name, p in net.named_parameters()}


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_every_sample_by_torch_func(name):
    """vmap over grad of a functional call: the gradients of a loop."""
    net = NETWORKS[name]().double()
    operator = laplacian()

    def loss(weights, x):
        return torch.func.functional_call(net, weights, (x, operator)).square().sum()

    weights = parameters(net)
    x = fields()
    at_once = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, x)
    for number, own_x in enumerate(x):
        net.zero_grad()
        net(own_x, operator).square().sum().backward()
        for key, parameter in net.named_parameters():
            assert relative_error(at_once[key][number], parameter.grad) < 1e-9


@pytest.mark.parametrize("name", NETWORKS)
def test_derivatives_along_a_direction_by_torch_func(name):
    net = NETWORKS[name]().double()
    operator = laplacian()
    x, direction = fields(2)
    _, slope = torch.func.jvp(lambda x: net(x, operator), (x,), (direction,))
    h = 1e-5
    difference = net(x + h * direction, operator) - net(x - h * direction, operator)
    assert relative_error(slope, difference / (2 * h)) < 1e-6


@pytest.mark.filterwarnings("ignore")  # torch's compiler looks at .grad of tensors that have none
@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_networks_give_the_same(name):
    torch.compiler.reset()
    net = NETWORKS[name]().double()
    operator = laplacian()
    x = fields()
    expected = net(x, operator)
    truth = torch.autograd.grad(expected.square().sum(), list(net.parameters()))
    compiled = torch.compile(net, backend="aot_eager")
    for _ in range(2):
        got = compiled(x, operator)
        gradients = torch.autograd.grad(got.square().sum(), list(net.parameters()))
        assert relative_error(got, expected) < 1e-11
        for gradient, wanted in zip(gradients, truth, strict=True):
            assert relative_error(gradient, wanted) < 1e-9
    torch.compiler.reset()


@pytest.mark.parametrize("name", NETWORKS)
def test_autocast_computes_in_half_precision(name):
    net = NETWORKS[name]()
    operator = laplacian(torch.float32)
    x = fields(dtype=torch.float32)
    expected = net(x, operator)
    with torch.autocast("cpu", torch.bfloat16):
        got = net(x, operator)
    assert relative_error(got, expected) < 0.05
    got.float().square().sum().backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in net.parameters())


def samples():
    operator = laplacian(torch.float32)
    return [(x, operator, tb.Heat(0.1)(operator, x)) for x in fields(4, torch.float32)]


def mean_error(net):
    errors = [(net(x, operator) - target).square().mean() for x, operator, target in samples()]
    return float(torch.stack(errors).mean().detach())


def test_lightning():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lightning = pytest.importorskip("pytorch_lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.ResidualTNN([1, 4, 1], layers=2, step=0.1)

        def training_step(self, batch, number):
            x, operator, target = batch
            return (self.net(x, operator) - target).square().mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    module = Module()
    before = mean_error(module.net)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about workers, logs and the size of the batch
        trainer = lightning.Trainer(
            accelerator="cpu",
            max_epochs=20,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, DataLoader(samples(), batch_size=2, collate_fn=collate_fields))
    assert mean_error(module.net) < 0.5 * before


def test_accelerate():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    net = nn.ResidualTNN([1, 4, 1], layers=2, step=0.1)
    before = mean_error(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    loader = DataLoader(samples(), batch_size=2, collate_fn=collate_fields)
    prepared, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for _ in range(20):
        for x, operator, target in loader:
            optimizer.zero_grad()
            accelerator.backward((prepared(x, operator) - target).square().mean())
            optimizer.step()
    assert mean_error(accelerator.unwrap_model(prepared)) < 0.5 * before
