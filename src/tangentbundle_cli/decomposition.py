"""The command that splits a field into gradient, rotational part and remainder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError
from tangentbundle.results import Result

from .blocks import write_in_blocks
from .fields import add_normal_share, build_bundle
from .files import check_files, naming_rows, read_input, steps, write_output
from .options import AUTOMATIC, GUESSED, SILENT, Display, Geometry, Output, Reading, Source, Workers
from .plain_words import describe_parts


def decompose(
    file: Source,
    output: Output,
    workers: Workers = None,
    geometry: Geometry = AUTOMATIC,
    reading: Reading = GUESSED,
    display: Display = SILENT,
) -> Result:
    """Split a field into gradient, rotational part and remainder; compute potentials, divergence
    and vorticity.

    The points must cover a closed space, except on the globe, where cells without data are land.
    The normal component is discarded.

    Examples:
        tangentbundle decompose wind.nc -o parts.nc --report parts.html
        tangentbundle decompose field.csv -o parts.csv
        tangentbundle decompose 'wind_*.nc' -o parts.zarr --workers 2
    """
    result = Result(
        "decompose", "The field as the sum of a gradient, a rotational part and a remainder."
    )
    check_files([file], output, display)
    if workers is not None:
        write_in_blocks(
            result,
            file,
            output,
            _lazy_parts,
            plan={},
            workers=workers,
            reading=reading,
            display=display,
            refused=geometry.arguments(),
        )
        return result
    with steps(4, display) as step:
        step("reading")
        field = read_input(result, file, reading, display, dim=geometry.dim, output=output)
        with naming_rows(field):
            step("building the bundle")
            on_globe = isinstance(field.space, tb.spaces.Globe)
            if on_globe and geometry.arguments():
                raise InvalidInputError(
                    "on the globe the parts are computed on grid cells. Remove --dim, --neighbors "
                    "and --eps."
                )
            if on_globe:
                step("decomposing")
                decomposed = _decomposed_on_globe(field)
            else:
                bundle = build_bundle(result, field, geometry)
                add_normal_share(result, field, bundle)
                step("decomposing")
                decomposed = _decomposed_on_bundle(field, bundle)
        energies = {name: shares[:, 0] for name, shares in decomposed.energies.items()}
        for name, shares in energies.items():
            text = f"{shares.mean():.1%} of the energy"
            if len(shares) > 1:
                text += f" on average ({shares.min():.1%} to {shares.max():.1%})"
            result.add(name, text, energies=energies)
        describe_parts(result, field, {name: float(e.mean()) for name, e in energies.items()})
        step("writing")
        result.after = replace(field, parts=decomposed.fields)
        write_output(result, result.after, output, display)
    return result


def _lazy_parts(ds: Any, names: tuple[str, ...]) -> Any:
    """Return the variables of a decomposition on a grid, computed with Dask."""
    decomposed = tb.earth.decompose(ds, vectors=names)
    divergence = tb.earth.divergence(ds, vectors=names)
    vorticity = tb.earth.vorticity(ds, vectors=names)
    fields = {name: ds[name] for name in names}
    return decomposed.assign({"divergence": divergence, "vorticity": vorticity} | fields)


class DecomposedField:
    """The parts of a field, its potentials and rates as fields, and the ``energies`` ``(T, 1)`` of
    the parts."""

    def __init__(self, energies: dict[str, Any]) -> None:
        self.energies = energies
        self.fields: dict[str, tb.io.Field] = {}

    def add_vectors(
        self, name: str, values: Any, components: tuple[str, ...], field: tb.io.Field
    ) -> None:
        """Add a part: vectors ``(T, n, c)`` with named components, in the unit of a field."""
        self.fields[name] = replace(field, values=values, names=components, wind=())

    def add_numbers(
        self, numbers: dict[str, Any], field: tb.io.Field, scale: float = 1.0, unit: str = ""
    ) -> None:
        """Add numbers ``(T, n, 1, 1)`` at the points of a field, by name, times a factor that gives
        them a unit; those that a decomposition lacks are None."""
        for name, values in numbers.items():
            if values is None:
                continue
            label = name
            if unit:
                label += f" [{unit}]"
            self.fields[name] = replace(
                field, values=scale * values[..., 0], names=(label,), units=unit, wind=()
            )


def _decomposed_on_globe(field: tb.io.Field) -> DecomposedField:
    """The parts on the cells of the file's grid, with the names that ``tangentbundle.earth`` gives
    them; speeds give rates in s-1 and potentials in m2 s-1."""
    from tangentbundle.earth.decomposition import decompose_points
    from tangentbundle.io.names import with_suffix
    from tangentbundle.units import conversion

    if isinstance(field.origin, tb.io.GridFile):
        grid = field.origin.grid
    else:
        latitudes, longitudes = field.space.coordinates.T
        grid = tb.earth.Grid.scattered(latitudes, longitudes)
    assert field.values is not None
    split = decompose_points(grid, field.space.points, field.values)
    decomposed = DecomposedField(split.energies)
    for part in split.energies:
        components = tuple(with_suffix(name, f"_{part}") for name in field.names)
        decomposed.add_vectors(part, getattr(split, part)[..., 0], components, field)
    rates = {"divergence": split.divergence, "vorticity": split.vorticity}
    potentials = {
        "velocity_potential": split.velocity_potential,
        "streamfunction": split.streamfunction,
    }
    speed = conversion(field.units, "m s-1")
    if speed:
        decomposed.add_numbers(rates, field, scale=speed / tb.earth.RADIUS, unit="s-1")
        decomposed.add_numbers(potentials, field, scale=speed * tb.earth.RADIUS, unit="m2 s-1")
    else:
        decomposed.add_numbers(rates | potentials, field)
    return decomposed


def _decomposed_on_bundle(field: tb.io.Field, bundle: tb.TangentBundle) -> DecomposedField:
    """The parts of a field on a closed manifold; lengths have the units of the points."""
    vectors = field.vectors.astype(field.space.coordinates.dtype, copy=False)
    split = tb.helmholtz(bundle, bundle.to_coordinates(vectors[..., None]))
    decomposed = DecomposedField(split.energies)
    for part in split.energies:
        ambient = bundle.to_ambient(getattr(split, part))
        components = tuple(f"{part}_{name}" for name in field.names)
        decomposed.add_vectors(part, field.space.to_components(ambient), components, field)
    numbers = {
        "divergence": split.divergence,
        "vorticity": split.vorticity,
        "potential": split.potential,
        "stream": split.stream,
    }
    decomposed.add_numbers(numbers, field)
    return decomposed
