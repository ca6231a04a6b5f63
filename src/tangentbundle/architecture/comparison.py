"""Descriptions of networks that are sure to give the same network again."""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from .. import nn
from ..errors import InvalidInputError, NotSavedWarning, warn
from ..transforms import module_state
from .builder import Builder
from .description import Description, unsaveable

REMEDY = (
    "It was changed after it was built: give its constructor what you changed, so that it can be "
    "built again"
)


def describe(net: nn.Configured) -> tuple[Any, Description]:
    """The architecture of a network as JSON, with what the JSON refers to; refused if it does not
    give the network.

    The network is built again for that, without memory for its weights.
    """
    description = Description()
    try:
        notes = description.encode(net)
    except RecursionError as error:
        raise unsaveable(
            type(net).__name__, "Its parts are nested too deeply, or contain themselves"
        ) from error
    rebuilt = _rebuild(net, notes, description)
    _require_same_modules(net, rebuilt)
    _require_same_weights(net, rebuilt)
    _require_same_attributes(net, rebuilt)
    return notes, description


def _rebuild(net: nn.Configured, notes: Any, description: Description) -> torch.nn.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Builder(description.tensors, description.foreign).build(notes)
    except Exception as error:  # a user's constructor can raise anything
        raise unsaveable(
            type(net).__name__,
            f"Its constructor cannot be called again ({type(error).__name__}: {error})",
        ) from error


def _require_same_modules(net: torch.nn.Module, rebuilt: torch.nn.Module) -> None:
    own = {name: type(module) for name, module in net.named_modules()}
    other = {name: type(module) for name, module in rebuilt.named_modules()}
    if list(own.items()) == list(other.items()):
        return
    names = [*own, *[name for name in other if name not in own]]
    different = [name for name in names if own.get(name) is not other.get(name)]
    raise unsaveable(
        type(net).__name__,
        f"Its part {different[:1] or 'order'} is not that of a new one. {REMEDY}",
    )


def _require_same_weights(net: torch.nn.Module, rebuilt: torch.nn.Module) -> None:
    own = {name: tensor.shape for name, tensor in net.state_dict().items()}
    other = {name: tensor.shape for name, tensor in rebuilt.state_dict().items()}
    for name, shape in other.items():
        if own.get(name) != shape:
            raise unsaveable(
                type(net).__name__, f"Its weight {name} is not that of a new one. {REMEDY}"
            )
    for name in own:
        if name not in other:
            raise unsaveable(type(net).__name__, f"A new one has no weight {name}. {REMEDY}")


def _require_same_attributes(net: torch.nn.Module, rebuilt: torch.nn.Module) -> None:
    """Refuse changed attributes of the library's classes; warn of those of a user's own."""
    other_modules = dict(rebuilt.named_modules())
    for name, module in net.named_modules():
        for attribute in _changed_attributes(module, other_modules[name]):
            place = f"{name}.{attribute}" if name else attribute
            if type(module).__module__.startswith("tangentbundle."):
                raise unsaveable(
                    type(net).__name__,
                    f"Its attribute {place} is not that of a new one. {REMEDY}",
                )
            warn(
                f"the attribute {place} of {type(module).__name__} has changed since it was "
                "built, and is not in the file. If it matters, make it an argument of the "
                "constructor.",
                NotSavedWarning,
            )


def _changed_attributes(module: torch.nn.Module, other: torch.nn.Module) -> Iterator[str]:
    """Names of the attributes, other than tensors and parts, in which two modules differ."""
    for name, value in module_state(module).attributes.items():
        is_recorded = name == "arguments" or name.startswith("_")
        if not is_recorded and not _is_same(value, vars(other).get(name)):
            yield name


def _is_same(value: Any, other: Any) -> bool:
    """Whether two values have one description, or are equal if they have none."""
    description = _description_of(value)
    other_description = _description_of(other)
    if description is not None and other_description is not None:
        return description == other_description
    return _is_equal(value, other)


def _description_of(value: Any) -> str | None:
    """The description of a value as text; None if it has none."""
    with contextlib.suppress(InvalidInputError, RecursionError):
        return repr(Description().encode(value))
    return None


def _is_equal(value: Any, other: Any) -> bool:
    """Whether two values without descriptions are equal, such as sets; true where they have no
    values to compare, as functions and locks."""
    if type(value).__eq__ is object.__eq__:
        return value is other or not isinstance(value, enum.Enum)
    try:
        return bool(value == other)
    except (TypeError, ValueError, RuntimeError):
        return True
