"""Forecasts of vector fields on a manifold from past ones: `FieldForecaster` and its methods."""

from .autoregression import Autoregression
from .forecaster import FieldForecaster
from .methods import Climatology, LeadSkill, Persistence

__all__ = ["Autoregression", "Climatology", "FieldForecaster", "LeadSkill", "Persistence"]
