"""Restriction maps from numbers: what they are, their derivatives, and what fits."""

import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import ShapeError

ROTATIONS = [tb.nn.Cayley(), tb.nn.MatrixExponential()]
ORTHOGONAL = [*ROTATIONS, tb.nn.Householder()]


def numbers(kind, d, *batch, scale=1.0):
    noise = torch.Generator().manual_seed(d)
    return scale * torch.randn(*batch, kind.count(d), generator=noise, dtype=torch.float64)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("kind", ORTHOGONAL, ids=repr)
def test_maps_are_orthogonal(kind, d):
    """Far from zero, too; the determinant is that of a product of rotations or of d - 1
    reflections."""
    for scale in (0.0, 1.0, 30.0):
        maps = kind(numbers(kind, d, 2, 7, scale=scale), d)
        assert maps.shape == (2, 7, d, d)
        torch.testing.assert_close(
            maps.mT @ maps, torch.eye(d, dtype=torch.float64).expand_as(maps)
        )
        sign = (-1.0) ** (d - 1) if isinstance(kind, tb.nn.Householder) else 1.0
        torch.testing.assert_close(
            torch.linalg.det(maps), torch.full((2, 7), sign, dtype=torch.float64)
        )


@pytest.mark.parametrize("d", [2, 3, 4])
def test_both_rotations_agree_along_a_line(d):
    """The Cayley transform of A has the angles 2 atan of those of A: for planes exp(2 atan(a)
    J)."""
    small = 1e-4 * numbers(tb.nn.Cayley(), d, 5)
    torch.testing.assert_close(
        tb.nn.Cayley()(small, d), tb.nn.MatrixExponential()(2 * small, d), atol=1e-10, rtol=0
    )
    angle = torch.tensor([[0.7]], dtype=torch.float64)
    expected = tb.nn.MatrixExponential()(2 * angle.atan(), 2)
    torch.testing.assert_close(tb.nn.Cayley()(angle, 2), expected)


def test_plain_maps():
    entries = torch.arange(4.0)
    assert tb.nn.General()(entries, 2).tolist() == [[1.0, 1.0], [2.0, 4.0]]
    assert torch.equal(tb.nn.Diagonal()(entries, 4), torch.diag(1 + entries))


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", [*ORTHOGONAL, tb.nn.General(), tb.nn.Diagonal()], ids=repr)
def test_derivatives(kind, d):
    """At zero, too, where initial maps often are."""
    for scale in (0.0, 1.0):
        at = numbers(kind, d, 3, scale=scale).requires_grad_()
        assert at.numel() == 0 or torch.autograd.gradcheck(lambda x: kind(x, d), at)
    with pytest.raises(ShapeError, match=f"takes {kind.count(d)} numbers"):
        kind(torch.zeros(3, kind.count(d) + 1), d)
