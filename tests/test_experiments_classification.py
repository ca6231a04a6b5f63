"""The experiment with tori and Klein bottles: rows, repeatability, honest scores."""

import json

import numpy as np
import pytest
import torch

from experiments import classification
from experiments.base import draw
from experiments.classification import (
    SIGN_RULES,
    STRETCHED,
    Classification,
    Sample,
    with_signs,
)
from experiments.results import Results
from tangentbundle import nn
from tangentbundle.manifolds import Sphere

METHODS = {(m, a) for m in ("DD-TNN", *SIGN_RULES, "MNN", "3D-CNN") for a in ("Id", "Tanh")}
BASELINES = {("majority class", "-"), ("logistic regression on moments", "-")}


def task(protocol, clouds=40):
    return {"protocol": protocol, "reading": "base", "dataset": 0, "clouds": clouds}


@pytest.fixture(scope="module")
def short():
    patch = pytest.MonkeyPatch()
    patch.setattr(classification, "EPOCHS", 3)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def rows(short):
    return Classification().run(task("paper"), seed=0)


def test_tasks_are_data_sets():
    experiment = Classification()
    tasks = experiment.tasks(True, "paper")
    assert len(tasks) == 8 * len(STRETCHED) and {t["reading"] for t in tasks} == set(STRETCHED)
    assert {t["clouds"] for t in tasks + experiment.tasks(True, "best")} == {2000}
    assert (len(experiment.tasks(False, "paper")), len(experiment.tasks(True, "best"))) == (1, 8)


def test_every_method_has_a_row(rows):
    assert {(r["method"], r["activation"]) for r in rows} == METHODS | BASELINES
    assert json.loads(json.dumps(rows)) == rows
    assert all(0 <= r["accuracy"] <= 1 for r in rows)
    assert {(r["method"], r["activation"]) for r in rows if "validation" in r} == METHODS


def test_networks_have_about_as_many_parameters(rows):
    counts = [r["parameters"] for r in rows if (r["method"], r["activation"]) in METHODS]
    assert max(counts) < 2 * min(counts)


def test_same_seed_same_rows_and_another_seed_other_clouds(rows):
    assert Classification().run(task("paper"), seed=0) == rows
    first, second = (Sample.drawn(5, draw(seed, "classification", 0), True) for seed in (0, 1))
    assert not np.array_equal(first.points[0], second.points[0])


def test_readings_share_labels_and_sizes():
    """The same draw in both; coordinates differ by a factor for each axis."""
    base, other = (
        Sample.drawn(6, draw(0, "classification", 0), stretch) for stretch in STRETCHED.values()
    )
    assert np.array_equal(other.labels, base.labels)
    for p, q in zip(base.points, other.points, strict=True):
        assert np.allclose(p - p[0], (q - q[0]) * np.ptp(p, axis=0) / np.ptp(q, axis=0), atol=1e-4)


@pytest.mark.parametrize("rule", SIGN_RULES.values(), ids=SIGN_RULES)
def test_other_signs_change_the_readout_alone(rule):
    """Linear layers and coordinatewise tanh commute with them: only sums of coordinates depend on
    signs."""
    sample, rng = Sample.drawn(6, draw(0, "classification", 0), True), np.random.default_rng(0)
    clouds = classification.paper_clouds(sample.points)
    flipped = with_signs(clouds, rule, rng)
    matrices, flipped_matrices = clouds.frames.matrices, flipped.frames.matrices
    signs = (matrices * flipped_matrices).sum(1, keepdim=True).mT.float()
    assert torch.equal(flipped_matrices.abs(), matrices.abs()) and set(signs.unique().tolist()) == {
        -1.0,
        1.0,
    }
    for make in classification.ACTIVATIONS.values():
        net = nn.TNN([1, 8, 4, 1], taps=2, activation=make(), seed=0)
        (before, after) = (net(*classification.tangent_inputs(c)) for c in (clouds, flipped))
        assert torch.allclose(after, signs * before, atol=1e-5)
        assert not torch.allclose(after.sum(0), before.sum(0), atol=1e-2)


def test_cells_of_the_3d_cnn():
    """Its grid does not depend on where a cloud lies or how large it is."""
    cloud = Sphere(2).sample(500, seed=0)
    first, second = (classification.occupancy(p) for p in (cloud, 7.0 * cloud + [1.0, -2.0, 3.0]))
    assert first.shape == (1, 6, 6, 6) and np.array_equal(first, second)
    assert float(first[0, 2:4, 2:4, 2:4].sum()) == 0.0  # hollow
    assert all(
        float(side.sum()) > 0
        for d in range(3)
        for side in (first[0].select(d, 0), first[0].select(d, 5))
    )


def test_parts_do_not_overlap():
    train, validation, test = Sample([], np.zeros(50, int)).parts
    assert (train.stop, validation.start, validation.stop, test.start) == (32, 32, 40, 40)


def test_published_numbers_stand_beside(rows):
    """Of every network and activation, whatever the reading; none beside the baselines."""
    table = Results(Classification(), rows, "paper").full()
    paper = {(row[2], row[1]): row[-1] for row in table.body}
    assert {key for key, number in paper.items() if number} == METHODS
    assert paper["DD-TNN", "Tanh"] == "0.875 ± 0.009"
    assert {row["reading"] for row in Classification().published()} == set(STRETCHED)
    assert len(table.notes.split()) <= 200


def test_best_protocol(monkeypatch):
    from tangentbundle import estimators

    class Quick(estimators.ManifoldClassifier):
        def fit(self, X, y):
            self.epochs = 8
            return super().fit(X, y)

    monkeypatch.setattr(estimators, "ManifoldClassifier", Quick)
    rows = Classification().run(task("best", 40), seed=0)
    found = {(r["method"], r["activation"]): r["accuracy"] for r in rows}
    assert set(found) == {("ManifoldClassifier", a) for a in ("Id", "Tanh")} | BASELINES
    assert found["ManifoldClassifier", "Tanh"] > 0.6
