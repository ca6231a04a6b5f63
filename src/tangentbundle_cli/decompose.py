"""``tangentbundle decompose``: the parts of a field by their sources and vortices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tangentbundle as tb

from .fields import build_bundle, tell_normal_part
from .gridded import write_in_blocks
from .job import Job, Output, Source, Workers, command


@command
def decompose(job: Job, file: Source, output: Output, geometry: dict[str, Any], workers: Workers = None) -> None:
    """Split a field into a gradient, a rotational part and a remainder; also potentials, divergence and vorticity.

    The points must cover a closed space; on the globe they need not, where cells without data are land. The normal
    part of vectors is left out.

    Examples:
        tangentbundle decompose wind.nc -o parts.nc --report parts.html
        tangentbundle decompose field.csv -o parts.csv
        tangentbundle decompose 'wind_*.nc' -o parts.zarr --workers 2
    """
    if workers is not None:
        write_in_blocks(
            job, file, output, lambda ds, names: tb.earth.decompose(ds, vectors=names), {}, workers, None, geometry
        )
        return
    with job.steps(4) as step:
        step("reading")
        field = job.read(file, output)
        step("building the bundle")
        bundle = None
        if not isinstance(field.space, tb.io.Globe):
            bundle = build_bundle(job, field, geometry)
            tell_normal_part(job, field, bundle)
        elif geometry:
            raise tb.errors.InvalidInputError(
                "on the globe the parts are those of cells: leave out --dim, --neighbors and --eps."
            )
        step("decomposing")
        result, energies = _parts(field, bundle)
        for name, shares in energies.items():
            spread = f" on average ({shares.min():.1%} to {shares.max():.1%})" if len(shares) > 1 else ""
            job.summary.tell(name, f"{shares.mean():.1%} of the energy{spread}", energies=energies)
        step("writing")
        job.write(result, output)


def _parts(field: tb.io.Field, bundle: tb.TangentBundle | None) -> tuple[tb.io.Field, dict[str, Any]]:
    """The field with its parts, potentials, divergence and vorticity; energies ``(T,)`` of its parts.

    On the globe there is no bundle: the cells of the file's grid are used, and speeds give rates in s-1 and potentials
    in m2 s-1. Otherwise lengths are those of the points.
    """
    from tangentbundle.earth.decomposition import decompose_points

    space, radius, speed = field.space, tb.earth.RADIUS, None
    if bundle is None:
        gridded = isinstance(field.origin, tb.io.grids.GridFile)
        grid = field.origin.grid if gridded else tb.earth.Grid.scattered(*space.coordinates.T)
        found, speed = decompose_points(grid, space.points, field.values), tb.units.conversion(field.units, "m s-1")
    else:
        vectors = field.vectors.astype(space.coordinates.dtype, copy=False)
        found = tb.helmholtz(bundle, bundle.to_coordinates(vectors[..., None]))
    rate, area = ((speed / radius, "s-1"), (speed * radius, "m2 s-1")) if speed else ((1.0, ""), (1.0, ""))
    parts = {}
    for name in found.energies:
        values = getattr(found, name)
        values = values[..., 0] if bundle is None else space.components(bundle.to_ambient(values))
        names = tuple(f"{name}_{component}" for component in field.names)
        parts[name] = replace(field, values=values, names=names, wind=())
    for name, (scale, unit) in {"divergence": rate, "vorticity": rate, "potential": area, "stream": area}.items():
        if (values := getattr(found, name)) is not None:
            names = (f"{name} [{unit}]" if unit else name,)
            parts[name] = replace(field, values=scale * values[..., 0], names=names, units=unit, wind=())
    return replace(field, parts=parts), {name: share[:, 0] for name, share in found.energies.items()}
