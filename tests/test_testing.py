"""The shipped checks must themselves be able to fail."""

import numpy as np
import pytest
import torch
from spaces import bundle_of

import tangentbundle as tb
from tangentbundle import SquareOperator
from tangentbundle.calculus import Derivatives
from tangentbundle.errors import InvalidInputError, NonFiniteError, ShapeError
from tangentbundle.manifolds import KleinBottle, Sphere
from tangentbundle.testing import (
    OperatorContract,
    assert_gauge_equivariant,
    assert_rotation_equivariant,
    assert_self_adjoint,
    random_orthogonal,
    random_signal,
    relative_error,
)

BUNDLES = [
    bundle_of(Sphere(2)),
    bundle_of(KleinBottle(4)),
    bundle_of(Sphere(3)),
    bundle_of(Sphere(2), None, np.float32),
]


def product(lap, x):
    return lap @ x


def gated(lap, x):
    """Gauge-equivariant and not linear: fields scaled by a function of their length."""
    y = lap.scale * (lap @ x)
    return y * torch.sigmoid(torch.linalg.vector_norm(y, dim=-2, keepdim=True))


def coordinatewise(lap, x):
    return torch.tanh(lap.scale * (lap @ x))


@pytest.mark.parametrize("bundle", BUNDLES, ids=repr)
def test_equivariant_maps_pass(bundle):
    for function in (product, gated):
        assert_gauge_equivariant(function, bundle)
        assert_rotation_equivariant(function, bundle)


@pytest.mark.parametrize("bundle", BUNDLES, ids=repr)
def test_a_coordinatewise_tanh_depends_on_the_frames(bundle):
    with pytest.raises(AssertionError, match="not equivariant under change of frames"):
        assert_gauge_equivariant(coordinatewise, bundle)


@pytest.mark.parametrize("bundle", [BUNDLES[0], BUNDLES[3]], ids=repr)
def test_what_knows_the_ambient_axes_is_not_rotation_equivariant(bundle):
    """The space-filling curve follows the axes of the ambient space, not the frames."""

    def along_the_curve(lap, x):
        position = torch.empty_like(lap.mass)
        position[lap.average.curve_order.long()] = torch.linspace(
            0, 1, lap.num_points, dtype=lap.dtype
        )
        return position[:, None, None] * x

    assert_gauge_equivariant(along_the_curve, bundle)
    with pytest.raises(AssertionError, match="not equivariant under rotation of space"):
        assert_rotation_equivariant(along_the_curve, bundle)


def test_nan_does_not_pass():
    with pytest.raises((AssertionError, NonFiniteError)):
        assert_gauge_equivariant(lambda lap, x: x * torch.nan, BUNDLES[0])


def test_random_orthogonal():
    turns = random_orthogonal(4000, 3)
    np.testing.assert_allclose(
        turns.swapaxes(1, 2) @ turns, np.tile(np.eye(3), (4000, 1, 1)), atol=1e-12
    )
    assert np.linalg.det(turns).mean() == pytest.approx(
        0, abs=0.06
    )  # reflections as often as rotations
    assert np.abs(turns.mean(axis=0)).max() < 0.05  # no preferred direction
    assert not np.array_equal(random_orthogonal(2, 2, seed=0), random_orthogonal(2, 2, seed=1))


def test_relative_error():
    a = torch.tensor([3.0, 4.0])
    assert relative_error(a, a) == 0
    assert relative_error(1.1 * a, a) == pytest.approx(0.1)
    assert relative_error(a, torch.zeros(2)) == pytest.approx(5.0)


class Broken(SquareOperator):
    """A dense operator of which one promise can be broken."""

    def __init__(self, fault=None, n=12, dim=2):
        self.fault, self.rank = fault, dim
        rng = np.random.default_rng(0)
        self.mass = torch.from_numpy(rng.uniform(1, 2, n))
        self.mass /= self.mass.sum() if fault != "mass" else 1.0
        form = torch.from_numpy(rng.standard_normal((n * dim, n * dim)))
        self.matrix = (form + form.T) / self.mass.repeat_interleave(dim)[:, None]
        if fault == "adjoint":
            self.matrix = form

    @property
    def adjoint(self):
        return self

    def apply(self, x):
        flat = x.movedim(-1, 0).flatten(-2)
        if self.fault == "batches" and x.ndim > 3:
            flat = flat.flip(1)
        y = flat @ self.matrix.T
        if self.fault == "linear":
            y = y + 0.1 * y.abs()
        if self.fault == "gradient":
            y = y.detach() + 0.0 * flat.sum()
        return y.unflatten(-1, x.shape[-3:-1]).movedim(0, -1)


def run_contract(fault):
    """Names of the checks of the contract that fail."""

    class Contract(OperatorContract):
        def make_operator(self):
            return Broken(fault)

    failed = set()
    for name in dir(Contract):
        if name.startswith("test_"):
            try:
                getattr(Contract(), name)()
            except AssertionError:
                failed.add(name)
    return failed


@pytest.mark.parametrize(
    "fault, caught_by",
    [
        (None, set()),
        ("mass", {"test_mass_is_a_probability"}),
        ("adjoint", {"test_adjoint"}),
        ("batches", {"test_leading_dimensions_are_batches"}),
        ("gradient", {"test_gradient"}),
    ],
)
def test_the_contract_catches_each_broken_promise(fault, caught_by):
    assert run_contract(fault) == caught_by


def test_the_contract_catches_what_is_not_linear():
    assert "test_equals_its_dense_form" in run_contract("linear")


def test_self_adjoint():
    assert_self_adjoint(Broken())
    with pytest.raises(AssertionError, match="self-adjoint"):
        assert_self_adjoint(Broken("adjoint"))


def test_signals_are_reproducible():
    lap = BUNDLES[0].laplacian()
    x = random_signal(lap, channels=3, seed=5)
    assert x.shape == (lap.num_points, 2, 3) and x.dtype == lap.dtype
    assert torch.equal(x, random_signal(lap, channels=3, seed=5))
    assert not torch.equal(x, random_signal(lap, channels=3, seed=6))


INVARIANT = [
    lambda lap, x: torch.linalg.vector_norm(lap @ x, dim=-2),
    lambda lap, x: torch.linalg.vector_norm(lap @ x, dim=-2, keepdim=True),
    lambda lap, x: lap.inner(x, lap @ x),
    lambda lap, x: float(lap.norm(x).sum()) * torch.ones(()),
    lambda lap, x: lap.inner(x, lap @ x).numpy(),
]
NOT_INVARIANT = [
    lambda lap, x: (lap @ x).sum(dim=-2),
    lambda lap, x: x.sum(),
    lambda lap, x: x[0, 0],
]


@pytest.mark.parametrize("check", [assert_gauge_equivariant, assert_rotation_equivariant])
@pytest.mark.parametrize("bundle", BUNDLES[:3], ids=repr)
def test_numbers_are_checked_for_invariance(check, bundle):
    for function in INVARIANT:
        check(function, bundle)
    if check is assert_gauge_equivariant:
        for function in NOT_INVARIANT:
            with pytest.raises(AssertionError, match="not equivariant"):
                check(function, bundle)


NO_FUNCTIONS = [None, 3, "net", torch.ones(3), tb.nn.TNN([1, 2, 1])]
COMPLEX = torch.ones(2, dtype=torch.cfloat)
NO_OUTPUTS = [None, "text", (1, 2), 1.0, COMPLEX, torch.ones(2, device="meta")]


@pytest.mark.parametrize("check", [assert_gauge_equivariant, assert_rotation_equivariant])
def test_what_cannot_be_checked_is_refused(check):
    for function in NO_FUNCTIONS:
        with pytest.raises(InvalidInputError, match=r"expected function\(laplacian, x\)"):
            check(function, BUNDLES[0])
    check(tb.Heat(0.1), BUNDLES[0])  # filters are called so
    for output in NO_OUTPUTS:
        with pytest.raises(InvalidInputError, match="the function"):
            check(lambda lap, x, output=output: output, BUNDLES[0])
    with pytest.raises(InvalidInputError, match="expected a TangentBundle"):
        check(product, BUNDLES[0].laplacian())


MAPS = {
    "gradient": lambda bundle: bundle.gradient(),
    "divergence": lambda bundle: bundle.divergence(),
    "curl": lambda bundle: bundle.curl(),
    "adjoint of the gradient": lambda bundle: bundle.gradient().adjoint,
    "second derivatives": lambda bundle: Derivatives(bundle).jacobian(),
}


@pytest.mark.parametrize("name", MAPS)
class TestMapsBetweenFibres(OperatorContract):
    """Operators with ``in_rank`` and ``out_rank`` that differ keep the same promises."""

    @pytest.fixture(autouse=True)
    def _choose(self, name):
        self.name = name

    def make_operator(self):
        return MAPS[self.name](tb.TangentBundle.from_points(Sphere(2).sample(120, seed=3)))

    def test_shapes(self):
        operator = self.make_operator()
        n = operator.num_points
        assert operator.shape == (n * operator.out_rank, n * operator.in_rank)
        assert operator.in_rank != operator.out_rank and not isinstance(operator, SquareOperator)

    def test_filters_and_networks_need_a_square_operator(self):
        operator = self.make_operator()
        x = random_signal(operator)
        with pytest.raises(InvalidInputError, match=r"bundle\.laplacian\(\)"):
            tb.Heat(0.1)(operator, x)
        with pytest.raises(InvalidInputError, match=r"bundle\.laplacian\(\)"):
            tb.nn.TNN([2, 2]).double()(x, operator)

    def test_inner_products_need_one_fibre(self):
        operator = self.make_operator()
        with pytest.raises(ShapeError, match="one dimension"):
            operator.inner(random_signal(operator), operator @ random_signal(operator))
