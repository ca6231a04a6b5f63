"""Files from the network: downloaded once over HTTPS by pooch, checked, and cached."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from .errors import DamagedFileError, DownloadError, InvalidInputError
from .extras import extra

MIRROR = "TANGENTBUNDLE_DATA_MIRROR"


def fetch(
    name: str,
    base: str,
    *,
    cache: Path | str | None = None,
    sha256: str | None = None,
    check: Callable[[Path], None] = lambda path: None,
) -> Path:
    """Download a file once and return its path.

    The environment variable ``TANGENTBUNDLE_DATA_MIRROR`` replaces ``base`` by the address of a
    mirror, or by a local folder of files that are already downloaded.

    Args:
        name: name of the file, without folders.
        base: HTTPS address of the folder that holds it.
        cache: local folder; default ``pooch.os_cache("tangentbundle")``.
        sha256: checksum; a cached file that does not match is downloaded again.
        check: raises a ``ValueError`` or a ``DamagedFileError`` for a file that must not stay in
            the cache.
    """
    if name in ("", ".", "..") or Path(name).name != name:
        raise InvalidInputError(f"expected the name of a file without folders, got {name!r}.")
    mirror = os.environ.get(MIRROR, "")
    if mirror and "://" not in mirror:
        path = _find_in_folder(mirror, name, sha256)
        check(path)
        return path
    url = f"{(mirror or base).rstrip('/')}/{name}"
    _require_https(url)
    folder = Path(cache or _pooch().os_cache("tangentbundle"))
    try:
        path = _download(url, folder, name, sha256)
        check(path)
    except OSError as error:  # also those of requests
        raise DownloadError(
            f"{url} cannot be downloaded into {folder} ({error}). Check the connection and the "
            "disk, pass another folder (cache=...), or download the file by hand into a folder "
            f"and set {MIRROR} to that folder."
        ) from error
    except ValueError as error:  # a checksum that differs, or the check
        (folder / name).unlink(missing_ok=True)
        raise DamagedFileError(f"{url} is damaged, or not the expected file: {error}") from error
    return path


def _pooch() -> Any:
    return extra("pooch", "Downloading data")


def _find_in_folder(folder: str, name: str, sha256: str | None) -> Path:
    """A file that was downloaded by hand."""
    path = Path(folder).expanduser() / name
    if not path.is_file():
        raise DownloadError(
            f"the folder {folder} has no file {name}. Put it there, or unset {MIRROR}."
        )
    if sha256:
        digest = _pooch().file_hash(path)
        if digest != sha256:
            raise DamagedFileError(
                f"{path} has SHA-256 {digest}, expected {sha256}. Download it again."
            )
    return path


def _download(url: str, folder: Path, name: str, sha256: str | None) -> Path:
    """A file in the cache, from the network if it is not there or differs from its checksum."""
    pooch = _pooch()
    store = pooch.create(folder, "", registry={name: sha256}, urls={name: url}, retry_if_failed=2)
    hooks = {"response": _require_https_redirect}
    return Path(store.fetch(name, downloader=pooch.HTTPDownloader(timeout=30, hooks=hooks)))


def _require_https_redirect(response: Any, **options: Any) -> None:
    """Refuse answers that lead to other addresses."""
    _require_https(urljoin(response.url, response.headers.get("Location", "")))


def _require_https(url: str) -> None:
    """Refuse other addresses, except on this machine."""
    address = urlsplit(url)
    is_local = address.scheme == "http" and address.hostname in ("localhost", "127.0.0.1")
    if address.scheme != "https" and not is_local:
        raise DownloadError(f"expected an address that begins with https://, got {url}.")
