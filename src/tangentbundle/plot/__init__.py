"""Pictures of fields, maps and spectra (``pip install 'tangentbundle[plot]'``).

Functions that draw one panel take and return matplotlib ``axes``; those that draw several return the figure.
"""

from ..earth.maps import EqualAreaMap
from .curves import curves, spectrum
from .fields import field, fields
from .interactive import interactive_field
from .maps import earth_map
from .style import canvas, legend_below, save
from .views import View

__all__ = [
    "EqualAreaMap",
    "View",
    "canvas",
    "curves",
    "earth_map",
    "field",
    "fields",
    "interactive_field",
    "legend_below",
    "save",
    "spectrum",
]
