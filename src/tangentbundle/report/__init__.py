"""Reports for the browser: input, results and figures of a command in one HTML file that needs no
network."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..earth.maps import EqualAreaMap
from ..extras import extra
from ..files import check_html, replacing
from ..io import Field, Globe, Mesh, Summary
from ..plot.curves import spectrum
from ..plot.interactive import side_by_side
from ..plot.layers import MAX_ARROWS, MAX_DOTS, Layer
from ..plot.maps import quantity
from ..plot.style import ERRORS, LENGTHS, LINES, SIGNED, canvas, with_unit

__all__ = ["check_report", "write_report"]

CHART = (5.4, 2.7)
"""Size of a chart in inches: two fit side by side on a desktop, one on a phone."""

MAX_VALUES = 12
"""Largest number of values shown at the mouse pointer."""


def check_report(path: Path) -> None:
    """Raise if a report cannot be written, before any work is done."""
    for name in ("jinja2", "matplotlib.figure", "plotly.graph_objects"):
        extra(name, "Reports", "plot")
    check_html(path)


def write_report(summary: Summary, path: Path) -> None:
    """Write input, results and figures of a command to one self-contained HTML file, atomically."""
    check_report(path)
    jinja2 = extra("jinja2", "Reports", "plot")
    loader, undefined = jinja2.PackageLoader(__package__, ""), jinja2.StrictUndefined
    environment = jinja2.Environment(
        loader=loader, undefined=undefined, autoescape=True, trim_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    images = [
        path
        for path in map(Path, summary.files)
        if summary.table and path.suffix == ".png" and path.exists()
    ]
    content = environment.get_template("page.html").render(
        title=f"tangentbundle {summary.command}"
        + (f": {summary.source.name}" if summary.source else ""),
        summary=summary,
        sections=_sections(summary),
        pictures={path.stem: base64.b64encode(path.read_bytes()).decode() for path in images},
        library=extra("plotly.offline", "Reports", "plot").get_plotlyjs(),
        footer=(
            f"tangentbundle {version('tangentbundle')}, Python {platform.python_version()}, "
            f"{summary.seconds:.1f} s"
        ),
    )
    with replacing(path) as place:
        place.write_text(content, encoding="utf-8")


def _sections(summary: Summary) -> list[dict[str, Any]]:
    """Return the figures of a summary: fields, spectrum and forecast skill.

    A section has a title, a note, and either panels (plotly figures as JSON, side by side with
    linked views) or a chart (SVG in base64).
    """
    found = [] if summary.before is None else [_fields(summary, summary.before)]
    if summary.eigenvalues is not None:
        errors = "within their sampling errors (vertical bars)"
        note = (
            "Brackets: eigenvalues that agree "
            f"{'to six digits' if summary.eigenvalue_errors is None else errors}."
        )
        found.append(
            _chart(
                "Spectrum", note, partial(spectrum, summary.eigenvalues, summary.eigenvalue_errors)
            )
        )
    if summary.before is not None and (rows := summary.data.get("skill")):
        note = (
            "Errors at held-out times. A forecast has skill where its error is below that of "
            "the climatology."
        )
        found.append(_chart("Skill", note, partial(_skill, rows, summary.before.units)))
    return found


def _chart(title: str, note: str, draw: Callable[..., Any]) -> dict[str, Any]:
    figure, axes = canvas(size=CHART)
    draw(axes=axes[0, 0]).spines[["top", "right"]].set_visible(False)
    content = io.BytesIO()
    figure.savefig(content, format="svg", transparent=True)
    return {
        "title": title,
        "note": note,
        "panels": (),
        "chart": base64.b64encode(content.getvalue()).decode(),
    }


def _fields(summary: Summary, before: Field) -> dict[str, Any]:
    """Return the section of the fields, on a map or in space, with the input to the left of the
    result."""
    layers = _layers(summary, before)
    space, dims, most = (
        before.space,
        before.space.points.shape[1],
        max(len(layer.points) for layer in layers),
    )
    groups = [layers] if summary.after is None else [layers[:1], layers[1:]]
    if isinstance(space, Globe):
        globes = [space] if summary.after is None else [space, summary.after.space]
        chart = EqualAreaMap.fitting(*np.concatenate([globe.coordinates for globe in globes]).T)
        panels = side_by_side(groups, chart=chart)
        notes = ["Drag to zoom, double-click to reset. Hover anywhere to see the nearest values."]
        notes.append(
            "Equal-area projection; arrows follow its meridians. Coastlines: Natural Earth."
        )
    else:
        panels = side_by_side(
            groups, faces=space.faces if isinstance(space, Mesh) else None, up=space.up
        )
        drag = (
            "Drag to zoom, double-click to reset" if dims == 2 else "Drag to rotate, scroll to zoom"
        )
        notes = [f"{drag}, hover over a point to see its values."]
        if dims > 3:
            notes.append(f"The three principal axes of {dims} dimensions are shown.")
    if len(before) > 1 and summary.command != "forecast":
        when = "" if before.times is None else f" ({_date(before, 0)})"
        notes.append(f"The first of {len(before)} fields is shown{when}.")
    arrows = any(layer.vectors is not None for layer in layers)
    if most > MAX_DOTS:
        with_arrows = f", {MAX_ARROWS} of them with arrows" if arrows else ""
        notes.append(f"{MAX_DOTS} of {most} points are shown, evenly spread{with_arrows}.")
    elif most > MAX_ARROWS and arrows:
        notes.append(f"{MAX_ARROWS} of {most} points have arrows.")
    title = "Map" if isinstance(space, Globe) else "Field" if arrows else "Points"
    if summary.modes is not None and summary.eigenvalues is not None:
        title = "Eigenfields and their eigenvalues"
        if len(layers) < len(summary.eigenvalues):
            notes.append(
                f"The first {len(layers)} of {len(summary.eigenvalues)} eigenfields are shown."
            )
    return {
        "title": title,
        "note": " ".join(notes),
        "panels": [json.loads(p.to_json()) for p in panels],
        "chart": "",
    }


def _skill(rows: Sequence[Mapping[str, float]], unit: str, axes: Any) -> Any:
    """Plot forecast errors at held-out times against the lead time."""
    names = {"this forecast": "error", "persistence": "persistence", "climatology": "climatology"}
    for color, (name, key) in zip(LINES, names.items(), strict=False):
        axes.plot(
            [row["lead"] for row in rows],
            [row[key] for row in rows],
            label=name,
            color=color,
            marker="o",
            ms=3,
        )
    axes.set(xlabel="steps ahead", ylim=(0, None))
    axes.set_ylabel(with_unit("root mean square error", unit), parse_math=False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return axes


def _layers(summary: Summary, before: Field) -> list[Layer]:
    """Return the input field, then the results, the main one first."""
    after = summary.after
    if summary.modes is not None and summary.eigenvalues is not None:
        pairs, place = zip(summary.eigenvalues, summary.modes, strict=False), Field(before.space)
        return [
            _layer(f"{k}: {v:.4g}", place, "length", vectors=mode)
            for k, (v, mode) in enumerate(pairs, start=1)
        ]
    if after is None:
        return _field_layer(
            "points" if before.values is None else "field", before
        ).with_streamlines()
    if summary.command == "forecast":
        last = _field_layer(
            ", ".join(filter(None, ["last observed", _date(before, -1)])), before, -1
        )
        steps = [f"step {k + 1} of {len(after)}" for k in range(len(after))]
        names = [
            step if after.times is None else f"{_date(after, k)} ({step})"
            for k, step in enumerate(steps)
        ]
        return [last, *(_field_layer(name, after, k) for k, name in enumerate(names))]
    if after.parts:
        return [
            _field_layer("field", before),
            *(_part_layer(name, part, before) for name, part in after.parts.items()),
        ]
    same = after.space is before.space
    names = ["before", "after"] if same else ["observed", "predicted"]
    layers = [_field_layer(names[0], before), *_field_layer(names[1], after).with_streamlines()]
    if same:
        difference = _ambient(after) - _ambient(before)
        layers.append(_layer("difference", before, "length of the difference", vectors=difference))
    if after.std is not None:
        layers.append(
            _layer("uncertainty", after, "standard deviation", color=_deviation(after.std[0]))
        )
    return layers


def _date(field: Field, number: int) -> str:
    return (
        ""
        if field.times is None
        else str(field.times[number].astype("datetime64[m]")).replace("T", " ")
    )


def _layer(
    name: str, field: Field, label: str, values: dict[str, np.ndarray] | None = None, **colored: Any
) -> Layer:
    """Return vectors or numbers at the points of a field; the pointer shows coordinates, ``values``
    and lengths."""
    shown = [
        *zip(field.space.names, field.space.coordinates.T, strict=True),
        *(values or {}).items(),
    ][:MAX_VALUES]
    look = {"palette": LENGTHS if label == quantity(field) else ERRORS} | colored
    layer = Layer(
        name, np.asarray(field.space.points, float), label=label, unit=field.units, **look
    )
    return dataclasses.replace(
        layer, values=dict(shown) | ({label: layer.numbers} if colored else {})
    )


def _field_layer(name: str, field: Field, number: int = 0) -> Layer:
    if field.values is None:
        return _layer(name, field, quantity(field))
    values = dict(zip(field.names, field.values[number].T, strict=True))
    if field.std is not None:
        values["standard deviation"] = _deviation(field.std[number])
    return _layer(name, field, quantity(field), values, vectors=_ambient(field, number))


def _part_layer(name: str, part: Field, field: Field) -> Layer:
    """Return arrows with the scale of the complete field, or signed numbers."""
    if len(part.names) > 1:
        return _layer(name, field, quantity(field), vectors=_ambient(part))
    return _layer(name, part, name, color=np.asarray(part.values, float)[0, :, 0], palette=SIGNED)


def _ambient(field: Field, number: int = 0) -> np.ndarray:
    assert field.values is not None
    return np.asarray(field.space.ambient(field.values[number][None])[0], dtype=float)


def _deviation(std: np.ndarray) -> np.ndarray:
    """Return the root mean square ``(n,)`` of the standard deviations ``(n, c)`` of the
    components."""
    return np.sqrt(np.square(std).mean(axis=1))
