"""Charts of spectra, and of the skill of forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .style import LINES, axes_or_new, with_unit


def multiplicities(values: np.ndarray, errors: np.ndarray | float = 0.0) -> list[int]:
    """Sizes of groups of eigenvalues ``(k,)``, ascending, that agree within their standard
    ``errors`` ``(k,)``.

    The error bars of neighbours in a group overlap. A group of m that is wider than errors spread m
    equal numbers, about :math:`2 \\sqrt m` errors, is split into single eigenvalues. Numbers that
    agree to six digits always form a group. The last group may be incomplete.

    >>> multiplicities(np.array([0.0, 0.98, 0.99, 1.01, 4.9, 5.2]), 0.1)
    [1, 3, 1, 1]
    >>> multiplicities(np.array([1.0, 1.0, 1.1, 1.2]))
    [2, 1, 1]
    """
    values = np.asarray(values, dtype=float)
    bars = np.maximum(np.broadcast_to(errors, values.shape), 1e-6 * np.abs(values).max(initial=0.0))
    if not len(values):
        return []
    rises = np.diff(values) > bars[1:] + bars[:-1]
    sizes: list[int] = []
    for group in np.split(np.arange(len(values)), np.flatnonzero(rises) + 1):
        spread = np.ptp(values[group])
        if spread > 2 * np.sqrt(len(group)) * bars[group].max():
            sizes += [1] * len(group)
        else:
            sizes.append(len(group))
    return sizes


def spectrum(values: np.ndarray, errors: np.ndarray | None = None, *, axes: Any = None) -> Any:
    """Eigenvalues of minus the Laplacian, with a bracket over those that agree within their errors;
    returns axes.

    ``errors`` ``(k,)`` are standard errors, such as those of ``diagnostics.sampling_errors``;
    without them only eigenvalues that agree to six digits get a bracket.

    >>> import tangentbundle as tb
    >>> from tangentbundle.diagnostics import sampling_errors
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(1000, seed=0), dim=2)
    >>> values, fields = bundle.laplacian().spectrum(16)
    >>> axes = tb.plot.spectrum(values, sampling_errors(bundle, fields))
    >>> [text.get_text() for text in axes.texts]
    ['6×', '10×']
    """
    axes = axes_or_new(axes, (7, 4))
    values = np.asarray(values, dtype=float)
    bars = np.zeros(len(values)) if errors is None else np.asarray(errors, dtype=float)
    rise = 0.03 * values.max(initial=1e-9)
    start = 0
    for number, size in enumerate(multiplicities(values, bars)):
        group = np.arange(start, start + size)
        color = LINES[(0, 4)[number % 2]]
        axes.vlines(group + 1, 0, values[group], color=color, lw=1.2, alpha=0.3)
        shown_bars = None if errors is None else bars[group]
        axes.errorbar(group + 1, values[group], shown_bars, fmt="o", ms=4, color=color)
        if size > 1:
            top = (values[group] + bars[group]).max() + rise
            _add_bracket(axes, group, top, rise, color)
        start += size
    axes.set(
        xlabel="number",
        ylabel="eigenvalue of $-\\Delta$",
        ylim=(0, 1.22 * values.max(initial=1e-9)),
    )
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", alpha=0.25)
    return axes


def _add_bracket(axes: Any, group: np.ndarray, top: float, rise: float, color: str) -> None:
    """A bracket over a group of eigenvalues, with their number."""
    left = group[0] + 0.8
    right = group[-1] + 1.2
    axes.plot([left, left, right, right], [top, top + rise, top + rise, top], color=color, lw=1)
    axes.annotate(
        f"{len(group)}×",
        (group.mean() + 1, top + rise),
        (0, 2),
        textcoords="offset points",
        ha="center",
    )


def skill(rows: Sequence[Mapping[str, float]], unit: str, *, axes: Any = None) -> Any:
    """Errors of a forecast at held-out times against the lead time, beside those of persistence and
    climatology; returns axes.

    ``rows`` have the keys ``lead``, ``error``, ``persistence`` and ``climatology``.
    """
    axes = axes_or_new(axes, (7, 4))
    names = {"this forecast": "error", "persistence": "persistence", "climatology": "climatology"}
    leads = [row["lead"] for row in rows]
    for color, (name, key) in zip(LINES, names.items(), strict=False):
        errors = [row[key] for row in rows]
        axes.plot(leads, errors, label=name, color=color, marker="o", ms=3)
    axes.set(xlabel="steps ahead", ylim=(0, None))
    axes.set_ylabel(with_unit("root mean square error", unit), parse_math=False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return axes
