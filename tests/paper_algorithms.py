"""The paper's algorithms in plain NumPy, one point and one edge after the other: what the library
is tested against."""

import numpy as np


def biweight(u):
    """The kernel K of local PCA: twice differentiable, decreasing, supported on [0, 1]."""
    return np.where(u <= 1, (1 - u**2) ** 2, 0.0)


def displacements(points, i, eps_pca, kernel=biweight):
    """Algorithm 1: the matrix B_i = X_i C_i ``(D, neighbours)`` of weighted displacements from
    point i."""
    far = np.linalg.norm(points - points[i], axis=1)
    near = np.flatnonzero((far > 0) & (far <= np.sqrt(eps_pca)))
    return (points[near] - points[i]).T * np.sqrt(kernel(far[near] / np.sqrt(eps_pca)))


def local_dimension(points, i, eps_pca, gamma):
    """The least number of singular values of B_i that sum to the share gamma of all."""
    singular = np.linalg.svd(displacements(points, i, eps_pca), compute_uv=False)
    shares = np.cumsum(singular) / singular.sum()
    return 1 + int(np.argmax(shares >= gamma - 1e-9))


def frames(points, eps_pca, d):
    """Algorithm 1: the first d left singular vectors of every B_i, ``(n, D, d)``."""
    return np.stack(
        [np.linalg.svd(displacements(points, i, eps_pca))[0][:, :d] for i in range(len(points))]
    )


def sheaf_laplacian(points, bases, eps):
    """Algorithm 2 with a decreasing kernel, no self-loops, and the degrees of both ends in S."""
    n, _, d = bases.shape
    far = np.linalg.norm(points[:, None] - points, axis=2)
    w = np.where((far**2 <= eps) & ~np.eye(n, dtype=bool), np.exp(-(far**2) / eps), 0.0)
    degree = w.sum(axis=1)
    normalised = (w / degree / degree[:, None]).sum(axis=1)
    laplacian = -np.eye(n * d)
    for i, j in np.argwhere(w):
        left, _, right = np.linalg.svd(bases[i].T @ bases[j])
        block = w[i, j] / (degree[i] * degree[j] * normalised[i]) * (left @ right)
        laplacian[i * d : (i + 1) * d, j * d : (j + 1) * d] = block
    return laplacian / eps
