"""Fields of people's files: the picture that suits their space."""

from __future__ import annotations

from typing import Any

from ..io import Field, Globe, Mesh
from .fields import field as draw_field
from .maps import value_map, wind_map


def file_field(field: Field, *, number: int = 0, axes: Any = None) -> Any:
    """One of the fields of a file: a map for the globe, a surface or a cloud otherwise; returns matplotlib axes.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> from tangentbundle.io import Cloud, Field
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(500, seed=0)
    >>> axes = file_field(Field(Cloud(points, ("x", "y", "z")), torus.tangent_field(points)[None]))
    >>> axes.get_title()
    '500 points in R^3'
    """
    space, unit = field.space, f", {field.units}" if field.units else ""
    if isinstance(space, Globe):
        if field.values is None:
            return value_map(
                space.lat, space.lon, space.lat * float("nan"), title=str(field), colorbar=False, axes=axes
            )
        return wind_map(space.lat, space.lon, field.values[number], label=f"speed{unit}", title=str(field), axes=axes)
    faces = space.faces if isinstance(space, Mesh) else None
    vectors = None if field.values is None else field.vectors[number]
    return draw_field(space.points, vectors, faces=faces, label=f"length{unit}", title=str(field), axes=axes)
