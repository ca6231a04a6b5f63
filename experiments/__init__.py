"""The paper's four experiments, with baselines on the same draws. See docs/results."""

from __future__ import annotations

from ..errors import InvalidInputError
from .base import Experiment
from .classification import Classification
from .forecast import Forecast
from .reconstruction import Reconstruction
from .torus import Torus

EXPERIMENTS: dict[str, type[Experiment]] = {
    e.name: e for e in (Torus, Reconstruction, Forecast, Classification)
}


def experiment(name: str, data: str | None = None) -> Experiment:
    """One of the paper's tables: torus, reconstruction, forecast, classification; wind comes from
    ``data``."""
    if name not in EXPERIMENTS:
        raise InvalidInputError(
            f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}."
        )
    found = EXPERIMENTS[name]()
    if data is not None and data not in found.sources:
        choice = ", ".join(found.sources) or "none: it draws its own"
        raise InvalidInputError(f"there is no data set {data!r} for {name}; there are {choice}.")
    found.data = data
    return found
