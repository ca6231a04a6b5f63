"""Data: wind on the Earth, and the paper's synthetic fields and clouds. See docs/data.md."""

from .download import fetch
from .sources import (
    NCEP,
    SIGMA995,
    TEN_METRES,
    Embedded,
    FromFile,
    FromXarray,
    GFSBlocks,
    Product,
    Source,
    fetch_ncep,
    load_wind,
    wind_folder,
)
from .synthetic import (
    Clouds,
    EachAxis,
    FieldSample,
    LongestSide,
    PaperField,
    TangentField,
    TorusField,
    torus_field,
    torus_klein_clouds,
)
from .timeline import Timeline, Windows, regular
from .wind import WindData

__all__ = [
    "NCEP",
    "SIGMA995",
    "TEN_METRES",
    "Clouds",
    "EachAxis",
    "Embedded",
    "FieldSample",
    "FromFile",
    "FromXarray",
    "GFSBlocks",
    "LongestSide",
    "PaperField",
    "Product",
    "Source",
    "TangentField",
    "Timeline",
    "TorusField",
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
