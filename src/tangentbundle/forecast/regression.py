"""Regressions of later fields on features, from sums over parts of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .features import Features
from .methods import Record

PARTS = 10
"""Parts of the record whose moments are stored apart: two are held out at a time, and others left
out around them."""

SHARED_RIDGE = 1e-2
"""Relative ridge of the shared regression, whose features nearly depend on each other."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Of one lead: ``shared (s,)`` of terms, and ``local (n, f, d)``."""

    shared: np.ndarray
    local: np.ndarray

    def forecast(self, features: Features, origins: np.ndarray) -> np.ndarray:
        """``(m, n, d)``."""
        return features.combined(self.shared, origins) + self.correction(features, origins)

    def correction(self, features: Features, origins: np.ndarray) -> np.ndarray:
        """The part ``(m, n, d)`` that each point has for itself."""
        return np.einsum("mnf,nfa->mna", features.local[origins], self.local, optimize=True)


class Moments:
    """Sums of products of features and later anomalies over the ``origins (m,)`` in each of
    ``PARTS`` parts of time; ``part_of (m,)`` numbers the part of an origin.

    Regressions on any of the parts follow from these sums alone. Anomalies that were not observed
    count as zero, and ``targets (parts, leads)`` are the numbers of those that were.
    """

    def __init__(self, record: Record, features: Features, origins: np.ndarray, leads: int) -> None:
        origins_of_parts = np.array_split(origins, PARTS)
        self.origins = origins
        self.counts = np.array([len(part) for part in origins_of_parts])
        self.part_of = np.repeat(np.arange(PARTS), self.counts)
        self._sums = [_PartSums(record, features, part, leads) for part in origins_of_parts]
        self.targets = np.array([sums.targets for sums in self._sums])

    def coefficients(
        self, lead: int, chosen: np.ndarray, penalties: tuple[float, ...]
    ) -> list[Coefficients]:
        """For each penalty, from the ``chosen`` parts of time ``(parts,)``."""
        sums = [own for own, is_chosen in zip(self._sums, chosen, strict=True) if is_chosen]
        origins = self.counts[chosen].sum()
        targets = self.targets[chosen, lead - 1].sum()
        gram = sum(own.shared_shared for own in sums) / origins
        side = sum(own.shared_target[lead - 1] for own in sums) / targets
        ridge = SHARED_RIDGE * np.diag(gram) + 1e-9 * np.trace(gram) + 1e-300
        shared = np.linalg.solve(gram + np.diag(ridge), side)
        local_gram = sum(own.local_local for own in sums) / origins
        explained = sum(own.local_shared for own in sums) @ shared / origins
        residual = sum(own.local_target[lead - 1] for own in sums) / targets - explained
        features = local_gram.shape[-1]
        energy = np.einsum("nff->n", local_gram)[:, None, None] / features + 1e-300
        coefficients = []
        for penalty in penalties:
            local = np.zeros_like(residual)
            if np.isfinite(penalty):
                local = np.linalg.solve(local_gram + penalty * energy * np.eye(features), residual)
            coefficients.append(Coefficients(shared, local))
        return coefficients


class _PartSums:
    """The sums over one part of time."""

    def __init__(self, record: Record, features: Features, origins: np.ndarray, leads: int) -> None:
        later = origins[:, None] + np.arange(1, leads + 1)
        is_inside = later < len(record.anomalies)
        later = np.where(is_inside, later, 0)
        is_known = is_inside & record.observed[later]
        target = record.anomalies[later] * is_known[:, :, None, None]  # (m, leads, n, d)
        shared = features.shared_at(origins)
        local = features.local[origins]
        columns = shared.reshape(-1, shared.shape[-1])
        self.targets = is_known.sum(axis=0)
        self.shared_shared = columns.T @ columns
        self.shared_target = target.swapaxes(0, 1).reshape(leads, -1) @ columns
        self.local_local = np.einsum("mnf,mng->nfg", local, local, optimize=True)
        self.local_shared = np.einsum("mnf,mnas->nfas", local, shared, optimize=True)
        self.local_target = np.einsum("mnf,mhna->hnfa", local, target, optimize=True)
