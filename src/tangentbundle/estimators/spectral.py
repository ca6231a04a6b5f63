"""Denoising by a filter of the connection Laplacian, where the points are: on the CPU or on a
GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..arrays import finite, float_tensor, require_values
from ..bundle import TangentBundle
from ..errors import InvalidInputError, ShapeError
from ..filters.shrinkage import least_risk
from .observations import known_variances


@dataclass(frozen=True)
class SpectralFilter:
    """The filter of the connection Laplacian with the least estimated risk, of a family of low-pass
    responses.

    For ``FieldDenoiser``: it answers at the points of ``fit`` only, without uncertainty, at a cost
    that grows linearly with their number. Tensors stay on their device. The risk is Stein's
    unbiased estimate; the noise is given, or read off the highest frequencies.

    Args:
        neighbors: neighbours of the median point in the graph; default automatic.
        probes: random signs from which traces are estimated.
    """

    neighbors: int | None = None
    probes: int = 8

    def fit(
        self, points: Any, vectors: Any, noise_std: Any = None, dim: Any = None, seed: int = 0
    ) -> FilteredField:
        """Filter ambient vectors ``(n, D)`` at points ``(n, D)``; ``noise_std`` is a number or
        ``(n,)``."""
        points, vectors = (
            float_tensor(a, name)[0].detach()
            for a, name in ((points, "points"), (vectors, "vectors"))
        )
        if vectors.shape != points.shape:
            shapes = tuple(points.shape), tuple(vectors.shape)
            raise ShapeError(
                f"vectors must be ambient, of the points' shape {shapes[0]}, got {shapes[1]}."
            )
        finite(vectors, "vectors")
        bundle = TangentBundle.from_points(points, dim=dim, neighbors=self.neighbors)
        laplacian, scale = bundle.laplacian(), vectors.square().mean().sqrt().clamp_min(1e-30)
        x = bundle.to_coordinates((vectors / scale).to(points))
        source = torch.Generator(x.device).manual_seed(seed)
        signs = (
            2
            * torch.randint(
                0, 2, (*x.shape[:2], self.probes), generator=source, device=x.device
            ).to(x)
            - 1
        )
        known = known_variances(noise_std, len(x), float(scale))
        variances = None if known is None else torch.from_numpy(known).to(x)
        response, variance = least_risk(laplacian, x, signs, variances)
        noise = scale * (variance if variances is None else float(variances.mean())) ** 0.5
        smooth = scale * bundle.to_ambient(response(laplacian, x))
        return FilteredField(points, smooth, torch.as_tensor(bundle.frames), float(noise))


@dataclass(frozen=True, eq=False)
class FilteredField:
    """A filtered field ``vectors (n, D)`` at its points ``(n, D)``, with tangent bases
    ``(n, D, d)``."""

    points: Tensor = field(repr=False)
    vectors: Tensor = field(repr=False)
    frames: Tensor = field(repr=False)
    noise: float  # standard deviation of each component

    def predict(self, points: Any) -> Any:
        """The field at the same points, in their kind."""
        found, kind = float_tensor(points, "points")
        require_values(found, "points")
        if found.shape != self.points.shape or not torch.equal(found.to(self.points), self.points):
            raise InvalidInputError(
                "SpectralFilter predicts only at the points of fit. Use GaussianProcess for others."
            )
        return kind.wrap(self.vectors)
