"""Diagnostics of a bundle: locality of the scale, connectedness, orientability, tangency of a
field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from .arrays import Array, float_tensor, median
from .calculus.orientation import orientability
from .errors import NotTangentWarning, warn

if TYPE_CHECKING:
    from .bundle import TangentBundle

MAX_NORMAL_SHARE = 0.1
"""Share of a field's energy normal to the tangent spaces above which there is a warning."""


@dataclass(frozen=True)
class Diagnosis:
    """The result of ``TangentBundle.diagnose``; ``print`` shows it as a table.

    Attributes: ``neighbors`` (smallest, median, largest number), ``components``,
    ``neighborhood_share`` (share of the points in a median neighbourhood), ``dimension_histogram``
    {dimension: number of sampled points}, ``frame_residual`` (median, worst share of a
    neighbourhood's variance normal to the tangent space), ``orientable``, ``consistent`` (frames
    can be flipped so that every transport is a rotation), ``frustration`` (share of edges that
    remain reflections), ``normal_share`` (share of a field's energy that is not tangent), ``mesh``
    (a description, if any).
    """

    num_points: int
    dim: int
    eps: float
    neighbors: tuple[int, float, int]
    components: int
    neighborhood_share: float
    dimension_histogram: dict[int, int] | None
    frame_residual: tuple[float, float] | None
    orientable: bool
    consistent: bool
    frustration: float
    normal_share: float | None
    mesh: str | None = None

    def __str__(self) -> str:
        return "\n".join(f"{name:<26}{value}" for name, value in self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        """The names and values that are printed."""
        lowest, middle, highest = self.neighbors
        rows = [("points, dimension", f"{self.num_points}, {self.dim}")]
        if self.mesh is not None:
            rows.append(("mesh", self.mesh))
        else:
            rows.append(("scale eps", f"{self.eps:.4g} (radius {self.eps**0.5:.4g})"))
        rows.append(("neighbours per point", f"{lowest} to {highest}, median {middle:.0f}"))
        rows.append(("neighbourhood size", f"{self.neighborhood_share:.1%} of the points"))
        rows.append(("components", f"{self.components}"))
        if self.dimension_histogram is not None:
            counts = ", ".join(f"{d}: {count}" for d, count in self.dimension_histogram.items())
            rows.append(("local dimensions", counts))
        if self.frame_residual is not None:
            median_residual, worst_residual = self.frame_residual
            residuals = f"median {median_residual:.2%}, worst {worst_residual:.2%}"
            rows.append(("residual variance", residuals))
        rows.append(("orientable", self._orientability()))
        if self.normal_share is not None:
            rows.append(("normal component", f"{self.normal_share:.1%} of the energy"))
        return rows

    def _orientability(self) -> str:
        answer = "no"
        if self.orientable:
            answer = "yes"
        if self.consistent:
            return f"{answer} (consistent frames)"
        return f"{answer} ({self.frustration:.2%} of edges remain reflections)"


def normal_share(bundle: Any, field: Array) -> float:
    """The share of a field's energy that is normal to the tangent spaces; warns above a tenth."""
    vectors, _ = float_tensor(field, "field")
    tangent, _ = float_tensor(bundle.to_ambient(bundle.to_coordinates(vectors)), "field")
    unit = float(vectors.abs().max()) or 1.0
    total = _energy(vectors, unit)
    if total == 0:
        return 0.0
    share = min(max(1.0 - _energy(tangent, unit) / total, 0.0), 1.0)
    if share > MAX_NORMAL_SHARE:
        warn(
            f"{share:.0%} of the field's energy is normal to the tangent spaces and is lost by "
            "projection. Check that the vectors are ambient (not components in another frame) and "
            "in the order of the points.",
            NotTangentWarning,
        )
    return share


def _energy(vectors: Tensor, unit: float) -> float:
    """The sum of the squares of vectors, in squares of a unit, which do not overflow."""
    return float((vectors.double() / unit).square().sum())


def diagnose(bundle: TangentBundle, field: Array | None = None) -> Diagnosis:
    """Compute a ``Diagnosis``; see ``TangentBundle.diagnose``."""
    degrees = bundle.sorted_graph.degrees
    median_degree = median(degrees)
    orientation = orientability(bundle)
    residual = None
    if bundle.estimate is not None:
        shares = bundle.estimate.pca.residual(bundle.dim)
        residual = (median(shares), float(shares.max()))
    share_of_field = None
    if field is not None:
        share_of_field = normal_share(bundle, field)
    mesh = None
    if bundle.weights.mesh is not None:
        mesh = str(bundle.weights.mesh)
    return Diagnosis(
        num_points=bundle.num_points,
        dim=bundle.dim,
        eps=bundle.eps,
        neighbors=(int(degrees.min()), median_degree, int(degrees.max())),
        components=bundle.sorted_graph.num_components,
        neighborhood_share=median_degree / (bundle.num_points - 1),
        dimension_histogram=_dimension_histogram(bundle),
        frame_residual=residual,
        orientable=orientation.is_orientable,
        consistent=orientation.is_consistent,
        frustration=orientation.frustration,
        normal_share=share_of_field,
        mesh=mesh,
    )


def _dimension_histogram(bundle: TangentBundle) -> dict[int, int] | None:
    """How many of the sampled points have which dimension, if it was estimated."""
    if bundle.estimate is None or bundle.estimate.local_dimensions is None:
        return None
    dims, counts = np.unique(bundle.estimate.local_dimensions, return_counts=True)
    return dict(zip(dims.tolist(), counts.tolist(), strict=True))


def sampling_errors(bundle: TangentBundle, fields: Array) -> np.ndarray:
    r"""Standard errors ``(k,)`` of eigenvalues with eigenfields ``(n, d, k)``, due to random
    sampling.

    An eigenvalue is a mean over points of the energy density
    :math:`\frac12 \Delta |f|^2 + \lambda |f|^2`, divided by that of :math:`|f|^2`. Its error is
    that of a mean over independent points, so the first term determines it. The bias at a finite
    scale is not included.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(800, seed=0), dim=2)
    >>> values, fields = bundle.laplacian().spectrum(6)
    >>> bool((abs(values - 1) < 3 * sampling_errors(bundle, fields)).all())
    True
    """
    laplacian = bundle.scalar().laplacian()
    eigenfields, _ = float_tensor(fields, "fields")
    squares = eigenfields.square().sum(dim=1, keepdim=True)
    energies = laplacian.mass.to(squares)[:, None, None] * (laplacian @ squares)
    return (0.5 * energies.square().sum(dim=(0, 1)).sqrt()).cpu().numpy()
