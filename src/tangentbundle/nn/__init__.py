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
from .constraints import Constraint, Lowpass, NonAmplifying
from .conv import BundleConv
from .dropout import VectorDropout
from .edge_features import EdgeFeatureConv
from .learnable_filters import (
    DecaySum,
    HeatSum,
    ImpulseNetwork,
    LearnableFilter,
    LearnedHeat,
    Positive,
    RationalFilter,
)
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
    "Constraint",
    "Coordinatewise",
    "DecaySum",
    "Diagonal",
    "EdgeFeatureConv",
    "FieldNorm",
    "GatedTNN",
    "General",
    "HeatSum",
    "Householder",
    "ImpulseNetwork",
    "InvariantReadout",
    "LearnableFilter",
    "LearnedHeat",
    "Lowpass",
    "MatrixExponential",
    "MeanPooling",
    "MixedOperators",
    "MixedReadout",
    "MixedTNN",
    "NoActivation",
    "NoNorm",
    "NoPooling",
    "NonAmplifying",
    "NormGate",
    "NormTanh",
    "Parametrization",
    "PointNorm",
    "Pooling",
    "Positive",
    "RationalFilter",
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
