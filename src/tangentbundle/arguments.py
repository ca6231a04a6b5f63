"""Arguments of constructors: recorded when an object is built, so that it can be built again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, MappingView
from typing import Any


def record_arguments(cls: type, attribute: str) -> None:
    """Make the constructor that a class defines keep its arguments by name, in an attribute of each
    instance.

    The outermost constructor is recorded: that of a derived class rather than that of its base.
    Iterators and views of dictionaries become lists, and lists are copied, so that the record is
    what the constructor saw.
    """
    construct = cls.__dict__.get("__init__")
    if construct is None:
        return
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def record(self: Any, *args: Any, **options: Any) -> None:
        args = tuple(_listed(value) for value in args)
        options = {name: _listed(value) for name, value in options.items()}
        if attribute not in self.__dict__:
            bound = signature.bind(self, *args, **options)
            bound.apply_defaults()
            recorded = dict(list(bound.arguments.items())[1:])
            copies = {
                name: list(value) if type(value) is list else value
                for name, value in recorded.items()
            }
            object.__setattr__(self, attribute, copies)
        construct(self, *args, **options)

    cls.__init__ = record  # type: ignore[misc]


def _listed(value: Any) -> Any:
    if isinstance(value, (Iterator, MappingView)) and type(value).__module__ in (
        "builtins",
        "itertools",
    ):
        return [*value]  # type: ignore[misc]
    return value


@functools.lru_cache(maxsize=256)
def _parameters(cls: Callable[..., Any]) -> dict[str, Any]:
    return {name: parameter.kind for name, parameter in inspect.signature(cls).parameters.items()}


def construct(cls: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Build an object from arguments by name, those of ``*args`` and ``**options`` included."""
    kinds = _parameters(cls)
    named = dict(arguments)
    positional: list[Any] = []
    has_rest = any(
        kind is inspect.Parameter.VAR_POSITIONAL and name in named for name, kind in kinds.items()
    )
    for name, kind in kinds.items():
        if name not in named:
            continue
        by_position = kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and has_rest
        if kind is inspect.Parameter.POSITIONAL_ONLY or by_position:
            positional.append(named.pop(name))
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            positional.extend(named.pop(name))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(named.pop(name))
    return cls(*positional, **named)
