r"""Parallel transport along shortest geodesics: the vector heat method.

From sources S with vectors v one implicit step each of three kinds of heat,

.. math:: (I - t\Delta)\, y = \sum_{s \in S} v_s \delta_s, \qquad
          (I - t\Delta_0)\, u = \sum_{s \in S} \delta_s, \qquad
          (I - t\Delta_0)\, m = \sum_{s \in S} |v_s| \delta_s,

gives the transported vector :math:`(m/u)\, y/|y|` (Sharp, Soliman and Crane, 2019, "The vector heat
method"). Heat comes by all ways, most of it by those that are next to the shortest. The mean of
turns in a plane is a turn and a factor; in more dimensions it shortens some directions more than
others, so that y has another direction than v transported. There frames are transported, the
vector as their first axis, and the closest orthonormal frame to their mean is taken.
"""

from __future__ import annotations

import numpy as np
import torch

from ..errors import AmbiguousTransportWarning, warn
from ..geometry.small_matrices import polar_factors
from ..geometry.transport import MIN_OVERLAP, closest_orthogonal
from .diffusion import Diffusion

MIN_COHERENCE = 0.3
"""Length of the mean of transports along the paths of heat below which they disagree: vectors that
come by two geodesics, at the cut locus, cancel."""


class Transport:
    """Fields from vectors at sources, and maps from one source to all points.

    Args:
        diffusion: the heat of vectors.
    """

    def __init__(self, diffusion: Diffusion) -> None:
        self.diffusion = diffusion
        self.orientation = diffusion.equation.orientation

    def vectors(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Fields ``(n, d, c)`` from vectors ``(s, d, c)`` at the sources."""
        if self.diffusion.bundle.dim <= 2:
            fields = self._directions_of_heat(rows, vectors)
        elif len(rows) == 1:
            fields = self.maps(rows, self.diffusion.of_sources(rows)) @ vectors[0]
        else:
            channels = np.moveaxis(vectors, 2, 0)
            axes = [self._first_axes_of_frames(rows, channel) for channel in channels]
            fields = np.stack(axes, axis=2)
        fields[rows] = vectors
        return fields

    def _directions_of_heat(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Fields ``(n, d, c)`` with the directions of the heat of vectors ``(s, d, c)``. The mean
        of turns in a plane is a turn, and a factor."""
        lengths = np.linalg.norm(vectors, axis=1)
        heat, heat_of_lengths = self._heat_of_lengths(rows, lengths)
        mixed = self.diffusion.of_vectors(rows, vectors)
        sizes = np.linalg.norm(mixed, axis=1)
        reached = (heat_of_lengths > 0) & (sizes > 0)
        coherence = np.divide(sizes, heat_of_lengths, where=reached, out=np.ones_like(sizes))
        self._warn_of_ambiguity(coherence[reached])
        factors = np.divide(heat_of_lengths, heat * sizes, where=reached, out=np.zeros_like(sizes))
        return factors[:, None] * mixed

    def _first_axes_of_frames(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The field ``(n, d)`` from vectors ``(s, d)``, as first axes of frames. The mean of turns
        in more dimensions turns vectors, but the closest frame to it is not turned."""
        lengths = np.linalg.norm(vectors, axis=1)
        heat, heat_of_lengths = self._heat_of_lengths(rows, lengths[:, None])
        at_sources = self._oriented(rows, frames_along(vectors))
        frames = self._frames(rows, at_sources, heat[:, 0])
        sizes = np.divide(heat_of_lengths, heat, where=heat > 0, out=np.zeros_like(heat))
        return sizes * frames[:, :, 0]

    def maps(self, rows: np.ndarray, heat: np.ndarray) -> np.ndarray:
        """Orthogonal maps ``(n, d, d)`` of coordinates at one source ``(1,)``, with its ``heat``
        (n,), to all points; zero where it is not connected."""
        dim = self.diffusion.bundle.dim
        if dim == 2 and self.orientation is not None:
            maps = self._turns(rows, self.orientation)
        else:
            at_source = self._oriented(rows, np.eye(dim)[None])
            maps = self._frames(rows, at_source, heat) @ at_source[0].T
        maps[rows] = np.eye(dim)
        return maps

    def _turns(self, rows: np.ndarray, orientation: np.ndarray) -> np.ndarray:
        """The maps ``(n, 2, 2)`` on surfaces with an ``orientation`` (n,): the first axis of the
        source, and the vector perpendicular to it on the same side."""
        first = self._directions_of_heat(rows, np.eye(2)[None, :, :1])[:, :, 0]
        senses = orientation * orientation[rows]
        second = senses[:, None] * np.stack([-first[:, 1], first[:, 0]], axis=1)
        return np.stack([first, second], axis=2)

    def _frames(self, rows: np.ndarray, at_sources: np.ndarray, heat: np.ndarray) -> np.ndarray:
        """Orthonormal frames ``(n, d, d)`` from those at the sources ``(s, d, d)``, whose ``heat``
        is (n,); zero where it does not arrive."""
        mixed = self.diffusion.of_vectors(rows, at_sources)
        reached = heat > 0
        means = mixed[reached] / heat[reached, None, None]
        sizes = np.linalg.norm(means, axis=(1, 2))
        self._warn_of_ambiguity(sizes / np.sqrt(means.shape[1]))
        frames = np.zeros(mixed.shape)
        if self.orientation is None:
            frames[reached] = closest_orthogonal(means)
        else:
            frames[reached] = closest_oriented(means, self.orientation[reached])
        return frames

    def _oriented(self, rows: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Orthonormal frames ``(s, d, d)`` at the sources, with the last axis turned round where
        that orients them like the space."""
        if self.orientation is None:
            return frames
        senses = self.orientation[rows] * np.linalg.det(frames)
        turned = frames.copy()
        turned[:, :, -1] *= np.sign(senses)[:, None]
        return turned

    def _heat_of_lengths(
        self, rows: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The heat ``(n, 1)`` of ones, and ``(n, c)`` of lengths ``(s, c)`` at the sources."""
        if len(rows) == 1:
            heat = self.diffusion.of_sources(rows)[:, None]
            return heat, heat * lengths
        columns = self.diffusion.of_amounts(rows, np.hstack([np.ones((len(rows), 1)), lengths]))
        return columns[:, :1], columns[:, 1:]

    def _warn_of_ambiguity(self, coherence: np.ndarray) -> None:
        """Warn of points that shortest geodesics reach by several ways."""
        ambiguous = int((coherence < MIN_COHERENCE).sum())
        if ambiguous:
            warn(
                f"to {ambiguous} of {len(coherence)} points several ways are about equally short, "
                "and transport along them disagrees: vectors there are uncertain. Add sources, or "
                "leave out the points that are farthest from the sources.",
                AmbiguousTransportWarning,
            )


def frames_along(vectors: np.ndarray) -> np.ndarray:
    """Orthonormal frames ``(s, d, d)`` whose first axes have the directions of vectors ``(s, d)``,
    by reflections.

    >>> frames_along(np.array([[0.0, 2.0]])).tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """
    dim = vectors.shape[1]
    first_axis = np.eye(dim)[0]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.tile(first_axis, (len(vectors), 1))
    np.divide(vectors, lengths, where=lengths > 0, out=units)
    mirrors = units - first_axis
    squares = (mirrors**2).sum(axis=1)
    factors = np.divide(2.0, squares, where=squares > 0, out=np.zeros_like(squares))
    return np.eye(dim) - factors[:, None, None] * mirrors[:, :, None] * mirrors[:, None, :]


def closest_oriented(means: np.ndarray, orientation: np.ndarray) -> np.ndarray:
    """The closest orthogonal matrices to ``(m, d, d)`` with singular values up to one, whose
    determinants have the signs ``orientation`` (m,).

    >>> closest_oriented(np.diag([1.0, -0.1])[None], np.array([1.0])).tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    closest = polar_factors(torch.from_numpy(means), MIN_OVERLAP)[0].numpy()
    is_reflected = np.linalg.det(closest) * orientation < 0
    left, _, right = np.linalg.svd(means[is_reflected])
    left[:, :, -1] *= -1.0
    closest[is_reflected] = left @ right
    return closest
