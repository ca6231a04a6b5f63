"""Existing outputs: folders are overwritten only when asked; links are followed and modes kept."""

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tangentbundle as tb
from tangentbundle import plot
from tangentbundle.distributed.results import check_output, new_output, write_rows
from tangentbundle.errors import BusyFolderError, InvalidInputError, OutputError
from tangentbundle.io import Cloud, Field, Summary, write_field
from tangentbundle.report import write_report
from tangentbundle_cli import app

POINTS = tb.manifolds.Sphere(2).sample(40, seed=0)


def field(path, version, **options):
    write_field(Field(Cloud(POINTS, ("x", "y", "z")), version * POINTS[None]), path, **options)


def network(path, version):
    tb.save(tb.nn.TNN([1, 2, 1], seed=version), path)


def report(path, version):
    write_report(Summary("doctor", line=f"version {version}"), path)


def figure(path, version):
    canvas, axes = plot.canvas()
    axes[0, 0].plot([0, version])
    plot.save(canvas, path)


def part(path, version, **options):
    """One array or column, as a distributed bundle writes it."""
    with new_output(path, ["vectors"], (9, 2), np.dtype(float), 9, **options) as place:
        write_rows(place, 0, {"vectors": np.full((9, 2), float(version))})


FILES = {
    **{f"field{suffix}": field for suffix in (".csv", ".tsv", ".parquet", ".npz", ".ply", ".vtk", ".vtu", ".nc")},
    "network.safetensors": network,
    "report.html": report,
    "figure.png": figure,
}
STORES = {"parts.zarr": part, "parts.parquet": part}


def content(path):
    """The bytes of a file, or of all files of a folder by name."""
    if path.is_file():
        return path.read_bytes()
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", [*FILES, *STORES])
def test_links_are_followed_and_modes_kept(name, tmp_path):
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / f"real-{name}", tmp_path / name
    link.symlink_to(target)
    write, options = {**FILES, **STORES}[name], {"overwrite": True} if name in STORES else {}
    write(link, 1, **options)
    before = content(target)
    target.chmod(0o700 if name in STORES else 0o600)
    write(link, 2, **options)
    assert link.is_symlink() and content(target) != before
    assert stat.S_IMODE(target.stat().st_mode) == (0o700 if name in STORES else 0o600)
    assert [p.name for p in tmp_path.iterdir() if p != link] == ["data"] and list(target.parent.iterdir()) == [target]


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
    with pytest.raises(OutputError, match="permission" if make is endless else "another kind|a folder of that name"):
        {**FILES, **STORES}[name](tmp_path / name, 1, **({"overwrite": True} if name in STORES else {}))
    assert before == (content(tmp_path / name), (tmp_path / name).lstat().st_ino)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", STORES)
def test_stores_are_replaced_only_when_asked(name, tmp_path, monkeypatch):
    """And the old one stays if the new one cannot be put in place."""
    path = tmp_path / name
    STORES[name](path, 1)
    before = content(path)
    with pytest.raises(OutputError, match="a folder of that name"):
        STORES[name](path, 2)
    rename = Path.replace

    def fail(self, target):
        if Path(target) == path and not self.name.endswith(".before"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OutputError, match="Input/output error"):
        STORES[name](path, 2, overwrite=True)
    monkeypatch.undo()
    assert content(path) == before and list(tmp_path.iterdir()) == [path]
    STORES[name](path, 2, overwrite=True)
    assert content(path) != before and list(tmp_path.iterdir()) == [path]
    path.rename(tmp_path / "old")
    path.write_text("a file, not a folder")
    with pytest.raises(OutputError, match="another kind"):
        STORES[name](path, 2, overwrite=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_file_is_not_replaced(tmp_path):
    """Though its folder would allow it."""
    (tmp_path / "field.csv").write_text("x,y\n")
    (tmp_path / "field.csv").chmod(0o444)
    with pytest.raises(OutputError, match="no permission"):
        field(tmp_path / "field.csv", 1)


@pytest.mark.parametrize("name", [n for n in (*FILES, *STORES) if not n.startswith("parts")])
def test_names_as_long_as_the_file_system_allows(name, tmp_path):
    path = tmp_path / f"{'é' * 100}{'x' * (55 - len(Path(name).suffix))}{Path(name).suffix}"
    write, options = {**FILES, **STORES}[name], {"overwrite": True} if name in STORES else {}
    for version in (1, 2):
        write(path, version, **options)
        assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OutputError, match="cannot write"):
        write(tmp_path / f"x{path.name}", 1, **options)


def test_a_lock_file_keeps_its_content(tmp_path):
    from tangentbundle.files import only_writer

    (tmp_path / ".lock").write_text("of another program")
    with only_writer(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "of another program"


def test_a_folder_has_one_writer(tmp_path):
    from tangentbundle.files import only_writer

    with only_writer(tmp_path), pytest.raises(BusyFolderError, match="another process"), only_writer(tmp_path):
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
        assert "is the input" in run(f"{COMMANDS[command]} -o {output}", code=2).stderr
    assert content(folder / name) == before


def test_the_tool_says_what_it_overwrote(folder):
    line = COMMANDS["filter"]
    first, again = (run(f"{line} -o out.csv --report out.html").stdout for _ in range(2))
    assert "wrote                     out.csv\n" in first and "out.csv (overwritten)" in again
    assert "out.html (overwritten)" in again
    assert json.loads(run(f"{line} -o new.csv --json").stdout)["overwritten"] == []
    assert json.loads(run(f"{line} -o new.csv --json").stdout)["overwritten"] == ["new.csv"]
    for output in ("values.csv", "values.npz"):
        assert "overwritten" not in run(f"spectrum field.npz --dim 2 -k 3 -o {output}").stdout
        assert f"{output} (overwritten)" in run(f"spectrum field.npz --dim 2 -k 3 -o {output}").stdout


def test_results_in_parts_have_a_format():
    with pytest.raises(InvalidInputError, match="Change the suffix"):
        check_output("out.csv", overwrite=True)
