"""Many copies of one small network, trained together as one batched problem."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.func import functional_call, stack_module_state

from ..arrays import whole
from ..errors import InvalidInputError
from .base import Configured


class Replicas(torch.nn.Module):
    """Independent copies of a network as one module: parameters ``(replicas, ...)``, signals ``(replicas, ...)``.

    Everything but the first argument of ``forward`` (operators, above all) is shared. Gradients do not mix, so that
    training the sum of the replicas' losses trains each as if alone; their products with the operator become one
    product with many channels.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(tb.manifolds.Torus().sample(200, seed=0).astype("float32")).laplacian()
    >>> nets = tb.nn.Replicas(lambda seed: tb.nn.TNN([1, 4, 1], seed=seed), count=5)
    >>> nets(torch.randn(5, 200, 2, 1), lap).shape, nets[3](torch.randn(200, 2, 1), lap).shape
    (torch.Size([5, 200, 2, 1]), torch.Size([200, 2, 1]))
    """

    _skeleton: Configured

    def __init__(self, make: Callable[[int], Configured], count: int, seed: int = 0) -> None:
        super().__init__()
        nets = [make(seed + r) for r in range(whole(count, "count"))]
        stacked, buffers = stack_module_state(nets)
        object.__setattr__(self, "_skeleton", nets[0].to("meta"))  # its weights are never used, nor found by torch
        self.count = count
        self.names = list(stacked)
        self.stacked = torch.nn.ParameterList(
            [torch.nn.Parameter(p.detach(), requires_grad=p.requires_grad) for p in stacked.values()]
        )
        self.buffer_names = list(buffers)
        for name in self.buffer_names:
            self.register_buffer(_flat(name), buffers[name], persistent=False)

    def forward(self, x: torch.Tensor, *shared: Any) -> Any:
        if x.shape[0] != self.count:
            raise InvalidInputError(f"{self.count} replicas need inputs ({self.count}, ...), got {tuple(x.shape)}.")
        parameters = dict(zip(self.names, self.stacked, strict=True))
        buffers = {name: getattr(self, _flat(name)) for name in self.buffer_names}

        def one(parameters, buffers, x):
            return functional_call(self._skeleton, (parameters, buffers), (x, *shared))

        return torch.vmap(one)(parameters, buffers, x)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, replica: int) -> Configured:
        """One of the networks, on its own."""
        if not -self.count <= replica < self.count:
            raise IndexError(f"replica {replica} of {self.count}")
        net = copy.deepcopy(self._skeleton).to_empty(device=self.stacked[0].device)
        own = dict(net.named_parameters())
        with torch.no_grad():
            for name, tensor in zip(self.names, self.stacked, strict=True):
                own[name].data = tensor[replica].detach().clone()
            for name in self.buffer_names:
                net.get_buffer(name).copy_(getattr(self, _flat(name))[replica])
        return net

    def extra_repr(self) -> str:
        each = sum(p[0].numel() for p in self.stacked)
        return f"{self.count} of {type(self._skeleton).__name__}, {each} parameters each"


def _flat(name: str) -> str:
    return "buffer_" + name.replace(".", "_")
