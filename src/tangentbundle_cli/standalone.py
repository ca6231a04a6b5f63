"""Commands that read no files: demo, doctor."""

from __future__ import annotations

import math
import platform
import re
from importlib.metadata import distributions, requires, version
from pathlib import Path
from typing import Annotated

import typer

import tangentbundle as tb
from tangentbundle.files import only_writer
from tangentbundle.results import Result, Table

from .files import steps
from .options import SILENT, Display

DEVELOPMENT = re.compile("(dev|docs|bench)['\"]")
"""How requirements end that only developers need: the name of an extra."""

PACKAGE_END = re.compile(r"[^\w-]")
"""What follows the name of a package in a requirement."""

SELF_TEST_LIMIT = 0.05
"""Largest relative error with which the self-test passes."""


def demo(
    out: Annotated[Path, typer.Option(help="folder for the figure and the report")] = Path(
        "out/demo"
    ),
    display: Display = SILENT,
) -> Result:
    """Denoise a field on a torus and interpolate wind, compared with simpler methods (half a
    minute).

    Examples:
        tangentbundle demo
    """
    from . import examples  # loads scikit-learn

    result = Result(
        "demo", "A noisy field on a torus, denoised, and wind interpolated from stations."
    )
    display.check_report()
    result.report = out / "report.html"
    with only_writer(out), steps(3, display) as step:
        tb.report.check_report(result.report)
        step("denoising a field on a torus")
        torus = examples.denoise_torus()
        step("interpolating wind from stations")
        filled = examples.fill_wind()
        step("drawing figures")
        body = []
        for example in (torus, filled):
            label = example.title
            errors = example.errors()
            for method, error in errors.items():
                result.add(label, f"{method:<26}{error:.0%} error")
                body.append([example.title, method, f"{error:.0%}"])
                label = ""
            result.data[example.title] = errors
        header = ["example", "method", "error"]
        result.details = Table("Error relative to the true field", header, body)
        with result.writing(out / "demo.png"):
            examples.draw(torus, filled, out / "demo.png")
    return result


def doctor(display: Display = SILENT) -> Result:
    """Show versions and GPU, and run a self-test of a few seconds.

    Example: tangentbundle doctor
    """
    result = Result("doctor", "Installed versions and the result of the self-test.")
    display.check_report()
    with steps(2, display) as step:
        step("collecting versions")
        versions = {"tangentbundle": version("tangentbundle"), **_dependencies()}
        system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
        result.add("python", system, versions=versions)
        packages = [f"{name} {number or 'missing'}" for name, number in versions.items()]
        result.add("packages", ", ".join(packages))
        step("running the self-test")
        error = _self_test(result)
    result.passed = error < SELF_TEST_LIMIT
    answer = "ok" if result.passed else "FAILED"
    text = f"{answer}, error {error:.1%} (limit {SELF_TEST_LIMIT:.0%})"
    result.add("self-test", text, error=error, passed=result.passed)
    return result


def _dependencies() -> dict[str, str | None]:
    """The versions of the packages that users of the library may need; None for missing ones."""
    installed = {_key(package.metadata["Name"]): package.version for package in distributions()}
    names = {"triton"}
    for requirement in requires("tangentbundle") or []:  # such as "pooch>=1.8; extra == 'data'"
        if not DEVELOPMENT.search(requirement):
            names.add(_key(PACKAGE_END.split(requirement)[0]))
    return {name: installed.get(name) for name in sorted(names)}


def _key(package: str) -> str:
    """The name of a package as all write it."""
    return package.lower().replace("_", "-")


def _self_test(result: Result) -> float:
    """Return the largest relative error of heat flow on the sphere, on the CPU and on a GPU if
    there is one."""
    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    result.add("GPU", gpu or "not found by torch; everything runs on the CPU", gpu=gpu)
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample(5000, seed=0)
    bundle = tb.TangentBundle.from_points(points)
    field = torch.from_numpy(bundle.to_coordinates(sphere.gradient_field(points, 2)))
    laplacian = bundle.laplacian()
    expected = math.exp(-0.5) * field  # at time 0.1, and the eigenvalue is 5
    errors = []
    for device in ["cpu", "cuda"] if gpu else ["cpu"]:
        filtered = tb.Heat(0.1)(laplacian.to(device), field.to(device)).cpu()
        errors.append(float((filtered - expected).norm() / field.norm()))
    return max(errors)
