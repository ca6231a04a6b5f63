"""Networks as files: weights and the architecture as JSON in one safetensors file. Nothing is ever
unpickled."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from . import nn
from .architecture.builder import Builder
from .architecture.comparison import describe
from .architecture.description import TENSOR_PREFIX, count_parts
from .architecture.registry import Foreign
from .arrays import FLOATS
from .errors import (
    DamagedFileError,
    DTypeError,
    ForeignPartError,
    InvalidInputError,
    NonFiniteError,
)
from .files import read_tensors, write_tensors

KIND = "tangentbundle.network"

FREE_PARTS = 3_000
PARTS_PER_NUMBER = 20
"""An architecture has at most ``FREE_PARTS`` values and this many more for each number in the file.

A short file cannot ask for a network that takes long to build.
"""


def save(net: nn.Configured, path: str | os.PathLike) -> None:
    """Write a network to one file, atomically.

    Classes and functions of your own, such as filters and activations, are saved by their path and
    the arguments of their constructors, and ``load`` needs them in ``allow``. What cannot be built
    again is refused.

    >>> import tempfile, tangentbundle as tb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tb.save(tb.nn.TNN([1, 8, 4, 1]), f"{folder}/model.safetensors")
    ...     tb.load(f"{folder}/model.safetensors").num_parameters
    88
    """
    tensors, notes = _contents(net)
    _check_weights(net, net.state_dict())
    write_tensors(path, KIND, tensors, notes)


def require_saveable(net: nn.Configured) -> None:
    """Refuse a network whose architecture ``save`` would refuse; before a training, nothing is
    lost."""
    _contents(net)


def load(path: str | os.PathLike, allow: Iterable[Foreign] = ()) -> nn.Configured:
    """Read a network that ``save`` wrote, ready to predict; a damaged or foreign file is refused.

    Args:
        allow: classes and functions of your own that the network may contain, such as
            ``[MyFilter]``. Others are refused by name with ``ForeignPartError``: nothing is
            imported, and nothing unpickled.
    """
    if isinstance(allow, (str, type)) or not isinstance(allow, Iterable):
        raise InvalidInputError(
            f"allow must be a list of classes and functions, such as [MyFilter], got {allow!r}."
        )
    foreign_parts = list(allow)
    Builder({}, foreign_parts)  # refuses anything else before the file is read
    tensors, notes = read_tensors(path, KIND)
    try:
        net = _build(notes, tensors, foreign_parts)
    except ForeignPartError:
        raise
    except Exception as error:  # anything can be raised while a forged architecture is built
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise DamagedFileError(
            f"{path} describes no network of this library ({reason})."
        ) from error
    return net.eval()


def _build(
    notes: Any, tensors: dict[str, torch.Tensor], foreign_parts: list[Foreign]
) -> nn.Configured:
    """The network of the notes and tensors of a file."""
    _require_plausible(notes, tensors)
    net = Builder(tensors, foreign_parts).build(notes)
    if not isinstance(net, nn.Configured):
        raise InvalidInputError(f"got {type(net).__name__}")
    weights = {}
    for name, tensor in tensors.items():
        if not name.startswith(TENSOR_PREFIX):
            # aligned in memory as it was, not as in the file: sums are the same, bit by bit
            weights[name] = tensor.clone()
    _check_weights(net, weights)
    net.load_state_dict(weights, assign=True)
    return net


def _contents(net: nn.Configured) -> tuple[dict[str, torch.Tensor], Any]:
    """The tensors and notes of the file of a network."""
    if not isinstance(net, nn.Configured):
        raise InvalidInputError(
            f"save takes a network of tangentbundle.nn or a class derived from nn.Configured, got "
            f"{type(net).__name__}. Of replicas, save nets[0] and so on."
        )
    notes, description = describe(net)
    tensors = {**net.state_dict(), **description.tensors}
    _require_plausible(notes, tensors)
    return tensors, notes


def _require_plausible(notes: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse an architecture with more parts than its numbers explain."""
    num_numbers = sum(tensor.numel() for tensor in tensors.values())
    max_parts = FREE_PARTS + PARTS_PER_NUMBER * num_numbers
    if count_parts(notes) > max_parts:
        raise InvalidInputError(
            f"its architecture has more parts than its {num_numbers} numbers allow, {max_parts}"
        )


def _check_weights(net: nn.Configured, tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse weights that are not finite, or not all float32 or all float64; only buffers may be
    whole numbers."""
    whole_buffers = {name for name, buffer in net.named_buffers() if not buffer.is_floating_point()}
    dtypes = set()
    for name, tensor in tensors.items():
        if name not in whole_buffers or tensor.is_floating_point():
            dtypes.add(tensor.dtype)
    if len(dtypes) > 1 or not dtypes <= set(FLOATS):
        raise DTypeError(
            f"weights must be all float32 or all float64, got {dtypes}. Convert them: net.float()."
        )
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise NonFiniteError(
                f"weights must be finite, but {name} has NaN or infinity. Train the network again."
            )
