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

NUMBER = r"(?:\d*\.?\d+|\d+\.)(?:e[+-]?\d+)?"
"""Such as 500, 0.5, .5, 5. and 1e-3."""

HOMES = {
    "BlockScores": "observations",
    "Blocks": "observations",
    "Earth": "covariances",
    "Grid": "grid",
    "Kriging": "regrid",
    "Regridder": "regrid",
    "block_cv": "observations",
    "block_reduce": "observations",
    "decompose": "fields",
    "denoise": "fields",
    "divergence": "fields",
    "interpolate_to": "fields",
    "response": "fields",
    "smooth": "fields",
    "spectrum": "fields",
    "vorticity": "fields",
}
"""The modules of public names, which are loaded when first asked for."""

__all__ = [
    "RADIUS",
    "BlockScores",
    "Blocks",
    "Earth",
    "Grid",
    "Kriging",
    "Regridder",
    "block_cv",
    "block_reduce",
    "decompose",
    "denoise",
    "divergence",
    "interpolate_to",
    "response",
    "smooth",
    "spectrum",
    "vorticity",
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    """The public names, also of modules that are not loaded yet."""
    return sorted({*globals(), *__all__})


def radians(length: str | float) -> float:
    """A length with its unit, or a number of kilometres, as an angle in radians.

    >>> round(radians("6371.0088 km"), 12), radians("500 km") == radians(500)
    (1.0, True)
    """
    text = f"{length} km" if isinstance(length, Real) else str(length)
    match = re.fullmatch(rf"\s*({NUMBER})\s*([a-zA-Z ]+?)\s*", text)
    if match is not None:
        size = in_metres(match[2])
        if size is not None and not size[1]:
            return float(match[1]) * size[0] / RADIUS
    raise UnitsError(f'expected a length such as "500 km" or "60 nmi", got {length!r}.')
