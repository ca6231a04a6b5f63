"""What the tool and the xarray accessor do with a field: filter it, predict it elsewhere, and forecast it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..earth import RADIUS
from ..errors import InvalidInputError, UnitsError
from ..timeline import regular
from ..units import conversion
from .field import Field
from .grids import GridFile
from .guards import warn
from .spaces import Globe

if TYPE_CHECKING:
    from ..bundle import TangentBundle

LITTLE_ENERGY = 0.01
"""Share of the energy below which nothing is left of a field."""


def known(field: Field, dim: int | None = None) -> dict[str, Any]:
    """What any estimator may know of a field's space."""
    return {"dim": field.space.dim if dim is None else dim, "manifold": field.space.manifold}


def assumed(field: Field, dim: int | None = None) -> dict[str, Any]:
    """What estimators of one field may know: on the globe also covariances with bands of latitude."""
    if not isinstance(field.space, Globe):
        return known(field, dim)
    from ..earth.covariances import planetary
    from ..estimators import helmholtz_covariance

    return {**known(field, dim), "covariance": [planetary(), helmholtz_covariance()]}


def past(field: Field, history: Field) -> dict[str, Any]:
    """Past fields as ``FieldInterpolator`` takes them, in the units of the field."""
    factor = conversion(history.units or field.units, field.units or history.units)
    if factor is None:
        raise UnitsError(f"the history is in {history.units!r}, the field in {field.units!r}. Convert one of them.")
    _same_space(field, history)
    return {"history": factor * history.vectors, "history_points": history.space.points}


def _same_space(field: Field, other: Field) -> None:
    a, b = field.space, other.space
    if (a.manifold, a.points.shape[1]) != (b.manifold, b.points.shape[1]):
        raise InvalidInputError(f"one holds {a}, the other {b}. Give both in the same coordinates.")


def filtered(field: Field, bundle: Any, apply: Callable[[Any], Any], at_once: int = 32) -> tuple[Field, float]:
    """The tangent field of every time after ``apply``, a filter of coordinates in a bundle; the share of energy left.

    So many times are filtered together.
    """
    vectors = field.vectors.astype(field.space.coordinates.dtype, copy=False)
    smooth = np.empty_like(vectors)
    before = after = 0.0
    for a in range(0, len(vectors), at_once):
        x = bundle.to_coordinates(np.ascontiguousarray(vectors[a : a + at_once].transpose(1, 2, 0)))
        y = apply(x)
        before, after = before + float(np.square(x).sum()), after + float(np.square(y).sum())
        smooth[a : a + at_once] = bundle.to_ambient(y).reshape(*vectors.shape[1:], -1).transpose(2, 0, 1)
    left = after / before if before else 1.0
    warn_if_nothing_left(left, bundle.eps)
    return field.with_vectors(smooth), left


def decomposed(field: Field, bundle: TangentBundle | None) -> tuple[Field, dict[str, np.ndarray]]:
    """The field with its parts, potentials, divergence and vorticity as ``parts``; energies ``(T,)`` of its parts.

    On the globe the cells of the file's grid are used, as by ``earth.decompose``, and no bundle is needed. Speeds there
    give rates in s-1 and potentials in m2 s-1; otherwise lengths are those of the points.
    """
    if bundle is None:
        from ..earth.decomposition import decompose_points
        from ..earth.grid import Grid

        assert isinstance(field.space, Globe)
        origin = field.origin
        grid = origin.grid if isinstance(origin, GridFile) else Grid.scattered(field.space.lat, field.space.lon)
        found = decompose_points(grid, field.space.points, field.array)
    else:
        from ..calculus import helmholtz

        vectors = field.vectors.astype(field.space.coordinates.dtype, copy=False)
        found = helmholtz(bundle, bundle.to_coordinates(vectors[..., None]))
    speed = conversion(field.units, "m s-1") if isinstance(field.space, Globe) else None
    length, speed, units = (1.0, 1.0, ("", "")) if speed is None else (RADIUS, speed, ("s-1", "m2 s-1"))

    def part(values: np.ndarray, names: tuple[str, ...], unit: str) -> Field:
        return replace(field, values=values, names=names, units=unit, wind=())

    parts = {}
    for name in found.energies:
        values = getattr(found, name)
        values = values[..., 0] if bundle is None else field.space.components(bundle.to_ambient(values))
        parts[name] = part(values, tuple(f"{name}_{component}" for component in field.names), field.units)
    scales = {"divergence": (speed / length, units[0]), "vorticity": (speed / length, units[0])}
    scales |= {"potential": (speed * length, units[1]), "stream": (speed * length, units[1])}
    for name, (scale, unit) in scales.items():
        if (values := getattr(found, name)) is not None:
            parts[name] = part(scale * values[..., 0], (f"{name} [{unit}]" if unit else name,), unit)
    return replace(field, parts=parts), {name: share[:, 0] for name, share in found.energies.items()}


def warn_if_nothing_left(left: float, eps: float) -> None:
    """Warn of a filter that leaves less than ``LITTLE_ENERGY`` of the energy."""
    if left < LITTLE_ENERGY:
        warn(
            f"the filter leaves {left:.2g} of the field's energy. Times are squared lengths, in units of the points; "
            f"{eps:.2g} smooths over one neighbourhood. Try such a number."
        )


def predicted(
    estimator: Any,
    field: Field,
    target: Field,
    *,
    noise: float | None = None,
    std: bool = False,
    started: Callable[[int], None] = lambda number: None,
) -> tuple[Field, list[float]]:
    """Fit to the field of each time and predict at the points of ``target``; also the levels of noise.

    ``noise`` is a standard error; by default errors are those of the field, or estimated.
    ``started`` is called with the number of each field before its fit.
    """
    _same_space(field, target)
    points, places, vectors = field.space.points, target.space.points, field.vectors
    means, spreads, levels = [], [], []
    known: Any = field.noise if noise is None else noise
    for number, one in enumerate(vectors):
        started(number)
        estimator.fit(points, one, noise_std=known)
        levels.append(float(estimator.noise_))
        if std:
            mean, covariance = estimator.predict(places, return_cov=True)
            spreads.append(target.space.spread(covariance))
        else:
            mean = estimator.predict(places)
        means.append(mean)
    names = field.names if len(field.names) == len(target.names) else target.names
    result = replace(target, names=names, units=field.units, times=field.times, axes=field.axes)
    return result.with_vectors(np.stack(means), std=np.stack(spreads) if std else None), levels


def forecasted(field: Field, estimator: Any, horizon: int) -> Field:
    """The next fields of a series, with standard deviations, and their dates where it has dates."""
    if field.axes:
        raise InvalidInputError(
            f"a forecast is of one series, but there are several along {field.axes[0][0]}: select= one."
        )
    if len(field) < 2:
        raise InvalidInputError("a forecast needs a series in time, and this is one field. Give at least two times.")
    vectors, times, recent = field.vectors, field.times, recent_fields(field)
    estimator.fit(field.space.points, vectors, times)
    dates = None if times is None else times[recent]
    future, spread = estimator.predict(vectors[recent], horizon, dates, return_std=True)
    later = None
    if times is not None:
        line, ahead = regular(times), [times[-1:]]
        for _ in range(horizon):
            ahead.append(line.next(ahead[-1]))
        later = np.concatenate(ahead[1:])
    std = np.stack([_component_spread(field, one) for one in spread])
    return replace(field.with_vectors(future), std=std, times=later)


def recent_fields(field: Field, most: int = 60) -> slice:
    """The last fields without a gap, those that a forecast starts from; no model looks further back than ``most``."""
    gapless = slice(0, len(field)) if field.times is None else regular(field.times).segments()[-1]
    return slice(max(gapless.start, len(field) - most), len(field))


def _component_spread(field: Field, std: np.ndarray) -> np.ndarray:
    """Standard deviations of the file's components, from those of ambient ones that are alike in all directions."""
    if std.shape[1] == len(field.names):
        return std
    level = np.sqrt(np.square(std).sum(axis=1) / len(field.names))
    return np.repeat(level[:, None], len(field.names), axis=1)
