"""Commands that read no files: demo, doctor, reproduce."""

from __future__ import annotations

import math
import platform
import re
from importlib.metadata import distributions, requires, version
from pathlib import Path
from typing import Annotated, Literal

import typer

import tangentbundle as tb
from tangentbundle.files import only_writer
from tangentbundle.results import Result, Table

from .files import steps
from .options import SILENT, Display, Seed, require

Name = Literal["torus", "reconstruction", "forecast", "classification"]

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
    from tangentbundle.experiments import demo as examples

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
        filled, wind, stations = examples.fill_wind()
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
            examples.figure(torus, filled, wind, stations, out / "demo.png")
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


def reproduce(
    name: Annotated[Name, typer.Argument(help="table of the paper")],
    full: Annotated[
        bool, typer.Option("--full/--quick", help="all cells and runs, or a small subset")
    ] = False,
    protocol: Annotated[
        Literal["paper", "best"],
        typer.Option(help="the paper's protocol, or this library's best methods"),
    ] = "paper",
    data: Annotated[
        str | None, typer.Option(help="wind: gfs, embedded, or ncep (the paper's, downloaded)")
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[
        int,
        typer.Option(
            callback=require(lambda value: value > 0 or value == -1, "-1 or a positive number"),
            help="number of processes; -1 for all cores",
        ),
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="folder; default runs/<name>-<protocol>-<quick|full>")
    ] = None,
    networks: Annotated[
        Path | None,
        typer.Option(
            help="folder with results of the paper's protocol; adds their networks to the table"
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="keep finished runs of the folder")
    ] = True,
    display: Display = SILENT,
) -> Result:
    """Compute one of the paper's tables and compare it with the published numbers.

    Writes one JSON line for each run, all scores as CSV, a Markdown page and a figure.

    Example: tangentbundle reproduce torus --full --jobs 2
    """
    from tangentbundle.experiments import experiment
    from tangentbundle.experiments.report import write_report
    from tangentbundle.experiments.runner import merge_with, run_experiment

    result = Result("reproduce", "A table of the paper, recomputed.")
    display.check_report()
    words = [name, protocol, "full" if full else "quick"]
    if data:
        words.append(data)
    folder = out or Path("runs") / "-".join(words)
    chosen = experiment(name, data)
    rows = run_experiment(
        chosen,
        folder,
        full=full,
        protocol=protocol,
        seed=seed,
        jobs=jobs,
        resume=resume,
        quiet=display.silent,
    )
    if networks is not None:
        rows = merge_with(chosen, rows, networks, full=full, seed=seed)
    tables, files = write_report(chosen, rows, protocol, folder, full)
    result.table = tables.comparison()
    result.details = tables.full()
    result.add("table", result.details.title, experiment=name, protocol=protocol, runs=len(rows))
    result.files = [folder / "results.jsonl", *files]
    result.rows += [("wrote", str(file)) for file in result.files]
    return result
