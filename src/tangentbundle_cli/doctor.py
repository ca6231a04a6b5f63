"""``tangentbundle doctor``: what is installed, and whether it works."""

from __future__ import annotations

import tangentbundle as tb

from .job import Job, command


@command
def doctor(job: Job) -> None:
    """Versions, GPU, and a self-test of a few seconds.

    Example: tangentbundle doctor
    """
    import platform
    import re
    from importlib.metadata import distributions, requires, version

    with job.steps(2) as step:
        step("versions")
        there = {found.metadata["Name"].lower().replace("_", "-"): found.version for found in distributions()}
        used = [text for text in requires("tangentbundle") or [] if not re.search("(dev|docs|bench)['\"]", text)]
        names = [*sorted({re.split(r"[^\w-]", text)[0].lower().replace("_", "-") for text in used}), "triton"]
        versions = {"tangentbundle": version("tangentbundle"), **{name: there.get(name) for name in names}}
        tell = job.summary.tell
        tell("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", versions=versions)
        tell("packages", ", ".join(f"{name} {found or 'missing'}" for name, found in versions.items()))
        step("self-test")
        error, limit = _self_test(job), 0.05
    tell("self-test", f"{'ok' if error < limit else 'FAILED'}, error {error:.1%} (limit {limit:.0%})", error=error)
    job.summary.data["passed"] = error < limit
    job.code = 0 if error < limit else 1


def _self_test(job: Job) -> float:
    """The largest relative error of heat flow of an eigenfield on the sphere, on the CPU and on a GPU."""
    import math

    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    job.summary.tell("GPU", gpu or "none found by torch; everything runs on the CPU", gpu=gpu)
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample(5000, seed=0)
    bundle = tb.TangentBundle.from_points(points)
    x, lap = torch.from_numpy(bundle.to_coordinates(sphere.gradient_field(points, 2))), bundle.laplacian()
    errors = []
    for device in ["cpu", "cuda"] if gpu else ["cpu"]:
        y = tb.Heat(0.1)(lap.to(device), x.to(device)).cpu()  # the eigenvalue is 5
        errors.append(float((y - math.exp(-0.5) * x).norm() / x.norm()))
    return max(errors)
