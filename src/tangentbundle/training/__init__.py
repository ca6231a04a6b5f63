"""Training of networks: the loop, checkpoints, replicas, several processes."""

from .checkpoint import Checkpoint
from .loop import Fit, Loss, fit, squared_error
from .replicas import Replicas

__all__ = ["Checkpoint", "Fit", "Loss", "Replicas", "fit", "squared_error"]
