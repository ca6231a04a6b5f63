"""JSON from values: what ``Builder`` builds them from again."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import os
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..errors import InvalidInputError
from ..transforms import has_hooks, module_state
from .registry import (
    CLASSES,
    KINDS,
    Foreign,
    arguments_of,
    function_name,
    is_torch_module,
    path_of,
)

TENSOR_PREFIX = "architecture:"
"""Begins the names of tensors that are arguments: no parameter of a module is called so."""

REMEDIES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((set, frozenset), "A set, which has no order: give a tuple or a list, such as sorted(values)"),
    ((complex,), "A complex number: give its real and imaginary part as two numbers"),
    ((enum.Enum,), "A member of an Enum: give its name or its value, and look it up in __init__"),
    ((bytes, bytearray, memoryview), "Bytes: give text, or an array of numbers"),
    ((os.PathLike,), "A path: give text, str(path)"),
    ((datetime.date, datetime.time, datetime.timedelta), "A date or time: give text or a number"),
    ((torch.device,), "A device: give text, str(device); load() places networks on the CPU"),
)
"""What to do with values of types that JSON does not have."""

FUNCTION_TYPES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)

RANDOM_SEED = 0
"""Stands for generators: initial weights are not needed, the trained ones are in the file."""


class Description:
    """Collects the tensors and the user's own classes and functions of values that it describes as
    JSON.

    >>> import tangentbundle as tb
    >>> Description().encode(tb.Heat(0.5))
    {'class': 'Heat', 'arguments': {'t': 0.5}}
    """

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.foreign: list[Foreign] = []
        self._names: dict[int, str] = {}
        self._originals: list[Any] = []  # these stay, and so do their ids
        self._path: list[str] = []  # names of the attributes that lead to the value at hand

    def encode(self, value: Any) -> Any:
        """JSON that ``Builder.build`` understands."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, torch.Generator):
            return RANDOM_SEED
        if isinstance(value, torch.Tensor):
            return self._encode_tensor(value)
        if isinstance(value, np.ndarray):
            return self._encode_array(value)
        if type(value) is tuple:
            return {"tuple": [self.encode(item) for item in value]}
        if _is_list(value):
            return [self.encode(item) for item in value]
        if type(value) is dict:
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, functools.partial):
            return {"partial": self.encode([value.func, value.args, value.keywords])}
        if isinstance(value, type):
            raise self._refusal(value, "A class among the arguments: give an object of it")
        function = function_name(value)
        if function is not None:
            return {"function": function}
        if isinstance(value, FUNCTION_TYPES):
            return self._encode_function(value)
        return self._encode_object(value)

    def _encode_named(self, values: dict[str, Any]) -> dict[str, Any]:
        encoded = {}
        for name, value in values.items():
            self._path.append(str(name))
            encoded[name] = self.encode(value)
            self._path.pop()
        return encoded

    # Tensors and arrays.

    def _encode_tensor(self, tensor: torch.Tensor) -> dict[str, str]:
        if tensor.layout != torch.strided:
            raise self._refusal(
                tensor, "A sparse tensor: use a dense one, or an argument that it follows from"
            )
        kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
        return {"tensor": self._keep_tensor(tensor.detach(), tensor), "kind": kind}

    def _encode_array(self, array: np.ndarray) -> dict[str, str]:
        try:
            tensor = torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape)
        except TypeError as error:
            raise self._refusal(array, f"An array of {array.dtype}: use numbers") from error
        return {"tensor": self._keep_tensor(tensor, array), "kind": "array"}

    def _keep_tensor(self, tensor: torch.Tensor, original: torch.Tensor | np.ndarray) -> str:
        """The name of a tensor, the same one wherever its original is used."""
        name = self._names.setdefault(id(original), f"{TENSOR_PREFIX}{len(self.tensors)}")
        self.tensors[name] = tensor
        self._originals.append(original)
        return name

    # Functions and objects.

    def _encode_function(self, function: Any) -> dict[str, str]:
        if isinstance(function, types.MethodType):
            raise self._refusal(
                function,
                "A method of an object: write a function, or a class derived from Activation",
            )
        if isinstance(function, types.FunctionType):
            self._require_plain_function(function)
        self.foreign.append(function)
        return {"foreign function": path_of(function)}

    def _require_plain_function(self, function: types.FunctionType) -> None:
        if function.__name__ == "<lambda>":
            raise self._refusal(function, "A lambda has no name: write a function with one (def)")
        if function.__closure__:
            raise self._refusal(
                function,
                "A function that uses variables around it: write functools.partial or a class "
                "instead",
            )

    def _encode_object(self, value: Any) -> dict[str, Any]:
        kind = type(value)
        if CLASSES.get(kind.__name__) is kind:
            arguments = self._encode_named(arguments_of(value) or {})
            return {"class": kind.__name__, "arguments": arguments}
        if is_torch_module(kind):
            return {"module": kind.__name__, "state": self._encode_module(value)}
        self._require_own_class(value)
        self.foreign.append(kind)
        return self._encode_foreign(value)

    def _encode_foreign(self, value: Any) -> dict[str, Any]:
        """An object of a user's own class: its arguments if they are recorded, or its state."""
        path = path_of(type(value))
        arguments = arguments_of(value)
        if arguments is not None:
            return {"class": path, "arguments": self._encode_named(arguments)}
        if isinstance(value, torch.nn.Module):
            return {"class": path, "module state": self._encode_module(value)}
        return {"class": path, "state": self._encode_named(vars(value))}

    def _require_own_class(self, value: Any) -> None:
        """Refuse objects that no state or arguments describe."""
        if type(value).__module__.startswith("tangentbundle.") and not isinstance(value, KINDS):
            raise self._refusal(value, "Not a part of networks")
        for value_types, remedy in REMEDIES:
            if isinstance(value, value_types):
                raise self._refusal(value, remedy)
        if not _is_plain_object(value):
            raise self._refusal(
                value, "An object with more than attributes, such as a file or a lock: leave it out"
            )

    def _encode_module(self, module: torch.nn.Module) -> dict[str, Any]:
        """A module without recorded arguments, by its attributes, tensors and submodules."""
        if has_hooks(module):
            raise self._refusal(module, "A module with hooks: remove them")
        state = module_state(module)
        return {
            "attributes": self._encode_named(state.attributes),
            "parameters": self._encode_named(state.parameters),
            "buffers": self._encode_named(state.buffers),
            "transient": sorted(state.transient_buffers),
            "modules": self._encode_named(state.modules),
        }

    def _refusal(self, value: Any, reason: str) -> InvalidInputError:
        return unsaveable(value, reason, ".".join(self._path))


def _is_list(value: Any) -> bool:
    """Whether a value is a sequence like a list."""
    if isinstance(value, (str, bytes)) or dataclasses.is_dataclass(value):
        return False
    return isinstance(value, Sequence)


def _is_plain_object(value: Any) -> bool:
    """Whether the attributes of an object are all there is to it."""
    kind = type(value)
    if isinstance(value, torch.nn.Module):
        return True
    if kind.__reduce__ is not object.__reduce__ or kind.__reduce_ex__ is not object.__reduce_ex__:
        return False
    if kind.__getstate__ is not object.__getstate__ or not hasattr(value, "__dict__"):
        return False
    try:
        object.__reduce_ex__(value, 2)
    except TypeError:
        return False
    return True


def unsaveable(value: Any, reason: str, attribute: str = "") -> InvalidInputError:
    """The error about a value that has no description; ``reason`` begins a sentence that ends with
    the remedy, ``attribute`` is the name of the attribute or argument that holds the value."""
    place = f" as its {attribute}" if attribute else " in its architecture"
    return InvalidInputError(f"a network with {value!r:.200}{place} cannot be saved. {reason}.")


def count_parts(notes: Any) -> int:
    """How many values an architecture has."""
    pending: list[Any] = [notes]
    count = 0
    while pending:
        value = pending.pop()
        count += 1
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, Sequence) and not isinstance(value, str):
            pending.extend(value)
    return count
