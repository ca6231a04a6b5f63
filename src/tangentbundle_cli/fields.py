"""Commands for one field and its connection Laplacian: inspect, spectrum."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import tangentbundle as tb

from .job import Job, command
from .options import Source

MAX_SPECTRUM_POINTS = 10_000
"""Largest number of points for eigenvalues, curvature and Betti number; larger clouds are
sampled."""


def build_bundle(
    job: Job, field: tb.io.Field, geometry: dict[str, Any], in_parts: Callable | None = None
) -> Any:
    """Build the bundle of a file's points and describe it in the summary.

    ``geometry`` holds dim, neighbors and eps; ``in_parts`` builds a ``DistributedBundle`` instead
    of one in memory.
    """
    import numpy as np

    from tangentbundle.geometry.scale import affordable_neighbors

    automatic, is_mesh = not {"neighbors", "eps"} & {*geometry}, isinstance(field.space, tb.io.Mesh)
    few = affordable_neighbors(len(field.space)) if automatic and not is_mesh else None
    if few is not None:
        geometry = {**geometry, "neighbors": few}
        job.summary.notes.append(
            f"{few} neighbours per point are used to save memory; set --neighbors to change it"
        )
    bundle: Any = (in_parts or field.space.bundle)(**geometry)
    is_estimated = in_parts is not None or bundle.estimate is not None
    frames = "estimated frames" if is_estimated else "known frames"
    job.summary.add(
        "dimension", f"{bundle.dim} in R^{bundle.ambient_dim} ({frames})", dimension=bundle.dim
    )
    if in_parts is None and bundle.weights.mesh is not None:
        job.summary.add(
            "operator", f"cotangent Laplacian: {bundle.weights.mesh}", mesh=str(bundle.weights.mesh)
        )
        return bundle
    median = float(np.median((bundle.sorted_graph if in_parts is None else bundle).degrees))
    chosen = "automatic" if automatic else "given"
    text = f"eps {bundle.eps:.4g}, radius {bundle.eps**0.5:.4g}, {median:.0f} neighbours ({chosen})"
    job.summary.add("scale", text, eps=bundle.eps, median_neighbors=median)
    return bundle


def add_normal_share(job: Job, field: tb.io.Field, bundle: Any) -> None:
    """Add the share of the field's energy that is lost by projection to the summary."""
    share = tb.diagnostics.normal_share(bundle, field.vectors.transpose(1, 2, 0).copy())
    job.summary.add("normal component", f"{share:.1%} of the energy, discarded", normal_share=share)


def compute_spectrum(job: Job, bundle: tb.TangentBundle, k: int, max_lines: int = 10) -> Any:
    """Return the k lowest eigenvalues of the Laplacian and their fields; add the values to the
    summary."""
    values, fields = bundle.laplacian().spectrum(min(k, bundle.num_points * bundle.rank))
    job.summary.eigenvalues = values = values.astype(float)
    if bundle.weights.mesh is None:  # the vertices of a mesh are not a random sample
        job.summary.eigenvalue_errors = tb.diagnostics.sampling_errors(bundle, fields)
    lines = textwrap.wrap(" ".join(f"{value:.4g}" for value in values), 74)
    if hidden := sum(len(line.split()) for line in lines[max_lines:]):
        lines[max_lines:] = [f"and {hidden} more, up to {values[-1]:.4g}; --json prints all"]
    job.summary.add("eigenvalues", f"\n{'':26}".join(lines), eigenvalues=values)
    return values, fields


@command
def inspect(
    job: Job,
    file: Source,
    geometry: dict[str, Any],
    k: Annotated[int, typer.Option("-k", min=0, help="eigenvalues to compute; 0 for none")] = 6,
) -> None:
    """Report dimension, scale, components, orientability, normal component, curvature and spectrum
    of a file.

    Examples:
        tangentbundle inspect field.csv
        tangentbundle inspect wind.nc --report wind.html
    """
    with job.steps(4) as step:
        step("reading")
        field = job.read(file, needs_vectors=False)
        step("building the bundle")
        bundle = build_bundle(job, field, geometry)
        step("diagnosing")
        _diagnose(job, field, bundle)
        step("computing eigenvalues")
        sample = _sample(job, field, bundle, geometry)
        if k:
            compute_spectrum(job, sample, k)
        _add_shape(job, sample, count_holes=k > 0)


def _diagnose(job: Job, field: tb.io.Field, bundle: tb.TangentBundle) -> None:
    import numpy as np

    found = bundle.diagnose(None if field.values is None else field.vectors, quiet=True)
    add = job.summary.add
    add("components", str(found.components), components=found.components)
    if found.dimension_histogram:
        counts = ", ".join(f"{d}: {c}" for d, c in found.dimension_histogram.items())
        add("local dimensions", counts, local_dimensions=found.dimension_histogram)
    detail = (
        "consistent frames"
        if found.consistent
        else f"{found.frustration:.2%} of edges remain reflections"
    )
    add(
        "orientable",
        f"{'yes' if found.orientable else 'no'} ({detail})",
        orientable=found.orientable,
    )
    if bundle.weights.mesh is None:
        share = found.neighborhood_share
        add("neighbourhood size", f"{share:.1%} of the points", neighborhood_share=share)
    if found.normal_share is not None:
        add(
            "normal component",
            f"{found.normal_share:.1%} of the energy",
            normal_share=found.normal_share,
        )
        low, middle, high = np.quantile(np.linalg.norm(field.vectors, axis=2), (0, 0.5, 1)).tolist()
        text = f"{low:.3g} to {high:.3g}, median {middle:.3g} {field.units}".rstrip()
        add("vector lengths", text, lengths=[low, middle, high], units=field.units or None)


def _add_shape(job: Job, bundle: tb.TangentBundle, *, count_holes: bool) -> None:
    """Add the range of the curvature and the first Betti number to the summary."""
    import numpy as np

    try:
        found = bundle.curvature()
    except tb.errors.TangentBundleError as error:
        job.summary.add("curvature", f"not estimated: {error}", curvature=None)
        return
    name, values = ("Gaussian", found.gaussian) if bundle.dim == 2 else ("scalar", found.scalar)
    low, high = np.quantile(values, (0.01, 0.99)).tolist()
    exact = "exact" if bundle.second_form is not None else "98% of points"
    job.summary.add(
        f"{name} curvature", f"{low:.3g} to {high:.3g} ({exact})", curvature=[low, high]
    )
    if not count_holes:
        return
    if bundle.num_points > MAX_SPECTRUM_POINTS:
        text = f"not computed for more than {MAX_SPECTRUM_POINTS} points"
        job.summary.add("first Betti number", text, betti=None, betti_confidence=None)
        return
    estimate = tb.calculus.estimate_betti_number(bundle)
    text = str(estimate)
    confidence = None
    if estimate.number is not None:
        confidence = estimate.confidence
        text = (
            f"{estimate.number} (number of independent harmonic fields, confidence "
            f"{confidence:.2f})"
        )
    job.summary.add("first Betti number", text, betti=estimate.number, betti_confidence=confidence)


def _sample(
    job: Job, field: tb.io.Field, bundle: tb.TangentBundle, geometry: dict[str, Any]
) -> tb.TangentBundle:
    """Return the bundle of a random subset of a large cloud, whose lowest eigenvalues are similar
    and faster."""
    import numpy as np

    n = len(field.space)
    if n <= MAX_SPECTRUM_POINTS or bundle.weights.mesh is not None:
        return bundle
    rows = np.random.default_rng(0).choice(n, MAX_SPECTRUM_POINTS, replace=False)
    job.summary.notes.append(
        f"eigenvalues and curvature are computed from {len(rows)} random points; `spectrum` uses "
        "all points"
    )
    return field.space.select(rows).bundle(**geometry | {"dim": bundle.dim})


@command
def spectrum(
    job: Job,
    file: Source,
    geometry: dict[str, Any],
    k: Annotated[int, typer.Option("-k", min=1, help="eigenvalues to compute")] = 20,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help=".npz file of eigenvalues and eigenfields")
    ] = None,
) -> None:
    """Compute the lowest eigenvalues of minus the connection Laplacian.

    Examples:
        tangentbundle spectrum mesh.ply -k 30
        tangentbundle spectrum points.csv -o fields.npz
    """
    import numpy as np

    if output is not None and output.suffix.lower() != ".npz":
        raise tb.errors.OutputError(
            f"expected an .npz file for the spectrum, got {output.name}. Change the suffix."
        )
    with job.steps(3) as step:
        step("reading")
        field = job.read(file, needs_vectors=False)
        step("building the bundle")
        bundle = build_bundle(job, field, geometry)
        step("computing eigenvalues")
        values, fields = compute_spectrum(job, bundle, k)
    if job.report is not None:  # the report shows the first six eigenfields
        ambient = bundle.to_ambient(fields[..., :6]).reshape(
            bundle.num_points, bundle.ambient_dim, -1
        )
        job.summary.modes = np.moveaxis(np.asarray(ambient, float), -1, 0)
    if output is not None:
        with (
            job.summary.writing(output),
            tb.files.replacing(output) as place,
            place.open("wb") as archive,
        ):
            np.savez(archive, eigenvalues=values, fields=np.asarray(bundle.to_ambient(fields)))
