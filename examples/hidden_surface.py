"""A surface hidden in 50 dimensions: the library finds that it is one, and smooths a field on it.

A Swiss roll is turned at random into R^50. From the points alone: the dimension, the tangent
planes, the Laplacian. The field, one that runs along the roll and sways a little, is then denoised
by heat flow on the bundle, and, for comparison, by heat flow of its 50 components one by one,
projected to the same tangent planes. Transport follows the bends of the roll, so that vectors from
further away can be averaged.
"""

import numpy as np

import tangentbundle as tb

rng = np.random.default_rng(0)
roll = tb.manifolds.SwissRoll()
inside = roll.sample(2000, seed=0)
rotation = np.linalg.qr(rng.standard_normal((50, 3)))[0]
points = inside @ rotation.T
along, across = np.moveaxis(roll.frames(inside), 2, 0)
angle = 0.2 * np.sin(2 * np.pi * inside[:, 2:] / roll.width)
truth = (np.cos(angle) * along + np.sin(angle) * across) @ rotation.T

bundle = tb.TangentBundle.from_points(points)
agree = np.mean(bundle.estimate.local_dimensions == bundle.dim)
print(f"dimension {bundle.dim} in R^{bundle.ambient_dim}: {agree:.0%} of the points agree")
clean = bundle.to_coordinates(truth)
noisy = clean + 0.8 * rng.standard_normal(clean.shape)
lap, scalar = bundle.laplacian(), bundle.scalar().laplacian()


def error(x: np.ndarray) -> float:
    return float(np.linalg.norm(x - clean) / np.linalg.norm(clean))


times = bundle.eps * np.linspace(0.0, 1.5, 11)
components = bundle.to_ambient(noisy)[:, None, :]
with_transport = [error(tb.Heat(t)(lap, noisy)) for t in times]
without = [error(bundle.to_coordinates(tb.Heat(t)(scalar, components)[:, 0, :])) for t in times]
print(
    f"noisy {with_transport[0]:.2f}, least with transport {min(with_transport):.2f}, without "
    f"{min(without):.2f}"
)

figure, (axes,) = tb.plot.canvas(1, 2, (4.6, 4.0))
axes[0].scatter(inside[:, 0], inside[:, 1], c=inside[:, 2], s=4, cmap="viridis")
axes[0].set(title="the roll, seen along its axis", aspect="equal", xticks=[], yticks=[])
axes[1].plot(times, with_transport, "o-", label="heat on the tangent bundle")
axes[1].plot(times, without, "o--", color="0.5", label="its 50 components apart")
axes[1].set(xlabel="time of flow", ylabel="relative error", ylim=(0, None))
axes[1].legend(frameon=False)
tb.plot.save(figure, "out/hidden_surface.png")
