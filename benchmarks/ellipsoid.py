"""Converged eigenvalues of an ellipsoid in space: polynomials and exact geometry, without a point
cloud."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import legendre
from scipy.linalg import eigh


def quadrature(
    axes: np.ndarray, nodes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points, weights, unit normals and shape operators ``(m, 3, 3)`` (derivatives of the normal)
    of the ellipsoid."""
    z, wz = legendre.leggauss(nodes)
    phi = 2 * np.pi * np.arange(2 * nodes) / (2 * nodes)
    z, phi = (a.ravel() for a in np.meshgrid(z, phi, indexing="ij"))
    unit = np.stack([np.sqrt(1 - z**2) * np.cos(phi), np.sqrt(1 - z**2) * np.sin(phi), z], axis=1)
    points, slope = unit * axes, unit / axes
    size = np.linalg.norm(slope, axis=1)
    weights = np.repeat(wz, 2 * nodes) * (np.pi / nodes) * np.prod(axes) * size
    normals = slope / size[:, None]
    tangent = np.eye(3) - normals[:, :, None] * normals[:, None, :]
    shape = tangent @ (np.diag(axes**-2.0) / size[:, None, None]) @ tangent
    return points, weights, normals, shape


def polynomials(points: np.ndarray, axes: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """A basis of the polynomials on the ellipsoid: values ``(m, b)`` and ambient gradients
    ``(m, b, 3)``."""
    u, unit = points / axes, np.eye(degree + 1)
    tables = [legendre.legvander(u[:, k], degree) for k in range(3)]
    slopes = [
        np.stack([legendre.legval(u[:, k], legendre.legder(row)) for row in unit], axis=1)
        for k in range(3)
    ]
    powers = [  # z^2 is a polynomial of x and y on the ellipsoid
        (i, j, k)
        for i in range(degree + 1)
        for j in range(degree + 1 - i)
        for k in range(min(2, degree + 1 - i - j))
    ]

    def products(factors: list[np.ndarray]) -> np.ndarray:
        return np.stack(
            [np.prod([f[:, e] for f, e in zip(factors, p, strict=True)], axis=0) for p in powers],
            axis=1,
        )

    gradients = [
        products([slopes[k] if k == axis else tables[k] for k in range(3)]) / axes[axis]
        for axis in range(3)
    ]
    return products(tables), np.stack(gradients, axis=2)


def lowest(stiffness: np.ndarray, mass: np.ndarray, k: int) -> np.ndarray:
    """Generalised eigenvalues on the part of the basis that is not dependent."""
    sizes, turn = eigh(mass)
    keep = sizes > 1e-11 * sizes[-1]
    basis = turn[:, keep] / np.sqrt(sizes[keep])
    return eigh(basis.T @ stiffness @ basis, eigvals_only=True)[:k]


def spectra(
    axes: tuple[float, float, float], k: int, degree: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    r"""The ``k`` lowest eigenvalues of minus the Laplacian, of functions and of fields (Galerkin's
    method).

    A field is :math:`F = T W` with the projection T onto the tangent plane and W an ambient
    polynomial; its covariant derivative is
    :math:`\nabla_v F = T\, \partial_v W - (n \cdot W)\, \partial_v n`.
    """
    size = np.array(axes)
    points, weights, normals, shape = quadrature(size, 3 * degree)
    values, gradients = polynomials(points, size, degree)
    tangent = np.eye(3) - normals[:, :, None] * normals[:, None, :]
    along = np.einsum("mij,mbj->mbi", tangent, gradients)
    functions = lowest(
        np.einsum("m,mbi,mci->bc", weights, along, along, optimize=True),
        (values * weights[:, None]).T @ values,
        k,
    )
    # derivatives (i, v) of the field T e_a q_b: T_ia (T grad q_b)_v - n_a q_b S_iv
    count = values.shape[1]
    mass, stiffness = np.zeros((3 * count, 3 * count)), np.zeros((3 * count, 3 * count))
    for rows in np.array_split(np.arange(len(points)), max(1, len(points) // 200)):
        t, n, s, w = tangent[rows], normals[rows], shape[rows], np.sqrt(weights[rows])
        fields = np.einsum("m,mia,mb->miab", w, t, values[rows]).reshape(-1, 3 * count)
        slopes = np.einsum("m,mia,mbv->mivab", w, t, along[rows]) - np.einsum(
            "m,ma,mb,miv->mivab", w, n, values[rows], s
        )
        slopes = slopes.reshape(-1, 3 * count)
        mass += fields.T @ fields
        stiffness += slopes.T @ slopes
    return functions, lowest(stiffness, mass, k)
