"""Speed and accuracy, measured: ``python -m benchmarks [name ...]``; figures: ``python -m benchmarks.figures``.

A benchmark is a module with ``run() -> list[dict]``, one row a measurement. Times are the best of several
repeats, and things that are compared take turns in one process.
"""

NAMES = (
    *("accuracy", "build", "product", "scaling", "highdim", "startup", "scale", "heat", "heat_growth", "convergence"),
    *("networks", "transfer", "endurance", "meshes"),
)

ON_REQUEST = ("calculus", "earth", "large", "tool", "coverage", "regrid", "regrid_series", "runtime", "growth", "speed")
"""Those that take too long to be run with all others."""
