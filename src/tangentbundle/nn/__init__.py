"""Tangent bundle neural networks: weights only, the operator is an argument of ``forward``."""

from .activations import (
    Activation,
    AmbientThenProject,
    Coordinatewise,
    NoActivation,
    NormGate,
    NormTanh,
)
from .base import Configured
from .conv import BundleConv
from .dropout import VectorDropout
from .mixed import MixedTNN, ResidualMixedTNN
from .mixed_operators import MixedOperators
from .models import TNN, GatedTNN, Recurrent, RecurrentTNN
from .norms import CloudNorm, FieldNorm, NoNorm, PointNorm
from .parametrizations import (
    Cayley,
    Diagonal,
    General,
    Householder,
    MatrixExponential,
    Parametrization,
)
from .pooling import AttentionPooling, MeanPooling, NoPooling, Pooling
from .readouts import InvariantReadout, MixedReadout, Readout, SumReadout
from .residual import ResidualBlock, ResidualTNN
from .sheaf_maps import ConnectionSheaf, SheafBuilder, SheafLearner
from .sheaf_networks import SheafConv, SheafDiffusion, SheafTNN, TangentConv

__all__ = [
    "TNN",
    "Activation",
    "AmbientThenProject",
    "AttentionPooling",
    "BundleConv",
    "Cayley",
    "CloudNorm",
    "Configured",
    "ConnectionSheaf",
    "Coordinatewise",
    "Diagonal",
    "FieldNorm",
    "GatedTNN",
    "General",
    "Householder",
    "InvariantReadout",
    "MatrixExponential",
    "MeanPooling",
    "MixedOperators",
    "MixedReadout",
    "MixedTNN",
    "NoActivation",
    "NoNorm",
    "NoPooling",
    "NormGate",
    "NormTanh",
    "Parametrization",
    "PointNorm",
    "Pooling",
    "Readout",
    "Recurrent",
    "RecurrentTNN",
    "ResidualBlock",
    "ResidualMixedTNN",
    "ResidualTNN",
    "SheafBuilder",
    "SheafConv",
    "SheafDiffusion",
    "SheafLearner",
    "SheafTNN",
    "SumReadout",
    "TangentConv",
    "VectorDropout",
]
