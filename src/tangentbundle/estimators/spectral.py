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
        points = float_tensor(points, "points")[0].detach()
        vectors = float_tensor(vectors, "vectors")[0].detach()
        if vectors.shape != points.shape:
            raise ShapeError(
                f"vectors must be ambient, of the points' shape {tuple(points.shape)}, got "
                f"{tuple(vectors.shape)}."
            )
        finite(vectors, "vectors")
        bundle = TangentBundle.from_points(points, dim=dim, neighbors=self.neighbors)
        laplacian = bundle.laplacian()
        scale = vectors.square().mean().sqrt().clamp_min(1e-30)
        signal = bundle.to_coordinates((vectors / scale).to(points))
        signs = self._random_signs(signal, seed)
        known = known_variances(noise_std, len(signal))
        variances = None
        if known is not None:
            variances = torch.from_numpy(known).to(signal) / scale.to(signal).square()
        response, noise_variance = least_risk(laplacian, signal, signs, variances)
        if variances is not None:
            noise_variance = float(variances.mean())
        return FilteredField(
            points=points,
            vectors=scale * bundle.to_ambient(response(laplacian, signal)),
            frames=torch.as_tensor(bundle.frames),
            noise=float(scale * noise_variance**0.5),
        )

    def _random_signs(self, signal: Tensor, seed: int) -> Tensor:
        """``(n, d, probes)``."""
        source = torch.Generator(signal.device).manual_seed(seed)
        shape = (*signal.shape[:2], self.probes)
        bits = torch.randint(0, 2, shape, generator=source, device=signal.device)
        return (2 * bits - 1).to(signal)


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
        places, kind = float_tensor(points, "points")
        require_values(places, "points")
        same_shape = places.shape == self.points.shape
        if not same_shape or not torch.equal(places.to(self.points), self.points):
            raise InvalidInputError(
                "SpectralFilter predicts only at the points of fit. Use GaussianProcess for others."
            )
        return kind.wrap(self.vectors)
