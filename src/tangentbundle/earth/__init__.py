"""What is true of the Earth only: grids, winds and currents in xarray datasets, maps, wind sources,
covariances."""

import re
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any

from ..errors import UnitsError
from ..units import in_metres

if TYPE_CHECKING:
    from .covariances import Earth
    from .fields import (
        decompose,
        denoise,
        divergence,
        interpolate_to,
        response,
        smooth,
        spectrum,
        vorticity,
    )
    from .grid import Grid
    from .observations import Blocks, BlockScores, block_cv, block_reduce
    from .regrid import Kriging, Regridder

RADIUS = 6_371_008.8
"""Mean radius of the Earth in metres."""

HOMES = {"Earth": "covariances", "Grid": "grid", "Kriging": "regrid", "Regridder": "regrid"}
HOMES |= dict.fromkeys(("BlockScores", "Blocks", "block_cv", "block_reduce"), "observations")
"""The modules of public names, which are loaded when first asked for; all others are in
``fields``."""

__all__ = ["RADIUS", "BlockScores", "Blocks", "Earth", "Grid", "Kriging", "Regridder", "block_cv"]
__all__ += [
    "block_reduce",
    "decompose",
    "denoise",
    "divergence",
    "interpolate_to",
    "response",
    "smooth",
    "spectrum",
]
__all__ += ["vorticity"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOMES.get(name, 'fields')}", __name__), name)


def radians(length: str | float) -> float:
    """A length with its unit, or a number of kilometres, as an angle in radians.

    >>> round(radians("6371.0088 km"), 12), radians("500 km") == radians(500)
    (1.0, True)
    """
    text = f"{length} km" if isinstance(length, Real) else str(length)
    found = re.fullmatch(r"\s*((?:\d*\.?\d+|\d+\.)(?:e[+-]?\d+)?)\s*([a-zA-Z ]+?)\s*", text)
    size = None if found is None else in_metres(found[2])
    if found is None or size is None or size[1]:
        raise UnitsError(f'expected a length such as "500 km" or "60 nmi", got {length!r}.')
    return float(found[1]) * size[0] / RADIUS
