"""Fields from named columns, for tables, arrays and datasets: columns are requested, or guessed by
name with a note."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from typing import Any

import numpy as np

from ..earth import xarrays
from ..earth.xarrays import DIRECTION, EAST, EAST_NORTH, NORTH, SPEED, is_radian
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
from ..units import common_unit, conversion
from .field import (
    Field,
    Request,
    check_count,
    distinct_rows,
    usable_rows,
    warn_if_radians,
    warn_of_data,
)
from .names import listed, named, natural, split_unit
from .series import are_dates, numbers_the_rows
from .spaces import Cloud, Globe

PLACES = [*product(("lat", "latitude", "nav_lat"), ("lon", "longitude", "nav_lon", "long", "lng"))]
WINDS = [*zip(EAST, NORTH, strict=True), ("east", "north"), ("eastward", "northward")]
WINDS += [EAST_NORTH, ("zonal", "meridional")]
POLAR_WINDS = [*product(SPEED, DIRECTION)]
TIME_NAMES: tuple[str, ...] = (
    "time",
    "times",
    "date",
    "datetime",
    "timestamp",
    "valid_time",
    "date_time",
    "obs_time",
)
TIME_NAMES += ("year", "month", "day", "hour", "minute", "utc", "step", "frame", "day_of_year")
"""Names, in lower case, of columns that say when a row was measured."""
NUMBERED = ("x", "pc")
"""Prefixes of numbered coordinates; others count if there is a velocity for each."""
VELOCITY = ("v", "v_", "d", "d_")
"""Prefixes of velocities, before the name of a coordinate."""


NO_VECTOR_PREFIXES = ("", "n", "normal", "normals", "p", "pos", "position")
"""Names of axes with these in front are normals or further coordinates, as nx or pos_x."""
NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)
"""What is a number in a table; Python's ``float`` also accepts 1_000."""


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


def _key(name: str) -> str:
    """A name as the known ones are written: ``Wind Speed (kt)`` is ``wind_speed``."""
    return split_unit(name)[0].lower().replace(" ", "_")


def find_columns(names: Sequence[str], request: Request) -> Columns:
    """The columns of points and vectors among ``names``.

    >>> found = find_columns(["station", "Lat", "Lon", "u10 [m/s]", "v10 [m/s]"], Request())
    >>> found.points, found.vectors, found.on_globe, [*found.units.values()]
    (('Lat', 'Lon'), ('u10 [m/s]', 'v10 [m/s]'), True, ['m/s', 'm/s'])
    >>> find_columns(
    ...     ["pc1", "pc2", "pc10", "dpc1", "dpc2", "dpc10"], Request(points=("pc*",))
    ... ).vectors
    ('dpc1', 'dpc2', 'dpc10')
    """
    known = {_key(name): name for name in reversed(names)}
    points, on_globe = _points(names, known, request)
    vectors, wind = (
        ((), ()) if request.only_points else _vectors(names, known, points, on_globe, request)
    )
    errors = request.sigma or (known.get("sigma", "") if vectors else "")
    sigma = named([errors], names, "sigma")[:1] if errors else ()
    units = {name: split_unit(name)[1] for name in (*(wind or vectors), *sigma)}
    notes: list[Note] = []
    if not (request.latlon or request.points):
        angle = ", in degrees" if on_globe else ""
        notes.append(Note(f"points: columns {listed(points)}, guessed by name{angle}"))
    if wind:
        unit, turn = (units[name] for name in wind)
        turn = turn if is_radian(turn) else "degrees"
        text = f"vectors: speed {wind[0]} and direction {wind[1]}, where the wind comes from"
        notes.append(Note(f"{text}, in {turn}"))
        vectors = tuple(f"{name} [{unit}]" for name in vectors) if unit else vectors
    elif vectors and not request.vectors:
        axes = ", taken as east, north" if on_globe else ""
        notes.append(Note(f"vectors: columns {listed(vectors)}, guessed by name{axes}"))
    if declared := dict.fromkeys(filter(None, map(units.get, wind[:1] or vectors))):
        text = f"units of the vectors: {', '.join(declared)}, from the column names"
        notes.append(Note(text))
    notes += [Note(f"standard errors: column {name}") for name in sigma]
    return Columns(points, vectors, on_globe, units, tuple(notes), wind, sigma)


def _points(
    names: Sequence[str], known: dict[str, str], request: Request
) -> tuple[tuple[str, ...], bool]:
    """Columns of points, and whether they are latitude and longitude."""
    if request.latlon:
        return named(request.latlon, names, "latlon", 2), True
    if request.points:
        found = named(request.points, names, "points")
        return found, tuple(map(_key, found)) in PLACES
    globe = _first(known, PLACES)
    axes = [[f"{prefix}{axis}" for axis in "xyz"] for prefix in ("", "p", "pos_")]
    cloud = _first(known, [*axes, *_numbered(known)])
    if globe and (not cloud or _first(known, [*WINDS, *POLAR_WINDS])):
        return globe, True
    if not cloud:
        raise MissingColumnsError(
            f"no columns of points found; the file has {listed(names)}. Expected x, y, z, or lat, "
            "lon.",
            Remedy(
                "Name them: {points} or {latlon}.", points=("X", "Y", "Z"), latlon=("LAT", "LON")
            ),
        )
    return cloud, False


def _vectors(
    names: Sequence[str],
    known: dict[str, str],
    points: tuple[str, ...],
    on_globe: bool,
    request: Request,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns of vectors, as many as components, or of speed and direction; empty if there are
    none, none needed."""
    wanted = 2 if on_globe else len(points)
    if request.wind and not on_globe:
        raise InvalidInputError(
            "needs latitude and longitude.",
            Remedy("Name them with {latlon}.", latlon=("LAT", "LON")),
            argument="wind",
        )
    if request.wind:
        return EAST_NORTH, named(request.wind, names, "wind", 2)
    if request.vectors:
        return named(request.vectors, names, "vectors", wanted), ()
    if on_globe:
        if found := _first(known, WINDS):
            return found, ()
        if found := _first(known, POLAR_WINDS):
            return EAST_NORTH, found
    else:
        free = {key: name for key, name in known.items() if name not in points}
        keys = [*map(_key, points)]
        axes = [name.removeprefix("pos_").removeprefix("p") for name in keys]
        groups = [
            [f"{lead}{name}" for name in group] for group in (keys, axes) for lead in VELOCITY
        ]
        if found := _first(
            free, [*groups, ["u", "v", "w"][:wanted], *_numbered(free, ("v",))], wanted
        ):
            return named(found, names, "vectors", wanted), ()
    if request.needs_vectors:
        raise MissingColumnsError(
            f"no columns of vectors found for the points {listed(points)}; the file has "
            f"{listed(names)}.",
            name_vectors("Name them", on_globe),
        )
    return (), ()


def name_vectors(advice: str, on_globe: bool) -> Remedy:
    """The advice to name the columns of vectors."""
    if on_globe:
        return Remedy(
            f"{advice}: {{vectors}} or {{wind}}.",
            vectors=("EAST", "NORTH"),
            wind=("SPEED", "DIRECTION"),
        )
    return Remedy(f"{advice}: {{vectors}}.", vectors=("VX", "VY", "VZ"))


def _numbered(known: Mapping[str, str], prefixes: Sequence[str] = ()) -> list[list[str]]:
    """Columns such as x1, x2, ... or pc_0, pc_1, ..., by prefix; without prefixes to look for,
    those of points."""
    groups: dict[str, list[str]] = {}
    for name in sorted(known, key=natural):
        groups.setdefault(natural(name)[0] if name[-1:].isdecimal() else "", []).append(name)
    usual = [f"{prefix}{gap}" for prefix in prefixes or NUMBERED for gap in ("", "_")]
    moving = [
        p
        for p, group in groups.items()
        if p and any(all(v + n in known for n in group) for v in VELOCITY)
    ]
    return [groups[p] for p in (usual if prefixes else [*usual, *moving]) if p in groups]


def _first(
    known: Mapping[str, str], groups: Iterable[Iterable[str]], least: int = 2
) -> tuple[str, ...]:
    """Return the leading known names of the first group that has at least ``least`` of them."""
    for group in groups:
        found = tuple(known[name] for name in takewhile(known.__contains__, group))
        if len(found) >= least:
            return found
    return ()


def from_columns(
    column: Callable[[str], np.ndarray],
    columns: Columns,
    request: Request,
    others: Mapping[str, np.ndarray] | None = None,
) -> tuple[Field, np.ndarray | None]:
    """A field from named columns, checked and in one unit, and the rows used; None if all are used.

    ``others`` are further columns: those ``(n,)`` may tell rows of one place apart, and components
    of other vectors among them are named in a warning. Vectors may be ``(n,)`` or ``(T, n)``. All
    numbers are float32 if they came so, otherwise float64.
    """
    groups = (columns.points, columns.wind or columns.vectors, columns.sigma)
    points, vectors, errors = ({name: column(name) for name in names} for names in groups)
    shapes = {name: array.shape for name, array in (points | vectors | errors).items()}
    if len({shape[-1:] for shape in shapes.values()}) > 1 or any(
        len(shapes[name]) != 1 for name in points | errors
    ):
        raise ShapeError(
            f"columns of points, vectors and errors must be equally long, got {shapes}."
        )
    dtype = np.result_type(*points.values(), *vectors.values())
    coordinates, values = np.stack([*points.values()], axis=1, dtype=dtype), None
    check_count(len(coordinates), request)
    notes, units, numbers = [*columns.notes], "", [coordinates]
    if vectors:
        values = np.stack([*vectors.values()], axis=-1, dtype=dtype).reshape(
            -1, len(coordinates), len(vectors)
        )
        given = [columns.units[name] for name in vectors]
        if columns.wind:
            speed, direction = np.moveaxis(values, -1, 0)
            if bad := int(xarrays.impossible_wind(speed, direction, given[1]).sum()):
                text = f"{bad} negative speeds or directions beyond the circle count as missing"
                notes.append(MissingValuesNote(text))
            elif not is_radian(given[1]):
                warn_if_radians(columns.wind[1], direction)
            values, given = xarrays.wind_components(speed, direction, given[1]), given[:1] * 2
        units, factors = common_unit(columns.vectors, given, notes)
        values = values if (factors == 1).all() else (values * factors).astype(values.dtype)
        values = xarrays.without_impossible(values, units, notes) if columns.on_globe else values
        numbers += [*values]
    numbers += [sigma[:, None] for sigma in errors.values()]
    rows = usable_rows(np.concatenate(numbers, axis=1), request, notes)
    check_count(len(rows), request)
    usable = coordinates[rows]
    space = (
        Globe(usable[:, 0], usable[:, 1], columns.points)
        if columns.on_globe
        else Cloud(usable, columns.points)
    )
    unused = {name: a for name, a in (others or {}).items() if name not in columns.numeric}
    labels = {
        name: a[rows]
        for name, a in unused.items()
        if a.shape == (len(coordinates),) and not numbers_the_rows(a)
    }
    first = distinct_rows(space, request, notes, labels, rows)
    if vectors and not (request.vectors or request.wind):
        _warn_of_other_vectors(columns, unused)
    check_count(len(first), request)
    if len(first) < len(coordinates):
        rows, space = rows[first], space.select(first)
        values = None if values is None else values[:, rows]
    field = Field(
        space,
        values,
        columns.vectors,
        units=units,
        notes=tuple(notes),
        wind=columns.wind,
        rows=rows,
    )
    for name, sigma in errors.items():
        field = with_errors(field, sigma[rows], name, columns.units[name])
    return field, rows if len(rows) < len(coordinates) else None


def other_vectors(names: Sequence[str], columns: Columns) -> list[tuple[str, ...]]:
    """Groups of names, besides the columns in use, that are components of vectors by their names.

    Components differ by u and v, east and north or other words, or by the names of the axes. Parts
    of the vectors in use, such as gradient_vx of vx, which the tool itself writes, do not count.

    >>> names = ["x", "y", "vx", "vy", "tauu", "tauv", "mag_x", "mag_y", "vx_err", "vy_err"]
    >>> names += ["gradient_vx", "gradient_vy"]
    >>> other_vectors(names, find_columns(names, Request()))
    [('tauu', 'tauv'), ('mag_x', 'mag_y')]
    """
    used = {*columns.points, *columns.vectors, *columns.numeric}
    endings = tuple(f"_{name}" for name in columns.vectors)
    free = {
        _key(name): name
        for name in reversed(names)
        if name not in used and not name.endswith(endings)
    }
    dims = 2 if columns.on_globe else len(columns.points)
    axes = [["x", "y", "z"][:dims], ["u", "v", "w"][:dims]]
    if not columns.on_globe:
        axes.append([*map(_key, columns.points)])
    groups: list[tuple[str, ...]] = []
    for key in sorted(free, key=lambda key: names.index(free[key])):
        if any(free[key] in group for group in groups) or xarrays.NO_VECTOR.search(key):
            continue
        partners = [[key, north] for north in xarrays.northward_names(key)]
        for axis in axes:
            prefix = key.removesuffix(axis[0])
            if len(axis) > 1 and prefix != key and prefix.strip("_") not in NO_VECTOR_PREFIXES:
                partners.insert(0, [prefix + name for name in axis])
        for partner in partners:
            if all(name in free for name in partner):
                groups.append(tuple(free[name] for name in partner))
                break
    return groups


def _warn_of_other_vectors(columns: Columns, others: Mapping[str, np.ndarray]) -> None:
    """Warn of further vectors among columns of numbers: they are not worked on."""
    numeric = [name for name, a in others.items() if _has_numbers(a)]
    groups = other_vectors(numeric, columns)
    if not groups:
        return
    shown = "; ".join(", ".join(group) for group in groups[:4])
    if len(groups) > 4:
        shown += "; ..."
    warn_of_data(
        f"the file has several vectors: {listed(columns.wind or columns.vectors)} are used, "
        f"{shown} not.",
        Remedy("Name those to use, one at a time, as {vectors}.", vectors=groups[0]),
    )


def _has_numbers(column: np.ndarray) -> bool:
    """Whether a column holds numbers, or text that is numbers or empty."""
    if column.dtype.kind in "fiu":
        return True
    texts = [value for value in column[:100].tolist() if value not in (None, "")]
    return bool(texts) and all(isinstance(t, str) and NUMBER.fullmatch(t.strip()) for t in texts)


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
        name: a
        for name, a in columns.items()
        if a.ndim == 1 and (_key(name) in TIME_NAMES or are_dates(a))
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
    return array if array.dtype == np.float32 else array.astype(np.float64)


def with_errors(field: Field, errors: np.ndarray, name: str, unit: str) -> Field:
    """The field with the standard errors ``(n,)`` of a column, converted to the unit of the
    field."""
    factor = conversion(unit or field.units, field.units or unit)
    if factor is None:
        raise UnitsError(
            f"{name} must be in the unit of the vectors, {field.units!r}, or one of speed."
        )
    return replace(field, noise=factor * errors)


def to_columns(field: Field, step: int = 0) -> dict[str, np.ndarray]:
    """The columns of points, vectors and standard deviations of one time, in the units that their
    names say."""
    table = dict(zip(field.space.names, field.space.coordinates.T, strict=True))
    for suffix, numbers in (("", None if field.wind else field.values), ("_std", field.std)):
        if numbers is not None:
            for name, column in zip(field.names, numbers[step].T, strict=True):
                plain, unit = split_unit(name)
                label = _with_unit(name.replace(plain, plain + suffix, 1), field)
                table[label] = column * (conversion(field.units, unit) or 1.0)
    for part in field.parts.values():
        table |= to_columns(part, step)
    if field.wind and field.values is not None:
        polar = xarrays.speed_direction(field.values[step].T, split_unit(field.wind[1])[1])
        table |= zip((_with_unit(field.wind[0], field), field.wind[1]), polar, strict=True)
    return table


def _with_unit(name: str, field: Field) -> str:
    """The name of a column with the unit of a field, unless its file has a column of this name or
    it says a unit."""
    taken = (*getattr(field.origin, "column_names", ()), *getattr(field.origin, "arrays", ()))
    return (
        name
        if not field.units or split_unit(name)[1] or name in taken
        else f"{name} [{field.units}]"
    )
