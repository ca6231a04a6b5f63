"""Run a benchmark, print its table and write ``benchmarks/results/NAME.json``; without a name all
that take minutes. ``python -m benchmarks NAME --help`` has the options of one, and
``python -m benchmarks figures`` draws the figures of the documentation."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import wraps
from typing import Any

import typer

from harness.records import save
from harness.tables import print_rows
from harness.timing import MissingBaseline

from .catalogue import BENCHMARKS, GROUPS, Benchmark


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the benchmarks and exit")
    parser.add_argument("--no-save", action="store_true", help="print rows only, for a trial")
    parser.add_argument("name", nargs="?", help="a name of the list, or figures")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the benchmark")
    choices = parser.parse_args(arguments)
    save_rows = not choices.no_save
    if choices.list:
        print_list()
    elif choices.name is None:
        for benchmark in BENCHMARKS.values():
            if benchmark.quick:
                run(benchmark, save_rows)
    elif choices.name == "figures":
        from .figures import main as draw  # loads matplotlib

        draw(choices.options)
    elif choices.name in BENCHMARKS:
        run_with_options(BENCHMARKS[choices.name], choices.options, save_rows)
    else:
        parser.error(f"no benchmark named {choices.name}; there are {', '.join(BENCHMARKS)}")


def print_list() -> None:
    """Print all names and what they show, by group."""
    for title, benchmarks in GROUPS.items():
        print(f"\n{title}")
        for benchmark in benchmarks:
            print(f"  {benchmark.name:18}{benchmark.shows}")


def run(benchmark: Benchmark, save_rows: bool, **arguments: Any) -> None:
    """Run one benchmark, print its rows and save them."""
    print(f"\n{benchmark.name}: {benchmark.shows}", flush=True)
    try:
        rows = benchmark.load()(**arguments)
    except MissingBaseline as error:
        print(f"skipped: {error}")
        return
    print_rows(rows)
    if benchmark.saved and save_rows:
        save(benchmark.name, rows)


def run_with_options(benchmark: Benchmark, options: Sequence[str], save_rows: bool) -> None:
    """Run one benchmark with options of the command line: the parameters of its function."""
    try:
        function = benchmark.load()
    except MissingBaseline as error:
        print(f"skipped: {error}")
        return

    @wraps(function)
    def command(**arguments: Any) -> None:
        run(benchmark, save_rows, **arguments)

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    app(args=list(options), prog_name=f"python -m benchmarks {benchmark.name}")


if __name__ == "__main__":
    main()
