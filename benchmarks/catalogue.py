"""All benchmarks: what each shows, and the function that measures it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from harness.records import Row


@dataclass(frozen=True)
class Benchmark:
    """A measurement, ``python -m benchmarks NAME``.

    The function, ``module:function`` of this package, returns the rows; its parameters are the
    options of the command. ``quick`` ones are run by ``make bench``, and the rows of those that
    are not ``saved`` are only printed.
    """

    name: str
    function: str
    shows: str
    quick: bool = False
    saved: bool = True

    def load(self) -> Callable[..., list[Row]]:
        """The function, whose module may need libraries that are not installed."""
        module, function = self.function.split(":")
        return getattr(import_module(f"benchmarks.{module}"), function)


GROUPS: dict[str, tuple[Benchmark, ...]] = {
    "Speed on a CPU": (
        Benchmark(
            "build",
            "steps:build",
            "points to Laplacian, 40 000 points, against potpourri3d",
            quick=True,
        ),
        Benchmark(
            "product",
            "steps:product",
            "the Laplacian times a signal, against torch CSR and scipy CSR",
            quick=True,
        ),
        Benchmark("heat", "steps:heat", "`Heat(t)` against scipy's `expm_multiply`", quick=True),
        Benchmark(
            "heat_growth",
            "steps:heat_growth",
            "the cost of heat grows linearly with points, and as the root of the time",
            quick=True,
        ),
        Benchmark(
            "training",
            "steps:training",
            "a training step at n = 400, against a plain dense network",
            quick=True,
        ),
        Benchmark(
            "startup",
            "startup:run",
            "the import, and the first Laplacian of a process",
            quick=True,
        ),
        Benchmark("costs", "costs:run", "what each method costs on data of a usual size"),
        Benchmark("fit_time", "fit_time:run", "`FieldDenoiser.fit` against scikit-learn's process"),
        Benchmark("busy", "busy:run", "processor time of ten typical jobs beside busy processes"),
        Benchmark(
            "versions",
            "busy:compare",
            "the same jobs with the library in another folder, such as an older version",
            saved=False,
        ),
    ),
    "Size": (
        Benchmark(
            "scaling",
            "large:scaling",
            "cost per edge and memory, from ten thousand to a million points",
            quick=True,
        ),
        Benchmark("large", "large:large", "ten million points whose operator is on disk"),
        Benchmark("tool", "tool:tool", "a table of a million rows through the command line"),
        Benchmark(
            "tool_series",
            "tool:series",
            "ten thousand winds smoothed by the command line, killed and resumed",
        ),
        Benchmark("gpu", "gpu:run", "from points to answers on one GPU"),
    ),
    "Right answers": (
        Benchmark(
            "accuracy",
            "accuracy:accuracy",
            "eigenvalues against exact ones, for each order and constant",
            quick=True,
        ),
        Benchmark(
            "scale",
            "accuracy:scale",
            "the error of eigenvalues against the number of neighbours",
            quick=True,
        ),
        Benchmark(
            "highdim",
            "accuracy:highdim",
            "a sphere in 300 dimensions, without and with noise",
            quick=True,
        ),
        Benchmark(
            "endurance",
            "endurance:run",
            "extreme scales, densities, dimensions and numbers of steps",
            quick=True,
        ),
        Benchmark(
            "meshes",
            "meshes:run",
            "eigenvalues of meshes, and the set-up, against potpourri3d",
            quick=True,
        ),
        Benchmark(
            "soups",
            "soups:run",
            "functions on meshes that are no surface, against robust_laplacian",
            quick=True,
        ),
        Benchmark(
            "transport",
            "transport:run",
            "transport, distance and logarithm against exact ones, with potpourri3d",
        ),
        Benchmark("calculus", "calculus:run", "derivatives, curvature, harmonic fields, Helmholtz"),
        Benchmark(
            "directions",
            "directions:run",
            "sums of indices and energies of smoothest direction fields, against geometry-central",
        ),
        Benchmark(
            "decompositions",
            "decompositions:run",
            "Helmholtz-Hodge decompositions with a boundary against exact parts",
        ),
        Benchmark(
            "calculus_large",
            "calculus:large",
            "the decomposition of a field on a million points",
            saved=False,
        ),
    ),
    "Theorem 1": (
        Benchmark(
            "convergence",
            "convergence:convergence",
            "sampled filters come nearer to the continuous ones",
            quick=True,
        ),
        Benchmark(
            "transfer",
            "convergence:transfer",
            "weights of 400 points, run unchanged on more",
            quick=True,
        ),
        Benchmark("limit", "limit:run", "a network on samples against its exact limit"),
        Benchmark("lowpass", "lowpass:run", "what the theorem's lowpass filters cost in denoising"),
    ),
    "Estimators and networks": (
        Benchmark("denoise", "estimators:denoise", "denoising on the torus, against baselines"),
        Benchmark(
            "plane",
            "plane:run",
            "fields in the plane, against a process of exactly their kind",
            quick=True,
        ),
        Benchmark(
            "interpolate", "estimators:interpolate", "wind at unobserved points, against baselines"
        ),
        Benchmark("coverage", "coverage:run", "how many values the 50 and 90 % intervals cover"),
        Benchmark("growth", "growth:run", "error, coverage and time of `FieldDenoiser` as n grows"),
        Benchmark("sheaves", "sheaves:run", "node classification on five public graphs"),
        Benchmark(
            "advection", "advection:run", "a nonlinear map learned on few points of other surfaces"
        ),
        Benchmark("depth", "networks:depth", "loss curves of networks with 20 layers"),
        Benchmark(
            "taps", "networks:taps", "times of taps: multiples of a step, geometric, learned"
        ),
        Benchmark(
            "constraints", "networks:constraints", "what lowpass and non-amplifying layers cost"
        ),
    ),
    "The Earth": (
        Benchmark(
            "earth", "earth:run", "smoothing: gains, poles, land, and speed with gcm-filters"
        ),
        Benchmark("regrid", "regrid:run", "regridding of rotations, against bilinear components"),
        Benchmark("regrid_harmonics", "regrid:harmonic_rows", "the same by degree of the field"),
        Benchmark(
            "regrid_stations", "regrid:station_rows", "intervals of winds kriged from stations"
        ),
    ),
}
"""Benchmarks by the question that they answer."""

BENCHMARKS = {
    benchmark.name: benchmark for benchmarks in GROUPS.values() for benchmark in benchmarks
}
