"""Losses: functions of a prediction and its target, or of a network and a batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ..errors import InvalidInputError, ShapeError


def squared_error(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean squared error, the default loss of ``fit``.

    >>> squared_error(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]))
    tensor(2.)
    """
    if not isinstance(prediction, torch.Tensor) or prediction.shape != target.shape:
        shape = getattr(prediction, "shape", type(prediction).__name__)
        raise ShapeError(
            f"the network returns {shape}, the target is {target.shape}. Make them equal, or give "
            "a loss= of your own."
        )
    return (prediction - target).square().mean()


class BatchLoss:
    """A loss that needs more than a prediction and its target: a function of the network and a
    batch, which may be anything.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Torus().sample(200, seed=0).astype("float32")
    ... ).laplacian()
    >>> x = torch.randn(200, 2, 1, generator=torch.Generator().manual_seed(0))
    >>> def error_and_size(net, batch):
    ...     size = sum(p.square().sum() for p in net.parameters())
    ...     return (net(batch, lap) - 0.5 * batch).square().mean() + 1e-3 * size
    >>> net = tb.nn.TNN([1, 4, 1])
    >>> tb.fit(net, [x], tb.training.BatchLoss(error_and_size), epochs=5, progress=False).epochs
    5
    """

    def __init__(self, function: Callable[[Any, Any], torch.Tensor]) -> None:
        require_function(function, "the function of a BatchLoss")
        self.function = function

    def __call__(self, net: torch.nn.Module, batch: Any) -> torch.Tensor:
        try:
            return self.function(net, batch)
        except TypeError as error:
            if can_be_called(self.function, net, batch):
                raise  # an error in the loss itself, which its traceback shows best
            raise InvalidInputError(
                "the function of a BatchLoss is called as function(net, batch), and this one "
                f"takes other arguments ({error})."
            ) from error


class PredictionLoss:
    """The loss of batches by a function of their prediction and target."""

    def __init__(self, function: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        require_function(function, "loss")
        self.function = function

    def __call__(self, net: torch.nn.Module, batch: Any) -> torch.Tensor:
        prediction, target = predict_batch(net, batch)
        try:
            return self.function(prediction, target)
        except Exception as error:
            if not can_be_called(self.function, prediction, target):
                raise wrong_loss(f"it takes other arguments ({error})") from error
            if self._takes_batches(net, batch):
                raise wrong_loss("it takes a network and a batch") from error
            raise  # an error in the loss itself, which its traceback shows best

    def _takes_batches(self, net: torch.nn.Module, batch: Any) -> bool:
        """Whether the function gives a number for a network and a batch."""
        with torch.no_grad():
            try:
                return isinstance(self.function(net, batch), torch.Tensor)
            except Exception:  # whatever is wrong, it is not that
                return False


Loss = Callable[[Any, torch.Tensor], torch.Tensor] | BatchLoss
"""What ``fit`` takes as a loss."""


class Objective:
    """The loss of a network on batches: one number, or one for each replica."""

    def __init__(self, net: torch.nn.Module, loss: Loss, shape: tuple[int, ...]) -> None:
        self.net = net
        self.loss = loss if isinstance(loss, BatchLoss) else PredictionLoss(loss)
        self.shape = shape

    def __call__(self, batch: Any) -> torch.Tensor:
        losses = self.loss(self.net, batch)
        if isinstance(losses, torch.Tensor) and losses.shape == self.shape:
            return losses
        answer = losses.shape if isinstance(losses, torch.Tensor) else repr(losses)
        raise InvalidInputError(
            f"expected a loss of shape {self.shape}, one for each replica, got {answer}. A loss is "
            "called as loss(prediction, target), and tb.training.BatchLoss(function) as "
            "function(net, batch)."
        )


def predict_batch(net: torch.nn.Module, batch: Any) -> tuple[Any, torch.Tensor]:
    """The prediction and the target of a batch: ``net(*inputs)`` of one ``(*inputs, target)``,
    ``net(batch)`` of one with the target ``batch.y``, as PyTorch Geometric has them."""
    if isinstance(batch, (tuple, list)):
        if len(batch) >= 2 and isinstance(batch[-1], torch.Tensor):
            *inputs, target = batch
            return net(*inputs), target
    elif isinstance(getattr(batch, "y", None), torch.Tensor):
        return net(batch), batch.y
    raise InvalidInputError(
        "expected batches (*inputs, target) with a tensor as target: data=[(x, lap, target), "
        "...], or batches of PyTorch Geometric with a target batch.y. Of other batches the loss "
        "is a function of network and batch: loss=tb.training.BatchLoss(function)."
    )


def require_function(function: Any, name: str) -> None:
    """Refuse what cannot be called, and a class where an object of it was meant, such as
    ``torch.nn.MSELoss``."""
    if isinstance(function, type):
        raise InvalidInputError(
            f"{name} must be a function, got the class {function.__name__}. Make an object of it, "
            f"such as {function.__name__}()."
        )
    if not callable(function):
        raise InvalidInputError(f"{name} must be a function, got {function!r}.")


def can_be_called(function: Callable, *arguments: Any) -> bool:
    """Whether a function takes so many arguments; those that have no signature may."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def wrong_loss(reason: str) -> InvalidInputError:
    """The error about a loss that is no function of a prediction and a target."""
    return InvalidInputError(
        f"this loss cannot be called as loss(prediction, target): {reason}. A loss is a function "
        "of the prediction net(*inputs) and the target of a batch (*inputs, target), such as those "
        "of torch.nn.functional; if yours is one of the network and a batch, use "
        "loss=tb.training.BatchLoss(function)."
    )
