"""The tangent bundle of a cloud of points: graph, frames and transport, signals and operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .arrays import Array, ArrayKind, points_tensor, positive, positive_integer
from .batch import laplacians_of_clouds
from .calculus import Curvature, Derivatives, LinearMap, curvature, hodge_laplacian
from .diagnostics import Diagnosis, diagnose
from .edge_weights import EdgeWeights, KernelWeights, MeshWeights, TuftedWeights
from .errors import InvalidInputError
from .geodesics import GeodesicSolver
from .geometry.cloud import PointCloud
from .geometry.dimension import DimensionRule, resolve_dimension
from .geometry.frames import EstimatedFrames, PCASettings, TangentFrames, estimate_frames
from .geometry.graph import NeighborGraph
from .geometry.halfedges import check_faces, check_soup
from .geometry.holonomy import warn_of_holonomy
from .geometry.kernels import Kernel, check_kernel
from .geometry.known_frames import check_frames, latlon_frames
from .geometry.locality import warn_of_scale
from .geometry.mesh import intrinsic_mesh
from .geometry.scale import scale_from
from .geometry.transport import Connection, connect, connect_with_gradients
from .geometry.tufted import tufted_mesh
from .manifolds import Sphere
from .meshes import read_mesh
from .meshes.triangles import warn_of_seams
from .operators import Calibration, Joined, Laplacian, Normalization
from .parallel import threads_by_size
from .sheaf import Sheaf
from .signals import BundleSignals
from .transforms import outside_transforms

SecondForm = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The exact second fundamental form: points ``(n, D)``, tangent vectors ``(n, D, m)`` to
``(n, D, m, m)``."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TangentBundle(BundleSignals):
    r"""A discrete tangent bundle (an orthogonal cellular sheaf) over sampled points.

    Build one with ``from_points``, ``from_latlon``, ``from_frames`` or ``from_mesh``; ``scalar()``
    is the trivial line bundle over the same points. Points are sorted internally along a
    space-filling curve; inputs and outputs are in the user's order.

    Points with gradients make a bundle whose ``frames``, and whose Laplacians with their frames,
    have gradients, too. The neighbours, the scales and the calibration are those of the points as
    they are, and constant; weights, frames and transports are functions of the points.

    Attributes, all along the curve: ``cloud``, the points; ``sorted_graph``, who is near whom;
    ``connection``, the transport along edges; ``weights`` of the edges; ``tangent_frames`` (None
    for functions). ``dim`` is the dimension d of the manifold, ``kind`` says which arrays the
    points came in, ``second_form`` is the exact curvature, where it is known, and ``fixed`` is the
    bundle without gradients, where the points have some.

    >>> import tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(500, seed=0)
    >>> bundle = tb.TangentBundle.from_points(points)
    >>> bundle.dim, bundle.rank
    (2, 2)
    >>> x = bundle.to_coordinates(np.ones((500, 3)))
    >>> x.shape, bundle.to_ambient(x).shape, (bundle.laplacian() @ x).shape
    ((500, 2, 1), (500, 3), (500, 2, 1))

    How much a field varies, and how this changes as the points move:

    >>> points = torch.from_numpy(points).requires_grad_()
    >>> moving = tb.TangentBundle.from_points(points)
    >>> lap, x = moving.laplacian(), moving.to_coordinates(torch.ones(500, 3).double())
    >>> lap.inner(x, lap @ x).sum().backward()
    >>> points.grad.shape
    torch.Size([500, 3])
    """

    cloud: PointCloud
    sorted_graph: NeighborGraph
    connection: Connection
    weights: EdgeWeights
    dim: int
    kind: ArrayKind
    tangent_frames: TangentFrames | None = None
    second_form: SecondForm | None = None
    fixed: TangentBundle | None = None

    # Constructors.

    @classmethod
    @threads_by_size
    def from_points(
        cls,
        points: Array,
        *,
        dim: int | DimensionRule | None = None,
        eps: float | None = None,
        neighbors: int | None = None,
        eps_pca: float | None = None,
        pca_center: bool = True,
        kernel: Kernel | None = None,
        max_memory: float | None = None,
    ) -> TangentBundle:
        r"""Estimate the bundle of a manifold from points ``(n, D)`` alone.

        Each column of a frame is a principal axis with its entry of largest magnitude positive; of
        entries within 0.1 % of the largest, the first one counts. ``nn.SumReadout`` and
        coordinatewise functions that are not odd depend on this convention of signs; filters do
        not.

        Args:
            dim: intrinsic dimension d, or a rule to estimate it (default ``WidestGap()``).
            eps: squared radius of the neighbourhoods, as in the paper. Default: chosen for an
                accurate spectrum and a connected graph (``tangentbundle.geometry.scale``).
            neighbors: instead of eps, the neighbours of the median point.
            eps_pca: squared radius of the local PCA, which must determine a tangent space at every
                point. Default: half the neighbours of ``eps``, and the nearest points where these
                are too few.
            pca_center: whether local PCA subtracts the weighted mean of each neighbourhood.
                ``False`` uses the displacements from the point itself, as Algorithm 1 of the paper
                does.
            kernel: radial weight, default ``Gaussian()``.
            max_memory: bytes the graph may need; default 80 % of what is free.
        """
        scale = scale_from(eps, neighbors)
        settings = PCASettings(eps_pca, pca_center)
        memory = _memory_limit(max_memory)
        kernel = check_kernel(kernel)
        values, kind = points_tensor(points, "points")
        cloud = PointCloud.from_tensor(values)
        cloud.warn_of_duplicates()
        dim, local_dimensions = resolve_dimension(cloud, dim, settings.eps_pca)
        graph, eps = scale.ball_graph(cloud, dim, max_memory=memory)
        frames = estimate_frames(
            cloud,
            graph,
            eps=eps,
            dim=dim,
            settings=settings,
            max_memory=memory,
            local_dimensions=local_dimensions,
        )
        warn_of_scale(graph)
        frames.warn_of_noise(graph)
        connection = connect(frames.matrices, graph, kind.dtype, cloud.curve_order)
        if scale.is_automatic:
            warn_of_holonomy(cloud, frames.matrices, graph, eps**0.5)
        bundle = cls(
            cloud=cloud,
            sorted_graph=graph,
            connection=connection,
            weights=KernelWeights(kernel, eps),
            dim=dim,
            kind=kind,
            tangent_frames=frames,
        )
        if isinstance(points, Tensor) and points.requires_grad and torch.is_grad_enabled():
            return bundle.moved(points)
        return bundle

    @classmethod
    @threads_by_size
    def from_batch(
        cls,
        points: Array,
        batch: Array,
        *,
        dim: int | DimensionRule | None = None,
        eps: float | None = None,
        neighbors: int | None = None,
        eps_pca: float | None = None,
        pca_center: bool = True,
        kernel: Kernel | None = None,
        max_memory: float | None = None,
    ) -> Joined:
        r"""The Laplacians of many clouds at once, joined; nothing flows between the clouds.

        Points ``(n, D)`` of all clouds follow each other, and ``batch`` (n,) holds the sorted
        number of each point's cloud, as in PyTorch Geometric. All clouds are built at once, which
        is fast for clouds of up to about a thousand points. The result is that of ``join`` on the
        Laplacians of ``from_points``, except that an automatic number of neighbours is not adapted
        to curvature and connectedness, and that ``eps_pca`` needs ``eps``. By default ``dim`` is
        estimated from the largest cloud. Coordinates and ambient vectors are exchanged by the
        operator's ``frames``. The other arguments are those of ``from_points``.

        >>> import tangentbundle as tb
        >>> clouds = [tb.manifolds.Sphere(2).sample(n, seed=n) for n in (80, 120)]
        >>> both = tb.TangentBundle.from_batch(
        ...     np.concatenate(clouds), np.repeat([0, 1], [80, 120]), neighbors=15
        ... )
        >>> both.sizes, both.frames.shape
        ((80, 120), torch.Size([200, 3, 2]))
        """
        return laplacians_of_clouds(
            points,
            batch,
            dim=dim,
            scale=scale_from(eps, neighbors),
            settings=PCASettings(eps_pca, pca_center),
            kernel=check_kernel(kernel),
            max_memory=_memory_limit(max_memory),
        )

    @classmethod
    @threads_by_size
    def from_frames(
        cls,
        points: Array,
        frames: Array,
        *,
        second_form: SecondForm | None = None,
        eps: float | None = None,
        neighbors: int | None = None,
        kernel: Kernel | None = None,
        max_memory: float | None = None,
    ) -> TangentBundle:
        """A bundle with known tangent bases ``(n, D, d)``, orthonormal columns.

        ``second_form``, such as ``Torus().second_form``, gives exact curvature to ``curvature()``
        and ``hodge()``, which otherwise estimate it. The other arguments are those of
        ``from_points``. Frames that are given have no gradients in the points.
        """
        scale = scale_from(eps, neighbors)
        memory = _memory_limit(max_memory)
        kernel = check_kernel(kernel)
        values, kind = points_tensor(points, "points")
        cloud = PointCloud.from_tensor(values)
        bases = check_frames(frames, num_points=len(cloud), ambient_dim=cloud.ambient_dim)
        matrices = bases.to(cloud.device)[cloud.curve_order].contiguous()
        dim = matrices.shape[2]
        cloud.warn_of_duplicates()
        graph, eps = scale.ball_graph(cloud, dim, max_memory=memory)
        warn_of_scale(graph)
        return cls(
            cloud=cloud,
            sorted_graph=graph,
            connection=connect(matrices, graph, kind.dtype, cloud.curve_order),
            weights=KernelWeights(kernel, eps),
            dim=dim,
            kind=kind,
            tangent_frames=TangentFrames(matrices),
            second_form=second_form,
        )

    @classmethod
    @threads_by_size
    def from_latlon(
        cls, lat: Array, lon: Array, *, radius: float = 1.0, **options: Any
    ) -> TangentBundle:
        r"""Points on a sphere from latitude and longitude ``(n,)`` in degrees.

        ``radius`` is the unit of all lengths: with that of the Earth in metres, ``earth.RADIUS``,
        divergence and vorticity of winds in m/s are in 1/s.

        The frames are exactly (east, north), so coordinates are zonal and meridional components. On
        a sphere the closest orthogonal map between exact frames *is* parallel transport along the
        great circle for points less than 90 degrees apart. ``options`` are those of
        ``from_frames``.

        >>> import tangentbundle as tb
        >>> rng = np.random.default_rng(0)
        >>> lat, lon = np.degrees(np.arcsin(rng.uniform(-1, 1, 300))), rng.uniform(0, 360, 300)
        >>> bundle = tb.TangentBundle.from_latlon(lat, lon)
        >>> east = bundle.to_ambient(np.tile([[[1.0], [0.0]]], (300, 1, 1)))
        >>> bool(np.allclose(east[:, 2], 0.0))  # east has no vertical part
        True
        """
        points, frames, kind = latlon_frames(lat, lon)
        sphere = Sphere(2, positive(radius, "radius"))
        return cls.from_frames(
            kind.wrap(radius * points), frames, second_form=sphere.second_form, **options
        )

    @classmethod
    @threads_by_size
    def from_mesh(
        cls, mesh: Any, faces: Any = None, *, frames: Array | None = None
    ) -> TangentBundle:
        r"""The bundle of a triangle mesh: vertices ``(n, 3)``, triangles ``(f, 3)`` of vertex
        numbers; or a mesh of trimesh, PyVista, meshio or Open3D, or a file. ``meshes.read_mesh``
        says what is read; polygons are split into triangles.

        Its Laplacian is that of the surface the triangles form, :math:`\Delta = A^{-1}(S - D)` with
        cotangent weights of the intrinsic Delaunay triangulation, transport by tangent angles, and
        vertex areas A as mass. There is no kernel; ``eps`` is the mean squared edge length.
        Triangles that run the other way are turned over. Edges with more than two triangles,
        surfaces that are not orientable and vertices without triangles are refused:
        ``meshes.cut_sheets`` cuts a mesh where it is no surface, and functions need no surface, see
        ``scalar_from_mesh``.

        ``frames`` are tangent bases ``(n, 3, 2)``, by default perpendicular to the area-weighted
        normals.

        >>> import tangentbundle as tb
        >>> octahedron = np.concatenate([np.eye(3), -np.eye(3)])
        >>> faces = [
        ...     [0, 1, 2],
        ...     [1, 3, 2],
        ...     [3, 4, 2],
        ...     [4, 0, 2],
        ...     [1, 0, 5],
        ...     [3, 1, 5],
        ...     [4, 3, 5],
        ...     [0, 4, 5],
        ... ]
        >>> tb.TangentBundle.from_mesh(octahedron, faces)
        TangentBundle(6 points in R^3, dim=2, rank=2, mesh of 8 triangles, 0 boundary edges,
        0 edges flipped)
        """
        source = read_mesh(mesh, faces)
        vertices, kind = points_tensor(source.vertices, "vertices")
        cloud = PointCloud.from_tensor(vertices.cpu(), "vertices")
        bases = None
        if frames is not None:
            checked = check_frames(frames, num_points=len(cloud), ambient_dim=cloud.ambient_dim)
            bases = checked.cpu()[cloud.curve_order]
        triangles = check_faces(source.faces, num_points=len(cloud), ambient_dim=cloud.ambient_dim)
        if not source.is_cut:
            warn_of_seams(cloud.in_user_order(cloud.points).numpy(), triangles)
        surface = intrinsic_mesh(cloud, triangles, bases, kind.dtype)
        return cls(
            cloud=cloud,
            sorted_graph=surface.graph,
            connection=surface.connection,
            weights=MeshWeights.of(surface),
            dim=2,
            kind=kind,
            tangent_frames=TangentFrames(surface.frames),
        )

    @classmethod
    @threads_by_size
    def scalar_from_mesh(cls, mesh: Any, faces: Any = None) -> TangentBundle:
        r"""Functions on any triangles: the trivial line bundle over the vertices ``(n, 3)`` of
        triangles ``(f, 3)``, which need not form a surface. Meshes of other libraries and files are
        read as by ``from_mesh``.

        Edges may have three triangles and more, parts may meet in a vertex, triangles may run
        either way, form a Möbius band, or have no area. The Laplacian is that of the tufted cover
        (Sharp and Crane, 2020): cotangent weights that are never negative, areas as mass, and
        natural (Neumann) conditions at boundaries. It is zero at vertices that no triangle has, of
        which a ``MeshRepairWarning`` tells. Vertices at one place with different numbers are not
        connected.

        Fields need a surface: ``from_mesh``.

        >>> import tangentbundle as tb
        >>> vertices = np.concatenate([np.eye(3), -np.eye(3)])
        >>> faces = [[0, 1, 2], [0, 1, 5], [0, 1, 3], [3, 4, 2]]  # edge 01 has three triangles
        >>> lap = tb.TangentBundle.scalar_from_mesh(vertices, faces).laplacian()
        >>> bool(abs(lap @ np.ones((6, 1, 1))).max() < 1e-12), bool((lap.mass > 0).all())
        (True, True)
        """
        source = read_mesh(mesh, faces)
        vertices, kind = points_tensor(source.vertices, "vertices")
        cloud = PointCloud.from_tensor(vertices.cpu(), "vertices")
        triangles = check_soup(source.faces, num_points=len(cloud), ambient_dim=cloud.ambient_dim)
        if not source.is_cut:
            warn_of_seams(cloud.in_user_order(cloud.points).numpy(), triangles)
        cover = tufted_mesh(cloud, triangles)
        return cls(
            cloud=cloud,
            sorted_graph=cover.graph,
            connection=Connection.identity(cover.graph, kind.dtype),
            weights=TuftedWeights.of(cover),
            dim=2,
            kind=kind,
        )

    def scalar(self) -> TangentBundle:
        """The trivial line bundle over the same points: functions instead of fields.

        >>> import tangentbundle as tb
        >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(600, seed=0))
        >>> bool(bundle.scalar().laplacian().spectrum(1)[0][0] < 1e-8)  # constants are harmonic
        True
        """
        fixed = None
        if self.fixed is not None:
            fixed = self.fixed.scalar()
        identity = Connection.identity(self.sorted_graph, self.kind.dtype)
        return replace(self, connection=identity, tangent_frames=None, fixed=fixed)

    def power(self, order: int) -> TangentBundle:
        r"""The bundle of the n-th powers of the tangent vectors of a surface, d = 2.

        A direction with n equal representatives, :math:`e^{2\pi i k/n} z`, has one power
        :math:`z^n`, with vectors as complex numbers in their frame. Transport turns powers by n
        times the angle. The result has Laplacians and no frames; see ``directions``.

        >>> import tangentbundle as tb
        >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(2000, seed=0))
        >>> bundle.power(2).laplacian().spectrum(10)[0].round(0).tolist()  # of lines: 2, ten times
        [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
        """
        bundle = self._without_gradients()
        if bundle.dim != 2 or bundle.rank != 2:
            raise InvalidInputError(
                "powers are those of tangent vectors of a surface, d = 2, and here "
                f"d = {bundle.dim} and the rank is {bundle.rank}."
            )
        connection = bundle.connection.power(positive_integer(order, "order"))
        return replace(bundle, connection=connection, tangent_frames=None)

    def rebuilt(self, points: Array, frames: Array) -> TangentBundle:
        """The bundle of other points ``(n, D)`` with tangent bases ``(n, D, d)``, with the same
        kernel and eps, or the same triangles: that of points that are turned in space.

        >>> import tangentbundle as tb
        >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(200, seed=0))
        >>> turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
        >>> turned = bundle.rebuilt(bundle.points @ turn.T, turn @ bundle.frames)
        >>> x = np.ones((200, 2, 1))
        >>> bool(np.allclose(bundle.laplacian() @ x, turned.laplacian() @ x))
        True
        """
        return self.weights.rebuild(self, points, frames)

    def moved(self, points: Tensor) -> TangentBundle:
        """The bundle of other points ``(n, D)``, with the neighbours, scales and calibration of
        these: a function of the points, with gradients in them.

        It is what ``from_points`` makes of points with gradients, and serves steps of an
        optimisation, and ``torch.func``, for points that move little.

        >>> import tangentbundle as tb
        >>> points = torch.from_numpy(tb.manifolds.Sphere(2).sample(200, seed=0))
        >>> bundle = tb.TangentBundle.from_points(points)
        >>> def energy(points):
        ...     moved = bundle.moved(points)
        ...     x = moved.to_coordinates(torch.ones(200, 3).double())
        ...     return moved.laplacian().inner(x, x).sum()
        >>> torch.func.grad(energy)(points).shape
        torch.Size([200, 3])
        """
        fixed = self.detach()
        if not isinstance(points, Tensor) or points.shape != fixed.cloud.points.shape:
            raise InvalidInputError(
                f"points must be a tensor of shape {tuple(fixed.cloud.points.shape)}, as those of "
                f"the bundle, got {type(points).__name__} {np.shape(points)}."
            )
        if fixed.tangent_frames is None:
            raise InvalidInputError("move the tangent bundle, and take its scalar() then.")
        cloud = fixed.cloud.moved(points)
        frames = fixed.tangent_frames.moved(fixed.cloud, cloud.points)
        dtype = self.kind.dtype
        return replace(
            fixed,
            cloud=cloud,
            sorted_graph=fixed.sorted_graph.measured_on(cloud.points),
            connection=connect_with_gradients(frames.matrices, fixed.sorted_graph, dtype),
            tangent_frames=frames,
            fixed=fixed,
        )

    def detach(self) -> TangentBundle:
        """The bundle without gradients in the points, which has the neighbours and scales."""
        if self.fixed is None:
            return self
        return self.fixed

    # What it is.

    @property
    def requires_grad(self) -> bool:
        """Whether operators and frames have gradients in the points."""
        return self.fixed is not None

    @property
    def rank(self) -> int:
        """Dimension of the fibres: d for the tangent bundle, 1 for the scalar bundle."""
        return self.connection.rank

    @property
    def eps(self) -> float:
        """Squared radius of the neighbourhoods; on a mesh the mean squared edge length."""
        return self.weights.eps

    @property
    def estimate(self) -> EstimatedFrames | None:
        """How the frames were estimated, where they were: local PCA, its scale and dimension."""
        if isinstance(self.tangent_frames, EstimatedFrames):
            return self.tangent_frames
        return None

    @property
    def graph(self) -> NeighborGraph:
        """The neighbour graph in the user's order."""
        return self.sorted_graph.relabel(self.cloud.curve_order)

    def __repr__(self) -> str:
        dimension = f"dim={self.dim}"
        if self.estimate is not None and self.estimate.local_dimensions is not None:
            share = np.mean(self.estimate.local_dimensions == self.dim)
            dimension += f" (estimated, {share:.0%} of points agree)"
        return (
            f"TangentBundle({self.num_points} points in R^{self.ambient_dim}, {dimension}, "
            f"rank={self.rank}, {self.weights.describe(self)})"
        )

    # Operators.

    @threads_by_size
    def laplacian(
        self, *, calibrate: Calibration | bool = True, terms: int | None = None
    ) -> Laplacian:
        r"""The connection Laplacian :math:`\Delta \le 0`, a function of the average
        :math:`P = M^{-1} S`.

        .. math:: -\Delta = \frac{1}{c\,\epsilon} \sum_{k=1}^{terms} \frac{(I - P)^k}{k}

        Args:
            calibrate: how c is found: ``operators.SampleEnergy()``, the default, from the points,
                or ``operators.KernelMoments()``, from the kernel alone. ``False`` gives the paper's
                operator, with c = 1 and one term; its eigenvalues are off by the constant of the
                kernel.
            terms: of the series of :math:`-\log P`, default 2. One term is the usual
                difference :math:`(P - I)/(c\,\epsilon)`, whose eigenvalues are too small by
                :math:`c\,\epsilon\lambda^2/2`.

        On a mesh there is no kernel, and both arguments are refused:
        :math:`\Delta = A^{-1}(S - D)`, see ``from_mesh``.
        """
        laplacian = self.weights.laplacian(self, calibrate, terms)
        return replace(laplacian, extent=self._extent(laplacian))

    def _extent(self, laplacian: Laplacian) -> float:
        """The length in whose units the Laplacian is dimensionless; that of the points that do not
        move."""
        fixed = self.detach()
        with outside_transforms():
            if fixed is not self:
                return fixed.cloud.extent(fixed.sorted_masses())
            mass = laplacian.mass.to(self.cloud.device, torch.float64)
            return self.cloud.extent(mass[self.cloud.curve_order])

    @threads_by_size
    def graph_laplacian(self, normalization: Normalization) -> Laplacian:
        r"""Minus a Laplacian of the weighted neighbour graph, without the factor
        :math:`1/(c\,\epsilon)`.

        ``normalization`` is ``RandomWalk()``, ``Symmetric()`` or ``Unnormalized()`` of
        ``tangentbundle.operators``. On the scalar bundle these are the usual graph (or cloud)
        Laplacians; on others, edges transport the vectors.
        """
        if not isinstance(normalization, Normalization):
            raise InvalidInputError(
                f"expected a normalization such as operators.Symmetric(), got {normalization!r}."
            )
        return self.weights.graph_laplacian(self, normalization)

    def sorted_frame_matrices(self) -> Tensor | None:
        """The bases ``(n, D, d)`` along the curve, for operators; with gradients where these are
        wanted."""
        if self.tangent_frames is None:
            return None
        if torch.is_grad_enabled():
            return self.tangent_frames.matrices
        return self.tangent_frames.matrices.detach()

    def edge_weights(self) -> Tensor:
        """The weight of each edge of ``sorted_graph``: the kernel at its length, or on a mesh its
        cotangents."""
        return self.weights.of_edges(self)

    def sorted_masses(self) -> Tensor:
        """Masses ``(n,)`` along the curve: areas of the vertices of a mesh, otherwise one over the
        density."""
        if self.requires_grad:
            return self.weights.masses(self)
        return self._constant_masses

    @cached_property
    def _constant_masses(self) -> Tensor:
        """The masses of points without gradients, computed once."""
        with outside_transforms(), torch.inference_mode(False):
            return self.weights.masses(self)

    def sheaf(self) -> Sheaf:
        r"""The bundle as an orthogonal cellular sheaf over the neighbour graph, of the same kind of
        arrays.

        An edge e = ij has the weight of the graph and the restriction maps :math:`V_{i,e} = I` and
        :math:`V_{j,e} = O_{ij}`, so that L has the blocks :math:`L_{ii} = \deg_i I` and
        :math:`L_{ij} = -w_{ij} O_{ij}`.

        >>> import tangentbundle as tb
        >>> tb.TangentBundle.from_points(
        ...     tb.manifolds.Sphere(2).sample(100, seed=0), neighbors=9
        ... ).sheaf()
        Sheaf(100 vertices, 438 edges, stalks of dimension 2)
        """
        graph = self.sorted_graph
        once = (graph.rows < graph.indices).nonzero().flatten()
        sources = self.cloud.curve_order[graph.indices[once].long()]
        targets = self.cloud.curve_order[graph.rows[once]]
        # those of a mesh may be negative, for a few edges of the boundary
        weights = self.edge_weights()[once].clamp_min(0.0)
        return Sheaf.from_edges(
            edge_index=torch.stack([sources, targets]),
            maps=self.kind.wrap(self.connection.blocks(once)),
            weights=self.kind.wrap(weights),
            num_nodes=self.num_points,
        )

    # Calculus.

    def _without_gradients(self) -> TangentBundle:
        """The bundle for curvature and derivatives of fields, which have no gradients in the
        points."""
        if self.requires_grad and torch.is_grad_enabled():
            raise InvalidInputError(
                "curvature and derivatives of fields have no gradients in the points, and these "
                "points need some. Use bundle.detach(), or compute under torch.no_grad()."
            )
        return self.detach()

    @threads_by_size
    def hodge(self, *, ricci: Array | None = None) -> Laplacian:
        """The Hodge Laplacian of vector fields; see ``calculus.hodge_laplacian``."""
        return hodge_laplacian(self._without_gradients(), ricci)

    @threads_by_size
    def curvature(self, *, degree: int | None = None, neighbors: int | None = None) -> Curvature:
        """Ricci, scalar and Gaussian curvature: exact where it is known, as on the sphere of
        ``from_latlon``.

        Otherwise, and if a degree or neighbours are given, from a polynomial fit of the points to
        each tangent plane.
        """
        return curvature(self._without_gradients(), degree, neighbors)

    @threads_by_size
    def gradient(self, **options: Any) -> LinearMap:
        """Functions ``(..., n, 1, c)`` to fields ``(..., n, d, c)``; options are those of
        ``calculus.Derivatives``."""
        return Derivatives(self._without_gradients(), **options).gradient()

    @threads_by_size
    def divergence(self, **options: Any) -> LinearMap:
        """Fields ``(..., n, d, c)`` to functions ``(..., n, 1, c)``; options as of ``gradient``."""
        return Derivatives(self._without_gradients(), **options).divergence()

    @threads_by_size
    def curl(self, **options: Any) -> LinearMap:
        """The vorticity of fields on an oriented surface, ``(..., n, 1, c)``; options as of
        ``gradient``."""
        return Derivatives(self._without_gradients(), **options).curl()

    # Geodesics.

    def geodesics(self, *, time: float | None = None) -> GeodesicSolver:
        """A solver for transport, distances and logarithms from many sources: what they share is
        computed once."""
        return GeodesicSolver(self, time=time)

    @cached_property
    def _geodesics(self) -> GeodesicSolver:
        return self.geodesics()

    @threads_by_size
    def transport(self, sources: Array, vectors: Array) -> Array:
        """Parallel transport of vectors from sources to all points, along shortest geodesics; see
        ``GeodesicSolver.transport``."""
        return self._geodesics.transport(sources, vectors)

    @threads_by_size
    def distance(self, sources: Array) -> Array:
        """The geodesic distance to the nearest source, ``(n,)``; see
        ``GeodesicSolver.distance``."""
        return self._geodesics.distance(sources)

    @threads_by_size
    def log_map(self, source: int) -> Array:
        """Normal coordinates about a point, ``(n, d)``; see ``GeodesicSolver.log_map``."""
        return self._geodesics.log_map(source)

    @threads_by_size
    def extend(self, sources: Array, values: Array) -> Array:
        """Values at sources to all points, that of the nearest; see ``GeodesicSolver.extend``."""
        return self._geodesics.extend(sources, values)

    @threads_by_size
    def diagnose(self, field: Array | None = None, *, quiet: bool = False) -> Diagnosis:
        """Look the bundle over: scale, components, dimension, frames, orientability, and a field's
        tangency.

        Prints the report unless ``quiet``, and returns it as an object.
        """
        report = diagnose(self.detach(), field)
        if not quiet:
            print(report)
        return report


def _memory_limit(max_memory: float | None) -> float | None:
    """Bytes that may be used, checked."""
    if max_memory is None:
        return None
    return positive(max_memory, "max_memory")
