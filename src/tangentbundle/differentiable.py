r"""The geometry of points that move: a Laplacian and frames with gradients in the points.

The neighbour graph, the scales and the calibration are those of the points as given, and constant.
Weights, frames and transports are functions of the points:

.. math:: w_{ij} = k(|x_i - x_j|/\sqrt\epsilon), \qquad
          C_i = \sum_j b_{ij}\,(x_j - \bar x_i)(x_j - \bar x_i)^T, \qquad
          O_{ij} = A (A^T A)^{-1/2}, \quad A = O_i^T O_j,

with :math:`O_i` the first d eigenvectors of :math:`C_i`. These are defined up to a turn within
their plane, whose derivative is set to zero. So gradients are right for losses that do not depend
on frames, such as all that are computed from ambient vectors; eigenvalues that are close within the
plane do no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .arrays import float_tensor
from .bundle import TangentBundle
from .errors import InvalidInputError
from .geometry.graph import NeighborGraph, radius_graph
from .geometry.kernels import Biweight, check_kernel
from .geometry.search import nearest_distances
from .operators import Laplacian
from .operators.assembly import Averages
from .operators.sheaf_laplacian import inverse_root
from .parallel import threads_by_size
from .transforms import outside_transforms


class _Frames(torch.autograd.Function):
    """The first d eigenvectors of symmetric matrices ``(n, D, D)``, turned within their span
    towards ``like``.

    Eigenvalues, eigenvectors and the turn are outputs for the backward pass alone.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(covariance: Tensor, like: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(covariance)
        tangent = vectors[..., -like.shape[-1] :]
        left, _, right = torch.linalg.svd(tangent.mT @ like)
        turn = left @ right
        return tangent @ turn, values, vectors, turn

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _, values, vectors, turn = output
        ctx.mark_non_differentiable(values, vectors, turn)
        ctx.save_for_backward(values, vectors, turn)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor, *unused: Tensor):
        values, vectors, turn = ctx.saved_tensors
        d = turn.shape[-1]
        normal = vectors[..., :-d]
        tangent = vectors[..., -d:]
        gaps = values[..., None, -d:] - values[..., :-d, None]
        mixed = normal @ (normal.mT @ grad @ turn.mT / gaps) @ tangent.mT
        return (mixed + mixed.mT) / 2, None


@dataclass(frozen=True, eq=False)
class DifferentiableBundle:
    r"""A tangent bundle whose ``laplacian()`` and ``frames`` have gradients in the points, on any
    device.

    So have the ``frames`` of its Laplacians, which ``nn.AmbientThenProject`` reads.

    Attributes: ``points (n, D)``, a tensor; ``bundle``, the bundle of the points without gradients.

    >>> import tangentbundle as tb
    >>> points = torch.from_numpy(tb.manifolds.Sphere(2).sample(200, seed=0)).requires_grad_()
    >>> moving = DifferentiableBundle.from_points(points)
    >>> lap, x = moving.laplacian(), moving.to_coordinates(torch.ones(200, 3).double())
    >>> lap.inner(x, lap @ x).sum().backward()  # how much the field varies
    >>> points.grad.shape
    torch.Size([200, 3])
    """

    points: Tensor = field(repr=False)
    bundle: TangentBundle
    pca_center: bool = True
    given_eps_pca: bool = False

    def __post_init__(self) -> None:
        if self.bundle.pca is None or self.points.shape != self.bundle.sorted_points.shape:
            raise InvalidInputError(
                "a DifferentiableBundle takes points and the bundle that from_points made of them."
            )

    @classmethod
    @threads_by_size
    def from_points(cls, points: Tensor, **options: Any) -> DifferentiableBundle:
        """The bundle of points ``(n, D)``; ``options`` are those of
        ``TangentBundle.from_points``."""
        if not isinstance(points, Tensor):
            raise InvalidInputError(
                f"points must be a torch tensor, to have gradients, got {type(points).__name__}."
            )
        bundle = TangentBundle.from_points(points.detach(), **options)
        return cls(
            float_tensor(points, "points")[0],
            bundle,
            options.get("pca_center", True),
            bool(options.get("eps_pca")),
        )

    @cached_property
    def _order(self) -> Tensor:
        return self._tensor(self.bundle.curve_order)

    # What is cached has gradients even where the first reader wants none.

    @cached_property
    def _sorted(self) -> Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            return self.points.index_select(0, self._order)

    def _tensor(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array).to(self.points.device)
        return tensor.to(self.points.dtype) if tensor.is_floating_point() else tensor.long()

    @cached_property
    def _sorted_frames(self) -> Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            covariance = self._covariances()
            return _Frames.apply(covariance, self._tensor(np.asarray(self.bundle.sorted_frames)))[0]

    def _covariances(self) -> Tensor:
        """Covariances ``(n, D, D)`` of the neighbourhoods along the curve."""
        rows, cols, reach = self._pca_edges()
        n, steps = len(self._sorted), self._sorted[cols] - self._sorted[rows]
        weights = Biweight().profile(steps.norm(dim=1) / reach)[:, None]
        total = steps.new_zeros(n, 1).index_add(0, rows, weights)
        if self.pca_center:
            steps = (
                steps
                - (torch.zeros_like(self._sorted).index_add(0, rows, weights * steps) / total)[rows]
            )
        squares = steps[:, :, None] * (weights / total[rows] * steps)[:, None]
        return steps.new_zeros(n, *squares.shape[1:]).index_add(0, rows, squares)

    def _pca_edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """Edges of the local PCA and the radius at each.

        Points with few neighbours use their nearest ones, unless the radius was given.
        """
        cloud, radius = self.bundle.sorted_points, float(self.bundle.eps_pca or 0.0) ** 0.5
        graph, least = radius_graph(cloud, radius), min(2 * self.bundle.dim + 2, len(cloud) - 1)
        poor = np.flatnonzero(graph.degrees < (0 if self.given_eps_pca else least))
        rich = ~np.isin(graph.rows, poor)
        distances, nearest = nearest_distances(cloud, least, poor)
        rows = np.concatenate([graph.rows[rich], np.repeat(poor, least)])
        cols = np.concatenate([graph.indices[rich], nearest.ravel()])
        reach = np.concatenate(
            [np.full(rich.sum(), radius), np.repeat(1.2 * distances[:, -1], least)]
        )
        return self._tensor(rows), self._tensor(cols), self._tensor(reach)

    @cached_property
    def frames(self) -> Tensor:
        """Tangent bases ``(n, D, d)``."""
        with torch.inference_mode(False), torch.enable_grad():
            return torch.zeros_like(self._sorted_frames).index_copy(
                0, self._order, self._sorted_frames
            )

    def to_coordinates(self, vectors: Tensor) -> Tensor:
        """Ambient vectors ``(..., n, D)`` to a signal ``(..., n, d, 1)``."""
        return torch.einsum("nij,...ni->...nj", self.frames, vectors)[..., None]

    def to_ambient(self, signal: Tensor) -> Tensor:
        """A signal ``(..., n, d, c)`` to ambient vectors ``(..., n, D, c)``."""
        return torch.einsum("nij,...njc->...nic", self.frames, signal)

    @threads_by_size
    def laplacian(self, **options: Any) -> Laplacian:
        """The connection Laplacian; ``options`` are those of ``TangentBundle.laplacian``."""
        with outside_transforms():
            constant = self.bundle.laplacian(**options)
        tensors: Any = (
            tensor.to(self.points.device) for tensor in self.bundle.sorted_graph.tensors
        )
        graph = NeighborGraph(*tensors)
        rows, cols = graph.edge_rows, graph.tensors[1]
        steps = self._sorted[cols] - self._sorted[rows]
        averages = Averages.of(
            graph, check_kernel(self.bundle.kernel)(steps.norm(dim=1) / self.bundle.eps**0.5)
        )
        product = self._sorted_frames[rows].mT @ self._sorted_frames[cols]
        maps = product @ inverse_root(product.mT @ product)
        values, share = maps * averages.factors[:, None, None], averages.mass / averages.mass.sum()
        mass = torch.zeros_like(share).index_copy(0, self._order, share).to(maps)
        frames = self._sorted_frames if torch.is_grad_enabled() else self._sorted_frames.detach()
        average = replace(constant.average, cols=cols, values=values.to(maps))
        return replace(constant, average=average, mass=mass, sorted_frames=frames)
