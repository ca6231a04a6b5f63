"""PyTorch Geometric: bundles as ``Data``, a transform that attaches them, and operators of batches.

A ``Data`` with a bundle of rank d over n points of R^D holds, in the user's order,

* ``pos (n, D)``, ``frames (n, D, d)`` (none on the scalar bundle),
* ``edge_index (2, e)``, source j above target i, as PyG's messages flow,
* ``edge_weight (e,)``, the kernel at each edge (or its cotangents, on a mesh), and
  ``transport (e, d, d)``, coordinates at j to coordinates at i,
* ``eps (1,)``, the ``bundle`` itself, and its ``laplacian``.

A message along an edge is thus ``edge_weight * transport @ x[source]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..arrays import host
from ..bundle import TangentBundle
from ..errors import IsolatedPointsError, MissingColumnsError
from ..extras import extra
from ..geometry.cloud import PointCloud
from ..geometry.known_frames import normal_frames
from ..geometry.scale import TIE
from ..operators import SquareOperator, join

MAX_WIDENING = 4.0
"""Largest widened radius, relative to the radius of the inner half of a cloud: neighbourhoods twice
as wide as a ball hold all of it from anywhere inside, and outer points may lie twice as far."""


def to_pyg(bundle: TangentBundle, **attributes: Any) -> Any:
    """A PyG ``Data`` that holds the bundle, and ``attributes`` such as signals ``(n, d, c)`` or
    labels.

    >>> import tangentbundle as tb
    >>> data = to_pyg(tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(200, seed=0)))
    >>> tuple(data.frames.shape), data.bundle.num_points
    ((200, 3, 2), 200)
    """
    data_type = extra("torch_geometric.data", "to_pyg", "pyg").Data
    contents = _contents(bundle)
    for name, value in attributes.items():
        contents[name] = torch.as_tensor(value)
    return data_type(**contents)


def _contents(bundle: TangentBundle) -> dict[str, Any]:
    """The attributes of the ``Data`` of a bundle."""
    graph = bundle.sorted_graph
    kind = bundle.kind
    ends = torch.stack([graph.indices.long(), graph.rows])
    contents = {
        "pos": torch.as_tensor(bundle.points),
        "edge_index": bundle.cloud.curve_order[ends].to(kind.device),
        "edge_weight": bundle.edge_weights().to(kind.device, kind.dtype),
        "transport": bundle.connection.blocks().contiguous().to(kind.device, kind.dtype),
        "eps": torch.tensor([bundle.eps], dtype=torch.float64),
        "bundle": bundle,
        "laplacian": bundle.laplacian(),
    }
    if bundle.tangent_frames is not None:
        contents["frames"] = torch.as_tensor(bundle.frames)
    return contents


def laplacian_of(data: Any) -> SquareOperator:
    """The connection Laplacian of a ``Data``, or of all of a ``Batch`` as one operator, on the
    device of ``pos``.

    The operators are those that were attached, with all that filters have cached on them.

    >>> import tangentbundle as tb
    >>> data = to_pyg(tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(200, seed=0)))
    >>> laplacian_of(data).shape
    (400, 400)
    """
    attached = data.get("laplacian")
    if attached is None:
        raise MissingColumnsError(
            "this Data holds no bundle. Attach one with AttachBundle(), or use to_pyg."
        )
    laplacians = attached if isinstance(attached, list) else [attached]  # a batch has a list
    on_device = [_on_device(laplacian, data.pos.device) for laplacian in laplacians]
    if len(on_device) == 1:
        return on_device[0]
    return join(on_device)


def _on_device(laplacian: Any, device: torch.device) -> Any:
    """The same operator if it is there already, with all that is cached on it."""
    if laplacian.device == device:
        return laplacian
    return laplacian.to(device)


def _refuse_outliers(points: np.ndarray, nearest: np.ndarray, data: Any) -> None:
    """Refuse a cloud whose widened neighbourhoods would hold nearly all of it.

    ``nearest`` (n,) are the distances to the nearest point. The size of a cloud is the median
    distance from the median point, which few outliers do not change.
    """
    centre = np.median(points, axis=0)
    size = float(np.median(np.linalg.norm(points - centre, axis=1)))
    outliers = np.flatnonzero(nearest > MAX_WIDENING * size)
    if len(outliers) == 0 or size == 0.0:
        return
    raise IsolatedPointsError(
        f"{len(outliers)} of {len(points)} points of {data} (first: {outliers[0]}, counted from 0) "
        f"lie up to {nearest.max():.4g} from their nearest point, and half of all points within "
        f"{size:.4g} of the centre: neighbourhoods as wide as that would hold the whole cloud. "
        "Remove these points, or check the units of the coordinates."
    ).at_point(outliers[0])


class AttachBundle:
    """A PyG transform: attaches the tangent bundle of ``data.pos``, and its Laplacian as
    ``data.laplacian``.

    With triangles ``data.face`` it is the bundle of the mesh, unless ``options`` such as
    ``neighbors`` ask for a cloud of points. Tangent planes come from ``data.normal`` where there
    are any, and are estimated otherwise. Edges that ``data`` had are replaced. Use it last among
    the transforms of a data set; in a model, ``laplacian_of(batch)`` is the operator of a batch.
    ``options`` are those of ``TangentBundle.from_points``.

    A cloud in which a point has no neighbour is refused. With ``widen`` the neighbourhoods of such
    a cloud become as large as the largest distance of a point to its nearest one. Clouds with
    outliers so far away that neighbourhoods would hold all other points are refused all the same.

    >>> import tangentbundle as tb
    >>> from torch_geometric.data import Data
    >>> points = torch.from_numpy(tb.manifolds.Sphere(2).sample(200, seed=0))
    >>> AttachBundle(dim=2)(Data(pos=points)).bundle.dim
    2
    """

    def __init__(self, *, widen: bool = False, **options: Any) -> None:
        self.widen = widen
        self.options = options

    def __call__(self, data: Any) -> Any:
        if data.get("pos") is None:
            raise MissingColumnsError(
                "AttachBundle needs the points as data.pos (n, D); this Data has none."
            )
        try:
            bundle = self._bundle(data, self.options)
        except IsolatedPointsError as error:
            if not self.widen:
                raise IsolatedPointsError(
                    f"{error} This is in {data}; AttachBundle(widen=True) gives such clouds larger "
                    "neighbourhoods."
                ) from error
            bundle = self._bundle(data, self._widened_options(data))
        return data.clone().update(_contents(bundle))

    def _widened_options(self, data: Any) -> dict[str, Any]:
        """The options with the least ``eps`` at which every point has a neighbour."""
        cloud = PointCloud.in_order(data.pos)
        nearest = host(cloud.nearest(1)[0]).ravel()
        _refuse_outliers(cloud.at(slice(None)), nearest, data)
        options = {name: value for name, value in self.options.items() if name != "neighbors"}
        options["eps"] = float(nearest.max() * TIE) ** 2
        return options

    @staticmethod
    def _bundle(data: Any, options: dict[str, Any]) -> TangentBundle:
        frames = None
        if data.get("normal") is not None:
            frames = normal_frames(data.normal)
        without_dim = {name: value for name, value in options.items() if name != "dim"}
        if data.get("face") is not None and not without_dim:
            return TangentBundle.from_mesh(data.pos, data.face.T.cpu().numpy(), frames=frames)
        if frames is not None:
            return TangentBundle.from_frames(data.pos, frames, **without_dim)
        return TangentBundle.from_points(data.pos, **options)
