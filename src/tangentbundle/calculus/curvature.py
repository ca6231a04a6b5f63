r"""Curvature by the equation of Gauss, and the Hodge Laplacian by the formula of Weitzenboeck.

The fit of the points themselves, :math:`x_j - x_i \approx A y + \tfrac12 B[y, y]`, gives the metric
:math:`A^T A` in the coordinates y, and the second fundamental form: the part of B that is normal to
the columns of A.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..arrays import Array, float_tensor
from ..errors import InvalidInputError, ShapeError, UndeterminedError
from ..operators import Laplacian
from ..parallel import threads_by_size
from .fit import Piece, local_fits, monomials

if TYPE_CHECKING:
    from ..bundle import TangentBundle


@dataclass(frozen=True, eq=False)
class Curvature:
    r"""Curvatures of a manifold at its sampled points, in the user's order.

    Attributes: ``second_form`` (n, D, d, d) maps two tangent vectors, in coordinates of the frames,
    to a normal vector; ``ricci`` (n, d, d) is the Ricci tensor
    :math:`\sum_c \mathrm{II}_{ab}\cdot\mathrm{II}_{cc} - \mathrm{II}_{ac}\cdot\mathrm{II}_{cb}`.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2, radius=2.0).sample(2000, seed=0)
    >>> curvature = tb.TangentBundle.from_points(points).curvature()
    >>> round(float(np.median(curvature.gaussian)), 2), curvature.ricci.shape
    (0.25, (2000, 2, 2))
    """

    second_form: Array
    ricci: Array

    @property
    def scalar(self) -> Array:
        """The scalar curvature ``(n,)``, the trace of the Ricci tensor."""
        axes = range(self.ricci.shape[1])
        return self.ricci[:, axes, axes].sum(1)

    @property
    def gaussian(self) -> Array:
        """The Gaussian curvature ``(n,)`` of a surface: half of the scalar curvature."""
        if (d := self.ricci.shape[1]) != 2:
            raise InvalidInputError(
                f"Gaussian curvature belongs to surfaces, d = 2, and here d = {d}; use ricci."
            )
        return self.scalar / 2


def fit_surface(bundle: TangentBundle, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
    """Tangents A ``(m, D, d)`` and second derivatives B ``(m, D, d, d)`` of the fit of the points
    themselves."""
    d, points = bundle.dim, bundle.sorted_points
    sums = (points[piece.lists] - points[piece.rows, None]).transpose(0, 2, 1) @ piece.weights
    second = np.empty((*sums.shape[:2], d, d))
    for place, (a, b) in enumerate(monomials(d, 2)[d:, :2].tolist(), start=d):
        second[:, :, a, b] = second[:, :, b, a] = sums[:, :, place] * (2.0 if a == b else 1.0)
    return sums[:, :, :d], second


@threads_by_size
def curvature(
    bundle: TangentBundle, degree: int | None = None, neighbors: int | None = None
) -> Curvature:
    """Curvatures of the manifold of a bundle: exact if it knows them, otherwise by a fit; see
    ``Derivatives``."""
    frames = bundle.sorted_frames
    if (
        bundle.second_form is not None
        and frames is not None
        and degree is None
        and neighbors is None
    ):
        form = bundle.second_form(bundle.sorted_points, frames)
    else:
        form = np.empty((*bundle.sorted_points.shape, bundle.dim, bundle.dim))
        for piece in local_fits(bundle, degree, neighbors, keep=len(monomials(bundle.dim, 2))):
            first, second = fit_surface(bundle, piece)
            values, vectors = np.linalg.eigh(first.transpose(0, 2, 1) @ first)
            root = (vectors / np.sqrt(values)[:, None]) @ vectors.transpose(
                0, 2, 1
            )  # orthonormal coordinates
            tangents = first @ root
            flat = second.reshape(*second.shape[:2], bundle.dim**2)  # a view
            flat -= tangents @ (tangents.transpose(0, 2, 1) @ flat)
            form[piece.rows] = root[:, None] @ second @ root[:, None]  # the root is symmetric
    trace = np.trace(form, axis1=2, axis2=3)
    ricci = np.einsum("nxab,nx->nab", form, trace) - np.einsum("nxac,nxcb->nab", form, form)
    return Curvature(*(bundle.kind.wrap(bundle._unsorted(a)) for a in (form, ricci)))


@threads_by_size
def hodge_laplacian(bundle: TangentBundle, ricci: Array | None = None) -> Laplacian:
    r"""The Hodge Laplacian :math:`\Delta_H = \Delta - \mathrm{Ric} \le 0` of vector fields.

    The average P is close to the heat flow :math:`e^{c\epsilon\Delta}`, and is replaced by
    :math:`P_H = e^{-c\epsilon \mathrm{Ric}/2}\, P\, e^{-c\epsilon \mathrm{Ric}/2}` (Strang's
    splitting). The operator is used like the connection Laplacian: by filters, networks and
    ``spectrum``. At a boundary the normal derivative of each component, in parallel frames, is
    zero; harmonic fields with that condition are not counted by a Betti number.

    Args:
        ricci: exact Ricci tensors ``(n, d, d)`` in the frames, where they are known; default
            estimated.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(2000, seed=0))
    >>> # gradients and rotated gradients, l (l + 1)
    >>> bundle.hodge().spectrum(6)[0].round(1).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    laplacian, shape = bundle.laplacian(), (bundle.num_points, bundle.dim, bundle.dim)
    tensors = float_tensor(curvature(bundle).ricci if ricci is None else ricci, "ricci")[0]
    if tensors.shape != shape:
        raise ShapeError(f"ricci must have shape (n, d, d) = {shape}, got {tuple(tensors.shape)}.")
    average = laplacian.average
    order, values = average.curve_order.long(), average.values
    along = -laplacian.scale / 2 * tensors.to(values)[order]
    rows, columns = torch.repeat_interleave(average.indptr.diff()), average.columns()
    if bundle.dim == 2:  # multiples of the identity: two numbers an edge are enough
        factor = torch.exp(torch.einsum("nii->n", along) / 2)[:, None]
        _require_finite(factor)
        values = factor[rows] * values * factor[columns]
        return replace(laplacian, average=replace(average, values=values))
    factor = torch.linalg.matrix_exp(along)
    _require_finite(factor)
    values = factor[rows] @ values @ factor[columns]
    return replace(laplacian, average=replace(average, values=values))


def _require_finite(factor: torch.Tensor) -> None:
    """Refuse curvatures whose exponentials are not numbers."""
    finite = torch.isfinite(factor).flatten(1).all(dim=1)
    if not bool(finite.all()):
        raise UndeterminedError(
            f"expected curvatures that the points resolve, and those of {int((~finite).sum())} of "
            f"{len(finite)} points are out of range: the points are noisy or degenerate. Denoise "
            "them, or give ricci or exact frames and curvature (from_frames with second_form)."
        )
