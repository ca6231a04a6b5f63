"""How strongly neighbours pull at each other, and the Laplacian that follows: kernels on clouds,
cotangents on meshes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from .arrays import Array, median, positive_integer
from .errors import InvalidInputError
from .geometry.kernels import Kernel
from .geometry.mesh import IntrinsicMesh, IntrinsicTriangles, Triangulation
from .geometry.stencils import Stencils, positive_stencils, tangent_steps
from .geometry.tufted import TuftedMesh
from .meshes import Triangles
from .operators import Calibration, Laplacian, Normalization
from .operators.assembly import Averages, area_laplacian, assemble, coordinate_moments
from .operators.calibration import calibrated_scale
from .transforms import outside_transforms

if TYPE_CHECKING:
    from .bundle import TangentBundle


class EdgeWeights(ABC):
    """Weights of the edges of a bundle, the masses of its points, and its Laplacian.

    ``eps`` is a squared length: that of the neighbourhoods. ``heat_spacings`` is the root of the
    time that heat takes to find geodesics, in mean steps of the stencils.
    """

    eps: float
    heat_spacings: ClassVar[float]
    mesh: Triangulation | None
    intrinsic: IntrinsicTriangles | None

    @abstractmethod
    def of_edges(self, bundle: TangentBundle) -> Tensor:
        """The weight of each edge of ``bundle.sorted_graph``, ``(e,)``."""

    @abstractmethod
    def masses(self, bundle: TangentBundle) -> Tensor:
        """Masses of the points along the curve, ``(n,)``: sums weighted by them are, up to a
        factor, integrals."""

    @abstractmethod
    def laplacian(
        self, bundle: TangentBundle, calibrate: Calibration | bool, terms: int | None
    ) -> Laplacian:
        """The connection Laplacian; the arguments are those of ``TangentBundle.laplacian``."""

    @abstractmethod
    def stencils(self, bundle: TangentBundle, frames: Tensor) -> Stencils:
        """Neighbours with positive rates of diffusion, for heat of a short time, from the tangent
        bases ``(n, D, d)`` along the curve."""

    @abstractmethod
    def rebuild(self, bundle: TangentBundle, points: Array, frames: Array) -> TangentBundle:
        """See ``TangentBundle.rebuilt``."""

    @abstractmethod
    def describe(self, bundle: TangentBundle) -> str:
        """What the bundle prints about its neighbourhoods."""

    def graph_laplacian(self, bundle: TangentBundle, normalization: Normalization) -> Laplacian:
        """Minus a Laplacian of the weighted graph."""
        averages = Averages.of(bundle.sorted_graph, self.of_edges(bundle), normalization)
        return _assembled(bundle, averages, scale=1.0, terms=1)


@dataclass(frozen=True)
class KernelWeights(EdgeWeights):
    r""":math:`w_{ij} = k(|x_i - x_j|/\sqrt\epsilon)`, a kernel of the distance."""

    kernel: Kernel
    eps: float

    mesh = None
    intrinsic = None
    heat_spacings = 2.0  # with one, heat notices the single points; with four it takes other ways

    def of_edges(self, bundle: TangentBundle) -> Tensor:
        return self.kernel(bundle.sorted_graph.distances / self.eps**0.5)

    def masses(self, bundle: TangentBundle) -> Tensor:
        return self._averages(bundle).mass

    def _averages(self, bundle: TangentBundle) -> Averages:
        return Averages.of(bundle.sorted_graph, self.of_edges(bundle))

    def laplacian(
        self, bundle: TangentBundle, calibrate: Calibration | bool, terms: int | None
    ) -> Laplacian:
        averages = self._averages(bundle)
        with outside_transforms():
            scale, usual_terms = self._calibrated_scale(bundle, averages, calibrate)
        if terms is None:
            terms = usual_terms
        return _assembled(bundle, averages, scale=scale, terms=positive_integer(terms, "terms"))

    def _calibrated_scale(
        self, bundle: TangentBundle, averages: Averages, calibrate: Calibration | bool
    ) -> tuple[float, int]:
        r"""The scale :math:`c\,\epsilon` and the usual number of terms; those of the points that do
        not move."""
        fixed = bundle.detach()
        if fixed is not bundle:
            averages = self._averages(fixed)
        moments = partial(coordinate_moments, fixed.sorted_graph, averages, fixed.cloud.points)
        constant = self.kernel.calibration(bundle.dim)
        return calibrated_scale(calibrate, constant, self.eps, bundle.dim, moments)

    def stencils(self, bundle: TangentBundle, frames: Tensor) -> Stencils:
        return positive_stencils(bundle.cloud, frames)

    def rebuild(self, bundle: TangentBundle, points: Array, frames: Array) -> TangentBundle:
        return type(bundle).from_frames(points, frames, eps=self.eps, kernel=self.kernel)

    def describe(self, bundle: TangentBundle) -> str:
        scales = f"eps={self.eps:.4g}"
        if bundle.estimate is not None:
            scales += f", eps_pca={bundle.estimate.eps_pca:.4g}"
        neighbors = median(bundle.sorted_graph.degrees)
        return f"{scales}, {neighbors:.0f} neighbours per point, {self.kernel}"


class _TriangleWeights(EdgeWeights):
    """Weights of triangles: ``cotangents`` (e,) of the edges and ``areas`` (n,) of the vertices,
    along the curve."""

    cotangents: Tensor
    areas: Tensor

    def of_edges(self, bundle: TangentBundle) -> Tensor:
        return self.cotangents

    def masses(self, bundle: TangentBundle) -> Tensor:
        return self.areas

    def laplacian(
        self, bundle: TangentBundle, calibrate: Calibration | bool, terms: int | None
    ) -> Laplacian:
        if calibrate is not True or terms is not None:
            raise InvalidInputError(
                "calibrate= and terms= are for clouds: the Laplacian of a mesh has no kernel. "
                "Leave them out, or use TangentBundle.from_points on the vertices."
            )
        return area_laplacian(
            bundle.sorted_graph,
            bundle.connection,
            weights=self.cotangents,
            areas=self.areas,
            curve_order=bundle.cloud.curve_order,
            kind=bundle.kind,
            frames=bundle.sorted_frame_matrices(),
        )


@dataclass(frozen=True, eq=False)
class MeshWeights(_TriangleWeights):
    """Cotangents of the intrinsic Delaunay triangulation, and areas of the vertices.

    Attributes: ``cotangents`` (e,) and ``areas`` (n,) along the curve; ``mesh``, the triangles that
    they come from, and ``intrinsic``, those after the flips; ``eps``, the mean squared edge length.
    """

    cotangents: Tensor
    areas: Tensor
    mesh: Triangulation
    intrinsic: IntrinsicTriangles
    eps: float

    heat_spacings = 1.0  # as Crane, Weischedel and Wardetzky (2013) advise

    @classmethod
    def of(cls, mesh: IntrinsicMesh) -> MeshWeights:
        """Those of a mesh."""
        return cls(
            cotangents=mesh.cotangents,
            areas=mesh.areas,
            mesh=mesh.triangulation,
            intrinsic=mesh.intrinsic,
            eps=float(mesh.graph.distances.square().mean()),
        )

    def stencils(self, bundle: TangentBundle, frames: Tensor) -> Stencils:
        graph = bundle.sorted_graph
        rows = graph.rows
        columns = graph.indices.long()
        points = bundle.cloud.points
        steps = tangent_steps(points[columns] - points[rows], frames.double()[rows])
        lengths = torch.linalg.vector_norm(steps, dim=1)
        # a flipped edge is longer along the surface than in space
        steps = steps * (graph.distances / lengths.clamp_min(1e-300))[:, None]
        rates = self.cotangents.clamp_min(0.0) / self.areas[rows]
        is_used = rates > 0
        moments = torch.zeros(bundle.num_points, 2, dtype=torch.float64)
        moments.index_add_(0, rows, rates[:, None] * steps)
        drift = torch.linalg.vector_norm(moments, dim=1)
        drift[~self.mesh.is_on_boundary[bundle.cloud.curve_order]] = 0.0
        return Stencils(
            rows=rows[is_used],
            columns=columns[is_used],
            rates=rates[is_used],
            steps=steps[is_used],
            maps=bundle.connection.blocks(is_used).double(),
            drift=drift,
        )

    def rebuild(self, bundle: TangentBundle, points: Array, frames: Array) -> TangentBundle:
        return type(bundle).from_mesh(
            Triangles(points, self.mesh.faces, is_cut=True), frames=frames
        )

    def describe(self, bundle: TangentBundle) -> str:
        return f"mesh of {self.mesh}"


@dataclass(frozen=True, eq=False)
class TuftedWeights(_TriangleWeights):
    """Weights for functions on any triangles: cotangents and areas of the intrinsic Delaunay
    triangulation of the tufted cover.

    Attributes: ``cotangents`` (e,), none of them negative, and ``areas`` (n,) along the curve;
    ``mesh``, the triangles that they come from; ``eps``, the mean squared edge length.
    """

    cotangents: Tensor
    areas: Tensor
    mesh: Triangulation
    eps: float

    intrinsic = None

    @classmethod
    def of(cls, mesh: TuftedMesh) -> TuftedWeights:
        """Those of a mesh."""
        return cls(
            cotangents=mesh.cotangents,
            areas=mesh.areas,
            mesh=mesh.triangulation,
            eps=float(mesh.graph.distances.square().mean()),
        )

    def stencils(self, bundle: TangentBundle, frames: Tensor) -> Stencils:
        raise InvalidInputError(
            "geodesics need tangent planes, and this bundle is one of functions.",
            "Use TangentBundle.from_mesh(mesh).",
        )

    def rebuild(self, bundle: TangentBundle, points: Array, frames: Array) -> TangentBundle:
        triangles = Triangles(points, self.mesh.faces, is_cut=True)
        return type(bundle).scalar_from_mesh(triangles)

    def describe(self, bundle: TangentBundle) -> str:
        return f"functions on a mesh of {self.mesh}"


def _assembled(bundle: TangentBundle, averages: Averages, *, scale: float, terms: int) -> Laplacian:
    return assemble(
        bundle.sorted_graph,
        bundle.connection,
        averages,
        scale=scale,
        curve_order=bundle.cloud.curve_order,
        kind=bundle.kind,
        frames=bundle.sorted_frame_matrices(),
        terms=terms,
    )
