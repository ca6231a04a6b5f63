"""Networks as files: exact round trips, and named refusals of everything else."""

import json
import pickle
import resource
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import tangentbundle as tb
from stress.damage import forge
from tangentbundle.architecture.registry import CLASSES
from tangentbundle.errors import (
    DamagedFileError,
    DTypeError,
    InvalidInputError,
    NonFiniteError,
    OutputError,
)

nn = tb.nn

NETWORKS = {
    "paper": nn.TNN([1, 8, 4, 1], activation=nn.Coordinatewise(torch.tanh), seed=3),
    "learned": nn.TNN([2, 3, 3, 1], filters=[tb.Heat(torch.nn.Parameter(torch.tensor(0.2)))]),
    "classes": nn.TNN([1, 4], activation=nn.NormTanh(), readout=nn.InvariantReadout(4, 3)),
    "sum": nn.TNN([1, 4, 1], readout=nn.SumReadout(1, 2, seed=5)),
    "method": nn.TNN(
        [1, 4, 1], method=tb.Chebyshev(1e-5), output=nn.AmbientThenProject(torch.relu)
    ),
    "generator": nn.TNN([1, 4, 1], seed=torch.Generator().manual_seed(7)),
    "recurrent": nn.RecurrentTNN([1, 2, 1]),
    "gru": nn.GatedTNN([1, 4, 1], step=0.1),
    "double": nn.TNN([1, 2, 1]).double(),
    "mixed": nn.MixedTNN([0, 3, 1], [1, 4, 1], taps=3, step=0.1),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_round_trip(name, tmp_path):
    net = NETWORKS[name]
    tb.save(net, tmp_path / "net.safetensors")
    again = tb.load(tmp_path / "net.safetensors")
    assert type(again) is type(net) and repr(again) == repr(net)
    for (key, a), (other, b) in zip(
        net.state_dict().items(), again.state_dict().items(), strict=True
    ):
        assert key == other and a.dtype == b.dtype and torch.equal(a, b)
    assert [p.requires_grad for p in net.parameters()] == [
        p.requires_grad for p in again.parameters()
    ]
    assert not any(t.is_meta for t in (*again.parameters(), *again.buffers()))


@pytest.mark.parametrize("name", ["paper", "learned", "classes", "method"])
def test_same_output_after_a_round_trip(name, tmp_path):
    lap = tb.TangentBundle.from_points(
        torch.from_numpy(tb.manifolds.Sphere(2).sample(80, seed=0)).float()
    ).laplacian()
    net = NETWORKS[name]
    x = torch.randn(80, 2, net.arguments["channels"][0], generator=torch.Generator().manual_seed(0))
    tb.save(net, tmp_path / "net")
    assert torch.equal(tb.load(tmp_path / "net")(x, lap), net(x, lap))


def test_what_cannot_be_saved_says_so(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be saved"):
        tb.save(nn.TNN([1, 1, 1], activation=nn.Coordinatewise(lambda x: x)), tmp_path / "net")
    with pytest.raises(InvalidInputError, match="nets"):
        tb.save(tb.training.Replicas(lambda seed: nn.TNN([1, 1], seed=seed), 2), tmp_path / "net")
    with pytest.raises(InvalidInputError, match="got Linear"):
        tb.save(torch.nn.Linear(2, 2), tmp_path / "net")
    with pytest.raises(OutputError, match="cannot write"):
        tb.save(NETWORKS["paper"], "/proc/nowhere/net")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "net"
    tb.save(NETWORKS["paper"], path)
    return path.read_bytes()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_flipped_bit_and_cut_is_detected(saved, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "net"
    content = bytearray(saved)
    if data.draw(st.booleans()):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    else:
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    path.write_bytes(bytes(content))
    try:
        again = tb.load(path)
    except DamagedFileError:
        return
    # what may change unseen is blank space in the header
    assert all(
        torch.equal(a, b)
        for a, b in zip(again.parameters(), NETWORKS["paper"].parameters(), strict=True)
    )
    assert repr(again) == repr(NETWORKS["paper"])


class Trap:
    """A pickle that would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_foreign_files_are_refused_and_nothing_is_executed(tmp_path):
    path, proof = tmp_path / "net", tmp_path / "executed"
    path.write_bytes(pickle.dumps(Trap(proof)))
    with pytest.raises(DamagedFileError):
        tb.load(path)
    torch.save({"weights": Trap(proof)}, path)
    with pytest.raises(DamagedFileError):
        tb.load(path)
    assert not proof.exists()
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(DamagedFileError, match="another program"):
        tb.load(path)
    with pytest.raises(InvalidInputError, match="no such file"):
        tb.load(tmp_path / "nothing")


def tnn(**arguments):
    return {"class": "TNN", "arguments": {"channels": [1, 1], **arguments}}


WEIGHT = {"layers.0.conv.weight": torch.ones(2, 1, 1)}
ARCHITECTURES = {
    "another class": {"class": "Popen", "arguments": {"args": ["touch", "x"]}},
    "a list as class": {"class": ["TNN"], "arguments": {}},
    "a base class": tnn(output={"class": "Activation", "arguments": {}}),
    "an empty module": {"class": "Configured", "arguments": {}},
    "no network": {"class": "Chebyshev", "arguments": {}},
    "no arguments": {"class": "TNN"},
    "a function": {"function": "eval"},
    "a list": ["TNN"],
    "null": None,
    "unknown argument": tnn(nonsense=1),
    "text as channels": tnn(channels="ab"),
    "text as activation": tnn(activation="no"),
    "text as taps": tnn(taps="2"),
    "number as method": tnn(method=5),
    "number as readout": tnn(readout=5),
    "network as readout": tnn(readout=tnn()),
    "NaN as step": tnn(step=float("nan")),
    "wide layers": tnn(channels=[20_000, 20_000, 1]),
    "wide readout": tnn(
        readout={
            "class": "InvariantReadout",
            "arguments": {"in_channels": 20_000, "out_channels": 1},
        }
    ),
    "many layers": tnn(channels=[1] * 100_000),
    "many taps": tnn(taps=10**9),
    "high degree": tnn(method={"class": "Chebyshev", "arguments": {"degree": 10**9}}),
    "huge number": tnn(channels=[10**40, 1]),
    "huge seed": tnn(seed=10**40),
}
TEXTS = {
    "nothing": "",
    "no JSON": "{'class': 'TNN'}",
    "nested lists": "[" * 100_000,
    "nested objects": '{"class":' * 900 + "1" + "}" * 900,
    "too many digits": "9" * 5_000,
    **{name: json.dumps(notes) for name, notes in ARCHITECTURES.items()},
}


@pytest.mark.parametrize("name", TEXTS)
def test_forged_architectures(name, tmp_path):
    """With valid checksums: refused in time and memory that the size of the file explains."""
    forge(tmp_path / "net", WEIGHT, TEXTS[name])
    memory, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(DamagedFileError, match=r"not JSON|no network") as caught:
        tb.load(tmp_path / "net")
    assert len(str(caught.value)) < 600 + len(str(tmp_path))
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000
        and time.process_time() - start < 2
    )


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float8_e5m2, torch.int64, torch.bool, torch.cfloat],
)
def test_forged_dtypes(dtype, tmp_path):
    forge(tmp_path / "net", {name: w.to(dtype) for name, w in WEIGHT.items()}, json.dumps(tnn()))
    with pytest.raises(DamagedFileError, match="float32 or all float64"):
        tb.load(tmp_path / "net")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"layers.0.conv.weight": torch.full((2, 1, 1), torch.nan)}, "must be finite"),
        ({"layers.0.conv.weight": torch.full((2, 1, 1), -torch.inf)}, "must be finite"),
        ({"layers.0.conv.weight": torch.ones(2, 1, 2)}, "size mismatch"),
        ({"layers.0.conv.weight": torch.ones(())}, "size mismatch"),
        ({"layers.0.conv.weight": torch.ones(2, 0, 1)}, "size mismatch"),
        ({"more": torch.ones(2)}, "Unexpected key"),
        ({"more": torch.ones(2, dtype=torch.float64)}, "float32 or all float64"),
        (None, "Missing key"),
    ],
)
def test_forged_weights(change, message, tmp_path):
    forge(tmp_path / "net", {} if change is None else WEIGHT | change, json.dumps(tnn()))
    with pytest.raises(DamagedFileError, match=message):
        tb.load(tmp_path / "net")


@pytest.mark.parametrize(
    "spoil", [lambda w: w.fill_(torch.nan), lambda w: w.fill_(-torch.inf)], ids=["NaN", "inf"]
)
def test_what_load_refuses_is_not_saved(spoil, tmp_path):
    net = nn.TNN([1, 2, 1])
    with torch.no_grad():
        spoil(net.layers[0].conv.weight)
    with pytest.raises(NonFiniteError, match=r"layers\.0"):
        tb.save(net, tmp_path / "net")
    with pytest.raises(DTypeError, match="float16"):
        tb.save(nn.TNN([1, 2, 1]).half(), tmp_path / "net")
    assert not list(tmp_path.iterdir())


def test_newer_formats_are_refused(saved, tmp_path):
    text = saved.replace(b'"version":"1"', b'"version":"2"')
    assert text != saved
    (tmp_path / "net").write_bytes(text)
    with pytest.raises(DamagedFileError, match="version 2"):
        tb.load(tmp_path / "net")


def test_everything_saved_is_json():
    for net in NETWORKS.values():
        assert type(net).__name__ in CLASSES
        json.dumps({key: repr(value) for key, value in net.arguments.items()})
