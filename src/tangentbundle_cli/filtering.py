"""Commands that apply operators to a field: filter, decompose; in memory, on disk, or in blocks of
times of a grid."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import tangentbundle as tb

from .fields import add_normal_share, build_bundle
from .job import Job, command, write_in_blocks
from .options import NOT_NEGATIVE, Output, Source, Workers

MIN_ENERGY_SHARE = 0.01
"""Share of the energy below which a filter counts as having removed the field."""


@command
def filter(
    job: Job,
    file: Source,
    output: Output,
    geometry: dict[str, Any],
    heat: Annotated[
        float | None,
        typer.Option(callback=NOT_NEGATIVE, help="diffusion time, in squared units of the points"),
    ] = None,
    scale: Annotated[
        str, typer.Option(help='wavelength on the globe to damp by half, such as "500 km"')
    ] = "",
    variables: Annotated[
        str, typer.Option(help="variables of a grid to read and write: U,V; default all")
    ] = "",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=(
                "partitions computed at the same time, with the Laplacian on disk, for large clouds"
            ),
        ),
    ] = None,
) -> None:
    """Smooth a field by heat flow or to a scale in km; the normal component is discarded.

    Lengths have the units of the points; for latitude and longitude the radius of the Earth is one.

    Examples:
        tangentbundle filter field.npz --heat 0.1 -o smooth.npz
        tangentbundle filter large.parquet --heat 0.1 -o smooth.parquet --workers 4
        tangentbundle filter 'wind_*.nc' --scale "500 km" -o smooth.zarr --workers 2
    """
    if (heat is None) == (not scale):
        raise tb.errors.InvalidInputError(
            "expected one filter: --heat TIME, or --scale LENGTH on the globe."
        )
    if heat is None:
        tb.earth.radians(scale)  # refuses what is not a length

        def smooth(ds: Any, names: tuple[str, ...]) -> Any:
            return tb.earth.smooth(ds, scale, vectors=names)

        plan = {"scale": scale, "variables": variables}
        write_in_blocks(job, file, output, smooth, plan, workers or 1, geometry)
        job.summary.add("filter", f"wavelength {scale} damped by half", scale=scale)
        return
    if variables:
        raise tb.errors.InvalidInputError(
            "--variables needs --scale. Name the components with --vectors instead."
        )
    with job.steps(4) as step, contextlib.ExitStack() as stack:
        step("reading")
        field = job.read(file, output)
        step("building the bundle")
        response = tb.Heat(heat)
        if workers is None:
            bundle = build_bundle(job, field, geometry)
            apply: Callable[[Any], Any] = partial(response, bundle.laplacian())
        else:
            bundle = stack.enter_context(_in_parts(job, field, output, workers, geometry))
            apply = partial(bundle.filter, response)
        add_normal_share(job, field, bundle)
        step("filtering")
        result, left = _filtered(field, bundle, apply)
        job.summary.add(
            "filter", f"{response}; {left:.1%} of the tangent energy remains", energy_left=left
        )
        step("writing")
        job.write(result, output)


def _filtered(
    field: tb.io.Field, bundle: Any, apply: Callable, at_once: int = 32
) -> tuple[tb.io.Field, float]:
    """Apply a filter of coordinates to the field of every time, and return the share of energy that
    remains.

    ``at_once`` times are filtered together. Warns if almost no energy remains.
    """
    import numpy as np

    remedy = "The time is a squared length in units of the points. "
    remedy += f"Try {bundle.eps:.2g}, which smooths over one neighbourhood."
    vectors = field.vectors.astype(field.space.coordinates.dtype, copy=False)
    smooth, energy = np.empty_like(vectors), np.zeros(2)
    for a in range(0, len(vectors), at_once):
        x = bundle.to_coordinates(np.ascontiguousarray(vectors[a : a + at_once].transpose(1, 2, 0)))
        try:
            y = apply(x)
        except tb.errors.ConvergenceError as error:
            raise tb.errors.InvalidInputError(
                f"--heat is far too long for these points. {remedy}"
            ) from error
        energy += np.square(x).sum(), np.square(y).sum()
        smooth[a : a + at_once] = (
            bundle.to_ambient(y).reshape(*vectors.shape[1:], -1).transpose(2, 0, 1)
        )
    left = float(energy[1] / energy[0]) if energy[0] else 1.0
    if left < MIN_ENERGY_SHARE:
        tb.io.field.warn_of_data(
            f"only {left:.2g} of the field's energy remains after the filter. {remedy}"
        )
    return field.with_vectors(smooth), left


@contextlib.contextmanager
def _in_parts(
    job: Job, field: tb.io.Field, output: Path, workers: int, geometry: dict[str, Any]
) -> Iterator[tb.distributed.DistributedBundle]:
    """Build the bundle in a hidden folder next to the output, from which an interrupted run
    resumes."""
    if type(field.space) is not tb.io.Cloud:
        raise tb.errors.InvalidInputError(
            "--workers needs a point cloud, without faces or latitude and longitude. Remove "
            "--workers, or convert the file to x, y, z and three vector components first."
        )
    work = output.absolute().with_name(f".{output.name}.work")
    size = -(
        -len(field.space) // (4 * workers)
    )  # several for each worker: one writes while others compute
    fresh, size = not work.exists(), min(tb.distributed.bundle.MAX_PARTITION, size)
    dask = tb.extras.extra("dask", "Filtering in parts", "cluster")
    try:
        with dask.config.set(scheduler="threads", num_workers=workers):
            build = partial(
                tb.distributed.DistributedBundle.from_points,
                field.space.points,
                work,
                partition=size,
            )
            bundle = build_bundle(job, field, geometry, build)
            job.summary.add("partitions", str(bundle.num_parts), partitions=bundle.num_parts)
            yield bundle
    except tb.errors.TangentBundleError:
        if fresh:  # nothing to resume; keep the folder of an earlier run
            shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)


@command
def decompose(
    job: Job, file: Source, output: Output, geometry: dict[str, Any], workers: Workers = None
) -> None:
    """Split a field into gradient, rotational part and remainder; compute potentials, divergence
    and vorticity.

    The points must cover a closed space, except on the globe, where cells without data are land.
    The normal component is discarded.

    Examples:
        tangentbundle decompose wind.nc -o parts.nc --report parts.html
        tangentbundle decompose field.csv -o parts.csv
        tangentbundle decompose 'wind_*.nc' -o parts.zarr --workers 2
    """
    if workers is not None:
        write_in_blocks(job, file, output, _lazy_parts, {}, workers, geometry)
        return
    with job.steps(4) as step:
        step("reading")
        field = job.read(file, output)
        step("building the bundle")
        bundle = None
        if not isinstance(field.space, tb.io.Globe):
            bundle = build_bundle(job, field, geometry)
            add_normal_share(job, field, bundle)
        elif geometry:
            raise tb.errors.InvalidInputError(
                "on the globe the parts are computed on grid cells. Remove --dim, --neighbors and "
                "--eps."
            )
        step("decomposing")
        result, energies = _parts(field, bundle)
        for name, shares in energies.items():
            spread = (
                f" on average ({shares.min():.1%} to {shares.max():.1%})" if len(shares) > 1 else ""
            )
            job.summary.add(name, f"{shares.mean():.1%} of the energy{spread}", energies=energies)
        step("writing")
        job.write(result, output)


def _lazy_parts(ds: Any, names: tuple[str, ...]) -> Any:
    """Return the variables of ``_parts`` on a grid, computed with Dask."""
    parts = {"divergent": "gradient", "rotational": "rotational", "remainder": "remainder"}
    new = {"velocity_potential": "potential", "streamfunction": "stream"}
    new |= {f"{name}_{old}": f"{part}_{name}" for old, part in parts.items() for name in names}
    found = tb.earth.decompose(ds, vectors=names).rename(new)
    rates = {
        rate: getattr(tb.earth, rate)(ds, vectors=names) for rate in ("divergence", "vorticity")
    }
    return found.assign(rates | {name: ds[name] for name in names})


def _parts(
    field: tb.io.Field, bundle: tb.TangentBundle | None
) -> tuple[tb.io.Field, dict[str, Any]]:
    """Return the field with its parts, potentials, divergence and vorticity, and the energies
    ``(T,)`` of its parts.

    On the globe there is no bundle: the cells of the file's grid are used, and speeds give rates in
    s-1 and potentials in m2 s-1. Otherwise lengths have the units of the points.
    """
    from tangentbundle.earth.decomposition import decompose_points

    space, radius, speed = field.space, tb.earth.RADIUS, None
    if bundle is None:
        gridded = isinstance(field.origin, tb.io.datasets.GridFile)
        grid = field.origin.grid if gridded else tb.earth.Grid.scattered(*space.coordinates.T)
        winds = decompose_points(grid, space.points, field.values)
        found = tb.calculus.Decomposition(
            gradient=winds.divergent,
            rotational=winds.rotational,
            remainder=winds.remainder,
            potential=winds.velocity_potential,
            stream=winds.streamfunction,
            divergence=winds.divergence,
            vorticity=winds.vorticity,
            energies={
                "gradient": winds.energies["divergent"],
                "rotational": winds.energies["rotational"],
                "remainder": winds.energies["remainder"],
            },
        )
        speed = tb.units.conversion(field.units, "m s-1")
    else:
        vectors = field.vectors.astype(space.coordinates.dtype, copy=False)
        found = tb.helmholtz(bundle, bundle.to_coordinates(vectors[..., None]))
    rate, area = (
        ((speed / radius, "s-1"), (speed * radius, "m2 s-1")) if speed else ((1.0, ""), (1.0, ""))
    )
    parts = {}
    for name in found.energies:
        values = getattr(found, name)
        values = values[..., 0] if bundle is None else space.components(bundle.to_ambient(values))
        names = tuple(f"{name}_{component}" for component in field.names)
        parts[name] = replace(field, values=values, names=names, wind=())
    for name, (scale, unit) in {
        "divergence": rate,
        "vorticity": rate,
        "potential": area,
        "stream": area,
    }.items():
        if (values := getattr(found, name)) is not None:
            names = (f"{name} [{unit}]" if unit else name,)
            parts[name] = replace(
                field, values=scale * values[..., 0], names=names, units=unit, wind=()
            )
    return replace(field, parts=parts), {
        name: share[:, 0] for name, share in found.energies.items()
    }
