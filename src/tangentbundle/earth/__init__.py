"""What is true of the Earth only: grids, winds and currents in xarray datasets, maps, wind sources, covariances."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fields import decompose, denoise, divergence, interpolate_to, response, smooth, spectrum, vorticity
    from .grid import Grid
    from .observations import Blocks, BlockScores, block_cv, block_reduce
    from .regrid import Kriging, Regridder

RADIUS = 6_371_008.8
"""Mean radius of the Earth in metres."""

FIELDS = "decompose", "denoise", "divergence", "interpolate_to", "response", "smooth", "spectrum", "vorticity"
HOMES = {"Grid": "grid", **dict.fromkeys(FIELDS, "fields")}
HOMES |= dict.fromkeys(("Kriging", "Regridder"), "regrid")
HOMES |= dict.fromkeys(("BlockScores", "Blocks", "block_cv", "block_reduce"), "observations")
"""The modules of the public names, which are loaded when first asked for."""

__all__ = ["RADIUS", "BlockScores", "Blocks", "Grid", "Kriging", "Regridder", "block_cv"]
__all__ += ["block_reduce", "decompose", "denoise", "divergence", "interpolate_to", "response", "smooth", "spectrum"]
__all__ += ["vorticity"]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOMES[name]}", __name__), name)
