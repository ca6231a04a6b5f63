"""Optional packages, imported when first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..errors import MissingExtraError


def extra(name: str, purpose: str) -> Any:
    """The module, or an error that says what needs it and how to get it.

    >>> extra("json", "reading").__name__
    'json'
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{purpose} needs {name}, which is not installed: pip install 'tangentbundle[data]'.", name=name
        ) from error
