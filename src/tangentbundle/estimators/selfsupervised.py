r"""A tangent bundle network that learns to denoise from one noisy field, without clean data.

A loss against the noisy field itself teaches a network to copy it. Two honest ones do not:

.. math:: \text{Stein: } \frac1N \sum_i
          \Big[(x_i - f_i(x))^2 - \sigma_i^2 + 2 \sigma_i^2 \frac{\partial f_i}{\partial x_i}\Big], \qquad
          \text{BlindSpots: } \frac1N \sum_J \sum_{i \in J} (x_i - f_i(x_{J^c}))^2,

Stein's unbiased estimate of the risk, its divergence from random signs (Ramani, Blu and Unser, 2008), and prediction of
points from all but themselves (Batson and Royer, 2019), whose vectors are replaced by the mean of their neighbours'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
import torch

from ..bundle import TangentBundle
from ..nn import TNN, NormGate
from ..operators import ConnectionLaplacian
from ..training import fit
from .ambient import AmbientProcess
from .problem import AtNodes, Method, Problem
from .spectral import high_frequency_variance

NUDGE = 0.03
"""Size of the signs added to a field to see how the answer follows, in units of the field."""

KNOWN_FROM = 400
"""Points from which the noise's level is estimated."""


class SelfLoss(ABC):
    """Inputs made from a noisy field ``x (n, d, 1)``, and the loss of a network's answers to them."""

    @abstractmethod
    def inputs(self, x: torch.Tensor, lap: ConnectionLaplacian, rng: np.random.Generator) -> torch.Tensor:
        """``(k, n, d, 1)``."""

    @abstractmethod
    def __call__(self, answers: torch.Tensor, inputs: torch.Tensor, x: torch.Tensor, variance: torch.Tensor): ...

    def identity(self, variance: torch.Tensor) -> float:
        """What the identity has, where that is known."""
        return np.inf


@dataclass(frozen=True)
class Stein(SelfLoss):
    """Stein's unbiased estimate of the risk; needs the noise's level. ``probes`` random signs, held fixed."""

    probes: int = 2

    def inputs(self, x: torch.Tensor, lap: ConnectionLaplacian, rng: np.random.Generator) -> torch.Tensor:
        signs = torch.from_numpy(rng.choice([-1.0, 1.0], size=(self.probes, *x.shape))).to(x.dtype)
        return torch.cat([x[None], x + NUDGE * signs])

    def __call__(self, answers, inputs, x, variance):
        follows = ((answers[1:] - answers[:1]) * (inputs[1:] - inputs[:1])).mean(dim=0) / NUDGE**2
        return ((x - answers[0]).square() - variance + 2 * variance * follows).mean()

    def identity(self, variance: torch.Tensor) -> float:
        return float(variance.mean())


@dataclass(frozen=True)
class BlindSpots(SelfLoss):
    """Prediction of every point from the others; needs no noise level. Points are hidden in ``parts`` turns."""

    parts: int = 4

    def inputs(self, x: torch.Tensor, lap: ConnectionLaplacian, rng: np.random.Generator) -> torch.Tensor:
        turn = torch.from_numpy(rng.permutation(len(x)) % self.parts)[:, None, None]
        hidden = []
        for part in range(self.parts):
            seen = torch.where(turn == part, 0.0, x)
            mean = (seen + lap.scale * (lap @ seen)) * self.parts / (self.parts - 1)
            hidden.append(torch.where(turn == part, mean, x))
        return torch.stack([x, *hidden])

    def __call__(self, answers, inputs, x, variance):
        hidden = inputs[1:] != x
        return ((answers[1:] - x).square() * hidden).sum() / hidden.sum().clamp_min(1)


@dataclass(frozen=True)
class SelfSupervised(Method):
    """Method of ``FieldDenoiser``: a network trained on the noisy field alone.

    If its estimated risk is above the identity's (``Stein``), the field is left as it is.

    Args:
        loss: ``Stein()`` or ``BlindSpots()``.
        width, taps: channels of the two hidden layers, taps of the filters, whose heat reaches about a neighbour a tap.
        epochs, lr: of the training.
        neighbors: of the median point in the graph; default automatic.
    """

    loss: SelfLoss = Stein()
    width: int = 6
    taps: int = 3
    epochs: int = 150
    lr: float = 0.03
    neighbors: int | None = None

    def fit(self, problem: Problem) -> LearnedField:
        problem.require_no_support(self)
        spaces, rng = problem.spaces, problem.rng
        points, frames = (np.ascontiguousarray(a, np.float32) for a in (spaces.points, spaces.frames))
        lap = TangentBundle.from_frames(points, frames, neighbors=self.neighbors).laplacian()
        x = torch.from_numpy(np.ascontiguousarray(problem.values, np.float32))[:, :, None]
        noise = _levels(problem, lap)
        variance = torch.from_numpy(noise.astype(np.float32))[:, None, None]
        reach = float(np.median(spaces.tree.query(spaces.points[:2000], k=2)[0][:, 1]))
        widths = [1, self.width, self.width, 1]
        net = TNN(widths, self.taps, step=reach**2, activation=NormGate(), seed=int(rng.integers(2**31)))
        inputs = self.loss.inputs(x, lap, rng)

        def loss(network: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
            return self.loss(network(batch, lap), batch, x, variance)

        found = fit(
            net,
            [inputs],
            loss,
            epochs=self.epochs,
            lr=self.lr,
            schedule=lambda epoch: 0.03 ** (epoch / self.epochs),
            progress=False,
        )
        with torch.no_grad():
            values = net(x, lap)[:, :, 0].double().numpy()
        risk = float(found.best)
        if not risk < self.loss.identity(variance):
            values, risk = problem.values.copy(), float(noise.mean())
        if isinstance(self.loss, BlindSpots):
            risk -= float(noise.mean())  # what is left of the error of predicting noisy values
        spread = noise * np.clip(risk / max(float(noise.mean()), 1e-300), 1e-3, 1.0)
        return LearnedField(spaces, values, spread, float(np.sqrt(noise.mean())), net, risk)


def _levels(problem: Problem, lap: ConnectionLaplacian) -> np.ndarray:
    """The noise's variances ``(n,)``: known, that of an ambient process at some points, or of high frequencies."""
    n = len(problem.values)
    if problem.noise is not None:
        return problem.noise
    if problem.ambient is not None:
        some = problem if n <= KNOWN_FROM else problem.part(np.sort(problem.rng.choice(n, KNOWN_FROM, replace=False)))
        return np.full(n, AmbientProcess().fit(some).noise ** 2)
    x = torch.from_numpy(np.ascontiguousarray(problem.values, np.float32))[:, :, None]
    probes = torch.from_numpy(problem.rng.choice([-1.0, 1.0], size=(*problem.values.shape, 4)).astype(np.float32))
    return np.full(n, high_frequency_variance(lap, x, probes))


@dataclass(frozen=True, eq=False)
class LearnedField(AtNodes):
    """What a network made of a field, the network, and its estimated risk a coordinate."""

    network: TNN = field(repr=False)
    risk: float
