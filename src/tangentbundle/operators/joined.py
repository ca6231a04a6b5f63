"""Several bundles as one: a block-diagonal operator, for training on many clouds of different
sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch

from ..errors import DeviceError, DTypeError, InvalidInputError, ShapeError
from .base import LinearOperator
from .laplacian import ConnectionLaplacian
from .semigroup import Identity


def join(operators: Sequence[LinearOperator]) -> Joined | Identity:
    """One operator on the points of all, one bundle after the other; nothing flows between them.

    Signals are concatenated along the points: ``torch.cat(signals, dim=-3)``, and
    ``operator.split`` takes them apart. Cheap: costly results are cached on the parts or computed
    when first needed.

    >>> import torch, tangentbundle as tb
    >>> clouds = [tb.manifolds.Sphere(2).sample(n, seed=n) for n in (80, 120)]
    >>> parts = [tb.TangentBundle.from_points(c).laplacian() for c in clouds]
    >>> both = tb.join(parts)
    >>> both.sizes, (both @ torch.randn(200, 2, 4, dtype=torch.float64)).shape
    ((80, 120), torch.Size([200, 2, 4]))
    """
    if isinstance(operators, LinearOperator):
        raise InvalidInputError("join takes a list of operators, got a single one.")
    parts = tuple(
        p
        for operator in operators
        for p in (operator.parts if isinstance(operator, Joined) else [operator])
    )
    if not parts:
        raise InvalidInputError("join needs at least one operator, got an empty list.")
    first = parts[0]
    for part in parts:
        if not isinstance(part, (ConnectionLaplacian, Identity)) or type(part) is not type(first):
            raise InvalidInputError(
                "join takes operators of one kind, Laplacians or identities, got "
                f"{type(first).__name__} and {type(part).__name__}."
            )
        if part.rank != first.rank:
            raise ShapeError(
                f"joined bundles must have fibres of one dimension, got {first.rank} and "
                f"{part.rank}."
            )
        if part.dtype != first.dtype:
            raise DTypeError(
                f"joined operators must share a dtype, got {first.dtype} and {part.dtype}: use "
                ".to()."
            )
        if part.device != first.device:
            raise DeviceError(
                f"joined operators must share a device, got {first.device} and {part.device}: use "
                ".to()."
            )
    if isinstance(first, Identity):
        with torch.inference_mode(False):
            mass = torch.cat([part.mass for part in parts])
            sizes = tuple(n for part in parts for n in part.sizes)
            return Identity(mass, first.rank, sizes, all(part.any_precision for part in parts))
    return Joined(parts)  # type: ignore[arg-type]


class Joined(LinearOperator):
    """A block-diagonal operator; make it with ``join``. The mass of each part sums to one."""

    def __init__(self, parts: tuple[ConnectionLaplacian, ...]) -> None:
        self.parts = parts
        self.rank = parts[0].rank
        with torch.inference_mode(False), torch.enable_grad():
            self.mass = torch.cat([p.mass for p in parts])

    def __repr__(self) -> str:
        return (
            f"Joined({len(self.parts)} bundles, {self.num_points} points in all, rank {self.rank})"
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(p.num_points for p in self.parts)

    @property
    def requires_grad(self) -> bool:
        return any(part.requires_grad for part in self.parts)

    @property
    def adjoint(self) -> Joined:
        return self

    @cached_property
    def frames(self) -> torch.Tensor:
        """Tangent bases ``(n, D, d)`` of all parts."""
        frames = [p.frames for p in self.parts]
        dims = sorted({f.shape[1] for f in frames})
        if len(dims) > 1:
            raise ShapeError(
                f"frames of bundles in spaces of different dimensions, {dims}, cannot be joined."
            )
        with torch.inference_mode(False), torch.enable_grad():  # the cache must serve training, too
            return torch.cat(frames)

    @cached_property
    def slots(self) -> torch.Tensor:
        """Where each point lies when every part is padded to the size of the largest, ``(n,)``."""
        size = max(self.sizes)
        with torch.inference_mode(False):
            slots = [b * size + torch.arange(n) for b, n in enumerate(self.sizes)]
            return torch.cat(slots).to(self.device)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        self.require_fit(x)
        return torch.cat(
            [p.apply(piece) for p, piece in zip(self.parts, self.split(x), strict=True)], dim=-3
        )

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Joined:
        """The same operator on another device or in another precision."""
        return Joined(tuple(p.to(device, dtype) for p in self.parts))

    @property
    def spectral_interval(self) -> tuple[float, float]:
        return 0.0, max(p.spectral_interval[1] for p in self.parts)
