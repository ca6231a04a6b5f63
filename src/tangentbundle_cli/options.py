"""Options of commands, alone and in groups; values that no input can make valid are refused before
anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError
from tangentbundle.formats import format_names


def require(valid: Callable[[Any], bool], expected: str) -> Callable[[Any], Any]:
    """Return a callback that refuses values of an option before anything is loaded."""

    def check(value: Any) -> Any:
        if value is not None and not valid(value):
            raise typer.BadParameter(f"expected {expected}, got {value}.")
        return value

    return check


NOT_NEGATIVE = require(lambda value: 0 <= value < math.inf, "a finite number, at least 0")
POSITIVE = require(lambda value: 0 < value < math.inf, "a positive number")

Source = Annotated[
    Path, typer.Argument(help=f"input file: {format_names()}, by its suffix", show_default=False)
]
Output = Annotated[
    Path, typer.Option("-o", "--output", help="output file; the suffix sets the format")
]
Dim = Annotated[int | None, typer.Option(min=1, help="intrinsic dimension; estimated by default")]
Noise = Annotated[
    float | None,
    typer.Option(
        callback=NOT_NEGATIVE, help="known standard deviation of the noise; estimated by default"
    ),
]
Std = Annotated[
    bool, typer.Option("--std", help="also write the standard deviation of each component")
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="seed of random choices")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="blocks of time computed at once, for NetCDF or Zarr grids larger than memory"
    ),
]

_column = partial(typer.Option, rich_help_panel="Columns and rows")
_layout = partial(typer.Option, rich_help_panel="How a table is written")
_display = partial(typer.Option, rich_help_panel="Display")


@dataclass(frozen=True)
class Reading:
    """How a file is read. Columns that are not named are guessed; a note shows the guess."""

    points: Annotated[str, _column(help="columns of points: X,Y,Z, or 'pc*', or pc1:pc50")] = ""
    latlon: Annotated[str, _column(help="columns in degrees: LAT,LON")] = ""
    vectors: Annotated[
        str, _column(help="columns of vectors: VX,VY,VZ or 'dpc*' or EAST,NORTH")
    ] = ""
    wind: Annotated[
        str, _column(help="columns of wind: SPEED,DIRECTION (degrees, from which it blows)")
    ] = ""
    sigma: Annotated[str, _column(help="column with standard errors of the vector components")] = ""
    drop_missing: Annotated[
        bool, _column("--drop-missing", help="skip rows with missing values")
    ] = False
    drop_duplicates: Annotated[
        bool, _column("--drop-duplicates", help="keep the first of coincident points")
    ] = False
    select: Annotated[
        list[str] | None, _column(help="value of a NetCDF or Zarr dimension, such as level=500")
    ] = None
    encoding: Annotated[
        str,
        _layout(help="of text, such as cp1252 or utf-16; all of these are found by default"),
    ] = ""
    separator: Annotated[str, _layout(help="sign between cells; also: tab, space")] = ""
    decimal: Annotated[str, _layout(help="decimal sign: . or ,")] = ""
    thousands: Annotated[str, _layout(help="sign between groups of digits")] = ""
    comment: Annotated[str, _layout(help="sign at the beginning of lines that are no rows")] = ""
    sheet: Annotated[str, _layout(help="name of the sheet of a workbook")] = ""
    up: Annotated[
        str,
        _display(help="axis that points up in the report: x, y or z; by default as a mesh stands"),
    ] = ""

    def request(self, *, needs_vectors: bool = True) -> tb.io.Request:
        """What to read."""
        return tb.io.Request(
            points=_names(self.points),
            latlon=_names(self.latlon),
            vectors=_names(self.vectors),
            wind=_names(self.wind),
            sigma=self.sigma,
            drop_missing=self.drop_missing,
            drop_duplicates=self.drop_duplicates,
            needs_vectors=needs_vectors,
            select=self._selected(),
            up=self.up,
            layout=self.layout(),
        )

    def layout(self) -> tb.io.Layout:
        """How a table is written, as far as options say it."""
        for name in ("decimal", "thousands"):
            if len(getattr(self, name)) > 1:
                raise InvalidInputError(
                    f"expected one sign for --{name}, got {getattr(self, name)!r}."
                )
        return tb.io.Layout(
            encoding=self.encoding,
            separator=self.separator,
            decimal=self.decimal,
            thousands=self.thousands,
            comment=self.comment,
            sheet=self.sheet,
        )

    def _selected(self) -> dict[str, str]:
        """Chosen values by the names of their dimensions."""
        selected = {}
        for text in self.select or ():
            name, _, value = text.partition("=")
            if not value or name in selected:
                raise InvalidInputError(
                    "expected --select NAME=VALUE once for a NAME, such as level=500."
                )
            selected[name] = value
        return selected

    def others(self) -> tb.io.Request:
        """What to read from a second file, whose columns have the usual names."""
        return tb.io.Request(drop_missing=self.drop_missing, drop_duplicates=self.drop_duplicates)


@dataclass(frozen=True)
class Geometry:
    """How a bundle is built."""

    dim: Dim = None
    neighbors: Annotated[
        int | None, typer.Option(min=1, help="neighbours of the median point; automatic by default")
    ] = None
    eps: Annotated[
        float | None,
        typer.Option(
            callback=POSITIVE, help="squared radius of neighbourhoods, instead of --neighbors"
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of ``bundle`` that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Display:
    """What the tool shows. Commands themselves show progress, and check that a report can be
    written."""

    as_json: Annotated[
        bool, _display("--json", help="print the result as JSON on standard output")
    ] = False
    quiet: Annotated[bool, _display("--quiet", "-q", help="print only errors")] = False
    debug: Annotated[bool, _display("--debug", help="show tracebacks")] = False
    digits: Annotated[
        int | None,
        _display(
            min=0, help="decimals in tables of text; by default as many as the noise justifies"
        ),
    ] = None
    figure: Annotated[
        Path | None, _display(help="also draw the field to this .pdf, .svg or .png file")
    ] = None
    report: Annotated[
        Path | None, _display(help="also write an interactive report to this .html file")
    ] = None

    @property
    def silent(self) -> bool:
        """Whether progress and notes are suppressed."""
        return self.quiet or self.as_json

    def check_report(self) -> None:
        """Raise if the report cannot be written; it loads plotting libraries, so input is checked
        before."""
        if self.report is not None:
            tb.report.check_report(self.report)
        if self.figure is not None:
            tb.report.check_figure(self.figure)


GUESSED = Reading()
"""Columns are guessed by name."""

AUTOMATIC = Geometry()
"""Dimension and scale are estimated."""

SILENT = Display(quiet=True)
"""For commands that are called from Python."""


def _names(text: str) -> tuple[str, ...]:
    """Names between commas."""
    names = [name.strip() for name in text.split(",")]
    return tuple(name for name in names if name)
