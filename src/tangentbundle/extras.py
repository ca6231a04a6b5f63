"""Optional packages, imported when first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .errors import MissingExtraError


def extra(name: str, purpose: str, group: str = "data") -> Any:
    """The module, or an error that says what needs it and which extra of this package brings it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{purpose} needs {name}, which is not installed: pip install 'tangentbundle[{group}]'.", name=name
        ) from error
