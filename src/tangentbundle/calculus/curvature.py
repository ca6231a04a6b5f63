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
from torch import Tensor

from ..arrays import Array, float_tensor, host
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
        d = self.ricci.shape[1]
        if d != 2:
            raise InvalidInputError(
                f"Gaussian curvature belongs to surfaces, d = 2, and here d = {d}; use ricci."
            )
        return self.scalar / 2


def fit_surface(points: Tensor, piece: Piece, dim: int) -> tuple[Tensor, Tensor]:
    """Tangents A ``(m, D, d)`` and second derivatives B ``(m, D, d, d)`` of the fit of the points
    ``(n, D)`` themselves, on the CPU and along the curve."""
    steps = points[piece.lists] - points[piece.rows, None]
    coefficients = steps.mT @ piece.weights
    second = coefficients.new_empty((*coefficients.shape[:2], dim, dim))
    quadratic = monomials(dim, 2)[dim:]
    for place, (a, b, _, orders) in enumerate(quadratic.tolist(), start=dim):
        # the coefficient of a product of two variables is their second derivative, and that of a
        # square is half of it
        derivative = coefficients[:, :, place] * (2.0 / orders)
        second[:, :, a, b] = derivative
        second[:, :, b, a] = derivative
    return coefficients[:, :, :dim], second


@threads_by_size
def curvature(
    bundle: TangentBundle, degree: int | None = None, neighbors: int | None = None
) -> Curvature:
    """Curvatures of the manifold of a bundle: exact if it knows them, otherwise by a fit; see
    ``Derivatives``."""
    form = None
    if degree is None and neighbors is None:
        form = _known_second_form(bundle)
    if form is None:
        form = _fitted_second_form(bundle, degree, neighbors)
    trace = torch.einsum("nxaa->nx", form)
    ricci = torch.einsum("nxab,nx->nab", form, trace) - torch.einsum("nxac,nxcb->nab", form, form)
    return Curvature(
        second_form=bundle.kind.wrap(bundle.cloud.in_user_order(form)),
        ricci=bundle.kind.wrap(bundle.cloud.in_user_order(ricci)),
    )


def _known_second_form(bundle: TangentBundle) -> Tensor | None:
    """The exact second fundamental form ``(n, D, d, d)`` along the curve, if the bundle knows
    it."""
    if bundle.second_form is None or bundle.tangent_frames is None:
        return None
    form = bundle.second_form(host(bundle.cloud.points), host(bundle.tangent_frames.matrices))
    return torch.from_numpy(np.asarray(form))


def _fitted_second_form(bundle: TangentBundle, degree: int | None, neighbors: int | None) -> Tensor:
    """The second fundamental form ``(n, D, d, d)`` of the fits of the points, along the curve."""
    points = bundle.cloud.points.cpu()
    d = bundle.dim
    form = points.new_empty((*points.shape, d, d))
    for piece in local_fits(bundle, degree, neighbors, keep=len(monomials(d, 2))):
        first, second = fit_surface(points, piece, d)
        values, vectors = torch.linalg.eigh(first.mT @ first)
        root = (vectors / values.sqrt()[:, None]) @ vectors.mT
        tangents = first @ root  # orthonormal
        derivatives = second.flatten(2)
        normal = derivatives - tangents @ (tangents.mT @ derivatives)
        along = root[:, None]
        form[piece.rows] = along @ normal.unflatten(2, (d, d)) @ along  # the root is symmetric
    return form


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
    laplacian = bundle.laplacian()
    if ricci is None:
        ricci = curvature(bundle).ricci
    tensors, _ = float_tensor(ricci, "ricci")
    shape = (bundle.num_points, bundle.dim, bundle.dim)
    if tensors.shape != shape:
        raise ShapeError(f"ricci must have shape (n, d, d) = {shape}, got {tuple(tensors.shape)}.")
    average = laplacian.average
    along_curve = tensors.to(average.values)[average.curve_order.long()]
    exponents = -laplacian.scale / 2 * along_curve
    rows = torch.repeat_interleave(average.indptr.diff())
    columns = average.columns()
    if bundle.dim == 2:  # multiples of the identity: two numbers an edge are enough
        mean_exponents = torch.einsum("nii->n", exponents) / 2
        factors = mean_exponents.exp()[:, None]
        _require_finite(factors)
        values = factors[rows] * average.values * factors[columns]
    else:
        factors = torch.linalg.matrix_exp(exponents)
        _require_finite(factors)
        values = factors[rows] @ average.values @ factors[columns]
    return replace(laplacian, average=replace(average, values=values))


def _require_finite(factors: Tensor) -> None:
    """Refuse curvatures whose exponentials are not numbers."""
    is_finite = factors.isfinite().flatten(1).all(dim=1)
    if not bool(is_finite.all()):
        raise UndeterminedError(
            "expected curvatures that the points resolve, and those of "
            f"{int((~is_finite).sum())} of {len(is_finite)} points are out of range: the points "
            "are noisy or degenerate. Denoise them, or give ricci or exact frames and curvature "
            "(from_frames with second_form)."
        )
