"""Tangent bundle neural networks: weights only, the operator is an argument of ``forward``."""

from .activations import (
    Activation,
    AmbientThenProject,
    Bias,
    ConstantBias,
    Coordinatewise,
    Linear,
    NormGate,
    NormTanh,
    RadialBias,
)
from .base import Configured
from .conv import BundleConv, Learnable
from .mixed import MixedOperators, MixedTNN
from .models import TNN
from .readouts import InvariantReadout, MeanReadout, MomentReadout, Readout, SumReadout
from .recurrent import GatedTNN, Recurrent, RecurrentTNN

__all__ = [
    "TNN",
    "Activation",
    "AmbientThenProject",
    "Bias",
    "BundleConv",
    "Configured",
    "ConstantBias",
    "Coordinatewise",
    "GatedTNN",
    "InvariantReadout",
    "Learnable",
    "Linear",
    "MeanReadout",
    "MixedOperators",
    "MixedTNN",
    "MomentReadout",
    "NormGate",
    "NormTanh",
    "RadialBias",
    "Readout",
    "Recurrent",
    "RecurrentTNN",
    "SumReadout",
]
