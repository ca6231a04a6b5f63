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

from ..arrays import Array, float_tensor, host
from ..errors import NoGapWarning, NotOrientableError, ShapeError
from ..operators import ConnectionLaplacian
from .curvature import curvature
from .topology import has_boundary, orientation

if TYPE_CHECKING:
    from ..bundle import TangentBundle


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
    laplacian, shape = bundle.laplacian(), (bundle.num_points, bundle.dim, bundle.dim)
    tensors = float_tensor(curvature(bundle).ricci if ricci is None else ricci, "ricci")[0].detach()
    if tensors.shape != shape:
        raise ShapeError(f"ricci must have shape (n, d, d) = {shape}, got {tuple(tensors.shape)}.")
    order, values = laplacian.order.long(), laplacian.values
    along = -laplacian.scale / 2 * tensors.to(values)[order]
    rows, cols = torch.repeat_interleave(laplacian.indptr.diff()), laplacian.cols
    columns = torch.where(cols < 0, ~cols, cols).long()  # reflections are marked by complements
    if bundle.dim == 2:  # the tensor is a multiple of the identity, and there are two numbers an edge
        factor = torch.exp(torch.einsum("nii->n", along) / 2)[:, None]
        return replace(laplacian, values=factor[rows] * values * factor[columns])
    factor = torch.linalg.matrix_exp(along)
    return replace(laplacian, values=factor[rows] @ values @ factor[columns])


def betti_number(bundle: TangentBundle, *, most: int = 12, ricci: Array | None = None) -> int:
    r"""The first Betti number of a closed manifold: the number of independent harmonic fields.

    Eigenvalues of the Hodge Laplacian below half of the first positive eigenvalue of functions count as zero. On closed
    oriented surfaces each positive eigenvalue of functions occurs twice: there fields are counted up to the middle of
    the widest gap among the first of these, less two for each function below. Eigenvalues in the middle half of the gap
    give a ``NoGapWarning``.

    Args:
        most: the answer is at most this number; a third of so many eigenvalues of functions are looked at.

    >>> import tangentbundle as tb
    >>> betti_number(tb.TangentBundle.from_points(tb.manifolds.Torus(1.0, 0.4).sample(2000, seed=0)))
    2
    """
    components, closed = int(bundle.sorted_graph.components().max()) + 1, not has_boundary(bundle)
    functions, _ = bundle.scalar().laplacian().spectrum(components + max(1, most // 3), tol=1e-6)
    ends, below = host(functions)[components - 1 :], 0
    if bundle.dim == 2 and closed:
        with suppress(NotOrientableError):
            orientation(bundle)
            below = int(np.argmax(np.diff(ends)))
    low, high = ends[below : below + 2]
    values = host(hodge_laplacian(bundle, ricci).spectrum(most + 2 * below, tol=1e-6)[0])
    if not closed:
        text = "the manifold has a boundary, where the Hodge Laplacian has a condition of its own: the number of its "
        warnings.warn(text + "harmonic fields is not a Betti number.", NoGapWarning, stacklevel=2)
    elif between := int((np.abs(values - (low + high) / 2) < (high - low) / 4).sum()):
        text = f"{between} eigenvalues of the Hodge Laplacian lie in the middle half of {low:.3g} to {high:.3g}, where "
        text += "functions have none: harmonic fields are not separated from others. Use more points."
        warnings.warn(text, NoGapWarning, stacklevel=2)
    return int((values < (low + high) / 2).sum()) - 2 * below
