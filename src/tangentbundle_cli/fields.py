"""Commands for one field and its connection Laplacian: inspect, spectrum."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import tangentbundle as tb
from tangentbundle.errors import NO_EXAMPLE, Note, OutputError, Remedy, TangentBundleError
from tangentbundle.files import replacing
from tangentbundle.results import LABEL_WIDTH, Chart, Eigenfields, Result

from .files import check_files, naming_rows, read_input, steps
from .options import AUTOMATIC, GUESSED, SILENT, Display, Geometry, Reading, Source
from .plain_words import describe_file

MAX_SPECTRUM_POINTS = 10_000
"""Largest number of points for eigenvalues, curvature and Betti number; larger clouds are
sampled."""

SHOWN_EIGENFIELDS = 6
"""Eigenfields in a report."""

MAX_EIGENVALUE_LINES = 10
"""Lines of eigenvalues on a terminal."""


def inspect(
    file: Source,
    geometry: Geometry = AUTOMATIC,
    k: Annotated[int, typer.Option("-k", min=0, help="eigenvalues to compute; 0 for none")] = 6,
    reading: Reading = GUESSED,
    display: Display = SILENT,
) -> Result:
    """Report dimension, scale, components, orientability, normal component, curvature and spectrum
    of a file.

    Examples:
        tangentbundle inspect field.csv
        tangentbundle inspect wind.nc --report wind.html
    """
    result = Result("inspect", "Geometry of the points and properties of the field.")
    check_files([file], None, display)
    with steps(4, display) as step:
        step("reading")
        field = read_input(result, file, reading, display, dim=geometry.dim, needs_vectors=False)
        describe_file(result, field, file)
        with naming_rows(field):
            step("building the bundle")
            bundle = build_bundle(result, field, geometry)
            step("diagnosing")
            _add_diagnosis(result, field, bundle)
            step("computing eigenvalues")
            sample = _sample(result, field, bundle, geometry)
            if k:
                compute_spectrum(result, sample, k)
            is_estimated = _add_curvature(result, sample)
            if k and is_estimated:
                _add_betti_number(result, sample)
    return result


def spectrum(
    file: Source,
    geometry: Geometry = AUTOMATIC,
    k: Annotated[int, typer.Option("-k", min=1, help="eigenvalues to compute")] = 20,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help=".npz file of eigenvalues and eigenfields")
    ] = None,
    reading: Reading = GUESSED,
    display: Display = SILENT,
) -> Result:
    """Compute the lowest eigenvalues of minus the connection Laplacian.

    Examples:
        tangentbundle spectrum mesh.ply -k 30
        tangentbundle spectrum points.csv -o fields.npz
    """
    import numpy as np

    result = Result("spectrum", "The lowest eigenvalues of minus the Laplacian.")
    check_files([file], output, display)
    if output is not None and output.suffix.lower() != ".npz":
        raise OutputError(
            f"expected an .npz file for the spectrum, got {output.name}. Change the suffix."
        )
    with steps(3, display) as step:
        step("reading")
        field = read_input(result, file, reading, display, dim=geometry.dim, needs_vectors=False)
        with naming_rows(field):
            step("building the bundle")
            bundle = build_bundle(result, field, geometry)
            step("computing eigenvalues")
            values, eigenfields = compute_spectrum(result, bundle, k)
    shown = bundle.to_ambient(eigenfields[..., :SHOWN_EIGENFIELDS])
    columns = np.asarray(shown.reshape(bundle.num_points, bundle.ambient_dim, -1), float)
    result.eigenfields = Eigenfields(values, np.moveaxis(columns, -1, 0))
    if output is not None:
        ambient = np.asarray(bundle.to_ambient(eigenfields))
        with (
            result.writing(output),
            replacing(output) as place,
            place.open("wb") as archive,
        ):
            np.savez(archive, eigenvalues=values, fields=ambient)
    return result


def build_bundle(
    result: Result, field: tb.io.Field, geometry: Geometry, build: Callable | None = None
) -> Any:
    """Build the bundle of a file's points and describe it in the result.

    ``build`` makes a ``DistributedBundle`` instead of one in memory.
    """
    arguments = _affordable(result, field, geometry)
    if build is not None:
        bundle = build(**arguments)
        _add_dimension(result, bundle, "estimated frames")
        _add_scale(result, bundle, bundle.degrees, geometry)
        return bundle
    bundle = field.space.bundle(**arguments)
    frames = "known frames" if bundle.estimate is None else "estimated frames"
    _add_dimension(result, bundle, frames)
    mesh = bundle.weights.mesh
    if mesh is not None:
        result.add("operator", f"cotangent Laplacian: {mesh}", mesh=str(mesh))
    else:
        _add_scale(result, bundle, bundle.sorted_graph.degrees, geometry)
    return bundle


def _affordable(result: Result, field: tb.io.Field, geometry: Geometry) -> dict[str, Any]:
    """The arguments of ``bundle``, with fewer neighbours for a large cloud whose scale is
    automatic."""
    from tangentbundle.geometry.scale import affordable_neighbors

    arguments = geometry.arguments()
    if not _is_automatic(geometry) or field.space.faces is not None:
        return arguments
    neighbors = affordable_neighbors(len(field.space))
    if neighbors is None:
        return arguments
    text = f"{neighbors} neighbours per point are used to save memory;"
    remedy = Remedy("set {neighbors} to change it", neighbors=NO_EXAMPLE)
    result.notes.append(Note(text, remedy))
    return arguments | {"neighbors": neighbors}


def _is_automatic(geometry: Geometry) -> bool:
    return geometry.neighbors is None and geometry.eps is None


def _add_dimension(result: Result, bundle: Any, frames: str) -> None:
    text = f"{bundle.dim} in R^{bundle.ambient_dim} ({frames})"
    result.add("dimension", text, dimension=bundle.dim)


def _add_scale(result: Result, bundle: Any, degrees: Any, geometry: Geometry) -> None:
    """Describe the size of neighbourhoods."""
    import numpy as np

    median = float(np.median(degrees))
    origin = "automatic" if _is_automatic(geometry) else "given"
    radius = bundle.eps**0.5
    text = f"eps {bundle.eps:.4g}, radius {radius:.4g}, {median:.0f} neighbours ({origin})"
    result.add("scale", text, eps=bundle.eps, median_neighbors=median)


def add_normal_share(result: Result, field: tb.io.Field, bundle: Any) -> None:
    """Add the share of the field's energy that is lost by projection to the result."""
    channels_last = field.vectors.transpose(1, 2, 0).copy()
    share = tb.diagnostics.normal_share(bundle, channels_last)
    result.add("normal component", f"{share:.1%} of the energy, discarded", normal_share=share)


def compute_spectrum(result: Result, bundle: tb.TangentBundle, k: int) -> tuple[Any, Any]:
    """Return the k lowest eigenvalues of the Laplacian and their fields; add the values to the
    result."""
    values, fields = bundle.laplacian().spectrum(min(k, bundle.num_points * bundle.rank))
    values = values.astype(float)
    errors = None
    agreement = "to six digits"
    if bundle.weights.mesh is None:  # the vertices of a mesh are not a random sample
        errors = tb.diagnostics.sampling_errors(bundle, fields)
        agreement = "within their sampling errors (vertical bars)"
    result.charts.append(
        Chart(
            title="Spectrum",
            note=f"Brackets: eigenvalues that agree {agreement}.",
            draw=partial(_draw_spectrum, values, errors),
        )
    )
    lines = textwrap.wrap(" ".join(f"{value:.4g}" for value in values), 100 - LABEL_WIDTH)
    hidden = sum(len(line.split()) for line in lines[MAX_EIGENVALUE_LINES:])
    if hidden:
        rest = f"and {hidden} more, up to {values[-1]:.4g}; --json prints all"
        lines = [*lines[:MAX_EIGENVALUE_LINES], rest]
    result.add("eigenvalues", f"\n{'':{LABEL_WIDTH}}".join(lines), eigenvalues=values)
    return values, fields


def _draw_spectrum(values: Any, errors: Any, axes: Any) -> Any:
    return tb.plot.spectrum(values, errors, axes=axes)


def _add_diagnosis(result: Result, field: tb.io.Field, bundle: tb.TangentBundle) -> None:
    """Describe components, orientation, the size of neighbourhoods and the vectors."""
    vectors = None if field.values is None else field.vectors
    diagnosis = bundle.diagnose(vectors, quiet=True)
    result.add("components", str(diagnosis.components), components=diagnosis.components)
    if diagnosis.dimension_histogram:
        histogram = diagnosis.dimension_histogram
        counts = ", ".join(f"{dimension}: {count}" for dimension, count in histogram.items())
        result.add("local dimensions", counts, local_dimensions=histogram)
    detail = "consistent frames"
    if not diagnosis.consistent:
        detail = f"{diagnosis.frustration:.2%} of edges remain reflections"
    answer = "yes" if diagnosis.orientable else "no"
    result.add("orientable", f"{answer} ({detail})", orientable=diagnosis.orientable)
    if bundle.weights.mesh is None:
        share = diagnosis.neighborhood_share
        result.add("neighbourhood size", f"{share:.1%} of the points", neighborhood_share=share)
    if diagnosis.normal_share is not None:
        share = diagnosis.normal_share
        result.add("normal component", f"{share:.1%} of the energy", normal_share=share)
        _add_lengths(result, field)


def _add_lengths(result: Result, field: tb.io.Field) -> None:
    """Describe the lengths of the vectors."""
    import numpy as np

    lengths = np.linalg.norm(field.vectors, axis=2)
    quantiles = np.quantile(lengths, (0, 0.5, 1)).tolist()
    shortest, median, longest = quantiles
    text = f"{shortest:.3g} to {longest:.3g}, median {median:.3g} {field.units}".rstrip()
    result.add("vector lengths", text, lengths=quantiles, units=field.units or None)


def _add_curvature(result: Result, bundle: tb.TangentBundle) -> bool:
    """Describe the range of the curvature; whether it could be estimated."""
    import numpy as np

    try:
        curvature = bundle.curvature()
    except TangentBundleError as error:
        result.add("curvature", f"not estimated: {error}", curvature=None)
        return False
    if bundle.dim == 2:
        label = "Gaussian curvature"
        values = curvature.gaussian
    else:
        label = "scalar curvature"
        values = curvature.scalar
    lowest, highest = np.quantile(values, (0.01, 0.99)).tolist()
    origin = "98% of points" if bundle.second_form is None else "exact"
    text = f"{lowest:.3g} to {highest:.3g} ({origin})"
    result.add(label, text, curvature=[lowest, highest])
    return True


def _add_betti_number(result: Result, bundle: tb.TangentBundle) -> None:
    """Estimate the first Betti number."""
    label = "first Betti number"
    if bundle.num_points > MAX_SPECTRUM_POINTS:
        text = f"not computed for more than {MAX_SPECTRUM_POINTS} points"
        result.add(label, text, betti=None, betti_confidence=None)
        return
    estimate = tb.calculus.estimate_betti_number(bundle)
    if estimate.number is None:
        result.add(label, str(estimate), betti=None, betti_confidence=None)
        return
    confidence = estimate.confidence
    meaning = f"number of independent harmonic fields, confidence {confidence:.2f}"
    text = f"{estimate.number} ({meaning})"
    result.add(label, text, betti=estimate.number, betti_confidence=confidence)


def _sample(
    result: Result, field: tb.io.Field, bundle: tb.TangentBundle, geometry: Geometry
) -> tb.TangentBundle:
    """Return the bundle of a random subset of a large cloud, whose lowest eigenvalues are similar
    and faster."""
    import numpy as np

    n = len(field.space)
    if n <= MAX_SPECTRUM_POINTS or bundle.weights.mesh is not None:
        return bundle
    rows = np.random.default_rng(0).choice(n, MAX_SPECTRUM_POINTS, replace=False)
    result.note(
        f"eigenvalues and curvature are computed from {len(rows)} random points; `spectrum` uses "
        "all points"
    )
    arguments = geometry.arguments() | {"dim": bundle.dim}
    return field.space.select(rows).bundle(**arguments)
