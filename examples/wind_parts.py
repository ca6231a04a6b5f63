"""Wind decomposed: the part that converges and the part that turns.

The Helmholtz-Hodge decomposition writes wind as the gradient of a velocity potential plus the
rotated gradient of a stream function. On the sphere nothing else is left but what the points do not
resolve. Divergence and vorticity come in 1/s, since the sphere has the Earth's radius in metres.
The wind is a monthly mean of the series inside the package (FNOC, January 1982).
"""

import numpy as np

import tangentbundle as tb
from tangentbundle import earth

wind = tb.datasets.load_wind()
bundle = tb.TangentBundle.from_latlon(wind.lat, wind.lon, radius=earth.RADIUS)
field = wind.components[0][:, :, None]  # (east, north) are the bundle's frames

parts = tb.helmholtz(bundle, field)
for name, share in parts.energies.items():
    print(f"{name:12s} {float(share[0]):6.1%} of the energy")

vorticity = parts.vorticity
print(f"divergence   up to {np.abs(parts.divergence).max():.1e} 1/s")
print(f"vorticity    up to {np.abs(vorticity).max():.1e} 1/s")
south = wind.lat < -20
print(
    "mean vorticity south of 20 S  "
    f"{wind.area[south] @ vorticity[south, 0, 0] / wind.area[south].sum():.1e} 1/s"
)

figure, axes = tb.plot.canvas(3, 1, (6.0, 3.2))
same = {"top": 10.0}
tb.plot.earth_map(
    wind.lat, wind.lon, field[:, :, 0], title="the wind, January 1982", axes=axes[0, 0], **same
)
turning = parts.rotational[:, :, 0]
tb.plot.earth_map(wind.lat, wind.lon, turning, title="its rotational part", axes=axes[1, 0], **same)
converging = {"top": 5.0}
tb.plot.earth_map(
    wind.lat,
    wind.lon,
    parts.gradient[:, :, 0],
    title="its gradient part",
    axes=axes[2, 0],
    **converging,
)
tb.plot.save(figure, "out/wind_parts.png")
