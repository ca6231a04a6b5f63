r"""Parallel transport, distance and logarithm along shortest geodesics, by heat.

Heat that reaches a point early has come by the shortest way, and a vector that diffuses with it has
been transported along that way (Varadhan, 1967; Sharp, Soliman and Crane, 2019, "The vector heat
method"). From sources S with vectors v one implicit step each of three kinds of heat,

.. math:: (I - t\Delta)\, y = \sum_{s \in S} v_s \delta_s, \qquad
          (I - t\Delta_0)\, u = \sum_{s \in S} \delta_s, \qquad
          (I - t\Delta_0)\, m = \sum_{s \in S} |v_s| \delta_s,

gives the transported vector :math:`(m/u)\, y/|y|`. Of the distance only the direction is taken from
heat: :math:`\varphi = -\sqrt t \log u` grows away from the sources, with the unit vectors
:math:`g = \nabla\varphi / |\nabla\varphi|` (Crane, Weischedel and Wardetzky, 2013). The distance r
is the function whose differences along the edges fit them best,

.. math:: \min_r \sum_{ij} w_{ij} \Big( r_j - r_i
          - \tfrac12 (g_i + O_{ij}\, g_j) \cdot y_{ij} \Big)^2, \qquad
          w_{ij} = \frac{\max(0,\, g_i \cdot O_{ij}\, g_j)^{16}}{|y_{ij}|^2} .

The weights leave out edges across the cut locus, where the directions at both ends disagree. No
distance is less than that in a straight line.

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
from scipy.sparse.linalg import cg
from scipy.spatial import cKDTree

from ..arrays import Array, finite, float_tensor, host, positive
from ..calculus import Derivatives
from ..errors import (
    AmbiguousTransportWarning,
    ConvergenceError,
    InvalidInputError,
    ShapeError,
    warn,
)
from ..geometry.stencils import Stencils, tangent_steps
from ..geometry.transport import closest_orthogonal
from .heat import HeatStep, factorise, heat_step, max_direct_size

if TYPE_CHECKING:
    from ..bundle import TangentBundle

SPACINGS = 4.0
"""The root of the short time, in mean lengths of the stencils' steps. From three to eight,
transports, distances and logarithms on spheres change by less than a third; below two, heat notices
the single points, and above eight it has gone other ways than the shortest."""

MAX_DECAY = 300.0
r"""Most lengths :math:`\sqrt t` from one end of a component to the other: heat falls off by a
factor of e in each, and numbers below :math:`e^{-700}` do not exist."""

MIN_COHERENCE = 0.3
"""Length of the mean of transports along the paths of heat below which they disagree: vectors that
come by two geodesics, at the cut locus, cancel."""

AGREEMENT_POWER = 16
"""Power of the cosine between directions at both ends of an edge in its weight: at 30 degrees, a
tenth."""

LEAST_AGREEMENT = 1e-3
"""Share of its weight that every edge keeps, so that no point is cut off."""

MIN_LENGTH = 0.01
"""Least length of an edge in its weight, in mean lengths: points may coincide."""

DISTANCE_TOLERANCE = 1e-8
"""Relative residual of the equations for distances."""


class GeodesicSolver:
    """Transport, distance, logarithm and nearest values on a bundle; factors are computed once.

    Make it with ``TangentBundle.geodesics()``. Arrays are in the user's order, and of the kind of
    the arguments, or of the points.

    Args:
        bundle: a tangent bundle of a cloud or a mesh.
        time: the short time t, a squared length. Default: four times the mean step between
            neighbours, squared.

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
            time = default_time(self.stencils)
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
        if len(rows) == 1:
            transported = self._maps_from(int(rows[0])) @ coordinates[0]
        else:
            transported = self._transport_from_several(rows, coordinates)
        ambient = np.einsum("nij,njc->nic", self._frames, transported)
        ambient = self._in_user_order(ambient)
        if tensor.ndim < 3:
            ambient = ambient[:, :, 0]
        return kind.wrap(ambient)

    def transport_maps(self, source: int) -> Array:
        r"""The orthogonal maps ``(n, d, d)`` that transport coordinates at one source to all
        points."""
        rows = self._rows(source, single=True)
        return self.bundle.kind.wrap(self._in_user_order(self._maps_from(int(rows[0]))))

    def distance(self, sources: Array) -> Array:
        """The distance to the nearest source ``(n,)``; infinite where none is connected.

        ``sources`` is the index of a point, or several ``(s,)``.
        """
        distances, _ = self._distances(self._rows(sources))
        return self.bundle.kind.wrap(self._in_user_order(distances))

    def log_map(self, source: int) -> Array:
        """Riemannian normal coordinates ``(n, d)`` about a point, in its tangent frame.

        A row is the vector at the source whose geodesic ends at the point: ``bundle.frames[source]
        @ row`` in ambient space. Points that are not connected to the source have infinite
        coordinates.
        """
        rows = self._rows(source, single=True)
        row = int(rows[0])
        distances, directions = self._distances(rows)
        maps = self._maps_from(row)
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
        heat = self._heat(rows, np.ones((len(rows), 1)))
        reached = heat[:, 0] > 0
        extended = np.empty_like(heat_of_values)
        extended[reached] = heat_of_values[reached] / heat[reached] + lowest
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
        return self._step.functions(initial)

    def _heat_of_vectors(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The heat ``(n, d, c)`` of vectors ``(s, d, c)`` at the sources."""
        initial = np.zeros((self.bundle.num_points, *vectors.shape[1:]))
        for row, vector in zip(rows, vectors, strict=True):
            neighbors, weights, maps = self._start(int(row))
            initial[neighbors] += weights[:, None, None] * (maps @ vector)
        return self._step.fields(initial)

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
    def _step(self) -> HeatStep:
        return heat_step(self.stencils, self.time)

    # Transport.

    def _maps_from(self, row: int) -> np.ndarray:
        """Orthogonal maps ``(n, d, d)`` of coordinates at a source to all points; zero where it is
        not connected."""
        rows = np.array([row])
        dim = self.bundle.dim
        heat = self._heat(rows, np.ones((1, 1)))[:, 0]
        mixed = self._heat_of_vectors(rows, np.eye(dim)[None])
        reached = heat > 0
        means = mixed[reached] / heat[reached, None, None]
        self._warn_of_ambiguity(np.linalg.norm(means, axis=(1, 2)) / np.sqrt(dim))
        maps = np.zeros(mixed.shape)
        maps[reached] = closest_orthogonal(means)
        return maps

    def _transport_from_several(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Fields ``(n, d, c)`` from vectors ``(s, d, c)``: direction and length apart."""
        lengths = np.linalg.norm(vectors, axis=1)
        heat = self._heat(rows, np.ones((len(rows), 1)))
        heat_of_lengths = self._heat(rows, lengths)
        mixed = self._heat_of_vectors(rows, vectors)
        sizes = np.linalg.norm(mixed, axis=1)
        reached = (heat_of_lengths > 0) & (sizes > 0)
        coherence = np.divide(sizes, heat_of_lengths, where=reached, out=np.ones_like(sizes))
        self._warn_of_ambiguity(coherence[reached])
        factors = np.divide(heat_of_lengths, heat * sizes, where=reached, out=np.zeros_like(sizes))
        return factors[:, None] * mixed

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

    def _distances(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances to the sources ``(n,)``, infinite where these are not connected, and their
        gradients ``(n, d)``."""
        heat = self._heat(rows, np.ones((len(rows), 1)))[:, 0]
        reached = heat > 0
        directions = self._directions(heat, reached)
        for row in rows:
            neighbors, steps, maps = self._neighbors_of(int(row))
            lengths = np.linalg.norm(steps, axis=1, keepdims=True)
            apart = lengths[:, 0] > 0
            outward = steps[apart] / lengths[apart]
            directions[neighbors[apart]] = np.einsum("kij,kj->ki", maps[apart], outward)
            directions[row] = 0.0
        points = host(self.bundle.cloud.points)
        straight, _ = cKDTree(points[rows]).query(points)  # no way is shorter
        distances = np.maximum(self._integrate(directions, rows, heat), straight)
        distances[~reached] = np.inf
        return distances, directions

    def _varadhan(self, heat: np.ndarray, reached: np.ndarray) -> np.ndarray:
        r"""The estimate :math:`-\sqrt t \log u` of the distance, up to a constant, ``(n,)``."""
        logarithms = np.zeros(len(heat))
        logarithms[reached] = -np.log(heat[reached])
        return np.sqrt(self.time) * logarithms

    def _directions(self, heat: np.ndarray, reached: np.ndarray) -> np.ndarray:
        """Unit vectors ``(n, d)`` along which heat falls off; zero where there is none."""
        values = torch.from_numpy(self._in_user_order(self._varadhan(heat, reached)))
        gradient = host(self._gradient.apply(values[:, None, None]))[:, :, 0]
        gradient = gradient[self._numbers]
        lengths = np.linalg.norm(gradient, axis=1, keepdims=True)
        usable = reached[:, None] & (lengths > 0)
        return np.divide(gradient, lengths, where=usable, out=np.zeros_like(gradient))

    def _integrate(self, directions: np.ndarray, rows: np.ndarray, heat: np.ndarray) -> np.ndarray:
        """The function ``(n,)`` that is zero at the sources and grows along unit vectors
        ``(n, d)``; within the region of each source by itself."""
        tails = self.stencils.rows.numpy()
        heads = self.stencils.columns.numpy()
        steps = self.stencils.steps.numpy()
        lengths = self.stencils.lengths.numpy()
        transported = np.einsum("eij,ej->ei", self.stencils.maps.numpy(), directions[heads])
        growth = 0.5 * ((directions[tails] + transported) * steps).sum(axis=1)
        cosines = (directions[tails] * transported).sum(axis=1)
        agreement = np.maximum(np.maximum(cosines, 0.0) ** AGREEMENT_POWER, LEAST_AGREEMENT)
        radii, nearest_rows = self._radii_around(rows)
        # next to a source distances are the lengths of steps from it
        is_near = np.isfinite(radii[tails]) & np.isfinite(radii[heads])
        growth[is_near] = radii[heads[is_near]] - radii[tails[is_near]]
        agreement[is_near] = 1.0
        regions = self._regions(heat, nearest_rows)
        is_within = regions[tails] == regions[heads]
        squares = np.maximum(lengths, MIN_LENGTH * lengths.mean()) ** 2
        is_free = heat > 0
        is_free[rows] = False
        distances = _potential(
            tails,
            heads,
            weights=np.where(is_within, agreement / squares, 0.0),
            growth=growth,
            is_free=is_free,
            dim=self.bundle.dim,
        )
        return np.maximum(distances, 0.0)

    def _regions(self, heat: np.ndarray, nearest_rows: np.ndarray) -> np.ndarray:
        """The source that the heat of each point comes from ``(n,)``: steps to the warmest
        neighbour end there. Next to sources it is given."""
        tails = self.stencils.rows.numpy()
        heads = self.stencils.columns.numpy()
        n = self.bundle.num_points
        by_heat = np.lexsort([heat[heads], tails])
        is_last = np.append(tails[by_heat][1:] != tails[by_heat][:-1], True)
        candidates = np.arange(n)
        candidates[tails[by_heat][is_last]] = heads[by_heat][is_last]
        warmest = np.where(heat[candidates] > heat, candidates, np.arange(n))
        is_known = nearest_rows >= 0
        warmest[is_known] = nearest_rows[is_known]
        while True:
            further = warmest[warmest]
            if (further == warmest).all():
                return warmest
            warmest = further

    def _radii_around(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The length of the shortest step from a source ``(n,)``, infinite beyond, and that source,
        -1 beyond."""
        radii = np.full(self.bundle.num_points, np.inf)
        nearest = np.full(self.bundle.num_points, -1)
        for row in rows:
            neighbors, steps, _ = self._neighbors_of(int(row))
            lengths = np.linalg.norm(steps, axis=1)
            is_nearer = lengths < radii[neighbors]
            radii[neighbors[is_nearer]] = lengths[is_nearer]
            nearest[neighbors[is_nearer]] = row
        radii[rows] = 0.0
        nearest[rows] = rows
        return radii, nearest

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


def _potential(
    tails: np.ndarray,
    heads: np.ndarray,
    *,
    weights: np.ndarray,
    growth: np.ndarray,
    is_free: np.ndarray,
    dim: int,
) -> np.ndarray:
    """The function ``(n,)`` whose differences along edges fit their ``growth`` best, zero at points
    that are not free."""
    n = len(is_free)
    one_way = sparse.coo_array((weights, (tails, heads)), shape=(n, n)).tocsr()
    both_ways = one_way + one_way.T
    degrees = np.asarray(both_ways.sum(axis=1)).ravel()
    gains = np.bincount(heads, weights * growth, minlength=n)
    losses = np.bincount(tails, weights * growth, minlength=n)
    matrix = (sparse.diags_array(degrees) - both_ways).tocsr()[is_free][:, is_free]
    right = (gains - losses)[is_free]
    potential = np.zeros(n)
    if n <= max_direct_size(dim):
        potential[is_free] = factorise(matrix).solve(right)
        return potential
    potential[is_free], status = cg(
        matrix,
        right,
        rtol=DISTANCE_TOLERANCE,
        maxiter=10 * n,
        M=sparse.diags_array(1.0 / degrees[is_free]),
    )
    if status != 0:
        raise ConvergenceError("distances did not converge. Give a larger time.")
    return potential


def default_time(stencils: Stencils) -> float:
    """The square of ``SPACINGS`` mean steps; longer where a component is so long that heat could
    not be represented at its other end."""
    spacing = float(stencils.lengths.mean())
    n = stencils.num_points
    edges = (stencils.lengths.numpy(), (stencils.rows.numpy(), stencils.columns.numpy()))
    graph = sparse.csr_array(edges, shape=(n, n))
    _, first_points = np.unique(_components(stencils), return_index=True)
    reach = csgraph.dijkstra(graph, directed=False, indices=first_points, min_only=True)
    diameter = 2.0 * float(reach.max())
    return max(SPACINGS * spacing, diameter / MAX_DECAY) ** 2


def _components(stencils: Stencils) -> np.ndarray:
    """Labels of the connected components, ``(n,)``."""
    n = stencils.num_points
    edges = (np.ones(len(stencils.rows)), (stencils.rows.numpy(), stencils.columns.numpy()))
    graph = sparse.csr_array(edges, shape=(n, n))
    return csgraph.connected_components(graph, directed=False)[1]
