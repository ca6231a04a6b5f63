"""What a method is given: a field in tangent coordinates and the spaces it lives on; and what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ..errors import InvalidInputError
from .covariance import Sites
from .history import Past
from .tangents import TangentSpaces


@dataclass(frozen=True, eq=False)
class Problem:
    """A field ``values (n, d)`` of root mean square one, on ``spaces``; ``noise (n,)`` its known variances, or None.

    ``center`` and ``unit`` take points to the units of the covariances; ``past`` is a history in the units of the
    values; ``ambient (n, D)`` the vectors before their normal part was dropped, in the same units.
    """

    spaces: TangentSpaces
    values: np.ndarray
    noise: np.ndarray | None
    center: np.ndarray
    unit: float
    rng: np.random.Generator
    past: Past | None = None
    ambient: np.ndarray | None = None

    @property
    def normal(self) -> np.ndarray:
        """What was dropped of the ambient vectors, ``(n, D)``."""
        assert self.ambient is not None
        return self.ambient - np.einsum("nij,nj->ni", self.spaces.frames[: len(self.values)], self.values)

    def sites(self, points: np.ndarray, frames: np.ndarray, past: Past | None = None) -> Sites:
        """Sites in the units of the covariances, with their history where there is one."""
        scaled = torch.from_numpy(np.ascontiguousarray((points - self.center) / self.unit))
        plain = Sites(scaled, torch.from_numpy(np.ascontiguousarray(frames)))
        past = self.past if past is None else past
        return plain if past is None else past.attach(plain, points)

    def require_no_support(self, method: Method) -> None:
        """Refuse points without vectors, for methods that need a vector at every point."""
        if len(self.spaces.points) > len(self.values):
            raise InvalidInputError(
                f"{type(method).__name__} has no use for points without vectors. Leave out support= and "
                "history_points=, or use GaussianProcess()."
            )

    def part(self, index: np.ndarray) -> Problem:
        """The same field at some of its points only."""
        return replace(
            self,
            spaces=self.spaces.part(index),
            values=self.values[index],
            noise=None if self.noise is None else self.noise[index],
            ambient=None if self.ambient is None else self.ambient[index],
        )


class Fitted(ABC):
    """A method's answer: the field anywhere."""

    noise: float
    evidence: float
    """The log density of all that was measured, of methods that know it."""
    whole: bool = False
    """Whether it describes whole ambient vectors, not their tangent parts alone."""
    left_out: np.ndarray
    """Errors at points left out one at a time ``(n, d)``, or ``(n, D)`` of whole vectors, of methods that know them."""

    @abstractmethod
    def predict(
        self, points: np.ndarray, frames: np.ndarray, *, with_covariance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean ``(m, d)`` in the given bases ``(m, D, d)``, and covariances ``(m, d, d)`` if wanted."""


class Method(ABC):
    """A way to estimate a field from noisy values at some points."""

    @abstractmethod
    def fit(self, problem: Problem) -> Fitted: ...


def carry(
    spaces: TangentSpaces, values: np.ndarray, points: np.ndarray, frames: np.ndarray, neighbors: int = 6
) -> np.ndarray:
    """Values ``(n, d, c)`` carried to other points by their nearest ones, weighted by inverse squared distance ``(m,
    d, c)``.

    >>> import tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> spaces = TangentSpaces.of(sphere.sample(400, seed=0), manifold=sphere)
    >>> carry(spaces, np.ones((400, 2, 1)), spaces.points[:3], spaces.frames[:3])[:, :, 0].round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """
    k = min(neighbors, len(spaces.points))
    distances, index = (a.reshape(len(points), k) for a in spaces.tree.query(points, k=k))
    weights = 1.0 / np.maximum(np.square(distances), 1e-24 * max(float(np.square(distances).max()), 1e-300))
    weights /= weights.sum(axis=1, keepdims=True)
    ambient = np.einsum("mk,mkij,mkjc->mic", weights, spaces.frames[index], values[index])
    return np.einsum("mij,mic->mjc", frames, ambient)


def nearest_and_away(spaces: TangentSpaces, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest node of each point ``(m,)``, and how far from all nodes it is: 0 at one, 1 from three spacings on."""
    distances, index = spaces.tree.query(points)
    reach = 3 * float(np.median(spaces.tree.query(spaces.points[:2000], k=2)[0][:, 1]))
    return index, np.minimum(1.0, np.square(distances / reach))


@dataclass(frozen=True, eq=False)
class AtNodes(Fitted):
    """A field known at the nodes of ``spaces``, carried elsewhere: ``values (n, d)``, ``spread (n,)`` its variances."""

    spaces: TangentSpaces = field(repr=False)
    values: np.ndarray = field(repr=False)
    spread: np.ndarray = field(repr=False)
    noise: float

    def predict(
        self, points: np.ndarray, frames: np.ndarray, *, with_covariance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        mean = carry(self.spaces, self.values[:, :, None], points, frames)[:, :, 0]
        if not with_covariance:
            return mean, None
        return mean, self._covariance(frames, *nearest_and_away(self.spaces, points))

    def _covariance(self, frames: np.ndarray, nearest: np.ndarray, away: np.ndarray) -> np.ndarray:
        """Blocks ``(m, d, d)`` in ``frames``, by the nearest nodes and how far, from 0 to 1, they are away."""
        variance = self.spread[nearest] + float(np.mean(np.square(self.values))) * away
        return variance[:, None, None] * np.eye(self.spaces.dim)
