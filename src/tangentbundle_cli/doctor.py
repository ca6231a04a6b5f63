"""``tangentbundle doctor``: what is installed, what is used, and whether it works."""

from __future__ import annotations

from .job import Job, command

PACKAGES = ("tangentbundle", "numpy", "scipy", "torch", "numba", "scikit-learn", "triton")
EXTRAS = {
    "data": ("xarray", "netCDF4", "pooch"),
    "files": ("meshio", "zarr"),
    "plot": ("matplotlib", "plotly"),
    "cluster": ("dask",),
    "pyg": ("torch-geometric",),
    "pyvista": ("pyvista",),
}


@command
def doctor(job: Job) -> None:
    """Versions, CPU kernels, GPU, and a self-test of ten seconds.

    Example: tangentbundle doctor
    """
    import platform

    tell = job.summary.tell
    with job.steps(3) as step:
        step("versions")
        tell("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
        for group in (PACKAGES, *EXTRAS.values()):
            versions = {name: _version(name) for name in group}
            job.summary.data.setdefault("versions", {}).update(versions)
            extra = next((name for name, packages in EXTRAS.items() if packages == group), None)
            text = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
            remedy = "" if extra is None or all(versions.values()) else f" (pip install 'tangentbundle[{extra}]')"
            tell("packages" if extra is None else f"extra [{extra}]", text + remedy)
        step("devices")
        _devices(job)
        step("self-test")
        passed = _self_test(job)
    job.code = 0 if passed else 1


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices(job: Job) -> None:
    import llvmlite.binding as llvm
    import torch

    wide = [name for name in ("avx512f", "avx2", "neon") if llvm.get_host_cpu_features().get(name)]
    threads = torch.get_num_threads()
    kind = wide[0].upper() if wide else "plain"
    job.summary.tell("CPU kernels", f"compiled, {kind} instructions, {threads} threads", threads=threads, vector=kind)
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    job.summary.tell("GPU", gpu or "none found by torch; everything runs on the CPU", gpu=gpu)


def _self_test(job: Job) -> bool:
    """Known answers on the sphere: eigenvalues, heat, and denoising; the time of each."""
    from time import perf_counter

    import numpy as np

    import tangentbundle as tb

    sphere, checks = tb.manifolds.Sphere(2), []
    points = sphere.sample(5000, seed=0)

    def check(name: str, error: float, most: float, since: float) -> None:
        checks.append(error < most)
        word, seconds = "ok" if error < most else "FAILED", perf_counter() - since
        job.summary.tell(name, f"{word}, error {error:.1%} (at most {most:.1g}), {seconds:.1f} s")

    start = perf_counter()
    bundle = tb.TangentBundle.from_points(points)
    lap = bundle.laplacian()
    values = np.asarray(lap.spectrum(16)[0])
    check("test: eigenvalues", float(np.abs(values / np.repeat([1, 5], [6, 10]) - 1).max()), 0.08, start)
    start = perf_counter()
    x = bundle.to_coordinates(sphere.gradient_field(points, 2))
    y = tb.Heat(0.1)(lap, x)
    check("test: heat flow", float(np.linalg.norm(y - np.exp(-0.5) * x) / np.linalg.norm(x)), 0.05, start)
    if str(lap.device) == "cpu" and job.summary.data["gpu"]:
        import torch

        start = perf_counter()
        on_gpu = tb.Heat(0.1)(lap.to("cuda"), torch.from_numpy(x).cuda()).cpu().numpy()
        check("test: GPU agrees", float(np.linalg.norm(on_gpu - y) / np.linalg.norm(y)), 1e-4, start)
    start = perf_counter()
    few, rng = points[:120], np.random.default_rng(1)  # another seed than that of the points
    clean = sphere.gradient_field(few, 2)
    noisy = clean + 0.3 * rng.standard_normal(clean.shape)
    made = tb.FieldDenoiser(dim=2, random_state=0).fit(few, noisy).predict(few)
    check("test: denoising", float(np.square(made - clean).sum() / np.square(noisy - clean).sum()), 0.3, start)
    job.summary.data["passed"] = all(checks)
    return all(checks)
