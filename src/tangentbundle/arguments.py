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
    constructor = cls.__dict__.get("__init__")
    if constructor is None:
        return
    signature = inspect.signature(constructor)

    @functools.wraps(constructor)
    def recording_constructor(self: Any, *args: Any, **options: Any) -> None:
        args = tuple(_listed(value) for value in args)
        options = {name: _listed(value) for name, value in options.items()}
        if attribute not in self.__dict__:
            bound = signature.bind(self, *args, **options)
            bound.apply_defaults()
            object.__setattr__(self, attribute, _copied_arguments(bound))
        constructor(self, *args, **options)

    cls.__init__ = recording_constructor  # type: ignore[misc]


def _copied_arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments by name, without the object itself."""
    _, *names = bound.arguments
    return {name: _copied(bound.arguments[name]) for name in names}


def _copied(value: Any) -> Any:
    if type(value) is list:
        return list(value)
    return value


def _listed(value: Any) -> Any:
    """Iterators and views as lists, which can be read twice; anything else as it is."""
    is_builtin = type(value).__module__ in ("builtins", "itertools")
    if is_builtin and isinstance(value, (Iterator, MappingView)):
        return [*value]  # type: ignore[misc]
    return value


@functools.lru_cache(maxsize=256)
def _parameter_kinds(cls: Callable[..., Any]) -> dict[str, Any]:
    return {name: parameter.kind for name, parameter in inspect.signature(cls).parameters.items()}


def construct(cls: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Build an object from arguments by name, those of ``*args`` and ``**options`` included.

    >>> def join(first, *others, end="."):
    ...     return first + "".join(others) + end
    >>> construct(join, {"first": "a", "others": ["b", "c"], "end": "!"})
    'abc!'
    """
    kinds = _parameter_kinds(cls)
    has_rest = any(
        kind is inspect.Parameter.VAR_POSITIONAL and name in arguments
        for name, kind in kinds.items()
    )
    positional: list[Any] = []
    named = dict(arguments)
    for name, kind in kinds.items():
        if name not in named:
            continue
        # what precedes *args can be given by position only
        precedes_rest = has_rest and kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        if kind is inspect.Parameter.POSITIONAL_ONLY or precedes_rest:
            positional.append(named.pop(name))
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            positional.extend(named.pop(name))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(named.pop(name))
    return cls(*positional, **named)
