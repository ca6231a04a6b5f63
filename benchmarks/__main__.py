"""Run benchmarks by name (all of them without one); print tables and write
``benchmarks/results/<name>.json``."""

from __future__ import annotations

import argparse
from importlib import import_module

from harness.records import save
from harness.tables import print_rows
from harness.timing import MissingBaseline

from . import NAMES, ON_REQUEST


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"of {', '.join(NAMES)}; default: all; or {', '.join(ON_REQUEST)}",
    )
    parser.add_argument("--list", action="store_true", help="list the benchmarks and exit")
    options = parser.parse_args()
    unknown = sorted({*options.names} - {*NAMES, *ON_REQUEST})
    if unknown:
        parser.error(
            f"no benchmark named {', '.join(unknown)}; there are {', '.join(NAMES + ON_REQUEST)}"
        )
    for name in options.names or NAMES:
        module = import_module(f"benchmarks.{name}")
        title = (module.__doc__ or "").splitlines()[0]
        if options.list:
            print(f"{name:10s} {title}")
            continue
        print(f"\n{name}: {title}", flush=True)
        try:
            rows = module.run()
        except MissingBaseline as error:
            print(f"skipped: {error}")
            continue
        print_rows(rows)
        save(name, rows)


if __name__ == "__main__":
    main()
