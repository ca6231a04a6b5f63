"""Fields of directions on surfaces: lines, crosses and others with n equal representatives."""

from .alignment import Alignment, Curvature, Fixed
from .field import DirectionField
from .smoothest import smoothest_field

__all__ = ["Alignment", "Curvature", "DirectionField", "Fixed", "smoothest_field"]
