"""Write the small files of ``examples/data``: a noisy field on a torus, wind at stations, and a
grid to predict at."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tangentbundle as tb
from tangentbundle.io import Field, write_field
from tangentbundle.spaces import Cloud, Globe

FOLDER = Path(__file__).parents[1] / "examples/data"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    torus, rng = tb.manifolds.Torus(), np.random.default_rng(0)
    points = torus.sample(150, seed=0).round(4)
    noisy = torus.tangent_field(points) + 0.3 * rng.standard_normal((150, 3))
    write_field(
        Field(Cloud(points, ("x", "y", "z")), noisy.round(4)[None]), str(FOLDER / "torus.csv")
    )
    wind = tb.datasets.load_wind()
    wind = wind.at(wind.sample(60, rng=0))
    write_field(
        Field(
            Globe(wind.lat, wind.lon),
            wind.components[:1].astype(float).round(2),
            ("u [m/s]", "v [m/s]"),
        ),
        str(FOLDER / "stations.csv"),
    )
    lat, lon = np.meshgrid(np.arange(-80, 81, 20.0), np.arange(0, 360, 20.0), indexing="ij")
    np.savetxt(
        FOLDER / "grid.csv",
        np.c_[lat.ravel(), lon.ravel()],
        "%g",
        delimiter=",",
        header="lat,lon",
        comments="",
    )


if __name__ == "__main__":
    main()
