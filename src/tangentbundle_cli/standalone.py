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

from .job import Job, command


@command
def demo(
    job: Job,
    out: Annotated[Path, typer.Option(help="folder for the figure and the report")] = Path(
        "out/demo"
    ),
) -> None:
    """Denoise a field on a torus and interpolate wind, compared with simpler methods (half a
    minute).

    Examples:
        tangentbundle demo
    """
    from . import examples  # loads scikit-learn

    if job.report is None:
        job.report = out / "report.html"
    with tb.files.only_writer(out), job.steps(3) as step:
        job.check_report()
        step("denoising a field on a torus")
        torus = examples.denoise_torus()
        step("interpolating wind from stations")
        filled = examples.fill_wind()
        step("drawing figures")
        body = []
        for example in (torus, filled):
            errors = example.errors()
            label = example.title
            for method, error in errors.items():
                job.summary.add(label, f"{method:<26}{error:.0%} error")
                body.append([example.title, method, f"{error:.0%}"])
                label = ""
            job.summary.data[example.title] = errors
        job.summary.table = tb.io.Table(
            "Error relative to the true field", ["example", "method", "error"], body
        )
        with job.summary.writing(out / "demo.png"):
            examples.draw(torus, filled, out / "demo.png")


@command
def doctor(job: Job) -> None:
    """Show versions and GPU, and run a self-test of a few seconds.

    Example: tangentbundle doctor
    """
    with job.steps(2) as step:
        step("collecting versions")
        installed = {
            found.metadata["Name"].lower().replace("_", "-"): found.version
            for found in distributions()
        }
        needed = [
            text
            for text in requires("tangentbundle") or []
            if not re.search("(dev|docs|bench)['\"]", text)
        ]
        names = [
            *sorted({re.split(r"[^\w-]", text)[0].lower().replace("_", "-") for text in needed}),
            "triton",
        ]
        versions = {
            "tangentbundle": version("tangentbundle"),
            **{name: installed.get(name) for name in names},
        }
        add = job.summary.add
        add(
            "python",
            f"{platform.python_version()} on {platform.system()} {platform.machine()}",
            versions=versions,
        )
        add(
            "packages",
            ", ".join(f"{name} {found or 'missing'}" for name, found in versions.items()),
        )
        step("running the self-test")
        error, limit = _self_test(job), 0.05
    add(
        "self-test",
        f"{'ok' if error < limit else 'FAILED'}, error {error:.1%} (limit {limit:.0%})",
        error=error,
    )
    job.summary.data["passed"] = error < limit
    job.code = 0 if error < limit else 1


def _self_test(job: Job) -> float:
    """Return the largest relative error of heat flow on the sphere, on the CPU and on a GPU if
    there is one."""
    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    job.summary.add("GPU", gpu or "not found by torch; everything runs on the CPU", gpu=gpu)
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample(5000, seed=0)
    bundle = tb.TangentBundle.from_points(points)
    x, lap = (
        torch.from_numpy(bundle.to_coordinates(sphere.gradient_field(points, 2))),
        bundle.laplacian(),
    )
    errors = []
    for device in ["cpu", "cuda"] if gpu else ["cpu"]:
        y = tb.Heat(0.1)(lap.to(device), x.to(device)).cpu()  # the eigenvalue is 5
        errors.append(float((y - math.exp(-0.5) * x).norm() / x.norm()))
    return max(errors)
