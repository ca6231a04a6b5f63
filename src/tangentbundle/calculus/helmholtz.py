r"""The Helmholtz-Hodge decomposition of vector fields:
:math:`v = \nabla a + \operatorname{rot} b + r`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array, finite, host, outside_functional_transform, positive
from ..errors import BoundaryError, InvalidInputError, RankDeficientError
from ..operators.base import fold, unfold
from ..parallel import threads_by_size
from .boundary import has_boundary
from .boundary_conditions import BoundaryCondition, NoFlow
from .closed_cloud import ClosedCloudSplit, Poisson
from .fit import default_degree
from .orientation import orientation
from .parts import FieldMaps, Split, joined
from .triangle_fields import (
    TrianglePotentials,
    Triangles,
    TriangleSplit,
    cloud_triangles,
    harmonic_basis,
    mesh_triangles,
)

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MAX_VALUES = 2**20
"""Points times fields that are decomposed at a time: the solver stores some eighty vectors of this
size."""

INDEPENDENT = 1e-6
"""Singular value of a basis of harmonic fields, in units of the largest, below which its fields are
not independent."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The parts of a field, of the kind and shape of the field, ``(..., n, d, c)``; they are
    pairwise orthogonal.

    Attributes: ``gradient`` = grad ``potential``; ``rotational`` = rot ``stream``; ``remainder``,
    all the rest. It has the harmonic part, of which there is none on a sphere, and what potentials
    on these points do not resolve, such as noise. On spaces that are no oriented surfaces
    ``rotational``, ``stream`` and ``vorticity`` are None, and the remainder is the part without
    divergence. Potentials ``(..., n, 1, c)`` have mean zero on each component of the graph.
    ``divergence`` and ``vorticity`` are those of the field. ``energies`` are the shares of the
    squared mass norm by part, ``(..., c)``: they sum to one.
    """

    gradient: Array
    remainder: Array
    potential: Array
    divergence: Array
    energies: dict[str, Array]
    rotational: Array | None = None
    stream: Array | None = None
    vorticity: Array | None = None


@threads_by_size
def helmholtz(
    bundle: TangentBundle,
    field: Array,
    *,
    boundary: BoundaryCondition | None = None,
    degree: int | None = None,
    tol: float = 1e-7,
) -> Decomposition:
    r"""Split fields ``(..., n, d, c)`` into a gradient, a rotated gradient and a remainder.

    The potentials solve :math:`\Delta a = \operatorname{div} v` and
    :math:`\Delta b = \operatorname{curl} v`, on each component of the graph by itself. What the
    remainder still has of both is added once. The parts are made orthogonal by the least change
    that leaves their sum, which vanishes with the distance of the points. Leading axes and
    channels, such as time steps, are decomposed one by one.

    On meshes the problem is solved on the triangles, and so it is on clouds of surfaces that end at
    a boundary, on triangles between the points; otherwise at the points of the cloud, with a solver
    that runs on the device of the field. Only surfaces may have a boundary.

    Args:
        boundary: what the parts do at the boundary, if there is one. ``NoFlow()``, the default: the
            stream function is zero there, and all that flows through the boundary is in the
            gradient. ``NoSlip()``: the potential is zero there, and all that runs along the
            boundary is in the rotational part.
        degree: of the polynomials of ``Derivatives``.
        tol: relative residual of the solutions at points.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    >>> bundle = tb.TangentBundle.from_points(points)
    >>> field = bundle.to_coordinates(np.cross([0, 0, 1], points))  # a rotation about the z axis
    >>> {
    ...     part: round(float(share[0]), 3)
    ...     for part, share in tb.helmholtz(bundle, field).energies.items()
    ... }
    {'gradient': 0.0, 'rotational': 1.0, 'remainder': 0.0}
    """
    if isinstance(field, Tensor):
        outside_functional_transform(field, "field")
    condition = _checked_condition(boundary)
    maps = FieldMaps(bundle, degree)
    x, kind = maps.divergence_map.check(field, "field")
    finite(x, "field")
    tol = positive(tol, "tol")
    split = _split(bundle, maps, condition, degree, x.device)
    curve_order = maps.divergence_map.curve_order
    along_curve = fold(x.detach()).double()[curve_order]
    channels = max(1, MAX_VALUES // bundle.num_points)
    decomposed = joined([split(chunk, tol) for chunk in along_curve.split(channels, dim=2)])
    places_on_curve = torch.argsort(curve_order)

    def in_user_order(values: Tensor) -> Tensor:
        """Values ``(n, r, channels)`` along the curve as ``(..., n, r, c)``, like the field."""
        shape = torch.Size((*x.shape[:-2], values.shape[1], x.shape[-1]))
        return unfold(values[places_on_curve], shape)

    fields = {name: in_user_order(part) for name, part in decomposed.fields().items()}
    potentials = {name: in_user_order(part) for name, part in decomposed.potentials().items()}
    wrapped = {name: kind.wrap(values) for name, values in (fields | potentials).items()}
    energies = _shares_of_energy(fields, split.mass[places_on_curve])
    return Decomposition(
        energies={name: kind.wrap(share) for name, share in energies.items()}, **wrapped
    )


def _checked_condition(boundary: BoundaryCondition | None) -> BoundaryCondition:
    if boundary is None:
        return NoFlow()
    if not isinstance(boundary, BoundaryCondition):
        raise InvalidInputError(
            f"boundary must be calculus.NoFlow() or calculus.NoSlip(), got {boundary!r}."
        )
    return boundary


def _split(
    bundle: TangentBundle,
    maps: FieldMaps,
    boundary: BoundaryCondition,
    degree: int | None,
    device: torch.device,
) -> Split:
    """How fields on this bundle are decomposed."""
    if bundle.weights.mesh is None and not has_boundary(bundle):
        solver = Poisson(bundle, degree or default_degree(bundle), device)
        return ClosedCloudSplit(maps, solver)
    signs = None
    if maps.signs is not None:
        signs = host(maps.signs)
    frames = _frames(bundle)
    potentials = TrianglePotentials(_triangles(bundle, frames, signs), frames, boundary)
    return TriangleSplit(maps, potentials, device)


def _frames(bundle: TangentBundle) -> np.ndarray:
    """The tangent bases ``(n, D, 2)`` of a surface along the curve."""
    if bundle.dim != 2:
        raise BoundaryError(
            "the decomposition with a boundary is made for surfaces, d = 2, and these points of "
            f"dimension d = {bundle.dim} end at a boundary. Give data that cover the complete "
            "manifold."
        )
    assert bundle.tangent_frames is not None, "fields have frames"
    return host(bundle.tangent_frames.matrices).astype(float)


def _triangles(bundle: TangentBundle, frames: np.ndarray, signs: np.ndarray | None) -> Triangles:
    """The triangles of a mesh, or those between the points of a cloud, in the orientation ``signs``
    (n,) of the frames, if they have one."""
    mesh = bundle.weights.mesh
    intrinsic = bundle.weights.intrinsic
    if mesh is None or intrinsic is None:
        corners = cloud_triangles(bundle.cloud, frames, signs)
    else:
        assert signs is not None, "meshes are oriented"
        corners = mesh_triangles(bundle.cloud, mesh.faces, intrinsic.senses, signs)
    return Triangles(host(bundle.cloud.points), corners)


@threads_by_size
def harmonic_fields(bundle: TangentBundle, *, boundary: BoundaryCondition | None = None) -> Array:
    """Independent harmonic fields of a surface ``(n, 2, k)``, orthonormal in the mean over its
    area: k is the first Betti number.

    They have neither divergence nor vorticity and, at a boundary, are along it (``NoFlow()``) or
    perpendicular to it (``NoSlip()``). Their number is that of the triangles of the mesh, or of
    those between the points of a cloud, and exact for these: a disc has none, a ring one, a closed
    surface two for each handle.

    >>> import tangentbundle as tb
    >>> torus = tb.TangentBundle.from_points(tb.manifolds.Torus(1.0, 0.4).sample(2000, seed=0))
    >>> harmonic_fields(torus).shape
    (2000, 2, 2)
    """
    condition = _checked_condition(boundary)
    signs = host(orientation(bundle))
    frames = _frames(bundle)
    triangles = _triangles(bundle, frames, signs)
    rough = harmonic_basis(triangles, frames, condition)
    if not rough.shape[1]:
        return bundle.kind.wrap(torch.zeros(bundle.num_points, 2, 0, dtype=bundle.kind.dtype))
    potentials = TrianglePotentials(triangles, frames, condition)
    split = TriangleSplit(FieldMaps(bundle, None), potentials, torch.device("cpu"))
    along_curve = torch.from_numpy(rough).unflatten(0, (-1, 2))
    basis = host(split(along_curve, tol=1e-7).remainder.flatten(0, 1))  # what means left
    roots = np.sqrt(np.repeat(potentials.mass, 2))[:, None]
    vectors, values, _ = np.linalg.svd(roots * basis, full_matrices=False)
    if values[-1] < INDEPENDENT * values[0]:
        raise RankDeficientError(
            f"{len(values)} harmonic fields of the triangles are not independent at their corners: "
            "the surface is too coarse for its holes. Use more points."
        )
    along_curve = torch.from_numpy(vectors / roots).unflatten(0, (-1, 2))
    return bundle.kind.wrap(bundle.cloud.in_user_order(along_curve).to(bundle.kind.dtype))


def _shares_of_energy(fields: dict[str, Tensor], mass: Tensor) -> dict[str, Tensor]:
    """The share of each of some fields ``(..., n, d, c)`` in their squared mass norms,
    ``(..., c)``."""
    squares = {
        name: torch.einsum("n,...ndc->...c", mass, field.square()) for name, field in fields.items()
    }
    total = torch.stack(list(squares.values())).sum(0)
    total = total.clamp_min(torch.finfo(torch.float64).tiny)
    return {name: square / total for name, square in squares.items()}
