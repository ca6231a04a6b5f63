"""Pictures of fields, maps, spectra and filters (``pip install 'tangentbundle[plot]'``)."""

from .fields import field, fields
from .style import canvas, save
from .thinning import spread_out
from .views import View

__all__ = ["View", "canvas", "field", "fields", "save", "spread_out"]
