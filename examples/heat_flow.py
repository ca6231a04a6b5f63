"""Denoise a tangent field on a torus by heat flow: prints a table, writes ``out/heat_flow.png``.

Run it with ``python examples/heat_flow.py``. Nothing is learned: the bundle is estimated from bare points, and the heat
filter exp(t Delta) averages vectors after carrying them along the surface.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import tangentbundle as tb

TORUS = tb.manifolds.Torus(R=1.0, r=0.45)
TIMES = (0.003, 0.01, 0.02, 0.03, 0.05, 0.1)
NOISE = 0.7


@dataclass(frozen=True)
class Problem:
    """A cloud on the torus, its estimated bundle, a unit tangent field ``(n, 3)`` and noisy coordinates of it."""

    points: np.ndarray
    bundle: tb.TangentBundle
    field: np.ndarray
    noisy: np.ndarray

    @classmethod
    def make(cls, n: int = 4000, seed: int = 0) -> Problem:
        points = TORUS.sample(n, seed=seed)
        theta, phi = TORUS.angles(points)
        along, around = np.moveaxis(TORUS.frames(points), 2, 0)
        angle = (0.9 * np.cos(2 * phi) + 0.6 * np.sin(theta))[:, None]
        field = np.cos(angle) * along + np.sin(angle) * around
        bundle = tb.TangentBundle.from_points(points)
        clean = bundle.to_coordinates(field)
        noise = np.random.default_rng(seed).standard_normal(clean.shape)
        return cls(points, bundle, field, clean + NOISE * noise)

    def error(self, vectors: np.ndarray) -> float:
        """Relative error of ambient vectors ``(n, 3)``."""
        return float(np.linalg.norm(vectors - self.field) / np.linalg.norm(self.field))

    def heat(self, t: float) -> np.ndarray:
        """The noisy field after heat flow on the tangent bundle."""
        return self.bundle.to_ambient(tb.Heat(t)(self.bundle.laplacian(), self.noisy))

    def heat_by_component(self, t: float) -> np.ndarray:
        """The plain alternative: heat flow of x, y and z as three functions, then projection to the tangent planes."""
        scalar = self.bundle.scalar().laplacian()
        components = self.bundle.to_ambient(self.noisy)[:, None, :]
        flowed = tb.Heat(t)(scalar, components)[:, 0, :]
        return self.bundle.to_ambient(self.bundle.to_coordinates(flowed))


class View:
    """The torus seen from afar (orthographic): which points show, where they fall, and a shaded picture of it."""

    def __init__(self, elevation: float = 42.0, turn: float = 20.0):
        a, b = np.radians(elevation), np.radians(turn)
        right = np.array([-np.sin(b), np.cos(b), 0.0])
        toward = np.array([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)])
        self.axes = np.stack([right, np.cross(toward, right), toward])
        self.half = TORUS.R + TORUS.r + 0.08, TORUS.R * np.sin(a) + TORUS.r + 0.08

    @staticmethod
    def distance(x: np.ndarray) -> np.ndarray:
        """Signed distance of points ``(..., 3)`` from the torus."""
        return np.hypot(np.hypot(x[..., 0], x[..., 1]) - TORUS.R, x[..., 2]) - TORUS.r

    def visible(self, points: np.ndarray) -> np.ndarray:
        """Whether the viewer sees each point, and not at a grazing angle."""
        steps = np.linspace(0.04, 3.0, 300)[:, None, None] * self.axes[2]
        return (self.distance(points + steps) > 0.007).all(axis=0)

    def picture(self, width: int = 700) -> np.ndarray:
        """Grey levels, white where the torus is not."""
        w, h = self.half
        u, v = np.meshgrid(np.linspace(-w, w, width), np.linspace(h, -h, int(width * h / w)))
        x = u[..., None] * self.axes[0] + v[..., None] * self.axes[1] + 3.0 * self.axes[2]
        for _ in range(80):
            x = x - self.distance(x)[..., None] * self.axes[2]
        ring = x * [1, 1, 0]
        normal = x - TORUS.R * ring / np.linalg.norm(ring, axis=-1, keepdims=True)
        light = np.clip(normal @ (self.axes[2] + 0.5 * self.axes[1]) / TORUS.r / 1.12, 0, 1)
        return np.where(self.distance(x) < 0.01, 0.62 + 0.36 * light, 1.0)

    def draw(self, axis, points: np.ndarray, vectors: np.ndarray, errors: np.ndarray, most: float, scale: float = 0.11):
        """The torus with arrows coloured by their error."""
        w, h = self.half
        axis.imshow(self.picture(), extent=(-w, w, -h, h), cmap="gray", vmin=0, vmax=1, interpolation="bilinear")
        flat, arrows = points @ self.axes[:2].T, scale * vectors @ self.axes[:2].T
        style = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.0034, "headwidth": 3.6, "headlength": 4.2}
        drawn = axis.quiver(*flat.T, *arrows.T, errors, cmap="plasma", clim=(0, most), pivot="mid", **style)
        axis.set(xlim=(-w, w), ylim=(-h, h))
        axis.axis("off")
        return drawn


def figure(problem: Problem, panels: dict[str, np.ndarray], path: Path, shown: int = 900, dpi: int = 150) -> None:
    """The same points in every panel, a field ``(n, 3)`` each; colour is the distance from the clean vector."""
    view = View()
    rows = np.flatnonzero(view.visible(problem.points))[:shown]
    w, h = view.half
    fig, axes = plt.subplots(1, len(panels), figsize=(5.0 * len(panels), 5.0 * h / w + 0.5), layout="constrained")
    for axis, (title, vectors) in zip(axes, panels.items(), strict=True):
        errors = np.linalg.norm(vectors - problem.field, axis=1)
        drawn = view.draw(axis, problem.points[rows], vectors[rows], errors[rows], most=1.5)
        axis.set_title(title, fontsize=14)
    fig.colorbar(drawn, ax=axes, shrink=0.75, aspect=30, pad=0.01, label="distance from the true unit vector")
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=dpi)
    plt.close(fig)


def report(problem: Problem) -> dict[str, np.ndarray]:
    """Print the errors; return the fields to draw, by title."""
    noisy = problem.bundle.to_ambient(problem.noisy)
    flowed = {t: problem.heat(t) for t in TIMES}
    rows = [("noisy, unfiltered", noisy, noisy)]
    rows += [(f"heat, t = {t}", flowed[t], problem.heat_by_component(t)) for t in TIMES]
    print(f"{'relative error':>20s}  {'tangent bundle':>14s}  {'x, y, z apart':>14s}")
    for name, ours, apart in rows:
        print(f"{name:>20s}  {problem.error(ours):14.3f}  {problem.error(apart):14.3f}")
    best = min(TIMES, key=lambda t: problem.error(flowed[t]))
    print(f"The best of these times, {best}, is known only because the clean field is.")
    return {
        "clean": problem.field,
        f"noisy: error {problem.error(noisy):.2f}": noisy,
        f"heat flow, t = {best}: error {problem.error(flowed[best]):.2f}": flowed[best],
    }


def main() -> None:
    start = time.perf_counter()
    problem, path = Problem.make(), Path("out/heat_flow.png")
    print(f"{problem.bundle}\n")
    figure(problem, report(problem), path)
    print(f"Wrote {path} ({time.perf_counter() - start:.0f} s in all).")


if __name__ == "__main__":
    main()
