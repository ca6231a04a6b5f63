# %% [markdown]
# # How do I clean arrows on a scanned surface?
#
# **The question.** A camera has measured how a film of water moves over a piece of pipe. We have the mesh of the scanned pipe
# and a noisy arrow at every vertex. How do we remove the noise?
#
# You will see why *near in space* is not *near on the surface*, and what a mesh knows that a cloud of points does not.
# Reading takes about ten minutes. No geometry is needed.

# %%
# On Colab or Binder, first run: %pip install "tangentbundle[plot]"
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import cKDTree

import tangentbundle as tb

# %% [markdown]
# ## The scan
#
# We simulate the scan, because then the truth is known. The wall of the pipe is a tenth of its radius. Its vertices have errors of a
# few tenths of a per cent, like those of a good scanner. A mesh is two arrays: `vertices (n, 3)`, and `faces (f, 3)`
# with the numbers of the three corners of each triangle. Your own file is read by
# `tangentbundle.io.read_field("scan.ply")` ([how to](../howto/mesh.md)). How the pipe is made does not matter for what follows;
# you can skip that function.


# %%
def pipe(along=54, around=96, wall=0.1, height=1.2):
    """Vertices and triangles of a piece of pipe, and the direction up outside, down inside."""
    length = 2 * height + np.pi * wall
    place = length * np.arange(along) / along
    corners = np.array([0, height, height + np.pi * wall / 2, length - np.pi * wall / 2, length])
    angle = np.interp(place, corners, [0, 0, np.pi, np.pi, 2 * np.pi])
    climb = np.interp(place, corners, [0, height, height, 0, 0])
    radius = 1 - wall / 2 + wall / 2 * np.cos(angle)
    level = climb + wall / 2 * np.sin(angle)
    turn = 2 * np.pi * np.arange(around) / around
    outward = np.stack([np.cos(turn), np.sin(turn), 0 * turn], axis=1)
    upward = np.array([0.0, 0.0, 1.0])
    vertices = radius[:, None, None] * outward + level[:, None, None] * upward
    flow = -np.sin(angle)[:, None, None] * outward + np.cos(angle)[:, None, None] * upward
    number = np.arange(along * around).reshape(along, around)
    right, above = np.roll(number, -1, axis=1), np.roll(number, -1, axis=0)
    across = np.roll(above, -1, axis=1)
    faces = [np.stack([number, right, above], -1), np.stack([right, across, above], -1)]
    return vertices.reshape(-1, 3), np.concatenate(faces).reshape(-1, 3), flow.reshape(-1, 3)


rng = np.random.default_rng(0)
exact, faces, flow = pipe()
vertices = exact + 0.003 * rng.standard_normal(exact.shape)
bundle = tb.TangentBundle.from_mesh(vertices, faces)
print(bundle)

# %% [markdown]
# The printed line says what was built: planes of dimension 2, from a closed mesh. Flipped edges are diagonals that were exchanged inside the
# surface, because long thin triangles are inaccurate; your vertices and faces stay as they are.
#
# The water rises on the outside, flows over the rim and sinks on the inside, with some rotation. So the arrows on the two
# sides of the wall point in opposite directions. `to_coordinates` keeps the part of an arrow that lies in the surface, as two
# numbers at each vertex; `to_ambient` makes three numbers in space of them again.

# %%
around = np.cross([0.0, 0.0, 1.0], exact)
truth = bundle.to_ambient(bundle.to_coordinates(flow + 0.4 * around))
noisy = truth + 0.7 * rng.standard_normal(truth.shape)


def error(vectors):
    """Relative error of a field."""
    return np.linalg.norm(vectors - truth) / np.linalg.norm(truth)


# %% alt="The pipe with its true arrows and with the noisy measured arrows"
view = tb.plot.View(elevation=35, azimuth=30)
look = {"faces": faces, "view": view, "arrows": 350, "top": 2.0, "scale": 0.09, "colorbar": False}
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
tb.plot.field(vertices, truth, title="the true flow", axes=axes[0], **look)
tb.plot.field(vertices, noisy, title=f"measured: error {error(noisy):.0%}", axes=axes[1], **look)
plt.show()

# %% [markdown]
# ## The tempting way
#
# Noise disappears in means. So we replace each arrow by the mean of the arrows of its nearest neighbours *in space*, and
# try several numbers of neighbours.

# %%
tree = cKDTree(vertices)
in_space = {}
for count in (4, 8, 16, 32, 64):
    neighbors = tree.query(vertices, count)[1]
    in_space[count] = noisy[neighbors].mean(axis=1)
    print(f"{count:3d} nearest in space: error {error(in_space[count]):.0%}")

# %% [markdown]
# With more neighbours the noise falls, and then the error rises again, to a useless result: on the other side of the thin wall
# the flow is opposite, and opposite arrows cancel.
#
# ## Along the surface
#
# Heat does not jump through the wall; it flows along the surface. `Heat(t)` lets the arrows flow as heat does, for
# a time `t`, over a distance of about $2\sqrt{t}$. On the way they are carried from one
# [tangent plane](../concepts.md#tangent-space) to the next, so they bend over the rim with the surface. The operator that does it is
# the [connection Laplacian](../concepts.md#connection-laplacian).

# %%
lap = bundle.laplacian()
signal = bundle.to_coordinates(noisy)
on_surface = {}
for time in (0.001, 0.003, 0.01, 0.03, 0.1):
    on_surface[time] = bundle.to_ambient(tb.Heat(time)(lap, signal))
    print(f"heat for a time of {time:5.3f}: error {error(on_surface[time]):.0%}")

# %% alt="The flow estimated from neighbours in space and by heat flow on the mesh"
best_space = min(in_space.values(), key=error)
best_surface = min(on_surface.values(), key=error)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
titles = [
    f"nearest in space: {error(best_space):.0%}",
    f"along the surface: {error(best_surface):.0%}",
]
for axis, field, title in zip(axes, (best_space, best_surface), titles, strict=True):
    tb.plot.field(vertices, field, title=title, axes=axis, **look)
plt.show()

# %% [markdown]
# We knew the truth, so we could choose the best time. Without it, choose the time by its reach: a time of 0.01 averages over
# about $2\sqrt{0.01} = 0.2$, a fifth of the pipe's radius. Over this distance the flow should be nearly constant. Here it is
# nearly constant over much more, so longer times are better.
#
# ## The surprise: so near, and so far
#
# How far is the inside from the outside? In space, as much as the wall is thick. For an ant, it is the way to the nearer rim, over it, and back. `distance` measures
# that way.

# %% alt="Distances on the pipe from one vertex, by colour: the inside of the wall is far away"
start = int(np.argmin(np.linalg.norm(exact - [1.0, 0.0, 0.4], axis=1)))
distance = bundle.distance([start])
opposite = int(np.argmin(np.linalg.norm(exact - [0.9, 0.0, 0.4], axis=1)))
straight = np.linalg.norm(vertices[start] - vertices[opposite])
print(
    f"from the outside to the inside of the wall: {straight:.2f} through it, {distance[opposite]:.2f} on foot"
)
figure = plt.figure(figsize=(8, 3.4), layout="constrained")
for number, (title, side) in enumerate({"seen from outside": 0, "seen from inside": 180}.items()):
    axis = figure.add_subplot(1, 2, number + 1, projection="3d", title=title)
    surface = axis.plot_trisurf(*vertices.T, triangles=faces, cmap="viridis", antialiased=False)
    surface.set_array(distance[faces].mean(axis=1))
    surface.set_clim(0, distance.max())
    axis.view_init(35, side)
    axis.set_box_aspect((2, 2, 1.2))
    axis.set_axis_off()
figure.colorbar(surface, ax=figure.axes, shrink=0.6, label="distance along the surface")
plt.show()

# %% [markdown]
# A cloud of points does not know about triangles: `TangentBundle.from_points(vertices)` joins the two sides of the wall, because they are near.
# The library notices that and warns:

# %%
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    cloud = tb.TangentBundle.from_points(vertices, dim=2)
print(f"{len(caught)} warnings. The first: {caught[0].message}")
by_cloud = cloud.to_ambient(tb.Heat(0.01)(cloud.laplacian(), cloud.to_coordinates(noisy)))
print(f"as a cloud of points: error {error(by_cloud):.0%}")

# %% [markdown]
# So give the mesh if you have one. Where you have points only, take the warning seriously: use fewer neighbours, or more points.
#
# ## Exercise
#
# 1. Make the wall five times thicker (`pipe(wall=0.5)`). Does the tempting way work now?
# 2. Carry one arrow from `start` to all other vertices with `bundle.transport([start], [[0, 0, 1.0]])` and draw it. Where is the result
#    not trustworthy?
# 3. Take a scan of your own, and run `tangentbundle inspect scan.ply`.
#
# ## What you have seen
#
# * Means need neighbours, and neighbours are those on the surface.
# * `from_mesh` uses the triangles; `Heat(t)` averages along the surface, over a distance of about $2\sqrt{t}$.
# * Warnings about close sheets are about wrong neighbours ([troubleshooting](../troubleshooting.md)).
#
# Next: [meshes](../howto/mesh.md), [transport and distance](../howto/geodesics.md).
