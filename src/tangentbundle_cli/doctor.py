"""``tangentbundle doctor``: what is installed, and whether it works."""

from __future__ import annotations

from .job import Job, command

PACKAGES = ("tangentbundle", "numpy", "scipy", "torch", "numba", "scikit-learn", "pyarrow", "triton")
OPTIONAL = (
    "xarray",
    "netCDF4",
    "pooch",
    "meshio",
    "zarr",
    "matplotlib",
    "plotly",
    "dask",
    "torch-geometric",
    "pyvista",
)


@command
def doctor(job: Job) -> None:
    """Versions, GPU, and a self-test of a few seconds.

    Example: tangentbundle doctor
    """
    import platform
    from importlib.metadata import distributions

    with job.steps(2) as step:
        step("versions")
        there = {found.metadata["Name"]: found.version for found in distributions()}
        versions = {name: there.get(name) for name in (*PACKAGES, *OPTIONAL)}
        tell = job.summary.tell
        tell("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", versions=versions)
        for label, names in (("packages", PACKAGES), ("optional packages", OPTIONAL)):
            tell(label, ", ".join(f"{name} {versions[name] or 'missing'}" for name in names))
        step("self-test")
        checks = _self_test(job)
    for name, (error, limit) in checks.items():
        tell(f"test: {name}", f"{'ok' if error < limit else 'FAILED'}, error {error:.1%} (limit {limit:.2g})")
    job.summary.data["passed"] = all(error < limit for error, limit in checks.values())
    job.code = 0 if job.summary.data["passed"] else 1


def _self_test(job: Job) -> dict[str, tuple[float, float]]:
    """Relative errors against known answers on the sphere, and their limits."""
    import numpy as np
    import torch

    import tangentbundle as tb

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    job.summary.tell("GPU", gpu or "none found by torch; everything runs on the CPU", gpu=gpu)
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample(5000, seed=0)
    bundle = tb.TangentBundle.from_points(points)
    lap = bundle.laplacian()
    values = np.asarray(lap.spectrum(16)[0])
    checks = {"eigenvalues": (float(np.abs(values / np.repeat([1, 5], [6, 10]) - 1).max()), 0.08)}
    x = bundle.to_coordinates(sphere.gradient_field(points, 2))
    y = tb.Heat(0.1)(lap, x)
    checks["heat flow"] = (float(np.linalg.norm(y - np.exp(-0.5) * x) / np.linalg.norm(x)), 0.05)
    if gpu:
        on_gpu = tb.Heat(0.1)(lap.to("cuda"), torch.from_numpy(x).cuda()).cpu().numpy()
        checks["GPU agrees"] = (float(np.linalg.norm(on_gpu - y) / np.linalg.norm(y)), 1e-4)
    return checks
