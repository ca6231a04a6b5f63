r"""Ambient flows without divergence or without circulation.

Vectors are the values of a smooth flow of ambient space, in the subspace U of those r principal axes along which they
are more than noise. With :math:`\delta = x - x'` along U and :math:`\delta'` across it, and
:math:`k = e^{-|\delta|^2/2\ell^2 - |\delta'|^2/2\ell'^2}`, the blocks are

.. math:: \text{Irrotational: } \sigma^2 k\, \Big(I - \frac{\delta\delta^T}{\ell^2}\Big), \qquad
          \text{Incompressible: } \frac{\sigma^2 k}{r - 1}
          \Big(\Big(r - 1 - \frac{|\delta|^2}{\ell^2}\Big) I + \frac{\delta\delta^T}{\ell^2}\Big):

gradients of random functions, and fields without divergence (Narcowich and Ward, 1994). Their components say something
about each other, where those of ``AmbientProcess`` are independent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ..errors import InvalidInputError
from .ambient import principal_axes, tilts_of
from .covariance import Covariance, Sites, blocks, pairs
from .likelihood import JITTER, NOISE_START, PRIOR, Evidence, White, maximise
from .problem import Fitted, Method, Problem
from .process import Posterior

SIGNIFICANT = 3.0
"""Standard deviations by which neighbours' components must agree to be more than noise."""


class Flow(Covariance):
    """A flow of the subspace that all bases span alike; of other sites its blocks mean nothing."""

    names = ("amplitude", "length", "length across")
    start = (0.0, -0.5, -0.5)

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        near, length, across = pairs(a, b), torch.exp(theta[1]), torch.exp(theta[2])
        inside = near.squares / length.square()
        outside = (near.distances.square() - near.squares).clamp_min(0.0) / across.square()
        k = torch.exp(2 * theta[0] - (0.5 * (inside + outside)).clamp_max(150.0))
        eye, outer = self.weights(inside, a.dim)
        return blocks(k * eye, a.dim) * near.overlaps + blocks(k * outer / length.square(), a.dim) * near.along

    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        return torch.exp(2 * theta[0]) * torch.eye(a.dim, dtype=a.points.dtype).expand(len(a), -1, -1)

    @abstractmethod
    def weights(self, squares: torch.Tensor, r: int) -> tuple[Any, float]:
        """Of the identity and of the outer product, at squared distances in units of the length."""


@dataclass(frozen=True)
class Irrotational(Flow):
    """Gradients of random functions of ambient space."""

    def weights(self, squares: torch.Tensor, r: int) -> tuple[Any, float]:
        return 1.0, -1.0


@dataclass(frozen=True)
class Incompressible(Flow):
    """Random fields of ambient space without divergence."""

    def weights(self, squares: torch.Tensor, r: int) -> tuple[Any, float]:
        others = max(r - 1, 1)  # on a line only constants have no divergence: there it is an ordinary process
        return 1.0 - squares / others, 1.0 / others


@dataclass(frozen=True)
class FlowProcess(Method):
    """Method of ``FieldDenoiser``: a flow of ambient space; of known manifolds, its tangent part.

    Args:
        covariance: ``Incompressible()``, ``Irrotational()``, a sum of both, ...
        likelihood_size: above this many points the likelihood is that of so many random ones.
    """

    covariance: Covariance = Incompressible()
    likelihood_size: int = 250

    def fit(self, problem: Problem) -> FlowPosterior:
        if problem.ambient is None:
            raise InvalidInputError("FlowProcess() needs vectors with all ambient components.")
        n = len(problem.ambient)
        inside, outside = coherent_axes(problem)
        within = replace(problem, values=problem.ambient @ inside)
        frames = np.broadcast_to(inside, (n, *inside.shape))
        seen = _Parts.of(within, frames, problem.ambient @ outside)
        some = np.arange(n)
        if n > self.likelihood_size:
            some = np.sort(problem.rng.choice(n, self.likelihood_size, replace=False))
        center = np.array([*self.covariance.start, NOISE_START])
        theta, _ = maximise(self.covariance, seen.part(some).all, center, PRIOR)
        posterior = Posterior.of(self.covariance, theta, seen.field, within)
        with torch.no_grad():
            evidence = -sum(part.loss(self.covariance, torch.from_numpy(theta), grad=False) for part in seen.all)
        fit = posterior.predict(problem.spaces.points[:n], frames, with_covariance=False)[0]
        return FlowPosterior(posterior, inside, tilts_of(fit, posterior.noise), evidence)


def coherent_axes(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Principal axes ``(D, r)`` along which neighbours' vectors agree more than noise would, at least two, and the
    others.
    """
    assert problem.ambient is not None
    n, D = problem.ambient.shape
    axes = principal_axes(problem.ambient)[:, ::-1]
    components = problem.ambient @ axes
    nearest = problem.spaces.tree.query(problem.spaces.points[:n], k=2)[1][:, 1] % n
    agreement = (components * components[nearest]).sum(axis=0) / np.maximum(np.square(components).sum(axis=0), 1e-300)
    coherent = (agreement * np.sqrt(n) > SIGNIFICANT) & (np.square(components).mean(axis=0) > JITTER)
    coherent[: min(2, D)] = True
    return axes[:, coherent], axes[:, ~coherent]


@dataclass(frozen=True, eq=False)
class _Parts:
    """A flow along the axes and white noise of the same size along the others."""

    field: Evidence
    noise: White

    @classmethod
    def of(cls, problem: Problem, frames: np.ndarray, rest: np.ndarray) -> _Parts:
        known = None if problem.noise is None else torch.from_numpy(problem.noise)
        values = torch.from_numpy(np.ascontiguousarray(problem.values)).reshape(-1, 1)
        sites = problem.sites(problem.spaces.points[: len(frames)], frames)
        return cls(Evidence(sites, values, known), White(torch.from_numpy(rest), known))

    def part(self, index: np.ndarray) -> _Parts:
        if len(index) == len(self.field.sites):
            return self
        sites, known = self.field.sites, self.field.noise
        values = self.field.values.reshape(len(sites), -1)[index].reshape(-1, 1)
        known = None if known is None else known[index]
        return _Parts(Evidence(sites[index], values, known), White(self.noise.values[index], known))

    @property
    def all(self) -> Sequence[Any]:
        return self.field, self.noise


@dataclass(frozen=True, eq=False)
class FlowPosterior(Fitted):
    """A flow given data, along the columns of ``axes``."""

    whole = True

    flow: Posterior
    axes: np.ndarray = field(repr=False)
    tilts: np.ndarray = field(repr=False)
    evidence: float

    @property
    def noise(self) -> float:  # type: ignore[override]
        return self.flow.noise

    def predict(
        self, points: np.ndarray, frames: np.ndarray, *, with_covariance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        along = np.broadcast_to(self.axes, (len(points), *self.axes.shape))
        mean, spread = self.flow.predict(points, along, with_covariance=with_covariance)
        turned = np.einsum("mij,ik->mjk", frames, self.axes)
        answer = np.einsum("mjk,mk->mj", turned, mean)
        if spread is None:
            return answer, None
        tilted = np.square(mean) @ self.tilts
        return answer, turned @ spread @ turned.transpose(0, 2, 1) + tilted[:, None, None] * np.eye(frames.shape[2])
