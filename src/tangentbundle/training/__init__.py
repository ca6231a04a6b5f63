"""Training of networks: losses, the loop, checkpoints, replicas, several processes.

``fitting`` has ``fit``; ``batches`` are what it reads, and ``collate`` makes batches of several
clouds; ``checks`` are what it refuses; ``trainer`` is the loop, which evaluates ``losses``, and
chooses the best weights in its ``state``.
"""

from .checkpoint import Checkpoint
from .collate import collate, collate_fields
from .fitting import Fit, fit
from .losses import BatchLoss, squared_error
from .losses import Loss as Loss
from .replicas import Replicas

__all__ = [
    "BatchLoss",
    "Checkpoint",
    "Fit",
    "Replicas",
    "collate",
    "collate_fields",
    "fit",
    "squared_error",
]
