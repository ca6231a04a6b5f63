"""What a nonlinearity respects: coordinatewise tanh depends on frames that nobody chose.

Local PCA may turn or mirror each tangent basis; the field is the same, its coordinates are not. The
same network, with the same weights, is run on one field in the estimated frames and in randomly
turned ones. Filters do not notice, and neither do activations that change lengths only.
Coordinatewise tanh, which the paper's experiments use, gives another field, and the more so the
larger the input.
"""

import numpy as np
import torch

import tangentbundle as tb
from tangentbundle.testing import random_orthogonal

bundle = tb.TangentBundle.from_points(
    torch.from_numpy(tb.manifolds.Sphere(2).sample(400, seed=0)), dim=2
)
turns = torch.from_numpy(random_orthogonal(400, 2, seed=1))
turned = tb.TangentBundle.from_frames(bundle.points, bundle.frames @ turns, eps=bundle.eps)
views = [(b, b.laplacian()) for b in (bundle, turned)]
field = torch.randn(400, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
sizes = np.logspace(-1, 1, 9)
activations = {
    "Coordinatewise(tanh)": tb.nn.Coordinatewise(torch.tanh),
    "NormTanh()": tb.nn.NormTanh(),
}

figure, ((axis,),) = tb.plot.canvas(size=(7.4, 4.2))
for name, activation in activations.items():
    net = tb.nn.TNN([1, 8, 4, 1], step=0.1, activation=activation, seed=0).double()
    changes = []
    for size in sizes:
        with torch.no_grad():
            one, other = (
                b.to_ambient(net(b.to_coordinates(size * field), lap)) for b, lap in views
            )
        changes.append(float(torch.linalg.norm(one - other) / torch.linalg.norm(one)))
    worst = f"{max(changes):.0%}" if max(changes) > 1e-9 else "below 1e-9"
    print(f"{name:22s} largest change of the output: {worst}")
    axis.loglog(sizes, np.maximum(changes, 1e-16), "o-", label=name)
axis.set(xlabel="size of the input", ylabel="change of the output, relative", ylim=(1e-17, 10))
axis.legend(frameon=False, loc="center right")
tb.plot.save(figure, "out/gauge.png")
