"""Signals of a bundle: vectors in ambient space, and their coordinates in the tangent spaces."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .arrays import Array, ArrayKind, finite_where_seen, float_tensor
from .errors import InvalidInputError, ShapeError
from .geometry.cloud import PointCloud
from .geometry.frames import TangentFrames
from .parallel import threads_by_size


class BundleSignals:
    """What every bundle knows of its signals, from a ``cloud``, its ``tangent_frames`` (None for
    functions), the ``rank`` of the fibres and the ``kind`` of array that the points came in.

    Signals, and the arrays that are returned, are in the user's order.
    """

    cloud: PointCloud
    tangent_frames: TangentFrames | None
    kind: ArrayKind
    rank: Any

    @property
    def num_points(self) -> int:
        return len(self.cloud)

    @property
    def ambient_dim(self) -> int:
        return self.cloud.ambient_dim

    @property
    def points(self) -> Array:
        """The points ``(n, D)`` in the kind they came in."""
        return self.kind.wrap(self.cloud.in_user_order(self.cloud.points))

    @property
    def frames(self) -> Array:
        """Orthonormal tangent bases, ``(n, D, d)``, in the kind of the points."""
        return self.kind.wrap(self._user_frames().matrices)

    def _user_frames(self) -> TangentFrames:
        """The frames in the user's order."""
        if self.tangent_frames is None:
            raise InvalidInputError(
                "the scalar bundle has no frames: its signals are functions (n, 1, c) already."
            )
        return TangentFrames(self.cloud.in_user_order(self.tangent_frames.matrices))

    @threads_by_size
    def to_coordinates(self, vectors: Array) -> Array:
        r"""Ambient vectors to coordinates, :math:`f_i = O_i^T v_i`; the normal component is
        dropped.

        This is the paper's sampling operator: it turns a field into a signal (0-cochain) of the
        sheaf. ``(..., n, D)`` becomes ``(..., n, d, 1)``, and ``(..., n, D, c)`` becomes
        ``(..., n, d, c)``.
        """
        tensor, kind = float_tensor(vectors, "vectors")
        finite_where_seen(tensor, "vectors")
        n = self.num_points
        dims = self.ambient_dim
        if tensor.ndim == 2 or tensor.shape[-3:-1] != (n, dims):
            tensor = tensor[..., None]
        if tensor.ndim < 3 or tensor.shape[-3:-1] != (n, dims):
            raise ShapeError(
                f"vectors must have shape (..., n, D) = (..., {n}, {dims}) or (..., n, D, "
                f"channels), got {tuple(tensor.shape[:-1])}."
            )
        return kind.wrap(self._user_frames().to_coordinates(tensor))

    @threads_by_size
    def to_ambient(self, signal: Array) -> Array:
        r"""Coordinates to ambient vectors, :math:`v_i = O_i f_i`.

        ``(..., n, d, c)`` becomes ``(..., n, D, c)``; a single channel is dropped: ``(..., n, D)``.
        So ``to_ambient(to_coordinates(v))`` has the shape of v.
        """
        tensor, kind = float_tensor(signal, "signal")
        finite_where_seen(tensor, "signal")
        n = self.num_points
        d = self.rank
        if tensor.ndim < 3 or tensor.shape[-3:-1] != (n, d):
            raise ShapeError(
                f"signal must have shape (..., n, d, channels) = (..., {n}, {d}, c), got "
                f"{tuple(tensor.shape)}."
            )
        return kind.wrap(without_single_channel(self._user_frames().to_ambient(tensor)))


def without_single_channel(vectors: Tensor) -> Tensor:
    """Vectors ``(..., n, D, c)``; those of a single channel without the last axis."""
    if vectors.shape[-1] == 1:
        return vectors[..., 0]
    return vectors
