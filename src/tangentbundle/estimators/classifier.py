"""`ManifoldClassifier`: which manifold does a cloud of points come from?"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..arrays import points_array, whole
from ..errors import DimensionWarning, InvalidInputError, ShapeError, TangentBundleError, TooFewPointsError
from ..geometry.dimension import resolve_dimension
from ..geometry.search import one_search
from ..nn import TNN, Activation, InvariantReadout, NormTanh
from ..nn.base import Configured, generator, seeded
from ..operators import LinearOperator, join
from ..training import fit
from .shape import FIELDS, Geometry, Holonomy, LowSpectrum, Neighborhoods, Shape, local_bundle, unit_cloud

BATCH = 50
"""Clouds in a step of training."""

LOOKED_AT = 25
"""Clouds whose dimension is estimated if none is given."""

Batch = tuple[torch.Tensor, LinearOperator, torch.Tensor, torch.Tensor]


class CloudNetwork(Configured):
    r"""Class scores of clouds: a TNN with an invariant readout, plus a perceptron on numbers of the whole cloud.

    .. math:: y_b = \mathrm{readout}_b(\mathrm{TNN}(X, \Delta)) + W_2\, \mathrm{ReLU}(W_1 g_b + c_1).

    Shapes: signal ``(n, d, fields)``, joined operator, geometry ``(clouds, numbers)`` to scores ``(clouds, classes)``.
    """

    def __init__(
        self,
        fields: int,
        numbers: int,
        classes: int,
        *,
        channels: Sequence[int] = (8, 4),
        taps: int = 2,
        step: float = 0.2,
        hidden: int = 16,
        activation: Activation | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        source = generator(seed)
        readout = InvariantReadout(channels[-1], classes, hidden, seed=source)
        self.fields = TNN(
            [fields, *channels], taps, step=step, activation=activation or NormTanh(), readout=readout, seed=source
        )
        self.first = seeded(torch.nn.Linear, numbers, hidden, source=source) if numbers else None
        self.second = seeded(torch.nn.Linear, hidden, classes, bias=False, source=source) if numbers else None

    def forward(self, x: torch.Tensor, operator: LinearOperator, geometry: torch.Tensor) -> torch.Tensor:
        scores = self.fields(x, operator)
        if self.first is None or self.second is None:
            return scores
        return scores + self.second(torch.relu(self.first(geometry)))


class ManifoldClassifier(ClassifierMixin, BaseEstimator):
    """Classifies clouds of points by the manifold they were sampled from.

    Clouds ``(n_i, D)`` of different sizes become local bundles; a tangent bundle network with an invariant readout, and
    numbers that only a bundle has (spectra, holonomy, curvature), give the classes. Position, orientation, size, order
    of points and choice of frames do not matter. Part of the training clouds, of every class, chooses when to stop.

    Args:
        activation: default ``NormTanh()``; ``Linear()`` for linear filters only, before the readout.
        geometry: objects such as ``LowSpectrum()``; default ``(LowSpectrum(), Holonomy(), Neighborhoods())``; ``()``
            for the network on fields alone.
        channels, taps, step: of the network; time is in units of the squared radius of a cloud.
        dim: intrinsic dimension; default: the most frequent estimate among training clouds.
        neighbors: of the median point of a cloud; default by size.
        validation: share of training clouds that chooses when to stop.
        epochs, patience, lr: of the training.
        random_state: seed of weights, batches and validation share.

    Attributes: ``classes_``, ``dim_``, ``network_``, ``center_`` and ``spread_`` of the geometric numbers,
    ``history_`` how the training went.

    >>> import tangentbundle as tb
    >>> from tangentbundle.estimators import ManifoldClassifier
    >>> shapes = [tb.manifolds.Sphere(2), tb.manifolds.Torus()]
    >>> clouds = [shapes[i % 2].sample(60, seed=i) for i in range(40)]
    >>> names = ["sphere", "torus"] * 20
    >>> model = ManifoldClassifier(epochs=20, random_state=0).fit(clouds[:30], names[:30])
    >>> model.score(clouds[30:], names[30:]), model.dim_
    (1.0, 2)
    """

    def __init__(
        self,
        activation: Activation | None = None,
        *,
        geometry: Sequence[Geometry] | None = None,
        channels: Sequence[int] = (8, 4),
        taps: int = 2,
        step: float = 0.2,
        dim: int | None = None,
        neighbors: int | None = None,
        validation: float = 0.2,
        epochs: int = 100,
        patience: int = 20,
        lr: float = 1e-2,
        random_state: Any = None,
    ):
        self.activation = activation
        self.geometry = geometry
        self.channels = channels
        self.taps = taps
        self.step = step
        self.dim = dim
        self.neighbors = neighbors
        self.validation = validation
        self.epochs = epochs
        self.patience = patience
        self.lr = lr
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        tags.no_validation = True
        return tags

    def fit(self, X, y) -> ManifoldClassifier:
        """Learn from clouds ``X``, a list of ``(n_i, D)``, and their labels ``y (clouds,)``."""
        clouds, labels = _clouds(X), _labels(y)
        if len(clouds) != len(labels):
            raise ShapeError(f"clouds and labels must be equally many, got {len(clouds)} and {len(labels)}.")
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(f"there is one class only, {self.classes_[0]!r}: give clouds of at least two.")
        self.n_features_in_ = clouds[0].shape[1]
        self.dim_ = whole(self.dim, "dim") if self.dim is not None else _usual_dimension(clouds)
        seed = check_random_state(self.random_state).randint(2**31)
        chosen = self._chosen(numbers, np.random.default_rng(seed))
        shapes, geometry = self._described(clouds)
        self.center_ = geometry[~chosen].mean(axis=0)
        self.spread_ = np.maximum(geometry[~chosen].std(axis=0), 1e-9)
        self.network_ = CloudNetwork(
            FIELDS,
            geometry.shape[1],
            len(self.classes_),
            channels=self.channels,
            taps=self.taps,
            step=self.step,
            activation=self.activation,
            seed=seed,
        )
        training, held = (
            self._batches([shapes[i] for i in part], geometry[part], numbers[part])
            for part in (np.random.default_rng(seed).permutation(np.flatnonzero(~chosen)), np.flatnonzero(chosen))
        )
        self.history_ = fit(
            self.network_,
            training,
            _cross_entropy,
            epochs=self.epochs,
            lr=self.lr,
            validation=held or None,
            patience=self.patience,
            min_delta=1e-3,
            clip=1.0,
            seed=seed,
            progress=False,
        )
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities ``(clouds, classes)``, in the order of ``classes_``."""
        check_is_fitted(self, "network_")
        clouds = _clouds(X, self.n_features_in_)
        parts = []
        for a in range(0, len(clouds), BATCH):
            shapes, geometry = self._described(clouds[a : a + BATCH], a)
            for signal, operator, numbers, _ in self._batches(shapes, geometry, np.zeros(len(shapes), int)):
                with torch.no_grad():
                    parts.append(torch.softmax(self.network_(signal, operator, numbers).double(), dim=-1).numpy())
        return np.concatenate(parts)

    def predict(self, X) -> np.ndarray:
        """The most probable class of each cloud, ``(clouds,)``."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    # From clouds to batches.

    def _chosen(self, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Which clouds choose when to stop: a share of every class, none of a class with fewer than four."""
        if not 0 <= self.validation < 1:
            raise InvalidInputError(f"validation must be a share from 0 to below 1, got {self.validation!r}.")
        chosen = np.zeros(len(numbers), bool)
        for number in range(len(self.classes_)):
            mine = rng.permutation(np.flatnonzero(numbers == number))
            chosen[mine[: round(self.validation * len(mine))]] = len(mine) > 3
        return chosen

    def _described(self, clouds: Sequence[np.ndarray], first: int = 0) -> tuple[list[Shape], np.ndarray]:
        """Shapes, and their geometric numbers ``(clouds, numbers)``."""
        geometry = (LowSpectrum(), Holonomy(), Neighborhoods()) if self.geometry is None else tuple(self.geometry)
        if not all(isinstance(part, Geometry) for part in geometry):
            raise InvalidInputError(f"geometry holds objects such as LowSpectrum(), got {self.geometry!r}.")
        shapes, table = [], []
        for number, points in enumerate(clouds, first):
            try:
                shape = Shape.of(local_bundle(unit_cloud(points), self.dim_, self.neighbors))
                table.append([value for part in geometry for value in part(shape)])
            except TangentBundleError as error:
                raise type(error)(f"cloud {number}: {error}") from error
            shapes.append(shape)
        return shapes, np.array(table, dtype=float).reshape(len(shapes), -1)

    def _batches(self, shapes: Sequence[Shape], geometry: np.ndarray, numbers: np.ndarray) -> list[Batch]:
        """Batches (signal, joined operator, standardised geometry, class numbers), in single precision."""
        scaled = torch.from_numpy((geometry - self.center_) / self.spread_).clamp(-10, 10).float()
        out: list[Batch] = []
        for a in range(0, len(shapes), BATCH):
            part = slice(a, a + BATCH)
            signal = torch.from_numpy(np.concatenate([s.signal() for s in shapes[part]])).float()
            operator = join([s.fields.to(dtype=torch.float32) for s in shapes[part]])
            out.append((signal, operator, scaled[part], torch.from_numpy(numbers[part])))
        return out


def _cross_entropy(net: torch.nn.Module, batch: Batch) -> torch.Tensor:
    *inputs, numbers = batch
    return F.cross_entropy(net(*inputs), numbers)


def _clouds(X: Any, ambient: int | None = None) -> list[np.ndarray]:
    if isinstance(X, (np.ndarray, torch.Tensor)) and X.ndim == 2:
        raise ShapeError(f"give a list of clouds (n_i, D), got one array {tuple(X.shape)}. For one cloud: [points].")
    clouds = [points_array(cloud, f"cloud {number}")[0] for number, cloud in enumerate(X)]
    if not clouds:
        raise InvalidInputError("there are no clouds: the list is empty.")
    wanted = clouds[0].shape[1] if ambient is None else ambient
    for number, cloud in enumerate(clouds):
        if cloud.shape[1] != wanted:
            raise ShapeError(f"clouds must lie in one space, R^{wanted}, but cloud {number} is in R^{cloud.shape[1]}.")
        if len(cloud) < 3:
            raise TooFewPointsError(f"cloud {number}: a bundle needs at least 3 points, got {len(cloud)}.")
    return clouds


def _labels(y: Any) -> np.ndarray:
    if y is None:
        raise InvalidInputError("requires y to be passed, but the target y is None: give a label for each cloud.")
    labels = column_or_1d(np.asarray(y))
    check_classification_targets(labels)
    return labels


def _usual_dimension(clouds: Sequence[np.ndarray]) -> int:
    """The most frequent estimate among the first clouds; the lowest of those if several are."""
    counts: Counter = Counter()
    for cloud in clouds[:LOOKED_AT]:
        with one_search(cloud), warnings.catch_warnings():
            warnings.simplefilter("ignore", DimensionWarning)  # many clouds outvote a doubtful one
            counts[resolve_dimension(cloud, None)[0]] += 1
    return max(sorted(counts), key=lambda dim: counts[dim])
