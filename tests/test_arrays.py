"""The door for arrays."""

import numpy as np
import pytest
import torch

from tangentbundle.arrays import finite, float_tensor, points_array, positive, positive_integer
from tangentbundle.errors import DTypeError, InvalidInputError, NonFiniteError, ShapeError


@pytest.mark.parametrize(
    "value, dtype",
    [
        (np.ones(3), torch.float64),
        (np.ones(3, np.float32), torch.float32),
        (np.ones(3, np.int8), torch.float64),
        (np.ones(3, np.uint64), torch.float64),
        (np.ones(3, bool), torch.float64),
        ([1, 2.5, 3], torch.float64),
        ((1, 2), torch.float64),
        (3.0, torch.float64),
        (np.ones(3, ">f8"), torch.float64),
        (np.ones(3, ">f4"), torch.float32),
        (torch.ones(3), torch.float32),
        (torch.ones(3, dtype=torch.float64), torch.float64),
        (torch.ones(3, dtype=torch.int32), torch.float64),
        (torch.ones(3, dtype=torch.bool), torch.float64),
    ],
)
def test_kinds_in_and_out(value, dtype):
    tensor, kind = float_tensor(value, "x")
    assert tensor.dtype == kind.dtype == dtype
    assert kind.is_torch == isinstance(value, torch.Tensor)
    back = kind.wrap(tensor * 2)
    assert isinstance(back, torch.Tensor if kind.is_torch else np.ndarray)
    np.testing.assert_array_equal(np.asarray(back), 2 * np.asarray(value, dtype=float))


@pytest.mark.parametrize(
    "value",
    [
        np.ones(3, np.float16),
        np.ones(3, complex),
        np.ones(3, np.longdouble),
        np.array(["a"]),
        np.array([None]),
        np.array([object()]),
        np.ones(3, "M8[s]"),
        "text",
        None,
        {},
        b"bytes",
        torch.ones(3, dtype=torch.float16),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(3, dtype=torch.complex64),
    ],
    ids=lambda value: repr(value).split(" at ")[0],
)
def test_wrong_dtypes(value):
    with pytest.raises(DTypeError, match="x "):
        float_tensor(value, "x")
    assert issubclass(DTypeError, TypeError) and issubclass(DTypeError, ValueError)


def test_what_cannot_be_read():
    with pytest.raises(InvalidInputError, match="cannot be read"):
        float_tensor([[1, 2], [3]], "x")
    with pytest.raises(InvalidInputError, match="dense"):
        float_tensor(torch.eye(3).to_sparse(), "x")
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(NonFiniteError, match="masked"):
        float_tensor(masked, "x")
    assert float_tensor(np.ma.masked_array([1.0, 2.0]), "x")[0].tolist() == [
        1.0,
        2.0,
    ]  # nothing masked


def test_odd_memory_is_copied_and_never_written_to():
    base = np.arange(12.0)
    frozen = base.copy()
    frozen.setflags(write=False)
    record = np.zeros(4, dtype=[("a", "i1"), ("b", "f8")])
    record["b"] = base[:4]
    for view in (base[::-1], base[::3], frozen, np.broadcast_to(base, (2, 12)), record["b"]):
        tensor, _ = float_tensor(view, "x")
        np.testing.assert_array_equal(tensor.numpy(), view)
    tensor, _ = float_tensor(base, "x")
    assert tensor.data_ptr() == base.ctypes.data  # ordinary arrays are shared, not copied


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite(bad):
    x = torch.ones(4, 3, dtype=torch.float64)
    assert finite(x, "x") is x
    x[2, 1] = bad
    with pytest.raises(NonFiniteError, match=r"x must be finite, but 1 of 12 .* index \(2, 1\)"):
        finite(x, "x")


def test_large_finite_numbers_are_finite():
    """Their sum overflows; they do not."""
    huge = torch.full((10,), 1e308, dtype=torch.float64)
    assert finite(huge, "x") is huge
    both = torch.tensor([np.inf, -np.inf])
    with pytest.raises(NonFiniteError, match="2 of 2"):
        finite(both, "x")
    assert finite(torch.empty(0), "x").numel() == 0


def test_points():
    array, kind = points_array(torch.ones(4, 2, requires_grad=True))
    assert array.dtype == np.float64 and array.flags.c_contiguous and kind.dtype == torch.float32
    for bad in (np.ones(3), np.ones((2, 2, 2)), np.ones((3, 0)), 1.0):
        with pytest.raises(ShapeError, match=r"\(n, D\)"):
            points_array(bad)
    with pytest.raises(InvalidInputError, match="1e150"):
        points_array(np.full((3, 3), 1e200))
    with pytest.raises(NonFiniteError, match="cloud"):
        points_array(np.full((3, 3), np.nan), "cloud")


def test_numbers():
    for good in (
        2,
        2.0,
        np.float32(2),
        np.int8(2),
        np.array(2.0),
        torch.tensor(2),
        torch.tensor(2.0),
    ):
        assert positive(good, "x") == 2.0
    for bad in (0, -1, np.nan, np.inf, "2", None, True, 2j, [2], np.ones(1), torch.ones(2)):
        with pytest.raises(InvalidInputError, match="x must be a positive number"):
            positive(bad, "x")
    for good in (2, np.int64(2), np.uint8(2)):
        assert positive_integer(good, "x") == 2 and type(positive_integer(good, "x")) is int
    for bad in (0, -1, 2.0, "2", None, True, np.bool_(True), np.nan, [2]):
        with pytest.raises(InvalidInputError, match="x must be a positive integer"):
            positive_integer(bad, "x")
