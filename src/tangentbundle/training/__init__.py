"""Training of networks: the loop, and replicas."""

from .loop import Fit, fit, squared_error
from .loop import Loss as Loss
from .replicas import Replicas

__all__ = ["Fit", "Replicas", "fit", "squared_error"]
