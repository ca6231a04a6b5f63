"""Values from the JSON of ``Description``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from .. import nn
from ..arguments import construct
from ..errors import ForeignPartError, InvalidInputError
from ..transforms import ModuleState, build_module
from .registry import CLASSES, FUNCTIONS, Foreign, is_torch_module, last_name, path_of


class Builder:
    """Builds values from JSON of ``Description``, with its tensors and the user's own classes and
    functions.

    >>> Builder({}).build({"class": "Heat", "arguments": {"t": 0.5}})
    Heat(t=0.5)
    """

    def __init__(self, tensors: dict[str, torch.Tensor], allow: Iterable[Foreign] = ()) -> None:
        self.tensors = tensors
        self.parameters: dict[str, torch.nn.Parameter] = {}
        self.allowed: dict[str, Foreign] = {}
        for part in allow:
            if isinstance(part, str) or not (isinstance(part, type) or callable(part)):
                raise InvalidInputError(
                    f"allow lists classes and functions, such as [MyFilter], got {part!r}."
                )
            self.allowed[path_of(part)] = part
        self._readers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "function": self._read_function,
            "foreign function": self._read_foreign_function,
            "tensor": self._read_tensor,
            "parameter": self._read_parameter,
            "tuple": self._read_tuple,
            "dict": self._read_dict,
            "dtype": self._read_dtype,
            "partial": self._read_partial,
            "module": self._read_torch_module,
            "class": self._read_object,
        }

    def build(self, value: Any) -> Any:
        """The value of some JSON; objects of JSON are told apart by a key that they have."""
        if isinstance(value, list):
            return [self.build(item) for item in value]
        if not isinstance(value, dict):
            return value
        for key, read in self._readers.items():
            if key in value:
                return read(value)
        raise InvalidInputError(f"there is no value with {list(value)!r:.80}")

    def _build_named(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: self.build(value) for name, value in values.items()}

    # Tensors, containers and functions.

    def _read_tensor(self, value: dict[str, Any]) -> torch.nn.Parameter | torch.Tensor | np.ndarray:
        name = value["tensor"]
        kind = value["kind"]
        tensor = self.tensors[name]
        if kind == "parameter":
            parameter = torch.nn.Parameter(tensor, requires_grad=tensor.is_floating_point())
            return self.parameters.setdefault(name, parameter)
        if kind == "array":
            return tensor.numpy()
        return tensor

    def _read_parameter(self, value: dict[str, Any]) -> torch.nn.Parameter:
        """A parameter as files of earlier versions have it."""
        return torch.nn.Parameter(torch.tensor(value["parameter"], dtype=torch.float64))

    def _read_tuple(self, value: dict[str, Any]) -> tuple:
        return tuple(self.build(value["tuple"]))

    def _read_dict(self, value: dict[str, Any]) -> dict:
        return {self.build(key): self.build(item) for key, item in value["dict"]}

    def _read_dtype(self, value: dict[str, Any]) -> torch.dtype:
        dtype = getattr(torch, value["dtype"], None)
        if not isinstance(dtype, torch.dtype):
            raise InvalidInputError(f"there is no dtype {value['dtype']!r}")
        return dtype

    def _read_function(self, value: dict[str, Any]) -> Any:
        return FUNCTIONS[value["function"]]

    def _read_foreign_function(self, value: dict[str, Any]) -> Any:
        return self._find_foreign(value["foreign function"])

    def _read_partial(self, value: dict[str, Any]) -> functools.partial:
        function, arguments, options = self.build(value["partial"])
        return functools.partial(function, *arguments, **options)

    # Objects.

    def _read_object(self, value: dict[str, Any]) -> Any:
        path = value["class"]
        if ":" not in path:
            return self._build_library_object(path, value["arguments"])
        kind = self._find_foreign(path)
        if "arguments" in value:
            return construct(kind, self._build_named(value["arguments"]))
        if "module state" in value:
            return self._build_module(kind, value["module state"])
        instance = object.__new__(kind)
        vars(instance).update(self._build_named(value["state"]))
        return instance

    def _build_library_object(self, name: str, arguments: dict[str, Any]) -> Any:
        if name not in CLASSES:
            raise InvalidInputError(f"there is no part {name!r}")
        kind = CLASSES[name]
        values = self._build_named(arguments)
        with _place_of(kind):
            return construct(kind, values)

    def _read_torch_module(self, value: dict[str, Any]) -> torch.nn.Module:
        kind = getattr(torch.nn, value["module"], None)
        if not (isinstance(kind, type) and is_torch_module(kind)):
            raise InvalidInputError(f"there is no module {value['module']!r} of torch.nn")
        return self._build_module(kind, value["state"])

    def _build_module(self, kind: type, state: dict[str, Any]) -> torch.nn.Module:
        return build_module(
            kind,
            ModuleState(
                attributes=self._build_named(state["attributes"]),
                parameters=self._build_named(state["parameters"]),
                buffers=self._build_named(state["buffers"]),
                transient_buffers=set(state["transient"]),
                modules=self._build_named(state["modules"]),
            ),
        )

    def _find_foreign(self, path: str) -> Any:
        """A class or function of a user's own: the one of this path, or the only one of this
        name."""
        if path in self.allowed:
            return self.allowed[path]
        name = last_name(path)
        namesakes = [part for other, part in self.allowed.items() if last_name(other) == name]
        if len(namesakes) == 1:
            return namesakes[0]
        module, _, qualified_name = path.partition(":")
        raise ForeignPartError(
            f"the network has a part of your own, {qualified_name!r} of module {module!r}. If you "
            f"trust it, import it and hand it over: tb.load(path, allow=[{name}])."
        )


def _place_of(kind: type) -> contextlib.AbstractContextManager:
    """Where the weights of an object go while it is built: nowhere, since they are compared with
    the tensors of the file before any memory is allocated."""
    if issubclass(kind, nn.Configured):
        return torch.device("meta")
    return contextlib.nullcontext()
