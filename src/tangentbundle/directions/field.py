r"""Fields of directions with n equal representatives, as their n-th powers.

With the tangent vectors of a surface as complex numbers in their frames, the directions
:math:`e^{2\pi i k/n} z` with k = 0, ..., n - 1 have one power :math:`u = z^n`. Powers of
neighbours are compared by n times the angle of their transport (Knoeppel, Crane, Pinkall and
Schroeder, 2013, "Globally optimal direction fields").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arrays import Array, float_tensor, positive_integer
from ..bundle import TangentBundle
from ..calculus import SingularPoints, streamlines
from ..calculus.powers import power_of_vectors, representatives
from ..errors import ShapeError
from ..parallel import threads_by_size
from .triangles import TriangleConnection, singular_triangles


@dataclass(frozen=True, eq=False, repr=False)
class DirectionField:
    r"""Directions with ``order`` equal representatives at each point of a surface: 1 for vectors, 2
    for lines, 4 for crosses.

    Args:
        bundle: the tangent bundle of the surface, of a cloud or of a mesh.
        order: n, the number of representatives.
        powers: ``(n, 2, 1)``, the n-th power of the directions in the frames of the bundle. Its
            length says how sure the direction is, and vanishes at singular points.

    ``vectors()`` are the representatives, ``singularities()`` the points where there is no
    direction, and ``energy`` says how much the directions vary.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    >>> bundle = tb.TangentBundle.from_points(points)
    >>> east = bundle.to_coordinates(np.cross([0, 0, 1], points))
    >>> field = DirectionField.from_vectors(bundle, east, order=4)
    >>> field
    DirectionField(order 4, 2000 points, energy 8.15)
    >>> field.vectors().shape
    (4, 2000, 3)
    """

    bundle: TangentBundle
    order: int
    powers: Array

    @classmethod
    def from_vectors(cls, bundle: TangentBundle, vectors: Array, *, order: int) -> DirectionField:
        """The field one of whose representatives is along a field ``(n, 2, 1)`` in coordinates."""
        x, kind = float_tensor(vectors, "vectors")
        if x.shape != (bundle.num_points, 2, 1):
            raise ShapeError(
                f"vectors must have shape (n, 2, 1) = ({bundle.num_points}, 2, 1), got "
                f"{tuple(x.shape)}."
            )
        powers = power_of_vectors(x[:, :, 0], positive_integer(order, "order"))
        return cls(bundle, order, kind.wrap(powers[:, :, None]))

    def __repr__(self) -> str:
        return (
            f"DirectionField(order {self.order}, {self.bundle.num_points} points, "
            f"energy {self.energy:.3g})"
        )

    @property
    def energy(self) -> float:
        r"""How much the powers vary: :math:`\int |\nabla u|^2 / \int |u|^2`.

        That of the smoothest field is the smallest eigenvalue of the Laplacian of powers.
        """
        laplacian = self.bundle.power(self.order).laplacian()
        x = self._powers().to(laplacian.device, laplacian.dtype)
        square = float(laplacian.inner(x, x).sum())
        return -float(laplacian.inner(x, laplacian @ x).sum()) / max(square, 1e-300)

    @threads_by_size
    def vectors(self) -> Array:
        """The representatives as unit vectors in space, ``(order, n, D)``; zero where the field
        vanishes."""
        vectors = representatives(self._powers()[:, :, 0], self.order)
        coordinates = vectors[..., None].to(self.bundle.kind.device, self.bundle.kind.dtype)
        return self.bundle.kind.wrap(torch.as_tensor(self.bundle.to_ambient(coordinates)))

    @threads_by_size
    def singularities(self, *, euler: int | None = None) -> SingularPoints:
        r"""The points where the field has no direction, with their indices, multiples of 1/n.

        The index is the number of turns of the directions along a small loop around the point,
        counted with respect to the surface. The loops are triangles, of the mesh or between the
        points of a cloud. On closed meshes, and on clouds whose triangles form a closed surface,
        the indices sum to the Euler characteristic exactly. The sum is compared with ``euler``, or
        with ``calculus.euler_characteristic(bundle)``; an ``AccuracyWarning`` says if they differ,
        as near sharp edges and where points are sparse.

        >>> import tangentbundle as tb
        >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(2000, seed=0))
        >>> index = tb.smoothest_field(bundle, order=2).singularities().index
        >>> index.tolist()
        [0.5, 0.5, 0.5, 0.5]
        """
        intrinsic = self.bundle.weights.intrinsic
        if intrinsic is None:
            triangles = TriangleConnection.of_cloud(self.bundle)
        else:
            triangles = TriangleConnection.of_mesh(self.bundle, intrinsic)
        return singular_triangles(
            self.bundle, triangles, self._powers(), order=self.order, euler=euler
        )

    def streamlines(self, starts: Array, *, branch: int = 0, **options: Any) -> Array:
        """Lines ``(m, 2 steps + 1, D)`` along one of the directions at each place, with their
        middles at ``starts`` (m, D).

        ``branch``, from 0 to n - 1, says along which representative they begin; ``options`` are
        those of ``calculus.streamlines``.

        >>> import tangentbundle as tb
        >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
        >>> field = tb.smoothest_field(tb.TangentBundle.from_points(points), order=4)
        >>> field.streamlines(points[:10], steps=30).shape
        (10, 61, 3)
        """
        ahead = torch.as_tensor(
            streamlines(
                self.bundle, self.powers, starts, order=self.order, branch=branch, **options
            )
        )
        behind = torch.as_tensor(
            streamlines(
                self.bundle,
                self.powers,
                starts,
                order=self.order,
                branch=branch,
                backward=True,
                **options,
            )
        )
        lines = torch.cat([behind.flip(1)[:, :-1], ahead], dim=1)
        return self.bundle.kind.wrap(lines)

    def _powers(self) -> Tensor:
        """The powers as a tensor in float64 on the CPU."""
        return torch.as_tensor(self.powers).detach().cpu().double()
