# %% [markdown]
# # How does the wind of 100 stations become a map, and a forecast?
#
# **The question.** A hundred stations measure the wind. What is the wind between them, how sure can we be,
# and what will it be in three months?
#
# You need no geometry to follow. You will learn why components of wind must not be averaged like
# temperatures, how to get a map with honest error bars, and when a forecast is worth making.
# Reading takes about ten minutes.

# %%
# On Colab or Binder, first run: %pip install "tangentbundle[plot,data]"
import matplotlib.pyplot as plt
import numpy as np

import tangentbundle as tb
from tangentbundle.forecast import Climatology, Persistence

wind = tb.datasets.load_wind()
print(wind)

# %% [markdown]
# ## The data
#
# The package contains eleven years of monthly mean winds (US Navy, 1982 to 1992) on a grid of 5 degrees.
# `sample` draws about 900 of its places at random, evenly over the Earth. We pretend that we know the wind at
# 100 of them only. The others tell us afterwards how good the map is.
#
# `components` holds two numbers for each place, the wind to the east and to the north. `ambient` holds the same arrows
# as three numbers, in axes that are fixed in space, with the centre of the Earth as origin.

# %%
rng = np.random.default_rng(1)
everywhere = wind.at(wind.sample(900, rng=rng))
rows = rng.permutation(len(everywhere.points))
known, hidden = rows[:100], rows[100:]
stations = everywhere.at(known)

# %% alt="A map of the Earth with arrows at 100 stations, coloured by wind speed"
tb.plot.earth_map(
    stations.lat, stations.lon, stations.components[0], title="100 stations, January 1982", top=10
)
plt.show()

# %% [markdown]
# ## The tempting way, and why it fails
#
# Each station reports two numbers: `u`, the wind to the east, and `v`, the wind to the north. It is tempting
# to interpolate the two numbers separately. But *east* is a different direction at every place. Look at two
# people who stand a few steps from the North Pole, on opposite sides, in the same wind:


# %%
def east(longitude):
    """The direction east in space, at a longitude in degrees."""
    angle = np.radians(longitude)
    return np.array([-np.sin(angle), np.cos(angle), 0.0])


same_wind = np.array([0.0, 5.0, 0.0])  # 5 m/s, one arrow in space
for longitude in (0, 180):
    print(f"longitude {longitude:3d}: u = {east(longitude) @ same_wind:.1f} m/s")

# %% [markdown]
# The same arrow has `u = 5` for one and `u = -5` for the other. The mean of the two numbers is zero: a calm
# that nobody feels. The pair (east, north) is called a [frame](../concepts.md#frame). Numbers in
# different frames cannot be averaged; arrows can, once they are carried to the same place
# ([transport](../concepts.md#transport)). The library does this for you. You give it points and arrows in space.

# %% [markdown]
# ## The map, with error bars
#
# `FieldInterpolator` is used like an estimator of scikit-learn. `manifold=tb.earth.Earth()` says that
# the points lie on the Earth, where winds may have bands along the latitudes. The model estimates from the 100 stations
# how smooth and how strong the winds are. It predicts arrows in space; the line with `einsum` takes their parts to the east and north, for the map.

# %%
points, truth = everywhere.points, everywhere.ambient[0]
model = tb.FieldInterpolator(manifold=tb.earth.Earth())
model.fit(points[known], truth[known])
predicted, std = model.predict(points, return_std=True)
on_grid, grid_std = model.predict(wind.points, return_std=True)
east_north = np.einsum("nda,nd->na", wind.frames, on_grid)
spread = np.linalg.norm(grid_std, axis=1)

# %% alt="Two maps: the estimated wind as arrows, and its standard deviation, small near stations"
figure, axes = plt.subplots(2, 1, figsize=(7, 7), layout="constrained")
tb.plot.earth_map(wind.lat, wind.lon, east_north, title="the estimated wind", top=10, axes=axes[0])
tb.plot.earth_map(
    wind.lat,
    wind.lon,
    spread,
    title="how uncertain it is",
    label="standard deviation",
    unit="m/s",
    axes=axes[1],
)
plt.show()

# %% [markdown]
# The second map is as important as the first: where stations are missing, the model says so. The standard deviation is that
# of the wind itself. It contains how much the wind may vary between stations, the effect of their noise, and how much the models
# inside disagree; it does not contain the noise of a new measurement. It is checked without any further data: each station is left
# out and predicted from the others, and the standard deviations are scaled so that 68 % of these errors are
# as small as they should be ([uncertainty](../estimators.md#uncertainty)).
#
# Now we look at the hidden places. We compare the mean arrow of all stations, means of the four nearest stations in three
# ways, and the model. The second number is the error near the poles, beyond 60 degrees of latitude.

# %%
from sklearn.neighbors import KNeighborsRegressor


def error(guess, places=hidden):
    """Root mean square of the difference to the truth at some places, in m/s."""
    return np.sqrt(((guess - truth)[places] ** 2).sum(axis=1).mean())


def nearest_four(positions, values):
    """Mean of the four nearest stations, weighted by inverse distance."""
    regressor = KNeighborsRegressor(4, weights="distance")
    return regressor.fit(positions[known], values[known]).predict(positions)


def arrows(components):
    """Arrows in space from their parts to the east and north."""
    return np.einsum("nda,na->nd", everywhere.frames, components)


u_v = everywhere.components[0]
lat_lon = np.c_[everywhere.lat, everywhere.lon]
mean_arrow = nearest_four(points, truth)
tangent = np.einsum("nda,nd->na", everywhere.frames, mean_arrow)  # its parts to the east and north
guesses = {
    "mean arrow of all stations": truth[known].mean(axis=0) + 0 * truth,
    "u and v, nearest in degrees": arrows(nearest_four(lat_lon, u_v)),
    "u and v, nearest on the globe": arrows(nearest_four(points, u_v)),
    "arrows, nearest on the globe": arrows(tangent),
    "FieldInterpolator": predicted,
}
polar = hidden[np.abs(everywhere.lat[hidden]) > 60]
for name, guess in guesses.items():
    print(f"{name:30s} {error(guess):.2f} m/s   near the poles {error(guess, polar):.2f} m/s")
print(f"the model's own expectation    {np.sqrt((std[hidden] ** 2).sum(axis=1).mean()):.2f} m/s")

# %% [markdown]
# Arrows instead of `u` and `v` matter near the poles, and little elsewhere. True distances help everywhere. Most of
# the gain comes from the model, which learns over which distance winds are similar.
#
# The last line is the error that the model *expects*, without having seen a hidden place. It is close to the
# true error. That is what an honest error bar means. You can also ask for intervals that shall contain nine
# of ten measurements, so that the noise of a measurement is included:

# %%
low, high = model.predict_interval(points[hidden], level=0.9)
inside = (truth[hidden] >= low) & (truth[hidden] <= high)
print(f"{inside.mean():.0%} of the hidden measurements are inside their 90 % interval")

# %% [markdown]
# ## The past helps
#
# We also have older maps: the winds of earlier years. Given as `history`, they teach the model which places vary
# together. We repeat the experiment for January 1990, with the eight years before as history.

# %%
month = 96
truth = everywhere.ambient[month]
with_history = tb.FieldInterpolator(
    manifold=tb.earth.Earth(),
    history=everywhere.ambient[:month],
    history_points=points,
)
with_history.fit(points[known], truth[known])
without = tb.FieldInterpolator(manifold=tb.earth.Earth())
without.fit(points[known], truth[known])
print(f"100 stations alone             {error(without.predict(points)):.2f} m/s")
print(f"100 stations and eight years   {error(with_history.predict(points)):.2f} m/s")

# %% [markdown]
# ## The forecast, and the surprise
#
# `FieldForecaster` learns from the first eight years at the stations, then predicts the next twelve months.
# `period=12` says that there are seasons. Two simple competitors: *climatology* is the mean of that month in
# other years, and *persistence* adds to it how much the present wind differs from its own month (the *anomaly*), less and less.

# %%
series, times = stations.ambient, wind.times
start = 96
methods = {"FieldForecaster": None, "persistence": Persistence(), "climatology": Climatology()}
skill = {}
for name, method in methods.items():
    options = {"period": 12} if method is None else {"method": method, "period": 12}
    forecaster = tb.FieldForecaster(**options)
    forecaster.fit(stations.points, series[:start], times=times[:start])
    errors = []
    for now in range(start, start + 24):
        future = forecaster.predict(series[now - 36 : now], 12, times=times[now - 36 : now])
        errors.append(((future - series[now : now + 12]) ** 2).sum(axis=2).mean(axis=1))
    skill[name] = np.sqrt(np.mean(errors, axis=0))

# %% alt="Forecast error against lead time for three methods: nearly the same from the third month on"
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, values in skill.items():
    axis.plot(range(1, 13), values, "o-", ms=4, label=name)
axis.set(xlabel="lead time, months", ylabel="error, m/s", ylim=(2.2, 2.8))
axis.legend(frameon=False)
plt.show()
for lead in (1, 3, 12):
    print(lead, {name: round(float(values[lead - 1]), 2) for name, values in skill.items()})

# %% [markdown]
# **The surprise.** The forecast beats the climatology by a little, for half a year, and not at all later. The
# past of 96 months helped the *map* much more than it helps the *forecast*. A good forecast returns to the
# climatology where nothing can be known, instead of inventing weather.
# Monthly means have a short memory. With daily winds the picture is different ([results](../results/README.md)).
#
# ## Exercise
#
# 1. Use 30 stations instead of 100. Does the *expected* error still agree with the true one?
# 2. Replace `tb.earth.Earth()` by `tb.manifolds.Sphere(2)`, on which no latitude is special. How much do the bands of
#    latitude contribute? (`model.models_` and `model.weights_` say what was used.)
# 3. Ask for intervals of 50 % instead of 90 %. How many hidden measurements are inside?
#
# ## What you have seen
#
# * Components belong to frames, and frames turn from place to place: work with arrows.
# * `fit`, `predict(return_std=True)` and `predict_interval` give a map and how far to trust it.
# * Always compare with the climatology.
#
# Next: [the guide of estimators](../estimators.md), or [wind files with xarray](../howto/smooth.md).
