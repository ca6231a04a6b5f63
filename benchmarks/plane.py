"""Helmholtz-type fields in the plane: the default interpolator against a process of their own kind.

A random field without divergence plus one without curl, with squared exponential potentials of
random amplitudes and lengths, is measured with noise. ``own process`` is a hand-written Gaussian
process with exactly this covariance, whose five parameters maximise its likelihood; ``true
parameters`` is the same process with the parameters of the draw. All errors are relative to the
energy of the field at other points.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

import tangentbundle as tb
from experiments.general import shares_inside
from harness.records import Row

SIZES = (10, 20, 40, 100)
NOISES = (0.1, 0.3)
DRAWS = 8

OTHERS = 200
"""Points at which errors are measured."""

JITTER = 1e-9

STARTS = (-0.7, 0.0)
"""Logarithms of lengths from which the likelihood is maximised."""

BOUNDS = [(-4.0, 3.0)] * 4 + [(-6.0, 1.0)]
"""Of the logarithms of amplitude and length, twice, and of the noise."""


def curl_free(x: np.ndarray, y: np.ndarray, amplitude: float, length: float) -> np.ndarray:
    """Blocks ``(n, m, 2, 2)``."""
    steps = x[:, None] - y[None]
    squares = np.square(steps).sum(axis=-1)
    kernel = np.exp(-squares / (2 * length**2))[..., None, None]
    outer = steps[..., :, None] * steps[..., None, :] / length**2
    return amplitude**2 * kernel * (np.eye(2) - outer)


def covariance(x: np.ndarray, y: np.ndarray, logarithms: np.ndarray) -> np.ndarray:
    """``(2 n, 2 m)`` of fields without curl plus fields without divergence."""
    values = np.exp(logarithms)
    gradients = curl_free(x, y, values[0], values[1])
    turned = curl_free(x, y, values[2], values[3])
    traces = np.trace(turned, axis1=-2, axis2=-1)[..., None, None]
    blocks = gradients + traces * np.eye(2) - turned
    return blocks.transpose(0, 2, 1, 3).reshape(2 * len(x), 2 * len(y))


def predict(
    x: np.ndarray, values: np.ndarray, places: np.ndarray, logarithms: np.ndarray
) -> np.ndarray:
    """The posterior mean ``(m, 2)``; the last logarithm is that of the noise."""
    matrix = covariance(x, x, logarithms) + np.exp(2 * logarithms[4]) * np.eye(values.size)
    weights = np.linalg.solve(matrix, values.ravel())
    return (covariance(places, x, logarithms) @ weights).reshape(-1, 2)


def fitted(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The logarithms of the greatest likelihood."""

    def loss(logarithms: np.ndarray) -> float:
        noise = np.exp(2 * logarithms[4]) + JITTER
        try:
            factors = cho_factor(
                covariance(x, x, logarithms) + noise * np.eye(values.size), lower=True
            )
        except np.linalg.LinAlgError:
            return 1e10
        weights = cho_solve(factors, values.ravel())
        return 0.5 * values.ravel() @ weights + np.log(np.diag(factors[0])).sum()

    results = []
    for length in STARTS:
        start = np.array([-0.3, length, -0.3, length, -2.0])
        results.append(minimize(loss, start, method="L-BFGS-B", bounds=BOUNDS))
    return min(results, key=lambda result: result.fun).x


def draw(n: int, noise: float, seed: int) -> dict[str, float]:
    """Relative errors of one draw, and shares of the field inside intervals."""
    rng = np.random.default_rng([seed, n, int(100 * noise)])
    points = rng.uniform(-1, 1, (n + OTHERS, 2))
    amplitudes = rng.uniform(0.3, 1.0, 2)
    lengths = rng.uniform(0.4, 0.9, 2)
    truth = np.log([amplitudes[0], lengths[0], amplitudes[1], lengths[1]])
    matrix = covariance(points, points, truth) + JITTER * np.eye(2 * len(points))
    field = (np.linalg.cholesky(matrix) @ rng.standard_normal(2 * len(points))).reshape(-1, 2)
    std = noise * np.sqrt(np.square(field).mean())
    x = points[:n]
    places = points[n:]
    values = field[:n] + std * rng.standard_normal((n, 2))
    scale = np.sqrt(np.square(values).mean())
    model = tb.FieldInterpolator(dim=2).fit(x, values)
    answer, own_std = model.predict(places, return_std=True)
    answers = {
        "FieldInterpolator": answer,
        "own process": scale * predict(x, values / scale, places, fitted(x, values / scale)),
        "true parameters": predict(x, values, places, np.append(truth, np.log(std))),
    }
    energy = np.square(field[n:]).mean()
    scores = {
        name: float(np.square(answer - field[n:]).mean() / energy)
        for name, answer in answers.items()
    }
    inside = shares_inside(answer - field[n:], own_std)
    return scores | {f"inside {level} %": share for level, share in inside.items()}


def run(draws: int = DRAWS) -> list[Row]:
    """One row for each size and noise: means over all draws."""
    rows: list[Row] = []
    for n in SIZES:
        for noise in NOISES:
            scores = [draw(n, noise, seed) for seed in range(draws)]
            means = {name: float(np.mean([score[name] for score in scores])) for name in scores[0]}
            ratio = means["FieldInterpolator"] / means["own process"]
            rows.append({"n": n, "noise": noise, **means, "ratio": ratio, "draws": draws})
    return rows
