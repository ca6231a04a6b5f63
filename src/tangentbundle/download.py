"""Files from the network: downloaded once over HTTPS by pooch, checked, and cached."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
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
    pooch, mirror = extra("pooch", "Downloading data"), os.environ.get(MIRROR, "")
    if mirror and "://" not in mirror:
        path = Path(mirror).expanduser() / name
        if not path.is_file():
            raise DownloadError(
                f"the folder {mirror} has no file {name}. Put it there, or unset {MIRROR}."
            )
        if sha256 and (digest := pooch.file_hash(path)) != sha256:
            raise DamagedFileError(
                f"{path} has SHA-256 {digest}, expected {sha256}. Download it again."
            )
        check(path)
        return path
    url = f"{(mirror or base).rstrip('/')}/{name}"
    _require_https(url)
    folder = Path(cache or pooch.os_cache("tangentbundle"))
    store = pooch.create(folder, "", registry={name: sha256}, urls={name: url}, retry_if_failed=2)
    redirects = {
        "response": lambda r, **_: _require_https(urljoin(r.url, r.headers.get("Location", "")))
    }
    try:
        path = Path(store.fetch(name, downloader=pooch.HTTPDownloader(timeout=30, hooks=redirects)))
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


def _require_https(url: str) -> None:
    """Refuse other addresses, except on this machine."""
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) not in (
        ("http", "localhost"),
        ("http", "127.0.0.1"),
    ):
        raise DownloadError(f"expected an address that begins with https://, got {url}.")
