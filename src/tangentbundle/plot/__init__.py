"""Pictures of fields, maps and spectra (``pip install 'tangentbundle[plot]'``).

Functions take and return matplotlib ``axes``; ``canvas`` makes several.
"""

from ..earth.maps import EqualAreaMap
from .curves import spectrum
from .fields import field
from .interactive import interactive_field
from .maps import earth_map
from .style import canvas, save
from .views import View

__all__ = [
    "EqualAreaMap",
    "View",
    "canvas",
    "earth_map",
    "field",
    "interactive_field",
    "save",
    "spectrum",
]
