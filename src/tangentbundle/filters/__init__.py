"""Filters: functions of the connection Laplacian."""

from .base import Filter, Impulses
from .exact import Dense, Exact, Method
from .lowpass import LowpassNonAmplifying
from .methods import Chebyshev, Lanczos, apply_bank, merge_bank
from .properties import Properties
from .responses import FIR, Heat, IdealLowpass, ImpulseResponse, Matern, Polynomial, Spectral, Tikhonov, Wavelet

__all__ = [
    "FIR",
    "Chebyshev",
    "Dense",
    "Exact",
    "Filter",
    "Heat",
    "IdealLowpass",
    "ImpulseResponse",
    "Impulses",
    "Lanczos",
    "LowpassNonAmplifying",
    "Matern",
    "Method",
    "Polynomial",
    "Properties",
    "Spectral",
    "Tikhonov",
    "Wavelet",
    "apply_bank",
    "merge_bank",
]
