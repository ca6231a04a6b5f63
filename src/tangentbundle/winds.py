"""Winds and currents in columns of numbers: usual names of their components, speed and direction,
values that cannot be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import MissingValuesNote, Note
from .units import conversion

CURRENTS = ("uo", "ugos", "water_u", "uvel")
EAST = ("u10", "10u", "u10m", "ugrd10m", "uas", "uwnd", "u", "ua", "u_component_of_wind", *CURRENTS)
NORTH = tuple(name.replace("u", "v", 1) for name in EAST)
SPEED = ("wind_speed", "windspeed", "wspd", "speed", "spd", "ws", "sknt", "ff")
DIRECTION: tuple[str, ...] = ("wind_from_direction", "wind_direction", "winddirection", "wind_dir")
DIRECTION += ("wdir", "direction", "wd", "drct", "dd")
EAST_NORTH = ("eastward_wind", "northward_wind")
"""Names of the components of wind that is given as speed and direction."""
NETCDF_FILL = 9.969209968386869e36
"""What NetCDF stores in a cell of floats that was never written; in one of integers it is their
largest magnitude."""

MAX_SPEED = 500.0
"""Speeds above this, in m/s, cannot be wind: they are missing-value markers such as 999 or 1e20."""


COMPONENT_WORDS = (
    (r"eastward", "northward"),
    (r"zonal", "meridional"),
    (r"(?<![a-z])east(?![a-z])", "north"),
    (r"(?<![A-Za-z])u", "v"),
    (r"(?<![A-Za-z])U", "V"),
    (r"(?<=[_.\d])u(?![a-z])", "v"),
    (r"(?<=[a-z])u(?=\d*$)", "v"),
    (r"(?<![A-Za-z])x(?=_)", "y"),
)
"""Words for the eastward component in names, and those for the northward one in their place."""
NO_VECTOR = re.compile(
    r"(std|stdev|stddev|error|err|sigma|var|variance|spread|uncertainty|qc|flag|count|num)s?\d*$"
)
"""How names end that belong to a vector, but are none."""

WIND_PARTS = ("divergent", "rotational", "remainder")
"""The parts of a decomposed wind, as names of components have them: ``u_divergent`` of ``u``."""


def is_radian(unit: str) -> bool:
    """Whether angles in this unit are radians; all others are in degrees."""
    return unit.lower().startswith("rad")


def impossible_wind(speed: Any, direction: Any, unit: str) -> Any:
    """Where a speed is negative, or a direction further than once around the circle, as
    missing-value markers are."""
    turn = 2 * np.pi if is_radian(unit) else 360.0
    return (speed < 0) | ((abs(direction) > 1.001 * turn) & (speed != 0))


def wind_components(speed: np.ndarray, direction: np.ndarray, unit: str = "degree") -> np.ndarray:
    """Eastward and northward wind ``(..., 2)``, from its speed and the direction that it comes
    from.

    >>> # a west wind; calm has no direction
    >>> wind_components(np.array([5.0, 0.0]), np.array([270.0, np.nan])).round(9)
    array([[ 5.,  0.],
           [-0., -0.]])
    """
    angle = np.where(speed == 0, 0.0, direction if is_radian(unit) else np.radians(direction))
    speed = np.where(impossible_wind(speed, direction, unit), np.nan, speed)
    return np.stack([-speed * np.sin(angle), -speed * np.cos(angle)], axis=-1)


def speed_direction(wind: Iterable[Any], unit: str = "degree") -> tuple[Any, Any]:
    """Speed of an eastward and a northward component, and the direction that it comes from."""
    east, north = wind
    angle = np.arctan2(-east, -north) % (2 * np.pi)
    return np.hypot(east, north), angle if is_radian(unit) else np.degrees(angle)


def without_impossible(values: np.ndarray, unit: str, notes: list[Note]) -> np.ndarray:
    """Wind ``(..., 2)`` with NaN for vectors faster than ``MAX_SPEED``.

    A marker that stood for a speed has a direction: its components may be below the limit.
    """
    factor = conversion(unit, "m/s")
    if not factor:
        return values
    known = np.where(np.isnan(values), 0.0, values)
    speeds = np.hypot.reduce(known, axis=-1)
    is_impossible = speeds * factor > MAX_SPEED
    if not is_impossible.any():
        return values
    count = int(is_impossible.sum())
    notes.append(
        MissingValuesNote(
            f"{count} vectors above {MAX_SPEED:g} m/s cannot be wind and count as missing"
        )
    )
    return np.where(is_impossible[..., None], np.nan, values)


def northward_names(name: str) -> list[str]:
    """What the northward component may be called if a name is that of the eastward one."""
    names = []
    for pattern, northward in COMPONENT_WORDS:
        for match in re.finditer(pattern, name):
            names.append(name[: match.start()] + northward + name[match.end() :])
    return names
