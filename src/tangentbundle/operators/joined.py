"""Several bundles as one: a block-diagonal operator, for training on many clouds of different
sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch

from ..errors import DeviceError, DTypeError, InvalidInputError, ShapeError
from .base import SquareOperator
from .laplacian import Laplacian
from .semigroup import Identity


def join(operators: Sequence[SquareOperator]) -> Joined | Identity:
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
    if isinstance(operators, SquareOperator):
        raise InvalidInputError("join takes a list of operators, got a single one.")
    flat: list = []
    for operator in operators:
        if isinstance(operator, SquareOperator):
            flat.extend(operator.parts)
        else:
            flat.append(operator)
    if not flat:
        raise InvalidInputError("join needs at least one operator, got an empty list.")
    for operator in flat:
        _require_alike(operator, flat[0])
    if isinstance(flat[0], Identity):
        return _joined_identities(flat)
    return Joined(tuple(flat))


def _require_alike(part: SquareOperator, first: SquareOperator) -> None:
    """Refuse an operator that cannot be joined with the first one."""
    if not isinstance(part, Laplacian | Identity) or type(part) is not type(first):
        raise InvalidInputError(
            "join takes operators of one kind, Laplacians or identities, got "
            f"{type(first).__name__} and {type(part).__name__}."
        )
    if part.rank != first.rank:
        raise ShapeError(
            f"joined bundles must have fibres of one dimension, got {first.rank} and {part.rank}."
        )
    if part.dtype != first.dtype:
        raise DTypeError(
            f"joined operators must share a dtype, got {first.dtype} and {part.dtype}: use .to()."
        )
    if part.device != first.device:
        raise DeviceError(
            f"joined operators must share a device, got {first.device} and {part.device}: use "
            ".to()."
        )


def _joined_identities(identities: Sequence[Identity]) -> Identity:
    """The identity on the points of all."""
    sizes: tuple[int, ...] = ()
    for identity in identities:
        sizes += identity.sizes
    with torch.inference_mode(False):
        mass = torch.cat([identity.mass for identity in identities])
    any_precision = all(identity.any_precision for identity in identities)
    return Identity(mass, identities[0].rank, sizes, any_precision)


class Joined(SquareOperator):
    """A block-diagonal operator; make it with ``join``. The mass of each part sums to one."""

    has_fast_products = True

    def __init__(self, parts: tuple[Laplacian, ...]) -> None:
        self._parts = parts
        self.rank = parts[0].rank
        with torch.inference_mode(False), torch.enable_grad():
            self.mass = torch.cat([part.mass for part in parts])

    def __repr__(self) -> str:
        return (
            f"Joined({len(self.parts)} bundles, {self.num_points} points in all, rank {self.rank})"
        )

    @property
    def parts(self) -> tuple[Laplacian, ...]:
        """The Laplacians, one after the other."""
        return self._parts

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(part.num_points for part in self.parts)

    @cached_property
    def dimensionless(self) -> Joined:
        """Each part in units of its own extent, see ``Laplacian.dimensionless``."""
        return Joined(tuple(part.dimensionless for part in self.parts))

    @property
    def requires_grad(self) -> bool:
        return any(part.requires_grad for part in self.parts)

    @property
    def adjoint(self) -> Joined:
        return self

    @cached_property
    def frames(self) -> torch.Tensor:
        """Tangent bases ``(n, D, d)`` of all parts."""
        frames = [part.frames for part in self.parts]
        dimensions = sorted({bases.shape[1] for bases in frames})
        if len(dimensions) > 1:
            raise ShapeError(
                f"frames of bundles in spaces of different dimensions, {dimensions}, cannot be "
                "joined."
            )
        with torch.inference_mode(False), torch.enable_grad():  # the cache must serve training, too
            return torch.cat(frames)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        self.require_fit(x)
        signals = self.split(x)
        products = [part.apply(signal) for part, signal in zip(self.parts, signals, strict=True)]
        return torch.cat(products, dim=-3)

    def to(
        self,
        device: torch.device | str | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
    ) -> Joined:
        """The same operator on another device or in another precision."""
        return Joined(tuple(part.to(device, dtype) for part in self.parts))

    @property
    def spectral_interval(self) -> tuple[float, float]:
        return 0.0, max(part.spectral_interval[1] for part in self.parts)
