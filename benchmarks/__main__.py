"""Run a benchmark, print its table and write ``benchmarks/results/NAME.json``; without a name all
that take minutes. ``python -m benchmarks NAME --help`` has the options of one, and
``python -m benchmarks figures`` draws the figures of the documentation."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import click
import typer

from harness.records import save
from harness.tables import print_rows
from harness.timing import MissingBaseline

from .catalogue import BENCHMARKS, GROUPS, Benchmark


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the benchmarks and exit")
    parser.add_argument("--no-save", action="store_true", help="print rows only, for a trial")
    parser.add_argument("name", nargs="?", help="a name of the list, or figures")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the benchmark")
    choices = parser.parse_args(arguments)
    if choices.list:
        print_list()
        return 0
    if choices.name == "figures":
        from .figures import main as draw  # loads matplotlib

        draw(choices.options)
        return 0
    if choices.name is not None and choices.name not in BENCHMARKS:
        parser.error(f"no benchmark named {choices.name}; there are {', '.join(BENCHMARKS)}")
    benchmarks = [benchmark for benchmark in BENCHMARKS.values() if benchmark.quick]
    if choices.name is not None:
        benchmarks = [BENCHMARKS[choices.name]]
    for benchmark in benchmarks:
        code = run(benchmark, choices.options, save_rows=not choices.no_save)
        if code:
            return code
    return 0


def print_list() -> None:
    """Print all names and what they show, by group."""
    for title, benchmarks in GROUPS.items():
        print(f"\n{title}")
        for benchmark in benchmarks:
            print(f"  {benchmark.name:18}{benchmark.shows}")


def run(benchmark: Benchmark, options: Sequence[str], save_rows: bool) -> int:
    """Run one benchmark; returns an exit code."""
    print(f"\n{benchmark.name}: {benchmark.shows}", flush=True)
    try:
        rows = call(benchmark, options)
    except MissingBaseline as error:
        print(f"skipped: {error}")
        return 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    if not isinstance(rows, list):  # help was printed
        return 0
    print_rows(rows)
    if benchmark.saved and save_rows:
        save(benchmark.name, rows)
    return 0


def call(benchmark: Benchmark, options: Sequence[str]) -> Any:
    """Call the function of a benchmark with options of the command line."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(benchmark.load())
    name = f"python -m benchmarks {benchmark.name}"
    return app(args=list(options), prog_name=name, standalone_mode=False)


if __name__ == "__main__":
    sys.exit(main())
