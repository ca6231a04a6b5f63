"""Speed and accuracy, measured: ``python -m benchmarks [name ...]``; figures:
``python -m benchmarks.figures``.

A benchmark is a module with ``run() -> list[dict]``, one row a measurement. Times are the best of
several repeats, and things that are compared take turns in one process. Libraries to compare with
come with ``pip install -e '.[bench]'``; a benchmark whose library is missing is skipped, and says
so.
"""

NAMES = (
    *(
        "accuracy",
        "build",
        "product",
        "scaling",
        "highdim",
        "startup",
        "scale",
        "heat",
        "heat_growth",
        "convergence",
    ),
    *("networks", "transfer", "endurance", "meshes"),
)

ON_REQUEST = (
    *(
        "advection",
        "calculus",
        "earth",
        "large",
        "tool",
        "coverage",
        "regrid",
        "regrid_series",
        "runtime",
        "growth",
    ),
    *("speed", "sheaves", "sheaf_speed", "busy", "limit", "lowpass"),
)
"""Those that take too long to be run with all others."""
