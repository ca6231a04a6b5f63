"""Frames that need no estimate: given by the user, by latitude and longitude, or by a mesh."""

from __future__ import annotations

import numpy as np
import torch

from ..arrays import Array, ArrayKind, finite, float_tensor
from ..errors import DeviceError, DTypeError, InvalidInputError, RankDeficientError, ShapeError
from .cloud import first_of
from .halfedges import vertex_normals

ORTHONORMALITY = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Largest error of the products of the columns of frames that are given in a precision."""


def check_frames(frames: Array, *, num_points: int, ambient_dim: int) -> torch.Tensor:
    """Frames ``(n, D, d)`` in float64; those of the wrong shape or without orthonormal columns are
    refused."""
    tensor, _ = float_tensor(frames, "frames")
    n, dims = num_points, ambient_dim
    if tensor.ndim != 3 or tensor.shape[:2] != (n, dims) or not 1 <= tensor.shape[2] <= dims:
        raise ShapeError(
            f"frames must have shape (n, D, d) = ({n}, {dims}, d) with d <= D, got "
            f"{tuple(tensor.shape)}."
        )
    finite(tensor, "frames")
    bases = tensor.detach().double()
    unit = torch.eye(bases.shape[2]).to(bases)
    errors = (bases.mT @ bases - unit).abs().amax(dim=(1, 2))
    tolerance = ORTHONORMALITY[tensor.dtype]
    worst = int(errors.argmax())
    if float(errors[worst]) > tolerance:
        raise RankDeficientError(
            f"frames must have orthonormal columns; {int((errors > tolerance).sum())} do not "
            f"(worst: point {worst}, off by {float(errors[worst]):.2g}). Use "
            "np.linalg.qr(frames)[0]."
        )
    return bases


def latlon_frames(lat: Array, lon: Array) -> tuple[np.ndarray, np.ndarray, ArrayKind]:
    """Points ``(n, 3)`` on the unit sphere and their (east, north) frames ``(n, 3, 2)``, from
    degrees."""
    latitude, kind = float_tensor(lat, "lat")
    longitude, other = float_tensor(lon, "lon")
    if kind.device != other.device:
        raise DeviceError(
            f"lat and lon must be on one device, got {kind.device} and {other.device}. Move one of "
            "them."
        )
    if kind != other:
        raise DTypeError(
            f"lat and lon must be of one kind, got {kind} and {other}. Convert one of them."
        )
    if latitude.ndim != 1 or latitude.shape != longitude.shape:
        raise ShapeError(
            f"lat and lon must be two lists of the same length, got {tuple(latitude.shape)} and "
            f"{tuple(longitude.shape)}. For a grid, use np.meshgrid and ravel."
        )
    phi = _in_radians(latitude, "lat")
    lam = _in_radians(longitude, "lon")
    if len(phi) and np.abs(phi).max() > np.pi / 2 + 1e-9:
        worst = float(np.degrees(phi[np.abs(phi).argmax()]))
        raise InvalidInputError(
            f"latitudes must lie in [-90, 90] degrees, got {worst:.6g}. Are lat and lon swapped?"
        )
    if len(lam) and np.abs(lam).max() > 4 * np.pi + 1e-9:
        raise InvalidInputError(
            f"longitudes must lie in [-720, 720] degrees, got {np.degrees(np.abs(lam).max()):.6g}."
        )
    zero = np.zeros_like(phi)
    points = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=1)
    east = np.stack([-np.sin(lam), np.cos(lam), zero], axis=1)
    north = np.stack([-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)], axis=1)
    return points, np.stack([east, north], axis=2), kind


def _in_radians(degrees: torch.Tensor, name: str) -> np.ndarray:
    return np.radians(finite(degrees, name).detach().cpu().double().numpy())


def mesh_frames(
    vertices: np.ndarray, faces: np.ndarray, order: np.ndarray | None = None
) -> np.ndarray:
    """Tangent bases ``(n, 3, 2)`` perpendicular to the area-weighted vertex normals of a triangle
    mesh.

    The triangles must be oriented alike where they meet; the bases are then oriented alike too.
    ``order`` (n,) holds the user's numbers of the vertices, for messages.
    """
    normals = vertex_normals(vertices, faces)
    length = np.linalg.norm(normals, axis=1)
    lost = np.flatnonzero(length <= 1e-12 * max(float(length.max(initial=0.0)), 1e-300))
    if len(lost):
        first = first_of(lost, order)[1]
        raise RankDeficientError(
            f"vertices without a normal, as their triangles have no area or cancel: {len(lost)} "
            f"(first: {first}).",
            "Remove them, or give frames.",
        )
    return normal_frames(normals)


def normal_frames(normals: Array) -> np.ndarray:
    """Tangent bases ``(n, 3, 2)`` perpendicular to normals ``(n, 3)`` of any length, oriented by
    them.

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
        raise RankDeficientError(
            f"normals without length: {len(lost)} (first: {lost[0]}). Remove these points."
        )
    normal = normal / length[:, None]
    helper = np.eye(3)[np.abs(normal).argmin(axis=1)]
    first = np.cross(normal, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return np.stack([first, np.cross(normal, first)], axis=2)
