"""Fields from named columns, for tables, arrays and datasets: columns are requested, or guessed by
name with a note."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product, takewhile
from typing import Any

import numpy as np

from ..errors import (
    NO_EXAMPLE,
    DTypeError,
    InvalidInputError,
    MissingColumnsError,
    MissingValuesNote,
    Note,
    Remedy,
    ShapeError,
    UnitsError,
)
from ..layout import NUMBER
from ..spaces import Cloud, Globe, Space
from ..units import common_unit, conversion, in_metres
from ..winds import (
    EAST,
    EAST_NORTH,
    NO_VECTOR,
    NORTH,
    WIND_PARTS,
    impossible_wind,
    is_radian,
    northward_names,
    speed_direction,
    wind_components,
    without_impossible,
)
from .checks import check_count, distinct_rows, usable_rows, warn_if_radians, warn_of_data
from .field import Field, Request
from .names import (
    listed,
    name_key,
    named,
    natural,
    plain_name,
    split_unit,
    unit_of,
    with_suffix,
)
from .series import are_dates, numbers_the_rows
from .vocabulary import names_of, pairs_of, without_fillers

EASTWARD = ("east", "eastward", "zonal", "ost", "est", "este", "leste")
NORTHWARD = ("north", "northward", "meridional", "nord", "nord", "norte", "norte")
"""Words that are names of components only beside a latitude and a longitude."""
TIME_NAMES = ("year", "month", "day", "hour", "minute", "utc", "step", "frame", "day_of_year")
"""Names of columns that say when a row was measured, besides those of dates and times."""
NUMBERED = ("x", "pc")
"""Prefixes of numbered coordinates; others count if there is a velocity for each."""
VELOCITY = ("v", "v_", "d", "d_")
"""Prefixes of velocities, before the name of a coordinate."""


NO_VECTOR_PREFIXES = ("", "n", "normal", "normals", "p", "pos", "position")
"""Names of axes with these in front are normals or further coordinates, as nx or pos_x."""
OTHER_ANGLES = ("gon", "gons", "gradian", "gradians", "mil", "mils", "mrad", "arcmin", "turn")
"""Units of angles that are neither degrees nor radians."""
MAX_GROUPS = 4
"""Other vectors that a warning names."""
WHERE_TO = re.compile(r"(^|[\W_])(to|towards?|going|heading)([\W_]|$)")
"""In names of directions to which something moves, as direction_to and heading."""
MIN_LETTERS = 5
"""Letters of a name from which on another with a wrong letter is recognised."""
MIN_LIKENESS = 0.9
"""Least share of letters in common, as difflib counts it: longtitude and longitude have 0.95,
altitude and latitude 0.875."""


@dataclass(frozen=True)
class Columns:
    """The names of a file's columns of points and vectors, and notes on guesses.

    ``wind`` are the columns of speed and direction, if the vectors are given so; ``sigma`` is that
    of standard errors, if there is one. ``units`` are those of the columns of vectors and errors,
    by name.
    """

    points: tuple[str, ...]
    vectors: tuple[str, ...]
    on_globe: bool
    units: dict[str, str]
    notes: tuple[Note, ...] = ()
    wind: tuple[str, ...] = ()
    sigma: tuple[str, ...] = ()

    @property
    def numeric(self) -> tuple[str, ...]:
        """All columns that hold numbers."""
        return (*self.points, *self.units)

    @property
    def components(self) -> tuple[str, ...]:
        """The columns that vectors are computed from."""
        return self.wind or self.vectors


# Which columns they are.


def _places() -> list[tuple[str, str]]:
    """Names of latitude and longitude."""
    return [*product(names_of("latitude"), names_of("longitude"))]


def _plane() -> list[tuple[str, str]]:
    """Names of coordinates to the east and to the north."""
    return [*product(names_of("easting"), names_of("northing"))]


def _winds() -> list[tuple[str, str]]:
    """Names of components to the east and to the north."""
    pairs = [*zip(EAST, NORTH, strict=True), EAST_NORTH]
    pairs += zip(EASTWARD, NORTHWARD, strict=True)
    return [*pairs, *pairs_of("eastward", "northward")]


def _polar_winds() -> list[tuple[str, str]]:
    """Names of speed and direction."""
    return [*product(names_of("speed"), names_of("direction"))]


def _loosely(known: dict[str, str]) -> dict[str, str]:
    """Known names, also by their keys without words that do not matter."""
    loosely = dict(known)
    for name_as_key, name in known.items():
        loosely.setdefault(without_fillers(name_as_key), name)
    return loosely


def find_columns(names: Sequence[str], request: Request) -> Columns:
    """The columns of points and vectors among ``names``.

    >>> columns = find_columns(["station", "Lat", "Lon", "u10 [m/s]", "v10 [m/s]"], Request())
    >>> columns.points, columns.vectors, columns.on_globe, [*columns.units.values()]
    (('Lat', 'Lon'), ('u10 [m/s]', 'v10 [m/s]'), True, ['m/s', 'm/s'])
    >>> find_columns(
    ...     ["pc1", "pc2", "pc10", "dpc1", "dpc2", "dpc10"], Request(points=("pc*",))
    ... ).vectors
    ('dpc1', 'dpc2', 'dpc10')
    """
    known = {name_key(name): name for name in reversed(names)}
    points, on_globe = _find_points(names, known, request)
    _check_units_of_places(points, on_globe)
    vectors: tuple[str, ...] = ()
    wind: tuple[str, ...] = ()
    sigma: tuple[str, ...] = ()
    if not request.only_points:
        has_compass = on_globe or _is_plane(points)
        wind = _find_wind(names, known, has_compass, request)
        if wind:
            _refuse_other_angles(wind[1], split_unit(wind[1])[1])
            vectors = EAST_NORTH
        else:
            vectors = _find_vectors(names, known, points, on_globe, request)
    if request.sigma:
        sigma = named([request.sigma], names, "sigma")[:1]
    elif vectors and "sigma" in known:
        sigma = (known["sigma"],)
    units = {name: unit_of(name) for name in (*(wind or vectors), *sigma)}
    if wind and units[wind[0]]:
        vectors = tuple(f"{name} [{units[wind[0]]}]" for name in vectors)
    columns = Columns(points, vectors, on_globe, units, wind=wind, sigma=sigma)
    return replace(columns, notes=tuple(_notes(columns, request)))


def _check_units_of_places(points: Sequence[str], on_globe: bool) -> None:
    """Refuse latitudes and longitudes whose names say that they are not in degrees, and
    coordinates in different units of length."""
    units = {name: split_unit(name)[1] for name in points}
    if on_globe:
        for name, unit in units.items():
            if is_radian(unit) or unit.lower() in OTHER_ANGLES:
                raise UnitsError(
                    f"latitude and longitude must be in degrees, and {name} says {unit}. Convert "
                    "it, and correct its name."
                )
        return
    lengths = {unit: in_metres(unit) for unit in units.values()}
    sizes = {size.value for size in lengths.values() if size is not None}
    if len(sizes) > 1:
        raise UnitsError(
            f"the coordinates {listed([*units])} are in different units. Convert them to one."
        )


def _refuse_other_angles(name: str, unit: str) -> None:
    """Refuse directions that are neither in degrees nor in radians."""
    if unit.lower() in OTHER_ANGLES:
        raise UnitsError(
            f"directions must be in degrees or radians, and {name} says {unit}. Convert it, and "
            "correct its name."
        )


def _notes(columns: Columns, request: Request) -> list[Note]:
    """What was guessed."""
    notes = []
    if not (request.latlon or request.points):
        text = f"points: columns {listed(columns.points)}, guessed by name"
        if columns.on_globe:
            text += ", in degrees"
        notes.append(Note(text))
    if columns.wind:
        speed, direction = columns.wind
        unit = columns.units[direction]
        turn = unit if is_radian(unit) else "degrees"
        text = f"vectors: speed {speed} and direction {direction}, where the wind comes from"
        notes.append(Note(f"{text}, in {turn}"))
    elif columns.vectors and not request.vectors:
        text = f"vectors: columns {listed(columns.vectors)}, guessed by name"
        if columns.on_globe:
            text += ", taken as parts towards east and north"
        notes.append(Note(text))
    with_units = columns.wind[:1] or columns.vectors
    declared = dict.fromkeys(columns.units[name] for name in with_units if columns.units[name])
    if declared:
        text = f"units of the vectors: {', '.join(declared)}, from the column names"
        notes.append(Note(text))
    return notes + [Note(f"standard errors: column {name}") for name in columns.sigma]


def _find_points(
    names: Sequence[str], known: dict[str, str], request: Request
) -> tuple[tuple[str, ...], bool]:
    """Columns of points, and whether they are latitude and longitude."""
    if request.latlon:
        return named(request.latlon, names, "latlon", 2), True
    if request.points:
        columns = named(request.points, names, "points")
        return columns, tuple(map(name_key, columns)) in _places()
    loosely = _loosely(known)
    globe = _first(loosely, _places())
    axes = [[f"{prefix}{axis}" for axis in "xyz"] for prefix in ("", "p", "pos_")]
    cloud = _first(known, [*axes, *_numbered_points(known)])
    if globe and (not cloud or _first(loosely, [*_winds(), *_polar_winds()])):
        return globe, True
    if not cloud:
        cloud = _first(loosely, _plane())
    if not cloud:
        raise MissingColumnsError(
            f"no columns of points found; the file has {listed(names)}. Expected x, y, z, or lat, "
            "lon.",
            _name_points(known),
        )
    return cloud, False


def _name_points(known: Mapping[str, str]) -> Remedy:
    """The advice to name the columns of points."""
    places = _similar_pair(known, names_of("latitude"), names_of("longitude"))
    if places:
        return Remedy("Name them, perhaps {latlon}.", latlon=places)
    return Remedy("Name them: {points} or {latlon}.", points=("X", "Y", "Z"), latlon=("LAT", "LON"))


def _find_wind(
    names: Sequence[str], known: dict[str, str], has_compass: bool, request: Request
) -> tuple[str, ...]:
    """Columns of speed and direction; empty if vectors are components."""
    if request.wind and not has_compass:
        raise InvalidInputError(
            "needs latitude and longitude, or easting and northing.",
            Remedy("Name them with {latlon}.", latlon=("LAT", "LON")),
            argument="wind",
        )
    if request.wind:
        return named(request.wind, names, "wind", 2)
    loosely = _loosely(known)
    if request.vectors or not has_compass or _first(loosely, _winds()):
        return ()
    return _first(loosely, _polar_winds())


def _is_plane(points: tuple[str, ...]) -> bool:
    """Whether points have coordinates to the east and to the north."""
    return tuple(map(name_key, points)) in _plane()


def _find_vectors(
    names: Sequence[str],
    known: dict[str, str],
    points: tuple[str, ...],
    on_globe: bool,
    request: Request,
) -> tuple[str, ...]:
    """Columns of vectors, as many as components; empty if there are none, and none are needed."""
    count = len(points)
    columns: tuple[str, ...] = ()
    if on_globe:
        columns = _first(_loosely(known), _winds())
    else:
        columns = _velocities(known, points)
        if _is_plane(points) and not columns:
            others = {
                name_as_key: name for name_as_key, name in known.items() if name not in points
            }
            columns = _first(_loosely(others), [*_winds(), ("vx", "vy")])
    if request.vectors or columns:
        return named(request.vectors or columns, names, "vectors", count)
    if request.needs_vectors:
        raise MissingColumnsError(
            f"no columns of vectors found for the points {listed(points)}; the file has "
            f"{listed(names)}.",
            name_vectors("Name them", names, on_globe),
        )
    return ()


def _velocities(known: dict[str, str], points: tuple[str, ...]) -> tuple[str, ...]:
    """Columns whose names are those of the points with a prefix, or u, v, w, or v1, v2, ..."""
    free = {key: name for key, name in known.items() if name not in points}
    keys = [name_key(name) for name in points]
    axes = [key.removeprefix("pos_").removeprefix("p") for key in keys]
    groups = []
    for group in (keys, axes):
        groups += [[f"{prefix}{name}" for name in group] for prefix in VELOCITY]
    groups.append(["u", "v", "w"][: len(points)])
    groups += _numbered_groups(free, ["v"])
    return _first(free, groups, least=len(points))


def name_vectors(advice: str, names: Sequence[str], on_globe: bool) -> Remedy:
    """The advice to name the columns of vectors, which may be among ``names``.

    >>> print(name_vectors("Name them", ["station", "Wind East [m/s]", "Wind North [m/s]"], True))
    Name them, perhaps vectors=('Wind East', 'Wind North').
    """
    if not on_globe:
        return Remedy(f"{advice}: {{vectors}}.", vectors=("VX", "VY", "VZ"))
    known = {name_key(name): name for name in reversed(names)}
    vectors = _similar_winds(known)
    if vectors:
        return Remedy(f"{advice}, perhaps {{vectors}}.", vectors=vectors)
    wind = _similar_pair(known, names_of("speed"), names_of("direction"))
    if wind:
        return Remedy(f"{advice}, perhaps {{wind}}.", wind=wind)
    return Remedy(
        f"{advice}: {{vectors}} or {{wind}}.",
        vectors=("EAST", "NORTH"),
        wind=("SPEED", "DIRECTION"),
    )


def _similar_winds(known: Mapping[str, str]) -> tuple[str, ...]:
    """Columns that may be components: names with a wrong letter, or with further words beside east
    and north; empty if there are none."""
    for eastward, northward in zip(EASTWARD, NORTHWARD, strict=True):
        for name_as_key, name in known.items():
            words = name_as_key.split("_")
            if eastward in words:
                words[words.index(eastward)] = northward
                partner = known.get("_".join(words), name)
                if partner != name:
                    return plain_name(name), plain_name(partner)
    for eastward, northward in _winds():
        columns = _similar_pair(known, [eastward], [northward])
        if columns:
            return columns
    return ()


def _similar_pair(
    known: Mapping[str, str], first: Iterable[str], second: Iterable[str]
) -> tuple[str, ...]:
    """Two different columns whose names are almost among ``first`` and ``second``; empty if there
    are none."""
    columns = (_similar(known, first), _similar(known, second))
    if "" in columns or columns[0] == columns[1]:
        return ()
    return columns


def _similar(known: Mapping[str, str], wanted: Iterable[str]) -> str:
    """The column whose name is one that is wanted, or has a letter wrong; empty if none has."""
    for name in wanted:
        likely = [name] if name in known else []
        if len(name) >= MIN_LETTERS:
            likely += get_close_matches(name, known, n=1, cutoff=MIN_LIKENESS)
        if likely:
            return plain_name(known[likely[0]])
    return ""


def _numbered_points(known: Mapping[str, str]) -> list[list[str]]:
    """Columns such as x1, x2, ... or pc_0, pc_1, ..., by prefix: usual ones, and those with a
    velocity for each."""
    groups = _by_prefix(known)
    with_velocities = [
        prefix
        for prefix, group in groups.items()
        if prefix and any(all(lead + name in known for name in group) for lead in VELOCITY)
    ]
    return _numbered_groups(known, NUMBERED) + [groups[prefix] for prefix in with_velocities]


def _numbered_groups(known: Mapping[str, str], prefixes: Sequence[str]) -> list[list[str]]:
    """Columns such as v1, v2, ... or v_0, v_1, ..., with these prefixes."""
    groups = _by_prefix(known)
    usual = [f"{prefix}{gap}" for prefix in prefixes for gap in ("", "_")]
    return [groups[prefix] for prefix in usual if prefix in groups]


def _by_prefix(known: Mapping[str, str]) -> dict[str, list[str]]:
    """Names that end in a number, sorted by it, by what is before the number."""
    groups: dict[str, list[str]] = {}
    for name in sorted(known, key=natural):
        prefix = natural(name)[0] if name[-1:].isdecimal() else ""
        groups.setdefault(prefix, []).append(name)
    return groups


def _first(
    known: Mapping[str, str], groups: Iterable[Iterable[str]], least: int = 2
) -> tuple[str, ...]:
    """Return the leading known names of the first group that has at least ``least`` of them."""
    for group in groups:
        columns = tuple(known[name] for name in takewhile(known.__contains__, group))
        if len(columns) >= least:
            return columns
    return ()


# Fields from them.


def field_of_rows(column: Callable[[str], np.ndarray], columns: Columns, request: Request) -> Field:
    """The field of all rows of named columns whose numbers are there, in one unit.

    Vectors may be ``(n,)`` or ``(T, n)``. All numbers are float32 if they came so, otherwise
    float64. ``Field.rows`` are the rows in use.
    """
    points = {name: column(name) for name in columns.points}
    vectors = {name: column(name) for name in columns.components}
    errors = {name: column(name) for name in columns.sigma}
    _check_lengths(points, vectors, errors)
    dtype = np.result_type(*points.values(), *vectors.values())
    coordinates = np.stack([*points.values()], axis=1, dtype=dtype)
    n = len(coordinates)
    check_count(n, request)
    notes = [*columns.notes]
    values = None
    units = ""
    numbers = [coordinates]
    if vectors:
        components = np.stack([*vectors.values()], axis=-1, dtype=dtype)
        values, units = _in_one_unit(components.reshape(-1, n, len(vectors)), columns, notes)
        numbers += [*values]
    numbers += [sigma[:, None] for sigma in errors.values()]
    rows = usable_rows(np.concatenate(numbers, axis=1), request, notes)
    check_count(len(rows), request)
    if values is not None and len(rows) < n:
        values = values[:, rows]
    field = Field(
        space=_space(coordinates[rows], columns),
        values=values,
        names=columns.vectors,
        units=units,
        notes=tuple(notes),
        wind=columns.wind,
        rows=rows,
    )
    for name, sigma in errors.items():
        field = with_errors(field, sigma[rows], name, columns.units[name])
    return field


def distinct_field(field: Field, request: Request, others: Mapping[str, np.ndarray]) -> Field:
    """The first row at each place of a field of rows; repeats are refused unless
    ``drop_duplicates``.

    ``others`` are further columns: those ``(n,)`` may tell rows of one place apart.
    """
    assert field.rows is not None
    notes = [*field.notes]
    labels = {
        name: array[field.rows]
        for name, array in others.items()
        if array.ndim == 1 and len(array) > field.rows[-1] and not numbers_the_rows(array)
    }
    first = distinct_rows(field.space, request, notes, labels, field.rows)
    check_count(len(first), request)
    if len(first) == len(field.rows):
        return field
    values = field.values
    if values is not None:
        values = values[:, first]
    noise = field.noise
    if noise is not None:
        noise = noise[first]
    return replace(
        field,
        space=field.space.select(first),
        values=values,
        noise=noise,
        rows=field.rows[first],
        notes=tuple(notes),
    )


def from_columns(
    column: Callable[[str], np.ndarray],
    columns: Columns,
    request: Request,
    others: Mapping[str, np.ndarray] | None = None,
) -> tuple[Field, np.ndarray | None]:
    """A field from named columns, checked and in one unit, and the rows used; None if all are used.

    ``others`` are further columns: those ``(n,)`` may tell rows of one place apart, and components
    of other vectors among them are named in a warning.
    """
    others = others or {}
    n = column(columns.points[0]).shape[-1]
    field = field_of_rows(column, columns, request)
    unused = {name: array for name, array in others.items() if name not in columns.numeric}
    labels = {name: array for name, array in unused.items() if array.shape == (n,)}
    field = distinct_field(field, request, labels)
    warn_of_other_vectors(columns, request, unused)
    assert field.rows is not None
    rows = field.rows
    if len(rows) == n:
        return field, None
    return field, rows


def _check_lengths(
    points: Mapping[str, np.ndarray],
    vectors: Mapping[str, np.ndarray],
    errors: Mapping[str, np.ndarray],
) -> None:
    """Refuse columns of different lengths; only vectors may have an axis of times before."""
    arrays = {**points, **vectors, **errors}
    lengths = {array.shape[-1:] for array in arrays.values()}
    are_flat = all(array.ndim == 1 for array in (*points.values(), *errors.values()))
    if len(lengths) > 1 or not are_flat:
        shapes = {name: array.shape for name, array in arrays.items()}
        raise ShapeError(
            f"columns of points, vectors and errors must be equally long, got {shapes}."
        )


def _in_one_unit(values: np.ndarray, columns: Columns, notes: list[Note]) -> tuple[np.ndarray, str]:
    """Components ``(T, n, c)``, from speed and direction if these are given, and their unit."""
    units = [columns.units[name] for name in columns.components]
    if columns.wind:
        values = _from_speed(values, columns, notes)
        units = [units[0], units[0]]
    unit, factors = common_unit(columns.vectors, units, notes)
    if not (factors == 1).all():
        values = (values * factors).astype(values.dtype)
    if columns.on_globe:
        values = without_impossible(values, unit, notes)
    return values, unit


def _from_speed(values: np.ndarray, columns: Columns, notes: list[Note]) -> np.ndarray:
    """Components of wind from speed and direction ``(T, n, 2)``."""
    name = columns.wind[1]
    turn = columns.units[name]
    if turn.replace(" ", "").lower().startswith(("10s", "tens", "10deg")):
        raise UnitsError(f"{name} is in tens of degrees. Multiply it by 10, and write degrees.")
    if WHERE_TO.search(name.lower()):
        raise UnitsError(
            f"directions are where a flow comes from, and {name} says where it goes to. Add 180 "
            "degrees, and call the column direction."
        )
    speed = values[..., 0]
    direction = values[..., 1]
    count = int(impossible_wind(speed, direction, turn).sum())
    if count:
        text = f"{count} negative speeds or directions beyond the circle count as missing"
        notes.append(MissingValuesNote(text))
    elif not is_radian(turn):
        warn_if_radians(name, direction)
    return wind_components(speed, direction, turn)


def _space(coordinates: np.ndarray, columns: Columns) -> Space:
    """The space of points with these coordinates ``(n, k)``."""
    if columns.on_globe:
        return Globe(coordinates[:, 0], coordinates[:, 1], columns.points)
    return Cloud(coordinates, columns.points)


def other_vectors(names: Sequence[str], columns: Columns) -> list[tuple[str, ...]]:
    """Groups of names, besides the columns in use, that are components of vectors by their names.

    Components differ by u and v, east and north or other words, or by the names of the axes. Parts
    of the vectors in use, such as gradient_vx of vx and u_divergent of u, which the tool itself
    writes, do not count.

    >>> names = ["x", "y", "vx", "vy", "tauu", "tauv", "mag_x", "mag_y", "vx_err", "vy_err"]
    >>> names += ["gradient_vx", "gradient_vy"]
    >>> other_vectors(names, find_columns(names, Request()))
    [('tauu', 'tauv'), ('mag_x', 'mag_y')]
    """
    used = {*columns.points, *columns.vectors, *columns.numeric}
    for part in WIND_PARTS:
        used |= {with_suffix(name, f"_{part}") for name in columns.vectors}
    endings = tuple(f"_{name}" for name in columns.vectors)
    free = {
        name_key(name): name
        for name in reversed(names)
        if name not in used and not name.endswith(endings)
    }
    axes = _axes(columns)
    groups: list[tuple[str, ...]] = []
    for key in sorted(free, key=lambda key: names.index(free[key])):
        if any(free[key] in group for group in groups):
            continue
        for candidate in _candidates(key, axes):
            if all(name in free for name in candidate):
                groups.append(tuple(free[name] for name in candidate))
                break
    return groups


def _axes(columns: Columns) -> list[list[str]]:
    """How the components of a vector may end."""
    if columns.on_globe:
        return [["x", "y"], ["u", "v"]]
    dims = len(columns.points)
    points = [name_key(name) for name in columns.points]
    return [["x", "y", "z"][:dims], ["u", "v", "w"][:dims], points]


def _candidates(key: str, axes: list[list[str]]) -> list[list[str]]:
    """What the components of a vector may be called whose first one is ``key``."""
    if NO_VECTOR.search(key):
        return []
    candidates = [[key, north] for north in northward_names(key)]
    for axis in axes:
        prefix = key.removesuffix(axis[0])
        if len(axis) > 1 and prefix != key and prefix.strip("_") not in NO_VECTOR_PREFIXES:
            candidates.insert(0, [prefix + name for name in axis])
    return candidates


def warn_of_other_vectors(
    columns: Columns, request: Request, others: Mapping[str, np.ndarray]
) -> None:
    """Warn of further vectors among columns of numbers, if vectors were guessed: they are not
    worked on."""
    if not columns.vectors or request.vectors or request.wind:
        return
    numeric = [name for name, column in others.items() if _has_numbers(column)]
    groups = other_vectors(numeric, columns)
    if not groups:
        return
    shown = "; ".join(", ".join(group) for group in groups[:MAX_GROUPS])
    if len(groups) > MAX_GROUPS:
        shown += "; ..."
    warn_of_data(
        f"the file has several vectors: {listed(columns.components)} are used, {shown} not.",
        Remedy("Name those to use, one at a time, as {vectors}.", vectors=groups[0]),
    )


def _has_numbers(column: np.ndarray) -> bool:
    """Whether a column holds numbers, or text that is numbers or empty."""
    if column.dtype.kind in "fiu":
        return True
    texts = [value for value in column[:100].tolist() if value not in (None, "")]
    if not texts:
        return False
    return all(isinstance(text, str) and NUMBER.fullmatch(text.strip()) for text in texts)


def is_time_name(name: str) -> bool:
    """Whether a column says by its name when a row was measured."""
    known = (*TIME_NAMES, *names_of("date"), *names_of("clock"))
    return name_key(name) in known


def time_labels(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns ``(n,)`` that say when a row was measured: dates, text that begins with dates, or
    names such as hour.

    >>> table = {
    ...     "Date": np.array([20260101, 20260102]),
    ...     "seen": np.array(["2026-01-01 06:00", ""]),
    ...     "id": np.arange(2),
    ... }
    >>> [*time_labels(table)]
    ['Date', 'seen']
    """
    return {
        name: column
        for name, column in columns.items()
        if column.ndim == 1 and (is_time_name(name) or are_dates(column))
    }


def real(array: np.ndarray, name: str, kind: Any = "") -> np.ndarray:
    """The numbers of a column, or of all of them in one array, as floats; ``kind`` is what a file
    says they are."""
    if array.dtype.kind not in "fiu":
        raise DTypeError(
            f"column {name} holds {kind or array.dtype}, not numbers.",
            Remedy(
                "Name others with {points} or {vectors}.", points=NO_EXAMPLE, vectors=NO_EXAMPLE
            ),
        )
    if array.dtype == np.float32:
        return array
    return array.astype(np.float64)


def with_errors(field: Field, errors: np.ndarray, name: str, unit: str) -> Field:
    """The field with the standard errors ``(n,)`` of a column, converted to the unit of the
    field."""
    factor = conversion(unit or field.units, field.units or unit)
    if factor is None:
        raise UnitsError(
            f"{name} must be in the unit of the vectors, {field.units!r}, or one of speed."
        )
    return replace(field, noise=factor * errors)


# And back.


def to_columns(field: Field, step: int = 0, uncertainty: str = "_std") -> dict[str, np.ndarray]:
    """The columns of points, vectors and standard deviations of one time, in the units that their
    names say; names of standard deviations end in ``uncertainty``."""
    table = dict(zip(field.space.names, field.space.coordinates.T, strict=True))
    if field.values is not None and not field.wind:
        table |= _components(field, field.values[step], "")
    if field.std is not None:
        table |= _components(field, field.std[step], uncertainty)
    for part in field.parts.values():
        table |= to_columns(part, step, uncertainty)
    if field.wind and field.values is not None:
        speed_name, direction_name = field.wind
        turn = unit_of(direction_name)
        speed, direction = speed_direction(field.values[step].T, turn)
        table[_with_unit(speed_name, field)] = speed
        table[direction_name] = direction
    return table


def _components(field: Field, numbers: np.ndarray, suffix: str) -> dict[str, np.ndarray]:
    """Columns of numbers ``(n, c)``, named as the components with a suffix before the unit."""
    columns = {}
    for name, column in zip(field.names, numbers.T, strict=True):
        label = _with_unit(with_suffix(name, suffix), field)
        unit = unit_of(name)
        columns[label] = column * (conversion(field.units, unit) or 1.0)
    return columns


def _with_unit(name: str, field: Field) -> str:
    """The name of a column with the unit of a field, unless its file has a column of this name or
    it says a unit."""
    columns = getattr(field.origin, "column_names", ())
    arrays = getattr(field.origin, "arrays", ())
    if not field.units or unit_of(name) or name in columns or name in arrays:
        return name
    return f"{name} [{field.units}]"
