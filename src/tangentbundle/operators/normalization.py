r"""How the weights W of a neighbour graph become a Laplacian, with degrees :math:`D = \mathrm{diag}(W 1)`.

A normalization gives vectors q, m and r of length n. They define the average and the Laplacian

.. math:: P_{ij} = \frac{w_{ij}\, O_{ij}}{m_i\, q_i\, q_j}, \qquad -L = \mathrm{diag}(r)\,(P - I),

which is self-adjoint in the mass :math:`m / r`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

Factors = tuple[np.ndarray, np.ndarray, np.ndarray]


class Normalization(ABC):
    """Subclass it and define ``factors``."""

    @abstractmethod
    def factors(self, degree: np.ndarray, mass: np.ndarray) -> Factors:
        r"""q, m and r from the degrees and from :math:`\sum_j w_{ij} / (\deg_i \deg_j)`."""


@dataclass(frozen=True)
class DensityFree(Normalization):
    """The paper's: the sampling density is divided out, then rows are averages."""

    def factors(self, degree: np.ndarray, mass: np.ndarray) -> Factors:
        return degree, mass, np.ones_like(degree)


@dataclass(frozen=True)
class RandomWalk(Normalization):
    r""":math:`L = I - D^{-1} W`, self-adjoint in the degrees; the density stays in the limit as a drift."""

    def factors(self, degree: np.ndarray, mass: np.ndarray) -> Factors:
        return np.ones_like(degree), degree, np.ones_like(degree)


@dataclass(frozen=True)
class Symmetric(Normalization):
    r""":math:`L = I - D^{-1/2} W D^{-1/2}`, self-adjoint in the plain inner product."""

    def factors(self, degree: np.ndarray, mass: np.ndarray) -> Factors:
        return np.sqrt(degree), np.ones_like(degree), np.ones_like(degree)


@dataclass(frozen=True)
class Unnormalized(Normalization):
    """:math:`L = D - W`, self-adjoint in the plain inner product."""

    def factors(self, degree: np.ndarray, mass: np.ndarray) -> Factors:
        return np.ones_like(degree), degree, degree
