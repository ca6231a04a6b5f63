"""Files from the network: downloaded once over HTTPS, checked, and cached."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
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
    attempts: int = 3,
) -> Path:
    """Download a file once and return its path.

    The environment variable ``TANGENTBUNDLE_DATA_MIRROR`` replaces ``base`` by the address of a mirror, or by a local
    folder of files that are already downloaded.

    Args:
        name: name of the file, without folders.
        base: HTTPS address of the folder that holds it.
        cache: local folder; default ``pooch.os_cache("tangentbundle")``.
        sha256: checksum. Without it, the checksum of the first download is stored next to the file, and a cached file
            that no longer matches is downloaded again.
        check: raises an error for a file that must not enter the cache.
        attempts: number of tries while the download fails.
    """
    if name in ("", ".", "..") or Path(name).name != name:
        raise InvalidInputError(f"expected the name of a file without folders, got {name!r}.")
    pooch, mirror = extra("pooch", "Downloading data"), os.environ.get(MIRROR, "")
    if mirror and "://" not in mirror:
        path = Path(mirror).expanduser() / name
        if not path.is_file():
            raise DownloadError(f"the folder {mirror} has no file {name}. Put it there, or unset {MIRROR}.")
        if sha256 and (digest := pooch.file_hash(path)) != sha256:
            raise DamagedFileError(f"{path} has SHA-256 {digest}, expected {sha256}. Download it again.")
        check(path)
        return path
    url = f"{(mirror or base).rstrip('/')}/{name}"
    _require_https(url)
    folder = Path(cache or pooch.os_cache("tangentbundle"))
    with _named_errors(url, folder):
        note = folder / f"{name}.sha256"
        known = sha256 or (note.read_text().strip() if note.is_file() else None)
        store = pooch.create(folder, "", registry={name: known}, urls={name: url}, retry_if_failed=attempts - 1)

        def download(url: str, output: str, store: Any) -> None:
            pooch.HTTPDownloader(timeout=30, hooks={"response": _refuse_downgrade})(url, output, store)
            check(Path(output))

        path = Path(store.fetch(name, downloader=download))
        if known is None:
            check(path)  # it may have been put there by hand
            note.write_text(pooch.file_hash(path) + "\n")
        return path


@contextlib.contextmanager
def _named_errors(url: str, folder: Path) -> Iterator[None]:
    """Errors of pooch, requests and the disk as errors of this library."""
    requests = extra("requests", "Downloading data")
    try:
        yield
    except DownloadError:
        raise
    except requests.RequestException as error:
        raise DownloadError(
            f"{url} cannot be downloaded ({error}). Check the connection, or download the file by hand into a folder "
            f"and set {MIRROR} to that folder."
        ) from error
    except OSError as error:
        raise DownloadError(
            f"cannot write {url.rpartition('/')[2]} into {folder} ({error}). Free some space, or pass another folder: "
            "cache=..."
        ) from error
    except ValueError as error:  # a checksum that differs, or what the check found
        raise DamagedFileError(f"{url} is damaged, or not the expected file: {error}") from error


def _require_https(url: str) -> None:
    """Refuse other addresses, except on this machine."""
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) not in (("http", "localhost"), ("http", "127.0.0.1")):
        raise DownloadError(f"expected an address that begins with https://, got {url}.")


def _refuse_downgrade(response: Any, **_: Any) -> None:
    _require_https(urljoin(response.url, response.headers.get("Location", "")))
