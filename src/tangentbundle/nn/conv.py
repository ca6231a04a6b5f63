r"""The layer of a tangent bundle network: a bank of filters between all pairs of channels.

.. math:: Y = \sum_{k=0}^{K-1} h_k(\Delta)\, X H_k, \qquad X \in \mathbb{R}^{nd \times F}, \;
          H_k \in \mathbb{R}^{F \times G},

the linear part of the paper's matrix form. With powers of the shift operator,
:math:`h_k(\Delta) = (e^{T_s\Delta})^k`, it is a layer of a DD-TNN, sampled in space and time; with
filters in continuous time, one of a D-TNN, sampled in space. The operator is an argument of
``forward``: weights belong to no cloud.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..arrays import positive, positive_integer
from ..errors import InvalidInputError
from ..filters import (
    Chebyshev,
    Dense,
    Exact,
    Filter,
    Heat,
    Method,
    Spectral,
)
from ..operators import SquareOperator
from ..operators.methods import method_with_gradients
from .base import Configured, checked, generator, part, uniform

DENSE_SIZE = 2_000
"""Up to this many rows (n d) of a bundle the filters' matrices are computed and cached."""


def network_method(operator: SquareOperator, filters: Sequence[Filter] = ()) -> Method:
    """Matrices for small operators, or eigenfields where filters learn; otherwise Chebyshev.

    Operators that learn always have Chebyshev.
    """
    largest = max(operator.sizes) * operator.rank
    padded = (
        len(operator.sizes) * largest**2
    )  # a joined operator's matrices all have the size of the largest
    if largest > DENSE_SIZE or padded > 50 * DENSE_SIZE**2:
        return Chebyshev()
    if operator.requires_grad:
        return method_with_gradients(operator)
    fixed = all(f.signature() is not None for f in filters)
    return Dense() if fixed else Exact()


MAX_TAPS = 1000
"""Taps of a layer: each is a filter to evaluate."""


class BundleConv(Configured):
    r"""A bank of tangent bundle filters, ``(..., n, d, in) -> (..., n, d, out)``.

    By default the taps are heat flows. They start at k = 0, the identity, as in the paper's text;
    times are :math:`t_k = k T_s` with ``step`` :math:`T_s`. The recurrence runs on whichever side
    has fewer channels.

    Args:
        filters: the taps instead, any filters of this library; the identity is among them only if
            listed. A field that is a ``torch.nn.Parameter``, such as the time of ``Heat``, or a
            ``torch.nn.Module``, such as the function of ``Spectral``, is learned with the weights.
        method: how filters are evaluated; by default the operator's size decides.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(300, seed=0).astype("float32")
    ... )
    >>> conv = tb.nn.BundleConv(1, 8, taps=3, step=0.1)
    >>> conv(torch.randn(5, 300, 2, 1), bundle.laplacian()).shape, conv.num_parameters
    (torch.Size([5, 300, 2, 8]), 24)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        taps: int = 2,
        step: float = 1.0,
        *,
        filters: Sequence[Filter] | None = None,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.in_channels = positive_integer(in_channels, "in_channels")
        self.out_channels = positive_integer(out_channels, "out_channels")
        if filters is not None and not (filters and all(isinstance(f, Filter) for f in filters)):
            raise InvalidInputError(
                f"filters must be a list such as [Heat(0.1), Tikhonov(2.0)], got {filters!r}."
            )
        self.taps = positive_integer(taps, "taps") if filters is None else len(filters)
        if self.taps > MAX_TAPS:
            raise InvalidInputError(
                f"a layer has at most {MAX_TAPS} taps, got {taps}. Use a larger step instead."
            )
        self.method, self.step = part(method, None, Method, "Chebyshev()"), positive(step, "step")
        shape, source = (self.taps, self.in_channels, self.out_channels), generator(seed)
        self.weight = uniform(*shape, fan_in=self.taps * self.in_channels, source=source)
        heats = [Heat(k * self.step) for k in range(1, self.taps)]  # after the identity
        self.bank: Sequence[Filter] = heats if filters is None else filters
        learned = learned_parts(self.bank)
        parameters = [item for item in learned if isinstance(item, torch.nn.Parameter)]
        functions = [item for item in learned if isinstance(item, torch.nn.Module)]
        self.learned = torch.nn.ParameterList(parameters) if parameters else None
        self.functions = torch.nn.ModuleList(functions) if functions else None
        require_registered(self.bank, learned)

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        x, weight = checked(x, operator, self.in_channels, self.weight), self.weight
        if not self.bank:
            return x @ weight[0]
        filters = self._filters()
        method = self.method or network_method(operator, filters)
        identity = self.taps - len(filters)  # one where the taps are heat flows
        if self.in_channels <= self.out_channels:
            taps = torch.cat([x][:identity] + operator.evaluate(filters, x, method), dim=-1)
            return taps @ weight.flatten(0, 1)
        mixed = (x @ weight.movedim(0, 1).flatten(1)).split(self.out_channels, dim=-1)
        return sum(mixed[:identity], operator.merge(filters, mixed[identity:], method))

    def _filters(self) -> Sequence[Filter]:
        """The bank with the parameters that are registered now; modules are registered
        themselves."""
        if not self.learned:
            return self.bank
        learned = iter(self.learned)
        return with_parameters(
            self.bank, lambda item: next(learned) if isinstance(item, torch.nn.Parameter) else item
        )

    def extra_repr(self) -> str:
        kind = (
            f"step {self.step:g}"
            if len(self.bank) < self.taps
            else ", ".join(type(f).__name__ for f in self.bank)
        )
        return (
            f"{self.in_channels} -> {self.out_channels}, {self.taps} taps, {kind}, "
            f"{self.num_parameters} parameters"
        )


Learned = torch.nn.Parameter | torch.nn.Module


def with_parameters(value: Any, replace: Callable[[Any], Any]) -> Any:
    """A filter (or a field of one) with every ``Parameter`` and ``Module`` in its fields replaced,
    in one order."""
    if isinstance(value, Learned):
        return replace(value)
    if isinstance(value, Spectral) and value.tensors:
        raise InvalidInputError(
            f"a layer cannot learn the tensors of {value}, which its function holds. Use "
            "Spectral(module) with a torch.nn.Module, or write a dataclass derived from Filter "
            "with the parameter as a field."
        )
    if isinstance(value, (tuple, list)):
        return type(value)(with_parameters(item, replace) for item in value)
    if not isinstance(value, Filter):
        return value
    changed = copy.copy(value)
    vars(changed).update(
        {name: with_parameters(field, replace) for name, field in vars(value).items()}
    )
    return changed


def learned_parts(filters: Sequence[Filter]) -> list[Learned]:
    """The parameters and modules among the fields of filters."""
    parts: list[Learned] = []

    def collect(item: Learned) -> Learned:
        parts.append(item)
        return item

    with_parameters(filters, collect)
    return parts


def require_registered(filters: Sequence[Filter], learned: Sequence[Learned]) -> None:
    """Refuse filters that depend on parameters which a layer cannot register: Python functions may
    hold some.

    The graph of the response, as automatic differentiation records it, shows all of them.
    """
    registered: set[int] = set()
    for item in learned:
        members = item.parameters() if isinstance(item, torch.nn.Module) else [item]
        registered.update(id(member) for member in members)
    for filter in filters:
        devices = [p.device for p in filter.parameters() if isinstance(p, torch.Tensor)]
        if torch.get_default_device().type == "meta" or any(
            device.type == "meta" for device in devices
        ):
            continue  # a network that is being read from a file
        try:
            with torch.inference_mode(False), torch.enable_grad():
                device = devices[0] if devices else torch.device("cpu")
                response = filter.evaluate(
                    torch.tensor([0.0, 1.0], dtype=torch.float64, device=device)
                )
        except RuntimeError as error:
            raise InvalidInputError(
                f"{filter!r:.80} cannot be evaluated at float64 eigenvalues ({error}). A "
                "torch.nn.Module is converted if it is given itself, as in Spectral(module)."
            ) from error
        unregistered = [leaf for leaf in leaves(response) if id(leaf) not in registered]
        if any(isinstance(leaf, torch.nn.Parameter) for leaf in unregistered):
            raise InvalidInputError(
                f"{filter!r:.80} depends on a torch.nn.Parameter that a layer cannot learn, "
                "because a Python function holds it. Give the torch.nn.Module itself, as in "
                "Spectral(module) or ImpulseResponse(module), or write a dataclass derived from "
                "Filter with the parameter as a field."
            )
        if unregistered:
            raise InvalidInputError(
                f"{filter!r:.80} depends on a tensor with requires_grad=True that is no "
                "torch.nn.Parameter: net.parameters() would not list it, and it would not learn. "
                "Wrap it, as in Heat(torch.nn.Parameter(t)), or detach it, t.detach(), if it is to "
                "stay as it is."
            )


def leaves(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors with gradients that a tensor was computed from."""
    found = []
    seen = set()
    waiting = [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        waiting.extend(parent for parent, _ in node.next_functions)
    return found
