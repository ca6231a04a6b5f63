"""What a command did, in sentences for people who do not know the methods.

They stand first in every result: what was in the file, what was done, how good it is, and what to
be careful about.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tangentbundle as tb
from tangentbundle.results import Result

NEIGHBORS = 8
"""Neighbours in the plain mean that results are compared with."""

GUESS_SHARE = 0.8
"""Where the standard deviation exceeds this share of the size of the vectors, a prediction says
little more than that a vector has the usual size."""

MAX_CHECKED = 300
"""Places at which the uncertainty is computed for the sentence about guesses."""

MIN_TIMES = 16
"""Times from which a forecast can be made."""


def subject(field: tb.io.Field) -> str:
    """The vectors at their places: the beginning of a sentence up to its verb."""
    from tangentbundle.io.quantities import quantity_of

    quantity = quantity_of(field)
    return f"{quantity.subject} at {places_in_words(field)}{dates(field)} {quantity.was}"


def places_in_words(field: tb.io.Field) -> str:
    """How many points there are, and of what kind.

    >>> import numpy as np
    >>> places_in_words(tb.io.Field(tb.spaces.Globe(np.arange(5.0), np.arange(5.0))))
    '5 places'
    """
    count = f"{len(field.space):,}".replace(",", " ")
    if isinstance(field.origin, tb.io.GridFile) and field.origin.grid.axes is not None:
        return f"{count} grid points"
    if field.space.faces is not None:
        return f"{count} points of a surface"
    if isinstance(field.space, tb.spaces.Globe):
        return f"{count} places"
    return f"{count} points"


def amount(value: float, field: tb.io.Field) -> str:
    """A size of vectors with its unit, in two digits.

    >>> import numpy as np
    >>> amount(0.2237, tb.io.Field(tb.spaces.Cloud(np.eye(3), ("x", "y", "z")), units="m s-1"))
    '0.22 m/s'
    """
    from tangentbundle.units import readable_unit

    return f"{two_digits(value)} {readable_unit(field.units)}".rstrip()


def two_digits(value: float) -> str:
    """A number in two significant digits, without a power of ten.

    >>> two_digits(0.02237), two_digits(3.0), two_digits(1234.0)
    ('0.022', '3.0', '1200')
    """
    if not value:
        return "0"
    power = math.floor(math.log10(abs(value)))
    return f"{round(value, 1 - power):.{max(0, 1 - power)}f}"


def distance(value: float, field: tb.io.Field) -> str:
    """A distance between points in two digits: in km on the globe."""
    if isinstance(field.space, tb.spaces.Globe):
        return f"{two_digits(tb.earth.RADIUS / 1000 * value)} km"
    return two_digits(value)


def dates(field: tb.io.Field) -> str:
    """The first and the last time of a series; empty if it has no dates."""
    if field.times is None or len(field.times) < 2:
        return ""
    first, last = field.ends(field.times)
    return f" from {first} to {last}".replace("T", " ")


@dataclass
class Errors:
    """Errors at points that were left out, of an estimator and of the plain mean of neighbours,
    over the fields of all times."""

    squares: float = 0.0
    neighbor_squares: float = 0.0
    sizes: float = 0.0
    fields: int = 0

    def add(self, estimator: Any, points: Any, vectors: Any) -> None:
        """Add the errors of an estimator that was fitted to one field."""
        import numpy as np
        from scipy.spatial import cKDTree

        count = min(NEIGHBORS, len(points) - 1)
        nearest = cKDTree(points).query(points, count + 1)[1][:, 1:]
        mean = vectors[nearest].mean(axis=1)
        self.squares += estimator.left_out_error_**2
        self.neighbor_squares += float(np.square(mean - vectors).sum(axis=1).mean())
        self.sizes += float(np.square(vectors).sum(axis=1).mean())
        self.fields += 1

    @property
    def own(self) -> float:
        """The error of the estimator."""
        return (self.squares / self.fields) ** 0.5

    @property
    def of_neighbors(self) -> float:
        """The error of the mean of neighbours."""
        return (self.neighbor_squares / self.fields) ** 0.5

    @property
    def size(self) -> float:
        """The size of the vectors."""
        return (self.sizes / self.fields) ** 0.5

    def sentence(self, field: tb.io.Field) -> str:
        """How good the result is."""
        return (
            f"Vectors left out on purpose were found to within {amount(self.own, field)}, the "
            "noise of the measurements included; the plain mean of neighbours comes within "
            f"{amount(self.of_neighbors, field)}, and a usual length is {amount(self.size, field)}."
        )

    def caution(self) -> str:
        """What to be careful about; empty if nothing."""
        if self.own > GUESS_SHARE * self.size:
            return "Points say little about one another here: use the result with care."
        return ""


def describe_denoised(
    result: Result, field: tb.io.Field, errors: Errors, noise: float, is_known: bool
) -> None:
    """The sentences of ``denoise``."""
    origin = "estimated from the data"
    if is_known:
        origin = "as given"
    result.say(
        f"{subject(field)} freed from noise of about {amount(noise, field)} in each component "
        f"({origin})."
    )
    result.say(errors.sentence(field))
    result.say(errors.caution())


def describe_interpolated(
    result: Result, field: tb.io.Field, target: tb.io.Field, errors: Errors, guesses: str
) -> None:
    """The sentences of ``interpolate``."""
    result.say(f"{subject(field)} filled in at {places_in_words(target)}.")
    result.say(errors.sentence(field))
    result.say(errors.caution())
    result.say(guesses)


def guesses_in_words(
    estimator: Any, field: tb.io.Field, target: tb.io.Field, errors: Errors
) -> str:
    """From which distance on predictions are guesses; empty if none is."""
    import numpy as np
    from scipy.spatial import cKDTree

    points = target.space.points
    rows = np.arange(len(points))
    if len(rows) > MAX_CHECKED:
        rows = np.random.default_rng(0).choice(rows, MAX_CHECKED, replace=False)
    covariance = estimator.predict(points[rows], return_cov=True)[1]
    deviation = np.sqrt(np.einsum("nii->n", covariance))
    are_guesses = deviation > GUESS_SHARE * errors.size
    if not are_guesses.any():
        return ""
    chords = cKDTree(field.space.points).query(points[rows])[0]
    lengths = chords
    if isinstance(field.space, tb.spaces.Globe):
        lengths = 2 * np.arcsin(np.clip(chords / 2, 0, 1))
    limit = float(np.quantile(lengths[are_guesses], 0.1))
    share = (lengths >= limit).mean()
    return (
        f"Places more than {distance(limit, field)} from a measurement are guesses "
        f"({share:.0%} of the places)."
    )


def describe_forecast(
    result: Result, field: tb.io.Field, future: tb.io.Field, skill: Sequence[Any]
) -> None:
    """The sentences of ``forecast``."""
    result.say(
        f"{subject(field)} forecast for the next {len(future)} steps after {len(field)} fields."
    )
    if not skill:
        result.say("The record is too short to test forecasts on it: use it with care.")
        return
    first = skill[0]
    result.say(
        f"In a test on the last part of the record the first step was wrong by "
        f"{amount(first.error, field)}; no change at all would be wrong by "
        f"{amount(first.persistence, field)}, the mean of the record by "
        f"{amount(first.climatology, field)}."
    )
    useless = [row.lead for row in skill if row.over_climatology <= 0]
    if useless:
        result.say(f"From step {useless[0]} on it is no better than the mean of the record.")


def describe_filtered(result: Result, field: tb.io.Field, share: float) -> None:
    """The sentences of ``filter``, with the share of the energy that remains."""
    result.say(
        f"{subject(field)} smoothed: what varies over short distances was damped, and "
        f"{share**0.5:.0%} of the usual length remains."
    )
    if share < GUESS_SHARE**2 / 2:
        result.say("Much of the field was damped: with a smaller scale more of it stays.")


def describe_parts(result: Result, field: tb.io.Field, shares: dict[str, float]) -> None:
    """The sentences of ``decompose``, with the share of each part in the energy."""
    words = {"gradient": "flows out of sources and into sinks", "divergent": "flows out of sources"}
    words |= {"rotational": "turns in circles", "remainder": "does neither"}
    described = [f"{share:.0%} {words.get(name, name)} ({name})" for name, share in shares.items()]
    result.say(f"{subject(field)} split into parts: {', '.join(described)}.")


def describe_file(result: Result, field: tb.io.Field, path: Path) -> None:
    """The sentences of ``inspect``, and what can be done next."""
    import numpy as np

    from tangentbundle.io.quantities import quantity_of

    text = f"{path.name} holds {places_in_words(field)}"
    if isinstance(field.space, tb.spaces.Globe):
        text += f", {_extent(field.space)}"
    if field.values is None:
        result.say(f"{text}, and no vectors.")
    else:
        lengths = np.linalg.norm(field.vectors, axis=2)
        smallest = amount(float(lengths.min()), field)
        largest = amount(float(lengths.max()), field)
        usual = amount(float(np.median(lengths)), field)
        quantity = quantity_of(field).subject.lower()
        result.say(
            f"{text}, with {quantity} of {smallest} to {largest} (usually {usual}){dates(field)}."
        )
    result.steps = next_steps(field, path)


def _extent(globe: tb.spaces.Globe) -> str:
    """The latitudes and longitudes of places in words."""
    lon = (globe.lon + 180) % 360 - 180
    latitudes = f"{_degrees(globe.lat.min(), 'NS')} to {_degrees(globe.lat.max(), 'NS')}"
    longitudes = f"{_degrees(lon.min(), 'EW')} to {_degrees(lon.max(), 'EW')}"
    return f"{latitudes} and {longitudes}"


def _degrees(value: float, sides: str) -> str:
    """Degrees with the side of the equator or of the meridian of Greenwich."""
    side = sides[0]
    if value < 0:
        side = sides[1]
    return f"{abs(value):.0f}°{side}"


def next_steps(field: tb.io.Field, path: Path) -> list[tuple[str, str]]:
    """What can be done with a file, and the commands."""
    name = shlex.quote(str(path))
    stem = path.name.partition(".")[0]
    suffix = path.suffix
    if suffix.lower() in (".gz", ".zip", ".xlsx", ".xls", ".ods", ".xlsm", ".xlsb"):
        suffix = ".csv"
    clean = shlex.quote(f"{stem}_clean{suffix}")
    command = "tangentbundle"
    steps = [("see it", f"{command} inspect {name} --report {shlex.quote(stem)}.html")]
    if field.values is None:
        return steps
    steps.append(("remove noise", f"{command} denoise {name} -o {clean}"))
    if field.space.faces is None:
        filled = shlex.quote(f"{stem}_filled{suffix}")
        at = f"--at places{suffix} -o {filled} --std"
        steps.append(("fill in other places", f"{command} interpolate {name} {at}"))
    if len(field) >= MIN_TIMES and not field.axes:
        later = shlex.quote(f"{stem}_next{suffix}")
        steps.append(("forecast", f"{command} forecast {name} --horizon 5 -o {later}"))
    if isinstance(field.space, tb.spaces.Globe) and isinstance(field.origin, tb.io.GridFile):
        smooth = shlex.quote(f"{stem}_smooth{suffix}")
        steps.append(("smooth", f'{command} filter {name} --scale "500 km" -o {smooth}'))
    return steps
