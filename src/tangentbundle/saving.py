"""Networks as files: weights and the architecture as JSON in one safetensors file. Nothing is ever unpickled."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import torch

from . import filters, nn, operators
from .arrays import FLOATS
from .errors import DamagedFileError, DTypeError, InvalidInputError, NonFiniteError
from .files import read_tensors, write_tensors
from .nn.activations import FUNCTIONS

KIND = "tangentbundle.network"

KINDS = (nn.Configured, filters.Method, filters.Filter, nn.Parametrization, operators.Degrees)
PUBLIC = [getattr(module, name) for module in (nn, filters, operators) for name in module.__all__]
PARTS = [part for part in PUBLIC if isinstance(part, type) and issubclass(part, KINDS)]
CLASSES = {part.__name__: part for part in PARTS if sum(issubclass(other, part) for other in PARTS) == 1}
"""Everything that may appear in a saved architecture: the public parts that are no base of others."""


def save(net: nn.Configured, path: str | os.PathLike) -> None:
    """Write a network to one file, atomically.

    >>> import tempfile, tangentbundle as tb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tb.save(tb.nn.TNN([1, 8, 4, 1]), f"{folder}/model.safetensors")
    ...     tb.load(f"{folder}/model.safetensors").num_parameters
    88
    """
    if not isinstance(net, nn.Configured) or type(net).__name__ not in CLASSES:
        raise InvalidInputError(
            f"save takes a network of tangentbundle.nn, got {type(net).__name__}. Of replicas, save nets[0] and so on."
        )
    _check_weights(net.state_dict())
    write_tensors(path, KIND, net.state_dict(), _encode(net))


def load(path: str | os.PathLike) -> nn.Configured:
    """Read a network that ``save`` wrote, ready to predict; a damaged or foreign file is refused."""
    tensors, notes = read_tensors(path, KIND)
    try:
        _check_weights(tensors)
        if len(str(notes)) > 10_000 + 50 * len(tensors):  # a layer has a tensor, and adds a number to the architecture
            raise InvalidInputError(f"its architecture has more parts than its {len(tensors)} tensors allow")
        with torch.device("meta"):  # the architecture is compared with the tensors before any memory is allocated
            net = _decode(notes)
        if not isinstance(net, nn.Configured):
            raise InvalidInputError(f"got {type(net).__name__}")
        net.load_state_dict(tensors, assign=True)
    except Exception as error:  # anything can be raised while a forged architecture is built
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise DamagedFileError(f"{path} describes no network of this library ({reason}).") from error
    return net.eval()


def _check_weights(tensors: dict[str, torch.Tensor]) -> None:
    """Refuse weights that are not finite, or not all float32 or all float64."""
    dtypes = {t.dtype for t in tensors.values()}
    if len(dtypes) > 1 or not dtypes <= {*FLOATS}:
        raise DTypeError(f"weights must be all float32 or all float64, got {dtypes}. Convert them: net.float().")
    if broken := [name for name, t in tensors.items() if not bool(torch.isfinite(t).all())]:
        raise NonFiniteError(f"weights must be finite, but {broken[0]} has NaN or infinity. Train the network again.")


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
        fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
        arguments = {f.name: getattr(value, f.name) for f in fields if f.init} or vars(value).get("arguments", {})
        return {"class": name, "arguments": {key: _encode(v) for key, v in arguments.items()}}
    if any(function is value for function in FUNCTIONS.values()):
        return {"function": value.__name__}
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
        if value["class"] not in CLASSES:
            raise InvalidInputError(f"there is no part {value['class']!r}")
        return CLASSES[value["class"]](**{key: _decode(v) for key, v in value["arguments"].items()})
    return value
