"""What a field of directions follows besides being smooth: curvature, or given directions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator as ScipyOperator
from scipy.sparse.linalg import cg
from torch import Tensor

from ..arrays import Array, float_tensor, host, positive
from ..bundle import TangentBundle
from ..calculus.powers import power_of_vectors
from ..errors import ConvergenceError, InvalidInputError, ShapeError
from ..filters import Tikhonov
from ..operators import Laplacian

MIN_ANISOTROPY = 1e-6
"""Difference of principal curvatures, in units of the root mean square of all, below which a
surface has no principal directions."""

TOLERANCE = 1e-9
"""Relative residual of the directions between fixed ones."""


class Alignment(ABC):
    """What directions follow."""

    @abstractmethod
    def powers(self, bundle: TangentBundle, laplacian: Laplacian, order: int) -> Tensor:
        """The n-th powers ``(n, 2, 1)`` of the aligned directions in the user's order, float64.
        ``laplacian`` is that of powers."""


@dataclass(frozen=True)
class Curvature(Alignment):
    r"""Directions along those of principal curvature, smoothed.

    With the second fundamental form :math:`h_{ab}`, its mean H and its part without trace as a
    complex number q, lines (n = 2) follow the direction of the larger absolute curvature,
    :math:`q \cdot H`, and crosses (n = 4) both, :math:`q \cdot q`, summed over normals. The powers
    are smoothed by :math:`(1 - a \Delta)^{-1}`: where the curvature is the same in all directions,
    they come from the surroundings.

    Args:
        smoothing: a, in units of the mean squared distance of the points from their centre.

    >>> import numpy as np, tangentbundle as tb
    >>> torus = tb.manifolds.Torus(1.0, 0.4)
    >>> points = torus.sample(3000, seed=0)
    >>> bundle = tb.TangentBundle.from_points(points, dim=2)
    >>> around_tube = tb.smoothest_field(bundle, order=2, alignment=Curvature()).vectors()[0]
    >>> east = torus.tangent_field(points) / np.hypot(*points[:, :2].T)[:, None]
    >>> bool(np.median(np.abs((around_tube * east).sum(axis=1))) < 0.02)
    True
    """

    smoothing: float = 0.1

    def powers(self, bundle: TangentBundle, laplacian: Laplacian, order: int) -> Tensor:
        strength = positive(self.smoothing, "smoothing") * _mean_square_radius(bundle)
        target = _principal_powers(bundle, order).to(laplacian.device, laplacian.dtype)
        return Tikhonov(strength)(laplacian, target).cpu().double()


@dataclass(frozen=True, eq=False)
class Fixed(Alignment):
    """The smoothest directions that have given values at some points.

    Args:
        points: the numbers of the points ``(s,)``.
        vectors: one of the representatives at each as ambient vectors ``(s, D)``.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(1000, seed=0)
    >>> bundle = tb.TangentBundle.from_points(points)
    >>> along = bundle.frames[7][:, 0]
    >>> field = tb.smoothest_field(bundle, order=4, alignment=Fixed([7], along[None]))
    >>> bool(np.isclose((field.vectors()[:, 7] @ along).max(), 1.0))
    True
    """

    points: Any
    vectors: Array

    def powers(self, bundle: TangentBundle, laplacian: Laplacian, order: int) -> Tensor:
        rows = self._rows(bundle)
        values = torch.zeros(bundle.num_points, 2, 1, dtype=torch.float64)
        values[rows, :, 0] = power_of_vectors(self._coordinates(bundle, rows), order)
        is_fixed = torch.zeros(bundle.num_points, dtype=torch.bool)
        is_fixed[rows] = True
        _require_fixed_components(bundle, is_fixed)
        return _interpolated(laplacian, values, is_fixed)

    def _rows(self, bundle: TangentBundle) -> Tensor:
        """The numbers of the fixed points, checked."""
        numbers = np.atleast_1d(host(self.points, "points"))
        n = bundle.num_points
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or not len(numbers):
            raise InvalidInputError(
                f"points must be the numbers (s,) of fixed points, got {self.points!r}."
            )
        if numbers.min() < 0 or numbers.max() >= n:
            raise InvalidInputError(
                f"points must be numbers of the {n} points, 0 to {n - 1}, got {numbers.min()} to "
                f"{numbers.max()}."
            )
        if len(np.unique(numbers)) < len(numbers):
            raise InvalidInputError("points must be different; one is given twice.")
        return torch.from_numpy(numbers.astype(np.int64))

    def _coordinates(self, bundle: TangentBundle, rows: Tensor) -> Tensor:
        """The given directions as unit vectors ``(s, 2)`` in the frames of their points."""
        vectors = float_tensor(self.vectors, "vectors")[0].cpu().double()
        shape = (len(rows), bundle.ambient_dim)
        if vectors.shape != shape:
            raise ShapeError(
                f"vectors must have shape (s, D) = {shape}, one for each fixed point, got "
                f"{tuple(vectors.shape)}."
            )
        frames = torch.as_tensor(bundle.frames).cpu().double()[rows]
        coordinates = torch.einsum("sda,sd->sa", frames, vectors)
        lengths = torch.linalg.vector_norm(coordinates, dim=1, keepdim=True)
        if bool((lengths <= 0).any()):
            raise InvalidInputError(
                "vectors must have a tangent part, and that of fixed point "
                f"{int(rows[lengths.argmin()])} is zero."
            )
        return coordinates / lengths


def _mean_square_radius(bundle: TangentBundle) -> float:
    """The mean squared distance of the points from their centre."""
    mass = bundle.sorted_masses()
    weights = mass / mass.sum()
    centred = bundle.cloud.points - weights @ bundle.cloud.points
    return float(weights @ centred.square().sum(dim=1))


def _principal_powers(bundle: TangentBundle, order: int) -> Tensor:
    """The n-th powers ``(n, 2, 1)`` of principal directions, large where they are distinct."""
    if order % 2:
        raise InvalidInputError(
            "directions of principal curvature are lines, and their fields have an even order, "
            f"got order={order}."
        )
    form = torch.as_tensor(bundle.curvature().second_form).cpu().double()
    mean = (form[:, :, 0, 0] + form[:, :, 1, 1]) / 2
    real = (form[:, :, 0, 0] - form[:, :, 1, 1]) / 2
    traceless = torch.complex(real, form[:, :, 0, 1])
    scale = float(form.square().mean().sqrt())
    if float(traceless.abs().square().mean().sqrt()) <= MIN_ANISOTROPY * scale:
        raise InvalidInputError(
            "the curvature of this surface is the same in all directions, so that there are no "
            "principal ones. Leave alignment out."
        )
    if order % 4:
        base = (traceless * mean).sum(dim=1)
        exponent = order // 2
    else:
        base = traceless.square().sum(dim=1)
        exponent = order // 4
    largest = base.abs().max().clamp_min(1e-300)
    power = (base / largest) ** exponent
    return torch.stack([power.real, power.imag], dim=1)[:, :, None]


def _require_fixed_components(bundle: TangentBundle, is_fixed: Tensor) -> None:
    """Refuse components of the graph in which no direction is fixed."""
    graph = bundle.sorted_graph
    labels = graph.components.cpu()
    has_fixed = torch.zeros(graph.num_components, dtype=torch.bool)
    has_fixed[labels[is_fixed[bundle.cloud.curve_order.cpu()]]] = True
    if not bool(has_fixed.all()):
        raise InvalidInputError(
            f"no direction is fixed in {int((~has_fixed).sum())} of {len(has_fixed)} connected "
            "components. Fix one in each."
        )


def _interpolated(laplacian: Laplacian, values: Tensor, is_fixed: Tensor) -> Tensor:
    """The field of least energy with these ``values`` (n, 2, 1) at the fixed points, which vanish
    at the others."""
    operator = laplacian.in_double
    device = operator.device
    roots = operator.mass.sqrt()[:, None, None]
    is_free = (~is_fixed).double().to(device)[:, None, None]

    def scaled_energy(x: Tensor) -> Tensor:
        """The energy of a field that is given, and returned, times the root of the mass."""
        return -roots * (operator @ (x / roots))

    def on_free_points(x: np.ndarray) -> np.ndarray:
        field = torch.from_numpy(x).to(device).reshape(values.shape)
        return (is_free * scaled_energy(is_free * field)).cpu().numpy().ravel()

    size = values.numel()
    right = -is_free * scaled_energy(roots * values.to(device))
    solution, status = cg(
        ScipyOperator((size, size), matvec=on_free_points, dtype=np.float64),
        right.cpu().numpy().ravel(),
        rtol=TOLERANCE,
        maxiter=size,
    )
    if status != 0:
        raise ConvergenceError(
            "directions between the fixed ones did not converge. Triangles of very different sizes "
            "may be the reason: use a mesh with fewer slivers."
        )
    free = torch.from_numpy(solution).to(device).reshape(values.shape) / roots
    return values + (is_free * free).cpu()
