"""Which axis of a mesh points up in pictures: files seldom say it."""

from __future__ import annotations

import numpy as np

FLAT = 0.5
"""A mesh lies flat if one side is less than this share of both others: terrain, a spider, a
plane."""

CLEARLY_TALLER = 1.2
"""Otherwise y must be that many times as tall as z to be up: what is about as tall in both, such as
a sphere, has z up."""


def upright_axis(points: np.ndarray) -> str:
    """The axis, y or z, that probably points up, from the sides of the box around points
    ``(n, 3)``.

    What is flat lies on the ground: its thin axis is up. Other things stand: the longer of y and z
    is up, and z if they are about as long.

    >>> upright_axis(np.array([[0.0, 0.0, 0.0], [1.0, 3.0, 1.2]]))  # a person
    'y'
    >>> upright_axis(np.array([[0.0, 0.0, 0.0], [5.0, 6.0, 2.0]]))  # a spider
    'z'
    """
    if points.ndim != 2 or points.shape[1] != 3 or not len(points):
        return "z"
    x, y, z = np.ptp(np.asarray(points, np.float64), axis=0)
    if y < FLAT * min(x, z):
        return "y"
    if z < FLAT * min(x, y):
        return "z"
    if y > CLEARLY_TALLER * z:
        return "y"
    return "z"
