"""From functions to commands: options from their signatures, and what the terminal shows.

A command is a function of a module of this package. Its parameters are options; a parameter whose
type is a dataclass, such as ``Reading``, stands for one option for each of its fields. It returns a
``Result``. The functions can be called from Python as well:

    from pathlib import Path
    from tangentbundle_cli.predict import denoise

    result = denoise(Path("field.csv"), Path("clean.csv"))
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

import tangentbundle as tb
from tangentbundle import errors
from tangentbundle.errors import Argument, Message

from .options import Display

if TYPE_CHECKING:
    from tangentbundle.results import Result

OPTIONS_BY_ARGUMENT = {"noise_std": "noise", "return_std": "std"}
"""Options that have other names than the arguments of the library."""


class Commands(TyperGroup):
    """A command group that stores the command line in its context; a file alone is inspected."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        line = shlex.join(["tangentbundle", *args])
        if args and self._is_file(args[0]):
            args = ["inspect", *args]
        return super().make_context(info_name, args, parent, obj=line, **extra)

    def _is_file(self, argument: str) -> bool:
        """Whether the first argument is no command and no option, but a file."""
        if argument.startswith("-") or argument in self.commands:
            return False
        return Path(argument).expanduser().exists() or bool(Path(argument).suffix)


def as_command(function: Callable[..., Result]) -> Callable[..., None]:
    """The function that typer calls: it has an option for each field of a group, collects the
    groups, and shows the result."""
    parameters = inspect.signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if dataclasses.is_dataclass(parameter.annotation)
    }
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in parameters.items():
        if name in groups:
            options |= inspect.signature(groups[name], eval_str=True).parameters
        else:
            options[name] = parameter

    def run(context: typer.Context, **values: Any) -> None:
        arguments = _grouped(values, groups)
        run_command(function, arguments, line=context.obj, options={*options})

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    keywords = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options.values()]
    run.__name__ = function.__name__
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature([context, *keywords])  # type: ignore[attr-defined]
    return run


def _grouped(values: Mapping[str, Any], groups: Mapping[str, Any]) -> dict[str, Any]:
    """The values of options as arguments of a function: those of a group in one object."""
    rest = {name: _expanded(value) for name, value in values.items()}
    arguments = {}
    for name, group in groups.items():
        fields = [field.name for field in dataclasses.fields(group)]
        arguments[name] = group(**{field: rest.pop(field) for field in fields})
    return rest | arguments


def _expanded(value: Any) -> Any:
    """A path with the home folder for ~."""
    return value.expanduser() if isinstance(value, Path) else value


def as_option(argument: Argument, options: set[str]) -> str:
    """An argument of the library as an option of a command; as it is if there is no such option.

    >>> options = {"drop_missing", "neighbors", "vectors"}
    >>> as_option(Argument("drop_missing", True), options)
    '--drop-missing'
    >>> as_option(Argument("vectors", ("EAST", "NORTH")), options)
    '--vectors EAST,NORTH'
    >>> print(as_option(Argument("vectors", ("Wind East", "Wind North")), options))
    --vectors "Wind East,Wind North"
    >>> as_option(Argument("neighbors"), options), as_option(Argument("max_memory", 8e9), options)
    ('--neighbors', 'max_memory=8000000000.0')
    """
    name = OPTIONS_BY_ARGUMENT.get(argument.name, argument.name)
    if name not in options:
        return str(argument)
    option = f"--{name.replace('_', '-')}"
    example = argument.example
    if example is errors.NO_EXAMPLE or example is True:
        return option
    if example is ...:
        return f"{option} ..."
    value = ",".join(example) if isinstance(example, tuple) else str(example)
    if " " in value:
        value = f'"{value}"'
    return f"{option} {value}"


def run_command(
    function: Callable[..., Result], arguments: dict[str, Any], line: str, options: set[str]
) -> None:
    """Run a command; print results on stdout, warnings and errors on stderr, each on one line."""
    _end_on_terminate()
    display: Display = arguments["display"]
    started = time.perf_counter()

    def spelling(argument: Argument) -> str:
        return as_option(argument, options)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", errors.TangentBundleWarning)
        try:
            result = function(**arguments)
            result.line = line
            result.warnings += messages(caught)
            result.seconds = time.perf_counter() - started
            result.spelling = spelling
            if display.figure is not None:
                with result.writing(display.figure):
                    tb.report.write_figure(result, display.figure)
            report = display.report or result.report
            if report is not None:
                with result.writing(report):
                    tb.report.write_report(result, report)
        except typer.Exit:
            raise
        except Exception as error:
            if display.debug:
                raise
            code, lines = _in_words(error, messages(caught), spelling)
            for text in lines:
                typer.echo(" ".join(text.split()), err=True)
            raise typer.Exit(code) from None
    _show(result, display)
    if not result.passed:
        raise typer.Exit(1)


def messages(caught: list[warnings.WarningMessage]) -> list[Message]:
    """The warnings of the library among those caught."""
    warned = [record.message for record in caught]
    return [warning for warning in warned if isinstance(warning, errors.TangentBundleWarning)]


def _in_words(
    error: Exception, warned: list[Message], spelling: errors.Spelling
) -> tuple[int, list[str]]:
    """The exit code of an error and what to print."""
    if isinstance(error, errors.TangentBundleError):
        lines = [f"error: {error.text(spelling)}"]
        return 2, lines + [f"warning: {warning.text(spelling)}" for warning in warned]
    if isinstance(error, MemoryError):
        return 2, ["error: out of memory. Use fewer points or neighbours."]
    unexpected = f"error: unexpected {type(error).__name__}: {error}."
    return 1, [f"{unexpected} Run again with --debug and report it."]


def _show(result: Result, display: Display) -> None:
    """Print a result on standard output, its warnings on standard error."""
    if display.as_json:
        typer.echo(json.dumps(result.to_json(), indent=2, allow_nan=False))
    elif not display.quiet:
        typer.echo(result.text())
        for text in result.warning_texts():
            typer.echo(f"warning: {text}", err=True)


def _end_on_terminate() -> None:
    """Let SIGTERM end the process as an exception does, so that temporary files are removed."""

    def end(number: int, frame: Any) -> None:
        sys.exit(143)

    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, end)
