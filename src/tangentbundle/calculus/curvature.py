r"""Curvature from the second fundamental form, by the equation of Gauss.

The fit of the points themselves, :math:`x_j - x_i \approx A y + \tfrac12 B[y, y]`, gives the metric :math:`A^T A` in
the coordinates y, and the second fundamental form: the part of B that is normal to the columns of A.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Array
from ..errors import InvalidInputError
from .fit import LocalFit, local_fit, monomials

if TYPE_CHECKING:
    from ..bundle import TangentBundle


@dataclass(frozen=True, eq=False)
class Curvature:
    r"""Curvatures of a manifold at its sampled points, in the user's order.

    Attributes: ``second_form`` (n, D, d, d) maps two tangent vectors, in coordinates of the frames, to a normal vector;
    ``ricci`` (n, d, d) is the Ricci tensor :math:`\sum_c \mathrm{II}_{ab}\cdot\mathrm{II}_{cc} -
    \mathrm{II}_{ac}\cdot\mathrm{II}_{cb}`.

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
            raise InvalidInputError(f"Gaussian curvature belongs to surfaces, d = 2, and here d = {d}; use ricci.")
        return self.scalar / 2

    @property
    def mean(self) -> Array:
        """The mean curvature vector ``(n, D)``, the trace of the second fundamental form over d."""
        axes = range(self.ricci.shape[1])
        return self.second_form[:, :, axes, axes].sum(2) / len(axes)


def fit_surface(bundle: TangentBundle, fit: LocalFit) -> tuple[np.ndarray, np.ndarray]:
    """Tangents A ``(n, D, d)`` and second derivatives B ``(n, D, d, d)`` of the fit of the points, along the curve."""
    d, points = bundle.dim, bundle.sorted_points
    centred = points - points.mean(axis=0)
    sums = np.stack([fit.matrix(w[:, None, None]) @ centred for w in fit.weights.T], axis=2)
    second = np.empty((*points.shape, d, d))
    for place, (a, b) in enumerate(monomials(d, 2)[d:, :2].tolist(), start=d):
        second[:, :, a, b] = second[:, :, b, a] = sums[:, :, place] * (2.0 if a == b else 1.0)
    return sums[:, :, :d], second


def curvature(bundle: TangentBundle, degree: int | None = None, neighbors: int | None = None) -> Curvature:
    """Curvatures of the manifold of a bundle: exact if it knows them, otherwise by a fit; see ``Derivatives``."""
    frames = bundle.sorted_frames
    if bundle.second_form is not None and frames is not None and degree is None and neighbors is None:
        form = bundle.second_form(bundle.sorted_points, frames)
    else:
        count = len(monomials(bundle.dim, 2))
        first, second = fit_surface(bundle, local_fit(bundle, degree, neighbors, keep=count))
        values, vectors = np.linalg.eigh(first.transpose(0, 2, 1) @ first)
        root = (vectors / np.sqrt(values)[:, None]) @ vectors.transpose(0, 2, 1)  # orthonormal coordinates
        tangents = first @ root
        form = second - np.einsum("nxe,nye,nyab->nxab", tangents, tangents, second)
        form = np.einsum("nxab,nac,nbd->nxcd", form, root, root)
    trace = np.trace(form, axis1=2, axis2=3)
    ricci = np.einsum("nxab,nx->nab", form, trace) - np.einsum("nxac,nxcb->nab", form, form)
    return Curvature(*(bundle.kind.wrap(bundle._unsorted(a)) for a in (form, ricci)))
