"""Strategies: clouds, signals and options, sound and spoilt."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st

from tangentbundle import kernels

WHOLE = st.one_of(
    st.integers(-2, 12),
    st.sampled_from([None, True, 10**9, 2.5, np.nan, "3", np.int64(4), -(10**18)]),
)
NUMBER = st.one_of(
    st.floats(-1e3, 1e3),
    st.floats(),
    st.sampled_from(
        [None, 0, 1, 1e-300, 1e300, "1", True, np.float32(0.5), torch.tensor(0.3), [1.0]]
    ),
)
POSITIVE = st.floats(1e-6, 1e3)
KERNELS = st.sampled_from(
    [None, kernels.Gaussian(), kernels.Uniform(), kernels.Biweight(), kernels.Biweight, "gauss"]
)

SPOILS = ("nan", "inf", "doubles", "flat", "line", "huge", "tiny", "far", "heaps", "zero", "jitter")


def spoil(array: np.ndarray, how: str, rng: np.random.Generator) -> np.ndarray:
    """Make numbers worse in a known way."""
    out = array.astype(np.float64)
    rows = len(out)
    if rows == 0:
        return out
    if how in ("nan", "inf"):
        out.flat[rng.integers(out.size)] = np.nan if how == "nan" else rng.choice([np.inf, -np.inf])
    elif how == "doubles":
        out[rng.integers(rows, size=rows // 2 + 1)] = out[0]
    elif how == "flat":
        out[..., -1] = 0.0
    elif how == "line":
        out = np.outer(np.arange(rows), np.ones(out.size // rows)).reshape(out.shape)
    elif how in ("huge", "tiny"):
        out = out * 10.0 ** (rng.integers(3, 308) * (1 if how == "huge" else -1))
    elif how == "far":
        out = out + 10.0 ** rng.integers(1, 17)
    elif how == "heaps":
        out = out[rng.integers(max(1, rows // 8), size=rows)] + 1e-12 * rng.standard_normal(
            out.shape
        )
    elif how == "zero":
        out = 0 * out
    elif how == "jitter":
        out = out + 10.0 ** rng.integers(-9, 2) * rng.standard_normal(out.shape)
    return out


@st.composite
def clouds(draw, most: int = 60, widest: int = 6):
    """Points on a sphere, a plane or in general position, sometimes spoilt, in various kinds of
    arrays."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, dims = draw(st.integers(0, most)), draw(st.integers(1, widest))
    points = rng.standard_normal((n, dims))
    shape = draw(st.sampled_from(["ball", "sphere", "sphere", "curve", "grid"]))
    with np.errstate(all="ignore"):
        if shape == "sphere" and n:
            points /= np.linalg.norm(points, axis=1, keepdims=True)
        elif shape == "curve":
            points = np.cos(np.arange(1, dims + 1) * rng.uniform(0, 6.3, (n, 1)))
        elif shape == "grid":
            points = np.round(points)
        for how in draw(st.lists(st.sampled_from(SPOILS), max_size=2)):
            points = spoil(points, how, rng)
        return as_kind(points, draw(KINDS))


RARE = ["torch", "int", "list", "half", "complex", "object", "odd", "more"]
KINDS = st.sampled_from(["float64"] * 8 + ["float32"] * 3 + RARE)


def as_kind(array: np.ndarray, kind: str):
    """The same numbers in another kind of array, right or wrong."""
    with np.errstate(all="ignore"):
        if kind == "torch":
            return torch.from_numpy(array.copy())
        if kind == "list":
            return array.tolist()
        if kind == "int":
            return np.nan_to_num(np.clip(array, -100, 100)).astype(int)
        if kind in ("half", "complex", "object"):
            return array.astype({"half": np.float16, "complex": complex, "object": object}[kind])
        if kind == "odd":
            return np.asfortranarray(array)[::-1]
        if kind == "more":
            return array[None]
        return array.astype(kind)


@st.composite
def signals(draw, n: int, d: int, channels: int = 3):
    """Signals ``(..., n, d, c)``, mostly of the right shape."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n += draw(st.sampled_from([0] * 12 + [-1, 1]))
    d += draw(st.sampled_from([0] * 12 + [-1, 1]))
    lead = draw(st.sampled_from([(), (), (), (2,), (0,), (2, 3)]))
    values = rng.standard_normal((*lead, n, d, draw(st.integers(0, channels))))
    with np.errstate(all="ignore"):
        for how in draw(
            st.lists(st.sampled_from(["nan", "inf", "huge", "tiny", "zero"]), max_size=1)
        ):
            values = spoil(values, how, rng) if values.size else values
        return as_kind(values, draw(KINDS))
