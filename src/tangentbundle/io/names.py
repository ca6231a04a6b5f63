"""Which columns are points and which are vectors: as asked, or guessed by name, and said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..earth.xarrays import EAST, NORTH
from ..errors import InvalidInputError, MissingColumnsError
from .field import Request

LATITUDE = ("lat", "latitude", "nav_lat")
LONGITUDE = ("lon", "longitude", "long", "lng", "nav_lon")
EASTWARD = (*EAST, "east", "eastward", "eastward_wind", "zonal")
NORTHWARD = (*NORTH, "north", "northward", "northward_wind", "meridional")
TIME = ("time", "date", "datetime", "timestamp", "valid_time")
AXES = (("x", "y", "z"), ("px", "py", "pz"), ("pos_x", "pos_y", "pos_z"))
COMPONENTS = (("vx", "vy", "vz"), ("v_x", "v_y", "v_z"), ("u", "v", "w"), ("dx", "dy", "dz"))
UNIT = re.compile(r"^(.*?)\s*[\[(]([^\])]*)[\])]$")
"""A name followed by its unit in brackets."""


@dataclass(frozen=True)
class Columns:
    """The names of a file's columns of points, vectors and times, the units of the vectors, and what was guessed."""

    points: tuple[str, ...]
    vectors: tuple[str, ...]
    on_globe: bool
    units: tuple[str, ...]
    notes: tuple[str, ...] = ()
    time: str | None = None


def bare(name: str) -> tuple[str, str]:
    """A name in lower case without its unit, and the unit.

    >>> bare("Vx [m/s]"), bare("lat")
    (('vx', 'm/s'), ('lat', ''))
    """
    match = UNIT.match(name.strip())
    return without_unit(name).lower(), match[2].strip() if match else ""


def without_unit(name: str) -> str:
    """A name without its unit in brackets."""
    match = UNIT.match(name.strip())
    return match[1].strip() if match else name.strip()


def find_columns(names: Sequence[str], request: Request) -> Columns:
    """The columns of points and vectors among ``names``.

    >>> found = find_columns(["station", "Lat", "Lon", "u10 [m/s]", "v10 [m/s]"], Request())
    >>> found.points, found.vectors, found.on_globe, found.units
    (('Lat', 'Lon'), ('u10 [m/s]', 'v10 [m/s]'), True, ('m/s', 'm/s'))
    """
    known = {bare(name)[0]: name for name in reversed(names)}
    points, on_globe, guessed = _points(names, known, request)
    vectors: tuple[str, ...] = ()
    notes = []
    if guessed:
        notes.append(f"points: columns {', '.join(points)}, guessed by name" + ", in degrees" * on_globe)
    if not request.only_points:
        if request.vectors:
            vectors = _named(request.vectors, names, "vectors")
        else:
            vectors = _guess_vectors(known, points, on_globe)
            if vectors:
                meaning = ", taken as east, north" if on_globe else ""
                notes.append(f"vectors: columns {', '.join(vectors)}, guessed by name{meaning}")
        if not vectors and request.needs_vectors:
            raise MissingColumnsError(
                f"no columns of vectors found for the points {', '.join(points)}; the file has {_listed(names)}. Name "
                f"them: --vectors {'EAST,NORTH' if on_globe else 'VX,VY,VZ'}."
            )
        wanted = 2 if on_globe else len(points)
        if vectors and len(vectors) != wanted:
            raise InvalidInputError(
                f"expected {wanted} columns of vectors, one a coordinate, got {len(vectors)}: {', '.join(vectors)}. "
                "Name as many with --vectors as there are coordinates (east and north for latitude and longitude)."
            )
    units = tuple(bare(name)[1] for name in vectors)
    if any(units):
        notes.append(f"units of the vectors: {', '.join(dict.fromkeys(filter(None, units)))}, from the column names")
    time = request.time or next((known[n] for n in TIME if n in known), None)
    if request.time:
        _named((request.time,), names, "time")
    return Columns(points, vectors, on_globe, units, tuple(notes), time)


def _points(names: Sequence[str], known: dict[str, str], request: Request) -> tuple[tuple[str, ...], bool, bool]:
    """Columns of points, whether they are latitude and longitude, and whether they were guessed."""
    if request.latlon:
        found = _named(request.latlon, names, "latlon")
        if len(found) != 2:
            raise InvalidInputError(f"--latlon takes two names, LATITUDE,LONGITUDE; got {', '.join(found)}.")
        return found, True, False
    if request.points:
        found = _named(request.points, names, "points")
        two = [bare(name)[0] for name in found]
        return found, len(two) == 2 and two[0] in LATITUDE and two[1] in LONGITUDE, False
    globe = [next((known[n] for n in usual if n in known), None) for usual in (LATITUDE, LONGITUDE)]
    cloud = _first(known, AXES) or _numbered(known, "x")
    if globe[0] and globe[1] and (not cloud or _guess_vectors(known, ("", ""), True)):
        return (globe[0], globe[1]), True, True
    if not cloud:
        raise MissingColumnsError(
            f"no columns of points found; the file has {_listed(names)}. Expected x, y, z, or lat, lon. Name them: "
            "--points X,Y,Z or --latlon LAT,LON."
        )
    return cloud, False, True


def _guess_vectors(known: dict[str, str], points: tuple[str, ...], on_globe: bool) -> tuple[str, ...]:
    if on_globe:
        for east, north in zip(EASTWARD, NORTHWARD, strict=True):
            if east in known and north in known:
                return known[east], known[north]
        return ()
    free = {key: name for key, name in known.items() if name not in points}
    found = _first(free, [group[: len(points)] for group in COMPONENTS if len(points) <= 3], len(points))
    return found or _numbered(free, "v", len(points))


def _first(known: dict[str, str], groups: Sequence[tuple[str, ...]], least: int = 2) -> tuple[str, ...]:
    """The first group of names of which at least the first few are there."""
    for group in groups:
        there = [n in known for n in group]
        count = there.index(False) if False in there else len(there)
        if count >= least:
            return tuple(known[n] for n in group[:count])
    return ()


def _numbered(known: dict[str, str], letter: str, least: int = 2) -> tuple[str, ...]:
    """Columns such as x1, x2, x3, or counted from 0, or with an underscore."""
    for form in (f"{letter}{{}}", f"{letter}_{{}}"):
        for start in (0, 1):
            count = start
            while form.format(count) in known:
                count += 1
            if count - start >= least:
                return tuple(known[form.format(i)] for i in range(start, count))
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
