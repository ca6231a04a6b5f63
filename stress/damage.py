"""Flipped bits, cut files, forged models, pickles that would run code, and names that would leave
their folder."""

from __future__ import annotations

import json
import logging
import pickle
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as to_bytes

import tangentbundle as tb
from tangentbundle.architecture.comparison import describe
from tangentbundle.architecture.registry import CLASSES
from tangentbundle.download import fetch
from tangentbundle.files import _digest, read_tensors, write_tensors
from tangentbundle.io import read_field
from tangentbundle.saving import KIND

from .reader import READERS, read_ledger, read_model
from .tally import Tally, nothing_forbidden

FLIPS = 3_000
FORGED = 2_000


def read_checkpoint(path: Path) -> None:
    """Whatever is accepted is what was written."""
    tensors, notes = read_tensors(path, "stress")
    assert notes == {"epoch": 3} and torch.equal(tensors["weight"], torch.arange(40.0)), (
        "a changed file was read"
    )


def _checkpoint() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        write_tensors(path, "stress", {"weight": torch.arange(40.0)}, {"epoch": 3})
        return path.read_bytes()


def flips(name: str, content: bytes, read: Callable[[Path], Any], count: int) -> dict[str, Any]:
    """Single flipped bits and cuts at random places: refused by name, or nothing of the content has
    changed."""
    tally, rng = Tally(f"{name}: flipped bits and cuts"), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        for number in range(count):
            damaged = bytearray(content)
            place = int(rng.integers(len(content)))
            if number % 3:
                damaged[place] ^= 1 << int(rng.integers(8))
            else:
                del damaged[place:]
            path.write_bytes(bytes(damaged))
            tally.try_out(lambda: read(path), (number, place))
    return tally.row()


ARCHITECTURES = (
    tb.nn.TNN(
        [1, 3, 2],
        filters=[tb.Heat(torch.nn.Parameter(torch.tensor(0.2)))],
        activation=tb.nn.Coordinatewise(torch.tanh),
    ),
    tb.nn.TNN([1, 2], method=tb.Chebyshev(1e-5), readout=tb.nn.InvariantReadout(2, 3)),
    tb.nn.GatedTNN([1, 2, 1], activation=tb.nn.Coordinatewise(torch.tanh)),
)
VALUES = (
    None,
    True,
    -1,
    0,
    2,
    20_000,
    10**9,
    10**40,
    0.5,
    1e300,
    float("nan"),
    "x",
    [],
    {},
    [[1]],
    [1] * 50_000,
)
PARTS = tuple(
    {"class": name, "arguments": {}} for name in (*CLASSES, "Configured", "Activation", "Popen")
)
TEXTS = ("", "{", "null", "[" * 100_000, '{"a":' * 2_000, "9" * 9_000)


def forge(path: Path, tensors: dict[str, torch.Tensor], text: str, kind: str = KIND) -> None:
    """A file of tensors and any text, with a valid checksum."""
    metadata = {
        "format": kind,
        "version": "1",
        "notes": text,
        "sha256": _digest(kind, tensors, text),
    }
    path.write_bytes(to_bytes(tensors, metadata))


def altered(value: Any, rng: np.random.Generator) -> Any:
    """An architecture with one value, at any depth, exchanged for another one or for a part that
    does not belong."""
    if not isinstance(value, (dict, list)) or not value or rng.random() < 0.15:
        choices = PARTS if rng.random() < 0.3 else VALUES
        return choices[rng.integers(len(choices))]
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key, copy = keys[rng.integers(len(keys))], value.copy()
    copy[key] = altered(value[key], rng)
    return copy


def altered_tensors(
    tensors: dict[str, torch.Tensor], rng: np.random.Generator
) -> dict[str, torch.Tensor]:
    """Tensors of which one is of another dtype or shape, not finite, missing or superfluous."""
    name = list(tensors)[rng.integers(len(tensors))]
    tensor, dtypes = (
        tensors[name],
        (torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.float64),
    )
    others = [
        *(tensor.to(dtype) for dtype in dtypes),
        tensor * torch.nan,
        tensor / 0,
        tensor[None],
        tensor.flatten()[1:],
    ]
    changed = {**tensors, name: others[rng.integers(len(others))].contiguous()}
    return [
        changed,
        {n: t for n, t in tensors.items() if n != name},
        {**tensors, "more": tensor.clone()},
    ][rng.integers(3)]


def forged(count: int) -> dict[str, Any]:
    """Models with valid checksums whose architecture or weights were altered: refused, or they
    work."""
    tally, rng = Tally("model: forged, with valid checksums"), np.random.default_rng(0)
    lap = tb.TangentBundle.from_points(
        torch.from_numpy(tb.manifolds.Sphere(2).sample(30, seed=0)).float()
    ).laplacian()

    def check(path: Path) -> None:
        net = tb.load(path)
        weights = list(net.state_dict().values())
        assert all(w.dtype == torch.float32 and bool(torch.isfinite(w).all()) for w in weights), (
            "unsound weights"
        )
        if not isinstance(net, tb.nn.Activation | tb.nn.InvariantReadout):
            net(torch.ones(4, 30, 2, 1), lap)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net"
        for number in range(count):
            net = ARCHITECTURES[rng.integers(len(ARCHITECTURES))]
            notes, description = describe(net)
            tensors = {
                n: t.detach().clone()
                for n, t in {**net.state_dict(), **description.tensors}.items()
            }
            text = json.dumps(notes)
            if number < len(TEXTS):
                text = TEXTS[number]
            elif number % 4:
                text = json.dumps(altered(json.loads(text), rng))
            else:
                tensors = altered_tensors(tensors, rng)
            forge(path, tensors, text)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            tally.try_out(lambda: check(path), text[:400])
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, (
                f"200 MB for {text[:400]}"
            )
    return tally.row()


class Trap:
    """A pickle that would create a file."""

    def __init__(self, proof: Path):
        self.proof = proof

    def __reduce__(self):
        return (open, (str(self.proof), "w"))


def traps(folder: Path) -> dict[str, Any]:
    """Pickles in every kind of file: never run."""
    tally, proof = Tally("pickles that would create a file"), folder / "executed"
    trap = pickle.dumps(Trap(proof))
    for reader in READERS.values():
        path = folder / f"trap{reader.suffix}"
        path.write_bytes(trap)
        tally.try_out(lambda read=reader.read, path=path: read(path))
    np.savez(
        folder / "object.npz", points=np.array([[Trap(proof)]], dtype=object), allow_pickle=True
    )
    torch.save({"weight": Trap(proof)}, folder / "torch.safetensors")
    tally.try_out(lambda: tb.load(folder / "torch.safetensors"))
    unpickling = {"filters": [{"id": "pickle"}]}
    for name, codec in {"a": {**unpickling, "dtype": "|O"}, "b": unpickling}.items():
        store = folder / f"{name}.zarr"
        for variable in ("x", "y", "vx", "vy"):
            (store / variable).mkdir(parents=True)
            about = {
                "zarr_format": 2,
                "shape": [9],
                "chunks": [9],
                "dtype": "<f8",
                "order": "C",
                "compressor": None,
            }
            about |= {"fill_value": None, "filters": None, **codec}
            (store / variable / ".zarray").write_text(json.dumps(about))
            (store / variable / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["point"]}')
            (store / variable / "0").write_bytes(trap)
        (store / ".zgroup").write_text('{"zarr_format": 2}')
    for path in (folder / "object.npz", folder / "a.zarr", folder / "b.zarr"):
        tally.try_out(lambda path=path: read_field(path))
    return {
        **tally.row(),
        "failures": int(bool(tally.failures) or tally.results > 0 or proof.exists()),
    }


def leaving(folder: Path) -> dict[str, Any]:
    """Names of files to fetch that would lie outside the cache: refused before anything is looked
    at."""
    tally = Tally("names that leave their folder")
    names = ("../evil.nc", "/etc/passwd", "a/../../evil.nc", "..", "folder/file.nc", ".", "")
    for name in names:
        tally.try_out(lambda name=name: fetch(name, "https://localhost", cache=folder / "cache"))
    return {**tally.row(), "failures": int(tally.errors["InvalidInputError"] != len(names))}


def run(share: float = 1.0) -> list[dict[str, Any]]:
    count = max(30, round(FLIPS * share))
    seeds = {name: READERS[name].seeds()[0] for name in ("model", "JSON lines")}
    rows = [
        flips("model", seeds["model"], read_model, count),
        flips("results", seeds["JSON lines"], read_ledger, count),
        flips("checkpoint", _checkpoint(), read_checkpoint, count),
        forged(max(30, round(FORGED * share))),
    ]
    logging.disable(logging.CRITICAL)  # zarr tells of tasks that it gave up
    with tempfile.TemporaryDirectory() as folder, nothing_forbidden():
        rows += [traps(Path(folder)), leaving(Path(folder))]
    return rows
