"""Published benchmarks: what is scored, what methods see, and tables that hide nothing."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull
from typer.testing import CliRunner

import tangentbundle as tb
from experiments.command import app
from experiments.published import BENCHMARKS, benchmark, graphuniverse, hills, meshpde
from experiments.published.base import KINDS, stored_rows, table_of
from experiments.published.graphuniverse import Batch, CommunityMixture, Graph
from experiments.published.meshpde import LearnedLaplacian, MeshGraph, MeshSeries
from experiments.published.trained import WEIGHTS, cards, load_trained
from harness.ledger import key_of
from tangentbundle.errors import InvalidInputError

pytestmark = pytest.mark.usefixtures("one_torch_thread")

ROOT = Path(__file__).parents[1]


# MeshPDE.


def ellipsoid(n=120, axes=(1.0, 1.5, 0.6)):
    """Vertices on a spiral, all normals outward."""
    number = np.arange(n) + 0.5
    height = 1 - 2 * number / n
    angle = np.pi * (1 + 5**0.5) * number
    radius = np.sqrt(1 - height**2)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
    faces = ConvexHull(points).simplices.astype(np.int64)
    inward = np.linalg.det(points[faces]) < 0
    faces[inward] = faces[inward][:, ::-1]
    return points * axes, faces


TIME_STEPS = {"heat": 2e-4, "wave": 1e-2}
"""Of explicit steps, short enough for these meshes."""


def ellipsoid_series(n, seed):
    """A mesh of an ellipsoid, and both equations on it from five random fields."""
    vertices, faces = ellipsoid(n)
    graph = MeshGraph.of(vertices, faces)
    arrays = {"vertices": vertices, "faces": faces}
    start = np.random.default_rng(seed).random((5, n), dtype=np.float32).astype(float)
    series = {}
    for equation, dt in TIME_STEPS.items():
        series[equation] = meshpde.simulate(graph, torch.from_numpy(start), equation, dt, arrays)
    return MeshSeries(graph, series)


def write_mesh(path, n, seed):
    """Such a mesh as a file of the benchmark."""
    vertices, faces = ellipsoid(n)
    arrays = {"vertices": vertices, "faces": faces}
    for equation, fields in ellipsoid_series(n, seed).series.items():
        arrays[f"{equation}_start"] = fields[:, 0].float().numpy()
        arrays[f"{equation}_end"] = fields[:, -1].numpy()
        arrays[f"{equation}_dt"] = TIME_STEPS[equation]
    np.savez(path, **arrays)


@pytest.fixture(scope="module")
def meshes(tmp_path_factory):
    """A folder with seven small meshes under the names of the benchmark."""
    folder = tmp_path_factory.mktemp("meshpde")
    for number, name in enumerate((*meshpde.TRAINING_MESHES, *meshpde.TEST_MESHES)):
        write_mesh(folder / f"{name}.npz", 60 + 10 * number, number)
    return folder


def test_cotangents_are_those_of_the_library():
    """On a mesh that the library leaves as it is."""
    vertices, faces = ellipsoid(axes=(1.0, 1.0, 1.0))
    operator = meshpde.CotangentLaplacian(MeshGraph.of(vertices, faces))
    library = tb.TangentBundle.from_mesh(vertices, faces).scalar().laplacian()
    x = torch.randn(120, 1, 2, dtype=torch.float64, generator=torch.manual_seed(0))
    ours = operator.apply(x)
    theirs = torch.as_tensor(library.apply(x))
    ratio = (ours * theirs).sum() / theirs.square().sum()  # areas are in units of their mean
    torch.testing.assert_close(ours, ratio * theirs, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("equation", meshpde.ORDERS)
def test_with_the_generators_operator_nothing_is_left(meshes, equation):
    """Among the learned Laplacians is the one that made the data, and then the rate is exact. This
    is a property of the family, which the page says."""
    net = LearnedLaplacian(seed=0)
    with torch.no_grad():
        net.skip.copy_(torch.tensor([[-0.5, -0.5, 0.0], [-1.0, 0.0, 0.0]]))
        net.weights[-1].zero_()
    mesh = meshpde.load_mesh(meshes / "urn.npz")
    order = meshpde.ORDERS[equation]
    with torch.no_grad():
        inputs = mesh.series[equation][:, : meshpde.NUM_INPUTS]
        predicted = meshpde.predict(net(mesh.graph), inputs, order, meshpde.STEPS)
    scores = meshpde.rollout_scores(predicted, mesh.series[equation][:, meshpde.NUM_INPUTS :])
    assert scores.shape == (5,) and float(scores.max()) < 1e-6


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_units_of_length_do_not_matter(unit):
    vertices, faces = ellipsoid()
    net = LearnedLaplacian(seed=0)
    fields = torch.rand(3, 5, 120, dtype=torch.float64, generator=torch.manual_seed(0))
    predictions = []
    for scale in (1.0, unit):
        laplacian = net(MeshGraph.of(scale * vertices, faces))
        with torch.no_grad():
            predictions.append(meshpde.predict(laplacian, fields, 0, 3))
    torch.testing.assert_close(predictions[0], predictions[1], rtol=1e-9, atol=1e-9)


def test_edges_with_three_triangles_have_a_cotangent_of_each():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0.2], [0, 0.1, 1.0]])
    faces = np.array([[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    whole = MeshGraph.of(vertices, faces)
    single = [MeshGraph.of(vertices, faces[[k]]) for k in range(3)]

    def weight(graph):
        at_edge = (graph.sources == 0) & (graph.targets == 1)
        return float(graph.weights[at_edge])

    assert weight(whole) == pytest.approx(sum(map(weight, single)))


def test_training_sees_the_training_samples_and_times_alone(meshes, monkeypatch):
    """Other samples, later times and the test meshes may be anything."""
    monkeypatch.setattr(meshpde, "CHECK_EVERY", 2)
    outcomes = []
    for spoiled in (False, True):
        series = []
        for name in meshpde.TRAINING_MESHES:
            mesh = meshpde.load_mesh(meshes / f"{name}.npz")
            copies = {equation: fields.clone() for equation, fields in mesh.series.items()}
            if spoiled:
                for fields in copies.values():
                    fields[3:] = 7.0
                    fields[:, meshpde.LAST_TRAINING_TIME + 1 :] = 7.0
            series.append(MeshSeries(mesh.graph, copies))
        net = meshpde.train(LearnedLaplacian(seed=0), series, updates=6, seed=0)
        outcomes.append(torch.cat([tensor.flatten() for tensor in net.state_dict().values()]))
    assert torch.equal(outcomes[0], outcomes[1])


def test_learned_laplacians_are_saved(tmp_path):
    net = LearnedLaplacian(hidden=5, constants=True, seed=3)
    tb.save(net, tmp_path / "net.safetensors")
    again = tb.load(tmp_path / "net.safetensors", allow=[LearnedLaplacian])
    graph = MeshGraph.of(*ellipsoid())
    x = torch.rand(2, 120, dtype=torch.float64)
    torch.testing.assert_close(net(graph)(x), again(graph)(x), rtol=0, atol=0)
    assert torch.allclose(again(graph)(torch.ones_like(x)), torch.zeros_like(x), atol=1e-10)


def test_scores_by_hand():
    truth = torch.tensor([[[3.0, 4.0], [1.0, 0.0]]])
    predicted = torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])
    assert meshpde.rollout_scores(predicted, truth).tolist() == [1.0]


def test_a_damaged_mesh_is_refused(meshes, tmp_path):
    with np.load(meshes / "urn.npz") as stored:
        arrays = dict(stored)
    arrays["wave_end"] = arrays["wave_end"] + 0.1
    np.savez(tmp_path / "urn.npz", **arrays)
    with pytest.raises(InvalidInputError, match="wave series end elsewhere"):
        meshpde.load_mesh(tmp_path / "urn.npz")


# Trained weights.

CARDS = cards()


def test_every_file_of_weights_has_a_card():
    files = {path.name for path in WEIGHTS.glob("*.safetensors")}
    assert files == {card["file"] for card in CARDS.values()}
    assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) < 5_000_000


@pytest.mark.parametrize("name", CARDS)
def test_cards_have_the_numbers_of_the_table(name):
    """The scores of the seed of the card."""
    card = CARDS[name]
    chosen = benchmark(card["benchmark"])
    rows = []
    for row in stored_rows(chosen):
        keys = ("method", "seed", "setting")
        if all(row.get(key) == card.get(key) for key in keys):
            rows.append(row)
    (row,) = rows
    for key, value in card["scores"].items():
        assert row[key] == pytest.approx(value, rel=1e-2)


@pytest.mark.parametrize("equation", meshpde.ORDERS)
def test_weights_of_meshpde(equation):
    """The number of the card on an ellipsoid, where the cotangent Laplacian has 8 and 29."""
    net = load_trained("meshpde")
    mesh = ellipsoid_series(300, 0)
    series = mesh.series[equation]
    with torch.no_grad():
        predicted = meshpde.predict(
            net(mesh.graph),
            series[:, : meshpde.NUM_INPUTS],
            meshpde.ORDERS[equation],
            meshpde.STEPS,
        )
    score = float(meshpde.rollout_scores(predicted, series[:, meshpde.NUM_INPUTS :]).mean())
    assert score == pytest.approx(CARDS["meshpde"]["part_scores"][equation], rel=1e-2)


def test_weights_of_graphuniverse():
    """The number of the card on ten graphs."""
    net = load_trained("graphuniverse")
    path = WEIGHTS / "graphuniverse-part.npz"
    with np.load(path) as stored:
        posterior = torch.from_numpy(stored["posterior"].astype(np.float32))
    graphs = graphuniverse.read_graphs(path)
    own = posterior.split([len(graph.labels) for graph in graphs])
    known = [replace(graph, posterior=part) for graph, part in zip(graphs, own, strict=True)]
    recipe = graphuniverse.RECIPES[CARDS["graphuniverse"]["method"]]
    expected = CARDS["graphuniverse"]["part_scores"]["accuracy"]
    assert graphuniverse.accuracy(recipe, net, known) == pytest.approx(expected, abs=2e-3)


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.AccuracyWarning")
def test_weights_of_hills():
    """The numbers of the card on two episodes."""
    net = load_trained("hills")
    episodes = hills.read_episodes(WEIGHTS / "hills-part.npz")
    scores = hills.scores_of(net, [hills.Scene.of(episode, "cpu") for episode in episodes])
    assert scores == pytest.approx(CARDS["hills"]["part_scores"], rel=5e-3)


# GraphUniverse.


def random_graphs(count, seed, homophily=0.8):
    """Graphs of three of the communities, whose features say little and edges much."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(0, 0.4, (20, 15))
    graphs = []
    for _ in range(count):
        present = rng.choice(20, 3, replace=False)
        labels = rng.choice(present, 40)
        features = centers[labels] + rng.normal(0, 0.8, (40, 15))
        same = labels[:, None] == labels
        chance = np.where(same, 0.25 * homophily, 0.25 * (1 - homophily))
        pairs = np.argwhere(np.triu(rng.random((40, 40)) < chance, 1))
        edges = np.concatenate([pairs, pairs[:, ::-1]]).T
        graphs.append(
            Graph(
                torch.from_numpy(features).float(),
                torch.from_numpy(labels),
                torch.from_numpy(edges.copy()),
            )
        )
    return graphs


def share_correct(guesses, batch):
    return float((guesses.argmax(1) == batch.labels).float().mean())


def test_graphs_tell_which_communities_they_have():
    """Shares of each graph help, and edges help more."""
    mixture = CommunityMixture.fit(random_graphs(150, 0))
    batch = Batch.of(random_graphs(40, 1))
    nearest = share_correct(-torch.cdist(batch.features, mixture.centers), batch)
    by_shares = share_correct(mixture.posterior(batch, edges=False), batch)
    by_edges = share_correct(mixture.posterior(batch), batch)
    assert nearest + 0.1 < by_shares < by_edges - 0.03
    assert mixture.same == pytest.approx(0.66, abs=0.1)


def test_posteriors_of_a_graph_do_not_depend_on_its_batch():
    mixture = CommunityMixture.fit(random_graphs(60, 0))
    graphs = random_graphs(5, 1)
    together = mixture.posterior(Batch.of(graphs)).split(40)
    for graph, posterior in zip(graphs, together, strict=True):
        torch.testing.assert_close(
            mixture.posterior(Batch.of([graph])), posterior, rtol=1e-3, atol=1e-3
        )


def test_posteriors_do_not_see_labels():
    mixture = CommunityMixture.fit(random_graphs(60, 0))
    graph = random_graphs(1, 1)[0]
    other = Graph(graph.features, torch.zeros_like(graph.labels), graph.edges)
    assert torch.equal(mixture.posterior(Batch.of([graph])), mixture.posterior(Batch.of([other])))


def test_graphs_as_files(tmp_path):
    graphs = random_graphs(3, 0)
    graphuniverse.write_graphs(tmp_path / "graphs.npz", graphs)
    for graph, again in zip(
        graphs, graphuniverse.read_graphs(tmp_path / "graphs.npz"), strict=True
    ):
        assert torch.equal(graph.labels, again.labels) and torch.equal(graph.edges, again.edges)
        torch.testing.assert_close(graph.features, again.features, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("method", graphuniverse.RECIPES)
def test_networks_learn_communities(method, tmp_path, monkeypatch):
    """A few epochs on small graphs, through the benchmark itself."""
    monkeypatch.setattr(graphuniverse, "TRAINING", slice(0, 40))
    monkeypatch.setattr(graphuniverse, "VALIDATION", slice(40, 50))
    monkeypatch.setattr(graphuniverse, "TEST", slice(50, 60))
    monkeypatch.setattr(graphuniverse, "QUICK_EPOCHS", 10)
    graphuniverse.write_graphs(tmp_path / "low-sparse-heavy.npz", random_graphs(60, 0))
    chosen = benchmark("graphuniverse", tmp_path)
    chosen.weights = tmp_path / "weights"
    task = {"setting": "low-sparse-heavy", "method": method, "seed": 42, "training": 40}
    (row,) = chosen.run(task)
    assert 0.1 < row["accuracy"] <= 1.0 and row["seconds"] > 0
    assert method.startswith("GCN") != any(tmp_path.glob("weights/*.safetensors"))
    assert {"all", "low"} <= chosen.summaries([row])[0].keys()


# Tables and the command.


@pytest.mark.parametrize("name", BENCHMARKS)
def test_tables_have_every_row(name):
    """Of others, and ours: losing rows too. Each published number names its source."""
    chosen = benchmark(name)
    rows = stored_rows(chosen)
    table = table_of(chosen, rows)
    methods = [line[0] for line in table.body]
    entries = chosen.published()
    assert methods[: len(entries)] == [entry["method"] for entry in entries]
    assert set(methods[len(entries) :]) == {row["method"] for row in rows}
    assert all(entry["source"] for entry in entries)
    assert {row["kind"] for row in rows} <= set(KINDS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_finished_rows_are_all_of_the_table(name):
    """A file of results has the rows of all tasks, or is not there."""
    chosen = benchmark(name)
    rows = stored_rows(chosen)
    if rows:
        assert {row["task"] for row in rows} == {key_of(task) for task in chosen.tasks(True)}


@pytest.mark.parametrize("page", ["docs/published.md", "experiments/published/README.md"])
@pytest.mark.parametrize("name", BENCHMARKS)
def test_pages_show_the_finished_rows(name, page):
    chosen = benchmark(name)
    rows = stored_rows(chosen)
    text = (ROOT / page).read_text("utf-8")
    if rows:
        assert table_of(chosen, rows).markdown().strip() in text


def test_the_command(meshes, tmp_path, monkeypatch):
    monkeypatch.setattr(meshpde, "QUICK_UPDATES", 2)
    monkeypatch.setattr(meshpde, "CHECK_EVERY", 1)
    out = tmp_path / "out"
    arguments = ["published", "meshpde", "--data", str(meshes), "--quick", "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "R-UniMesh" in done.output and "learned Laplacian" in done.output
    lines = (out / "results.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["header"] == {"benchmark": "meshpde", "full": False}
    assert len(list(out.glob("weights/*.safetensors"))) == 6
    again = CliRunner().invoke(app, arguments)  # nothing is computed anew
    assert again.exit_code == 0
    assert (out / "results.jsonl").read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["published", "weather"], "there are meshpde, graphuniverse"),
        (["published", "meshpde", "--out", "out"], "--data"),
        (["published", "meshpde", "--data", ".", "--out", "out"], "no armadillo.npz"),
    ],
)
def test_mistakes(arguments, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and reason in done.output
