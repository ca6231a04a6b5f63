r"""Poisson problems :math:`L f = s` for functions on points, where L has a kernel.

A Laplacian of functions vanishes on functions that are constant on each connected component, so
that a solution is determined up to a constant on each. ``Components`` removes these constants.
``DirectPoisson`` solves for symmetric matrices, which are factorised once.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu
from torch import Tensor


class Components:
    """The connected components of n points, and the means of functions over them.

    Args:
        labels: ``(n,)`` the number of each point's component, from 0 on.
        mass: ``(n,)`` the weights of means, such as areas.

    >>> components = Components(torch.tensor([0, 0, 1]), torch.tensor([1.0, 3.0, 2.0]))
    >>> components.remove_means(torch.tensor([[4.0], [0.0], [5.0]])).flatten().tolist()
    [3.0, -1.0, 0.0]
    """

    def __init__(self, labels: Tensor, mass: Tensor) -> None:
        self.labels = labels
        self.mass = mass
        self.totals = mass.new_zeros(int(labels.max()) + 1).index_add_(0, labels, mass)

    def remove_means(self, x: Tensor) -> Tensor:
        """Functions ``(n, c)`` less their mean over each component."""
        sums = x.new_zeros((len(self.totals), x.shape[1]))
        sums.index_add_(0, self.labels, self.mass[:, None] * x)
        means = sums / self.totals[:, None]
        return x - means[self.labels]

    def first_points(self) -> np.ndarray:
        """The number of the first point of each component."""
        return np.unique(self.labels.cpu().numpy(), return_index=True)[1]


class DirectPoisson:
    r"""Solves :math:`L f = s` by a sparse factorisation.

    L (n, n) is symmetric and not negative, and its kernel are the functions that are constant on
    each component. By default f has mean zero on each component; s must have the sum zero there.
    With ``zero_at`` (n,), a mask, f vanishes at these points instead.

    >>> path = sparse.csr_array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> components = Components(torch.zeros(3, dtype=torch.int64), torch.ones(3).double())
    >>> source = np.array([[1.0], [0.0], [-1.0]])
    >>> DirectPoisson(path, components).solve(source).round(9).ravel().tolist()
    [1.0, 0.0, -1.0]
    >>> at_end = np.array([False, False, True])
    >>> DirectPoisson(path, components, zero_at=at_end).solve(source).round(9).ravel().tolist()
    [2.0, 1.0, 0.0]
    """

    def __init__(
        self, matrix: sparse.sparray, components: Components, zero_at: np.ndarray | None = None
    ) -> None:
        self.components = components
        self.has_kernel = zero_at is None
        if zero_at is None:
            # one value of each component is free, and the constants are removed afterwards
            self.unknowns = np.delete(np.arange(matrix.shape[0]), components.first_points())
        else:
            self.unknowns = np.flatnonzero(~zero_at)
        self.factors = None
        if len(self.unknowns):
            columns = sparse.csc_array(matrix)
            self.factors = splu(
                columns[self.unknowns][:, self.unknowns],
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )

    @property
    def num_unknowns(self) -> int:
        """The number of values that are free: neither zero nor determined by means."""
        return len(self.unknowns)

    def solve(self, source: np.ndarray) -> np.ndarray:
        """Functions ``(n, c)`` for sources ``(n, c)``, in float64."""
        solution = np.zeros(source.shape)
        if self.factors is not None:
            solution[self.unknowns] = self.factors.solve(source[self.unknowns])
        if self.has_kernel:
            solution = self.components.remove_means(torch.from_numpy(solution)).numpy()
        return solution
