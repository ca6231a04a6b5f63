r"""Linear forecasts that are learnt at more places than they are asked for.

Where the training period is known at many points and forecasts are wanted from few, each point's regression may learn
from its neighbourhood put down elsewhere, too. A point i with neighbours j is moved to a place c near it: the smallest
rotation R that takes the tangent space at i to that at c takes the differences along, the known points nearest to
:math:`x_c + R\,(x_j - x_i)` stand for the neighbours, and what blows there is carried to the coordinates of i by the
connection. With z the point's own lags and its neighbours now, there and in all copies of it,

.. math:: \hat a_i(t+h) = b_h\, B_{hi}^T z_i(t), \qquad
          B_{hi} = (G_i + \lambda I)^{-1} (g_{hi} + \lambda B^0_{hi}), \qquad
          G_i = \overline{z z^T}, \quad g_{hi} = \overline{z(t)\, a(t+h)^T} :

ridge regression by second moments, shrunk to coefficients :math:`B^0` of own lags that all points share but for the
size of anomalies there. Blocked cross-validation at the points themselves chooses :math:`\lambda` and :math:`b_h`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .autoregression import FOLDS, LaggedModels, Lead, lead_of
from .tangents import TangentSpaces

COPIES = 24
"""Other places of each neighbourhood."""

WIDTH = 0.4
"""How far they are spread about the point, in distances between neighbours."""

PENALTIES = (3.0, 1.0, 0.5, 0.25, 0.12)
"""Ridge penalties, in units of the mean energy of a feature."""

EARLIER = 0.1
"""Scale of own lags after the second, whose coefficients so stay near those that all points share."""

PARTS = 4
"""Parts of a fold whose moments are kept apart, so that times next to those held out can be left out."""


@dataclass(frozen=True, eq=False)
class Copy:
    """A neighbourhood of every point, somewhere: known points ``(n, k)`` and maps ``(n, k, d, d)`` to the point's
    coordinates.
    """

    index: np.ndarray
    maps: np.ndarray

    def fields(self, values: np.ndarray) -> np.ndarray:
        """Values ``(T, m, d)`` at known points as ``(n, T, k, d)``."""
        return np.einsum("nkab,tnkb->ntka", self.maps, values[:, self.index], optimize=True)


def copies(
    spaces: TangentSpaces, known: TangentSpaces, near: np.ndarray, width: float, rng: np.random.Generator
) -> Iterator[Copy]:
    """The neighbourhoods ``near (n, k)``, each point first, where they are and at places nearby.

    The known points begin with those of ``spaces``.

    >>> import tangentbundle as tb
    >>> sphere, rng = tb.manifolds.Sphere(2), np.random.default_rng(0)
    >>> known = TangentSpaces.of(sphere.sample(4000, seed=0), manifold=sphere)
    >>> spaces = known.part(np.arange(50))
    >>> near = spaces.tree.query(spaces.points, k=5)[1]
    >>> here, there, *_ = (known.points[copy.index] for copy in copies(spaces, known, near, 0.2, rng))
    >>> lengths = [np.linalg.norm(p - p[:, :1], axis=2)[:, 1:] for p in (here, there)]
    >>> bool(np.abs(lengths[1] - lengths[0]).max() < 0.1)                 # as far apart as they were
    True
    """
    points, frames = spaces.points, spaces.frames
    away = points[near] - points[:, None]
    yield Copy(near, np.einsum("nia,nkib->nkab", frames, frames[near]))
    for step in width * rng.standard_normal((COPIES, points.shape[1])):
        centre = known.tree.query(points + np.einsum("nia,nja,j->ni", frames, frames, step))[1]
        there = known.frames[centre]
        u, cosines, vt = np.linalg.svd(there.transpose(0, 2, 1) @ frames)
        a, b, c = frames @ vt.transpose(0, 2, 1), there @ u, cosines[:, None]
        along_a, along_b = away @ a, away @ b
        turned = away + ((1 + 2 * c) * along_a - along_b) / (1 + c) @ b.transpose(0, 2, 1)
        turned -= (along_a + along_b) / (1 + c) @ a.transpose(0, 2, 1)
        index = known.tree.query(known.points[centre][:, None] + turned)[1]
        index[:, 0] = centre
        carried = np.einsum("nic,nkib->nkcb", there, known.frames[index])
        yield Copy(index, np.einsum("nca,nkcb->nkab", u @ vt, carried))


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over origins ``(m,)`` and copies, apart for parts of time; ``parts (m,)`` says which an origin is in.

    Of features ``grams (p, n, f, f)``, of features and what came after them ``sides (p, leads, n, f, d)``; ``counts
    (p, 1 + leads)`` of the origins of each. The first ``own`` features are a point's own lags.
    """

    origins: np.ndarray
    parts: np.ndarray
    grams: np.ndarray
    sides: np.ndarray
    counts: np.ndarray
    own: int

    def solve(self, h: int, kept: np.ndarray, sizes: np.ndarray, penalties) -> Iterator[np.ndarray]:
        """Matrices ``(n, f, d)`` of a lead for each penalty, from some parts of time."""
        gram = self.grams[kept].sum(axis=0, dtype=float) / max(self.counts[kept, 0].sum(), 1)
        side = self.sides[kept, h - 1].sum(axis=0, dtype=float) / max(self.counts[kept, h].sum(), 1)
        prior = np.zeros_like(side)
        prior[:, : self.own] = _shared(gram[:, : self.own, : self.own], side[:, : self.own], sizes)
        f = gram.shape[1]
        energy = np.einsum("nff->n", gram)[:, None, None] / f + 1e-300
        for penalty in penalties:
            yield np.linalg.solve(gram + penalty * energy * np.eye(f), side + penalty * energy * prior)


def _shared(gram: np.ndarray, side: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Matrices ``(n, f, d)`` of own lags, multiples of one that grow alike with the points' sizes ``(n,)``."""
    d = side.shape[2]
    lags = side.shape[1] // d
    grams = np.einsum("nlama->nlm", gram.reshape(-1, lags, d, lags, d))
    basis = np.stack([np.ones_like(sizes), sizes])
    left = np.einsum("pn,qn,nlm->plqm", basis, basis, grams).reshape(2 * lags, 2 * lags)
    right = np.einsum("pn,nlaa->pl", basis, side.reshape(-1, lags, d, d)).ravel()
    ridge = 1e-3 * np.diag(np.diag(left)) + 1e-9 * max(np.trace(left), 1e-300) * np.eye(2 * lags)
    weights = np.linalg.solve(left + ridge, right).reshape(2, lags)
    return np.einsum("pn,pl,ab->nlab", basis, weights, np.eye(d)).reshape(side.shape)


@dataclass(eq=False)
class ManyPlaces(LaggedModels):
    """Models whose regressions see copies of each neighbourhood; they forecast from the points alone."""

    def __post_init__(self) -> None:
        spaces, more, a = self.record.spaces, self.record.more, self.record.anomalies
        assert more is not None
        near = np.concatenate([np.arange(len(spaces.points))[:, None], self.near.index], axis=1)
        self.copies = list(copies(spaces, more.spaces, near, WIDTH * self.near.unit, self.record.rng))
        energy = np.log(np.maximum(np.square(a).mean(axis=(0, 2)), 1e-300))
        self.sizes = energy - energy.mean()
        self.signals = self._signals(a)
        self.moments_: dict[tuple[int, ...], Moments] = {}

    def _signals(self, fields: np.ndarray) -> list[np.ndarray]:
        """Fields ``(T, n, d)`` at each point and its neighbours ``(n, T, k, d)``."""
        return [self.copies[0].fields(fields)]

    def _features(self, signals, origins: np.ndarray, lags: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """No shared features ``(m, n, d, 0)``; own lags and neighbours now ``(m, n, f)``."""
        (around,) = signals
        lagged = [around[:, origins - lag, 0] * (1.0 if lag in lags[:2] else EARLIER) for lag in lags]
        now = self.near.decay[:, None, :, None] * around[:, origins, 1:]  # so that far ones are shrunk more
        local = np.concatenate([*lagged, now.reshape(*now.shape[:2], -1)], axis=-1).transpose(1, 0, 2)
        return np.zeros((*local.shape[:2], around.shape[3], 0)), local

    def _lead(self, h: int, lags: tuple[int, ...]) -> Lead:
        key = h, lags[-1]
        if key not in self.leads_:
            if lags not in self.moments_:
                self.moments_[lags] = self._moments(lags)
            self.leads_[key] = self._validated(h, lags, self.moments_[lags])
        return self.leads_[key]

    def _moments(self, lags: tuple[int, ...]) -> Moments:
        assert self.record.more is not None
        values = self.record.more.anomalies.astype(np.float32)
        origins = self.record.origins(0, lags[-1] + 1)
        later = origins[:, None] + np.arange(1, self.method.reach + 1)
        known = later < len(values)
        later = np.where(known, later, 0)
        known &= self.record.observed[later]
        parts = np.array_split(np.arange(len(origins)), FOLDS * PARTS)
        grams: np.ndarray | float = 0.0
        sides: np.ndarray | float = 0.0
        for copy in self.copies:
            around = copy.fields(values).astype(np.float32)
            x = self._features([around], origins, lags)[1].astype(np.float32).transpose(1, 2, 0)
            y = (around[:, later, 0] * known[:, :, None]).reshape(len(x), len(origins), -1)
            grams = grams + np.stack([x[:, :, p] @ x[:, :, p].transpose(0, 2, 1) for p in parts])
            sides = sides + np.stack([x[:, :, p] @ y[:, p] for p in parts])
        d = values.shape[2]
        sides = np.asarray(sides).reshape(len(parts), *x.shape[:2], -1, d).transpose(0, 3, 1, 2, 4).copy()
        counts = np.array([[len(p), *known[p].sum(axis=0)] for p in parts])
        number = np.repeat(np.arange(len(parts)), counts[:, 0])
        return Moments(origins, number, np.asarray(grams), sides, counts, len(lags) * d)

    def _validated(self, h: int, lags: tuple[int, ...], moments: Moments) -> Lead:
        """Coefficients of one lead; penalty, factor and error at the points, from folds of successive times."""
        origins, where, _ = np.intersect1d(moments.origins, self.record.origins(h, lags[-1] + 1), return_indices=True)
        part, numbers = moments.parts[where], np.arange(len(moments.counts))
        local = self._features(self.signals, origins, lags)[1]
        target = self.record.anomalies[origins + h]
        gap = int(np.ceil((h + lags[-1]) / max(moments.counts[:, 0].max(), 1)))
        guesses = np.zeros((len(PENALTIES), *target.shape))
        for first in range(0, len(numbers), PARTS):
            held = (part >= first) & (part < first + PARTS)
            kept = (numbers < first - gap) | (numbers >= first + PARTS + gap)
            if held.any() and moments.counts[kept, h].any():
                for guess, matrices in zip(guesses, moments.solve(h, kept, self.sizes, PENALTIES), strict=True):
                    guess[held] = np.einsum("mnf,nfa->mna", local[held], matrices, optimize=True)
        best = int(np.square(guesses - target).mean(axis=(1, 2, 3)).argmin())
        (matrices,) = moments.solve(h, numbers >= 0, self.sizes, PENALTIES[best : best + 1])
        return lead_of(np.zeros(0), matrices, origins, guesses[best], target)
