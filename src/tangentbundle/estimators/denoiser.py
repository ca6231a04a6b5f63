"""`FieldDenoiser`: a noisy field in, the field out."""

from __future__ import annotations

from typing import Any

from .ambient import AmbientProcess, ByEvidence, UnlessHidden
from .base import FieldEstimator
from .flows import FlowProcess, Incompressible, Irrotational
from .problem import Method
from .process import GaussianProcess
from .spectral import SpectralShrinkage

EXACT_POINTS = 2000
"""Up to this many points the default is an exact Gaussian process."""

FLOW_DIMENSIONS = 6
"""Up to this many ambient dimensions flows are tried: of many components, no divergence says little about each."""


class FieldDenoiser(FieldEstimator):
    r"""Removes noise from a vector field on a manifold known by points only.

    The tangent field is estimated by a method: by default a Gaussian process, of the tangent parts of the vectors with
    covariance :math:`O_i^T K(x_i, x_j) O_j`, of the ambient vectors themselves, or (in up to 6 dimensions) of an
    ambient flow without divergence or circulation, whichever has the greatest marginal likelihood, which also chooses
    kind, scales and noise level (and not of tangent parts where estimated planes hide much, see ``UnlessHidden``);
    above 2 000 points by the filter of the connection Laplacian with the least estimated risk.

    Args:
        method: ``GaussianProcess(...)``, ``AmbientProcess(...)``, ``FlowProcess(...)``, ``SpectralShrinkage(...)``
            or ``ByEvidence(...)`` of several; default as above.
        dim: intrinsic dimension, or a rule to estimate it; default estimated.
        manifold: a known manifold, for exact tangent spaces.
        random_state: seed of what is random (patches, probes).

    Attributes: ``fitted_`` the method's result, ``noise_`` the noise's standard deviation in each coordinate,
    ``frames_`` the tangent bases ``(n, D, d)``, ``normal_share_`` the share of the data's energy that was not
    tangent, ``tangent_`` whether answers are, ``tilt_`` the field's energy across estimated tangent spaces over that
    along them, beyond the noise, ``scale_`` the root mean square of the tangent parts. Where the manifold is not
    known and the evidence is for ambient vectors or flows, answers keep what is normal to the estimated planes: of
    few points in many dimensions the planes are more often wrong than the vectors.

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

    def __init__(
        self, method: Method | None = None, *, dim: Any = None, manifold: Any = None, random_state: Any = None
    ):
        self.method = method
        self.dim = dim
        self.manifold = manifold
        self.random_state = random_state

    def _default(self, n: int, ambient: int) -> Method:
        if n > EXACT_POINTS:
            return SpectralShrinkage()
        flows = [FlowProcess(kind) for kind in (Incompressible(), Irrotational()) if 1 < ambient <= FLOW_DIMENSIONS]
        whole = ByEvidence((AmbientProcess(), *flows), trial_size=100)
        return UnlessHidden(ByEvidence((GaussianProcess(), whole), trial_size=50), at_points=True)
