"""``tangentbundle decompose``: the parts of a field by their sources and vortices."""

from __future__ import annotations

from .fields import build_bundle, given
from .job import Dim, Eps, Job, Neighbors, Output, Source, Workers, command


@command
def decompose(
    job: Job,
    file: Source,
    output: Output,
    dim: Dim = None,
    neighbors: Neighbors = None,
    eps: Eps = None,
    workers: Workers = None,
) -> None:
    """Split a field into a gradient, a rotational part and a remainder; also potentials, divergence and vorticity.

    The points must cover a closed space; on the globe they need not, where cells without data are land. The normal
    part of vectors is left out.

    Examples:
        tangentbundle decompose wind.nc -o parts.nc --report parts.html
        tangentbundle decompose field.csv -o parts.csv
        tangentbundle decompose 'wind_*.nc' -o parts.zarr --workers 2
    """
    options = given(dim=dim, neighbors=neighbors, eps=eps)
    if workers is not None:
        from tangentbundle import earth

        from .gridded import write_in_blocks

        write_in_blocks(
            job, file, output, lambda ds, names: earth.decompose(ds, vectors=names), {}, workers, None, options
        )
        return
    with job.steps(4) as step:
        step("reading")
        field = job.read(file, output)
        step("building the bundle")
        from tangentbundle.diagnostics import normal_share
        from tangentbundle.errors import InvalidInputError
        from tangentbundle.io import Globe
        from tangentbundle.io.actions import decomposed

        bundle = None
        if not isinstance(field.space, Globe):
            bundle = build_bundle(job, field, options)
            share = normal_share(bundle, field.vectors)
            job.summary.tell("normal part", f"{share:.1%} of the vectors' energy, left out", normal_share=share)
        elif options:
            raise InvalidInputError(
                "on the globe the parts are those of cells: leave out --dim, --neighbors and --eps."
            )
        step("decomposing")
        result, energies = decomposed(field, bundle)
        for name, shares in energies.items():
            spread = f" on average ({shares.min():.1%} to {shares.max():.1%})" if len(shares) > 1 else ""
            job.summary.tell(name, f"{shares.mean():.1%} of the energy{spread}", energies=energies)
        step("writing")
        job.write(result, output)
