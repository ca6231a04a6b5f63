"""A fast sample of the stress suite (``make stress``), and the faults it found, one by one."""

import socket
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import tangentbundle as tb
from harness.ledger import Ledger
from stress import (
    damage,
    entries,
    kills,
    limits,
    meshes,
    outputs,
    reader,
    threads,
    values,
    victims,
)
from tangentbundle.download import fetch
from tangentbundle.errors import (
    AccuracyWarning,
    DamagedFileError,
    InvalidInputError,
    MemoryLimitError,
    NonFiniteError,
    SuspiciousDataWarning,
)
from tangentbundle.io import read_field
from tangentbundle.manifolds import Ellipsoid, KleinBottle, Sphere

pytestmark = pytest.mark.usefixtures("one_torch_thread")
ROOT = Path(__file__).parents[1]


# The suite itself, a little of each part.


@pytest.mark.parametrize(
    "entry", [e for e in entries.ENTRIES if e.name != "estimators"], ids=lambda e: e.name
)
def test_entry_points(entry):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        tally = entries.fuzz(entry, 20)
    assert not tally.failures and tally.inputs >= 3


@pytest.mark.parametrize("name", reader.READERS)
def test_readers(name):
    tally = reader.mutate(name, 40, seed=1)
    assert not tally.failures and tally.inputs == 40 and tally.errors.total() > 5


def test_missing_cells_and_units():
    rows = values.run(0.04)
    assert not any(row["failures"] for row in rows) and all(row["results"] > 5 for row in rows)


def test_the_tally_sees_what_is_wrong():
    tally = reader.Tally("faulty")
    with pytest.raises(ZeroDivisionError):
        tally.try_out(lambda: 1 / 0)
    assert tally.row()["failures"] == 1
    with reader.nothing_forbidden(), pytest.raises(BaseException, match="Popen"):
        subprocess.run(["true"], check=False)


def test_damage_and_traps():
    rows = damage.run(0.02)
    assert not any(row["failures"] for row in rows)
    assert all(row["named errors"] > row["results"] for row in rows)


def test_existing_outputs():
    rows = outputs.run(0.4)
    assert not any(row["failures"] for row in rows) and sum(row["inputs"] for row in rows) > 100


def test_damaged_meshes():
    rows = {row["what"]: row for row in meshes.run(0.04)}
    assert not any(row["failures"] for row in rows.values())
    assert rows["functions"]["named errors"] == 0  # on every mesh
    assert rows["cut fields"]["results"] > rows["fields"]["results"] > 0


@pytest.mark.slow
def test_a_thousand_damaged_meshes():
    assert not any(row["failures"] for row in meshes.run())


def test_absurd_requests():
    assert not any(row["failures"] for row in limits.run(0.01))


def test_shared_by_threads():
    assert threads.disagreement(1) < 1e-9


@pytest.mark.slow
def test_kills():
    assert not any(row["failures"] for row in kills.run(0.05))


def test_the_command_that_is_killed_ends_without_a_kill(tmp_path):
    victims.reproduce([0.0], str(tmp_path))
    assert (tmp_path / "finished").exists()


@pytest.mark.parametrize("suffix", victims.SUFFIXES)
def test_the_killer_sees_what_is_lost(suffix, tmp_path):
    victims.write([0.0], str(tmp_path), [6.0] * len(victims.SUFFIXES), most=1)
    path = tmp_path / f"field{suffix}"
    assert kills._version(path) == 7.0
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert np.isnan(kills._version(path))


# What it found.


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("wrap", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_signals_that_are_not_finite_are_refused(bad, wrap):
    bundle = tb.TangentBundle.from_points(wrap(Sphere(2).sample(60, seed=0)), dim=2)
    lap, x = bundle.laplacian(), np.ones((60, 2, 1))
    x[7, 1] = bad
    x = wrap(x)
    calls = [
        lambda: lap @ x,
        lambda: tb.Heat(0.1)(lap, x),
        lambda: tb.Heat(0.1)(lap, x, tb.Chebyshev()),
    ]
    calls += [lambda: bundle.to_ambient(x), lambda: lap.norm(x), lambda: lap.to_frequency(x, 3)]
    for call in calls:
        with pytest.raises(NonFiniteError, match=r"index \(7, 1, 0\)"):
            call()


def test_networks_and_batches_are_not_looked_at():
    """Hidden signals may be anything: a diverging training is told by its loss."""
    lap = tb.TangentBundle.from_points(
        torch.from_numpy(Sphere(2).sample(60, seed=0)).float(), dim=2
    ).laplacian()
    x = torch.full((60, 2, 1), torch.nan)
    assert tb.nn.TNN([1, 1])(x, lap).isnan().all()
    assert torch.vmap(lambda part: lap @ part)(x.expand(3, 60, 2, 1)).isnan().all()


def test_noise_in_many_dimensions_is_told():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((300, 3)))[0]
    points = Sphere(2).sample(800, seed=0) @ turn.T
    with warnings.catch_warnings():
        warnings.simplefilter("error", SuspiciousDataWarning)
        tb.TangentBundle.from_points(points, dim=2)
    noisy = points + 0.02 * np.random.default_rng(1).standard_normal(points.shape)
    with (
        pytest.warns(SuspiciousDataWarning, match="principal coordinates"),
        pytest.warns(AccuracyWarning, match="too noisy"),
    ):
        tb.TangentBundle.from_points(noisy, dim=2)


@pytest.mark.parametrize("seed", [1, 2])
def test_flat_is_not_twisted(seed):
    """The two sides of a flat ellipsoid nearly touch at its rim; a Klein bottle stays what it
    is."""
    for space, n in ((Ellipsoid((1.0, 1.0, 0.1)), 600), (KleinBottle(4), 600)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = tb.TangentBundle.from_points(space.sample(n, seed=seed), dim=2).diagnose(
                quiet=True
            )
        assert report.orientable == space.orientable


def test_memory_of_high_dimensions_is_counted():
    """A bundle of dimension 8 needs 13 times the bytes an edge of one of dimension 2."""
    points = Sphere(8).sample(500, seed=0)
    with pytest.raises(MemoryLimitError, match=r"GB; the limit is 0.01 GB"):
        tb.TangentBundle.from_points(points, dim=8, neighbors=50, max_memory=10e6)
    tb.TangentBundle.from_points(points, dim=8, neighbors=50, max_memory=100e6)


def test_a_damaged_line_of_results_is_refused(tmp_path):
    path, header = tmp_path / "results.jsonl", {"seed": 0}
    ledger = Ledger(path, header, resume=False)
    for n in range(3):
        ledger.append({"n": n}, [{"mse": 0.25}])
    rows, lines = ledger.rows, path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[1].replace("0.25", "0.35"), *lines[2:]]))
    with pytest.raises(DamagedFileError, match=r"line 2 .* delete that line"):
        Ledger(path, header, resume=True)
    path.write_text("".join([lines[0], *lines[2:]]))
    assert Ledger(path, header, resume=True).rows == rows[1:]


def test_a_truncated_mesh_is_no_smaller_mesh(tmp_path):
    lines = reader.READERS["PLY"].seeds()[0]
    path = tmp_path / "cut.ply"
    path.write_bytes(lines[: int(0.6 * len(lines))])
    with pytest.raises(DamagedFileError):
        read_field(path)


def test_a_single_array_is_no_archive(tmp_path):
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.ones((3, 3)))
    with pytest.raises(DamagedFileError, match="not a readable NumPy archive"):
        read_field(tmp_path / "a.npz")


@pytest.mark.parametrize("header", ["{'descr': '<f8',", "{[]: 1}", "-" * 9000 + "1", "\t1\n  2"])
def test_headers_of_arrays_are_parsed_with_care(header, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr(
            "points.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
        )
    with pytest.raises(DamagedFileError, match="not a readable"):
        read_field(tmp_path / "a.npz")


def test_a_header_without_an_end_is_no_endless_loop(tmp_path):
    (tmp_path / "a.ply").write_bytes(b"ply\nformat ascii 1.0\ncomment x")
    with pytest.raises(DamagedFileError, match="not a readable"):
        read_field(tmp_path / "a.ply")


@pytest.mark.parametrize("name", ["../evil.nc", "..", "", "folder/file.nc", "/etc/hosts"])
def test_names_in_the_cache_have_no_folders(name, tmp_path):
    with pytest.raises(InvalidInputError, match="without folders"):
        fetch(name, "https://localhost", cache=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", [{"lr": -1.0}, {"lr": np.nan}, {"clip": 0.0}, {"patience": -3}])
def test_options_of_training(option):
    lap = tb.TangentBundle.from_points(
        torch.from_numpy(Sphere(2).sample(30, seed=0)).float(), dim=2
    ).laplacian()
    x = torch.ones(30, 2, 1)
    with pytest.raises(InvalidInputError, match=next(iter(option))):
        tb.fit(tb.nn.TNN([1, 1]), [(x, lap, x)], epochs=1, progress=False, **option)


# Network and supply chain.


def test_no_network_but_in_fetch(monkeypatch, tmp_path):
    """The library works where every connection is refused; what fetches says so by name."""

    def refuse(*arguments):
        raise AssertionError(f"a connection was asked for: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    data = tb.datasets.load_wind()
    points, winds = (
        data.points[::40],
        np.einsum("nda,na->nd", data.frames[::40], data.components[0, ::40]),
    )
    bundle = tb.TangentBundle.from_points(points, dim=2)
    smooth = tb.Heat(0.1)(bundle.laplacian(), bundle.to_coordinates(winds))
    assert np.isfinite(smooth).all() and bundle.diagnose(quiet=True).components == 1
    with pytest.raises(AssertionError, match="a connection was asked for"):
        tb.datasets.fetch_ncep(2016, cache=tmp_path)


def test_hashes_belong_to_the_locked_versions():
    locked = {
        line.split(" ;")[0].lower()
        for line in (ROOT / "requirements.lock").read_text().splitlines()
    }
    lines = [
        line
        for line in (ROOT / "requirements.hashes").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert len(lines) > 50
    for line in lines:
        requirement, _, digest = line.partition(" --hash=sha256:")
        assert requirement.lower() in locked and len(digest) == 64, (
            f"{requirement}: run scripts/lock_hashes.py"
        )


def test_the_suite_can_be_called():
    command = [sys.executable, "-m", "stress", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "entries" in done.stdout and "share" in done.stdout
