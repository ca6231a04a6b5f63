"""Many copies of one small network, trained together as one batched problem."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import torch
from torch.func import functional_call, stack_module_state

from ..arrays import positive_integer
from ..errors import InvalidInputError


class Replicas(torch.nn.Module):
    """Independent copies of a network as one module: parameters ``(replicas, ...)``, signals
    ``(replicas, ...)``.

    Everything but the first argument of ``forward`` (operators, above all) is shared. Gradients do
    not mix: training the sum of the replicas' losses trains each as if alone. Networks with buffers
    are refused.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Torus().sample(200, seed=0).astype("float32")
    ... ).laplacian()
    >>> nets = tb.training.Replicas(lambda seed: tb.nn.TNN([1, 4, 1], seed=seed), count=5)
    >>> nets(torch.randn(5, 200, 2, 1), lap).shape, nets[3](torch.randn(200, 2, 1), lap).shape
    (torch.Size([5, 200, 2, 1]), torch.Size([200, 2, 1]))
    """

    _skeleton: torch.nn.Module

    def __init__(self, make: Callable[[int], torch.nn.Module], count: int, seed: int = 0) -> None:
        super().__init__()
        nets = [make(seed + r) for r in range(positive_integer(count, "count"))]
        parameters, buffers = stack_module_state(nets)
        if buffers:
            raise InvalidInputError(
                f"replicas of {type(nets[0]).__name__} would share its buffers {list(buffers)}."
            )
        # its weights are never used, nor listed among the parameters of this module
        object.__setattr__(self, "_skeleton", nets[0].to("meta"))
        self.names = list(parameters)
        self.stacked = torch.nn.ParameterList()
        for stack in parameters.values():
            trains = stack.requires_grad
            self.stacked.append(torch.nn.Parameter(stack.detach(), requires_grad=trains))

    def forward(self, x: torch.Tensor, *shared: Any) -> Any:
        if len(x) != len(self):
            raise InvalidInputError(
                f"{len(self)} replicas need inputs ({len(self)}, ...), got {tuple(x.shape)}."
            )

        def evaluate(parameters: dict[str, torch.Tensor], own_x: torch.Tensor) -> Any:
            return functional_call(self._skeleton, parameters, (own_x, *shared))

        return torch.vmap(evaluate)(dict(zip(self.names, self.stacked, strict=True)), x)

    def train(self, mode: bool = True) -> Self:
        """Set the mode of all replicas, which is that of the skeleton."""
        self._skeleton.train(mode)
        return super().train(mode)

    @property
    def skeleton(self) -> torch.nn.Module:
        """One of the networks, without weights."""
        return self._skeleton

    def __len__(self) -> int:
        return len(self.stacked[0])

    def __getitem__(self, replica: int) -> Any:
        """One of the networks, on its own."""
        if not -len(self) <= replica < len(self):
            raise IndexError(f"replica {replica} of {len(self)}")
        own_weights = {}
        for name, stack in zip(self.names, self.stacked, strict=True):
            own_weights[name] = stack[replica].detach().clone()
        net = copy.deepcopy(self._skeleton)
        net.load_state_dict(own_weights, assign=True)
        return net

    def extra_repr(self) -> str:
        each = sum(p[0].numel() for p in self.stacked)
        return f"{len(self)} of {type(self._skeleton).__name__}, {each} parameters each"
