"""Forecasts of vector fields on a manifold from past ones: `FieldForecaster` and its methods."""

from .autoregression import Autoregression
from .forecaster import FieldForecaster
from .methods import Climatology, Persistence

__all__ = ["Autoregression", "Climatology", "FieldForecaster", "Persistence"]
