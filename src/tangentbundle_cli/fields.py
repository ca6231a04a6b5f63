"""Commands that look at a field or smooth it: inspect, spectrum, filter, denoise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .job import Dim, Eps, Job, Neighbors, Output, Overwrite, Source, command

if TYPE_CHECKING:
    import numpy as np

    from tangentbundle import TangentBundle
    from tangentbundle.io import Field

MODES = 6
"""Eigenfields of a report."""

SAMPLE = 50_000
"""Points of a large cloud whose eigenvalues are shown."""


def _bundle(job: Job, field: Field, dim: int | None, neighbors: int | None, eps: float | None) -> TangentBundle:
    """The bundle of a file's points, told in the summary."""
    import numpy as np

    from tangentbundle.errors import IsolatedPointsError
    from tangentbundle.geometry.scale import affordable_neighbors

    given = {"dim": dim, "neighbors": neighbors, "eps": eps}
    scale = {name: value for name, value in given.items() if value is not None}
    few = affordable_neighbors(len(field.space))
    if few is not None and neighbors is None and eps is None:
        try:
            bundle = field.space.bundle(**scale, neighbors=few)
            job.summary.notes.append(f"of so many points {few} neighbours are used, for memory; see --neighbors")
        except IsolatedPointsError:
            bundle = field.space.bundle(**scale)
    else:
        bundle = field.space.bundle(**scale)
    job.summary.bundle = bundle
    chosen = "given" if given["neighbors"] or given["eps"] else "automatic"
    median = float(np.median(bundle.sorted_graph.degrees))
    how = "known frames" if bundle.pca is None else "frames estimated"
    job.summary.tell("dimension", f"{bundle.dim} in R^{bundle.ambient_dim} ({how})", dimension=bundle.dim)
    job.summary.tell(
        "scale",
        f"eps {bundle.eps:.4g}, radius {bundle.eps**0.5:.4g}, {median:.0f} neighbours ({chosen})",
        eps=bundle.eps,
        median_neighbors=median,
    )
    return bundle


def _normal_part(job: Job, bundle: TangentBundle, vectors: np.ndarray) -> None:
    """Tell the share of the vectors' energy that is not tangent."""
    from tangentbundle.diagnostics import normal_share

    share = normal_share(bundle, vectors)
    job.summary.tell("normal part", f"{share:.1%} of the vectors' energy, left out", normal_share=share)


@command
def inspect(
    job: Job,
    file: Source,
    k: Annotated[int, typer.Option("-k", min=0, help="eigenvalues to compute; 0 for none")] = 12,
    figures: Annotated[Path | None, typer.Option(help="folder for figures of the field and its spectrum")] = None,
    dim: Dim = None,
    neighbors: Neighbors = None,
    eps: Eps = None,
) -> None:
    """Look a file over: dimension, scale, components, orientability, spectrum, tangency.

    Examples:
        tangentbundle inspect field.csv
        tangentbundle inspect wind.nc --figures figures --json
    """
    with job.steps(5) as step:
        step("reading")
        field = job.read(file, needs_vectors=False)
        step("building the bundle")
        bundle = _bundle(job, field, dim, neighbors, eps)
        step("looking it over")
        found = bundle.diagnose(None if field.values is None else field.vectors, quiet=True)
        tell = job.summary.tell
        tell("components", str(found.components), components=found.components)
        if found.dimension_histogram:
            counts = ", ".join(f"{d}: {c}" for d, c in found.dimension_histogram.items())
            tell("local dimensions", counts, local_dimensions=found.dimension_histogram)
        detail = "all frames can agree" if found.consistent else f"{found.frustration:.2%} of edges stay reflections"
        tell("orientable", f"{'yes' if found.orientable else 'no'} ({detail})", orientable=found.orientable)
        tell("cloud in a ball", f"{found.neighborhood_share:.1%}", neighborhood_share=found.neighborhood_share)
        if found.normal_share is not None:
            tell("normal part", f"{found.normal_share:.1%} of the vectors' energy", normal_share=found.normal_share)
            _sizes(job, field)
        step("eigenvalues")
        _spectrum(job, _sampled(job, field, bundle) if k else bundle, k)
        step("figures")
        if figures is not None:
            from .figures import draw

            draw(job.summary, figures)


def _sampled(job: Job, field: Field, bundle: TangentBundle) -> TangentBundle:
    """The bundle of some points of a large cloud: enough to look its spectrum over, and minutes faster."""
    import numpy as np

    from tangentbundle.geometry.scale import affordable_neighbors

    n = len(field.space)
    if affordable_neighbors(n) is None or hasattr(field.space, "faces"):
        return bundle
    rows = np.random.default_rng(0).choice(n, SAMPLE, replace=False)
    job.summary.notes.append(f"eigenvalues are those of {SAMPLE} points drawn at random; spectrum has those of all")
    return field.space.select(rows).bundle(dim=bundle.dim)


def _sizes(job: Job, field: Field) -> None:
    import numpy as np

    lengths = np.linalg.norm(field.vectors, axis=2)
    low, middle, high = (float(np.quantile(lengths, q)) for q in (0, 0.5, 1))
    unit = f" {field.units}" if field.units else ""
    text = f"{low:.3g} to {high:.3g}, median {middle:.3g}{unit}"
    job.summary.tell("length of vectors", text, lengths=[low, middle, high], units=field.units or None)


def _spectrum(job: Job, bundle: TangentBundle, k: int, *, scalar: bool = False) -> Any:
    """The lowest eigenvalues and fields of the Laplacian, told in the summary."""
    import numpy as np

    k = min(k, bundle.num_points * (1 if scalar else bundle.rank))
    if not k:
        return None
    values, fields = (bundle.scalar() if scalar else bundle).laplacian().spectrum(k)
    values = np.asarray(values, float)
    job.summary.eigenvalues = values
    job.summary.tell("eigenvalues", " ".join(f"{value:.4g}" for value in values), eigenvalues=values)
    return values, fields


@command
def spectrum(
    job: Job,
    file: Source,
    k: Annotated[int, typer.Option("-k", min=1, help="eigenvalues to compute")] = 20,
    scalar: Annotated[bool, typer.Option("--scalar", help="of functions instead of vector fields")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help=".csv: eigenvalues; .npz: also the eigenfields")
    ] = None,
    dim: Dim = None,
    neighbors: Neighbors = None,
    eps: Eps = None,
) -> None:
    """The lowest eigenvalues of minus the connection Laplacian.

    Examples:
        tangentbundle spectrum mesh.ply -k 30
        tangentbundle spectrum points.csv -o fields.npz
    """
    import numpy as np

    from tangentbundle.errors import OutputError
    from tangentbundle.io import check_output

    if output is not None:
        if output.suffix not in (".csv", ".npz"):
            raise OutputError(f"a spectrum is written as .csv or .npz, not {output.name}. Choose one of these.")
        check_output(None, output)
    with job.steps(3) as step:
        step("reading")
        field = job.read(file, needs_vectors=False)
        step("building the bundle")
        bundle = _bundle(job, field, dim, neighbors, eps)
        step("eigenvalues")
        values, fields = _spectrum(job, bundle, k, scalar=scalar)
        if job.report is not None and not scalar:
            ambient = bundle.to_ambient(fields[..., :MODES]).reshape(bundle.num_points, bundle.ambient_dim, -1)
            job.summary.modes = np.moveaxis(np.asarray(ambient, float), -1, 0)
    if output is not None:
        _write_spectrum(job, output, values, fields if scalar else bundle.to_ambient(fields))


def _write_spectrum(job: Job, output: Path, values: np.ndarray, fields: np.ndarray) -> None:
    import numpy as np

    from tangentbundle.files import replacing

    with job.summary.writing(output), replacing(output) as place:
        if output.suffix == ".npz":
            np.savez(place, eigenvalues=values, fields=np.asarray(fields))
        else:
            rows = "".join(f"{number},{value!r}\n" for number, value in enumerate(values.tolist()))
            place.write_text("number,eigenvalue\n" + rows)


@command
def filter(
    job: Job,
    file: Source,
    output: Output,
    heat: Annotated[float | None, typer.Option(help="time of heat flow, in squared units of the points")] = None,
    tikhonov: Annotated[float | None, typer.Option(help="strength a of the smoother 1 / (1 + a lambda)")] = None,
    dim: Dim = None,
    neighbors: Neighbors = None,
    eps: Eps = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="work part by part on so many processes: for files larger than memory")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="the same on a Dask scheduler's workers, tcp://...")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Filter a field with a function of the connection Laplacian; its normal part is left out.

    Lengths are those of the points; for latitude and longitude, the Earth's radius is one.

    Examples:
        tangentbundle filter field.npz --heat 0.1 -o smooth.npz
        tangentbundle filter large.parquet --heat 0.1 -o smooth.parquet --workers 4
    """
    from tangentbundle import Heat, Tikhonov
    from tangentbundle.errors import InvalidInputError
    from tangentbundle.io import check_output
    from tangentbundle.io.actions import filtered

    if heat is not None and tikhonov is None:
        response: Any = Heat(heat)
        name = f"heat flow for a time of {heat:g}"
    elif tikhonov is not None and heat is None:
        response, name = Tikhonov(tikhonov), f"Tikhonov smoothing of strength {tikhonov:g}"
    else:
        raise InvalidInputError("give one filter: --heat TIME or --tikhonov STRENGTH.")
    job.summary.filter = response
    if workers is not None or cluster is not None:
        from .large import filter_in_parts, machines

        scale, where = {"dim": dim, "neighbors": neighbors, "eps": eps}, machines(workers, cluster)
        filter_in_parts(job, file, output, response, where, overwrite, **scale)
        return
    check_output(None, output, overwrite=overwrite)
    with job.steps(4) as step:
        step("reading")
        field = job.read(file)
        check_output(field, output, overwrite=overwrite)
        step("building the bundle")
        bundle = _bundle(job, field, dim, neighbors, eps)
        _normal_part(job, bundle, field.vectors)
        step("filtering")
        made, kept = filtered(field, bundle, response)
        job.summary.tell("filter", f"{name}; {kept:.1%} of the tangent energy is left", energy_left=kept)
        step("writing")
        job.write(made, output, overwrite=overwrite)


@command
def denoise(
    job: Job,
    file: Source,
    output: Output,
    noise: Annotated[
        float | None, typer.Option(help="known standard deviation of the noise; default estimated")
    ] = None,
    std: Annotated[bool, typer.Option("--std", help="also write the standard deviation of each component")] = False,
    dim: Dim = None,
    seed: Annotated[int, typer.Option(help="of what is random")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Remove noise from a field: its level and the field's own scales are estimated from the data.

    Examples:
        tangentbundle denoise field.csv -o clean.csv
        tangentbundle denoise field.csv --vectors ex,ey,ez --std -o clean.parquet
    """
    from tangentbundle import FieldDenoiser
    from tangentbundle.geometry.scale import affordable_neighbors
    from tangentbundle.io import check_output
    from tangentbundle.io.actions import known

    from .predict import at_every_time, tell_normal_part

    check_output(None, output, overwrite=overwrite)
    with job.steps(1) as step:
        step("reading")
        field = job.read(file)
    check_output(field, output, overwrite=overwrite)
    few = affordable_neighbors(len(field.space))
    if few is not None:
        job.summary.notes.append(f"of so many points {few} neighbours are used, for memory")
    estimator = FieldDenoiser(**known(field, dim), random_state=seed)
    made, levels = at_every_time(job, estimator, field, field, noise, std)
    job.summary.tell("dimension", str(estimator.spaces_.dim), dimension=estimator.spaces_.dim)
    tell_normal_part(job, estimator)
    level = float(sum(levels) / len(levels))
    unit = f" {field.units}" if field.units else ""
    job.summary.tell("noise", f"{level:.4g}{unit} in each component ({'given' if noise else 'estimated'})", noise=level)
    if abs(made.vectors - field.vectors).max() <= 1e-6 * abs(field.vectors).max():
        job.summary.notes.append(
            "the field is left as it is: its detail is finer than its noise, and no filter would do better"
        )
    job.write(made, output, overwrite=overwrite)
