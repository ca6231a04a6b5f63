"""What is true of the Earth only: grids, winds and currents in xarray datasets, maps, wind sources, covariances."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fields import decompose, denoise, divergence, response, smooth, spectrum, vorticity
    from .grid import Grid

RADIUS = 6_371_008.8
"""Mean radius of the Earth in metres."""

FIELDS = "decompose", "denoise", "divergence", "response", "smooth", "spectrum", "vorticity"
HOMES = {"Grid": "grid", **dict.fromkeys(FIELDS, "fields")}
"""The modules of the public names, which are loaded when first asked for."""

__all__ = ["RADIUS", "Grid", "decompose", "denoise", "divergence", "response", "smooth", "spectrum", "vorticity"]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOMES[name]}", __name__), name)
