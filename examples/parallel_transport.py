"""Parallel transport by heat: one vector, let flow for a moment, points the right way everywhere.

The vector heat method (Sharp, Soliman and Crane, 2019) in three lines. A single tangent vector at
the north pole is a field that is zero elsewhere; short heat flow on the tangent bundle spreads it,
and its direction at each point is that of parallel transport along the shortest path, here the
exact one of the sphere. At the south pole all paths meet, and no direction is right.
"""

import numpy as np

import tangentbundle as tb

sphere = tb.manifolds.Sphere(2)
points = np.concatenate([[[0.0, 0.0, 1.0]], sphere.sample(5999, seed=0)])
bundle = tb.TangentBundle.from_points(points, neighbors=30)

start = np.zeros((6000, 3))
start[0] = [1.0, 0.0, 0.0]
flowed = bundle.to_ambient(tb.Heat(0.3)(bundle.laplacian(), bundle.to_coordinates(start)))
unit = flowed / np.linalg.norm(flowed, axis=1, keepdims=True)

exact = sphere.transport(np.repeat(points[:1], 5999, axis=0), points[1:]) @ start[0]
angle = np.degrees(np.arccos(np.clip((unit[1:] * exact).sum(axis=1), -1, 1)))
distance = np.degrees(np.arccos(np.clip(points[1:, 2], -1, 1)))
for low, high in ((0, 30), (30, 60), (60, 90), (90, 120), (120, 150)):
    inside = (distance >= low) & (distance < high)
    print(
        f"{low:3d} to {high:3d} degrees away: off by {np.median(angle[inside]):4.1f} degrees "
        "(median)"
    )

figure, (axes,) = tb.plot.canvas(1, 2, (4.6, 4.0), width_ratios=(1, 1.2))
turn, front = np.linspace(0, 2 * np.pi, 200), np.flatnonzero(points[:, 2] > 0.05)[:700]
axes[0].fill(np.cos(turn), np.sin(turn), color="0.93")
axes[0].quiver(
    *points[front, :2].T,
    *unit[front, :2].T,
    distance[front - 1],
    cmap="viridis",
    scale=22,
    width=0.004,
)
axes[0].plot(0, 0, "o", color="tab:red")
axes[0].set(title="from the pole outward, seen from above", aspect="equal", xticks=[], yticks=[])
axes[1].plot(distance, angle, ".", ms=2)
axes[1].set(
    xlabel="distance from the pole, degrees",
    ylabel="angle to exact transport, degrees",
    ylim=(0, 30),
)
axes[1].axvline(180, color="0.6", lw=0.8)
tb.plot.save(figure, "out/parallel_transport.png")
