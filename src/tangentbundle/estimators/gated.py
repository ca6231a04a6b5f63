r"""A gated recurrent network on the bundle as a method of forecasting.

Anomalies :math:`a_{t-W+1}, \dots, a_t` go through a ``GatedTNN`` whose outputs at the last time are the next H fields
at once, added to damped persistence:

.. math:: \hat a_{t+h} = b_h\, a_t + g_h(a_{t-W+1}, \dots, a_t).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from ..bundle import TangentBundle
from ..errors import InvalidInputError
from ..nn import GatedTNN
from ..operators import LinearOperator
from ..training import fit
from .forecasting import Direct, ForecastMethod, Record

HELD_OUT = 0.2
"""Share of the training series, the latest, that chooses the weights and tells the errors."""

BATCH = 8


@dataclass(frozen=True)
class GatedNetwork(ForecastMethod):
    """Method of ``FieldForecaster``: a gated recurrent network (ConvGRU) trained on anomalies.

    Args:
        width: channels of the state.
        taps: of its filters, whose heat spreads over about a neighbour a tap.
        window: recent fields it sees at most.
        reach: leads it gives; anomalies are zero beyond.
        epochs, patience, lr: of the training.
    """

    width: int = 8
    taps: int = 3
    window: int = 8
    reach: int = 8
    epochs: int = 60
    patience: int = 10
    lr: float = 0.01

    def fit(self, record: Record) -> GatedForecast:
        if record.more is not None:
            raise InvalidInputError("GatedNetwork learns at its own points alone. Use Autoregression() with more=.")
        spaces, a = record.spaces, record.anomalies
        origins = record.origins(1, self.window)
        origins = origins[origins < len(a) - self.reach]
        if len(origins) < 10:
            raise InvalidInputError(
                f"the series gives {len(origins)} windows of {self.window} fields with {self.reach} to follow; a "
                "network needs 10. Give a longer series, or a smaller window and reach."
            )
        away = spaces.tree.query(spaces.points, k=2)[0][:, 1]
        operator = TangentBundle.from_frames(
            spaces.points.astype(np.float32), spaces.frames.astype(np.float32)
        ).laplacian()
        net = GatedTNN(
            [1, self.width, self.reach],
            self.taps,
            step=float(np.median(away) ** 2),
            seed=int(record.rng.integers(2**31)),
        )
        x = torch.from_numpy(a.astype(np.float32))
        first = int(len(origins) * (1 - HELD_OUT))
        train, later = origins[: max(first - self.reach, 1)], origins[first:]
        damping = np.array([_slope(a[train], a[train + h]) for h in range(1, self.reach + 1)], np.float32)
        model = GatedForecast(self, record, net, operator, torch.from_numpy(damping), later)

        def loss(_: torch.nn.Module, numbers: np.ndarray) -> torch.Tensor:
            inputs = torch.stack([x[t - self.window + 1 : t + 1] for t in numbers])
            targets = torch.stack([x[t + 1 : t + 1 + self.reach] for t in numbers])
            return (model.run(inputs) - targets).square().mean()

        batches, held_out = (
            [part[k : k + BATCH] for k in range(0, len(part), BATCH)] for part in (record.rng.permutation(train), later)
        )
        fit(
            net,
            batches,
            loss,
            lr=self.lr,
            clip=1.0,
            epochs=self.epochs,
            patience=self.patience,
            validation=held_out,
            progress=False,
        )
        model.guesses = np.stack([model.raw(a[: t + 1], record.mean) for t in later], axis=1)
        return model


def _slope(now: np.ndarray, then: np.ndarray) -> float:
    return float((now * then).sum() / max(float(np.square(now).sum()), 1e-300))


@dataclass(eq=False)
class GatedForecast(Direct):
    """A trained network, its operator, and the damping of persistence."""

    method: GatedNetwork
    record: Record = field(repr=False)
    net: GatedTNN = field(repr=False)
    operator: LinearOperator = field(repr=False)
    damping: torch.Tensor = field(repr=False)
    held: np.ndarray = field(repr=False)

    def run(self, inputs: torch.Tensor) -> torch.Tensor:
        """From ``(B, W, n, d)`` to ``(B, H, n, d)``."""
        outputs = self.net(inputs[..., None], self.operator)[0][:, -1].movedim(-1, 1)
        return outputs + self.damping[:, None, None] * inputs[:, -1:]

    def raw(self, recent: np.ndarray, mean: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            inputs = torch.from_numpy(recent[-self.method.window :].astype(np.float32))[None]
            return self.run(inputs)[0].double().numpy()
