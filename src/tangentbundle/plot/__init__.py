"""Pictures of fields, maps, spectra and filters (``pip install 'tangentbundle[plot]'``).

Functions that draw one panel take and return matplotlib ``axes``; those that draw several return the figure.
"""

from ..earth.maps import EqualAreaMap
from .curves import bars, curves, multiplicities, response, spectrum
from .fields import field, fields
from .interactive import interactive_field, layered_field, layered_map
from .layers import Layer
from .maps import earth_map, file_field
from .style import canvas, legend_below, save
from .views import View, spread_out

__all__ = [
    "EqualAreaMap",
    "Layer",
    "View",
    "bars",
    "canvas",
    "curves",
    "earth_map",
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
]
