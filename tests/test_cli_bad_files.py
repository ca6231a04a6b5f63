"""Bad files and full disks: every command that writes says what is wrong in a sentence, and leaves
nothing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tangentbundle as tb
from tangentbundle_cli import app

HEADER, ROWS = "x,y,z,vx,vy,vz\n", "".join(f"{i},{i * i},1,0,0,1\n" for i in range(5))
BAD = {
    "missing columns": "a,b\n1,2\n",
    "text in numbers": HEADER + ROWS + "1,2,abc,0,0,1\n",
    "mixed lengths": HEADER + ROWS + "1,2\n",
    "empty": "",
    "no rows": HEADER,
    "latitude": "lat,lon,u,v\n95,0,1,1\n0,0,1,1\n1,0,1,1\n",
    "missing numbers": HEADER + ROWS + "1,2,,0,0,1\n",
    "duplicates": HEADER + ROWS + "2,4,1,0,0,1\n",
    "too few": HEADER + "1,1,1,1,1,1\n",
    "no text": "x,y\0",
}
COMMANDS = {
    "filter": "filter bad.csv --heat 0.1 -o out.csv",
    "decompose": "decompose bad.csv -o out.csv",
    "denoise": "denoise bad.csv -o out.parquet",
    "interpolate": "interpolate bad.csv --at good.csv -o out.nc",
    "forecast": "forecast bad.csv --horizon 2 -o out.zarr",
    "spectrum": "spectrum bad.csv -o out.npz",
    "inspect": "inspect bad.csv",
}


def refused(line, *words):
    """The sentence with which the tool refuses a command."""
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 2, (line, result.stdout, result.stderr, result.exception)
    assert (
        result.stdout == ""
        and result.stderr.startswith("error: ")
        and result.stderr.count("\n") == 1
    )
    assert result.stderr.rstrip().endswith((".", "?")) and all(
        word in result.stderr for word in words
    )
    return result.stderr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    points = tb.manifolds.Sphere(2).sample(60, seed=0)
    columns = np.c_[points, tb.manifolds.Sphere(2).gradient_field(points, 2)]
    pd.DataFrame(columns, columns=["x", "y", "z", "vx", "vy", "vz"]).to_csv("good.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", COMMANDS)
def test_bad_files(command, name, folder):
    Path("bad.csv").write_text(BAD[name])
    refused(COMMANDS[command])
    assert sorted(p.name for p in folder.iterdir()) == ["bad.csv", "good.csv"]


def test_bad_places_to_predict_at(folder):
    for name in ("missing columns", "text in numbers", "empty", "latitude"):
        Path("bad.csv").write_text(BAD[name])
        refused("interpolate good.csv --at bad.csv -o out.csv")
    refused("interpolate good.csv --at none.csv -o out.csv", "no such file")
    assert sorted(p.name for p in folder.iterdir()) == ["bad.csv", "good.csv"]


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_formats_and_places(command, folder):
    line = COMMANDS[command].replace("bad.csv", "good.csv")
    refused(line.replace(f"{command} good.csv", f"{command} none.csv"), "no such file")
    Path("good.xyz").write_text("1 2 3")
    refused(line.replace(f"{command} good.csv", f"{command} good.xyz"), "unknown format")
    if command != "inspect":
        head = line[: line.index(" -o ")]
        suffix = ".npz" if command == "spectrum" else ".csv"
        refused(f"{head} -o out.xyz")
        refused(f"{head} -o none/out{suffix}", "no such folder")
        Path(f"folder{suffix}").mkdir()
        refused(f"{head} -o folder{suffix}", "a folder of that name")
    assert not [p for p in folder.iterdir() if p.name.startswith("out") or p.name == "none"]


def test_a_full_disk(folder):
    """In one process whose files may have 1 kB: each command computes, meets the limit in writing,
    and says so."""
    lines = [
        "filter good.csv --heat 0.1 -o out.csv",
        "filter good.csv --heat 0.1 -o out.parquet",
        "filter good.csv --heat 0.1 -o out.nc",
        "denoise good.csv -o out.npz",
        "interpolate good.csv --at good.csv -o out.csv",
        "forecast series.npz --horizon 2 -o out.npz",
        "spectrum good.csv -k 3 -o out.npz",
        "inspect good.csv -k 0 --report out.html",
    ]
    table = pd.read_csv("good.csv").to_numpy()
    waves = np.sin(np.arange(24))[:, None, None] * table[:, 3:]
    np.savez("series.npz", points=table[:, :3], vectors=waves)
    code = (
        "import json, os, resource, signal, sys\n"
        "os.environ['OMP_WAIT_POLICY'] = 'PASSIVE'\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from typer.testing import CliRunner\n"
        "from tangentbundle_cli import app\n"
        "run = lambda: [CliRunner().invoke(app, line.split()) for line in "
        "json.loads(sys.argv[1])]\n"
        # compiled functions are cached in files, too
        "assert not any(r.exit_code for r in run())\n"
        "for name in os.listdir(): name.startswith('out') and os.remove(name)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
        "results = run()\n"
        "print(json.dumps([(r.exit_code, r.stdout, r.stderr) for r in results]))"
    )
    command = [sys.executable, "-B", "-c", code, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    results = json.loads(done.stdout)
    for line, (exit_code, stdout, stderr) in zip(lines, results, strict=True):
        assert (exit_code, stdout) == (2, ""), (line, stdout, stderr)
        assert stderr.startswith("error: cannot write") and stderr.count("\n") == 1, (line, stderr)
    assert {p.name for p in folder.iterdir()} == {"good.csv", "series.npz"}
