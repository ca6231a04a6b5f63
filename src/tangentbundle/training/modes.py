"""Whether the losses of a network in training are those of the same weights in use."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..nn import VectorDropout
from ..transforms import has_forward_hooks
from .replicas import Replicas

EPOCHS_COMPARED = 3
"""Epochs in which the losses of both modes are compared: in the first, a last layer of zeros could
hide a difference."""

DROPOUT = (
    torch.nn.Dropout,
    torch.nn.Dropout1d,
    torch.nn.Dropout2d,
    torch.nn.Dropout3d,
    torch.nn.AlphaDropout,
    torch.nn.FeatureAlphaDropout,
    VectorDropout,
)
"""Modules that do something in training if their ``p`` is positive."""

WITH_DROPOUT = (torch.nn.RNNBase, torch.nn.MultiheadAttention)
"""Modules of torch that do something else in training if their ``dropout`` is positive."""

WITH_STATISTICS = (
    torch.nn.BatchNorm1d,
    torch.nn.BatchNorm2d,
    torch.nn.BatchNorm3d,
    torch.nn.SyncBatchNorm,
    torch.nn.InstanceNorm1d,
    torch.nn.InstanceNorm2d,
    torch.nn.InstanceNorm3d,
)
"""Modules of torch that may use statistics of the batch in training, and of all batches
otherwise."""


class ModeComparison:
    """Decides whether the losses of a training step are those of its weights in use, so that these
    need no evaluation of their own.

    Networks of unknown parts are evaluated. A loss may ask for ``net.training``, too: in the first
    epochs those of both modes are compared.
    """

    def __init__(self, net: torch.nn.Module) -> None:
        self.modes_differ = may_act_differently_in_training(net)
        self.epochs_compared = 0

    def trusts_training(self, losses_in_mode: Callable[[bool], torch.Tensor]) -> bool:
        """Whether the losses are alike; ``losses_in_mode(training)`` computes them in one mode."""
        if self.modes_differ:
            return False
        if self.epochs_compared < EPOCHS_COMPARED:
            self.epochs_compared += 1
            in_training = losses_in_mode(True)
            in_use = losses_in_mode(False)
            alike = torch.isclose(in_training, in_use, rtol=1e-6, atol=0.0, equal_nan=True)
            self.modes_differ = not bool(alike.all())
        return not self.modes_differ


def may_act_differently_in_training(net: torch.nn.Module) -> bool:
    """Whether losses of a network in training may not be its own.

    So it is with dropout, statistics of batches, hooks, and classes of a user's own, whose
    ``forward`` may ask for ``self.training``.
    """
    modules = list(net.modules())
    if isinstance(net, Replicas):
        modules.extend(net.skeleton.modules())
    return any(_may_act_differently(module) for module in modules)


def _may_act_differently(module: torch.nn.Module) -> bool:
    if not type(module).__module__.startswith(("torch.nn.modules.", "tangentbundle.")):
        return True
    if has_forward_hooks(module):
        return True
    if isinstance(module, WITH_STATISTICS):
        return module.track_running_stats
    if isinstance(module, DROPOUT):
        return module.p > 0
    if isinstance(module, WITH_DROPOUT):
        return module.dropout > 0
    return isinstance(module, torch.nn.RReLU)
