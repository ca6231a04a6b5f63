"""`ManifoldClassifier`: which manifold does a cloud of points come from?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..arrays import points_array, positive_integer
from ..batch import Clouds
from ..errors import (
    DimensionWarning,
    InvalidInputError,
    ShapeError,
    TangentBundleError,
    TooFewPointsError,
)
from ..geometry.cloud import PointCloud
from ..geometry.dimension import resolve_dimension
from ..geometry.frames import PCASettings
from ..geometry.kernels import Gaussian
from ..geometry.scale import scale_from
from ..nn import TNN, Activation, InvariantReadout, NormTanh
from ..nn.base import generator
from ..operators import SquareOperator, join
from ..parallel import threads_by_size
from ..training import fit
from .inputs import of_kind

CLOUDS_FOR_DIMENSION = 25
"""So many clouds tell the dimension of all."""

INPUT_CHANNELS = 3
"""Of ``network_inputs``."""

LEAST_GAIN = 1e-3
"""Training ends where the loss of the validation clouds falls by less."""

LARGEST_GRADIENT = 1.0
"""Norm to which gradients are shortened."""

Inputs = tuple[torch.Tensor, SquareOperator]
"""Signal and operator of several clouds."""


@dataclass(eq=False, repr=False)
class ManifoldClassifier(ClassifierMixin, BaseEstimator):
    """Classifies clouds of points by the manifold they were sampled from.

    Clouds ``(n_i, D)`` of different sizes become local bundles, and a tangent bundle network with
    an invariant readout gives the classes. Position, orientation, size, order of points and choice
    of frames do not matter.

    Args:
        activation: default ``NormTanh()``; ``NoActivation()`` for linear filters only, before the
            readout.
        channels, taps, step: of the network; time is in units of the squared radius of a cloud.
        dim: intrinsic dimension; default: the most frequent estimate among the first 25 training
            clouds.
        neighbors: of the median point of a cloud; default by size.
        validation: share of the training clouds of every class that chooses when to stop.
        epochs, patience, lr, batch_size: of the training.
        random_state: seed of weights, batches and validation share.

    Attributes:
        classes_: labels
        dim_: intrinsic dimension
        network_: the trained ``TNN``
        history_: the ``training.Fit``

    >>> import tangentbundle as tb
    >>> from tangentbundle.estimators import ManifoldClassifier
    >>> shapes = [tb.manifolds.Sphere(2), tb.manifolds.Torus()]
    >>> clouds = [shapes[i % 2].sample(60, seed=i) for i in range(40)]
    >>> names = ["sphere", "torus"] * 20
    >>> model = ManifoldClassifier(epochs=20, random_state=0).fit(clouds[:30], names[:30])
    >>> model.score(clouds[30:], names[30:]) >= 0.9, model.dim_
    (True, 2)
    """

    activation: Activation | None = None
    _: KW_ONLY
    channels: Sequence[int] = (8, 4)
    taps: int = 2
    step: float = 0.2
    dim: int | None = None
    neighbors: int | None = None
    validation: float = 0.2
    epochs: int = 100
    patience: int = 20
    lr: float = 1e-2
    batch_size: int = 50
    random_state: Any = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.no_validation = True
        return tags

    @threads_by_size
    def fit(self, X, y) -> ManifoldClassifier:
        """Learn from clouds ``X``, a list of ``(n_i, D)``, and their labels ``y (clouds,)``."""
        if y is None:
            raise InvalidInputError(
                "requires y to be passed, but the target y is None: give a label for each cloud."
            )
        clouds = _clouds(X)
        numbers = self._numbers_of_classes(y, len(clouds))
        if not len(self.channels):
            raise InvalidInputError("channels must have at least one number, such as (8, 8).")
        self.n_features_in_ = clouds[0].shape[1]
        if self.dim is None:
            self.dim_ = _usual_dimension(clouds[:CLOUDS_FOR_DIMENSION])
        else:
            self.dim_ = positive_integer(self.dim, "dim")
        seed = check_random_state(self.random_state).randint(2**31)
        rng = np.random.default_rng(seed)
        held_out = self._held_out(numbers, rng)
        training = rng.permutation(np.setdiff1d(np.arange(len(clouds)), held_out))
        self.network_ = self._network(seed)
        self.history_ = fit(
            self.network_,
            self._labelled_batches(clouds, training, numbers),
            F.cross_entropy,
            validation=self._labelled_batches(clouds, held_out, numbers) or None,
            epochs=self.epochs,
            patience=self.patience,
            min_delta=LEAST_GAIN,
            lr=self.lr,
            clip=LARGEST_GRADIENT,
            seed=seed,
            progress=False,
        )
        return self

    def _numbers_of_classes(self, y: Any, count: int) -> np.ndarray:
        """The number of each cloud's class among ``classes_``, ``(clouds,)``."""
        labels = column_or_1d(np.asarray(y))
        check_classification_targets(labels)
        if len(labels) != count:
            raise ShapeError(
                f"clouds and labels must be equally many, got {count} and {len(labels)}."
            )
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                f"there is one class only, {self.classes_[0]}: give clouds of at least two."
            )
        return numbers

    def _network(self, seed: int) -> TNN:
        """With random weights."""
        source = generator(seed)
        readout = InvariantReadout(self.channels[-1], len(self.classes_), seed=source)
        return TNN(
            [INPUT_CHANNELS, *self.channels],
            self.taps,
            step=self.step,
            activation=self.activation or NormTanh(),
            readout=readout,
            seed=source,
        )

    def _labelled_batches(
        self, clouds: Sequence[np.ndarray], chosen: np.ndarray, numbers: np.ndarray
    ) -> list[tuple[torch.Tensor, SquareOperator, torch.Tensor]]:
        """Signal, operator and classes of a batch of clouds, for every batch."""
        batches = []
        for rows, (signal, operator) in self._batches(clouds, chosen):
            batches.append((signal, operator, torch.from_numpy(numbers[rows])))
        return batches

    @threads_by_size
    def predict_proba(self, X) -> np.ndarray:
        """Probabilities ``(clouds, classes)``, in the order of ``classes_``; an array of the kind
        of the clouds."""
        check_is_fitted(self, "network_")
        clouds = _clouds(X, self.n_features_in_)
        probabilities = []
        for _, (signal, operator) in self._batches(clouds, np.arange(len(clouds))):
            with torch.no_grad():
                logits = self.network_(signal, operator).double()
            probabilities.append(torch.softmax(logits, dim=-1).numpy())
        _, kind = of_kind(X[0])
        return kind.wrap(np.concatenate(probabilities))

    def predict(self, X) -> np.ndarray:
        """The most probable class of each cloud, ``(clouds,)``."""
        best = np.asarray(self.predict_proba(X)).argmax(axis=1)
        return self.classes_[best]

    def _held_out(self, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Indices of the validation clouds: a share of every class, none of a class with fewer than
        four."""
        if not 0 <= self.validation < 1:
            raise InvalidInputError(
                f"validation must be a share from 0 to below 1, got {self.validation!r}."
            )
        held_out = []
        for number in range(len(self.classes_)):
            members = rng.permutation(np.flatnonzero(numbers == number))
            count = 0
            if len(members) > 3:
                count = round(self.validation * len(members))
            held_out.append(members[:count])
        return np.concatenate(held_out)

    def _batches(
        self, clouds: Sequence[np.ndarray], chosen: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Inputs]]:
        """``batch_size`` of the chosen clouds at a time: their numbers and inputs."""
        for start in range(0, len(chosen), positive_integer(self.batch_size, "batch_size")):
            rows = chosen[start : start + self.batch_size]
            yield rows, self._inputs(clouds, rows)

    def _inputs(self, clouds: Sequence[np.ndarray], rows: np.ndarray) -> Inputs:
        """Those of numbered clouds; an error names its cloud, for which each is tried alone."""
        batch = [clouds[row] for row in rows]
        try:
            return network_inputs(clouds_at_once(batch, self.dim_, self.neighbors))
        except TangentBundleError as error:
            if len(rows) == 1:
                raise type(error)(f"cloud {rows[0]}: {error}") from error
        signals = []
        operators = []
        for row in rows:
            signal, operator = self._inputs(clouds, np.array([row]))
            signals.append(signal)
            operators.append(operator)
        return torch.cat(signals), join(operators)


def clouds_at_once(points: Sequence[np.ndarray], dim: int, neighbors: int | None = None) -> Clouds:
    """Of clouds centred and scaled to root mean square radius one."""
    scaled = []
    for cloud in points:
        if (cloud == cloud[:1]).all():
            raise TooFewPointsError(
                f"all {len(cloud)} points coincide; there is no manifold to describe."
            )
        centred = cloud - cloud.mean(axis=0)
        radius = np.sqrt(np.square(centred).sum(axis=1).mean())
        scaled.append(centred / radius)
    batch = np.repeat(np.arange(len(points)), [len(cloud) for cloud in points])
    return Clouds.of(
        np.concatenate(scaled),
        batch,
        dim=dim,
        scale=scale_from(None, neighbors),
        settings=PCASettings(),
        kernel=Gaussian(),
        adapt=True,
    )


def network_inputs(clouds: Clouds) -> Inputs:
    r"""Input fields ``(n, d, 3)``: tangential parts of x, :math:`|x|^2 x` and :math:`10 c\, x`; and
    the Laplacians.

    c is the curvature: the share of the variance of a neighbourhood that lies off its tangent
    space.
    """
    numbered = clouds.numbered
    x = numbered.points * clouds.radii[numbered.cloud, None]
    lengths = x.square().sum(1)
    curvature = clouds.frames.pca.residual(clouds.frames.dim)
    weights = torch.stack([torch.ones_like(lengths), lengths, 10 * curvature], 1)
    signal = torch.einsum("nij,ni,nc->njc", clouds.frames.matrices, x, weights)
    return signal.float(), clouds.laplacian().to(dtype=torch.float32)


def _clouds(X: Any, ambient: int | None = None) -> list[np.ndarray]:
    """The clouds as arrays, all in one space R^D."""
    if isinstance(X, (np.ndarray, torch.Tensor)) and X.ndim == 2:
        raise ShapeError(
            f"give a list of clouds (n_i, D), got one array {tuple(X.shape)}. For one cloud: "
            "[points]."
        )
    clouds = [points_array(cloud, f"cloud {number}")[0] for number, cloud in enumerate(X)]
    if not clouds:
        raise InvalidInputError("there are no clouds: the list is empty.")
    expected = ambient or clouds[0].shape[1]
    for number, cloud in enumerate(clouds):
        count, dimensions = cloud.shape
        if dimensions != expected:
            raise ShapeError(
                f"clouds must lie in one space, R^{expected}, but cloud {number} is in "
                f"R^{dimensions}."
            )
        if count < 3:
            raise TooFewPointsError(
                f"cloud {number}: a bundle needs at least 3 points, got {count}."
            )
    return clouds


def _usual_dimension(clouds: Sequence[np.ndarray]) -> int:
    """The most frequent estimate; the lowest of those if several are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DimensionWarning)  # many clouds outvote a doubtful one
        estimates = [resolve_dimension(PointCloud.in_order(cloud), None)[0] for cloud in clouds]
    return int(np.bincount(estimates).argmax())
