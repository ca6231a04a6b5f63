"""Wind between stations: a map of the wind, and of how far to trust it, from 150 places.

`FieldInterpolator` learns lengths and sizes from the stations alone, and gives a standard deviation with every
vector. The wind is a monthly mean of the series inside the package (FNOC, January 1982); the error is measured at the
places that were left out. `Sphere(2)` tells the interpolator that the space is the round Earth, so that it need not
guess.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import tangentbundle as tb

wind = tb.datasets.load_wind()
at = wind.sample(150, rng=1)
stations, field = wind.points[at], wind.ambient[0]
model = tb.FieldInterpolator(manifold=tb.manifolds.Sphere(2), random_state=0).fit(stations, field[at])
predicted, std = model.predict(wind.points, return_std=True)

rest = np.setdiff1d(np.arange(len(wind.points)), at)
weight = wind.area[rest] / wind.area[rest].sum()
mean = field[at].mean(axis=0)


def error(guess: np.ndarray) -> float:
    """Root mean square over the rest of the Earth, by area, in m/s."""
    return float(np.sqrt(weight @ ((guess - field[rest]) ** 2).sum(axis=1)))


print(f"stations                 {len(at)}")
print(f"no wind at all           {error(0 * field[rest]):.2f} m/s")
print(f"mean of the stations     {error(mean):.2f} m/s")
print(f"FieldInterpolator        {error(predicted[rest]):.2f} m/s")
print(f"its own expectation      {np.sqrt(weight @ (std[rest] ** 2).sum(axis=1)):.2f} m/s")

figure, axes = plt.subplots(2, 1, figsize=(9, 8.4), layout="constrained", sharex=True)
east_north = np.einsum("nda,nd->na", wind.frames, predicted)
spread = np.linalg.norm(std, axis=1)
for axis, components, title in (
    (axes[0], wind.components[0], "the wind, January 1982"),
    (axes[1], east_north, f"from {len(at)} stations; colour: its standard deviation"),
):
    grid = (np.unique(wind.lat).size, -1)
    if axis is axes[1]:
        lon, lat, shade = (values.reshape(grid) for values in (wind.lon, wind.lat, spread))
        drawn = axis.pcolormesh(lon, lat, shade, cmap="YlOrBr", alpha=0.7)
        axis.plot(wind.lon[at], wind.lat[at], ".", color="tab:blue", ms=5, label="stations")
        axis.legend(loc="lower left")
        figure.colorbar(drawn, ax=axis, label="m/s", shrink=0.8)
    every = slice(None, None, 2)
    axis.quiver(wind.lon[every], wind.lat[every], *components[every].T, scale=350, width=0.0013)
    axis.set(title=title, ylabel="latitude", ylim=(-85, 85), aspect=1.0)
axes[1].set_xlabel("longitude")
Path("out").mkdir(exist_ok=True)
figure.savefig("out/wind_map.png", dpi=110)
