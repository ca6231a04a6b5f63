"""Networks that are truly another thing: a three-dimensional CNN on an occupancy grid."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..arrays import Array, points_array, whole
from ..errors import ShapeError, TooFewPointsError
from .base import Configured, generator, part, seeded, widths


def occupancy(clouds: Sequence[Array], resolution: int = 6) -> torch.Tensor:
    """Which cells of a cube hold points: clouds ``(n, 3)`` to ``(clouds, 1, r, r, r)`` of zeros and ones.

    Each cloud is laid into the unit cube by its own bounding cube.

    >>> import numpy as np
    >>> occupancy([np.array([[0.0, 0, 0], [1, 1, 1]])], resolution=2).flatten().tolist()
    [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """
    grids = torch.zeros(len(clouds), 1, *(3 * [whole(resolution, "resolution")]))
    for grid, cloud in zip(grids, clouds, strict=True):
        points, _ = points_array(cloud)
        if points.shape[1] != 3:
            raise ShapeError(f"an occupancy grid needs points in three dimensions, got {points.shape[1]}.")
        if len(points) == 0:
            raise TooFewPointsError("an occupancy grid needs clouds with points, and one is empty.")
        low, high = points.min(0), points.max(0)
        unit = (points - low) / max((high - low).max(), 1e-300)
        cells = torch.from_numpy((unit * resolution).astype(int)).clamp_max(resolution - 1)
        grid[0, cells[:, 0], cells[:, 1], cells[:, 2]] = 1.0
    return grids


class VoxelCNN(Configured):
    """A small 3D-CNN: two convolutions, a mean over the grid, and a linear classifier.

    >>> net = VoxelCNN(classes=2, channels=(4, 4))
    >>> net(torch.zeros(5, 1, 6, 6, 6)).shape, net.num_parameters
    (torch.Size([5, 2]), 558)
    """

    def __init__(
        self,
        classes: int = 2,
        channels: tuple[int, int] = (4, 4),
        *,
        linear: bool = False,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        source = generator(seed)
        self.linear = part(linear, False, bool, "linear=True")
        wide, high = widths(channels, least=2)
        self.first = seeded(torch.nn.Conv3d, 1, wide, 3, padding=1, source=source)
        self.second = seeded(torch.nn.Conv3d, wide, high, 3, padding=1, source=source)
        self.classify = seeded(torch.nn.Linear, high, whole(classes, "classes"), source=source)

    def forward(self, grids: torch.Tensor) -> torch.Tensor:
        bend = torch.nn.Identity() if self.linear else torch.tanh
        x = bend(self.second(bend(self.first(grids))))
        return self.classify(x.mean(dim=(-3, -2, -1)))
