"""``tangentbundle decompose``: the parts of a field by their sources and vortices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fields import build_bundle, given
from .job import Dim, Eps, Job, Neighbors, Output, Source, command

if TYPE_CHECKING:
    import numpy as np

    from tangentbundle.io import Field


@command
def decompose(
    job: Job,
    file: Source,
    output: Output,
    dim: Dim = None,
    neighbors: Neighbors = None,
    eps: Eps = None,
) -> None:
    """Split a field into a gradient, a rotational part and a remainder; also potentials, divergence and vorticity.

    The points must cover a closed space; on the globe they need not, where cells without data are land. The normal
    part of vectors is left out.

    Examples:
        tangentbundle decompose wind.nc -o parts.nc --report parts.html
        tangentbundle decompose field.csv -o parts.csv
    """
    with job.steps(4) as step:
        step("reading")
        field = job.read(file, output)
        step("building the bundle")
        from tangentbundle.diagnostics import normal_share
        from tangentbundle.errors import InvalidInputError
        from tangentbundle.io import Globe
        from tangentbundle.io.actions import decomposed

        bundle, options = None, given(dim=dim, neighbors=neighbors, eps=eps)
        if not isinstance(field.space, Globe):
            bundle = build_bundle(job, field, options)
            share = normal_share(bundle, field.vectors)
            job.summary.tell("normal part", f"{share:.1%} of the vectors' energy, left out", normal_share=share)
        elif options:
            raise InvalidInputError(
                "on the globe the parts are those of cells: leave out --dim, --neighbors and --eps."
            )
        step("decomposing")
        result, energies, areas = decomposed(field, bundle)
        tell_parts(job, areas, result, energies)
        step("writing")
        job.write(result, output)


def tell_parts(job: Job, areas: np.ndarray, field: Field, energies: dict[str, np.ndarray]) -> None:
    """Describe divergence and vorticity, and show the energies of the parts in a table; ``areas`` weigh the points."""
    import numpy as np

    from tangentbundle.io.summary import Table

    def size(name: str) -> float:
        """The root mean square over the space and all times."""
        values = np.asarray(field.parts[name].values, float)
        squares = np.square(values).sum(axis=2).mean(axis=0)
        return float(np.sqrt(np.average(squares, weights=areas)))

    for name in ("divergence", "vorticity"):
        if (part := field.parts.get(name)) is not None:
            numbers = [float(part.array.min()), float(part.array.max()), size(name)]
            text = "{:.3g} to {:.3g}, root mean square {:.3g}".format(*numbers)
            job.summary.tell(name, f"{text} {part.units}".rstrip(), **{name: numbers})
    body = []
    for name, shares in energies.items():
        spread = f" ({shares.min():.1%} to {shares.max():.1%})" if len(shares) > 1 else ""
        body.append([name, f"{shares.mean():.1%}{spread}", f"{size(name):.4g} {field.units}".rstrip()])
    notes = "The remainder holds harmonic fields, flow across open boundaries, and what the points do not resolve."
    header = ["part", "share of energy" + ", mean and range" * (len(field) > 1), "root mean square length"]
    job.show(Table("Energies of the parts", header, body, notes))
    job.summary.data["energies"] = energies
