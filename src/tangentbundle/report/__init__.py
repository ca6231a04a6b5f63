"""Reports for the browser: input, results and figures of a command in one HTML file that needs no
network."""

from __future__ import annotations

import base64
import io
import platform
from importlib.metadata import version
from pathlib import Path

from ..errors import Argument, Message, Spelling
from ..extras import extra
from ..files import check_html, replacing
from ..plot.style import canvas
from ..results import Chart, Result
from .figure import check_figure, write_figure
from .glossary import EXPLANATIONS
from .pictures import Section, draw_fields

__all__ = ["check_figure", "check_report", "write_figure", "write_report"]

CHART = (5.4, 2.7)
"""Size of a chart in inches: two fit side by side on a desktop, one on a phone."""


def check_report(path: Path) -> None:
    """Raise if a report cannot be written, before any work is done."""
    for name in ("jinja2", "matplotlib.figure", "plotly.graph_objects"):
        extra(name, "Reports", "plot")
    check_html(path)


def write_report(result: Result, path: Path) -> None:
    """Write input, results and figures of a command to one self-contained HTML file, atomically."""
    check_report(path)
    jinja2 = extra("jinja2", "Reports", "plot")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, ""),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    tables = [table for table in (result.table, result.details) if table is not None]
    title = f"tangentbundle {result.command}"
    if result.source is not None:
        title += f": {result.source.name}"
    content = environment.get_template("page.html").render(
        title=title,
        result=result,
        warnings=list(dict.fromkeys(in_words(warning, result) for warning in result.warnings)),
        notes=[in_words(note, result) for note in result.notes],
        tables=tables,
        glossary=EXPLANATIONS,
        sections=sections_of(result),
        pictures=_pictures(result) if tables else {},
        library=extra("plotly.offline", "Reports", "plot").get_plotlyjs(),
        footer=(
            f"tangentbundle {version('tangentbundle')}, Python {platform.python_version()}, "
            f"{result.seconds:.1f} s"
        ),
    )
    with replacing(path) as place:
        place.write_text(content, encoding="utf-8")


def in_words(message: Message, result: Result) -> str:
    """A message with its arguments as options of the tool and as arguments of the library."""
    return message.text(both_ways(result.spelling))


def both_ways(spelling: Spelling) -> Spelling:
    """Print an argument as an option, and as it is written in Python.

    >>> print(both_ways(lambda argument: "--dim 2")(Argument("dim", 2)))
    --dim 2 (in Python: dim=2)
    """

    def spelled(argument: Argument) -> str:
        option = spelling(argument)
        return option if option == str(argument) else f"{option} (in Python: {argument})"

    return spelled


def sections_of(result: Result) -> list[Section]:
    """The fields of a result, and its charts."""
    sections = []
    if result.before is not None:
        sections.append(draw_fields(result, result.before))
    return sections + [draw_chart(chart) for chart in result.charts]


def draw_chart(chart: Chart) -> Section:
    """A chart as an SVG."""
    figure, axes = canvas(size=CHART)
    chart.draw(axes[0, 0]).spines[["top", "right"]].set_visible(False)
    content = io.BytesIO()
    figure.savefig(content, format="svg", transparent=True)
    encoded = base64.b64encode(content.getvalue()).decode()
    return Section(title=chart.title, note=chart.note, chart=encoded)


def _pictures(result: Result) -> dict[str, str]:
    """The pictures among the files written, in base64, by their names."""
    files = [Path(file) for file in result.files]
    pictures = [file for file in files if file.suffix == ".png" and file.exists()]
    return {file.stem: base64.b64encode(file.read_bytes()).decode() for file in pictures}
