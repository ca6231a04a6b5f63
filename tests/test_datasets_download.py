"""Downloads, against a server inside the test: whole and checked, or a named error and nothing left
behind."""

import hashlib
import io
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from scipy.io import netcdf_file

from tangentbundle import errors
from tangentbundle.datasets import fetch, fetch_ncep, load_wind
from tangentbundle.download import MIRROR
from tangentbundle.earth.sources import open_dataset

pytest.importorskip("pooch", reason="needs the extra `data`")
xarray = pytest.importorskip("xarray", reason="needs the extra `data`")
netCDF4 = pytest.importorskip("netCDF4", reason="needs the extra `data`")

LAT, LON = np.linspace(90, -90, 7), np.arange(0, 360, 30.0)


def component(name):
    """Four daily means of the rotation about the Earth's axis: u = cos(lat), v = 0."""
    values = np.broadcast_to(np.cos(np.radians(LAT))[:, None], (4, 7, 12)) * (name == "uwnd")
    days = np.datetime64("2016-01-01", "ns") + np.arange(4) * np.timedelta64(1, "D")
    return xarray.Dataset(
        {name: (("time", "lat", "lon"), values)}, {"time": days, "lat": LAT, "lon": LON}
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    for letter in "uv":
        component(f"{letter}wnd").to_netcdf(folder / f"{letter}wnd.sig995.2016.nc")
    out = io.BytesIO()
    with netcdf_file(out, "w") as classic:
        classic.createDimension("x", 1000)
        classic.createVariable("u", "f8", ("x",))[:] = 1.0
        classic.flush()
        (folder / "classic.nc").write_bytes(out.getvalue())
    return folder


class Server(ThreadingHTTPServer):
    """Serves a folder; ``faults`` maps file names to how many times they fail, and how."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.faults, self.requests = folder, {}, []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.rsplit("/", 1)[-1]
        self.server.requests.append(self.path)
        times, fault = self.server.faults.get(name, (0, None))
        if times:
            self.server.faults[name] = (times - 1, fault)
            return fault(self, (self.server.folder / name).read_bytes())
        if not (self.server.folder / name).exists():
            return self.send_error(404)
        self.send(whole, (self.server.folder / name).read_bytes())

    def send(self, how, content):
        how(self, content)

    def log_message(self, *args):
        pass


def answer(handler, announced, body):
    handler.send_response(200)
    if announced is not None:
        handler.send_header("Content-Length", str(announced))
    handler.end_headers()
    handler.wfile.write(body)


def whole(handler, content):
    answer(handler, len(content), content)


def cut(handler, content):
    answer(handler, len(content), content[: len(content) // 2])
    handler.close_connection = True


def cut_unannounced(handler, content):
    answer(handler, None, content[: len(content) // 2])


def truncated(handler, content):
    answer(handler, len(content) - 100, content[:-100])


def portal(handler, content):
    answer(handler, 17, b"<html>Log in!</html>"[:17])


def busy(handler, content):
    handler.send_error(503)


def downgrade(handler, content):
    handler.send_response(302)
    handler.send_header("Location", "http://example.org/file.nc")
    handler.end_headers()


NAME = "uwnd.sig995.2016.nc"
ALWAYS = 99


@pytest.fixture
def server(files, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.delenv(MIRROR, raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with Server(files) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def readable(path):
    open_dataset(path).close()


@pytest.fixture
def get(server, tmp_path):
    """Fetch one file from the server into an empty cache."""

    def run(name=NAME, check=readable, **options):
        return fetch(name, server.url, cache=tmp_path / "cache", check=check, **options)

    run.cache = tmp_path / "cache"
    return run


def test_a_file_comes_whole_once_and_stays(server, files, get):
    path = get()
    assert path == get.cache / NAME and path.read_bytes() == (files / NAME).read_bytes()
    assert get() == path and len(server.requests) == 1
    assert [p.name for p in get.cache.iterdir()] == [NAME]


def test_a_damaged_cache_is_fetched_anew(server, files, get):
    content = bytearray(get().read_bytes())
    content[-1] ^= 1
    (get.cache / NAME).write_bytes(content)
    right = (files / NAME).read_bytes()
    assert (
        get(sha256=hashlib.sha256(right).hexdigest()).read_bytes() == right
        and len(server.requests) == 2
    )


def test_checksums(files, get):
    assert get(sha256=hashlib.sha256((files / NAME).read_bytes()).hexdigest()).exists()
    with pytest.raises(errors.DamagedFileError, match="not match the known hash"):
        get("classic.nc", sha256="0" * 64)
    assert not (get.cache / "classic.nc").exists()


@pytest.mark.parametrize("fault", [cut, busy])
def test_passing_faults_are_retried(server, get, fault):
    server.faults[NAME] = (2, fault)
    assert get().exists() and len(server.requests) == 3


@pytest.mark.parametrize(
    "fault, error, tries, match",
    [
        (cut, errors.DownloadError, 3, MIRROR),
        (cut_unannounced, errors.DamagedFileError, 1, "truncated, damaged"),
        (truncated, errors.DamagedFileError, 1, "truncated, damaged"),
        (portal, errors.DamagedFileError, 1, "another format"),
        (busy, errors.DownloadError, 3, "503"),
        (downgrade, errors.DownloadError, 1, "https://"),
    ],
)
@pytest.mark.parametrize("name", [NAME, "classic.nc"])
def test_lasting_faults_are_named_and_leave_nothing(server, get, name, fault, error, tries, match):
    server.faults[name] = (ALWAYS, fault)
    with pytest.raises(error, match=match):
        get(name)
    assert list(get.cache.iterdir()) == [] and len(server.requests) == tries


def test_a_missing_file(get):
    with pytest.raises(errors.DownloadError, match=f"404.*{MIRROR}"):
        get("uwnd.sig995.1900.nc")
    assert list(get.cache.iterdir()) == []


def test_no_server(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(errors.DownloadError, match="cannot be downloaded"):
        fetch(NAME, "http://127.0.0.1:9", cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written(get):
    get.cache.write_text("not a folder")
    with pytest.raises(errors.DownloadError, match=r"cache=\.\.\."):
        get()


@pytest.mark.parametrize(
    "url",
    ["http://example.org", "ftp://example.org", "http://localhost.example.org", "file:///etc"],
)
def test_only_https(url, tmp_path, monkeypatch):
    monkeypatch.setenv(MIRROR, url)
    with pytest.raises(errors.DownloadError, match="https://"):
        fetch_ncep(2016, cache=tmp_path)


def test_ncep_through_a_mirror(server, tmp_path, monkeypatch):
    monkeypatch.setenv(MIRROR, server.url)
    data = fetch_ncep(2016, cache=tmp_path)
    assert len(data) == 4 and "2016" in data.provenance and "such as a pole" in data.provenance
    assert np.allclose(data.ambient, np.cross([0, 0, 1], data.points))
    assert len(server.requests) == 2
    fetch_ncep(2016, cache=tmp_path)
    assert len(server.requests) == 2
    (tmp_path / "uwnd.sig995.2016.nc").write_bytes(b"put there by hand")
    with pytest.raises(errors.DamagedFileError, match="another format"):
        fetch_ncep(2016, cache=tmp_path)


def test_ncep_from_a_folder(files, tmp_path, monkeypatch):
    monkeypatch.setenv(MIRROR, str(files))
    assert len(fetch_ncep(2016, cache=tmp_path)) == 4 and list(tmp_path.iterdir()) == []
    with pytest.raises(errors.DamagedFileError, match="SHA-256"):
        fetch_ncep(2016, sha256=("0" * 64, None))
    with pytest.raises(errors.DownloadError, match=r"no file uwnd.sig995.2017.nc. Put it there"):
        fetch_ncep(2017)
    for year in (1947, True, "2016"):
        with pytest.raises(errors.InvalidInputError, match="1948"):
            fetch_ncep(year)


def test_a_truncated_file_in_a_folder_is_no_wind(files, tmp_path):
    for name in (NAME, "classic.nc"):
        content = (files / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(errors.DamagedFileError, match="truncated"):
            load_wind(tmp_path / name)
