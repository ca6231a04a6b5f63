"""Optional packages, imported when first needed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .errors import MissingExtraError

if TYPE_CHECKING:
    import torch


def extra(name: str, purpose: str, group: str = "data") -> Any:
    """The module, or an error that says what needs it and which extra of this package brings it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{name.partition('.')[0]} is not installed, but needed for: {purpose}. "
            f"Run pip install 'tangentbundle[{group}]'.",
            name=name,
        ) from error


def use_triton(device: torch.device) -> bool:
    """Whether the Triton kernels serve a device; without Triton a GPU uses the readable
    references."""
    return device.type == "cuda" and find_spec("triton") is not None
