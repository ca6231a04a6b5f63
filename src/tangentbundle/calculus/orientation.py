"""One orientation for all tangent planes: what curl and rot need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..diagnostics import confident_edges, cover_signs, orientability, tree_signs
from ..errors import NotOrientableError

if TYPE_CHECKING:
    from ..bundle import TangentBundle


def orientation(bundle: TangentBundle) -> np.ndarray:
    """A sign for each frame ``(n,)``, along the curve: with it, all frames are oriented alike.

    Frames that agree already (latitude and longitude, meshes) keep their orientation. Otherwise surfaces in space are
    oriented by their outward normals, and other spaces like the frame of their first point; each component by itself.
    """
    det = bundle.connection.det
    if bundle.sorted_frames is None or (det > 0).all():
        return np.ones(bundle.num_points)
    signs = cover_signs(bundle.sorted_graph, det)
    if signs is None:
        if not orientability(bundle)[0]:
            raise NotOrientableError(
                "the tangent planes cannot be oriented alike: the space is not orientable, like a Klein bottle. Curl "
                "and rot need an orientation; gradient, divergence and jacobian do not."
            )
        signs = tree_signs(confident_edges(bundle, facing=0.0))
    return signs * _outward(bundle, signs)


def _outward(bundle: TangentBundle, signs: np.ndarray) -> np.ndarray:
    """A sign for each point, the same in a component: the one that makes normals point outwards."""
    labels, frames = bundle.sorted_graph.components(), bundle.sorted_frames
    assert frames is not None
    if frames.shape[1:] == (3, 2):
        normals = signs[:, None] * np.cross(frames[:, :, 0], frames[:, :, 1])
        counts = np.bincount(labels)[:, None]
        centre = np.stack([np.bincount(labels, axis) for axis in bundle.sorted_points.T], axis=1) / counts
        flux = np.einsum("na,na->n", bundle.sorted_points - centre[labels], normals)
        total = np.bincount(labels, flux)
    else:
        first = np.full(labels.max() + 1, bundle.num_points)
        np.minimum.at(first, labels, bundle.order)
        total = signs[np.argsort(bundle.order)[first]]
    return np.where(total < 0, -1.0, 1.0)[labels]
