r"""The Hodge Laplacian of vector fields, by the formula of Weitzenboeck.

The connection Laplacian and the Ricci curvature give :math:`\Delta_H = \Delta - \mathrm{Ric} = \nabla
\operatorname{div} + \dots`, whose kernel are the harmonic fields. The average P is close to the heat flow
:math:`e^{c\epsilon\Delta}`, so that by the splitting of Strang

.. math:: P_H = e^{-c\epsilon \mathrm{Ric}/2}\, P\, e^{-c\epsilon \mathrm{Ric}/2} \approx e^{c\epsilon\Delta_H}
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..arrays import Array, float_tensor
from ..errors import AccuracyWarning, NotOrientableError, ShapeError
from ..operators import ConnectionLaplacian
from ..operators.storage import BlockMatrix
from .boundary import has_boundary
from .curvature import curvature
from .orientation import orientation

if TYPE_CHECKING:
    from ..bundle import TangentBundle


def with_potential(laplacian: ConnectionLaplacian, potential: torch.Tensor) -> ConnectionLaplacian:
    r"""The operator :math:`\Delta - V` for symmetric matrices V ``(n, d, d)`` in the user's order.

    For d = 2 only the trace of V is used: on surfaces the Ricci tensor is a multiple of the identity.
    """
    matrix = BlockMatrix(laplacian.indptr, laplacian.cols, laplacian.values, laplacian.order)
    along = -laplacian.scale / 2 * potential.to(laplacian.values).index_select(0, laplacian.order.long())
    rows, columns = torch.repeat_interleave(laplacian.indptr.diff()), matrix.columns()
    if laplacian.dim == 2:
        factor = torch.exp(torch.einsum("nii->n", along) / 2)[:, None]
        return replace(laplacian, values=factor[rows] * laplacian.values * factor[columns])
    factor = torch.linalg.matrix_exp(along)
    return replace(laplacian, values=factor[rows] @ laplacian.values @ factor[columns])


def hodge_laplacian(bundle: TangentBundle, ricci: Array | None = None) -> ConnectionLaplacian:
    r"""The Hodge Laplacian :math:`\Delta_H = \Delta - \mathrm{Ric} \le 0` of vector fields.

    It acts on signals and is used like the connection Laplacian: by filters, networks and ``spectrum``. At a boundary
    the normal derivative of each component, in parallel frames, is zero; harmonic fields with that condition are
    not counted by a Betti number.

    Args:
        ricci: exact Ricci tensors ``(n, d, d)`` in the frames, where they are known; default estimated.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(2000, seed=0))
    >>> bundle.hodge().spectrum(6)[0].round(1).tolist()               # gradients and rotated gradients, l (l + 1)
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    laplacian = bundle.laplacian()
    tensors = float_tensor(curvature(bundle).ricci if ricci is None else ricci, "ricci")[0]
    if tensors.shape != (shape := (bundle.num_points, bundle.dim, bundle.dim)):
        raise ShapeError(f"ricci must have shape (n, d, d) = {shape}, got {tuple(tensors.shape)}.")
    return with_potential(laplacian, tensors.to(laplacian.device))


def betti_number(bundle: TangentBundle, *, most: int = 12, ricci: Array | None = None) -> int:
    r"""The first Betti number of a closed manifold: the number of independent harmonic fields.

    Eigenvalues of the Hodge Laplacian below half of the first positive eigenvalue of functions count as zero. On closed
    oriented surfaces each positive eigenvalue of functions occurs twice: there fields are counted up to the middle of
    the widest gap among the first of these, less two for each function below. Eigenvalues in the middle half of the gap
    give an ``AccuracyWarning``.

    Args:
        most: the answer is at most this number; a third of so many eigenvalues of functions are looked at.

    >>> import tangentbundle as tb
    >>> betti_number(tb.TangentBundle.from_points(tb.manifolds.Torus(1.0, 0.4).sample(2000, seed=0)))
    2
    """
    components, below = int(bundle.sorted_graph.components().max()) + 1, 0
    ends = np.asarray(bundle.scalar().laplacian().spectrum(components + max(1, most // 3), tol=1e-6)[0])[
        components - 1 :
    ]
    closed = not has_boundary(bundle)
    if bundle.dim == 2 and closed:
        with suppress(NotOrientableError):
            orientation(bundle)
            below = int(np.argmax(np.diff(ends)))
    low, high = ends[below : below + 2]
    values = np.asarray(hodge_laplacian(bundle, ricci).spectrum(most + 2 * below, tol=1e-6)[0])
    between, text = int((np.abs(values - (low + high) / 2) < (high - low) / 4).sum()), ""
    if not closed:
        text = "the manifold has a boundary, where the Hodge Laplacian has a condition of its own: the number of its "
        text += "harmonic fields is not a Betti number."
    elif between:
        text = f"{between} eigenvalues of the Hodge Laplacian lie in the middle half of {low:.3g} to {high:.3g}, where "
        text += "functions have none: harmonic fields are not separated from others. Use more points."
    if text:
        warnings.warn(text, AccuracyWarning, stacklevel=2)
    return int((values < (low + high) / 2).sum()) - 2 * below
