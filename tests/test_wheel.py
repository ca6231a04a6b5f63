"""The wheel, installed into an environment of its own, has all it needs beside its dependencies."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
    subprocess.run([*command, "-w", folder, ROOT], check=True, timeout=300)
    (path,) = folder.glob("tangentbundle-*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_has_its_data(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in ("io/known_names.toml", "earth/natural_earth.npz", "report/page.html"):
        assert f"tangentbundle/{name}" in names
    assert not any(name.startswith("tests") for name in names)


@pytest.mark.slow
def test_an_installed_wheel_runs_the_demo(wheel, tmp_path):
    """The dependencies are those of this environment; the package itself is only in the wheel."""
    venv.create(tmp_path / "env", with_pip=False)
    scripts = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    python = scripts / "python"
    prefix = ["-m", "pip", "--python", python]
    install = [sys.executable, *prefix, "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, timeout=300)
    places = sysconfig.get_paths(vars={"base": str(tmp_path / "env")})
    Path(places["purelib"], "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    where = "import tangentbundle; print(tangentbundle.__file__)"
    environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}
    run = {"check": True, "cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    printed = subprocess.run([python, "-c", where], **run, timeout=120).stdout
    assert printed.startswith(str(tmp_path))
    demo = subprocess.run([scripts / "tangentbundle", "demo"], **run, timeout=900).stdout
    assert "FieldInterpolator" in demo and (tmp_path / "out/demo/report.html").stat().st_size > 1e6
