"""Torus or Klein bottle: the transports of a cloud tell whether its space has two sides.

Along every edge the closest orthogonal map is a rotation or a reflection. If frames can be flipped
so that only rotations are left, the space is orientable. On a Klein bottle no flipping does it:
some loop always comes back mirrored. The picture flips frames outward from one point until all are
reached, and marks in black the edges that reflect in the end: on the torus there are none, on the
Klein bottle they form a cut that can be moved, and never removed.
"""

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

import tangentbundle as tb

spaces = {"torus": tb.manifolds.Torus(), "Klein bottle": tb.manifolds.KleinBottle(4)}
figure, (axes,) = tb.plot.canvas(1, 2, (4.6, 4.0))
for axis, (name, space) in zip(axes, spaces.items(), strict=True):
    bundle = tb.TangentBundle.from_points(space.sample(2500, seed=0), dim=2)
    graph, det = bundle.sorted_graph, bundle.connection.det.numpy()
    n, starts, ends = graph.num_points, graph.rows.numpy(), graph.indices.numpy()
    edges = sparse.csr_array((np.ones(len(ends)), (starts, ends)), shape=(n, n))
    order, parent = csgraph.breadth_first_order(edges, 0, directed=False)
    sign_of = dict(zip(zip(starts, ends, strict=True), det, strict=True))
    flip = np.ones(n)
    for i in order[1:]:
        flip[i] = flip[parent[i]] * sign_of[parent[i], i]
    torn = flip[starts] * det * flip[ends] < 0
    orientable = bundle.diagnose(quiet=True).orientable
    print(
        f"{name:12s} orientable: {orientable}, edges that reflect after flipping: {torn.mean():.1%}"
    )

    points = bundle.cloud.points.numpy() - bundle.cloud.points.numpy().mean(axis=0)
    flat = points @ np.linalg.svd(points, full_matrices=False)[2][:2].T
    axis.scatter(*flat.T, s=5, color="0.75")
    middle = (flat[starts[torn]] + flat[ends[torn]]) / 2
    axis.plot(*middle.T, ".", color="black", ms=2)
    axis.set(
        title=f"{name}: {torn.mean():.1%} of the edges reflect",
        aspect="equal",
        xticks=[],
        yticks=[],
    )
tb.plot.save(figure, "out/orientability.png")
