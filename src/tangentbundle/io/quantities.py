"""What the vectors of a file are, by the names of their columns: wind, a current, or neither."""

from __future__ import annotations

from dataclasses import dataclass

from ..spaces import Globe
from ..winds import CURRENTS, EAST
from .field import Field
from .names import name_key

WIND_WORDS = ("wind", "vent", "viento", "风", "風")
CURRENT_WORDS = ("current", "stromung", "courant", "corriente", "corrente", "海流", "water")


@dataclass(frozen=True)
class Quantity:
    """What vectors are, at the beginning of a sentence, what their length is called, and the verb
    that follows."""

    subject: str
    length: str
    was: str = "was"


WIND = Quantity("Wind", "wind speed")
CURRENT = Quantity("Current", "current speed")
VELOCITY = Quantity("Velocity", "speed")
VECTORS = Quantity("Vectors", "length", "were")


def quantity_of(field: Field) -> Quantity:
    """What the vectors of a field are.

    >>> import numpy as np
    >>> globe = Globe(np.zeros(3), np.arange(3.0))
    >>> quantity_of(Field(globe, names=("u10", "v10"))).length
    'wind speed'
    >>> quantity_of(Field(globe, names=("uo", "vo"))).subject
    'Current'
    """
    names = [name_key(name) for name in (*field.wind, *field.names)]
    first = name_key(field.names[0])
    is_current = first in CURRENTS or any(word in names[0] for word in CURRENT_WORDS)
    is_wind = any(word in name for name in names for word in WIND_WORDS)
    if is_current:
        return CURRENT
    if is_wind or field.wind:
        return WIND
    if not isinstance(field.space, Globe):
        return VECTORS
    if first in EAST:
        return WIND
    return VELOCITY
