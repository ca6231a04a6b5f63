"""Training on loaders of torch and PyTorch Geometric: many clouds, functions and fields, whole
clouds and their points."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.errors import InvalidInputError
from tangentbundle.manifolds import Sphere, Torus
from tangentbundle.testing import relative_error
from tangentbundle.training import BatchLoss, collate, collate_fields

SIZES = (60, 75, 90, 50, 80)


def bundle_of(number, unit=1.0):
    space = (Sphere(2), Torus())[number % 2]
    points = unit * space.sample(SIZES[number], seed=number)
    return tb.TangentBundle.from_points(torch.from_numpy(points).float(), dim=2, neighbors=15)


@pytest.fixture(scope="module")
def bundles():
    """Clouds of different sizes, shapes and units."""
    return [bundle_of(number, unit=10.0**number) for number in range(len(SIZES))]


@pytest.fixture(scope="module")
def samples(bundles):
    """Fields, operators, and smoother fields."""
    listed = []
    for number, bundle in enumerate(bundles):
        laplacian = bundle.laplacian().dimensionless
        x = torch.randn(bundle.num_points, 2, 1, generator=torch.Generator().manual_seed(number))
        listed.append((x, laplacian, tb.Heat(0.1)(laplacian, x)))
    return listed


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def trained(data, loss=None, **options):
    torch.manual_seed(0)
    net = nn.TNN([1, 4, 1], step=0.05)
    arguments = [data] if loss is None else [data, loss]
    return net, tb.fit(net, *arguments, progress=False, **{"epochs": 8} | options)


def test_a_loader_in_order_gives_the_numbers_of_a_loop_by_hand(samples):
    loader = DataLoader(samples, batch_size=None)
    net, result = trained(loader, torch.nn.functional.l1_loss, epochs=3, lr=1e-2)
    by_hand = nn.TNN([1, 4, 1], step=0.05)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=1e-2, foreach=True)
    means = []
    for _ in range(3):
        for x, laplacian, target in samples:
            optimizer.zero_grad()
            torch.nn.functional.l1_loss(by_hand(x, laplacian), target).backward()
            optimizer.step()
        losses = [torch.nn.functional.l1_loss(by_hand(x, lap), y) for x, lap, y in samples]
        means.append(float(torch.stack(losses).detach().double().mean()))
    assert result.history["training loss"] == pytest.approx(means, rel=1e-6)
    assert relative_error(weights(net), weights(by_hand)) < 1e-6


def test_clouds_of_different_sizes_in_one_batch(samples):
    loader = DataLoader(samples, batch_size=2, shuffle=True, collate_fn=collate)
    validation = DataLoader(samples, batch_size=5, collate_fn=collate)
    net, result = trained(loader, validation=validation, epochs=40, lr=2e-2)
    assert result.monitor == "validation loss"
    assert result.best < 0.3 * result.history["validation loss"][0]
    x, joined, target = next(iter(validation))
    assert joined.sizes == SIZES
    alone = torch.cat([net(own_x, laplacian) for own_x, laplacian, _ in samples])
    assert relative_error(net(x, joined), alone) < 1e-5
    assert torch.equal(target, torch.cat([own for _, _, own in samples]))


def test_steps_accumulate_batches_of_loaders(samples):
    """Two batches of equal size a step are one batch of both."""
    pairs = [samples[0], samples[0], samples[2], samples[2]]
    net, _ = trained(DataLoader(pairs, batch_size=None), accumulate=2)
    other, _ = trained(DataLoader([samples[0], samples[2]], batch_size=None))
    assert relative_error(weights(net), weights(other)) < 1e-5


def test_a_shuffled_loader_is_resumed_to_the_same_numbers(samples, tmp_path):
    def loader():
        return DataLoader(samples, batch_size=2, shuffle=True, collate_fn=collate)

    whole, _ = trained(loader(), epochs=6, checkpoint=tmp_path / "whole")
    trained(loader(), epochs=3, checkpoint=tmp_path / "parts")
    resumed, result = trained(loader(), epochs=6, checkpoint=tmp_path / "parts")
    assert result.epochs == 6
    assert torch.equal(weights(whole), weights(resumed))


def test_labels_of_clouds_and_attention(bundles):
    """Spheres and tori told apart by fields on them."""
    samples = []
    for number, bundle in enumerate(bundles):
        x = bundle.to_coordinates(bundle.points / bundle.laplacian().extent + 1.0)
        samples.append((x, bundle.laplacian().dimensionless, number % 2))
    loader = DataLoader(samples, batch_size=5, collate_fn=collate)
    readout = nn.InvariantReadout(4, 2, pooling=nn.AttentionPooling(heads=2))
    net = nn.TNN([1, 4], step=0.05, readout=readout)
    result = tb.fit(
        net, loader, torch.nn.functional.cross_entropy, epochs=200, lr=2e-2, progress=False
    )
    assert result.best < 0.1
    assert net(*next(iter(loader))[:2]).argmax(1).tolist() == [0, 1, 0, 1, 0]


def test_functions_and_fields_of_many_clouds(bundles):
    samples = []
    for bundle in bundles[::2]:
        operators = nn.MixedOperators.of(bundle).dimensionless
        height = bundle.points[:, 2, None, None] / bundle.laplacian().extent
        fields = operators.gradient @ height
        samples.append((height, fields, operators, fields.square().sum(dim=1, keepdim=True)))
    loader = DataLoader(samples, batch_size=3, collate_fn=collate)
    torch.manual_seed(0)
    net = nn.MixedTNN([1, 4, 1], [1, 4, 1], step=0.01)

    def loss(prediction, target):
        functions, _ = prediction
        return (functions - target).square().mean()

    result = tb.fit(net, loader, loss, epochs=60, lr=2e-2, progress=False)
    assert result.best < 0.2 * result.history["training loss"][0]


def test_fields_on_one_cloud_are_stacked(samples):
    _, laplacian, _ = samples[0]
    fields = torch.randn(6, 60, 2, 1)
    on_one_cloud = [(x, laplacian, 2.0 * x) for x in fields]
    loader = DataLoader(on_one_cloud, batch_size=6, collate_fn=collate_fields)
    x, operator, target = next(iter(loader))
    assert operator is laplacian
    assert torch.equal(x, fields) and torch.equal(target, 2.0 * fields)
    with pytest.raises(InvalidInputError, match="operator"):
        collate([(fields, fields)])
    with pytest.raises(InvalidInputError, match=r"training\.collate"):
        collate_fields(samples[:2])
    alone = collate(samples[:1])
    assert alone[1].sizes == (60,) and torch.equal(alone[0], samples[0][0])


def test_loaders_of_tensors_need_a_loss_of_the_batch(samples):
    _, laplacian, _ = samples[0]
    x = torch.randn(8, 60, 2, 1)
    loader = DataLoader(TensorDataset(x, 0.5 * x), batch_size=4, shuffle=True)

    def loss(net, batch):
        fields, target = batch
        return (net(fields, laplacian) - target).square().mean()

    _, result = trained(loader, BatchLoss(loss), epochs=40, lr=2e-2)
    assert result.best < 0.1 * result.history["training loss"][0]


def test_batches_of_pytorch_geometric(bundles):
    geometric = pytest.importorskip("torch_geometric.loader")
    data = []
    for number, bundle in enumerate(bundles):
        x = torch.randn(bundle.num_points, 2, 1, generator=torch.Generator().manual_seed(number))
        data.append(
            tb.interop.to_pyg(bundle, x=x, y=tb.Heat(0.1)(bundle.laplacian().dimensionless, x))
        )

    class Smoother(nn.Configured):
        def __init__(self):
            super().__init__()
            self.net = nn.TNN([1, 4, 1], step=0.05)

        def forward(self, batch):
            return self.net(batch.x, tb.interop.laplacian_of(batch).dimensionless)

    net = Smoother()
    loader = geometric.DataLoader(data, batch_size=2, shuffle=True)
    result = tb.fit(net, loader, torch.nn.functional.mse_loss, epochs=30, progress=False)
    assert result.best < 0.5 * result.history["training loss"][0]


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(self.samples)


def test_streams_and_empty_loaders(samples):
    _, result = trained(DataLoader(Stream(samples), batch_size=None))
    _, expected = trained(DataLoader(samples, batch_size=None))
    assert result.history == expected.history
    for place in ("data", "validation"):
        options = {"data": samples, place: DataLoader(Stream([]), batch_size=None)}
        with pytest.raises(InvalidInputError, match=f"{place} gave no batch"):
            trained(**options)
