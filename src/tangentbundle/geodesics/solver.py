r"""Parallel transport, distance and logarithm along shortest geodesics, by heat.

Heat that reaches a point early has come by the shortest way (Varadhan, 1967), and a vector that
diffuses with it has been transported along that way. From the question to the answer:

* ``diffusion``: heat from the sources after a short time, on the positive ``stencils`` of
  ``geometry``; ``heat`` and ``conditioned`` solve its equations;
* ``transport``: vectors from their heat;
* ``distance``: distances and their gradients from the heat of functions, by the ``front`` and the
  ``gradient`` along the manifold.

The logarithm of a point is the vector at the source whose geodesic ends there: as long as the
distance, in the direction of its gradient, transported back to the source.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..arrays import Array, finite, float_tensor, host, positive
from ..errors import InvalidInputError, ShapeError
from .diffusion import Diffusion, default_time
from .distance import Distance
from .transport import Transport

if TYPE_CHECKING:
    from ..bundle import TangentBundle


class GeodesicSolver:
    """Transport, distance, logarithm and nearest values on a bundle; factors are computed once.

    Make it with ``TangentBundle.geodesics()``. Arrays are in the user's order, and of the kind of
    the arguments, or of the points.

    Args:
        bundle: a tangent bundle of a cloud or a mesh.
        time: the short time t, a squared length. Default: the squared mean length of edges on a
            mesh, and four times that of steps between neighbours on a cloud. A longer time is
            better where points are noisy, a shorter one where the curvature changes quickly.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    >>> solver = tb.TangentBundle.from_points(points).geodesics()
    >>> distance = solver.distance(0)
    >>> exact = np.arccos(np.clip(points @ points[0], -1, 1))
    >>> bool(np.abs(distance - exact).max() < 0.05)
    True
    """

    def __init__(self, bundle: TangentBundle, *, time: float | None = None) -> None:
        if bundle.tangent_frames is None:
            raise InvalidInputError(
                "geodesics need tangent spaces: use the tangent bundle, not its scalar()."
            )
        self.bundle = bundle.detach()
        frames = bundle.tangent_frames.matrices.detach()
        stencils = bundle.weights.stencils(self.bundle, frames)
        if time is None:
            time = default_time(stencils, bundle.weights.heat_spacings)
        self.diffusion = Diffusion(self.bundle, frames, stencils, positive(time, "time"))

    # What is asked.

    def transport(self, sources: Array, vectors: Array) -> Array:
        r"""Parallel transport of vectors to all points, along the shortest geodesics from sources.

        Args:
            sources: the index of a point, or several ``(s,)``. A point gets the vector of the
                nearest source.
            vectors: one for each source, ``(D,)`` or ``(s, D)``, or of several channels
                ``(s, D, c)``; normal components are dropped.

        Returns:
            ``(n, D)`` or ``(n, D, c)``. Where no source is connected, vectors are zero.

        >>> import numpy as np, tangentbundle as tb
        >>> points = tb.manifolds.Sphere(2).sample(4000, seed=0)
        >>> north = points[points[:, 2] > 0.3]
        >>> bundle = tb.TangentBundle.from_points(north)
        >>> east = np.cross([0.0, 0.0, 1.0], north[5])
        >>> bundle.transport(5, east).shape == north.shape
        True
        """
        rows = self._rows(sources)
        tensor, kind = float_tensor(vectors, "vectors")
        coordinates = self._coordinates_at(rows, finite(tensor.detach(), "vectors").cpu().double())
        transported = self._transport.vectors(rows, coordinates)
        ambient = np.einsum("nij,njc->nic", self._frames, transported)
        ambient = self._in_user_order(ambient)
        if tensor.ndim < 3:
            ambient = ambient[:, :, 0]
        return kind.wrap(ambient)

    def transport_maps(self, source: int) -> Array:
        r"""The orthogonal maps ``(n, d, d)`` that transport coordinates at one source to all
        points."""
        rows = self._rows(source, single=True)
        maps = self._transport.maps(rows, self.diffusion.of_sources(rows))
        return self.bundle.kind.wrap(self._in_user_order(maps))

    def distance(self, sources: Array) -> Array:
        """The distance to the nearest source ``(n,)``; infinite where none is connected.

        ``sources`` is the index of a point, or several ``(s,)``.
        """
        rows = self._rows(sources)
        front = self._distance.front(rows, self.diffusion.of_sources(rows))
        distances = self._distance.lengths(rows, front)
        return self.bundle.kind.wrap(self._in_user_order(distances))

    def log_map(self, source: int) -> Array:
        """Riemannian normal coordinates ``(n, d)`` about a point, in its tangent frame.

        A row is the vector at the source whose geodesic ends at the point: ``bundle.frames[source]
        @ row`` in ambient space. Points that are not connected to the source have infinite
        coordinates.
        """
        rows = self._rows(source, single=True)
        return self.bundle.kind.wrap(self._in_user_order(self._logarithms(rows)))

    def _logarithms(self, rows: np.ndarray) -> np.ndarray:
        """The logarithms ``(n, d)`` at one source ``(1,)``; next to it, the steps."""
        heat = self.diffusion.of_sources(rows)
        front = self._distance.front(rows, heat)
        distances = self._distance.lengths(rows, front)
        directions = self._distance.directions(front)
        maps = self._transport.maps(rows, heat)
        at_source = np.einsum("nij,ni->nj", maps, directions)
        lengths = np.linalg.norm(at_source, axis=1, keepdims=True)
        at_source = np.divide(at_source, lengths, out=np.zeros_like(at_source), where=lengths > 0)
        reached = np.isfinite(distances)
        logarithms = np.full(at_source.shape, np.inf)
        logarithms[reached] = distances[reached, None] * at_source[reached]
        row = int(rows[0])
        neighbors, steps, _ = self.diffusion.neighbors_of(row)
        logarithms[row] = 0.0
        logarithms[neighbors] = steps
        return logarithms

    def extend(self, sources: Array, values: Array) -> Array:
        r"""Values ``(s,)`` or ``(s, c)`` at sources to all points: that of the nearest source, with
        smooth seams; ``(n,)`` or ``(n, c)``.

        They are means of the values, weighed by the heat that comes from each source, so they do
        not leave the range of the values. Where no source is connected they are those of the
        source that is nearest in space.
        """
        rows = self._rows(sources)
        tensor, kind = float_tensor(values, "values")
        numbers = finite(tensor.detach(), "values").cpu().double().numpy()
        if numbers.ndim not in (1, 2) or len(numbers) != len(rows):
            raise ShapeError(
                f"values must have shape (s,) or (s, c) with s = {len(rows)} sources, got "
                f"{numbers.shape}."
            )
        columns = numbers.reshape(len(rows), -1)
        # heat of values that are not negative is accurate at every point
        lowest = columns.min(axis=0)
        heat_of_values = self.diffusion.of_amounts(rows, columns - lowest)
        heat = self.diffusion.of_sources(rows)
        reached = heat > 0
        extended = np.empty_like(heat_of_values)
        extended[reached] = heat_of_values[reached] / heat[reached, None] + lowest
        if not reached.all():
            extended[~reached] = columns[self._nearest_in_space(rows, ~reached)]
        return kind.wrap(self._in_user_order(extended.reshape(-1, *numbers.shape[1:])))

    # Sources.

    def _rows(self, sources: Array, *, single: bool = False) -> np.ndarray:
        """The rows along the curve of points that the user numbers."""
        numbers = np.atleast_1d(host(sources, "sources"))
        n = self.bundle.num_points
        if numbers.ndim != 1 or len(numbers) == 0 or numbers.dtype.kind not in "iu":
            raise InvalidInputError(
                f"sources must be the index of a point, or several, got {sources!r}."
            )
        if single and len(numbers) != 1:
            raise InvalidInputError(f"one source is needed, got {len(numbers)}.")
        if numbers.min() < 0 or numbers.max() >= n:
            raise InvalidInputError(
                f"sources must be indices of the {n} points, 0 to {n - 1}, got "
                f"{numbers.min()} to {numbers.max()}."
            )
        if len(np.unique(numbers)) < len(numbers):
            raise InvalidInputError("sources must be different points; one is given twice.")
        return self._row_of_number[numbers]

    def _coordinates_at(self, rows: np.ndarray, vectors: torch.Tensor) -> np.ndarray:
        """Ambient vectors at the sources as coordinates ``(s, d, c)``."""
        ambient = vectors.numpy()
        if ambient.ndim == 1:
            ambient = ambient[None]
        if ambient.ndim == 2:
            ambient = ambient[:, :, None]
        if ambient.ndim != 3 or ambient.shape[:2] != (len(rows), self.bundle.ambient_dim):
            raise ShapeError(
                f"vectors must have shape (s, D) = ({len(rows)}, {self.bundle.ambient_dim}) or "
                f"(s, D, c), one for each source, got {tuple(vectors.shape)}."
            )
        return np.einsum("sij,sic->sjc", self._frames[rows], ambient)

    @cached_property
    def _transport(self) -> Transport:
        return Transport(self.diffusion)

    @cached_property
    def _distance(self) -> Distance:
        return Distance(self.diffusion)

    # What the bundle knows, on the host and along the curve.

    @cached_property
    def _frames(self) -> np.ndarray:
        return host(self.diffusion.frames)

    @cached_property
    def _numbers(self) -> np.ndarray:
        return host(self.bundle.cloud.curve_order)

    @cached_property
    def _row_of_number(self) -> np.ndarray:
        return np.argsort(self._numbers)

    def _nearest_in_space(self, rows: np.ndarray, which: np.ndarray) -> np.ndarray:
        """For some points, which of the sources is nearest in ambient space."""
        points = host(self.bundle.cloud.points)
        gaps = points[which][:, None] - points[rows][None]
        return np.linalg.norm(gaps, axis=2).argmin(axis=1)

    def _in_user_order(self, values: np.ndarray) -> np.ndarray:
        out = np.empty_like(values)
        out[self._numbers] = values
        return out
