"""Files from the network: over HTTPS, checked, cached whole or not at all; or from a mirror or folder of one's own."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from scipy.io import netcdf_file

from ..errors import (
    CacheWriteError,
    DamagedFileError,
    DownloadError,
    IncompleteDownloadError,
    InvalidInputError,
    RemoteFileNotFoundError,
)
from .extras import extra

MIRROR = "TANGENTBUNDLE_DATA_MIRROR"
BY_HAND = f"Or download it by hand into a folder, and set {MIRROR} to that folder"
LOCAL = ("localhost", "127.0.0.1", "::1")
Check = Callable[[Path], None]


def fetch(
    name: str,
    bases: Sequence[str],
    *,
    cache: Path | str | None = None,
    mirror: str | None = None,
    sha256: str | None = None,
    check: Check | None = None,
    progress: bool = True,
    attempts: int = 3,
    pause: float = 1.0,
) -> Path:
    """The path of a NetCDF file: of the mirror's folder, of the cache, or downloaded into the cache.

    Args:
        bases: addresses of folders, tried in turn while the file is not found.
        cache: default: ``pooch.os_cache("tangentbundle")``.
        mirror: address or folder to use instead of ``bases``; default: the environment variable
            ``TANGENTBUNDLE_DATA_MIRROR``.
        sha256: checksum, if known. Without it, the announced length and the file's own structure are checked.
        check: raises an error for a file that must not enter the cache.
        attempts: how often to try while the connection fails; pauses double, from ``pause`` seconds.
    """
    if name in ("", ".", "..") or Path(name).name != name:
        raise InvalidInputError(f"expected the name of a file without folders, got {name!r}.")
    mirror = mirror or os.environ.get(MIRROR) or None

    def verify(path: Path) -> None:
        _check(path, sha256)
        if check is not None:
            check(path)

    if mirror and "://" not in mirror:
        return _from_folder(Path(mirror).expanduser(), name, verify)
    bases = [mirror] if mirror else bases
    urls = [_secure(f"{base.rstrip('/')}/{name}") for base in bases]
    target = Path(cache or extra("pooch", "Downloading data").os_cache("tangentbundle")) / name
    if target.exists() and _unchanged(target, sha256):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheWriteError(
            f"cannot make the cache folder {target.parent} ({error}). Pass another: cache=..."
        ) from error
    for number, url in enumerate(urls):
        try:
            return _with_retries(url, target, verify, progress, attempts, pause)
        except RemoteFileNotFoundError:
            if number + 1 == len(urls):
                raise
    raise InvalidInputError(f"no address was given for {name}. Pass at least one in bases.")


def check_netcdf(path: Path) -> None:
    """Refuse what is no whole NetCDF file. A truncated classic file would otherwise read as zeros.

    >>> check_netcdf(Path(__file__))
    Traceback (most recent call last):
    tangentbundle.errors.DamagedFileError: download.py is no NetCDF file: it begins with ...
    """
    with path.open("rb") as file:
        magic = file.read(4)
    if magic not in (b"CDF\x01", b"CDF\x02", b"CDF\x05", b"\x89HDF"):
        raise DamagedFileError(f"{path.name} is no NetCDF file: it begins with {magic!r}. Delete it and fetch it anew.")
    try:
        if magic in (b"CDF\x01", b"CDF\x02"):
            netcdf_file(path, mmap=False).close()  # reads everything
        else:
            extra("netCDF4", "Reading NetCDF files").Dataset(path).close()  # knows its length
    except (OSError, ValueError, TypeError, IndexError) as error:
        raise DamagedFileError(
            f"{path.name} is truncated or damaged ({error}). Delete it and fetch it anew."
        ) from error


def _from_folder(folder: Path, name: str, verify: Check) -> Path:
    path = folder / name
    if not path.is_file():
        raise RemoteFileNotFoundError(f"the folder {folder} has no file {name}. Put it there, or unset {MIRROR}.")
    verify(path)
    return path


def _secure(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOCAL):
        raise DownloadError(f"expected an address that begins with https://, got {url}. Only localhost may do without.")
    return url


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _note(target: Path) -> Path:
    """Where the checksum of a downloaded file is kept."""
    return target.with_name(target.name + ".sha256")


def _unchanged(target: Path, sha256: str | None) -> bool:
    known = sha256 or (_note(target).read_text().strip() if _note(target).exists() else "")
    if known:
        return _digest(target) == known
    try:
        check_netcdf(target)
    except DamagedFileError:
        return False
    return True


def _check(path: Path, sha256: str | None) -> None:
    if sha256 and (digest := _digest(path)) != sha256:
        raise DamagedFileError(
            f"{path.name} has SHA-256 {digest}, expected {sha256}. Fetch it anew; if this stays, the file was replaced."
        )
    check_netcdf(path)


def _with_retries(url: str, target: Path, verify: Check, progress: bool, attempts: int, pause: float) -> Path:
    for attempt in range(attempts):
        try:
            return _download(url, target, verify, progress)
        except (RemoteFileNotFoundError, CacheWriteError):
            raise
        except DownloadError:
            if attempt + 1 >= attempts:
                raise
            time.sleep(pause * 2**attempt)
    raise InvalidInputError(f"attempts must be at least 1, got {attempts!r}.")


def _download(url: str, target: Path, verify: Check, progress: bool) -> Path:
    """One attempt. The file appears under its name only when whole and checked."""
    pooch, requests = extra("pooch", "Downloading data"), extra("requests", "Downloading data")
    announced = 0

    def look(response: Any, **_: Any) -> None:
        nonlocal announced
        _secure(urljoin(response.url, response.headers.get("Location", "")))
        announced = int(response.headers.get("Content-Length") or 0)
        free = shutil.disk_usage(target.parent).free
        if response.ok and announced > free:
            raise CacheWriteError(
                f"{target.name} needs {announced} bytes, but {target.parent} has {free} left. "
                "Free some space, or pass another folder: cache=..."
            )

    bar = _Bar(target.name) if progress else None
    part = None
    try:
        handle, path = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        part = Path(path)
        with os.fdopen(handle, "wb") as file:
            pooch.HTTPDownloader(
                progressbar=bar,
                chunk_size=1 << 16,
                timeout=30,
                headers={"Accept-Encoding": "identity"},
                hooks={"response": look},
            )(url, file, None)
        size = part.stat().st_size
        if announced and size != announced:
            raise IncompleteDownloadError(f"{url}: {size} of {announced} bytes came. Try again. {BY_HAND}.")
        verify(part)
        digest = _digest(part)
        part.replace(target)
        _note(target).write_text(digest + "\n")
        return target
    except DownloadError:
        raise
    except requests.HTTPError as error:
        status = error.response.status_code
        if status in (404, 410):
            raise RemoteFileNotFoundError(
                f"{url} does not exist (status {status}). Check the year, or whether the server moved it. {BY_HAND}."
            ) from error
        raise DownloadError(f"{url} answered with status {status}. Try again later. {BY_HAND}.") from error
    except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError) as error:
        raise IncompleteDownloadError(f"{url}: the connection was cut ({error}). Try again. {BY_HAND}.") from error
    except requests.RequestException as error:
        raise DownloadError(f"{url} cannot be reached ({error}). Check the connection. {BY_HAND}.") from error
    except OSError as error:
        raise CacheWriteError(
            f"cannot write {target.name} into {target.parent} ({error}). "
            "Free some space, or pass another folder: cache=..."
        ) from error
    finally:
        if bar:
            bar.close()
        if part is not None:
            part.unlink(missing_ok=True)


class _Bar:
    """A progress bar of rich, in the form that pooch expects."""

    def __init__(self, name: str):
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task(name, total=None)
        self._progress.start()

    total = property(fset=lambda self, value: self._progress.update(self._task, total=value or None))

    def update(self, amount: int) -> None:
        self._progress.update(self._task, advance=amount)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop()
