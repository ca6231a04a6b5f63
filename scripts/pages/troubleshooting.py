"""The page of warnings and errors: what each class says of itself, and the messages in the sources,
beside what the page says to do."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from tangentbundle import errors

PAGE = "troubleshooting.md"
SOURCES = Path(__file__).parents[2] / "src"
HEADING = re.compile(r"^### (?P<name>\w+Warning)$", re.MULTILINE)


def classes_below(base: type) -> list[type]:
    """The public classes of the module of errors that derive from a class, in their order there."""
    return [
        thing
        for thing in vars(errors).values()
        if inspect.isclass(thing) and issubclass(thing, base) and thing is not base
    ]


def warning_classes() -> list[type]:
    """Every warning that the library gives."""
    return classes_below(errors.TangentBundleWarning)


def meaning(thing: type) -> str:
    """The docstring of a class in one line."""
    return " ".join((inspect.getdoc(thing) or "").split())


def pattern(message: ast.expr) -> str:
    """A message with ... for what is filled in; empty if it is not written where it is given."""
    if isinstance(message, ast.Constant):
        return str(message.value)
    if not isinstance(message, ast.JoinedStr):
        return ""
    parts = [part.value if isinstance(part, ast.Constant) else "..." for part in message.values]
    return "".join(str(part) for part in parts)


@cache
def messages() -> dict[str, list[str]]:
    """What is printed with each warning class, as the sources have it."""
    texts = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            is_warning = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "warn"
                and len(node.args) > 1
                and isinstance(node.args[1], ast.Name)
            )
            if is_warning:
                text = pattern(node.args[0])
                if re.search(r"[a-z]{4}", text):
                    texts[node.args[1].id].append(text)
    return texts


def details(name: str) -> str:
    """The meaning of a warning and its messages, below its heading."""
    lines = [f"*{meaning(getattr(errors, name))}*", ""]
    if messages()[name]:
        lines += ['??? note "What it says"', ""]
        lines += [f"    * {text.replace('|', '/')}" for text in messages()[name]]
        lines.append("")
    return "\n".join(lines)


def error_table() -> list[str]:
    """All errors and what they mean."""
    rows = [
        f"| `{thing.__name__}` | {meaning(thing)} |"
        for thing in classes_below(errors.TangentBundleError)
    ]
    return ["| error | meaning |", "|---|---|", *rows, ""]


def complete(markdown: str) -> str:
    """The page with everything that comes from the classes."""
    text = HEADING.sub(lambda match: f"{match[0]}\n\n{details(match['name'])}", markdown)
    return "\n".join([text, "", *error_table()])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Complete the page of warnings and errors."""
    if page.file.src_uri != PAGE:
        return markdown
    return complete(markdown)
