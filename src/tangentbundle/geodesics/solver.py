r"""Parallel transport, distance and logarithm along shortest geodesics, by heat.

Heat that reaches a point early has come by the shortest way, and a vector that diffuses with it has
been transported along that way (Varadhan, 1967; Sharp, Soliman and Crane, 2019, "The vector heat
method"). From sources S with vectors v one implicit step each of three kinds of heat,

.. math:: (I - t\Delta)\, y = \sum_{s \in S} v_s \delta_s, \qquad
          (I - t\Delta_0)\, u = \sum_{s \in S} \delta_s, \qquad
          (I - t\Delta_0)\, m = \sum_{s \in S} |v_s| \delta_s,

gives the transported vector :math:`(m/u)\, y/|y|`. Of the distance only the direction is taken from
heat: :math:`\varphi = -\sqrt t \log u` grows away from the sources, with the unit vectors
:math:`g = \nabla\varphi / |\nabla\varphi|` (Crane, Weischedel and Wardetzky, 2013). Along these
the distance is summed up, from warm points to cold ones (``front``). No distance is less than that
in a straight line.

The logarithm of a point is the vector at the source whose geodesic ends there: as long as the
distance, in the direction of g transported back to the source.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from ..arrays import Array, finite, float_tensor, host, positive
from ..calculus import Derivatives
from ..errors import (
    AmbiguousTransportWarning,
    InvalidInputError,
    ShapeError,
    warn,
)
from ..geometry.small_matrices import polar_factors
from ..geometry.stencils import Stencils, tangent_steps
from ..geometry.transport import MIN_OVERLAP, closest_orthogonal
from .conditioned import ConditionedFields, SweptFunctions
from .front import Front
from .heat import (
    DirectFieldsOnCurves,
    DirectFieldsOnSurfaces,
    DirectFunctions,
    FieldStep,
    FunctionStep,
    HeatEquation,
)

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MAX_DECAY = 300.0
r"""Most lengths :math:`\sqrt t` from one end of a component to the other: heat falls off by a
factor of e in each, and numbers below :math:`e^{-700}` do not exist."""

MIN_COHERENCE = 0.3
"""Length of the mean of transports along the paths of heat below which they disagree: vectors that
come by two geodesics, at the cut locus, cancel."""


BOUNDARY_WIDTH = 2.0
r"""Lengths :math:`\sqrt t` from a boundary in which it bends heat: heat that came from there has
fallen off by :math:`e^{-4}`."""


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
        self.frames = bundle.tangent_frames.matrices.detach()
        self.stencils = bundle.weights.stencils(self.bundle, self.frames)
        if time is None:
            time = default_time(self.stencils, bundle.weights.heat_spacings)
        self.time = positive(time, "time")

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
        transported = self._transport(rows, coordinates)
        ambient = np.einsum("nij,njc->nic", self._frames, transported)
        ambient = self._in_user_order(ambient)
        if tensor.ndim < 3:
            ambient = ambient[:, :, 0]
        return kind.wrap(ambient)

    def transport_maps(self, source: int) -> Array:
        r"""The orthogonal maps ``(n, d, d)`` that transport coordinates at one source to all
        points."""
        rows = self._rows(source, single=True)
        maps = self._maps_from(rows, self._heat_of_sources(rows))
        return self.bundle.kind.wrap(self._in_user_order(maps))

    def distance(self, sources: Array) -> Array:
        """The distance to the nearest source ``(n,)``; infinite where none is connected.

        ``sources`` is the index of a point, or several ``(s,)``.
        """
        rows = self._rows(sources)
        front = self._front(rows, self._heat_of_sources(rows))
        distances = self._at_least_straight(rows, front.distances)
        return self.bundle.kind.wrap(self._in_user_order(distances))

    def log_map(self, source: int) -> Array:
        """Riemannian normal coordinates ``(n, d)`` about a point, in its tangent frame.

        A row is the vector at the source whose geodesic ends at the point: ``bundle.frames[source]
        @ row`` in ambient space. Points that are not connected to the source have infinite
        coordinates.
        """
        rows = self._rows(source, single=True)
        row = int(rows[0])
        heat = self._heat_of_sources(rows)
        front = self._front(rows, heat)
        distances = self._at_least_straight(rows, front.distances)
        directions = self._gradient_of_distances(front)
        maps = self._maps_from(rows, heat)
        # transported back to the source
        at_source = np.einsum("nij,ni->nj", maps, directions)
        lengths = np.linalg.norm(at_source, axis=1, keepdims=True)
        at_source = np.divide(at_source, lengths, out=np.zeros_like(at_source), where=lengths > 0)
        reached = np.isfinite(distances)
        logarithms = np.full(at_source.shape, np.inf)
        logarithms[reached] = distances[reached, None] * at_source[reached]
        neighbors, steps, _ = self._neighbors_of(row)
        logarithms[row] = 0.0
        logarithms[neighbors] = steps
        return self.bundle.kind.wrap(self._in_user_order(logarithms))

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
        heat_of_values = self._heat(rows, columns - lowest)
        heat = self._heat_of_sources(rows)
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

    def _neighbors_of(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Neighbours of a source in the bundle's graph, the steps to them, and their transports
        from the source: ``(k,), (k, d), (k, d, d)``."""
        graph = self.bundle.sorted_graph
        edges = slice(int(graph.indptr[row]), int(graph.indptr[row + 1]))
        neighbors = host(graph.indices[edges]).astype(np.int64)
        points = self.bundle.cloud.points
        displacements = (points[neighbors] - points[row])[None]
        frame = self.frames[row][None]
        steps = host(tangent_steps(displacements, frame.double()))[0]
        maps = host(self.bundle.connection.blocks(edges)).swapaxes(1, 2)
        return neighbors, steps, maps

    # Heat.

    def _heat(self, rows: np.ndarray, amounts: np.ndarray) -> np.ndarray:
        """The heat ``(n, c)`` of amounts ``(s, c)`` at the sources, which are not negative."""
        initial = np.zeros((self.bundle.num_points, amounts.shape[1]))
        for row, amount in zip(rows, amounts, strict=True):
            neighbors, weights, _ = self._start(int(row))
            initial[neighbors] += weights[:, None] * amount
        return self._functions.solve(initial)

    def _heat_of_sources(self, rows: np.ndarray) -> np.ndarray:
        """The heat ``(n,)`` of sources that are equally warm."""
        return self._heat(rows, np.ones((len(rows), 1)))[:, 0]

    def _heat_of_vectors(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The heat ``(n, d, c)`` of vectors ``(s, d, c)`` at the sources."""
        initial = np.zeros((self.bundle.num_points, *vectors.shape[1:]))
        for row, vector in zip(rows, vectors, strict=True):
            neighbors, weights, maps = self._start(int(row))
            initial[neighbors] += weights[:, None, None] * (maps @ vector)
        return self._fields.solve(initial)

    def _start(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Heat at a source after a very short time: points, densities and transports.

        The source alone may be in no other point's stencil.
        """
        neighbors, steps, maps = self._neighbors_of(row)
        squares = (steps**2).sum(axis=1)
        points = np.append(neighbors, row)
        densities = np.append(np.exp(-4.0 * squares / self.time), 1.0)
        densities /= (densities * self._volumes[points]).sum()  # all sources are equally warm
        identity = np.eye(self.bundle.dim)[None]
        return points, densities, np.concatenate([maps, identity])

    @cached_property
    def _volumes(self) -> np.ndarray:
        """The volume of the manifold around each point, in mean volumes, ``(n,)``."""
        masses = host(self.bundle.sorted_masses())
        return masses / masses.mean()

    @cached_property
    def _equation(self) -> HeatEquation:
        return HeatEquation(self.stencils, self.time)

    @cached_property
    def _functions(self) -> FunctionStep:
        if self._equation.is_direct:
            return DirectFunctions(self._equation)
        return SweptFunctions(self._equation)

    @cached_property
    def _fields(self) -> FieldStep:
        equation = self._equation
        if equation.is_direct and equation.rank == 1:
            return DirectFieldsOnCurves(equation)
        if equation.is_direct and equation.rank == 2 and equation.orientation is not None:
            return DirectFieldsOnSurfaces(equation, equation.orientation)
        return ConditionedFields(equation, self._functions)

    # Transport.

    def _transport(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Fields ``(n, d, c)`` from vectors ``(s, d, c)`` at the sources."""
        if self.bundle.dim <= 2:
            return self._transport_directions(rows, vectors)
        if len(rows) == 1:
            return self._maps_from(rows, self._heat_of_sources(rows)) @ vectors[0]
        fields = [
            self._transport_in_frames(rows, channel) for channel in np.moveaxis(vectors, 2, 0)
        ]
        return np.stack(fields, axis=2)

    def _transport_directions(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Fields ``(n, d, c)`` with the directions of the heat of vectors ``(s, d, c)``. The mean
        of turns in a plane is a turn, and a factor."""
        lengths = np.linalg.norm(vectors, axis=1)
        heat, heat_of_lengths = self._heat_of_lengths(rows, lengths)
        mixed = self._heat_of_vectors(rows, vectors)
        sizes = np.linalg.norm(mixed, axis=1)
        reached = (heat_of_lengths > 0) & (sizes > 0)
        coherence = np.divide(sizes, heat_of_lengths, where=reached, out=np.ones_like(sizes))
        self._warn_of_ambiguity(coherence[reached])
        factors = np.divide(heat_of_lengths, heat * sizes, where=reached, out=np.zeros_like(sizes))
        return factors[:, None] * mixed

    def _transport_in_frames(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The field ``(n, d)`` from vectors ``(s, d)``, as first axes of frames. The mean of turns
        in more dimensions turns vectors, but the closest frame to it is not turned."""
        lengths = np.linalg.norm(vectors, axis=1)
        heat, heat_of_lengths = self._heat_of_lengths(rows, lengths[:, None])
        at_sources = self._oriented(rows, frames_along(vectors))
        frames = self._transport_frames(rows, at_sources, heat[:, 0])
        sizes = np.divide(heat_of_lengths, heat, where=heat > 0, out=np.zeros_like(heat))
        return sizes * frames[:, :, 0]

    def _maps_from(self, rows: np.ndarray, heat: np.ndarray) -> np.ndarray:
        """Orthogonal maps ``(n, d, d)`` of coordinates at one source ``(1,)``, with its ``heat``
        (n,), to all points; zero where it is not connected."""
        at_source = self._oriented(rows, np.eye(self.bundle.dim)[None])
        return self._transport_frames(rows, at_source, heat) @ at_source[0].T

    def _transport_frames(
        self, rows: np.ndarray, at_sources: np.ndarray, heat: np.ndarray
    ) -> np.ndarray:
        """Orthonormal frames ``(n, d, d)`` from those at the sources ``(s, d, d)``, whose ``heat``
        is (n,); zero where it does not arrive."""
        mixed = self._heat_of_vectors(rows, at_sources)
        reached = heat > 0
        means = mixed[reached] / heat[reached, None, None]
        self._warn_of_ambiguity(np.linalg.norm(means, axis=(1, 2)) / np.sqrt(self.bundle.dim))
        frames = np.zeros(mixed.shape)
        if self._equation.orientation is None:
            frames[reached] = closest_orthogonal(means)
        else:
            frames[reached] = closest_oriented(means, self._equation.orientation[reached])
        return frames

    def _oriented(self, rows: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Orthonormal frames ``(s, d, d)`` at the sources, with the last axis turned round where
        that orients them like the space."""
        if self._equation.orientation is None:
            return frames
        senses = self._equation.orientation[rows] * np.linalg.det(frames)
        turned = frames.copy()
        turned[:, :, -1] *= np.sign(senses)[:, None]
        return turned

    def _heat_of_lengths(
        self, rows: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The heat ``(n, 1)`` of ones, and ``(n, c)`` of lengths ``(s, c)`` at the sources."""
        if len(rows) == 1:
            heat = self._heat_of_sources(rows)[:, None]
            return heat, heat * lengths
        columns = self._heat(rows, np.hstack([np.ones((len(rows), 1)), lengths]))
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

    # Distance.

    def _front(self, rows: np.ndarray, heat: np.ndarray) -> Front:
        """Distances to the sources, infinite where their ``heat`` (n,) does not arrive."""
        is_reached = heat > 0
        logarithms = np.zeros(len(heat))
        logarithms[is_reached] = -np.log(heat[is_reached])
        directions = self._unit_gradient(logarithms, is_reached)
        around_sources = self._front_around(rows, directions)
        return around_sources.advance(self.stencils, heat, self._is_near_boundary)

    def _at_least_straight(self, rows: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """The ``distances`` (n,) to sources, or those in a straight line where these are longer."""
        points = host(self.bundle.cloud.points)
        straight, _ = cKDTree(points[rows]).query(points)
        return np.maximum(distances, straight)

    def _gradient_of_distances(self, front: Front) -> np.ndarray:
        """Unit vectors ``(n, d)`` along which distances grow. Fits at a boundary are one-sided:
        there they are those of the front."""
        distances = np.where(front.is_known, front.distances, 0.0)
        directions = self._unit_gradient(distances, front.is_known)
        directions[self._is_near_boundary] = front.directions[self._is_near_boundary]
        return directions

    def _unit_gradient(self, values: np.ndarray, is_known: np.ndarray) -> np.ndarray:
        """Directions ``(n, d)`` in which ``values`` (n,) grow; zero where they are not known, or
        do not grow."""
        signal = torch.from_numpy(self._in_user_order(values))[:, None, None]
        gradient = host(self._gradient.apply(signal))[:, :, 0]
        gradient = gradient[self._numbers]
        lengths = np.linalg.norm(gradient, axis=1, keepdims=True)
        usable = is_known[:, None] & (lengths > 0)
        return np.divide(gradient, lengths, where=usable, out=np.zeros_like(gradient))

    def _front_around(self, rows: np.ndarray, directions: np.ndarray) -> Front:
        """The front next to the sources, where distances are the lengths of steps from them;
        ``directions`` (n, d) elsewhere."""
        distances = np.full(self.bundle.num_points, np.inf)
        for row in rows:
            neighbors, steps, maps = self._neighbors_of(int(row))
            lengths = np.linalg.norm(steps, axis=1)
            is_nearer = (lengths < distances[neighbors]) & (lengths > 0)
            distances[neighbors] = np.minimum(distances[neighbors], lengths)
            outward = steps[is_nearer] / lengths[is_nearer, None]
            directions[neighbors[is_nearer]] = np.einsum("kij,kj->ki", maps[is_nearer], outward)
        distances[rows] = 0.0
        directions[rows] = 0.0
        return Front(distances, directions, np.isfinite(distances))

    @cached_property
    def _is_near_boundary(self) -> np.ndarray:
        """Whether heat is bent by a boundary at points ``(n,)``."""
        boundary = np.flatnonzero(self.stencils.drift.numpy())
        if len(boundary) == 0:
            return np.zeros(self.bundle.num_points, bool)
        width = BOUNDARY_WIDTH * self.time**0.5
        return np.isfinite(shortest_ways(self.stencils, boundary, width))

    # What the bundle knows, on the host and along the curve.

    @cached_property
    def _frames(self) -> np.ndarray:
        return host(self.frames)

    @cached_property
    def _numbers(self) -> np.ndarray:
        return host(self.bundle.cloud.curve_order)

    @cached_property
    def _row_of_number(self) -> np.ndarray:
        return np.argsort(self._numbers)

    @cached_property
    def _gradient(self):
        return Derivatives(self.bundle, degree=2).gradient().to("cpu", torch.float64)

    def _nearest_in_space(self, rows: np.ndarray, which: np.ndarray) -> np.ndarray:
        """For some points, which of the sources is nearest in ambient space."""
        points = host(self.bundle.cloud.points)
        gaps = points[which][:, None] - points[rows][None]
        return np.linalg.norm(gaps, axis=2).argmin(axis=1)

    def _in_user_order(self, values: np.ndarray) -> np.ndarray:
        out = np.empty_like(values)
        out[self._numbers] = values
        return out


def frames_along(vectors: np.ndarray) -> np.ndarray:
    """Orthonormal frames ``(s, d, d)`` whose first axes have the directions of vectors ``(s, d)``,
    by reflections.

    >>> frames_along(np.array([[0.0, 2.0]])).tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """
    dim = vectors.shape[1]
    first_axis = np.eye(dim)[0]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.divide(
        vectors, lengths, where=lengths > 0, out=np.tile(first_axis, (len(vectors), 1))
    )
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


def default_time(stencils: Stencils, spacings: float) -> float:
    """The square of so many mean steps; longer where a component is so long that heat could
    not be represented at its other end."""
    spacing = float(stencils.lengths.mean())
    _, first_points = np.unique(_components(stencils), return_index=True)
    diameter = 2.0 * float(shortest_ways(stencils, first_points).max())
    return max(spacings * spacing, diameter / MAX_DECAY) ** 2


def shortest_ways(stencils: Stencils, sources: np.ndarray, limit: float = np.inf) -> np.ndarray:
    """Lengths ``(n,)`` of the shortest ways along edges from the nearest source; infinite beyond
    the ``limit``."""
    return csgraph.dijkstra(
        _edges(stencils), directed=False, indices=sources, min_only=True, limit=limit
    )


def _components(stencils: Stencils) -> np.ndarray:
    """Labels of the connected components, ``(n,)``."""
    return csgraph.connected_components(_edges(stencils), directed=False)[1]


def _edges(stencils: Stencils) -> sparse.csr_array:
    """The lengths of the edges as a matrix ``(n, n)``."""
    n = stencils.num_points
    edges = (stencils.lengths.numpy(), (stencils.rows.numpy(), stencils.columns.numpy()))
    return sparse.csr_array(edges, shape=(n, n))
