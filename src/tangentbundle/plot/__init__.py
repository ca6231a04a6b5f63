"""Pictures of fields, maps, spectra and filters (``pip install 'tangentbundle[plot]'``).

Functions that draw one panel take and return matplotlib ``axes``; those that draw several return the figure.
"""

from ..earth.maps import EqualAreaMap
from .curves import bars, convergence, curves, diagnostics, multiplicities, response, spectrum
from .fields import field, fields
from .interactive import interactive_field, layered_field, layered_map
from .maps import file_field, value_map, wind_components, wind_map
from .style import canvas, legend_below, save
from .traces import Layer
from .views import View, spread_out

__all__ = [
    "EqualAreaMap",
    "Layer",
    "View",
    "bars",
    "canvas",
    "convergence",
    "curves",
    "diagnostics",
    "field",
    "fields",
    "file_field",
    "interactive_field",
    "layered_field",
    "layered_map",
    "legend_below",
    "multiplicities",
    "response",
    "save",
    "spectrum",
    "spread_out",
    "value_map",
    "wind_components",
    "wind_map",
]
