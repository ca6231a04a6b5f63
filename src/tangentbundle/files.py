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

NO_PERMISSION = "there is no permission. Choose another place."

VERSION = "1"
"""Of the format of files with tensors."""


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
        raise OutputError(
            f"cannot write {path}: {_reason(error)}. Choose another place; nothing was left."
        ) from error


def _reason(error: OSError | RuntimeError) -> str:
    """What the system says about an error, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0]


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
    problem = _problem_with(place)
    if problem is not None:
        raise OutputError(f"cannot write {path}: {problem}")
    return place


def _problem_with(place: Path) -> str | None:
    """Why a file cannot be written at a place, and what to do; None if it can."""
    if len(os.fsencode(place.name)) > MAX_NAME_BYTES:
        return f"the name has more than {MAX_NAME_BYTES} bytes. Choose a shorter one."
    if not place.parent.is_dir():
        return f"no such folder: {place.parent}. Create it, or choose another place."
    if not os.access(place.parent, os.W_OK):
        return NO_PERMISSION
    if not os.path.lexists(place):
        return None
    if not os.access(place, os.R_OK | os.W_OK):
        return NO_PERMISSION
    if place.is_file():
        return None
    kind = "a folder" if place.is_dir() else "a device"
    return f"there is {kind} of that name. Choose another name, or remove it first."


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

    plain = {}
    for name, tensor in tensors.items():
        plain[name] = tensor.detach().to("cpu").contiguous().clone()
    text = json.dumps(notes, sort_keys=True, allow_nan=True)
    metadata = {
        "format": kind,
        "version": VERSION,
        "notes": text,
        "sha256": _digest(kind, plain, text),
    }
    write_atomically(path, save(plain, metadata))


def read_tensors(path: str | os.PathLike, kind: str) -> tuple[dict[str, torch.Tensor], Any]:
    """What ``write_tensors`` wrote; other, damaged or newer files are refused by name. Nothing is
    ever unpickled."""
    source = Path(path)
    if not source.is_file():
        raise InvalidInputError(f"no such file: {source}.")
    tensors, metadata = _read_safetensors(source)
    stored_kind = metadata.get("format", "tensors of another program")
    if stored_kind != kind:
        raise DamagedFileError(f"{source} holds {stored_kind!r}, expected {kind!r}.")
    version = metadata.get("version")
    if version != VERSION:
        raise DamagedFileError(
            f"{source} has format version {version}, this library reads version {VERSION}. "
            "Update it."
        )
    if _digest(kind, tensors, metadata.get("notes", "")) != metadata.get("sha256"):
        raise DamagedFileError(
            f"the checksum of {source} does not fit its content: the file is damaged. Copy it anew."
        )
    try:
        return tensors, json.loads(metadata["notes"])
    except (KeyError, ValueError, RecursionError) as error:
        raise DamagedFileError(f"{source} has notes that are not JSON ({error!r:.200}).") from error


def _read_safetensors(source: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors and metadata of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    tensors = {}
    try:
        with safe_open(source, framework="pt") as file:
            metadata = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118 - not a dictionary
                tensors[name] = file.get_tensor(name)
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
    return tensors, metadata


def _digest(kind: str, tensors: Mapping[str, torch.Tensor], notes: str) -> str:
    import torch

    digest = hashlib.sha256(f"{kind}\n{notes}\n".encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
