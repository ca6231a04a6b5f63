"""Trained networks with their cards: what they are, how they were trained, and their numbers."""

from __future__ import annotations

import importlib
import tomllib
from typing import Any

import tangentbundle as tb
from tangentbundle.nn import Configured

from .base import FOLDER

WEIGHTS = FOLDER / "weights"


def cards() -> dict[str, dict[str, Any]]:
    """The cards of all trained networks, by name."""
    return tomllib.loads((WEIGHTS / "cards.toml").read_text("utf-8"))


def load_trained(name: str) -> Configured:
    """A trained network by the name of its card."""
    card = cards()[name]
    allowed = []
    for path in card["allow"]:
        module, _, attribute = path.rpartition(".")
        allowed.append(getattr(importlib.import_module(module), attribute))
    return tb.load(WEIGHTS / card["file"], allow=allowed)
