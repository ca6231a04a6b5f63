"""Stress and faults: ``python -m stress [part ...]`` (``make stress``). See docs/robustness.md.

A part is a module with ``run(share: float) -> list[dict]``, one row a measurement; ``share`` scales
the number of inputs, and a small one serves as a test. A row with failures makes the command fail.
"""

PARTS = (
    "entries",
    "readers",
    "values",
    "limits",
    "kills",
    "damage",
    "outputs",
    "threads",
    "meshes",
)
