"""An order of points that follows from their coordinates, so that answers do not depend on that in
which they came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class RowOrder:
    """Rows sorted by their first column, those that agree in it by the second, and so on.

    On a regular grid many neighbours are equally far. Which of them counts as the nearest, and on
    which side of a half a point lies, would otherwise depend on the order of rows.

    >>> order = RowOrder.of(np.array([[2.0, 0.0], [1.0, 5.0], [1.0, 3.0]]))
    >>> order.sorted(np.array([10, 20, 30])).tolist()
    [30, 20, 10]
    >>> order.restored(np.array([30, 20, 10])).tolist()
    [10, 20, 30]
    """

    index: np.ndarray  # (n,), the number of each sorted row among the rows as they came

    @classmethod
    def of(cls, *columns: np.ndarray) -> RowOrder:
        """From arrays ``(n, k)``; rows that agree in the first array are sorted by the next."""
        first_column = columns[0][:, 0]
        by_first_column = np.argsort(first_column)
        if (np.diff(first_column[by_first_column]) > 0).all():
            return cls(by_first_column)
        keys = np.concatenate(columns, axis=1)
        return cls(np.lexsort(keys.T[::-1]))

    def sorted(self, values: np.ndarray, axis: int = 0) -> np.ndarray:
        """Values of the rows as they came, in the sorted order."""
        return np.take(values, self.index, axis=axis)

    def restored(self, values: np.ndarray, axis: int = 0) -> np.ndarray:
        """Values of sorted rows, as the rows came."""
        return np.take(values, np.argsort(self.index), axis=axis)
