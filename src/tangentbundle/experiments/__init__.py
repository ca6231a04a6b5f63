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


def experiment(name: str) -> Experiment:
    """One of the paper's tables, by name: torus, reconstruction, forecast, classification."""
    if name not in PLACES:
        raise InvalidInputError(f"there is no experiment {name!r}; there are {', '.join(PLACES)}.")
    module, kind = PLACES[name]
    return getattr(import_module(f".{module}", __package__), kind)()
