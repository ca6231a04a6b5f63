"""Networks as files: weights in safetensors, the architecture as JSON beside them. Nothing is ever unpickled."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import torch

from . import filters, nn
from .errors import DamagedFileError, InvalidInputError
from .files import read_tensors, write_tensors
from .nn.activations import FUNCTIONS

KIND = "tangentbundle.network"

CLASSES: dict[str, type] = {
    name: thing
    for module in (nn, filters)
    for name in module.__all__
    if isinstance(thing := getattr(module, name), type)
    and issubclass(thing, (nn.Configured, nn.Learnable, filters.Method, filters.Filter, filters.LowpassNonAmplifying))
}
"""Everything that may appear in a saved architecture."""


def save(net: nn.Configured, path: str | os.PathLike) -> None:
    """Write a network to one file, atomically.

    >>> import tempfile, tangentbundle as tb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tb.save(tb.nn.TNN([1, 8, 4, 1]), f"{folder}/model.safetensors")
    ...     tb.load(f"{folder}/model.safetensors").num_parameters
    88
    """
    if not isinstance(net, nn.Configured) or type(net).__name__ not in CLASSES:
        hint = " Save its members: nets[0], ..." if isinstance(net, nn.Replicas) else ""
        raise InvalidInputError(f"save takes a network of tangentbundle.nn, got {type(net).__name__}.{hint}")
    write_tensors(path, KIND, net.state_dict(), _encode(net))


def load(path: str | os.PathLike) -> nn.Configured:
    """Read a network that ``save`` wrote; a damaged or foreign file is refused."""
    tensors, notes = read_tensors(path, KIND)
    try:
        net = _decode(notes)
        if not isinstance(net, nn.Configured):
            raise TypeError(f"{notes!r} is no network")
        net.load_state_dict(tensors, assign=True)
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        raise DamagedFileError(f"{path} describes no network of this library ({error}).") from error
    return net


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Generator):
        return 0  # initial weights are not needed: the trained ones are in the file
    if isinstance(value, torch.Tensor):  # of a filter; the value of one that is learned is among the weights
        return {"parameter": value.tolist()} if isinstance(value, torch.nn.Parameter) else value.tolist()
    if isinstance(value, (list, tuple)):
        return [_encode(v) for v in value]
    name = type(value).__name__
    if CLASSES.get(name) is type(value):
        if dataclasses.is_dataclass(value):
            arguments = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        else:
            arguments = vars(value).get("arguments", {})
        return {"class": name, "arguments": {key: _encode(v) for key, v in arguments.items()}}
    function = getattr(value, "__name__", "")
    if FUNCTIONS.get(function) is value:
        return {"function": function}
    raise InvalidInputError(
        f"a network with {value!r} in its architecture cannot be saved. Use parts of tangentbundle.nn, and pointwise "
        f"functions among {', '.join(FUNCTIONS)}."
    )


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v) for v in value]
    if isinstance(value, dict):
        if "function" in value:
            return FUNCTIONS[value["function"]]
        if "parameter" in value:
            return torch.nn.Parameter(torch.tensor(value["parameter"], dtype=torch.float64))
        return CLASSES[value["class"]](**{key: _decode(v) for key, v in value["arguments"].items()})
    return value
