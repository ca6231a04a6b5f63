"""Which columns are points and which are vectors: as requested, or guessed by name, with a note."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile

from ..earth.xarrays import EAST, NORTH
from ..errors import InvalidInputError, MissingColumnsError
from .field import Request

LATITUDE, LONGITUDE = ("lat", "latitude", "nav_lat"), ("lon", "longitude", "nav_lon", "long", "lng")
EASTWARD = (*EAST, "east", "eastward", "eastward_wind", "zonal")
NORTHWARD = (*NORTH, "north", "northward", "northward_wind", "meridional")
TIME = ("time", "date", "datetime", "timestamp", "valid_time")


@dataclass(frozen=True)
class Columns:
    """The names of a file's columns of points, vectors and times, the units of the vectors, and notes on guesses."""

    points: tuple[str, ...]
    vectors: tuple[str, ...]
    on_globe: bool
    units: tuple[str, ...]
    notes: tuple[str, ...] = ()
    time: str | None = None


def split_unit(name: str) -> tuple[str, str]:
    """A name without its unit in brackets, and the unit.

    >>> split_unit("Vx [m/s]"), split_unit("lat")
    (('Vx', 'm/s'), ('lat', ''))
    """
    match = re.match(r"^(.*?)\s*[\[(]([^\])]*)[\])]$", name.strip())
    return (match[1].strip(), match[2].strip()) if match else (name.strip(), "")


def find_columns(names: Sequence[str], request: Request) -> Columns:
    """The columns of points and vectors among ``names``.

    >>> found = find_columns(["station", "Lat", "Lon", "u10 [m/s]", "v10 [m/s]"], Request())
    >>> found.points, found.vectors, found.on_globe, found.units
    (('Lat', 'Lon'), ('u10 [m/s]', 'v10 [m/s]'), True, ('m/s', 'm/s'))
    """
    known = {split_unit(name)[0].lower(): name for name in reversed(names)}
    points, on_globe = _points(names, known, request)
    notes = []
    if not (request.latlon or request.points):
        notes.append(f"points: columns {', '.join(points)}, guessed by name" + ", in degrees" * on_globe)
    vectors = () if request.only_points else _vectors(names, known, points, on_globe, request)
    if vectors and not request.vectors:
        meaning = ", taken as east, north" if on_globe else ""
        notes.append(f"vectors: columns {', '.join(vectors)}, guessed by name{meaning}")
    units = tuple(split_unit(name)[1] for name in vectors)
    if any(units):
        notes.append(f"units of the vectors: {', '.join(dict.fromkeys(filter(None, units)))}, from the column names")
    time = _named([request.time], names, "time")[0] if request.time else next(_there(known, TIME), None)
    return Columns(points, vectors, on_globe, units, tuple(notes), time)


def _points(names: Sequence[str], known: dict[str, str], request: Request) -> tuple[tuple[str, ...], bool]:
    """Columns of points, and whether they are latitude and longitude."""
    if request.latlon:
        found = _named(request.latlon, names, "latlon")
        if len(found) != 2:
            raise InvalidInputError(f"--latlon takes two names, LATITUDE,LONGITUDE; got {', '.join(found)}.")
        return found, True
    if request.points:
        found = _named(request.points, names, "points")
        two = [split_unit(name)[0].lower() for name in found]
        return found, len(two) == 2 and two[0] in LATITUDE and two[1] in LONGITUDE
    globe = [next(_there(known, usual), "") for usual in (LATITUDE, LONGITUDE)]
    axes = [[f"{prefix}{axis}" for axis in "xyz"] for prefix in ("", "p", "pos_")]
    cloud = _first(known, [*axes, *_numbered("x")], 2)
    if all(globe) and (not cloud or _east_north(known)):
        return tuple(globe), True
    if not cloud:
        raise MissingColumnsError(
            f"no columns of points found; the file has {_listed(names)}. Expected x, y, z, or lat, lon. Name them: "
            "--points X,Y,Z or --latlon LAT,LON."
        )
    return cloud, False


def _vectors(
    names: Sequence[str], known: dict[str, str], points: tuple[str, ...], on_globe: bool, request: Request
) -> tuple[str, ...]:
    """Columns of vectors, as many as there are components; empty if there are none and none are needed."""
    wanted = 2 if on_globe else len(points)
    if request.vectors:
        found = _named(request.vectors, names, "vectors")
    elif on_globe:
        found = _east_north(known)
    else:
        free = {key: name for key, name in known.items() if name not in points}
        groups = [["vx", "vy", "vz"], ["v_x", "v_y", "v_z"], ["u", "v", "w"], ["dx", "dy", "dz"]]
        found = _first(free, [*(group[:wanted] for group in groups), *_numbered("v")], wanted)
    if not found and request.needs_vectors:
        raise MissingColumnsError(
            f"no columns of vectors found for the points {', '.join(points)}; the file has {_listed(names)}. Name "
            f"them: --vectors {'EAST,NORTH' if on_globe else 'VX,VY,VZ'}."
        )
    if found and len(found) != wanted:
        raise InvalidInputError(
            f"expected {wanted} columns of vectors, one a coordinate, got {len(found)}: {', '.join(found)}. "
            "Name as many with --vectors as there are coordinates (east and north for latitude and longitude)."
        )
    return found


def _there(known: Mapping[str, str], usual: Iterable[str]) -> Iterator[str]:
    return (known[name] for name in usual if name in known)


def _east_north(known: Mapping[str, str]) -> tuple[str, ...]:
    pairs = zip(EASTWARD, NORTHWARD, strict=True)
    return next(((known[east], known[north]) for east, north in pairs if east in known and north in known), ())


def _numbered(letter: str) -> list[Iterable[str]]:
    """Names such as x0, x1, ... or x1, x2, ... or x_1, x_2, ..."""
    return [map(f"{letter}{gap}{{}}".format, count(start)) for gap in ("", "_") for start in (0, 1)]


def _first(known: Mapping[str, str], groups: Sequence[Iterable[str]], least: int) -> tuple[str, ...]:
    """The first group of names of which at least the first few are there; those that are."""
    for group in groups:
        found = tuple(known[name] for name in takewhile(known.__contains__, group))
        if len(found) >= least:
            return found
    return ()


def _named(wanted: Sequence[str], names: Sequence[str], option: str) -> tuple[str, ...]:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise MissingColumnsError(
            f"the file has no column {', '.join(missing)}; it has {_listed(names)}. Correct --{option}."
        )
    if len(set(wanted)) < len(wanted):
        raise InvalidInputError(f"--{option} names a column twice: {', '.join(wanted)}.")
    return tuple(wanted)


def _listed(names: Sequence[str]) -> str:
    shown = [str(name)[:40] for name in names[:12]]
    return ", ".join(shown) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "none"
