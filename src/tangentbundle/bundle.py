"""The tangent bundle of a cloud of points: graph, frames and transport, and signals on it."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from .arrays import Array, host, positive
from .batch import Clouds, clouds_of
from .bundle_operators import BundleOperators, SecondForm
from .calculus import Curvature, Derivatives, LinearMap, curvature, hodge_laplacian
from .diagnostics import Diagnosis, diagnose
from .geometry.dimension import DimensionRule, resolve_dimension
from .geometry.halfedges import check_faces
from .geometry.holonomy import warn_of_holonomy
from .geometry.kernels import Kernel, check_kernel
from .geometry.known_frames import check_frames, latlon_frames
from .geometry.mesh import mesh_geometry
from .geometry.pipeline import (
    Scale,
    build_graph,
    cloud_of,
    graph_and_frames,
    sorted_cloud,
    warn_of_duplicates,
    warn_of_noise,
    warn_of_scale,
)
from .geometry.search import one_search
from .geometry.transport import Connection, connect
from .manifolds import Sphere
from .operators import Joined, Laplacian
from .parallel import threads_by_size


class TangentBundle(BundleOperators):
    r"""A discrete tangent bundle (an orthogonal cellular sheaf) over sampled points.

    Build one with ``from_points``, ``from_latlon``, ``from_frames`` or ``from_mesh``; ``scalar()``
    is the trivial line bundle over the same points. Points are sorted internally along a
    space-filling curve; inputs and outputs are in the user's order.

    >>> import tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(500, seed=0)
    >>> bundle = tb.TangentBundle.from_points(points)
    >>> bundle.dim, bundle.rank
    (2, 2)
    >>> x = bundle.to_coordinates(np.ones((500, 3)))
    >>> x.shape, bundle.to_ambient(x).shape, (bundle.laplacian() @ x).shape
    ((500, 2, 1), (500, 3), (500, 2, 1))
    """

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
        scale = Scale(eps, neighbors, eps_pca, max_memory, pca_center)
        cloud, order, kind = cloud_of(points)
        with one_search(cloud):
            warn_of_duplicates(cloud)
            dim, local = resolve_dimension(cloud, dim, scale.eps_pca)
            graph, eps, pca, eps_pca = graph_and_frames(cloud, dim, scale, order)
        frames = pca.frames(dim, order)
        warn_of_noise(pca, frames, graph)
        connection = connect(frames, graph, kind.numpy_dtype, order)
        if scale.automatic:
            warn_of_holonomy(cloud, frames, graph, float(np.sqrt(eps)))
        geometry = cloud, graph, connection, order, check_kernel(kernel), eps, dim, kind, frames
        return cls(*geometry, pca=pca, eps_pca=eps_pca, local_dimensions=local)

    @classmethod
    @threads_by_size
    def from_batch(
        cls,
        points: Array,
        batch: Array,
        *,
        dim: int | DimensionRule | None = None,
        kernel: Kernel | None = None,
        **options: Any,
    ) -> Joined:
        r"""The Laplacians of many clouds at once, joined; nothing flows between the clouds.

        Points ``(n, D)`` of all clouds follow each other, and ``batch`` (n,) holds the sorted
        number of each point's cloud, as in PyTorch Geometric. All clouds are built at once, which
        is fast for clouds of up to about a thousand points. The result is that of ``join`` on the
        Laplacians of ``from_points``, except that an automatic number of neighbours is not adapted
        to curvature and connectedness, and that ``eps_pca`` needs ``eps``. By default ``dim`` is
        estimated from the largest cloud. Coordinates and ambient vectors are exchanged by the
        operator's ``frames``. ``options`` are those of ``from_points``.

        >>> import tangentbundle as tb
        >>> clouds = [tb.manifolds.Sphere(2).sample(n, seed=n) for n in (80, 120)]
        >>> both = tb.TangentBundle.from_batch(
        ...     np.concatenate(clouds), np.repeat([0, 1], [80, 120]), neighbors=15
        ... )
        >>> both.sizes, both.frames.shape
        ((80, 120), torch.Size([200, 3, 2]))
        """
        scale, (x, _, sizes) = Scale(**options), clouds_of(points, batch)
        dim, _ = resolve_dimension(
            host(x.split(sizes.tolist())[int(sizes.argmax())]), dim, scale.eps_pca
        )
        clouds = Clouds.of(points, batch, dim, scale, check_kernel(kernel))
        clouds.warn()
        return clouds.laplacian()

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
        ``from_points``.
        """
        scale = Scale(eps, neighbors, None, max_memory)
        cloud, order, kind = sorted_cloud(points)
        bases = np.ascontiguousarray(check_frames(frames, cloud)[order])
        with one_search(cloud):
            warn_of_duplicates(cloud)
            graph, eps = build_graph(cloud, bases.shape[2], scale, order=order)
        warn_of_scale(graph)
        connection = connect(bases, graph, kind.numpy_dtype, order)
        geometry = (
            cloud,
            graph,
            connection,
            order,
            check_kernel(kernel),
            eps,
            bases.shape[2],
            kind,
            bases,
        )
        return cls(*geometry, second_form=second_form)

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
        cls, vertices: Array, faces: Array, *, frames: Array | None = None
    ) -> TangentBundle:
        r"""The bundle of a triangle mesh: vertices ``(n, 3)``, triangles ``(f, 3)`` of vertex
        numbers.

        Its Laplacian is that of the surface the triangles form, :math:`\Delta = A^{-1}(S - D)` with
        cotangent weights of the intrinsic Delaunay triangulation, transport by tangent angles, and
        vertex areas A as mass. There is no kernel; ``eps`` is the mean squared edge length.
        Triangles that run the other way are turned over. Edges with more than two triangles,
        surfaces that are not orientable and vertices without triangles are refused.

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
        cloud, order, kind = sorted_cloud(vertices, "vertices")
        bases = None if frames is None else check_frames(frames, cloud)[order]
        triangles = np.ascontiguousarray(np.argsort(order)[check_faces(faces, cloud)])
        graph, connection, bases, mesh = mesh_geometry(
            cloud, triangles, order, bases, kind.numpy_dtype
        )
        eps = float(np.square(graph.distances).mean())
        return cls(cloud, graph, connection, order, None, eps, 2, kind, bases, mesh=mesh)

    def __repr__(self) -> str:
        how = ""
        if self.local_dimensions is not None:
            how = f" (estimated, {np.mean(self.local_dimensions == self.dim):.0%} of points agree)"
        pca = "" if self.eps_pca is None else f", eps_pca={self.eps_pca:.4g}"
        near = f"{np.median(self.sorted_graph.degrees):.0f} neighbours per point"
        edges = (
            f"eps={self.eps:.4g}{pca}, {near}, {self.kernel}"
            if self.mesh is None
            else f"mesh of {self.mesh}"
        )
        return (
            f"TangentBundle({self.num_points} points in R^{self.ambient_dim}, "
            f"dim={self.dim}{how}, rank={self.rank}, {edges})"
        )

    def scalar(self) -> TangentBundle:
        """The trivial line bundle over the same points: functions instead of fields.

        >>> import tangentbundle as tb
        >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(600, seed=0))
        >>> bool(bundle.scalar().laplacian().spectrum(1)[0][0] < 1e-8)  # constants are harmonic
        True
        """
        other, line = copy(self), Connection.identity(self.sorted_graph, self.kind.dtype)
        vars(other).update(connection=line, sorted_frames=None, pca=None)
        return other

    @threads_by_size
    def hodge(self, *, ricci: Array | None = None) -> Laplacian:
        """The Hodge Laplacian of vector fields; see ``calculus.hodge_laplacian``."""
        return hodge_laplacian(self, ricci)

    @threads_by_size
    def curvature(self, *, degree: int | None = None, neighbors: int | None = None) -> Curvature:
        """Ricci, scalar and Gaussian curvature: exact where it is known, as on the sphere of
        ``from_latlon``.

        Otherwise, and if a degree or neighbours are given, from a polynomial fit of the points to
        each tangent plane.
        """
        return curvature(self, degree, neighbors)

    @threads_by_size
    def gradient(self, **options: Any) -> LinearMap:
        """Functions ``(..., n, 1, c)`` to fields ``(..., n, d, c)``; options are those of
        ``calculus.Derivatives``."""
        return Derivatives(self, **options).gradient()

    @threads_by_size
    def divergence(self, **options: Any) -> LinearMap:
        """Fields ``(..., n, d, c)`` to functions ``(..., n, 1, c)``; options as of ``gradient``."""
        return Derivatives(self, **options).divergence()

    @threads_by_size
    def curl(self, **options: Any) -> LinearMap:
        """The vorticity of fields on an oriented surface, ``(..., n, 1, c)``; options as of
        ``gradient``."""
        return Derivatives(self, **options).curl()

    @threads_by_size
    def diagnose(self, field: Array | None = None, *, quiet: bool = False) -> Diagnosis:
        """Look the bundle over: scale, components, dimension, frames, orientability, and a field's
        tangency.

        Prints the report unless ``quiet``, and returns it as an object.
        """
        report = diagnose(self, field)
        if not quiet:
            print(report)
        return report
