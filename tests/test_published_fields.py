"""Benchmarks with vectors: objects on hills, and wind at hidden stations."""

import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay

from experiments.published import benchmark, hills, stations
from experiments.published.hills import Predictor, Scene, World

pytestmark = pytest.mark.usefixtures("one_torch_thread")


# Objects on hills.


def gentle_hills(rng):
    """A surface over 80 points near those of a grid."""
    grid = np.stack(np.meshgrid(np.linspace(-4, 4, 10), np.linspace(-4, 4, 8)), axis=-1)
    plane = grid.reshape(-1, 2) + rng.uniform(-0.25, 0.25, (80, 2))
    height = np.sin(plane[:, 0]) + 0.5 * np.cos(1.5 * plane[:, 1])
    return np.column_stack([plane, height]), Delaunay(plane).simplices.astype(np.int64)


@pytest.fixture
def small_hills(monkeypatch):
    monkeypatch.setattr(hills, "random_hills", gentle_hills)
    monkeypatch.setattr(hills, "NUM_OBJECTS", 12)
    monkeypatch.setattr(hills, "NUM_VERTICES", 80)


@pytest.fixture
def scene(small_hills):
    return Scene.of(hills.simulate(np.random.default_rng(0), 30), "cpu")


def test_objects_move_as_told(small_hills):
    """One at a time, along its edge, to a free vertex that is neither too high nor too bent."""
    rng = np.random.default_rng(1)
    world = World(rng)
    moved = 0
    for _ in range(200):
        places = world.places.copy()
        ahead = world.facing()
        number = rng.integers(12)
        world.act(3 * number + hills.FORWARD)
        changed = np.flatnonzero(world.places != places)
        assert len(set(world.places)) == 12
        if len(changed) == 0:
            continue
        moved += 1
        assert changed.tolist() == [number] and world.places[number] == ahead[number]
        start, end = places[number], ahead[number]
        assert end not in places
        assert abs(world.vertices[start, 2] - world.vertices[end, 2]) <= hills.MAX_RISE
        assert world.normals[start] @ world.normals[end] >= np.cos(hills.MAX_BEND)
    assert moved > 20


def test_turns_are_undone(small_hills):
    world = World(np.random.default_rng(2))
    before = world.facing()
    world.act(hills.LEFT)
    turned = world.facing()
    assert turned[0] != before[0] and np.array_equal(turned[1:], before[1:])
    world.act(hills.RIGHT)
    assert np.array_equal(world.facing(), before)


def test_left_is_counterclockwise(small_hills):
    world = World(np.random.default_rng(3))
    place = world.places[0]
    before = world.facing()[0]
    world.act(hills.LEFT)
    after = world.facing()[0]
    directions = hills.tangent_directions(
        world.vertices, world.normals, np.array([place, place]), np.array([before, after])
    )
    assert np.cross(directions[0], directions[1]) @ world.normals[place] > 0


def test_transport_keeps_lengths_and_tangency():
    rng = np.random.default_rng(0)
    start, end = hills.unit(rng.normal(size=(2, 3)))
    vector = hills.unit(np.cross(start, rng.normal(size=3)))
    carried = hills.transport(vector, start, end)
    assert np.linalg.norm(carried) == pytest.approx(1.0) and abs(carried @ end) < 1e-12


def test_inputs_know_nothing_of_what_follows(small_hills):
    """Another future gives the same inputs at the first steps."""
    episode = hills.simulate(np.random.default_rng(0), 20)
    other = hills.Episode(
        episode.vertices,
        episode.faces,
        np.concatenate([episode.places[:10], episode.places[:11][::-1]]),
        np.concatenate([episode.facing[:10], episode.facing[:11][::-1]]),
        episode.actions,
    )
    first = Scene.of(episode, "cpu")
    second = Scene.of(other, "cpu")
    assert torch.equal(first.functions[:9], second.functions[:9])
    assert torch.equal(first.fields[:9], second.fields[:9])


def test_the_head_moves_the_object_that_acts():
    """It may leave its vertex and arrive at free ones; nothing else can change."""
    head = hills.Head()
    occupancy = torch.tensor([[3, 0, 5]])
    numbers = torch.full((1, 3, 2), 20.0)
    logits = head(numbers, occupancy, torch.tensor([3]))
    assert logits.argmax(-1).tolist() == [[0, 3, 5]]
    stays = head(-numbers, occupancy, torch.tensor([3]))
    assert torch.equal(stays.argmax(-1), occupancy)


@pytest.mark.parametrize("name", hills.NETWORKS)
def test_networks_and_rotated_hills(name, small_hills):
    """Networks of invariant functions and of vectors turn with the hills; ``GCN`` does not."""
    build = hills.NETWORKS[name][1]
    net = Predictor(build(0)).eval()
    episode = hills.simulate(np.random.default_rng(0), 5)
    turn = np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])
    rotated = hills.Episode(
        episode.vertices @ turn.T, episode.faces, episode.places, episode.facing, episode.actions
    )
    steps = torch.arange(5)
    with torch.no_grad():
        logits, directions = net(Scene.of(episode, "cpu"), steps)
        turned_logits, turned_directions = net(Scene.of(rotated, "cpu"), steps)
    expected = directions @ torch.tensor(turn.T, dtype=torch.float32)
    differences = [
        float((turned_logits - logits).abs().max()),
        float((turned_directions - expected).abs().max()),
    ]
    if name == "GCN":
        assert max(differences) > 1e-2
    else:
        assert max(differences) < 2e-3


def test_episodes_as_files_and_the_table(small_hills, tmp_path, monkeypatch):
    monkeypatch.setattr(hills, "EPISODES", {"train": (2, 6, 42), "test": (2, 4, 43)})
    hills.write_episodes(tmp_path)
    again = hills.read_episodes(tmp_path / "train.npz")
    first = hills.simulate(np.random.default_rng([42, 0]), 6)
    assert np.array_equal(again[0].places, first.places) and len(again) == 2
    chosen = benchmark("hills", tmp_path)
    chosen.weights = tmp_path / "weights"
    tasks = chosen.tasks(False)[: 1 + len(hills.NETWORKS)]
    rows = [row for task in tasks for row in chosen.run(task)]
    assert [row["method"] for row in rows] == ["nothing moves", *hills.NETWORKS]
    assert rows[0]["changes"] == 0.0 and all(0 <= row["accuracy"] <= 100 for row in rows)
    assert len(list(chosen.weights.iterdir())) == 2


def test_nothing_moves_by_hand(scene):
    scores = hills.scores_of(hills.nothing_moves(hills.changes([scene])), [scene])
    same = scene.occupancy[1:] == scene.occupancy[:-1]
    assert scores["accuracy"] == pytest.approx(100 * float(same.float().mean()), rel=1e-5)
    moved = (scene.directions[1:] - scene.directions[:-1]).square().sum(-1).mean() / 2
    assert scores["rmse"] == pytest.approx(float(moved.sqrt()), rel=1e-5)


# Wind at stations.


@pytest.fixture
def wind_file(tmp_path, monkeypatch):
    """Random solid rotations on a coarse grid."""
    monkeypatch.setattr(stations, "NUM_STATIONS", 60)
    monkeypatch.setattr(stations, "NUM_LAYOUTS", {"training": 2, "validation": 2, "test": 2})
    monkeypatch.setattr(stations, "CHECK_EVERY", 2)
    lat, lon = (grid.ravel() for grid in np.mgrid[-80:81:10, 0:360:15].astype(float))
    rng = np.random.default_rng(0)

    def rotations(count):
        east = np.cos(np.radians(lat)) * rng.normal(3, 8, (count, 1))
        north = np.sin(np.radians(lon - rng.uniform(0, 360, (count, 1)))) * 5
        return (100 * np.stack([east, north], axis=-1)).astype(np.int16)

    path = tmp_path / "wind.npz"
    area = np.cos(np.radians(lat))
    np.savez(path, lat=lat, lon=lon, area=area, training=rotations(40), other=rotations(140))
    return path


def cases_of(path, change=0.0):
    """The test cases; with a change of the wind where it is hidden."""
    stations.cases.cache_clear()
    drawn = stations.cases(path, "test", "cpu")
    return [
        stations.Case(
            case.layout,
            case.wind + change * ~case.observed[:, None],
            case.observed,
            case.climatology,
        )
        for case in drawn
    ]


def test_hidden_wind_changes_no_estimate(wind_file):
    fields = stations.read_fields(wind_file)
    estimates = [
        stations.climatology,
        stations.kriging(stations.FieldInterpolator(manifold=stations.Earth())),
        stations.kriging(stations.with_history(fields)),
    ]
    estimates += [stations.estimate_by(build(0), "cpu") for build in stations.NETWORKS.values()]
    for estimate in estimates:
        before = estimate(cases_of(wind_file)[0])
        after = estimate(cases_of(wind_file, change=50.0)[0])
        assert np.array_equal(before, after)


def test_only_validation_reads_the_other_season(wind_file):
    """Whatever the test period holds, the networks are the same."""
    outcomes = []
    for change in (0.0, 30.0):
        with np.load(wind_file) as stored:
            arrays = dict(stored)
        arrays["other"][60:] += np.int16(100 * change)
        np.savez(wind_file, **arrays)
        for cached in (stations.read_fields, stations.cases, stations.training_layouts):
            cached.cache_clear()
        net = stations.NETWORKS["TNN"](0)
        validation = stations.cases(wind_file, "validation", "cpu")
        net, _ = stations.train(net, wind_file, validation, 4, 0, "cpu")
        outcomes.append(torch.cat([tensor.flatten() for tensor in net.state_dict().values()]))
    assert torch.equal(outcomes[0], outcomes[1])


def test_rows_of_stations(wind_file, tmp_path):
    for cached in (stations.read_fields, stations.cases, stations.training_layouts):
        cached.cache_clear()
    chosen = benchmark("stations", wind_file.parent)
    tasks = chosen.tasks(False)
    rows = [row for task in (tasks[0], tasks[1]) for row in chosen.run(task)]
    assert rows[0]["method"] == "climatology" and rows[0]["error"] == 1.0
    assert all(0 < row["error"] < 3 for row in rows)
