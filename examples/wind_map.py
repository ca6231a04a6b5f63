"""Wind between stations: a map of the wind, and of its standard deviation, from 150 places.

`FieldInterpolator` estimates length scales and amplitudes from the stations alone, and gives a
standard deviation with every vector. The wind is a monthly mean of the series inside the package
(FNOC, January 1982); the error is measured at the places that were left out. The manifold is the
Earth, whose covariances are those of fields with and without bands of latitude.
"""

import numpy as np

import tangentbundle as tb

wind = tb.datasets.load_wind()
at = wind.sample(150, rng=1)
stations, field = wind.points[at], wind.ambient[0]
model = tb.FieldInterpolator(manifold=tb.earth.Earth()).fit(stations, field[at])
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

figure, ((left, right), (below, last)) = tb.plot.canvas(2, 2, (5.0, 2.9))
east_north, spread = np.einsum("nda,nd->na", wind.frames, predicted), np.linalg.norm(std, axis=1)
few, same = wind.at(at), {"top": 10.0, "arrows": 350}
tb.plot.earth_map(
    few.lat, few.lon, few.components[0], title=f"{len(at)} stations", axes=left, **same
)
tb.plot.earth_map(
    wind.lat, wind.lon, east_north, title="the wind from the stations", axes=right, **same
)
tb.plot.earth_map(
    wind.lat, wind.lon, wind.components[0], title="the true wind, January 1982", axes=below, **same
)
trust = {
    "label": "standard deviation",
    "unit": "m/s",
    "title": "standard deviation of the prediction",
}
tb.plot.earth_map(wind.lat, wind.lon, spread, axes=last, **trust)
tb.plot.save(figure, "out/wind_map.png")
