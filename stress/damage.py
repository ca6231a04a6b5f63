"""Flipped bits, cut files, pickles that would run code, and names that would leave their folder."""

from __future__ import annotations

import json
import logging
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tangentbundle as tb
from tangentbundle.datasets.download import fetch
from tangentbundle.files import read_tensors, write_tensors
from tangentbundle.io import read_field

from .reader import READERS, read_ledger, read_model
from .tally import Tally, nothing_forbidden

FLIPS = 3_000


def read_checkpoint(path: Path) -> None:
    """Whatever is accepted is what was written."""
    tensors, notes = read_tensors(path, "stress")
    assert notes == {"epoch": 3} and torch.equal(tensors["weight"], torch.arange(40.0)), "a changed file was read"


def _checkpoint() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        write_tensors(path, "stress", {"weight": torch.arange(40.0)}, {"epoch": 3})
        return path.read_bytes()


def flips(name: str, content: bytes, read: Callable[[Path], Any], count: int) -> dict[str, Any]:
    """Single flipped bits and cuts at random places: refused by name, or nothing of the content has changed."""
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
    np.savez(folder / "object.npz", points=np.array([[Trap(proof)]], dtype=object), allow_pickle=True)
    torch.save({"weight": Trap(proof)}, folder / "torch.safetensors")
    tally.try_out(lambda: tb.load(folder / "torch.safetensors"))
    unpickling = {"filters": [{"id": "pickle"}]}
    for name, codec in {"a": {**unpickling, "dtype": "|O"}, "b": unpickling}.items():
        store = folder / f"{name}.zarr"
        for variable in ("x", "y", "vx", "vy"):
            (store / variable).mkdir(parents=True)
            about = {"zarr_format": 2, "shape": [9], "chunks": [9], "dtype": "<f8", "order": "C", "compressor": None}
            about |= {"fill_value": None, "filters": None, **codec}
            (store / variable / ".zarray").write_text(json.dumps(about))
            (store / variable / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["point"]}')
            (store / variable / "0").write_bytes(trap)
        (store / ".zgroup").write_text('{"zarr_format": 2}')
    for path in (folder / "object.npz", folder / "a.zarr", folder / "b.zarr"):
        tally.try_out(lambda path=path: read_field(path))
    return {**tally.row(), "failures": int(bool(tally.failures) or tally.results > 0 or proof.exists())}


def leaving(folder: Path) -> dict[str, Any]:
    """Names of files to fetch that would lie outside the cache: refused before anything is looked at."""
    tally = Tally("names that leave their folder")
    names = ("../evil.nc", "/etc/passwd", "a/../../evil.nc", "..", "folder/file.nc", ".", "")
    for name in names:
        tally.try_out(lambda name=name: fetch(name, ["https://localhost"], cache=folder / "cache", attempts=1))
    return {**tally.row(), "failures": int(tally.errors["InvalidInputError"] != len(names))}


def run(share: float = 1.0) -> list[dict[str, Any]]:
    count = max(30, round(FLIPS * share))
    seeds = {name: READERS[name].seeds()[0] for name in ("model", "JSON lines")}
    rows = [
        flips("model", seeds["model"], read_model, count),
        flips("results", seeds["JSON lines"], read_ledger, count),
        flips("checkpoint", _checkpoint(), read_checkpoint, count),
    ]
    logging.disable(logging.CRITICAL)  # zarr tells of tasks that it gave up
    with tempfile.TemporaryDirectory() as folder, nothing_forbidden():
        rows += [traps(Path(folder)), leaving(Path(folder))]
    return rows
