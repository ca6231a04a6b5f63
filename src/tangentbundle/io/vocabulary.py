"""Names of columns in several languages, units at the ends of names, and points of the compass.

The words are data, in ``known_names.toml``; this module reads and compares them.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

WORDS = Path(__file__).with_name("known_names.toml")

SIGNS = re.compile(r"[\W_]+")
"""What separates words in names."""

SECTORS: tuple[str, ...] = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE")
SECTORS += ("S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")
"""The points of the compass, clockwise."""

REVERSED = {"EN": "NE", "WN": "NW", "ES": "SE", "WS": "SW"}
"""Chinese and Japanese write east and west first."""


@cache
def _table() -> dict[str, dict]:
    with WORDS.open("rb") as file:
        return tomllib.load(file)


def key(name: str) -> str:
    """A name as names are compared: lower case, without accents, words joined by ``_``.

    >>> key("Geogr. Länge"), key("Dirección del viento"), key("風速")
    ('geogr_lange', 'direccion_del_viento', '風速')
    """
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
    return SIGNS.sub("_", plain).strip("_")


@cache
def names_of(quantity: str) -> tuple[str, ...]:
    """All names of a quantity, as keys.

    >>> names_of("latitude")[:3], "breite" in names_of("latitude")
    (('lat', 'latitude', 'nav_lat'), True)
    """
    names = [key(name) for language in _table()[quantity].values() for name in language]
    return tuple(dict.fromkeys(names))


@cache
def pairs_of(first: str, second: str) -> tuple[tuple[str, str], ...]:
    """The names of two quantities that belong together, one by one, as keys."""
    pairs: list[tuple[str, str]] = []
    for language, names in _table()[first].items():
        partners = _table()[second][language]
        pairs += zip(map(key, names), map(key, partners), strict=True)
    return tuple(pairs)


def without_fillers(name: str) -> str:
    """A key without words that do not change its meaning.

    >>> without_fillers("mean_wind_speed_10m")
    'wind_speed'
    """
    fillers = names_of("fillers")
    words = [word for word in name.split("_") if word not in fillers]
    return "_".join(words)


@cache
def unit_suffixes() -> Mapping[str, str]:
    """Units by the ends of names, the longest ends first.

    >>> unit_suffixes()["kmh"]
    'km/h'
    """
    suffixes = _table()["unit_suffixes"]
    return {end: suffixes[end] for end in sorted(suffixes, key=len, reverse=True)}


def implied_unit(name: str) -> str:
    """The unit that a name implies; empty if none.

    >>> implied_unit("sknt"), implied_unit("speed")
    ('kt', '')
    """
    return _table()["implied_units"].get(key(name), "")


class Compass:
    """Directions in words: N, NNE, north-east, Südwest, 北东.

    ``east_or_west`` is what "O" stands for, ``E`` or ``W``.

    >>> compass = Compass.of(["N", "SO", "WSW"])
    >>> Compass.of(["SO"], ["Breite"]).east_or_west, Compass.of(["SO"], ["Vitesse"]).east_or_west
    ('E', 'W')
    >>> compass.east_or_west, [compass.degrees(word) for word in ("N", "SO", "Nordost")]
    ('E', [0.0, 135.0, 45.0])
    >>> Compass.of(["NO", "E"]).degrees("NO")
    315.0
    """

    def __init__(self, east_or_west: str) -> None:
        self.east_or_west = east_or_west

    @classmethod
    def of(cls, words: Iterable[str], names: Iterable[str] = ()) -> Compass:
        """What "O" stands for in a column: east if there is a west by another name, otherwise as
        in the language of the names of columns."""
        letters = {letter for word in words for letter in _letters(word) or ()}
        if "W" in letters:
            return cls("E")
        if "E" in letters or not _are_german(names):
            return cls("W")
        return cls("E")

    def degrees(self, word: str) -> float | None:
        """The degrees clockwise from north; NaN for calm and variable winds, None for other
        words."""
        if not word.strip() or word.strip().casefold() in _table()["compass"]["NONE"]:
            return np.nan
        letters = _letters(word)
        if letters is None:
            return None
        sector = "".join(letters).replace("O", self.east_or_west)
        sector = REVERSED.get(sector, sector)
        if sector not in SECTORS:
            return None
        return 22.5 * SECTORS.index(sector)


def _are_german(names: Iterable[str]) -> bool:
    """Whether some names of columns are known in German alone."""
    keys = {key(name) for name in names}
    quantities = [languages for languages in _table().values() if "german" in languages]
    for languages in quantities:
        others = {
            key(name)
            for language in languages
            if language != "german"
            for name in languages[language]
        }
        german = {key(name) for name in languages["german"]}
        if keys & (german - others):
            return True
    return False


@cache
def _letters(word: str) -> tuple[str, ...] | None:
    """A direction as letters N, E, S, W, and O where it is east or west; None for other words."""
    rest = SIGNS.sub("", key(word))
    letters = []
    while rest:
        for start, letter in _starts():
            if rest.startswith(start):
                letters.append(letter)
                rest = rest.removeprefix(start)
                break
        else:
            return None
    return tuple(letters)


@cache
def _starts() -> tuple[tuple[str, str], ...]:
    """The words of each direction, the longest first."""
    compass = _table()["compass"]
    words = [(key(word), letter) for letter in "NESW" for word in compass[letter]]
    words += [(key(word), "O") for word in compass["EAST_OR_WEST"]]
    return tuple(sorted(words, key=lambda pair: -len(pair[0])))
