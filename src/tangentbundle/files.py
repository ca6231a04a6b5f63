"""Files that are whole or not there: atomic writing, tensors with a checksum, and one writer a folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from .errors import BusyFolderError, DamagedFileError, InvalidInputError


def write_atomically(path: str | os.PathLike, content: bytes) -> None:
    """Write a file so that others see the old one or the new one whole, also after a power cut."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise InvalidInputError(f"cannot write {target}: {error.strerror or error}. Choose another place.") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
    except OSError as error:
        raise InvalidInputError(f"cannot write {target}: {error.strerror or error}. Choose another place.") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


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
