"""Training of networks: the loop, checkpoints, replicas, several processes."""

from .checkpoint import Checkpoint
from .loop import Criterion, Fit, fit, squared_error
from .loop import Loss as Loss
from .replicas import Replicas

__all__ = ["Checkpoint", "Criterion", "Fit", "Replicas", "fit", "squared_error"]
