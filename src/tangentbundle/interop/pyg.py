"""PyTorch Geometric: bundles as ``Data``, a transform that attaches them, and operators of batches.

A ``Data`` with a bundle of rank d over n points of R^D holds, in the user's order,

* ``pos (n, D)``, ``frames (n, D, d)`` (none on the scalar bundle),
* ``edge_index (2, e)``, source j above target i, as PyG's messages flow,
* ``edge_weight (e,)``, the kernel at each edge, and ``transport (e, d, d)``, coordinates at j to coordinates at i,
* ``eps (1,)``, ``intrinsic_dim (1,)`` and the ``kernel`` itself.

A message along an edge is thus ``edge_weight * transport @ x[source]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..arrays import points_array
from ..bundle import TangentBundle
from ..errors import InvalidInputError, MissingColumnsError
from ..extras import extra
from ..geometry.graph import NeighborGraph, edge_weights
from ..geometry.known_frames import check_frames, normal_frames
from ..geometry.ordering import curve_order
from ..geometry.search import edge_distances
from ..geometry.transport import Connection
from ..operators import LinearOperator, join
from ..parallel import run_ranges

NEEDED = ("pos", "edge_index", "edge_weight", "transport", "eps", "intrinsic_dim", "kernel")
OPERATOR = "laplacian"


def to_pyg(bundle: TangentBundle, **attributes: Any) -> Any:
    """A PyG ``Data`` that holds the bundle, and ``attributes`` such as signals ``(n, d, c)`` or labels.

    ``from_pyg`` gives the bundle back, with the same Laplacian to the last bit.
    """
    return _attach(extra("torch_geometric.data", "to_pyg", "pyg").Data(), bundle, **attributes)


def _attach(data: Any, bundle: TangentBundle, **attributes: Any) -> Any:
    graph, kind = bundle.sorted_graph, bundle.kind
    order = torch.from_numpy(bundle.order.astype(np.int64))
    ends = torch.from_numpy(np.stack([graph.indices, graph.rows]).astype(np.int64))
    weights = edge_weights(graph, bundle.kernel, float(np.sqrt(bundle.eps)))
    data.pos = _tensor(bundle.points)
    data.edge_index = order[ends].to(kind.device)
    data.edge_weight = torch.from_numpy(weights).to(kind.device, kind.dtype)
    data.transport = torch.from_numpy(np.ascontiguousarray(bundle.connection.blocks())).to(kind.device, kind.dtype)
    if bundle.sorted_frames is not None:
        data.frames = _tensor(bundle.frames)
    data.eps = torch.tensor([bundle.eps], dtype=torch.float64)
    data.intrinsic_dim = torch.tensor([bundle.dim])
    data.kernel = bundle.kernel
    for name, value in attributes.items():
        data[name] = _tensor(value)
    return data


def _tensor(value: Any) -> torch.Tensor:
    foreign = hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, torch.Tensor))
    return torch.from_dlpack(value) if foreign else torch.as_tensor(value)


def from_pyg(data: Any) -> TangentBundle:
    """The bundle of one ``Data`` made by ``to_pyg`` or ``AttachBundle``.

    Positions, edges or weights that were changed since then are refused: such a transform must come first.
    """
    if missing := [name for name in NEEDED if data.get(name) is None]:
        raise MissingColumnsError(
            f"this Data holds no bundle: it lacks {', '.join(missing)}. Attach one with AttachBundle(), or use to_pyg."
        )
    if len(data.eps) > 1:
        raise InvalidInputError(
            f"this is a batch of {len(data.eps)}: use laplacian_of(batch), or batch.to_data_list()."
        )
    cloud, kind = points_array(data.pos, "pos")
    real = np.float32 if kind.dtype == torch.float32 else np.float64
    order = curve_order(cloud)
    place = np.argsort(order)
    source, target = place[data.edge_index.cpu().numpy()]
    edges = np.lexsort((source, target))
    cloud = np.ascontiguousarray(cloud[order])
    graph = _graph(cloud, target[edges], source[edges])
    eps, kernel = float(data.eps[0]), data.kernel[0] if isinstance(data.kernel, list) else data.kernel
    weights = edge_weights(graph, kernel, eps**0.5).astype(real)
    maps = data.transport.detach().cpu().numpy()[edges]
    back = np.lexsort((target[edges], source[edges]))  # the edge that leads back, where there is one
    symmetric = np.array_equal(graph.indices, target[edges][back]) and np.array_equal(graph.rows, source[edges][back])
    if not symmetric or not np.array_equal(maps, maps[back].transpose(0, 2, 1)):
        raise InvalidInputError("edges or transports were changed: each needs its reverse. Attach the bundle last.")
    if not np.allclose(weights, data.edge_weight.detach().cpu().numpy()[edges], rtol=1e-4, atol=0):
        raise InvalidInputError(
            "pos or edge_weight were changed since the bundle was attached. Attach the bundle last."
        )
    frames = data.get("frames")
    return TangentBundle(
        sorted_points=cloud,
        sorted_graph=graph,
        connection=Connection.from_blocks(maps, real),
        order=order,
        kernel=kernel,
        eps=eps,
        dim=int(data.intrinsic_dim[0]),
        kind=kind,
        sorted_frames=None if frames is None else np.ascontiguousarray(check_frames(frames, cloud)[order]),
    )


def _graph(points: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> NeighborGraph:
    """The graph of sorted directed edges, with their lengths."""
    indptr = np.zeros(len(points) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(points)), out=indptr[1:])
    indices, distances = columns.astype(np.int32), np.empty(len(columns))
    run_ranges(edge_distances, len(points), points, points, indptr, indices, distances)
    return NeighborGraph(indptr, indices, distances)


def laplacian_of(data: Any) -> LinearOperator:
    """The connection Laplacian of a ``Data``, or of all of a ``Batch`` as one operator, on the device of ``pos``.

    Operators that ``AttachBundle`` kept are used as they are, with all that filters have stored on them.
    """
    kept = data.get(OPERATOR)
    if kept is None:
        parts = [from_pyg(part).laplacian() for part in _members(data)]
    else:
        parts = kept if isinstance(kept, list) else [kept]
    parts = [part if part.device == data.pos.device else part.to(data.pos.device) for part in parts]
    return join(parts) if len(parts) > 1 else parts[0]


def _members(data: Any) -> list[Any]:
    return data.to_data_list() if hasattr(data, "to_data_list") else [data]


class AttachBundle:
    """A PyG transform: builds the tangent bundle of ``data.pos`` and attaches it, and its Laplacian as ``laplacian``.

    Tangent planes come from ``data.normal`` or the triangles ``data.face`` where there are any, and are estimated
    otherwise. Edges that ``data`` had are replaced. Use it last among the transforms of a data set; in a model,
    ``laplacian_of(batch)`` is the operator of a whole batch.

    Args:
        keep: also attach the operator itself, an object that batches collect in a list. ``False`` for data sets that
            are to be stored on disk: then ``laplacian_of`` makes it anew.
        options: of ``TangentBundle.from_points``, such as ``neighbors=20`` or ``dim=2``.
    """

    def __init__(self, keep: bool = True, **options: Any) -> None:
        self.keep = keep
        self.options = options

    def __call__(self, data: Any) -> Any:
        if data.get("pos") is None:
            raise MissingColumnsError("AttachBundle needs the points as data.pos (n, D); this Data has none.")
        known = {name: value for name, value in self.options.items() if name != "dim"}
        if data.get("normal") is not None:
            bundle = TangentBundle.from_frames(data.pos, normal_frames(data.normal), **known)
        elif data.get("face") is not None:
            bundle = TangentBundle.from_mesh(data.pos, data.face.T.cpu().numpy(), **known)
        else:
            bundle = TangentBundle.from_points(data.pos, **self.options)
        data = _attach(data.clone(), bundle)
        if self.keep:
            data[OPERATOR] = bundle.laplacian()
        return data

    def __repr__(self) -> str:
        options = {"keep": self.keep, **self.options}
        return f"AttachBundle({', '.join(f'{name}={value!r}' for name, value in options.items())})"
