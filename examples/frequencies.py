"""The frequencies of the wind: eigenfields are to a vector field what sines are to a signal.

`to_frequency` writes a field as a sum of eigenfields of the connection Laplacian; on the sphere
these are the vector spherical harmonics, estimated here from 1 500 places. A filter multiplies each
coefficient by its response: heat flow for a time of 0.02 leaves the widest patterns nearly alone
and damps the finer ones, more and more.
"""

from itertools import pairwise

import tangentbundle as tb

wind = tb.datasets.load_wind()
wind = wind.at(wind.sample(1500, rng=0))
bundle = tb.TangentBundle.from_latlon(wind.lat, wind.lon)
lap = bundle.laplacian()
field = wind.components[0][:, :, None]
smooth = tb.Heat(0.02)(lap, field)

values, _ = lap.spectrum(160)
before, after = (lap.to_frequency(x, k=160)[:, 0] ** 2 for x in (field, smooth))
total = float(lap.norm(field)[0] ** 2)
edges = [0, 3, 8, 15, 24, 35, 48]  # between the groups l (l + 1) - 1
for low, high in pairwise(edges):
    inside = (values >= low) & (values < high)
    share, kept = before[inside].sum() / total, after[inside].sum() / before[inside].sum()
    print(f"eigenvalues {low:2d} to {high:2d}: {share:5.1%} of the energy, {kept:5.1%} of it kept")

figure, (axes,) = tb.plot.canvas(1, 2, (4.6, 4.0), width_ratios=(1, 1.5))
axes[0].semilogy(values, before / total, ".", label="the wind")
axes[0].semilogy(values, after / total, ".", label="after heat flow")
axes[0].set(xlabel=r"eigenvalue of $-\Delta$", ylabel="share of the energy", ylim=(1e-9, 0.2))
axes[0].legend(frameon=False)
tb.plot.earth_map(
    wind.lat, wind.lon, smooth[:, :, 0], title="the wind after heat flow", axes=axes[1]
)
tb.plot.save(figure, "out/frequencies.png")
