"""Files and folders that are whole or not there, however large: written beside, then put in place."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import OutputError, TangentBundleError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place beside ``path`` to write to; it becomes ``path`` if the block ends well, and is removed if not.

    Whatever goes wrong in writing, a full disk say, becomes an ``OutputError``; an interrupt stays one.
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
    """Put what was written in place. A folder cannot be replaced at one stroke: the old one steps aside."""
    if place.is_file():
        with place.open("rb") as file:
            os.fsync(file.fileno())
    if path.is_dir():
        path.replace(place.parent / "before")
    place.replace(path)


def check_place(path: Path) -> None:
    """Refuse a place that cannot be written, before any work is done."""
    if not path.parent.is_dir():
        raise OutputError(f"cannot write {path}: there is no folder {path.parent}. Make it, or choose another place.")
    if path.is_dir() and path.suffix != ".zarr":
        raise OutputError(f"cannot write {path}: it is a folder. Give the name of a file.")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"cannot write {path}: no permission for its folder. Choose another place.")
