"""What the tool and the xarray accessor do with a field: filter it, predict it elsewhere, and forecast it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidInputError
from ..timeline import regular
from .field import Field
from .tables import after_rows

if TYPE_CHECKING:
    from ..bundle import TangentBundle
    from ..filters import Filter


def known(field: Field, dim: int | None = None) -> dict[str, Any]:
    """What an estimator may know of a field's space."""
    return {"dim": field.space.dim if dim is None else dim, "manifold": field.space.manifold}


def filtered(field: Field, bundle: TangentBundle, response: Filter, at_once: int = 32) -> tuple[Field, float]:
    """The filtered tangent field of every time, ``at_once`` of them together, and the share of energy that is left."""
    vectors = field.vectors.astype(field.space.coordinates.dtype, copy=False)
    lap, smooth = bundle.laplacian(), np.empty_like(vectors)
    before = after = 0.0
    for a in range(0, len(vectors), at_once):
        x = bundle.to_coordinates(np.ascontiguousarray(vectors[a : a + at_once].transpose(1, 2, 0)))
        y = response(lap, x)
        before, after = before + float(np.square(x).sum()), after + float(np.square(y).sum())
        smooth[a : a + at_once] = bundle.to_ambient(y).reshape(*vectors.shape[1:], -1).transpose(2, 0, 1)
    return field.with_vectors(smooth), after / before if before else 1.0


def predicted(
    estimator: Any,
    field: Field,
    target: Field,
    *,
    noise: float | None = None,
    std: bool = False,
    fitted: Callable[[int], None] = lambda number: None,
) -> tuple[Field, list[float]]:
    """Fit to the field of each time and predict at the points of ``target``; also the levels of noise.

    ``fitted`` is called with the number of each field after its fit.
    """
    points, places, vectors = field.space.points, target.space.points, field.vectors
    if (field.space.manifold, points.shape[1]) != (target.space.manifold, places.shape[1]):
        raise InvalidInputError(
            f"one holds {field.space}, the other {target.space}. Give both in the same coordinates."
        )
    means, spreads, levels = [], [], []
    for number, one in enumerate(vectors):
        estimator.fit(points, one, noise_std=noise)
        levels.append(float(estimator.noise_))
        if std:
            mean, covariance = estimator.predict(places, return_cov=True)
            spreads.append(target.space.spread(covariance))
        else:
            mean = estimator.predict(places)
        means.append(mean)
        fitted(number)
    names = field.names if len(field.names) == len(target.names) else target.names
    result = replace(target, names=names, units=field.units, times=field.times)
    return result.with_vectors(np.stack(means), std=np.stack(spreads) if std else None), levels


def forecasted(field: Field, estimator: Any, horizon: int, learned: Callable[[], None] = lambda: None) -> Field:
    """The next fields of a series, with standard deviations, and their dates where it has dates.

    ``learned`` is called between learning and forecasting.
    """
    if len(field) < 2:
        raise InvalidInputError("a forecast needs a series in time, and this is one field. Give at least two times.")
    vectors, times, recent = field.vectors, field.times, recent_fields(field)
    estimator.fit(field.space.points, vectors, times)
    learned()
    dates = None if times is None else times[recent]
    future, spread = estimator.predict(vectors[recent], horizon, dates, return_std=True)
    later = None
    if times is not None:
        line, ahead = regular(times), [times[-1:]]
        for _ in range(horizon):
            ahead.append(line.next(ahead[-1]))
        later = np.concatenate(ahead[1:])
    std = np.stack([_component_spread(field, one) for one in spread])
    return replace(field.with_vectors(future), std=std, times=later, origin=after_rows(field.origin))


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
