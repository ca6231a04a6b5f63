"""Existing outputs: files are overwritten, folders never; links are followed and modes kept."""

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tangentbundle as tb
from tangentbundle import plot
from tangentbundle.errors import BusyFolderError, OutputError
from tangentbundle.io import Field, write_field
from tangentbundle.report import write_report
from tangentbundle.results import Result
from tangentbundle.spaces import Cloud
from tangentbundle_cli import app

POINTS = tb.manifolds.Sphere(2).sample(40, seed=0)


def field(path, version):
    write_field(Field(Cloud(POINTS, ("x", "y", "z")), version * POINTS[None]), path)


def network(path, version):
    tb.save(tb.nn.TNN([1, 2, 1], seed=version), path)


def report(path, version):
    write_report(Result("doctor", line=f"version {version}"), path)


def figure(path, version):
    canvas, axes = plot.canvas()
    axes[0, 0].plot([0, version])
    plot.save(canvas, path)


FILES = {
    **{
        f"field{suffix}": field
        for suffix in (
            ".csv",
            ".tsv",
            ".parquet",
            ".npz",
            ".ply",
            ".vtk",
            ".vtu",
            ".vtp",
            ".xdmf",
            ".nc",
        )
    },
    **{f"field{suffix}": field for suffix in (".ply", ".vtk", ".vtu", ".vtp", ".xdmf")},
    "network.safetensors": network,
    "report.html": report,
    "figure.png": figure,
}
STORES = {"field.zarr": field}


def content(path):
    """The bytes of a file, or of all files of a folder by name."""
    if path.is_file():
        return path.read_bytes()
    return {
        str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()
    }


@pytest.mark.parametrize("name", FILES)
def test_links_are_followed_and_modes_kept(name, tmp_path):
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / f"real-{name}", tmp_path / name
    link.symlink_to(target)
    FILES[name](link, 1)
    before = content(target)
    target.chmod(0o600)
    FILES[name](link, 2)
    assert link.is_symlink() and content(target) != before
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir() if p != link] == ["data"] and list(
        target.parent.iterdir()
    ) == [target]


def mess(path):
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to(path)


@pytest.mark.parametrize("make", [mess, pipe, endless])
@pytest.mark.parametrize("name", [*FILES, *STORES])
def test_folders_devices_and_loops_are_refused(name, make, tmp_path):
    make(tmp_path / name)
    before = content(tmp_path / name), (tmp_path / name).lstat().st_ino
    with pytest.raises(
        OutputError, match="permission" if make is endless else "a (folder|device) of that name"
    ):
        {**FILES, **STORES}[name](tmp_path / name, 1)
    assert before == (content(tmp_path / name), (tmp_path / name).lstat().st_ino)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", STORES)
def test_stores_are_never_replaced(name, tmp_path):
    path = tmp_path / name
    STORES[name](path, 1)
    before = content(path)
    with pytest.raises(OutputError, match="a folder of that name"):
        STORES[name](path, 2)
    assert content(path) == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["field.csv", "field.zarr"])
def test_nothing_is_left_where_an_output_cannot_be_put(name, tmp_path, monkeypatch):
    def fail(place, target):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("tangentbundle.files.put", fail)
    with pytest.raises(OutputError, match="Input/output error"):
        field(tmp_path / name, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_file_is_not_replaced(tmp_path):
    """Though its folder would allow it."""
    (tmp_path / "field.csv").write_text("x,y\n")
    (tmp_path / "field.csv").chmod(0o444)
    with pytest.raises(OutputError, match="no permission"):
        field(tmp_path / "field.csv", 1)


@pytest.mark.parametrize("name", [*FILES, *STORES])
def test_names_as_long_as_the_file_system_allows(name, tmp_path):
    path = tmp_path / f"{'é' * 100}{'x' * (55 - len(Path(name).suffix))}{Path(name).suffix}"
    write = {**FILES, **STORES}[name]
    for version in (1, 2)[: 1 if name in STORES else 2]:
        write(path, version)
        assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OutputError, match="cannot write"):
        write(tmp_path / f"x{path.name}", 1)


def test_a_lock_file_keeps_its_content(tmp_path):
    from tangentbundle.files import only_writer

    (tmp_path / ".lock").write_text("of another program")
    with only_writer(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "of another program"


def test_a_folder_has_one_writer(tmp_path):
    from tangentbundle.files import only_writer

    with (
        only_writer(tmp_path),
        pytest.raises(BusyFolderError, match="another process"),
        only_writer(tmp_path),
    ):
        pass
    with pytest.raises(ZeroDivisionError), only_writer(tmp_path):
        raise ZeroDivisionError
    with only_writer(tmp_path):
        pass


# The tool.


def run(line, code=0):
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    field("field.npz", 1)
    np.savez("series.npz", points=POINTS, vectors=np.sin(np.arange(24))[:, None, None] * POINTS)
    return tmp_path


COMMANDS = {
    "filter": "filter field.npz --dim 2 --neighbors 12 --heat 0.1",
    "denoise": "denoise field.npz --dim 2",
    "interpolate": "interpolate field.npz --at field.npz --dim 2",
    "forecast": "forecast series.npz --horizon 2 --dim 2",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_tool_refuses_before_any_work(command, folder):
    mess(folder / "data.zarr")
    assert "a folder of that name" in run(f"{COMMANDS[command]} -o data.zarr", code=2).stderr
    assert content(folder / "data.zarr") == {"thesis.txt": b"years of work"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_input_is_never_the_output(command, folder):
    name = COMMANDS[command].split()[1]
    (folder / "link.npz").symlink_to(folder / name)
    before = content(folder / name)
    for output in (name, f"./{name}", "link.npz"):
        assert "is also the input" in run(f"{COMMANDS[command]} -o {output}", code=2).stderr
    assert content(folder / name) == before


def test_the_tool_says_what_it_overwrote(folder):
    line = COMMANDS["filter"]
    first, again = (run(f"{line} -o out.csv --report out.html").stdout for _ in range(2))
    assert "wrote                     out.csv\n" in first and "out.csv (overwritten)" in again
    assert "out.html (overwritten)" in again
    assert json.loads(run(f"{line} -o new.csv --json").stdout)["overwritten"] == []
    assert json.loads(run(f"{line} -o new.csv --json").stdout)["overwritten"] == ["new.csv"]
    line = "spectrum field.npz --dim 2 -k 3 -o values.npz"
    assert "overwritten" not in run(line).stdout and "values.npz (overwritten)" in run(line).stdout
