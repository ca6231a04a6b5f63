"""Harmonic fields of a torus: two flows without sources, sinks or vortices, found from bare points.

By the theorem of Hodge, a closed surface has as many of them as its first Betti number: none on a
sphere, two on a torus. They are the kernel of the Hodge Laplacian, connection Laplacian less Ricci
curvature. Tangent planes and curvature are estimated from the points. Pictures and numbers are of 4
000 random points.
"""

import numpy as np

import tangentbundle as tb
from tangentbundle.calculus import Derivatives, betti_number

torus = tb.manifolds.Torus(1.0, 0.4)
points = torus.sample(4000, seed=0)
bundle = tb.TangentBundle.from_points(points)
print(f"first Betti number   torus {betti_number(bundle)}")
sphere = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(4000, seed=0))
print(f"                    sphere {betti_number(sphere)}")

values, fields = bundle.hodge().spectrum(6)
functions, _ = bundle.scalar().laplacian().spectrum(4)
print("Hodge eigenvalues   ", values.round(2))
print("those of functions  ", functions.round(2))

curvature = bundle.curvature().gaussian
print(f"Gaussian curvature   {curvature.min():.1f} to {curvature.max():.1f} (exact: -4.2 to 1.8)")

# the fields of an eigenspace are any basis of it: take the one whose first field goes around the
# axis
along = torus.tangent_field(points)
two = bundle.to_ambient(fields[:, :, :2])
share = np.einsum("nd,ndk->k", along, two)
turn = np.array([share, [-share[1], share[0]]]) / np.linalg.norm(share)
one, other = np.einsum("ndk,mk->mnd", two, turn)
calculus = Derivatives(bundle)
for name, field in (("around the axis", one), ("around the tube", other)):
    signal = bundle.to_coordinates(field)
    size = np.linalg.norm(calculus.jacobian() @ signal)
    parts = [np.linalg.norm(m @ signal) / size for m in (calculus.divergence(), calculus.curl())]
    print(f"{name}: divergence and curl are {parts[0]:.2f} and {parts[1]:.2f} of the derivative")

panels = {"harmonic, around the axis": one, "harmonic, around the tube": other}
figure, axes = tb.plot.canvas(1, 2, (4.6, 3.6))
look = {
    "arrows": 500,
    "surface": torus.sample(20_000, seed=1),
    "top": 1.5 * np.linalg.norm(one) / len(one) ** 0.5,
}
for axis, (title, vectors) in zip(axes[0], panels.items(), strict=True):
    tb.plot.field(points, vectors, title=title, axes=axis, **look)
tb.plot.save(figure, "out/harmonic_fields.png")
