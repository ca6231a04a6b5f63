"""Theorem 1 for a network: a lowpass two-layer TNN on samples of a sphere and a torus, against its
exact limit.

Fields that do not change under rotation about the axis stay so in every layer (filters and
``NormTanh`` commute with isometries). On a surface of revolution, with arc length s along the
meridian and radius r(s), such a field is ``u(s) e_s + v(s) e_phi``, and the connection Laplacian
acts on u and on v alike:

    Delta u = (r u')' / r - (r' / r)^2 u.

The limit is therefore computed in one dimension, with spectral accuracy: Legendre functions on the
sphere, Fourier series on the torus.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from scipy.special import lpmv

import tangentbundle as tb
from harness.records import Row

SIZES = (200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
SEEDS = {200: 8, 500: 8, 1_000: 6, 2_000: 6}
FEWEST_SEEDS = 3
"""Samples of each size: those listed, and fewer of the large ones."""

HIDDEN = 4
"""Channels between the two layers."""


class Meridian(ABC):
    """A surface of revolution, and symmetric fields on it as functions ``(nodes, 2)`` of its
    meridian."""

    manifold: tb.manifolds.Manifold
    unit: float
    """The time in which heat travels a typical length."""

    nodes: np.ndarray
    eigenvalues: np.ndarray
    basis: np.ndarray
    """Values ``(nodes, modes)`` of the eigenfunctions of u and of v."""

    dual: np.ndarray
    """Rows ``(modes, nodes)`` that turn values at the nodes into coefficients."""

    @abstractmethod
    def angles(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parameter on the meridian and angle about the axis, ``(n,)`` each."""

    @abstractmethod
    def evaluate(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Functions ``(nodes, ...)`` at other places ``(n,)``."""

    @abstractmethod
    def directions(self, place: np.ndarray, phi: np.ndarray) -> np.ndarray:
        """The unit vectors along the meridian ``(n, 3)``."""

    def field(self, values: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Ambient vectors ``(n, 3, c)`` at points of symmetric fields ``(nodes, 2, c)``."""
        place, phi = self.angles(points)
        along = self.directions(place, phi)
        around = np.stack([-np.sin(phi), np.cos(phi), np.zeros_like(phi)], axis=1)
        components = self.evaluate(values, place)
        return (
            along[:, :, None] * components[:, None, 0] + around[:, :, None] * components[:, None, 1]
        )

    def filtered(self, filter: tb.filters.Filter, values: np.ndarray) -> np.ndarray:
        """A filter of symmetric fields ``(nodes, 2, c)``."""
        coefficients = np.tensordot(self.dual, values, 1)
        response = filter.response(self.eigenvalues)
        return np.tensordot(self.basis, response[:, None, None] * coefficients, 1)


class SphereMeridian(Meridian):
    """The unit sphere: u and v are sums of the associated Legendre functions of order one."""

    def __init__(self, degrees: int = 80) -> None:
        self.manifold = tb.manifolds.Sphere(2)
        self.unit = 0.1
        self.nodes, weights = np.polynomial.legendre.leggauss(2 * degrees)
        self.degrees = np.arange(1, degrees + 1)
        self.eigenvalues = self.degrees * (self.degrees + 1.0) - 1.0
        self.basis = self._functions(self.nodes)
        self.dual = self.basis.T * weights

    def _functions(self, z: np.ndarray) -> np.ndarray:
        """Associated Legendre functions, orthonormal on [-1, 1], ``(n, degrees)``."""
        degree = self.degrees
        norms = np.sqrt((2 * degree + 1) / (2 * degree * (degree + 1.0)))
        return lpmv(1, degree[None, :], z[:, None]) * norms

    def angles(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return points[:, 2], np.arctan2(points[:, 1], points[:, 0])

    def evaluate(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        return np.tensordot(self._functions(places), np.tensordot(self.dual, values, 1), 1)

    def directions(self, place: np.ndarray, phi: np.ndarray) -> np.ndarray:
        sine = np.sqrt(1 - place**2)
        return np.stack([place * np.cos(phi), place * np.sin(phi), -sine], axis=1)

    def signal(self) -> np.ndarray:
        """A smooth field ``(nodes, 2, 1)`` of several frequencies."""
        sine = np.sqrt(1 - self.nodes**2)
        u = sine * (1 + 1.5 * self.nodes)
        v = sine * (0.8 - 2.0 * self.nodes**2)
        return np.stack([u, v], axis=1)[:, :, None]


class TorusMeridian(Meridian):
    """The torus of the paper's experiments: eigenfunctions of the tube by Fourier
    differentiation."""

    def __init__(self, count: int = 128) -> None:
        self.manifold = tb.manifolds.Torus()
        radius, tube = self.manifold.R, self.manifold.r
        self.unit = 0.1 * tube**2
        self.nodes = 2 * np.pi * np.arange(count) / count
        self.frequencies = np.fft.fftfreq(count, 1 / count)
        distance = radius + tube * np.cos(self.nodes)
        bend = -np.sin(self.nodes) / distance
        spectrum = np.fft.fft(np.eye(count), axis=0)
        derivative = np.fft.ifft(1j * self.frequencies[:, None] * spectrum, axis=0).real / tube
        energy = derivative.T @ (distance[:, None] * derivative) + np.diag(distance * bend**2)
        root = np.sqrt(distance)
        self.eigenvalues, vectors = np.linalg.eigh(energy / root[:, None] / root[None, :])
        self.basis = vectors / root[:, None]
        self.dual = vectors.T * root[None, :]

    def angles(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.manifold.angles(points)

    def evaluate(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        coefficients = np.fft.fft(values, axis=0) / len(values)
        waves = np.exp(1j * places[:, None] * self.frequencies[None, :])
        return np.tensordot(waves, coefficients, 1).real

    def directions(self, place: np.ndarray, phi: np.ndarray) -> np.ndarray:
        return np.stack(
            [-np.sin(place) * np.cos(phi), -np.sin(place) * np.sin(phi), np.cos(place)], axis=1
        )

    def signal(self) -> np.ndarray:
        """A smooth field ``(nodes, 2, 1)`` of several frequencies."""
        u = 0.8 * np.sin(self.nodes) + 0.6 * np.cos(2 * self.nodes)
        v = 1 + 0.5 * np.cos(self.nodes) - 0.5 * np.sin(3 * self.nodes)
        return np.stack([u, v], axis=1)[:, :, None]


def network(filters: list[tb.filters.Filter], seed: int) -> tb.nn.TNN:
    """Two layers with random weights, scaled so that no filter amplifies (assumption A1)."""
    activation = tb.nn.NormTanh()
    net = tb.nn.TNN(
        [1, HIDDEN, 1], filters=filters, activation=activation, output=activation, seed=seed
    ).double()
    with torch.no_grad():
        for layer in net.layers:
            weight = layer.conv.weight  # (filters, in, out)
            weight /= weight.abs().sum(dim=0, keepdim=True)
    return net


def shortened(values: np.ndarray) -> np.ndarray:
    """``NormTanh`` of fields ``(..., components, c)``."""
    length = np.maximum(np.linalg.norm(values, axis=-2, keepdims=True), 1e-300)
    return values * np.tanh(length) / length


def limit(
    net: tb.nn.TNN, filters: list[tb.filters.Filter], meridian: Meridian, points: np.ndarray
) -> np.ndarray:
    """The output of the network on the surface itself, as ambient vectors ``(n, 3, 1)`` at
    points."""
    weights = [layer.conv.weight.detach().numpy() for layer in net.layers]
    values = meridian.signal()
    for depth, weight in enumerate(weights):
        mixed = sum(
            meridian.filtered(f, values @ matrix) for f, matrix in zip(filters, weight, strict=True)
        )
        if depth < len(weights) - 1:
            values = shortened(mixed)
    return shortened(meridian.field(mixed, points))


def difference(meridian: Meridian, filters: list[tb.filters.Filter], n: int, seed: int) -> float:
    """Distance of the sampled network to the samples of its limit, relative to the latter's
    norm."""
    points = meridian.manifold.sample(n, seed=seed)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    net = network(filters, seed)
    x = torch.from_numpy(bundle.to_coordinates(meridian.field(meridian.signal(), points)))
    expected = bundle.to_coordinates(limit(net, filters, meridian, points))
    with torch.no_grad():
        output = net(x, bundle.laplacian()).numpy()
    return float(np.linalg.norm(output - expected) / np.linalg.norm(expected))


def banks(unit: float) -> dict[str, list[tb.filters.Filter]]:
    """Filters of the layers: two lowpass ones, and the paper's taps, of which the identity is not
    lowpass."""
    return {
        "lowpass": [tb.Heat(unit), tb.Heat(4 * unit)],
        "identity and heat": [tb.Heat(0.0), tb.Heat(unit)],
    }


def run() -> list[Row]:
    """One row for each surface, bank and size: mean difference, its spread, and the slope of its
    logarithm."""
    rows = []
    for name, meridian in {"sphere": SphereMeridian(), "torus": TorusMeridian()}.items():
        for bank, filters in banks(meridian.unit).items():
            group = []
            for n in SIZES:
                errors = [
                    difference(meridian, filters, n, seed)
                    for seed in range(SEEDS.get(n, FEWEST_SEEDS))
                ]
                row = {
                    "surface": name,
                    "filters": bank,
                    "n": n,
                    "difference": float(np.mean(errors)),
                }
                group.append(row | {"std": float(np.std(errors)), "seeds": len(errors)})
            means = [row["difference"] for row in group]
            slope = float(np.polyfit(np.log(SIZES), np.log(means), 1)[0])
            rows += [row | {"slope": slope} for row in group]
    return rows
