"""``laplacian @ x`` in float32 against the same matrix as torch CSR and scipy CSR."""

from __future__ import annotations

import warnings

import torch

import tangentbundle as tb
from harness.records import Row
from harness.timing import best_in_turns
from tangentbundle.testing import relative_error

POINTS, NEIGHBORS = 40_000, 30
CHANNELS = (1, 4, 16, 32, 64)
ASKED = {32: 4.0}


def run() -> list[Row]:
    points = torch.from_numpy(tb.manifolds.Sphere(2).sample(POINTS, seed=0)).float()
    laplacian = tb.TangentBundle.from_points(points, neighbors=NEIGHBORS).laplacian()
    scipy_csr = laplacian.to_scipy()
    scipy_csr.sort_indices()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sparse CSR is in beta
        torch_csr = {
            bits: torch.sparse_csr_tensor(
                torch.from_numpy(scipy_csr.indptr).to(kind),
                torch.from_numpy(scipy_csr.indices).to(kind),
                torch.from_numpy(scipy_csr.data),
                scipy_csr.shape,
            )
            for bits, kind in (("int32", torch.int32), ("int64", torch.int64))
        }
    rows = []
    for channels in CHANNELS:
        x = torch.randn(POINTS, 2, channels, generator=torch.Generator().manual_seed(0))
        flat = x.reshape(2 * POINTS, channels)
        others = {
            f"torch {bits}": lambda m=matrix, f=flat: m @ f for bits, matrix in torch_csr.items()
        }
        others["scipy"] = lambda f=flat: scipy_csr @ f.numpy()
        best = best_in_turns({"tangentbundle": lambda x=x: laplacian @ x, **others}, repeats=20)
        ours, y = best.pop("tangentbundle"), (laplacian @ x).reshape(flat.shape)
        for name, time in best.items():
            row = {"channels": channels, "ms": 1e3 * ours, "against": name, "their_ms": 1e3 * time}
            difference = relative_error(y, torch.as_tensor(others[name]()))
            row |= {
                "faster": time / ours,
                "asked": ASKED.get(channels, ""),
                "difference": difference,
            }
            rows.append(row)
    return rows
