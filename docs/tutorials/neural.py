# %% [markdown]
# # Thirty neurons: what does their activity do?
#
# **The question.** Thirty neurons are recorded while an animal walks. At every moment the activity is a point with 30 coordinates,
# and it moves. Is there order in this motion?
#
# You will find the number of dimensions of the motion, the shape it lives on, and its flow, from the numbers alone. Reading takes about
# ten minutes.

# %%
# On Colab or Binder, first run: %pip install "tangentbundle[plot]"
import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from sklearn.decomposition import PCA

import tangentbundle as tb

rng = np.random.default_rng(0)

# %% [markdown]
# ## The recording
#
# We simulate *grid cells*, neurons that fire whenever the animal is at a corner of a regular pattern of places. If it walks far
# enough, the pattern repeats, to the east as to the north. Each neuron has a place of its own in the pattern and fires near
# it. You need not understand this now. Pretend that you only see `rates` (900 moments, 30 neurons).


# %%
def walk(time, state):
    """Speed of the animal: to the east, with a wave to the north."""
    east, north = state
    return [1.0 + 0.4 * np.cos(north), 0.618 + 0.5 * np.sin(east)]


neurons = 30
preferred = rng.uniform(0, 2 * np.pi, (neurons, 2))
times = np.arange(0, 450, 0.5)
places = solve_ivp(walk, (0, 450), [0.0, 0.0], t_eval=times, rtol=1e-8).y.T


def activity(places):
    """Rates of the neurons at places ``(m, 2)``."""
    return np.exp(1.2 * (np.cos(places[:, None] - preferred) - 1).sum(axis=2))


rates = activity(places) + 0.003 * rng.standard_normal((len(times), neurons))
moves = np.array([walk(0, place) for place in places])
ahead, behind = activity(places + 1e-4 * moves), activity(places - 1e-4 * moves)
true_velocity = (ahead - behind) / 2e-4
velocity = true_velocity + 1.0 * true_velocity.std() * rng.standard_normal(rates.shape)
print(rates.shape, velocity.shape)

# %% alt="The rates of five neurons against time: bumps without an obvious pattern"
figure, axis = plt.subplots(figsize=(7, 2.6), layout="constrained")
axis.plot(times[:120], rates[:120, :5])
axis.set(xlabel="time, s", ylabel="rate", title="five of the thirty neurons")
plt.show()

# %% [markdown]
# ## The first look: principal components
#
# The usual first step is PCA: the directions in which the activity varies most.

# %% alt="Left: variance explained by the first ten principal components. Right: the path in the first three."
pca = PCA(10).fit(rates)
three = pca.transform(rates)[:, :3]
figure = plt.figure(figsize=(8, 3.2), layout="constrained")
axis = figure.add_subplot(1, 2, 1)
axis.bar(range(1, 11), pca.explained_variance_ratio_)
axis.set(xlabel="principal component", ylabel="share of the variance")
axis = figure.add_subplot(1, 2, 2, projection="3d")
axis.plot(*three[:300].T, lw=0.8)
axis.set_title("the path in the first three components")
plt.show()
print(
    f"the first six components have {pca.explained_variance_ratio_[:6].sum():.0%} of the variance"
)

# %% [markdown]
# The variance is spread over six components and more. The path in three of them is a tangle. Does the activity need six
# dimensions? PCA answers how large a *flat* space must be to contain the points. It cannot see that a surface is bent.
#
# ## The second look: dimensions on the surface
#
# Near each point, the library asks in how many directions the neighbours lie. That is the dimension of a
# [tangent space](../concepts.md#tangent-space).

# %%
points = pca.transform(rates)  # ten components are enough, and noise of the others is removed
bundle = tb.TangentBundle.from_points(points)
vectors = velocity @ pca.components_.T
report = bundle.diagnose(quiet=True)
print("dimension:", bundle.dim)
print("local estimates:", report.dimension_histogram)
print("one piece:", report.components == 1)

# %% [markdown]
# **Two**, at nearly all points. Thirty neurons, ten components, but at each moment the activity can change in two directions only. It moves on a
# curved surface.
#
# ## The surprise: the surface is a doughnut
#
# Which surface? On a sphere every loop can be pulled together to a point. On a doughnut (a torus) two kinds of loops cannot: those around the hole, and
# those around the tube. Such loops can be counted from the points. Their number is called the first *Betti number*: 0 for a sphere, 2 for a torus. It comes with
# a confidence between 0 and 1.

# %%
loops = tb.calculus.estimate_betti_number(bundle)
print(loops)

# %% [markdown]
# The activity of the neurons lies on a torus. Nobody has told the program. The two loops are the two directions in which the pattern of
# the grid cells repeats. In 2022 the same was found in recordings of real rats (Gardner et al., *Nature* 602).
#
# ## The flow
#
# Each point also has a velocity, and the measured velocities are noisy. `FieldDenoiser` knows that velocities are tangent to
# the surface and similar at neighbouring points, and estimates everything else.

# %%
denoiser = tb.FieldDenoiser(dim=2).fit(points, vectors)
clean = denoiser.predict(points)
truth = true_velocity @ pca.components_.T


def error(guess):
    """Relative error of velocities."""
    return np.linalg.norm(guess - truth) / np.linalg.norm(truth)


print(f"measured velocities: error {error(vectors):.0%}")
print(f"denoised velocities: error {error(clean):.0%}")

# %% [markdown]
# For a picture we need two coordinates. The simulated places serve as a map of the torus, which is only possible because we made the data; the estimate
# has not used them.

# %% alt="The flow on the unrolled torus, measured and denoised: the denoised arrows form smooth waves"
map_places = places % (2 * np.pi)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
jacobian = np.stack(
    [
        (activity(places + 1e-4 * unit) - activity(places - 1e-4 * unit)) @ pca.components_.T / 2e-4
        for unit in np.eye(2)
    ],
    axis=2,
)
for axis, field, title in zip(axes, (vectors, clean), ("measured", "denoised"), strict=True):
    on_map = np.einsum("nij,nj->ni", np.linalg.pinv(jacobian), field)
    rows = slice(0, None, 2)
    axis.quiver(*map_places[rows].T, *on_map[rows].T, angles="xy", scale=40, width=0.003)
    axis.set(title=title, xlabel="east", ylabel="north", aspect="equal")
plt.show()

# %% [markdown]
# ## What is slow, what is fast?
#
# A [filter](../concepts.md#filter) separates slow from fast variations of the flow along the surface, as a bass and a treble control
# separate tones. The frequencies are eigenvalues of the [connection Laplacian](../concepts.md#connection-laplacian).

# %% alt="Energy of the true flow and of the noise by frequency: the flow's falls by a factor of a hundred, the noise is level"
lap = bundle.laplacian()
values, fields = lap.spectrum(200)
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
parts = {
    "true flow": truth,
    "noise of the measurement": vectors - truth,
    "what is left of it": clean - truth,
}
for name, field in parts.items():
    energy = lap.to_frequency(bundle.to_coordinates(field), 200)[:, 0] ** 2
    axis.semilogy(
        values.reshape(10, 20).mean(axis=1), energy.reshape(10, 20).mean(axis=1), "o-", label=name
    )
axis.set(xlabel="frequency (eigenvalue)", ylabel="mean energy")
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# The true flow is slow: its energy is at low frequencies. The noise has about the same energy at every frequency. That is why the two can be separated.
#
# ## Exercise
#
# 1. Record 12 neurons instead of 30. Is the dimension still two? Can the loops still be counted?
# 2. Raise the noise of the rates from 0.003 to 0.05. Why is the number of loops undetermined now?
# 3. Let the animal walk on a line (`[1.0, 0.0]`). What do you expect for the dimension and the loops?
#
# ## What you have seen
#
# * PCA measures flat dimensions, a tangent bundle the dimensions of the surface.
# * Loops of a surface can be counted from points.
# * Velocities on the surface can be denoised without knowing the surface.
#
# Next: [high-dimensional data](../howto/highdim.md), [calculus](../calculus.md).
