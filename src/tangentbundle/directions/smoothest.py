"""The smoothest field of directions on a surface."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..bundle import TangentBundle
from ..errors import InvalidInputError
from ..operators import Laplacian
from ..parallel import threads_by_size
from .alignment import Alignment
from .field import DirectionField

TOLERANCE = 1e-6
"""Residual of the first eigenfield, in units of an average: that of its energy is the square. On
symmetric surfaces many eigenvalues nearly agree, and less takes long."""


@threads_by_size
def smoothest_field(
    bundle: TangentBundle, *, order: int = 4, alignment: Alignment | None = None
) -> DirectionField:
    r"""The smoothest field of directions with ``order`` representatives on a surface.

    Of all powers u with :math:`\int |u|^2 = 1` those of the smoothest field have the least energy
    :math:`\int |\nabla u|^2`: they are the first eigenfield of the Laplacian of ``bundle.power(n)``
    on each component, a global optimum (Knoeppel, Crane, Pinkall and Schroeder, 2013). Without an
    alignment, all directions of a component may be turned by one common angle.

    Args:
        bundle: of a mesh, or of a cloud of a surface, d = 2; it need not be orientable.
        order: n, 1 for vectors, 2 for lines, 4 for crosses.
        alignment: ``directions.Curvature()`` or ``directions.Fixed(points, vectors)``.

    >>> import tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(3000, seed=0)
    >>> crosses = smoothest_field(tb.TangentBundle.from_points(points), order=4)
    >>> crosses.vectors().shape
    (4, 3000, 3)
    >>> crosses.singularities().index.tolist()  # the corners of an antiprism
    [0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25]
    """
    laplacian = bundle.power(order).laplacian()
    if alignment is None:
        powers = _first_eigenfields(bundle, laplacian)
    elif isinstance(alignment, Alignment):
        powers = alignment.powers(bundle, laplacian, order)
    else:
        raise InvalidInputError(
            "alignment must be directions.Curvature() or directions.Fixed(points, vectors), got "
            f"{alignment!r}."
        )
    return DirectionField(bundle, order, bundle.kind.wrap(powers.to(bundle.kind.dtype)))


def _first_eigenfields(bundle: TangentBundle, laplacian: Laplacian) -> Tensor:
    """The first eigenfield on each component, ``(n, 2, 1)`` in the user's order."""
    graph = bundle.sorted_graph
    if graph.num_components == 1:
        return torch.as_tensor(laplacian.spectrum(1, tol=TOLERANCE)[1])
    powers = torch.empty(bundle.num_points, 2, 1, dtype=torch.float64)
    for label in range(graph.num_components):
        rows = (graph.components == label).nonzero().flatten()
        numbers = bundle.cloud.curve_order[rows].cpu().sort().values
        part = _restricted(laplacian, rows)
        powers[numbers] = torch.as_tensor(part.spectrum(1, tol=TOLERANCE)[1]).cpu()
    return powers


def _restricted(laplacian: Laplacian, rows: Tensor) -> Laplacian:
    """The Laplacian of some points, ``rows`` along the curve, that have no edges to others."""
    average = laplacian.average
    order = average.curve_order.long()
    n = len(order)
    is_included = torch.zeros(n, dtype=torch.bool, device=order.device)
    is_included[rows] = True
    degrees = average.indptr.diff()
    on_edges = is_included.repeat_interleave(degrees)
    places = torch.cumsum(is_included, 0) - 1
    columns = places[average.columns()[on_edges]].to(average.cols.dtype)
    columns = torch.where(average.cols[on_edges] < 0, ~columns, columns)
    numbers = order[rows]
    mass = laplacian.mass[numbers.sort().values]
    part = replace(
        average,
        indptr=pad(degrees[rows].cumsum(0), (1, 0)),
        cols=columns,
        values=average.values[on_edges],
        curve_order=numbers.argsort().argsort().to(average.curve_order.dtype),
    )
    return replace(laplacian, average=part, mass=mass / mass.sum(), sorted_frames=None)
