"""Reports for the browser: what a command read, found and wrote, in one HTML file that needs no network."""

from __future__ import annotations

import base64
import platform
from importlib.metadata import version
from pathlib import Path

from ..errors import OutputError
from ..extras import extra
from ..files import check_place, replacing
from ..io import Summary
from .sections import sections

__all__ = ["check_report", "write_report"]


def check_report(path: Path) -> None:
    """Refuse, before any work, a report that cannot be written."""
    for name in ("jinja2", "matplotlib.figure", "plotly.graph_objects"):
        extra(name, "Reports", "plot")
    if path.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"a report is an .html file, not {path.name}. Choose such a name.")
    check_place(path)


def write_report(summary: Summary, path: Path) -> None:
    """Write what a command read, found and wrote to one HTML file that loads nothing from elsewhere, atomically."""
    check_report(path)
    jinja2 = extra("jinja2", "Reports", "plot")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, ""),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    images = [path for path in map(Path, summary.files) if summary.table and path.suffix == ".png" and path.exists()]
    content = environment.get_template("page.html").render(
        title=f"tangentbundle {summary.command}" + (f": {summary.source.name}" if summary.source else ""),
        summary=summary,
        sections=sections(summary),
        pictures={path.stem: base64.b64encode(path.read_bytes()).decode() for path in images},
        library=extra("plotly.offline", "Reports", "plot").get_plotlyjs(),
        footer=f"tangentbundle {version('tangentbundle')}, Python {platform.python_version()}, {summary.seconds:.1f} s",
    )
    with replacing(path) as place:
        place.write_text(content, encoding="utf-8")
