"""What ``fit`` refuses before it begins."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..arrays import positive
from ..errors import InvalidInputError, NotSavedWarning, warn
from ..nn import Configured
from ..saving import require_saveable
from .checkpoint import Checkpoint
from .losses import require_function
from .replicas import Replicas

MAX_RATE = 1e6
"""Largest learning rate: torch's optimisers overflow beyond."""


def trained_parameters(net: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters of a network that training changes."""
    parameters = [p for p in net.parameters() if p.requires_grad]
    if not parameters:
        raise InvalidInputError(f"{type(net).__name__} has no parameters to train.")
    return parameters


def make_optimizer(
    make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer] | None,
    parameters: list[torch.nn.Parameter],
    lr: float,
) -> torch.optim.Optimizer:
    """The optimiser of the parameters: Adam with rate ``lr``, or what ``make`` makes of them."""
    rate = positive(lr, "lr")
    if rate > MAX_RATE:
        raise InvalidInputError(
            f"lr must be at most 1e6, got {rate:g}. Useful rates lie far below 1."
        )
    if make is None:
        return torch.optim.Adam(parameters, lr=rate, foreach=True)
    require_function_or_optimizer(make)
    optimizer = make(parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidInputError(
            "optimizer must be a function from parameters to an optimiser, such as "
            f"lambda p: torch.optim.SGD(p, lr=0.1), but it returned {optimizer!r:.80}."
        )
    require_parameters_of(optimizer, parameters)
    return optimizer


def require_function_or_optimizer(make: Any) -> None:
    """Refuse what cannot be called; a class of optimisers can."""
    if not isinstance(make, type):
        require_function(make, "optimizer")


def require_parameters_of(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]
) -> None:
    """Refuse an optimiser that has no parameter of the network: nothing would be learned."""
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not any(id(p) in trained for p in parameters):
        raise InvalidInputError(
            f"{type(optimizer).__name__} has no parameter of the network. Make it of the "
            "parameters that the function is given: optimizer=lambda p: torch.optim.SGD(p, lr=0.1)."
        )


def takes_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimiser evaluates the loss itself, several times a step, as LBFGS does."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def require_separate_steps(
    optimizer: torch.optim.Optimizer, net: torch.nn.Module, checkpoint: Checkpoint | None
) -> None:
    """Refuse optimisers that evaluate the loss themselves where that is not possible."""
    if not takes_closure(optimizer):
        return
    name = type(optimizer).__name__
    if isinstance(net, Replicas):
        raise InvalidInputError(
            f"{name} chooses one step for all parameters, and replicas need their "
            "own. Train the networks one by one, or use an optimiser such as Adam."
        )
    if checkpoint is not None:
        raise InvalidInputError(
            f"checkpoints cannot hold the history of {name}. Leave checkpoint out, "
            "or use an optimiser such as Adam."
        )


def check_saveable(net: torch.nn.Module, checkpoint: Checkpoint | None) -> None:
    """Refuse a network that ``save`` would refuse if there are checkpoints; warn of it
    otherwise."""
    network = net.skeleton if isinstance(net, Replicas) else net
    if not isinstance(network, Configured):
        return
    if checkpoint is not None:
        require_saveable(network)
        return
    try:
        with warnings.catch_warnings():
            # attributes that are not in the file are a matter for those who save
            warnings.simplefilter("ignore", NotSavedWarning)
            require_saveable(network)
    except InvalidInputError as error:
        warn(
            f"{error} It can be trained; its weights alone are net.state_dict().",
            NotSavedWarning,
        )


def hidden_numbers(batch: Any, parameters: Sequence[torch.Tensor]) -> float:
    """Numbers in a hidden signal, more or less: the largest tensor of a batch times the channels of
    a layer."""
    if not isinstance(batch, (list, tuple)):
        return math.inf  # unknown
    largest = max((value.numel() for value in batch if isinstance(value, torch.Tensor)), default=0)
    return largest * max(max(p.shape, default=1) for p in parameters)
