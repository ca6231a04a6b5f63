"""`FieldDenoiser`: a noisy field in, the field out."""

from __future__ import annotations

from dataclasses import dataclass

from .base import FieldEstimator


@dataclass(eq=False, repr=False)
class FieldDenoiser(FieldEstimator):
    r"""Removes noise from a vector field on a manifold known by points only.

    Several models are fitted: Gaussian processes of tangent vectors with covariance :math:`O_i^T K(x_i, x_j) O_j`, of
    ambient vectors, of fields without divergence or curl; the mean of neighbours, and the data as they are. The one
    that predicts left-out vectors best answers; ``scores_`` shows by what margin. All choices come from the data.

    Args:
        model: such as ``GaussianProcess(Tangent())`` or ``Candidates([...])``; default as above.
        covariance: a ``Covariance`` or several: Gaussian processes with these instead of the default ones.
        dim: intrinsic dimension, or a rule to estimate it; default estimated.
        manifold: a known manifold, for exact tangent spaces; answers are then tangent to it.
        random_state: seed of the samples that hyperparameters and scores are computed on.

    Attributes:
        posterior_: the fitted model.
        scores_: one row for each candidate, the best first.
        noise_: standard deviation of the noise in each component.
        frames_: tangent bases ``(n, D, d)``.
        normal_share_: share of the data's energy that is normal to them.

    >>> import numpy as np, tangentbundle as tb
    >>> torus, rng = tb.manifolds.Torus(), np.random.default_rng(0)
    >>> points = torus.sample(200, seed=0)
    >>> clean = torus.tangent_field(points)
    >>> noisy = clean + 0.3 * rng.standard_normal(clean.shape)
    >>> denoiser = tb.FieldDenoiser(dim=2, random_state=0).fit(points, noisy)
    >>> bool(np.mean((denoiser.predict(points) - clean) ** 2) < 0.3 * np.mean((noisy - clean) ** 2))
    True
    >>> bool(0.25 < denoiser.noise_ < 0.35)
    True
    """
