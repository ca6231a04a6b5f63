"""Files that are whole or not there: atomic writing, tensors with a checksum, and one writer a folder."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from .errors import BusyFolderError, DamagedFileError, InvalidInputError, OutputError, TangentBundleError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place beside ``path`` to write a file or folder to; it becomes ``path`` if the block ends well.

    Others see the old one or the new one whole, also after a power cut. Whatever goes wrong in writing, a full disk
    say, becomes an ``OutputError``; an interrupt stays one; nothing is left.
    """
    folder = None
    try:
        try:
            folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            place = folder / path.name
            yield place
            put(place, path)
        except TangentBundleError:
            raise
        except (OSError, RuntimeError) as error:  # netCDF and Arrow have their own kinds
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
            raise OutputError(
                f"cannot write {path}: {reason}. Choose another place; nothing was left there."
            ) from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def put(place: Path, path: Path) -> None:
    """Put what was written in place. A folder trades places with the old one, or that one steps aside first."""
    if place.is_file():
        with place.open("rb") as file:
            os.fsync(file.fileno())
    if path.is_dir():
        if _trade_places(place, path):
            return
        path.replace(place.parent / "before")
    place.replace(path)


def _trade_places(first: Path, second: Path) -> bool:
    """Exchange two names at one stroke, where the system can (Linux)."""
    exchange, here = getattr(ctypes.CDLL(None), "renameat2", None), -100  # AT_FDCWD
    return exchange is not None and exchange(here, os.fsencode(first), here, os.fsencode(second), 2) == 0


def write_atomically(path: str | os.PathLike, content: bytes) -> None:
    """Write a file, and the folders it lies in, whole or not at all."""
    target = Path(path)
    with contextlib.suppress(OSError):  # told when the file is written
        target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as place:
        place.write_bytes(content)


def check_place(path: Path) -> None:
    """Refuse a place that cannot be written, before any work is done."""
    if not path.parent.is_dir():
        raise OutputError(f"cannot write {path}: there is no folder {path.parent}. Make it, or choose another place.")
    if path.is_dir() and path.suffix != ".zarr":
        raise OutputError(f"cannot write {path}: it is a folder. Give the name of a file.")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"cannot write {path}: no permission for its folder. Choose another place.")


@contextlib.contextmanager
def only_writer(folder: str | os.PathLike) -> Iterator[Path]:
    """Hold a folder for this process; a second one is refused. The lock goes with the process, however it ends."""
    import fcntl

    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = (place / ".lock").open("w")
    except OSError as error:
        raise InvalidInputError(
            f"cannot write in {place}: {error.strerror or error}. Choose another folder."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyFolderError(
                f"another process is writing in {place}. Wait for it, stop it, or choose another folder."
            ) from error
        yield place


def write_tensors(path: str | os.PathLike, kind: str, tensors: Mapping[str, torch.Tensor], notes: Any) -> None:
    """Tensors and JSON ``notes`` in one safetensors file, atomically, with a checksum over all of it."""
    from safetensors.torch import save

    plain = {name: t.detach().to("cpu").contiguous().clone() for name, t in tensors.items()}
    text = json.dumps(notes, sort_keys=True, allow_nan=True)
    metadata = {"format": kind, "version": "1", "notes": text, "sha256": _digest(kind, plain, text)}
    write_atomically(path, save(plain, metadata))


def read_tensors(path: str | os.PathLike, kind: str) -> tuple[dict[str, torch.Tensor], Any]:
    """What ``write_tensors`` wrote; other, damaged or newer files are refused by name. Nothing is ever unpickled."""
    from safetensors import SafetensorError, safe_open

    source = Path(path)
    if not source.is_file():
        raise InvalidInputError(f"there is no file {source}.")
    try:
        with safe_open(source, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError, MemoryError, OverflowError) as error:
        raise DamagedFileError(
            f"{source} is not a readable safetensors file ({error}): it is damaged, cut short or of another kind."
        ) from error
    if metadata.get("format") != kind:
        raise DamagedFileError(
            f"{source} holds {metadata.get('format', 'tensors of another program')!r}, expected {kind!r}."
        )
    if metadata.get("version") != "1":
        raise DamagedFileError(
            f"{source} has format version {metadata.get('version')}, this library reads version 1. Update it."
        )
    if _digest(kind, tensors, metadata.get("notes", "")) != metadata.get("sha256"):
        raise DamagedFileError(f"the checksum of {source} does not fit its content: the file is damaged. Copy it anew.")
    return tensors, json.loads(metadata["notes"])


def _digest(kind: str, tensors: Mapping[str, torch.Tensor], notes: str) -> str:
    digest = hashlib.sha256(f"{kind}\n{notes}\n".encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
