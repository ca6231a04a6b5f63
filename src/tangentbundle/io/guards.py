"""Warnings about numbers that can be read but are probably not what was meant: each with a number and a remedy."""

from __future__ import annotations

import warnings

import numpy as np

from ..errors import SuspiciousDataWarning
from .field import Field
from .spaces import Globe

FEW_POINTS = 10
"""Below this, neither tangent spaces nor a noise level can be estimated: a plane's neighbourhood has about so many."""
MARKER_RATIO = 100.0
"""How much larger than all others a repeated value must be to count as a marker of missing values."""
DOMINANT_SHARE = 0.5
"""Share of the energy of all vectors that one row may have."""


def warn(text: str) -> None:
    """Give a ``SuspiciousDataWarning``."""
    warnings.warn(text, SuspiciousDataWarning, stacklevel=3)


def warn_if_suspicious(field: Field) -> None:
    """Look for transposed arrays, radians, markers of missing values, too few points, and rows that dominate."""
    n, dims = field.space.coordinates.shape
    if n < dims and n <= FEW_POINTS:
        warn(f"{n} points in R^{dims}: is the array transposed? Points have shape (n, D), a row for each.")
    elif n < FEW_POINTS and field.values is not None:
        warn(f"{n} points are too few to estimate tangent spaces and noise. Give at least {FEW_POINTS}.")
    if isinstance(field.space, Globe) and np.abs(field.space.lat).max() < 1.6:
        warn_if_radians("longitude", field.space.lon)
    found = [_marker(name, column) for name, column in zip(field.space.names, field.space.coordinates.T, strict=True)]
    if field.values is None:
        return
    found += [_marker(name, field.values[..., k].ravel()) for k, name in enumerate(field.names)]
    if texts := list(filter(None, found)):
        warn(f"{'; '.join(texts)}. If they mark missing values, empty these cells and use drop_missing=True.")
        return
    energy = np.square(field.values.astype(float)).sum(axis=(0, 2))
    row, total = int(energy.argmax()), float(energy.sum())
    if n >= FEW_POINTS and energy[row] > DOMINANT_SHARE * total > 0:
        warn(
            f"row {row + 1} has {energy[row] / total:.0%} of the energy of all {n} vectors, and determines the result. "
            "Check its units, or delete it."
        )


def warn_if_radians(name: str, angles: np.ndarray) -> None:
    """Warn of angles in degrees, all round the circle, none of which is larger than 2 pi."""
    largest = np.abs(np.nan_to_num(angles)).max()
    if 1 < largest < 2 * np.pi + 0.01 and angles.size >= FEW_POINTS:
        warn(f"angles of {name} end at {largest:.3g}: are they radians? Give degrees, as np.degrees does.")


def _marker(name: str, values: np.ndarray) -> str:
    """What looks like a marker: a value that occurs several times and is far larger than all others."""
    size = np.abs(values)
    top = size.max()
    is_top = size == top
    others = size[~is_top]
    count = int(is_top.sum())
    if 2 <= count < len(others) and top > MARKER_RATIO * others.max() and np.median(others) > 0:
        return f"{count} values of {name} are {values[is_top][0]:g}, all others at most {others.max():.3g}"
    return ""
