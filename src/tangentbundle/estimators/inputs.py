"""Points and vectors as people give them: checked, as arrays, and the kind that answers have."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ..arrays import ArrayKind, finite, float_tensor, outside_functional_transform
from ..errors import (
    DeviceError,
    InvalidInputError,
    NotTangentWarning,
    ShapeError,
    SuspiciousDataWarning,
    TooFewPointsError,
    warn,
)


def of_kind(values: Any, name: str = "the input", alternative: str = "") -> tuple[Any, ArrayKind]:
    """Tensors as arrays, all else as it is, and the kind that answers have.

    ``alternative`` says what computes on other devices.
    """
    if isinstance(values, torch.Tensor):
        tensor, kind = float_tensor(values, name)
        outside_functional_transform(tensor, name)
        if kind.device.type != "cpu":
            raise DeviceError(
                f"expected {name} on the CPU, where this model computes, got a tensor on "
                f"{kind.device}. Move all inputs there, x.cpu(){alternative}."
            )
        return tensor.detach().cpu().numpy(), kind
    # tables have one dtype for each column
    dtypes: Any = getattr(values, "dtypes", getattr(values, "dtype", None))
    dtype = torch.float64
    if all(column == np.float32 for column in np.atleast_1d(dtypes)):
        dtype = torch.float32
    return values, ArrayKind(False, dtype, torch.device("cpu"))


def validated(
    estimator: BaseEstimator, X: Any, y: Any, alternative: str
) -> tuple[np.ndarray, np.ndarray]:
    """Points and vectors ``(n, D)`` as arrays, or a named error."""
    for name, values in (("points", X), ("vectors", y)):
        if isinstance(values, torch.Tensor):
            outside_functional_transform(values, name)
    X = of_kind(X, "points", alternative)[0]
    y = of_kind(y, "vectors", alternative)[0]
    if y is None:
        raise InvalidInputError(
            "requires y to be passed, but the target y is None: give vectors (n, D)."
        )
    floats = {"dtype": np.float64, "ensure_all_finite": False}
    X, y = validate_data(
        estimator, X, y, validate_separately=(floats, floats | {"ensure_2d": False})
    )
    if len(X) != len(y):
        raise ShapeError(f"points and vectors must be equally many, got {len(X)} and {len(y)}.")
    if y.shape != X.shape:
        raise ShapeError(
            f"vectors must be ambient, one (D,) for each point: y of shape {X.shape}, got "
            f"{y.shape}. Turn components of another frame (zonal and meridional wind) into "
            "ambient vectors first."
        )
    if len(X) < 3:
        raise TooFewPointsError(
            f"a field needs at least 3 points, got {len(X)} sample(s) (n_samples={len(X)})."
        )
    for name, values in (("points", X), ("vectors", y)):
        finite(float_tensor(values, name)[0], name)
        if float(np.abs(values).max()) < 1e-150 and values.any():
            raise _out_of_range(name, values)
        check_size(name, values)
    _warn_of_outliers(X)
    _warn_of_copies(X, y)
    return X, y


def check_size(name: str, values: np.ndarray) -> None:
    """Refuse values whose squares are infinite."""
    if values.size and float(np.abs(values).max()) >= 1e150:
        raise _out_of_range(name, values)


def _out_of_range(name: str, values: np.ndarray) -> InvalidInputError:
    size = float(np.abs(values).max())
    return InvalidInputError(
        f"{name} are of size {size:.3g}, whose square is out of range. Rescale them."
    )


def _warn_of_copies(X: np.ndarray, y: np.ndarray) -> None:
    """Warn of rows that come twice: models are compared by vectors that are left out, and a copy
    says what was left out."""
    if not y.any():
        return
    first = np.unique(np.concatenate([X, y], axis=1), axis=0, return_index=True)[1]
    copies = np.setdiff1d(np.arange(len(X)), first)
    if len(copies):
        warn(
            f"{len(copies)} of {len(X)} rows repeat the point and the vector of another row "
            f"(such as {copies[0]}, counted from 0). Copies say nothing new, and the noise and "
            "standard deviations come out too small. Remove them.",
            SuspiciousDataWarning,
            point=copies[0],
        )


def _warn_of_outliers(X: np.ndarray, ratio: float = 100.0) -> None:
    """Warn of points that lie so many times further from the median point than half of them."""
    distances = np.linalg.norm(X - np.median(X, axis=0), axis=1)
    far = np.flatnonzero(distances > ratio * np.median(distances))
    if len(far) and np.median(distances) > 0:
        warn(
            f"{len(far)} of {len(X)} points (first: {far[0]}, counted from 0) lie more than "
            f"{ratio:.0f} times as far from the centre as half of the points do, and determine "
            "the scale of the fit. Remove them, or check the units.",
            SuspiciousDataWarning,
            point=far[0],
        )


def check_tangent(y: np.ndarray, coordinates: np.ndarray, weights: np.ndarray) -> float:
    """The share of the energy of vectors ``(n, D)`` off the tangent spaces, with weights ``(n,)``;
    refused if nothing else is left."""
    total = float(weights @ np.square(y).sum(axis=1))
    share = 0.0
    if total > 0:
        share = 1.0 - float(weights @ np.square(coordinates).sum(axis=1)) / total
    dim = coordinates.shape[-1]
    ambient_dim = y.shape[-1]
    if share > 1 - 0.02 * dim / ambient_dim:
        raise InvalidInputError(
            f"{share:.1%} of the vectors' energy is normal to the tangent spaces: there is no "
            "tangent field to learn. Are they ambient vectors, in the order of the points?"
        )
    if share > 1 - 0.5 * dim / ambient_dim:
        warn(
            f"{share:.0%} of the vectors' energy is normal to the tangent spaces. Are they ambient "
            "vectors, in the order of the points? Is the dimension right?",
            NotTangentWarning,
        )
    return share
