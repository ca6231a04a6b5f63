"""Architectures of networks as JSON: parts of the library by name, parts of a user's own by their
path.

A part is described by its class and the arguments of its constructor, and built again by calling
the class. Tensors among the arguments are listed apart. Nothing is unpickled and nothing is
imported: classes and functions of a user's own are taken from those that the user hands over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import functools
import os
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from . import filters, nn, operators
from .arguments import construct
from .errors import ForeignPartError, InvalidInputError, NotSavedWarning, warn
from .filters.base import Composition, Constant, Sum
from .filters.shrinkage import Rational
from .nn.activations import FUNCTIONS

BASES = (
    filters.Filter,
    filters.Method,
    nn.Activation,
    nn.Configured,
    nn.Parametrization,
    nn.Readout,
    nn.Recurrent,
    nn.SheafBuilder,
    operators.Degrees,
)
KINDS = (nn.Configured, filters.Method, filters.Filter, nn.Parametrization, operators.Degrees)
PUBLIC = [getattr(module, name) for module in (nn, filters, operators) for name in module.__all__]
PARTS = [
    part
    for part in PUBLIC
    if isinstance(part, type) and issubclass(part, KINDS) and part not in BASES
]
CLASSES: dict[str, type] = {
    part.__name__: part for part in (*PARTS, Sum, Composition, Constant, Rational)
}
"""Every class of the library that may appear in an architecture."""

TENSOR_PREFIX = "architecture:"
"""Begins the names of tensors that are arguments: no parameter of a module is called so."""

MODULE_FIELDS = frozenset(vars(torch.nn.Module()))
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

Foreign = type | Callable[..., Any]

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


def path_of(part: Any) -> str:
    """Where a class or function is defined, ``module:name``."""
    name = getattr(part, "__qualname__", getattr(part, "__name__", ""))
    return f"{getattr(part, '__module__', None)}:{name}"


def is_torch_module(kind: type) -> bool:
    """Whether a class is one of ``torch.nn`` itself."""
    if kind is torch.nn.Module or not kind.__module__.startswith("torch.nn.modules."):
        return False
    return getattr(torch.nn, kind.__name__, None) is kind


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

    def _refusal(self, value: Any, reason: str) -> InvalidInputError:
        return unsaveable(value, reason, ".".join(self._path))

    def encode(self, value: Any) -> Any:
        """JSON that ``Builder.build`` understands."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, torch.Generator):
            return 0  # initial weights are not needed: the trained ones are in the file
        if isinstance(value, (torch.Tensor, np.ndarray)):
            return self._encode_tensor(value)
        if type(value) is tuple:
            return {"tuple": [self.encode(item) for item in value]}
        if (
            isinstance(value, Sequence)
            and not isinstance(value, (str, bytes))
            and not dataclasses.is_dataclass(value)
        ):
            return [self.encode(item) for item in value]
        if type(value) is dict:
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, functools.partial):
            return {"partial": self.encode([value.func, value.args, value.keywords])}
        if isinstance(value, type):
            raise self._refusal(value, "A class among the arguments: give an object of it")
        for name, function in FUNCTIONS.items():
            if function is value:
                return {"function": name}
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
            return self._encode_function(value)
        return self._encode_object(value)

    def _encode_tensor(self, value: torch.Tensor | np.ndarray) -> Any:
        is_array = isinstance(value, np.ndarray)
        if isinstance(value, np.ndarray):
            try:
                tensor = torch.from_numpy(np.ascontiguousarray(value)).reshape(value.shape)
            except TypeError as error:
                raise self._refusal(value, f"An array of {value.dtype}: use numbers") from error
        else:
            tensor = value.detach()
        if tensor.layout != torch.strided:
            raise self._refusal(
                value, "A sparse tensor: use a dense one, or an argument that it follows from"
            )
        name = self._names.setdefault(id(value), f"{TENSOR_PREFIX}{len(self.tensors)}")
        self.tensors[name] = tensor
        self._originals.append(value)
        if is_array:
            return {"tensor": name, "kind": "array"}
        return {
            "tensor": name,
            "kind": "parameter" if isinstance(value, torch.nn.Parameter) else "tensor",
        }

    def _encode_function(self, function: Any) -> Any:
        if isinstance(function, types.MethodType):
            raise self._refusal(
                function,
                "A method of an object: write a function, or a class derived from Activation",
            )
        if isinstance(function, types.FunctionType):
            if function.__name__ == "<lambda>":
                raise self._refusal(
                    function, "A lambda has no name: write a function with one (def)"
                )
            if function.__closure__:
                raise self._refusal(
                    function,
                    (
                        "A function that uses variables around it: write functools.partial or a "
                        "class instead"
                    ),
                )
        self.foreign.append(function)
        return {"foreign function": path_of(function)}

    def _encode_object(self, value: Any) -> Any:
        kind = type(value)
        if CLASSES.get(kind.__name__) is kind:
            return {
                "class": kind.__name__,
                "arguments": self._encode_named(arguments_of(value) or {}),
            }
        if is_torch_module(kind):
            return {"module": kind.__name__, "state": self._encode_module(value)}
        if kind.__module__.startswith("tangentbundle.") and not isinstance(value, KINDS):
            raise self._refusal(value, "Not a part of networks")
        for types_of_value, reason in REMEDIES:
            if isinstance(value, types_of_value):
                raise self._refusal(value, reason)
        if not _is_plain(value):
            raise self._refusal(
                value, "An object with more than attributes, such as a file or a lock: leave it out"
            )
        self.foreign.append(kind)
        path = path_of(kind)
        arguments = arguments_of(value)
        if arguments is not None:
            return {"class": path, "arguments": self._encode_named(arguments)}
        if isinstance(value, torch.nn.Module):
            return {"class": path, "module state": self._encode_module(value)}
        return {"class": path, "state": self._encode_named(vars(value))}

    def _encode_named(self, values: dict[str, Any]) -> dict[str, Any]:
        encoded = {}
        for name, value in values.items():
            self._path.append(str(name))
            encoded[name] = self.encode(value)
            self._path.pop()
        return encoded

    def _encode_module(self, module: torch.nn.Module) -> dict[str, Any]:
        """A module without recorded arguments, by its attributes, tensors and submodules."""
        if any(getattr(module, name, None) for name in HOOKS):
            raise self._refusal(module, "A module with hooks: remove them")
        state = vars(module)
        own = {name: value for name, value in state.items() if name not in MODULE_FIELDS}
        return {
            "attributes": self._encode_named(own),
            "parameters": self._encode_named(state["_parameters"]),
            "buffers": self._encode_named(state["_buffers"]),
            "transient": sorted(state["_non_persistent_buffers_set"]),
            "modules": self._encode_named(state["_modules"]),
        }


def arguments_of(value: Any) -> dict[str, Any] | None:
    """The arguments that build an object again; None for objects of classes that keep none."""
    recorded = vars(value).get("arguments" if isinstance(value, nn.Configured) else "_arguments")
    if isinstance(recorded, dict):
        return recorded
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        stored = vars(value)  # of parameters, as they were given
        names = [f.name for f in dataclasses.fields(value) if f.init]
        return {name: stored[name] if name in stored else getattr(value, name) for name in names}
    return (
        {}
        if isinstance(value, KINDS) and not isinstance(value, filters.Filter) and not vars(value)
        else None
    )


def _is_plain(value: Any) -> bool:
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


class Builder:
    """Builds values from JSON of ``Description``, with its tensors and the user's own classes and
    functions."""

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

    def build(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.build(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "function" in value:
            return FUNCTIONS[value["function"]]
        if "foreign function" in value:
            return self._foreign(value["foreign function"])
        if "tensor" in value:
            return self._tensor(value["tensor"], value["kind"])
        if "parameter" in value:  # of files of earlier versions
            return torch.nn.Parameter(torch.tensor(value["parameter"], dtype=torch.float64))
        if "tuple" in value:
            return tuple(self.build(value["tuple"]))
        if "dict" in value:
            return {self.build(key): self.build(item) for key, item in value["dict"]}
        if "dtype" in value:
            return _dtype(value["dtype"])
        if "partial" in value:
            function, arguments, options = self.build(value["partial"])
            return functools.partial(function, *arguments, **options)
        if "module" in value:
            return self._module(_torch_class(value["module"]), value["state"])
        return self._object(value)

    def _object(self, value: dict[str, Any]) -> Any:
        name = value["class"]
        if ":" not in name:
            if name not in CLASSES:
                raise InvalidInputError(f"there is no part {name!r}")
            arguments = self._named(value["arguments"])
            kind = CLASSES[name]
            # weights are compared with the tensors of the file before any memory is allocated
            place = (
                torch.device("meta")
                if issubclass(kind, nn.Configured)
                else contextlib.nullcontext()
            )
            with place:
                return construct(kind, arguments)
        kind = self._foreign(name)
        if "arguments" in value:
            return construct(kind, self._named(value["arguments"]))
        if "module state" in value:
            return self._module(kind, value["module state"])
        instance = object.__new__(kind)
        vars(instance).update(self._named(value["state"]))
        return instance

    def _foreign(self, path: str) -> Any:
        if path in self.allowed:
            return self.allowed[path]
        name = path.rpartition(".")[2].rpartition(":")[2]
        alike = [
            part
            for other, part in self.allowed.items()
            if other.rpartition(".")[2].rpartition(":")[2] == name
        ]
        if len(alike) != 1:
            raise ForeignPartError(
                f"the network has a part of your own, {path.partition(':')[2]!r} of module "
                f"{path.partition(':')[0]!r}. If you trust it, import it and hand it over: "
                f"tb.load(path, allow=[{name}])."
            )
        return alike[0]

    def _tensor(self, name: str, kind: str) -> torch.nn.Parameter | torch.Tensor | np.ndarray:
        tensor = self.tensors[name]
        if kind == "parameter":
            learns = tensor.is_floating_point()
            return self.parameters.setdefault(
                name, torch.nn.Parameter(tensor, requires_grad=learns)
            )
        return tensor.numpy() if kind == "array" else tensor

    def _named(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: self.build(value) for name, value in values.items()}

    def _module(self, kind: type, state: dict[str, Any]) -> torch.nn.Module:
        module: Any = object.__new__(kind)
        if not isinstance(module, torch.nn.Module):
            raise InvalidInputError(f"{kind.__name__} is no module")
        torch.nn.Module.__init__(module)
        for name, value in self._named(state["attributes"]).items():
            if name in MODULE_FIELDS:
                raise InvalidInputError(f"a module has no attribute {name!r} of its own")
            vars(module)[name] = value
        for name, parameter in self._named(state["parameters"]).items():
            module.register_parameter(name, parameter)
        for name, buffer in self._named(state["buffers"]).items():
            module.register_buffer(name, buffer, persistent=name not in state["transient"])
        for name, child in self._named(state["modules"]).items():
            module.add_module(name, child)
        return module


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise InvalidInputError(f"there is no dtype {name!r}")
    return dtype


def _torch_class(name: str) -> type:
    kind = getattr(torch.nn, name, None)
    if not (isinstance(kind, type) and is_torch_module(kind)):
        raise InvalidInputError(f"there is no module {name!r} of torch.nn")
    return kind


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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = Builder(description.tensors, description.foreign).build(notes)
    except Exception as error:  # a user's constructor can raise anything
        raise unsaveable(
            type(net).__name__,
            f"Its constructor cannot be called again ({type(error).__name__}: {error})",
        ) from error
    _require_alike(net, again)
    return notes, description


def _require_alike(net: torch.nn.Module, again: torch.nn.Module) -> None:
    """Refuse a network that differs from the one that its constructor makes, in parts, weights or
    attributes."""
    remedy = (
        "It was changed after it was built: give its constructor what you changed, so that "
        "it can be built again"
    )
    own, other = dict(net.named_modules()), dict(again.named_modules())
    if [(name, type(m)) for name, m in own.items()] != [
        (name, type(m)) for name, m in other.items()
    ]:
        different = [
            name for name in {**own, **other} if type(own.get(name)) is not type(other.get(name))
        ]
        raise unsaveable(
            type(net).__name__,
            f"Its part {different[:1] or 'order'} is not that of a new one. {remedy}",
        )
    weights = {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    for name, tensor in again.state_dict().items():
        if weights.pop(name, None) != tuple(tensor.shape):
            raise unsaveable(
                type(net).__name__, f"Its weight {name} is not that of a new one. {remedy}"
            )
    if weights:
        raise unsaveable(
            type(net).__name__, f"A new one has no weight {next(iter(weights))}. {remedy}"
        )
    for name, module in own.items():
        for attribute in _changed(module, other[name]):
            place = f"{name}.{attribute}" if name else attribute
            if not type(module).__module__.startswith("tangentbundle."):
                warn(
                    f"the attribute {place} of {type(module).__name__} has changed since it was "
                    "built, and is not in the file. If it matters, make it an argument of the "
                    "constructor.",
                    NotSavedWarning,
                )
                continue
            raise unsaveable(
                type(net).__name__, f"Its attribute {place} is not that of a new one. {remedy}"
            )


def _changed(module: torch.nn.Module, other: torch.nn.Module) -> Iterator[str]:
    """Names of the attributes, other than tensors and parts, in which two modules differ."""
    for name, value in vars(module).items():
        if name in MODULE_FIELDS or name == "arguments" or name.startswith("_"):
            continue
        descriptions = []
        for each in (value, vars(other).get(name)):
            with contextlib.suppress(InvalidInputError, RecursionError):
                descriptions.append(Description().encode(each))
        if len(descriptions) == 2:
            if repr(descriptions[0]) != repr(descriptions[1]):
                yield name
        elif not _is_same_value(value, vars(other).get(name)):
            yield name


def _is_same_value(value: Any, other: Any) -> bool:
    """Whether two values without descriptions are equal, such as sets; true where they have no
    values to compare, as functions and locks."""
    if type(value).__eq__ is object.__eq__:
        return value is other or not isinstance(value, enum.Enum)
    try:
        return bool(value == other)
    except (TypeError, ValueError, RuntimeError):
        return True


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
