"""The paper's four experiments, with honest baselines. See docs/results."""

from __future__ import annotations

from importlib import import_module

from ..errors import InvalidInputError
from .base import Experiment

PLACES = {
    "torus": ("torus", "Torus"),
    "reconstruction": ("reconstruction", "Reconstruction"),
    "forecast": ("forecast", "Forecast"),
    "classification": ("classification", "Classification"),
}


def experiment(name: str, data: str | None = None) -> Experiment:
    """One of the paper's tables: torus, reconstruction, forecast, classification; wind comes from ``data``."""
    if name not in PLACES:
        raise InvalidInputError(f"there is no experiment {name!r}; there are {', '.join(PLACES)}.")
    module, kind = PLACES[name]
    found: Experiment = getattr(import_module(f".{module}", __package__), kind)()
    if data is not None and data not in found.sources:
        choice = ", ".join(found.sources) or "none: it draws its own"
        raise InvalidInputError(f"there is no data set {data!r} for {name}; there are {choice}.")
    found.data = data
    return found
