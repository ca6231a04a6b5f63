"""Code of the documentation: its blocks, and whether they print what the page says.

A page's blocks run in order, in one folder that holds copies of ``examples`` and of trained
weights. A Python block starts with nothing defined; the plain block after it is its output. A
console block has commands after ``$ `` and their output.

What is printed must be as on the page, up to spaces, but numbers may differ by one unit of their
last digit on the page or by 1 % (other machines round differently), and numbers of seconds, such as
``1.5 s``, by anything.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"```(?P<kind>python|console)\n(?P<text>.*?)```(?:\n```\n(?P<output>.*?)```)?", re.DOTALL
)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?P<seconds> s\b)?")


@dataclass(frozen=True)
class Block:
    """Python, or shell commands, and the output that the page shows (None: anything)."""

    kind: str
    text: str
    output: str | None

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Commands of a console block, each with its output."""
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return [(head, rest) for head, _, rest in (part.partition("\n") for part in parts)]


def blocks(page: str) -> list[Block]:
    return [Block(m["kind"], m["text"], m["output"]) for m in BLOCK.finditer(page)]


def unit(number: str) -> float:
    """One unit of the last digit.

    >>> unit("0.25"), unit("17")
    (0.01, 1.0)
    """
    mantissa, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))


def same_line(got: str, expected: str) -> bool:
    """Whether two lines say the same, in the sense above.

    >>> (
    ...     same_line("error 3.91%  in 7.2 s", "error 3.9% in 0.1 s"),
    ...     same_line("error 4.2%", "error 3.9%"),
    ... )
    (True, False)
    """
    if [*NUMBER.sub("#", got).split()] != [*NUMBER.sub("#", expected).split()]:
        return False
    for a, b in zip(NUMBER.finditer(got), NUMBER.finditer(expected), strict=True):
        x, y = (float(m[0].removesuffix(" s")) for m in (a, b))
        room = max(1.001 * unit(b[0].removesuffix(" s")), 0.01 * abs(y))
        if not b["seconds"] and abs(x - y) > room:
            return False
    return True


def check(got: str, expected: str, what: str) -> None:
    """Complain of the first line that differs."""
    lines, wanted = got.splitlines(), expected.splitlines()
    for number, line in enumerate(wanted):
        told = lines[number] if number < len(lines) else "(nothing)"
        assert same_line(told, line), f"{what}\nprints: {told}\nthe page says: {line}"
    assert len(lines) == len(wanted), (
        f"{what}\nprints more than the page says: {lines[len(wanted) :]}"
    )


def run_python(code: str) -> str:
    """What a block prints. Warnings are errors, as everywhere in the tests."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        exec(compile(code, "block", "exec"), {})
    return printed.getvalue()


def run_tool(words: list[str]) -> str:
    """Output and errors of ``tangentbundle``, in this process: starting a new one takes seconds."""
    from typer.testing import CliRunner

    from tangentbundle_cli import app

    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result.stdout + without_progress(result.stderr)


def without_progress(text: str) -> str:
    """Output without the lines that only slow machines print."""
    return re.sub(r"^\.\.\. .*\n", "", text, flags=re.MULTILINE)


def run_shell(commands: list[str], folder: Path, programs: Path | None = None) -> list[str]:
    """Output of each command, typed one after the other into one shell; ``programs`` are found
    first."""
    mark = "--- end of command ---"
    script = "\n".join(
        f"{{ {command}\n}} 2>&1 || echo exit code $?\necho '{mark}'" for command in commands
    )
    path = os.pathsep.join([*([str(programs)] if programs else []), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return without_progress(done.stdout).split(f"{mark}\n")[:-1]
