"""Run parts of the stress suite (all without a name), print what happened, and write
benchmarks/results/stress.json."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from importlib import import_module

from harness.records import load, save
from harness.tables import print_rows

from . import PARTS


def _others(parts: Sequence[str]) -> list[dict]:
    """The saved rows of other parts."""
    with contextlib.suppress(FileNotFoundError):
        return [row for row in load("stress") if row["part"] not in parts]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m stress", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; default: all"
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="scales the number of inputs (default 1: minutes)"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        parser.error(f"no part named {', '.join(unknown)}; there are {', '.join(PARTS)}")
    everything = []
    for name in options.parts or PARTS:
        module, start = import_module(f"stress.{name}"), time.perf_counter()
        print(f"\n{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        rows = module.run(options.share)
        print_rows(rows)
        print(f"{time.perf_counter() - start:.0f} s", flush=True)
        everything += [{"part": name, **row} for row in rows]
    inputs, failures = (
        sum(row.get(key, 0) for row in everything) for key in ("inputs", "failures")
    )
    print(f"\n{inputs} inputs, {failures} failures")
    if options.share >= 1:
        save("stress", _others(options.parts or PARTS) + everything)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
