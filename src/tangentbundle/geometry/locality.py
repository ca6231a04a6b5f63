"""What is said of neighbourhoods that are not local, and of graphs in pieces."""

from __future__ import annotations

from ..errors import DisconnectedWarning, GlobalNeighborhoodWarning, warn
from .graph import NeighborGraph

GLOBAL_SHARE = 0.5
"""A median neighbourhood with more than this share of the cloud is no longer local."""

MIN_POINTS_OF_LOCALITY = 20
"""In clouds of so many points and fewer all neighbourhoods are large."""


def warn_of_scale(graph: NeighborGraph) -> None:
    """Warn of several components and of neighbourhoods that are not local."""
    components = graph.num_components
    if components > 1:
        warn(
            f"the neighbour graph has {components} components; nothing flows between them. If the "
            "manifold is connected, use a larger eps.",
            DisconnectedWarning,
        )
    share = float(graph.degrees.median()) / (graph.num_points - 1)
    if share > GLOBAL_SHARE and graph.num_points > MIN_POINTS_OF_LOCALITY:
        warn(
            f"the median neighbourhood holds {share:.0%} of the cloud, so the Laplacian is not "
            "local. Use a smaller eps (mind the units of the coordinates).",
            GlobalNeighborhoodWarning,
        )
