"""Docstrings to Markdown: formulas in dollars, examples in fences."""

from __future__ import annotations

import re
import textwrap

import griffe

INLINE = re.compile(r":math:`(.*?)`", re.DOTALL)
DISPLAY = re.compile(r"^\.\. math::(.*(?:\n(?:[ \t]+\S.*|[ \t]*(?=\n[ \t]+\S)))*)", re.MULTILINE)
EXAMPLE = re.compile(r"^(?P<indent>[ ]*)>>> .*(?:\n(?P=indent)\S.*)*", re.MULTILINE)


def display(match: re.Match[str]) -> str:
    return f"\n$$\n{' '.join(match[1].split())}\n$$\n"


def fenced(match: re.Match[str]) -> str:
    indent = match["indent"]
    block = f"```pycon\n{textwrap.dedent(match[0])}\n```"
    return "\n" + textwrap.indent(block, indent) + "\n"


def markdown(text: str) -> str:
    """A docstring of this library as Markdown.

    >>> markdown("The norm :math:`|f|`.")
    'The norm $|f|$.'
    """
    text = DISPLAY.sub(display, text)
    text = INLINE.sub(lambda match: f"${' '.join(match[1].split())}$", text)
    return EXAMPLE.sub(fenced, text)


class Docstrings(griffe.Extension):
    """Rewrites the docstring of every object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
