"""Frames that need no estimate: given by the user, by latitude and longitude, or by a mesh."""

from __future__ import annotations

import numpy as np
import torch

from ..arrays import Array, ArrayKind, finite, float_tensor
from ..errors import DTypeError, InvalidInputError, RankDeficientError, ShapeError


def check_frames(frames: Array, points: np.ndarray) -> np.ndarray:
    """Refuse frames of the wrong shape or without orthonormal columns; returns ``(n, D, d)`` float64."""
    tensor, _ = float_tensor(frames, "frames")
    n, dims = points.shape
    if tensor.ndim != 3 or tensor.shape[:2] != (n, dims) or not 1 <= tensor.shape[2] <= dims:
        raise ShapeError(f"frames must have shape (n, D, d) = ({n}, {dims}, d) with d <= D, got {tuple(tensor.shape)}.")
    finite(tensor, "frames")
    loose = 1e-8 if tensor.dtype == torch.float64 else 1e-4
    bases = tensor.detach().cpu().double().numpy()
    error = np.abs(bases.transpose(0, 2, 1) @ bases - np.eye(bases.shape[2])).max(axis=(1, 2))
    if error.max() > loose:
        raise RankDeficientError(
            f"frames must have orthonormal columns; {int((error > loose).sum())} do not (worst: point "
            f"{int(error.argmax())}, off by {error.max():.2g}). Use np.linalg.qr(frames)[0]."
        )
    return bases


def latlon_frames(lat: Array, lon: Array) -> tuple[np.ndarray, np.ndarray, ArrayKind]:
    """Points ``(n, 3)`` on the unit sphere and their (east, north) frames ``(n, 3, 2)``, from degrees."""
    (latitude, kind), (longitude, other) = float_tensor(lat, "lat"), float_tensor(lon, "lon")
    if kind != other:
        raise DTypeError(f"lat and lon must be of one kind, got {kind} and {other}. Convert one of them.")
    if latitude.ndim != 1 or latitude.shape != longitude.shape:
        raise ShapeError(
            f"lat and lon must be two lists of the same length, got {tuple(latitude.shape)} and "
            f"{tuple(longitude.shape)}. For a grid, use np.meshgrid and ravel."
        )
    finite(latitude, "lat"), finite(longitude, "lon")
    phi, lam = (np.radians(t.detach().cpu().double().numpy()) for t in (latitude, longitude))
    if len(phi) and np.abs(phi).max() > np.pi / 2 + 1e-9:
        worst = float(np.degrees(phi[np.abs(phi).argmax()]))
        raise InvalidInputError(f"latitudes must lie in [-90, 90] degrees, got {worst:.6g}. Are lat and lon swapped?")
    if len(lam) and np.abs(lam).max() > 4 * np.pi + 1e-9:
        raise InvalidInputError(f"longitudes must lie in [-720, 720] degrees, got {np.degrees(np.abs(lam).max()):.6g}.")
    zero = np.zeros_like(phi)
    points = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=1)
    east = np.stack([-np.sin(lam), np.cos(lam), zero], axis=1)
    north = np.stack([-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)], axis=1)
    return points, np.stack([east, north], axis=2), kind


def mesh_frames(vertices: np.ndarray, faces: Array) -> np.ndarray:
    """Tangent bases ``(n, 3, 2)`` perpendicular to the area-weighted vertex normals of a triangle mesh.

    The triangles must be oriented alike where they meet, as mesh files are; the bases are then oriented alike too.
    """
    if vertices.shape[1] != 3:
        raise ShapeError(f"vertices must have shape (n, 3), got {vertices.shape}.")
    try:
        triangles = np.asarray(faces)
    except ValueError as error:
        raise ShapeError("faces must all have three corners. Split polygons into triangles first.") from error
    if triangles.ndim != 2 or triangles.shape[1] != 3 or triangles.dtype.kind not in "iu":
        raise ShapeError(
            f"faces must be an integer array of shape (f, 3), got {triangles.dtype} of shape "
            f"{triangles.shape}. Split polygons into triangles first."
        )
    n = len(vertices)
    if triangles.size and (triangles.min() < 0 or triangles.max() >= n):
        raise InvalidInputError(
            f"faces name vertices {triangles.min()} to {triangles.max()}, but there are {n} (0 to "
            f"{n - 1}). Some formats count from one: subtract it."
        )
    corners = vertices[triangles]
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal = np.zeros_like(vertices)
    for corner in range(3):
        np.add.at(normal, triangles[:, corner], area)
    length = np.linalg.norm(normal, axis=1)
    lost = np.flatnonzero(length <= 1e-12 * max(float(length.max(initial=0.0)), 1e-300))
    if len(lost):
        raise RankDeficientError(
            f"{len(lost)} vertices (first: {lost[0]}) have no normal: they belong to no triangle, or "
            "their triangles cancel. Remove them, or make the triangles' orientations agree."
        )
    return normal_frames(normal)


def normal_frames(normals: Array) -> np.ndarray:
    """Tangent bases ``(n, 3, 2)`` perpendicular to normals ``(n, 3)`` of any length, oriented by them.

    >>> normal_frames(np.array([[0.0, 0.0, 2.0]])).shape
    (1, 3, 2)
    """
    tensor, _ = float_tensor(normals, "normals")
    if tensor.ndim != 2 or tensor.shape[1] != 3:
        raise ShapeError(f"normals must have shape (n, 3), got {tuple(tensor.shape)}.")
    normal = finite(tensor, "normals").detach().cpu().double().numpy()
    length = np.linalg.norm(normal, axis=1)
    lost = np.flatnonzero(length == 0)
    if len(lost):
        raise RankDeficientError(f"{len(lost)} normals (first: {lost[0]}) have no length. Remove these points.")
    normal = normal / length[:, None]
    helper = np.eye(3)[np.abs(normal).argmin(axis=1)]
    first = np.cross(normal, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return np.stack([first, np.cross(normal, first)], axis=2)
