"""Checks for operators and maps on bundle signals, shipped for users' own classes.

``OperatorContract`` is a pytest class: subclass it, supply ``make_operator``, and every promise of
``LinearOperator`` is tested. The ``assert_*`` functions take any callable.

>>> import tangentbundle as tb
>>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(200, seed=0))
>>> assert_self_adjoint(bundle.laplacian())
>>> assert_gauge_equivariant(lambda laplacian, x: tb.Heat(0.1)(laplacian, x), bundle)
>>> assert_rotation_equivariant(lambda laplacian, x: tb.Heat(0.1)(laplacian, x), bundle)
>>> assert_gauge_equivariant(lambda laplacian, x: x.tanh(), bundle)  # depends on the frames
Traceback (most recent call last):
AssertionError: not equivariant under change of frames...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .arrays import positive_integer, require_values
from .bundle import TangentBundle
from .errors import InvalidInputError, ShapeError
from .nn import Configured
from .operators import Laplacian, LinearOperator

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}
"""Relative error allowed, by precision."""

FieldMap = Callable[[Laplacian, torch.Tensor], torch.Tensor]
"""A map on signals ``(n, d, c)`` that uses an operator, for example a filter or a network."""


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """``|got - expected| / |expected|`` in the Euclidean norm (absolute where expected is zero)."""
    reference = expected.detach().double()
    difference = torch.linalg.vector_norm(got.detach().double() - reference)
    size = float(torch.linalg.vector_norm(reference))
    return float(difference) / (size or 1.0)


def random_signal(operator: LinearOperator, channels: int = 2, seed: int = 0) -> torch.Tensor:
    """A standard normal signal ``(n, p, channels)`` for an operator to apply to."""
    return _random_field(operator, operator.in_rank, channels, seed)


def _random_field(operator: LinearOperator, rank: int, channels: int, seed: int) -> torch.Tensor:
    noise = torch.Generator().manual_seed(seed)
    shape = (operator.num_points, rank, channels)
    return torch.randn(shape, generator=noise, dtype=operator.dtype).to(operator.device)


def assert_self_adjoint(operator: LinearOperator, *, tol: float | None = None) -> None:
    """``<f, A g> = <A f, g>`` in the mass inner product, for random f and g."""
    if tol is None:
        tol = TOLERANCE[operator.dtype]
    assert _adjoint_error(operator, operator) < tol, "the operator is not self-adjoint"


def _adjoint_error(operator: LinearOperator, adjoint: LinearOperator) -> float:
    """``|<f, A g> - <A* f, g>|`` in the mass inner product, relative to the norms, for random f and
    g."""
    f = _random_field(operator, operator.out_rank, channels=2, seed=1)
    g = _random_field(operator, operator.in_rank, channels=2, seed=2)
    image = operator @ g
    left = operator.inner(f, image)
    right = operator.inner(adjoint @ f, g)
    size = float((operator.norm(f) * operator.norm(image)).max()) or 1.0
    return float((left - right).abs().max()) / size


def random_orthogonal(count: int, d: int, seed: int = 0) -> np.ndarray:
    """Haar-random elements of O(d), reflections included, ``(count, d, d)``."""
    rng = np.random.default_rng(seed)
    q, r = np.linalg.qr(rng.standard_normal((count, d, d)))
    return q * np.sign(np.einsum("nii->ni", r))[:, None, :]


def assert_gauge_equivariant(
    function: FieldMap,
    bundle: TangentBundle,
    *,
    tol: float | None = None,
    seed: int = 0,
    channels: int | None = None,
) -> None:
    """The same ambient output after a random O(d) change of every frame; outputs that are no
    fields ``(n, d, c)``, such as classes or lengths, must stay as they are.

    ``function(laplacian, x)`` is run with the bundle's frames and with turned ones, on signals with
    ``channels`` channels; by default two, or one if the function refuses two with a ``ShapeError``.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(200, seed=0))
    >>> net = tb.nn.TNN([1, 4, 1], step=0.1).double()
    >>> assert_gauge_equivariant(lambda laplacian, x: net(x, laplacian), bundle)
    """
    _check_function(function, bundle)
    turns = torch.from_numpy(random_orthogonal(bundle.num_points, bundle.rank, seed))
    _assert_same_field(
        function, bundle, torch.eye(bundle.ambient_dim), turns, tol, "change of frames", channels
    )


def assert_rotation_equivariant(
    function: FieldMap,
    bundle: TangentBundle,
    *,
    tol: float | None = None,
    seed: int = 0,
    channels: int | None = None,
) -> None:
    """The rotated output when points and field are rotated together in ambient space, and the same
    output if it is no field; ``channels`` as above."""
    _check_function(function, bundle)
    rotation = torch.from_numpy(random_orthogonal(1, bundle.ambient_dim, seed)[0])
    _assert_same_field(
        function, bundle, rotation, torch.eye(bundle.rank), tol, "rotation of space", channels
    )


def _signal_for(function: FieldMap, laplacian: Laplacian, channels: int | None) -> torch.Tensor:
    """A random signal with the channels that a function takes."""
    if channels is not None:
        return random_signal(laplacian, positive_integer(channels, "channels"))
    refusals = []
    for number in (2, 1):
        x = random_signal(laplacian, number)
        try:
            function(laplacian, x)
        except ShapeError as error:
            refusals.append(f"with {number}: {error}")
            continue
        return x
    raise InvalidInputError(
        "the function takes signals with neither two channels nor one; give their number, "
        f"channels=3. It says {' And '.join(refusals)}"
    )


def _output(function: FieldMap, laplacian: Laplacian, x: torch.Tensor) -> torch.Tensor:
    """What a function gives, as a tensor of real numbers."""
    output = function(laplacian, x)
    if isinstance(output, np.ndarray):
        output = torch.from_numpy(output)
    if not isinstance(output, torch.Tensor) or output.is_complex():
        description = type(output).__name__
        if isinstance(output, torch.Tensor):
            description = str(output.dtype)
        raise InvalidInputError(
            "the function must return one tensor of real numbers, a field (n, d, channels) or "
            f"numbers that do not depend on the frames, got {description}. Return that part of it."
        )
    return require_values(output, "the output of the function").detach()


def _check_function(function: Any, bundle: Any) -> None:
    """Refuse what cannot be called as ``function(laplacian, x)``, and what is no bundle."""
    if isinstance(function, Configured):
        raise InvalidInputError(
            "expected function(laplacian, x), got a network, which takes the signal first. Give "
            "lambda laplacian, x: net(x, laplacian)."
        )
    if not callable(function):
        raise InvalidInputError(
            "expected function(laplacian, x), such as lambda laplacian, x: net(x, laplacian), got "
            f"{type(function).__name__}."
        )
    if not isinstance(bundle, TangentBundle):
        raise InvalidInputError(
            f"expected a TangentBundle, whose frames are changed, got {type(bundle).__name__}."
        )


def _assert_same_field(
    function: FieldMap,
    bundle: TangentBundle,
    rotation: torch.Tensor,
    turns: torch.Tensor,
    tol: float | None,
    what: str,
    channels: int | None,
) -> None:
    """The rotated output on a bundle that is rotated in space and whose frames are turned."""
    frames, points = torch.as_tensor(bundle.frames), torch.as_tensor(bundle.points)
    rotation, turns = rotation.to(frames), turns.to(frames)
    points, rotated = points @ rotation.T, rotation @ frames
    other = bundle.rebuilt(points, rotated @ turns)
    laplacian = bundle.laplacian()
    x = _signal_for(function, laplacian, channels)
    moved = other.to_coordinates(rotated @ x)
    expected = _output(function, laplacian, x)
    got = _output(function, other.laplacian(), moved)
    if tol is None:
        tol = TOLERANCE.get(expected.dtype, TOLERANCE[laplacian.dtype])
    if expected.ndim >= 3 and expected.shape[-3:-1] == x.shape[-3:-1]:
        expected = rotated @ expected.to(rotated)
        got = rotated @ turns @ got.to(rotated)
    error = relative_error(got, expected)
    assert error < tol, (
        f"not equivariant under {what}: relative difference {error:.2g}, allowed {tol:.2g}"
    )


class OperatorContract(ABC):
    """Every promise of ``LinearOperator``, as tests. Subclass it in a test module."""

    @abstractmethod
    def make_operator(self) -> LinearOperator:
        """The operator under test, small enough for a dense form."""

    def test_equals_its_dense_form(self) -> None:
        operator = self.make_operator()
        x = random_signal(operator, channels=3)
        y = operator @ x
        assert y.shape == (operator.num_points, operator.out_rank, 3)
        dense = operator.to_dense() @ x.reshape(operator.shape[1], -1)
        assert relative_error(y, dense.reshape(y.shape)) < TOLERANCE[operator.dtype]

    def test_leading_dimensions_are_batches(self) -> None:
        operator = self.make_operator()
        x = torch.stack([random_signal(operator, seed=s) for s in range(6)]).unflatten(0, (2, 3))
        rows = torch.stack([operator @ part for part in x.flatten(0, 1)]).unflatten(0, (2, 3))
        assert relative_error(operator @ x, rows) < TOLERANCE[operator.dtype]

    def test_numpy_and_torch_agree(self) -> None:
        operator = self.make_operator()
        x = random_signal(operator)
        got = operator @ x.cpu().numpy()
        assert isinstance(got, np.ndarray)
        assert (
            relative_error(torch.from_numpy(got), (operator @ x).cpu()) < TOLERANCE[operator.dtype]
        )

    def test_adjoint(self) -> None:
        operator = self.make_operator()
        assert _adjoint_error(operator, operator.adjoint) < TOLERANCE[operator.dtype]

    def test_gradient(self) -> None:
        operator = self.make_operator()
        x = random_signal(operator).requires_grad_()
        g = _random_field(operator, operator.out_rank, channels=2, seed=3)
        (gradient,) = torch.autograd.grad((operator @ x * g).sum(), x)
        expected = (operator.to_dense().T @ g.reshape(operator.shape[0], -1)).reshape(x.shape)
        assert relative_error(gradient, expected) < TOLERANCE[operator.dtype]

    def test_mass_is_a_probability(self) -> None:
        operator = self.make_operator()
        assert bool((operator.mass > 0).all())
        assert abs(float(operator.mass.double().sum()) - 1.0) < 1e-5
