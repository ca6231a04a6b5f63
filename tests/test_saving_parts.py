"""Whatever trains can be saved: every part and network of a registry comes back with the same
outputs."""

import datetime
import enum
import functools
import io
import json
import pathlib
import sys
from functools import partial

import network_parts
import numpy as np
import pytest
import torch
from network_parts import FOREIGN, NETWORKS, bundle, inputs, outputs, parameter, perturb
from safetensors import safe_open

import tangentbundle as tb
from tangentbundle.architecture.builder import Builder
from tangentbundle.architecture.comparison import describe
from tangentbundle.architecture.description import Description
from tangentbundle.architecture.registry import FUNCTIONS
from tangentbundle.errors import (
    DamagedFileError,
    ForeignPartError,
    InvalidInputError,
    NotSavedWarning,
)

nn = tb.nn


def answers(net, dtype):
    with torch.no_grad():
        return outputs(net.eval()(*inputs(net, dtype)))


def notes_of(path):
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["notes"])


def test_every_network_comes_back_with_the_same_outputs(tmp_path):
    for number, (name, make) in enumerate(NETWORKS.items()):
        dtype = (torch.float32, torch.float64)[number % 2]
        net = perturb(make()).to(dtype)
        expected = answers(net, dtype)
        tb.save(net, tmp_path / "net")
        again = tb.load(tmp_path / "net", allow=FOREIGN)
        pairs = zip(expected, answers(again, dtype), strict=True)
        assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs), name
        assert [*net.state_dict()] == [*again.state_dict()] and type(again) is type(net), name
        assert not any(tensor.is_meta for tensor in (*again.parameters(), *again.buffers())), name
        learned = [p.requires_grad for p in net.parameters()]
        assert learned == [p.requires_grad for p in again.parameters()], name
        assert describe(again)[0] == notes_of(tmp_path / "net"), name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_pointwise_function_comes_back(name):
    notes = Description().encode(nn.Coordinatewise(FUNCTIONS[name]))
    assert Builder({}).build(json.loads(json.dumps(notes))).function is FUNCTIONS[name]


def test_the_registry_has_every_class_of_the_library():
    seen = set()
    on_semigroups = partial(tb.nn.TNN, [1, 1], method=tb.Exponentials())
    for make in (*NETWORKS.values(), on_semigroups, tb.nn.VectorDropout):
        pending = [Description().encode(make())]
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                seen.add(value.get("class"))
                pending.extend(value.values())
            elif isinstance(value, list):
                pending.extend(value)
    internal = {"Rational"}  # the filter that a denoiser chooses
    assert {kind.__name__ for kind in network_parts.library_classes()} - internal - seen == set()


def test_what_trains_can_be_trained_again_after_loading(tmp_path):
    lap = bundle(torch.float32).laplacian()
    x = torch.randn(24, 2, 1, generator=torch.Generator().manual_seed(0))
    filters = [
        tb.Heat(parameter(0.2)),
        network_parts.Rational(parameter(0.7)) @ tb.Tikhonov(parameter(0.1)),
    ]
    net = nn.TNN([1, 3, 1], filters=filters, activation=network_parts.PerChannel())
    tb.fit(net, [(x, lap, 0.5 * x)], epochs=3, checkpoint=tmp_path / "a", progress=False)
    tb.save(net, tmp_path / "net")
    again = tb.load(tmp_path / "net", allow=FOREIGN)
    for each in (net, again):
        tb.fit(each, [(x, lap, 0.5 * x)], epochs=3, progress=False)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True))


# Parts of a user's own.


def local_parts():
    class Local(nn.Activation):
        def forward(self, x, operator):
            return 0.5 * x

    return Local


def test_parts_of_a_users_own_must_be_allowed(tmp_path):
    local = local_parts()
    cases = {
        "Rational": (nn.TNN([1, 1], filters=[network_parts.Rational(0.3)]), network_parts.Rational),
        "PerChannel": (
            nn.TNN([1, 2, 1], activation=network_parts.PerChannel()),
            network_parts.PerChannel,
        ),
        "slope": (
            nn.TNN([1, 2, 1], activation=nn.Coordinatewise(network_parts.slope)),
            network_parts.slope,
        ),
        "Stack": (network_parts.Stack(1, 2), network_parts.Stack),
        "Local": (nn.TNN([1, 2, 1], activation=local()), local),
    }
    for name, (net, part) in cases.items():
        tb.save(net, tmp_path / name)
        for allow in ([], [network_parts.Energy], [nn.TNN, torch.tanh]):
            with pytest.raises(ForeignPartError, match=rf"{name}.*allow=\[{name}\]"):
                tb.load(tmp_path / name, allow=allow)
        for allow in ([part], (part, network_parts.Energy), {part}, iter([part])):
            assert type(tb.load(tmp_path / name, allow=allow)) is type(net)
    for allow in ("Rational", network_parts.Rational, None, 3, ["Rational"], [3]):
        with pytest.raises(InvalidInputError, match="allow"):
            tb.load(tmp_path / "Rational", allow=allow)


PLANTED = """
import pathlib, tangentbundle as tb
pathlib.Path(__file__).with_name("executed").touch()
class Mine(tb.nn.Activation):
    def forward(self, x, operator):
        return x
"""


def test_nothing_is_imported_to_load(tmp_path, monkeypatch):
    """A file may name any module; loading does not touch it."""
    (tmp_path / "planted.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(tmp_path)
    import planted

    tb.save(nn.TNN([1, 2, 1], activation=planted.Mine()), tmp_path / "net")
    del sys.modules["planted"]
    (tmp_path / "executed").unlink()
    with pytest.raises(ForeignPartError, match="'Mine' of module 'planted'"):
        tb.load(tmp_path / "net")

    class Mine(nn.Activation):
        """Of another module, but of that name."""

        def forward(self, x, operator):
            return x

    assert type(tb.load(tmp_path / "net", allow=[Mine]).layers[0].activation) is Mine
    assert not (tmp_path / "executed").exists() and "planted" not in sys.modules


# What cannot be saved.


class Unrecorded(nn.Activation):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x, operator):
        return x


def with_closure(scale):
    def scaled(x):
        return scale * x

    return scaled


def hooked():
    module = torch.nn.Linear(2, 2)
    module.register_forward_hook(lambda *args: None)
    return module


def changed(change):
    net = nn.TNN([1, 2, 1], readout=nn.InvariantReadout(1, 2))
    change(net)
    return net


class Fickle(nn.Activation):
    """Another constructor call gives other weights."""

    made = 0

    def __init__(self):
        super().__init__()
        type(self).made += 1
        self.weight = torch.nn.Parameter(torch.ones(self.made))

    def forward(self, x, operator):
        return x


UNSAVEABLE = {
    "lambda": lambda: nn.TNN([1, 2, 1], activation=nn.Coordinatewise(lambda x: x)),
    "spectral lambda": lambda: nn.TNN([1, 1], filters=[tb.Spectral(lambda lam: 1 / (1 + lam))]),
    "in a sum": lambda: nn.TNN(
        [1, 1], filters=[tb.Heat(0.1) + tb.ImpulseResponse(lambda t: torch.exp(-t))]
    ),
    "closure": lambda: nn.TNN([1, 2, 1], activation=nn.Coordinatewise(with_closure(2.0))),
    "method": lambda: nn.TNN([1, 2, 1], activation=nn.Coordinatewise(nn.NormTanh().forward)),
    "partial of a lambda": lambda: nn.TNN(
        [1, 1], output=nn.Coordinatewise(functools.partial(lambda x, a: x, a=1))
    ),
    "class": lambda: nn.TNN([1, 1], output=Unrecorded(nn.NormTanh)),
    "buffer": lambda: nn.TNN([1, 1], output=Unrecorded(io.StringIO("text"))),
    "operator": lambda: nn.TNN([1, 1], output=Unrecorded(bundle(torch.float32).laplacian())),
    "texts": lambda: nn.TNN([1, 1], output=Unrecorded(np.array(["a"]))),
    "sparse": lambda: nn.TNN([1, 1], output=Unrecorded(torch.eye(2).to_sparse())),
    "hooks": lambda: nn.TNN([1, 1], output=Unrecorded(hooked())),
    "fickle": lambda: nn.TNN([1, 1], output=Fickle()),
    "nested": lambda: nn.TNN(
        [1, 1],
        filters=[functools.reduce(lambda a, b: a + b, [tb.Heat(1.0)] * 400)],
        method=tb.Exact(),
    ),
    "another layer": lambda: changed(lambda net: net.layers.append(torch.nn.Linear(1, 1))),
    "another readout": lambda: changed(
        lambda net: setattr(net, "readout", nn.InvariantReadout(1, 3))
    ),
    "no readout": lambda: changed(lambda net: setattr(net, "readout", None)),
    "another activation": lambda: changed(
        lambda net: setattr(net.layers[0], "activation", nn.NoActivation())
    ),
    "another method": lambda: changed(
        lambda net: setattr(net.layers[0].conv, "method", tb.Exact())
    ),
    "another step": lambda: changed(lambda net: setattr(net.layers[1].conv, "step", 2.0)),
    "other filters": lambda: changed(
        lambda net: setattr(net.layers[1].conv, "bank", [tb.Heat(3.0)])
    ),
}


@pytest.mark.parametrize("name", UNSAVEABLE)
def test_what_cannot_be_saved_is_refused_before_training(name, tmp_path):
    net = UNSAVEABLE[name]()
    with pytest.raises(InvalidInputError, match="cannot be saved"):
        tb.save(net, tmp_path / "net")
    assert not list(tmp_path.iterdir())

    def loss(prediction, target):
        raise AssertionError("training has begun")

    with pytest.raises(InvalidInputError, match="cannot be saved"):
        tb.fit(net, [0], loss, checkpoint=tmp_path / "folder", progress=False)
    assert not (tmp_path / "folder").exists()


def test_replicas_that_cannot_be_saved_are_refused_before_training(tmp_path):
    nets = tb.training.Replicas(lambda seed: UNSAVEABLE["lambda"](), 2)
    with pytest.raises(InvalidInputError, match="cannot be saved"):
        tb.fit(
            nets,
            [0],
            lambda prediction, target: 1 / 0,
            checkpoint=tmp_path / "folder",
            progress=False,
        )


def test_other_modules_and_trainings_without_files_are_free(tmp_path):
    x = torch.ones(4, 2)
    tb.fit(torch.nn.Linear(2, 2), [(x, x)], epochs=2, checkpoint=tmp_path, progress=False)
    lap = bundle(torch.float32).laplacian()
    x = torch.ones(24, 2, 1)
    with pytest.warns(NotSavedWarning, match="state_dict"):
        result = tb.fit(UNSAVEABLE["lambda"](), [(x, lap, x)], epochs=2, progress=False)
    assert result.epochs == 2


def test_replicas_with_every_part_can_be_saved_one_by_one(tmp_path):
    filters = [tb.Heat(0.1) - network_parts.Rational(parameter(0.5)), tb.Heat(parameter(0.2))]
    nets = tb.training.Replicas(
        lambda seed: nn.TNN([1, 2, 1], filters=filters, method=tb.Exact(), seed=seed), 2
    )
    lap = bundle(torch.float32).laplacian()
    x = torch.ones(2, 24, 2, 1)
    losses = lambda y, target: (y - target).square().mean(dim=(1, 2, 3))  # noqa: E731
    tb.fit(
        nets, [(x, lap, 2 * x)], losses, epochs=3, checkpoint=tmp_path / "folder", progress=False
    )
    for replica in range(2):
        tb.save(nets[replica], tmp_path / "net")
        again = tb.load(tmp_path / "net", allow=FOREIGN)
        assert torch.equal(again(x[0], lap), nets[replica].eval()(x[0], lap))


def test_changed_attributes_of_a_users_own_are_reported(tmp_path):
    net = nn.TNN([1, 2, 1], activation=network_parts.PerChannel())
    net.layers[0].activation.power = 3.0
    with pytest.warns(NotSavedWarning, match=r"layers\.0\.activation\.power"):
        tb.save(net, tmp_path / "net")


def test_later_changes_of_arguments_do_not_matter(tmp_path):
    """The record is what the constructor saw."""
    channels, filters = [1, 3, 1], [tb.Heat(0.1)]
    net = nn.TNN(channels, filters=filters)
    channels.append(5)
    filters.append(tb.Heat(0.3))
    tb.save(net, tmp_path / "net")
    assert repr(tb.load(tmp_path / "net")) == repr(net)


def test_files_of_earlier_versions_are_read(tmp_path):
    from tangentbundle.files import write_tensors

    heat = {"class": "Heat", "arguments": {"t": {"parameter": 0.5}}}
    activation = {"class": "Coordinatewise", "arguments": {"function": {"function": "silu"}}}
    arguments = {"channels": [1, 1], "filters": [heat], "output": activation, "seed": 0}
    tensors = {
        "layers.0.conv.weight": torch.full((1, 1, 1), 2.0),
        "layers.0.conv.learned.0": torch.tensor(0.25),
    }
    write_tensors(
        tmp_path / "net", "tangentbundle.network", tensors, {"class": "TNN", "arguments": arguments}
    )
    net, lap = tb.load(tmp_path / "net"), bundle(torch.float32).laplacian()
    x = torch.ones(24, 2, 1)
    assert torch.allclose(
        net(x, lap), torch.nn.functional.silu(2 * tb.Heat(0.25)(lap, x)), atol=1e-6
    )


@pytest.mark.parametrize("name", ["Popen", "torch.load", "hub", "functional", "Module", "Tensor"])
def test_forged_names_of_torch_are_refused(name, tmp_path):
    from tangentbundle.files import write_tensors

    state = {"attributes": {}, "parameters": {}, "buffers": {}, "transient": [], "modules": {}}
    for function in ({"function": name}, {"module": name, "state": state}, {"dtype": name}):
        part = {"class": "Coordinatewise", "arguments": {"function": function}}
        notes = {"class": "TNN", "arguments": {"channels": [1, 1], "output": part}}
        write_tensors(
            tmp_path / "net",
            "tangentbundle.network",
            {"layers.0.conv.weight": torch.ones(2, 1, 1)},
            notes,
        )
        with pytest.raises(DamagedFileError, match="no network"):
            tb.load(tmp_path / "net")


class Fruit(enum.Enum):
    APPLE = 1


class WithOption(tb.nn.Configured):
    """A network with an argument that it keeps."""

    def __init__(self, option):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x, operator):
        return self.weight * x


NO_JSON = {
    "set": {1, 2},
    "frozenset": frozenset({1}),
    "complex": 1 + 2j,
    "Enum": Fruit.APPLE,
    "bytes": b"a",
    "path": pathlib.Path("a"),
    "device": torch.device("cpu"),
    "date": datetime.date(2026, 1, 1),
}


@pytest.mark.parametrize("name", NO_JSON)
def test_values_without_description_are_named_with_a_remedy(name, tmp_path):
    value = NO_JSON[name]
    for option in (value, [value], {"key": (value,)}):
        with pytest.raises(InvalidInputError, match=r"as its option cannot be saved.*: give"):
            tb.save(WithOption(option), tmp_path / "a.safetensors")
    net = tb.nn.TNN([1, 2, 1])
    net.extra = value
    with pytest.raises(InvalidInputError, match="attribute extra"):
        tb.save(net, tmp_path / "a.safetensors")
    assert not (tmp_path / "a.safetensors").exists()
