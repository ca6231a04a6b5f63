"""Eigenvalues of the connection Laplacian: 3 000 random points of a sphere know the spectrum of its
vector fields.

On the unit sphere vector fields have the eigenvalues l (l + 1) - 1, each 2 (2 l + 1) times, and
functions l (l + 1), each 2 l + 1 times. Both operators are built from the bare points, with
estimated tangent planes; nobody tells them that it is a sphere. Eigenvalues come out a few per cent
low, less with more points.
"""

import numpy as np

import tangentbundle as tb

bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(3000, seed=0))
degree = np.arange(6)
cases = {
    "vector fields": (bundle, degree[1:] * (degree[1:] + 1) - 1, 2 * (2 * degree[1:] + 1)),
    "functions": (bundle.scalar(), degree * (degree + 1), 2 * degree + 1),
}

figure, (axes,) = tb.plot.canvas(1, 2, (4.6, 4.0))
for axis, (name, (space, exact, fold)) in zip(axes, cases.items(), strict=True):
    values, _ = space.laplacian().spectrum(int(fold.sum()))
    groups = np.split(values, np.cumsum(fold)[:-1])
    print(name)
    for true, times, group in zip(exact, fold, groups, strict=True):
        print(f"  exact {true:2d} ({times:2d} times): {group.min():6.2f} to {group.max():6.2f}")
    axis.hlines(exact, 0, fold.sum(), color="tab:orange", lw=1, label="exact")
    axis.plot(np.arange(fold.sum()) + 0.5, values, ".", color="tab:blue", label="estimated")
    axis.set(title=name, xlabel="number", ylabel=r"eigenvalue of $-\Delta$")
    axis.legend(loc="lower right", framealpha=1)
tb.plot.save(figure, "out/sphere_spectrum.png")
