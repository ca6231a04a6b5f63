"""``tangentbundle doctor``: what is installed, what is used, and whether it works."""

from __future__ import annotations

from .job import Job, command

PACKAGES = {
    "packages": ("tangentbundle", "numpy", "scipy", "torch", "numba", "scikit-learn", "pyarrow", "triton"),
    "extra [data]": ("xarray", "netCDF4", "pooch"),
    "extra [files]": ("meshio", "zarr"),
    "extra [plot]": ("matplotlib", "plotly"),
    "extra [cluster]": ("dask",),
    "extra [pyg]": ("torch-geometric",),
    "extra [pyvista]": ("pyvista",),
}


@command
def doctor(job: Job) -> None:
    """Versions, CPU kernels, GPU, and a self-test of ten seconds.

    Example: tangentbundle doctor
    """
    with job.steps(3) as step:
        step("versions")
        _versions(job)
        step("devices")
        _devices(job)
        step("self-test")
        checks = _self_test(job)
    passed = all(error < limit for error, limit in checks.values())
    for name, (error, limit) in checks.items():
        text = f"{'ok' if error < limit else 'FAILED'}, error {error:.1%} (limit {limit:.2g})"
        job.summary.tell(f"test: {name}", text, passed=passed)
    job.code = 0 if passed else 1


def _versions(job: Job) -> None:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    job.summary.tell("python", system, versions={})
    for label, names in PACKAGES.items():
        versions = {name: installed(name) for name in names}
        job.summary.data["versions"] |= versions
        text = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
        complete = label == "packages" or all(versions.values())
        job.summary.tell(label, text if complete else f"{text} (pip install 'tangentbundle{label.split()[1]}')")


def _devices(job: Job) -> None:
    import llvmlite.binding as llvm
    import torch

    features = llvm.get_host_cpu_features()
    kind = next((name.upper() for name in ("avx512f", "avx2", "neon") if features.get(name)), "plain")
    threads = torch.get_num_threads()
    job.summary.tell("CPU kernels", f"compiled, {kind} instructions, {threads} threads", threads=threads, vector=kind)
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    job.summary.tell("GPU", gpu or "none found by torch; everything runs on the CPU", gpu=gpu)


def _self_test(job: Job) -> dict[str, tuple[float, float]]:
    """Relative errors against known answers on the sphere, and their limits."""
    import numpy as np
    import torch

    import tangentbundle as tb

    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample(5000, seed=0)
    bundle = tb.TangentBundle.from_points(points)
    lap = bundle.laplacian()
    values = np.asarray(lap.spectrum(16)[0])
    checks = {"eigenvalues": (float(np.abs(values / np.repeat([1, 5], [6, 10]) - 1).max()), 0.08)}
    x = bundle.to_coordinates(sphere.gradient_field(points, 2))
    y = tb.Heat(0.1)(lap, x)
    checks["heat flow"] = (float(np.linalg.norm(y - np.exp(-0.5) * x) / np.linalg.norm(x)), 0.05)
    if job.summary.data["gpu"]:
        on_gpu = tb.Heat(0.1)(lap.to("cuda"), torch.from_numpy(x).cuda()).cpu().numpy()
        checks["GPU agrees"] = (float(np.linalg.norm(on_gpu - y) / np.linalg.norm(y)), 1e-4)
    few, rng = points[:120], np.random.default_rng(1)  # another seed than that of the points
    clean = sphere.gradient_field(few, 2)
    noisy = clean + 0.3 * rng.standard_normal(clean.shape)
    denoised = tb.FieldDenoiser(dim=2, random_state=0).fit(few, noisy).predict(few)
    checks["denoising"] = (float(np.square(denoised - clean).sum() / np.square(noisy - clean).sum()), 0.3)
    return checks
