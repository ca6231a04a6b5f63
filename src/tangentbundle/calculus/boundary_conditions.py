"""What the parts of a field do at a boundary."""

from __future__ import annotations

from abc import ABC


class BoundaryCondition(ABC):
    """Which of the two potentials vanishes at the boundary; the other one is free.

    The parts are orthogonal, and the harmonic fields of either condition are as many as the first
    Betti number of a surface: they count its holes.
    """

    potential_vanishes: bool
    stream_vanishes: bool


class NoFlow(BoundaryCondition):
    """Nothing but the gradient flows through the boundary.

    The stream function vanishes at the boundary, so that the rotational and the harmonic part are
    along it. On a sea these are the currents that stay in it.
    """

    potential_vanishes = False
    stream_vanishes = True

    def __repr__(self) -> str:
        return "NoFlow()"


class NoSlip(BoundaryCondition):
    """Nothing but the rotational part runs along the boundary.

    The potential vanishes at the boundary, so that the gradient and the harmonic part are
    perpendicular to it, like an electric field at conductors.
    """

    potential_vanishes = True
    stream_vanishes = False

    def __repr__(self) -> str:
        return "NoSlip()"
