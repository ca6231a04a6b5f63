"""HTML: escaped text, tables, pictures, interactive plots, and the page around them."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..extras import extra

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What the page may do: run and show what it holds, load nothing."""


def text(value: Any) -> str:
    """Text for HTML.

    >>> text("<b>&</b>")
    '&lt;b&gt;&amp;&lt;/b&gt;'
    """
    return html.escape(str(value))


def section(title: str, *body: str, kind: str = "") -> str:
    """A card with a heading; nothing if it would be empty."""
    content = "".join(body)
    name = f' class="{kind}"' if kind else ""
    return f"<section{name}><h2>{text(title)}</h2>{content}</section>\n" if content else ""


def note(words: str) -> str:
    """A small remark."""
    return f'<p class="note">{text(words)}</p>' if words else ""


def items(lines: Sequence[str]) -> str:
    """A list."""
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>" if lines else ""


def pairs(rows: Sequence[tuple[str, str]]) -> str:
    """A table of labels and what they stand for."""
    if not rows:
        return ""
    lines = "".join(f"<tr><th scope=row>{text(a)}</th><td>{text(b)}</td></tr>" for a, b in rows)
    return f"<table>{lines}</table>"


def grid(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A wide table; ``**bold**`` cells of Markdown are bold."""
    head = "".join(f"<th scope=col>{text(name)}</th>" for name in header)
    lines = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in body)
    return f"<div class=wide tabindex=0><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"


def _cell(words: str) -> str:
    bold = words.startswith("**") and words.endswith("**") and len(words) > 4
    return f"<b>{text(words[2:-2])}</b>" if bold else text(words)


def picture(path: Path) -> str:
    """A PNG inside the page."""
    content = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{text(path.stem.replace("_", " "))}" src="data:image/png;base64,{content}">'


def plot(figure: Any, label: str) -> str:
    """A plotly figure; its menu of layers, if it has one, becomes a row of buttons."""
    spec = json.loads(figure.to_json())
    menus = spec["layout"].pop("updatemenus", [])
    buttons = ""
    if menus:
        choices = menus[0]["buttons"]
        spec["choices"] = [choice["args"] for choice in choices]
        buttons = "".join(
            f"<button type=button data-choice={k} aria-pressed={'true' if k == 0 else 'false'}>"
            f"{choice['label']}</button>"
            for k, choice in enumerate(choices)
        )
        buttons = f'<div class=toggle role=group aria-label="{text(label)}">{buttons}</div>'
    height = int(spec["layout"].get("height", 420))
    content = json.dumps(spec, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f'<div class=viewer>{buttons}<div class=plot role=img aria-label="{text(label)}" style="height:{height}px">'
        f"</div><script type=application/json>{content}</script></div>"
    )


def page(title: str, subtitle: str, body: str, footer: str) -> str:
    """The whole file. The library that draws is inside, once, where something is to be drawn."""
    css, script = (resources.files(__package__).joinpath(name).read_text() for name in ("page.css", "page.js"))
    library = extra("plotly.offline", "Reports", "plot").get_plotlyjs() if "class=plot" in body else ""
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        f'<meta http-equiv=Content-Security-Policy content="{POLICY}">\n'
        "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
        f"<title>{text(title)}</title>\n<style>\n{css}</style>\n"
        + (f"<script>{library}</script>\n" if library else "")
        + f"</head>\n<body>\n<main>\n<header><h1>{text(title)}</h1><p>{text(subtitle)}</p></header>\n"
        f"{body}<footer>{text(footer)}</footer>\n</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )
