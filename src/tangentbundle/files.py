"""Atomic writing, tensors with a checksum, and one writer for a folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from .errors import (
    BusyFolderError,
    DamagedFileError,
    InvalidInputError,
    OutputError,
    TangentBundleError,
)

if TYPE_CHECKING:
    import torch

MAX_NAME_BYTES = 255
"""Longest file name, in bytes, on common file systems."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary place for a file or folder, which becomes ``path`` if the block succeeds; see
    ``check_place``.

    Other processes see the old file or the new one, never a part. Errors of writing, such as a full
    disk, become an ``OutputError``; temporary files are removed.
    """
    try:
        target = check_place(path)
        with tempfile.TemporaryDirectory(
            prefix=".writing.", dir=target.parent, ignore_cleanup_errors=True
        ) as folder:
            place = Path(folder) / path.name
            yield place
            put(place, target)
    except TangentBundleError:
        raise
    except (OSError, RuntimeError) as error:  # netCDF and Arrow raise RuntimeError
        reason = (
            error.strerror
            if isinstance(error, OSError) and error.strerror
            else str(error).splitlines()[0]
        )
        raise OutputError(
            f"cannot write {path}: {reason}. Choose another place; nothing was left."
        ) from error


def put(place: Path, target: Path) -> None:
    """Rename what was written to its target; the mode of a file that was there stays."""
    if place.is_file():
        with place.open("rb") as file:
            os.fsync(file.fileno())
    if target.exists():
        shutil.copymode(target, place)
    place.replace(target)


def write_atomically(path: str | os.PathLike, content: bytes) -> None:
    """Write a file atomically, and create the folders it lies in."""
    target = Path(path)
    with contextlib.suppress(OSError):  # reported when the file is written
        target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as place:
        place.write_bytes(content)


def check_place(path: Path) -> Path:
    """Where an output goes, links followed; refused, before any work, if it cannot be written.

    Existing files are overwritten; folders and devices are not.
    """
    place = Path(os.path.realpath(path))
    exists = os.path.lexists(place)
    if len(os.fsencode(place.name)) > MAX_NAME_BYTES:
        problem = f"the name has more than {MAX_NAME_BYTES} bytes. Choose a shorter one."
    elif not place.parent.is_dir():
        problem = f"no such folder: {place.parent}. Create it, or choose another place."
    elif not os.access(place.parent, os.W_OK) or (
        exists and not os.access(place, os.R_OK | os.W_OK)
    ):
        problem = "there is no permission. Choose another place."
    elif exists and not place.is_file():
        kind = "a folder" if place.is_dir() else "a device"
        problem = f"there is {kind} of that name. Choose another name, or remove it first."
    else:
        return place
    raise OutputError(f"cannot write {path}: {problem}")


def check_html(path: Path) -> None:
    """Refuse, before any work, a report that cannot be written."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise OutputError(
            f"expected an .html file for the report, got {path.name}. Change the suffix."
        )
    check_place(path)


@contextlib.contextmanager
def only_writer(folder: str | os.PathLike) -> Iterator[Path]:
    """Hold a folder for this process; a second one is refused. The lock ends with the process,
    however it ends."""
    place = Path(folder)
    lock = filelock.FileLock(place / ".lock", timeout=0)
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout as error:
        raise BusyFolderError(
            f"another process is writing in {place}. Wait for it, stop it, or choose another "
            "folder."
        ) from error
    except OSError as error:
        raise InvalidInputError(
            f"cannot write in {place}: {error.strerror or error}. Choose another folder."
        ) from error
    try:
        yield place
    finally:
        lock.release()


def write_tensors(
    path: str | os.PathLike, kind: str, tensors: Mapping[str, torch.Tensor], notes: Any
) -> None:
    """Tensors and JSON ``notes`` in one safetensors file, atomically, with a checksum over all of
    it."""
    from safetensors.torch import save

    plain = {name: t.detach().to("cpu").contiguous().clone() for name, t in tensors.items()}
    text = json.dumps(notes, sort_keys=True, allow_nan=True)
    metadata = {"format": kind, "version": "1", "notes": text, "sha256": _digest(kind, plain, text)}
    write_atomically(path, save(plain, metadata))


def read_tensors(path: str | os.PathLike, kind: str) -> tuple[dict[str, torch.Tensor], Any]:
    """What ``write_tensors`` wrote; other, damaged or newer files are refused by name. Nothing is
    ever unpickled."""
    from safetensors import SafetensorError, safe_open

    source = Path(path)
    if not source.is_file():
        raise InvalidInputError(f"no such file: {source}.")
    try:
        with safe_open(source, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    except (
        SafetensorError,
        OSError,
        ValueError,
        KeyError,
        RuntimeError,
        MemoryError,
        OverflowError,
    ) as error:
        raise DamagedFileError(
            f"{source} is not a readable safetensors file ({error}): it is damaged, cut short or "
            "of another kind."
        ) from error
    found, version = metadata.get("format", "tensors of another program"), metadata.get("version")
    if found != kind:
        raise DamagedFileError(f"{source} holds {found!r}, expected {kind!r}.")
    if version != "1":
        raise DamagedFileError(
            f"{source} has format version {version}, this library reads version 1. Update it."
        )
    if _digest(kind, tensors, metadata.get("notes", "")) != metadata.get("sha256"):
        raise DamagedFileError(
            f"the checksum of {source} does not fit its content: the file is damaged. Copy it anew."
        )
    try:
        return tensors, json.loads(metadata["notes"])
    except (KeyError, ValueError, RecursionError) as error:
        raise DamagedFileError(f"{source} has notes that are not JSON ({error!r:.200}).") from error


def _digest(kind: str, tensors: Mapping[str, torch.Tensor], notes: str) -> str:
    import torch

    digest = hashlib.sha256(f"{kind}\n{notes}\n".encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
