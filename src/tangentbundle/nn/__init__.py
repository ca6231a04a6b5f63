"""Tangent bundle neural networks: weights only, the operator is an argument of ``forward``."""

from .activations import Activation, AmbientThenProject, Coordinatewise, NoActivation, NormTanh
from .base import Configured
from .conv import BundleConv
from .mixed import MixedOperators, MixedTNN
from .models import TNN, GatedTNN, Recurrent, RecurrentTNN
from .parametrizations import (
    Cayley,
    Diagonal,
    General,
    Householder,
    MatrixExponential,
    Parametrization,
)
from .readouts import InvariantReadout, Readout, SumReadout
from .sheaf_maps import ConnectionSheaf, SheafBuilder, SheafLearner
from .sheaf_networks import SheafConv, SheafDiffusion, SheafTNN, TangentConv

__all__ = [
    "TNN",
    "Activation",
    "AmbientThenProject",
    "BundleConv",
    "Cayley",
    "Configured",
    "ConnectionSheaf",
    "Coordinatewise",
    "Diagonal",
    "GatedTNN",
    "General",
    "Householder",
    "InvariantReadout",
    "MatrixExponential",
    "MixedOperators",
    "MixedTNN",
    "NoActivation",
    "NormTanh",
    "Parametrization",
    "Readout",
    "Recurrent",
    "RecurrentTNN",
    "SheafBuilder",
    "SheafConv",
    "SheafDiffusion",
    "SheafLearner",
    "SheafTNN",
    "SumReadout",
    "TangentConv",
]
