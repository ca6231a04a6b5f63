"""The paper's four experiments and one beyond them, with baselines on the same draws:
``python -m experiments torus``. See docs/results.

Each experiment is a file with a subclass of ``base.Experiment``. It lists independent tasks, which
``harness.runner`` runs on several cores, and each task gives rows. Tables (``results``) and pages
(``report``) come from these rows alone.
"""

from __future__ import annotations

from tangentbundle.errors import InvalidInputError

from .base import Experiment
from .classification import Classification
from .forecast import Forecast
from .general import General
from .reconstruction import Reconstruction
from .torus import Torus

PAPER: dict[str, type[Experiment]] = {
    "torus": Torus,
    "reconstruction": Reconstruction,
    "forecast": Forecast,
    "classification": Classification,
}
"""The experiments of the paper."""

EXPERIMENTS: dict[str, type[Experiment]] = {**PAPER, "general": General}


def experiment(name: str, data: str | None = None) -> Experiment:
    """An experiment by its name; wind comes from the data set ``data``."""
    if name not in EXPERIMENTS:
        raise InvalidInputError(
            f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}."
        )
    chosen = EXPERIMENTS[name]()
    if data is not None and data not in chosen.sources:
        choice = ", ".join(chosen.sources) or "none: it draws its own"
        raise InvalidInputError(f"there is no data set {data!r} for {name}; there are {choice}.")
    chosen.data = data
    return chosen
