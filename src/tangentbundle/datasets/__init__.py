"""Data: wind on the Earth, and the paper's synthetic fields and clouds. See docs/data.md."""

from ..download import fetch
from ..earth.sources import fetch_ncep, load_wind, wind_folder
from ..earth.wind import WindData
from ..timeline import Timeline, Windows, regular
from .synthetic import FieldSample, torus_field, torus_klein_clouds

__all__ = [
    "FieldSample",
    "Timeline",
    "WindData",
    "Windows",
    "fetch",
    "fetch_ncep",
    "load_wind",
    "regular",
    "torus_field",
    "torus_klein_clouds",
    "wind_folder",
]
