"""Pictures of fields, maps, spectra and filters (``pip install 'tangentbundle[plot]'``).

What draws into one place takes and returns matplotlib ``axes``; what draws several returns the figure.
"""

from .curves import bars, convergence, curves, diagnostics, multiplicities, response, spectrum
from .fields import field, fields
from .files import file_field
from .illustrations import diffusion, surfaces, tangent_space, transport
from .interactive import interactive_field, interactive_map
from .layers import Layer
from .maps import globe, value_map, wind_components, wind_map
from .projections import Azimuthal, Mollweide, Orthographic, Projection
from .style import canvas, legend_below, save
from .thinning import spread_out
from .views import View

__all__ = [
    "Azimuthal",
    "Layer",
    "Mollweide",
    "Orthographic",
    "Projection",
    "View",
    "bars",
    "canvas",
    "convergence",
    "curves",
    "diagnostics",
    "diffusion",
    "field",
    "fields",
    "file_field",
    "globe",
    "interactive_field",
    "interactive_map",
    "legend_below",
    "multiplicities",
    "response",
    "save",
    "spectrum",
    "spread_out",
    "surfaces",
    "tangent_space",
    "transport",
    "value_map",
    "wind_components",
    "wind_map",
]
