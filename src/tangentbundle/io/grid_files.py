"""What a field on a grid keeps of its file, so that its result can be written in the same form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .field import Field

if TYPE_CHECKING:
    from ..earth import Grid

TURNED = 1e-6
"""Where axes of a cell differ by more from east and north, they are turned."""


@dataclass(frozen=True, eq=False)
class GridFile:
    """A field's dataset, its grid, the numbers ``(n,)`` of its points on the grid, and the
    dimension of its times."""

    ds: Any
    grid: Grid
    points: np.ndarray
    dimension: str | None = None

    def cells(self, field: Field) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Components and standard deviations in every cell's own axes, NaN where the field has no
        point.

        Poles are one point in many frames; where a cell's axes are turned, both components have the
        same deviation.
        """
        values = std = None
        if field.values is not None:
            is_vector = len(field.names) > 1
            to_cells = self.grid.to_components if is_vector else self.grid.to_cells
            values = to_cells(self._on_grid(field.values))
        if field.std is not None:
            std = self.grid.to_cells(self._on_grid(field.std))
            turned = (np.abs(self.grid.turns - 1) > TURNED).reshape(*self.grid.shape, 1)
            mean = np.sqrt(np.mean(std**2, axis=-1, keepdims=True))
            std = np.where(turned, mean, std)
        return values, std

    def _on_grid(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers ``(T, n, c)`` at all points of the grid, NaN where the field has none."""
        every = np.full((len(numbers), len(self.grid), numbers.shape[-1]), np.nan)
        every[:, self.points] = numbers
        return every
