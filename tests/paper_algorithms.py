"""The paper's algorithms in plain NumPy, one point and one edge after the other: what the library is tested against."""

import numpy as np


def biweight(u):
    """The kernel K of local PCA: twice differentiable, decreasing, supported on [0, 1]."""
    return np.where(u <= 1, (1 - u**2) ** 2, 0.0)


def displacements(points, i, eps_pca, kernel=biweight):
    """Algorithm 1: the matrix B_i = X_i C_i ``(D, neighbours)`` of weighted displacements from point i."""
    far = np.linalg.norm(points - points[i], axis=1)
    near = np.flatnonzero((far > 0) & (far <= np.sqrt(eps_pca)))
    return (points[near] - points[i]).T * np.sqrt(kernel(far[near] / np.sqrt(eps_pca)))


def local_dimension(points, i, eps_pca, gamma):
    """The least number of singular values of B_i that sum to the share gamma of all."""
    singular = np.linalg.svd(displacements(points, i, eps_pca), compute_uv=False)
    shares = np.cumsum(singular) / singular.sum()
    return 1 + int(np.argmax(shares >= gamma - 1e-9))
