"""What layers on graphs do with their inputs: checks, precision, and graphs that are cached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ..arrays import finite_where_seen, half_precision, outside_autocast
from ..errors import DTypeError, InvalidInputError, ShapeError
from ..operators import SheafGraph
from ..transforms import count_changes
from .base import require_full_precision


def outside_graphs(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that ``torch.compile`` does not look into, since it builds operators, which have
    caches.

    Autocast does not reach into it either, and signals in half precision become float32:
    restriction maps and degrees are inverted.
    """

    @wraps(method)
    def call(self: Any, x: Any, *args: Any, **options: Any) -> Any:
        function = method
        if torch.compiler.is_compiling():
            function = torch.compiler.disable(method)
        if not isinstance(x, Tensor):
            return function(self, x, *args, **options)
        widened_args = [widened(value) for value in args]
        widened_options = {name: widened(value) for name, value in options.items()}
        with outside_autocast(x.device):
            return function(self, widened(x), *widened_args, **widened_options)

    return call


def widened(value: Any) -> Any:
    """Tensors in float16 or bfloat16 as float32, anything else as it is."""
    if half_precision(value) is None:
        return value
    return torch.as_tensor(value).float()


@dataclass(frozen=True, eq=False)
class CachedResult:
    """A result, what it was computed from, and the arguments, which stay, and so do their ids."""

    key: tuple
    value: Any
    arguments: tuple


class Remembered:
    """A function whose last result is cached while its first tensor lives, and no argument changes
    or has gradients.

    >>> count = Remembered(lambda edges, n: print("computed") or n)
    >>> edges = torch.tensor([[0, 1], [1, 2]])
    >>> count(edges, 3), count(edges, 3)
    computed
    (3, 3)
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.results = WeakTensorKeyDictionary()

    def __call__(self, first: Tensor, *others: Any) -> Any:
        if not isinstance(first, Tensor):
            raise InvalidInputError(
                f"layers take torch tensors, such as edge_index (2, e), got {type(first)}."
            )
        if any(_is_uncacheable(value) for value in (first, *others)):
            return self.function(first, *others)
        key = (count_changes(first), *[_identity_of(value) for value in others])
        result = self.results.get(first)
        if result is None or result.key != key:
            with torch.inference_mode(False):  # a cached result must serve training, too
                value = self.function(first, *others)
            result = CachedResult(key, value, others)
            self.results[first] = result
        return result.value


def _is_uncacheable(value: Any) -> bool:
    """Whether a result would need gradients in a value, or torch does not count its changes."""
    if not isinstance(value, Tensor):
        return False
    return value.requires_grad or value.is_inference()


def _identity_of(value: Any) -> Any:
    """What tells whether an argument is the one of the last call, unchanged."""
    if isinstance(value, Tensor):
        return id(value), count_changes(value)
    return value


@Remembered
def graph_of(edge_index: Tensor, n: int) -> SheafGraph:
    """The graph of ``edge_index`` (2, e) on n nodes."""
    return SheafGraph.from_edge_index(edge_index, n, edge_index.device)


def check_features(x: Tensor, weight: Tensor, channels: int, name: str) -> Tensor:
    """Features ``(n, channels)`` of nodes that fit the weights of a first layer; named errors
    otherwise."""
    require_full_precision(weight)
    if not isinstance(x, Tensor):
        raise ShapeError(
            f"{name} takes a tensor x (n, {channels}), features of nodes, got {type(x)} "
            f"{np.shape(x)}."
        )
    if x.ndim != 2 or x.shape[1] != channels:
        raise ShapeError(
            f"{name} takes x (n, {channels}), features of nodes, got {tuple(x.shape)}."
        )
    x = widened(x)
    if x.dtype != weight.dtype:
        raise DTypeError(f"{name} is {weight.dtype} but x {x.dtype}. Convert one: net.to(x.dtype).")
    return finite_where_seen(x, "x")
