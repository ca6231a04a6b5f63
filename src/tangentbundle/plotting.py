"""Figures, with matplotlib (``pip install tangentbundle[plot]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .filters import Filter
from .operators import ConnectionLaplacian

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "figures need matplotlib: pip install tangentbundle[plot]", name="matplotlib"
        ) from error
    return plt


def plot_response(
    filter: Filter, operator: ConnectionLaplacian, *, eigenvalues: int = 40, ax: Axes | None = None
) -> Axes:
    r"""The response of a filter at an operator's eigenvalues, beside the paper's bound :math:`\lambda^{-2}`.

    Stems stand at the ``eigenvalues`` smallest eigenvalues of :math:`-\Delta`, the line is the response in between, the
    dashed line the decay that a lowpass filter must match in the end; the title says which of the paper's three
    properties hold. Returns the matplotlib axes.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(300, seed=0)).laplacian()
    >>> tb.plot_response(tb.Heat(0.1), lap).get_xlabel()
    'eigenvalue of $-\\Delta$'
    """
    plt = _pyplot()
    ax = plt.subplots(figsize=(7, 4), layout="constrained")[1] if ax is None else ax
    lam = np.asarray(torch.as_tensor(operator.spectrum(min(eigenvalues, operator.shape[0]))[0]).cpu(), dtype=float)
    line = np.linspace(0.0, 1.05 * lam[-1], 600)
    with torch.no_grad():
        at_line, at_lam = (np.asarray(filter.response(values)) for values in (line, lam))
    top = 1.1 * max(np.abs(at_line).max(), np.abs(at_lam).max(), 1e-12)
    with np.errstate(divide="ignore"):
        bound = line**-2.0
    ax.plot(line[bound < top], bound[bound < top], "--", color="tab:red", lw=1.3, label=r"$\lambda^{-2}$")
    ax.plot(line, at_line, color="tab:blue", lw=1.6, label=r"response $\hat h(\lambda)$")
    stems = ax.stem(lam, at_lam, linefmt="tab:blue", markerfmt="o", basefmt=" ", label=f"first {len(lam)} eigenvalues")
    stems.markerline.set_markersize(4)
    stems.stemlines.set(alpha=0.4, linewidth=1)
    ax.axhline(0.0, color="0.6", lw=0.8)
    properties = filter.properties()
    words = [
        "lowpass" if properties.lowpass else "not lowpass",
        "non-amplifying" if properties.gain <= 1 + 1e-12 else f"largest gain {properties.gain:.3g}",
        f"Lipschitz {properties.lipschitz:.3g}",
    ]
    ax.set(xlabel="eigenvalue of $-\\Delta$", ylabel="response", xlim=(0.0, line[-1]))
    ax.set_ylim(min(0.0, 1.1 * at_line.min()), top)
    ax.set_title(", ".join(words) + f"\n({properties.basis})", fontsize=10)
    ax.legend(frameon=False)
    return ax
