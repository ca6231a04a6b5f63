"""What networks on functions and vector fields act through: Laplacians and first derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, cast

import torch

from ..bundle import TangentBundle
from ..calculus import Derivatives, LinearMap
from ..errors import InvalidInputError
from ..operators import Joined, Laplacian, join


@dataclass(frozen=True, eq=False)
class MixedOperators:
    """What a ``MixedTNN`` acts through: two Laplacians and two first derivatives on one bundle.

    On an oriented surface there is an ``orientation`` (n,), too: the sign of each frame, with which
    all turn the same way round.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(300, seed=0))
    >>> MixedOperators.of(bundle).jacobian
    LinearMap(300 points, rank 2 to rank 4, float64, cpu)
    """

    functions: Laplacian | Joined
    fields: Laplacian | Joined
    gradient: LinearMap
    jacobian: LinearMap
    orientation: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        bundle: TangentBundle,
        degree: int = 2,
        neighbors: int | None = None,
        *,
        oriented: bool = False,
    ) -> MixedOperators:
        """The operators of a bundle.

        Fits are quadratic by default, whereas the default of ``calculus.Derivatives`` depends on
        the number of points: weights learned on few points act through the same derivatives on
        many.

        Args:
            degree, neighbors: of the fits, as of ``calculus.Derivatives``.
            oriented: whether to orient the surface, for networks with ``oriented=True``; the
                orientation is that of ``curl()``.
        """
        derivatives = Derivatives(bundle, degree, neighbors)
        orientation = None
        if oriented:
            signs = bundle.cloud.in_user_order(derivatives.signs)
            orientation = signs.to(bundle.kind.device, bundle.kind.dtype)
        return cls(
            functions=bundle.scalar().laplacian(),
            fields=bundle.laplacian(),
            gradient=derivatives.gradient(),
            jacobian=derivatives.jacobian(),
            orientation=orientation,
        )

    @classmethod
    def join(cls, operators: Sequence[MixedOperators]) -> MixedOperators:
        """The operators of several bundles as one, on signals that follow each other.

        >>> import tangentbundle as tb
        >>> clouds = [tb.manifolds.Sphere(2).sample(n, seed=0) for n in (80, 120)]
        >>> bundles = [tb.TangentBundle.from_points(cloud, dim=2) for cloud in clouds]
        >>> MixedOperators.join([MixedOperators.of(bundle) for bundle in bundles]).fields.sizes
        (80, 120)
        """
        orientations = [part.orientation for part in operators if part.orientation is not None]
        if len(orientations) not in (0, len(operators)):
            raise InvalidInputError(
                f"{len(orientations)} of {len(operators)} operators are oriented. Join those that "
                "all are, MixedOperators.of(bundle, oriented=True), or none."
            )
        return cls(
            functions=_join([part.functions for part in operators]),
            fields=_join([part.fields for part in operators]),
            gradient=LinearMap.join([part.gradient for part in operators]),
            jacobian=LinearMap.join([part.jacobian for part in operators]),
            orientation=torch.cat(orientations) if orientations else None,
        )

    @cached_property
    def dimensionless(self) -> MixedOperators:
        """The operators in units of the extent of each cloud, see ``Laplacian.dimensionless``."""
        laplacians = cast(tuple[Laplacian, ...], self.fields.parts)
        extents = [
            torch.full((laplacian.num_points,), laplacian.extent, dtype=torch.float64)
            for laplacian in laplacians
        ]
        lengths = torch.cat(extents)
        return replace(
            self,
            functions=self.functions.dimensionless,
            fields=self.fields.dimensionless,
            gradient=self.gradient.scaled(lengths),
            jacobian=self.jacobian.scaled(lengths),
        )

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """The same operators on another device or in another precision."""
        orientation = self.orientation
        if orientation is not None:
            orientation = orientation.to(device=device, dtype=dtype)
        return replace(
            self,
            functions=self.functions.to(device, dtype),
            fields=self.fields.to(device, dtype),
            gradient=self.gradient.to(device, dtype),
            jacobian=self.jacobian.to(device, dtype),
            orientation=orientation,
        )

    # Derivatives of signals, which autocast may have brought to half precision.

    def gradient_of(self, s: torch.Tensor) -> torch.Tensor:
        """The gradients ``(..., n, d, c)`` of functions ``(..., n, 1, c)``."""
        return _derivative(self.gradient, s)

    def jacobian_of(self, v: torch.Tensor) -> torch.Tensor:
        """The covariant derivatives ``(..., n, d, d, c)`` of fields ``(..., n, d, c)``: component,
        direction, channel."""
        rank = v.shape[-2]
        return _derivative(self.jacobian, v).unflatten(-2, (rank, rank))

    def turn(self, v: torch.Tensor) -> torch.Tensor:
        """J v: the fields of an oriented surface turned by a right angle."""
        x, y = v.unbind(-2)
        return self._signs(v) * torch.stack([-y, x], dim=-2)

    def curl(self, jacobian: torch.Tensor) -> torch.Tensor:
        """The vorticity ``(..., n, 1, c)`` of fields with covariant derivatives
        ``(..., n, 2, 2, c)``."""
        rotation = jacobian[..., 1, 0, :] - jacobian[..., 0, 1, :]
        return self._signs(jacobian) * rotation.unsqueeze(-2)

    def _signs(self, like: torch.Tensor) -> torch.Tensor:
        """The signs of the frames, ``(n, 1, 1)``."""
        if self.orientation is None:
            raise InvalidInputError(
                "this network turns fields by a right angle, and its operators have no "
                "orientation: use MixedOperators.of(bundle, oriented=True)."
            )
        return self.orientation[:, None, None].to(like)


def _join(laplacians: Sequence[Laplacian | Joined]) -> Joined:
    joined = join(laplacians)
    assert isinstance(joined, Joined), "Laplacians are joined to a Laplacian"
    return joined


def _derivative(derivative: LinearMap, x: torch.Tensor) -> torch.Tensor:
    tensor, kind = derivative.check(x)
    return kind.wrap(derivative.apply(tensor))
