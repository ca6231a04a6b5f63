r"""Objects on hills, after the recipe of Hermes (arXiv 2310.19589): 50 objects stand on vertices of
a mesh and look along an edge; an action names one of them, which turns left, goes forward, or turns
right.

An object that goes forward moves along its edge, unless the vertex there is taken, is more than 2
higher or lower, or has a normal more than 45 degrees apart. Its direction is carried along in
parallel, and then is that of the nearest edge. Given are positions, occupancy, the action (204
numbers at each vertex) and one tangent vector, the direction of the object there; wanted are the
occupancy of every vertex after the action, 51 classes, and the directions.

Two things differ from the authors' code. "Left" is the next edge counterclockwise (there, the
previous one in the order of a list), and a direction is given in the tangent plane of its vertex
(there, with the axes of the neighbour's). Their numbers are not shown, since they are of another
task.

All networks share what has nothing to do with geometry (``Scene`` and ``Head``). Objects are alike:
inputs say whether a vertex is taken, and what the object on it is told; outputs say how much an
object is expected to leave, and how much the one that acts is expected to arrive. What they must
learn is *where*, which the directions say.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harness.ledger import Row, Task
from tangentbundle import TangentBundle
from tangentbundle.errors import InvalidInputError
from tangentbundle.nn import Configured, MixedOperators, MixedTNN, ResidualMixedTNN

from .base import SEEDS, Benchmark, Score

NUM_VERTICES = 250
NUM_OBJECTS = 50
EPISODES = {"train": (20, 100, 42), "test": (100, 20, 43)}
"""Number of episodes, their steps, and the seed."""

LEFT, FORWARD, RIGHT = range(3)
SHARES = (0.1, 0.8, 0.1)
"""Of the three moves."""

MAX_RISE = 2.0
MAX_BEND = np.pi / 4

EPOCHS = 40
QUICK_EPOCHS = 1
BATCH = 25
"""Steps of one episode in a batch."""

LEARNING_RATE = 2e-3

STEP = 0.3
"""Time of the heat flow of a tap; squared edges have the length 1.7."""


# The hills and the objects, in NumPy.


@dataclass(frozen=True, eq=False)
class Episode:
    """A mesh, the vertex of each object and the neighbour it looks at ``(T + 1, 50)``, and actions
    ``(T,)``: three times the object, plus the move."""

    vertices: np.ndarray
    faces: np.ndarray
    places: np.ndarray
    facing: np.ndarray
    actions: np.ndarray


def random_hills(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """200 random hills of PyVista, decimated to 250 vertices."""
    import pyvista

    spread_x, spread_y, amplitude = rng.uniform([1, 1, 1], [1.5, 1.5, 2])
    fine = pyvista.ParametricRandomHills(
        number_of_hills=200,
        hill_x_variance=spread_x,
        hill_y_variance=spread_y,
        hill_amplitude=amplitude,
        random_seed=int(rng.integers(0, 2**31 - 1)),
        u_res=100,
        v_res=100,
        w_res=100,
    )
    reduction = 1 - NUM_VERTICES / fine.n_points
    for attempt in range(100):
        coarse = fine.decimate(reduction)
        surplus = coarse.n_points - NUM_VERTICES
        if surplus == 0:
            break
        reduction += surplus / fine.n_points / (1 + attempt // 5)
    if coarse.n_points != NUM_VERTICES:
        raise InvalidInputError(f"no reduction of these hills has {NUM_VERTICES} vertices.")
    return np.asarray(coarse.points, dtype=float), coarse.faces.reshape(-1, 4)[:, 1:]


def vertex_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Unit normals, means of those of the triangles weighted by their areas; upward."""
    a, b, c = vertices[faces].swapaxes(0, 1)
    of_faces = np.cross(b - a, c - a)
    of_faces *= np.sign(of_faces[:, 2:])
    normals = np.zeros_like(vertices)
    for corner in range(3):
        np.add.at(normals, faces[:, corner], of_faces)
    return unit(normals)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors over their lengths; zero stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


def tangent_directions(
    vertices: np.ndarray,
    normals: np.ndarray,
    source: np.ndarray | int,
    target: np.ndarray | int,
) -> np.ndarray:
    """Unit vectors in the tangent planes at ``source`` that point to ``target``, ``(..., 3)``."""
    edges = vertices[target] - vertices[source]
    heights = (edges * normals[source]).sum(-1, keepdims=True)
    return unit(edges - heights * normals[source])


def transport(vector: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """A tangent vector after the shortest rotation of one unit normal to another."""
    axis = np.cross(start, end)
    turned = vector + np.cross(axis, vector)
    return turned + np.cross(axis, np.cross(axis, vector)) / (1 + start @ end)


class World:
    """Objects on one mesh: ``places`` and the numbers of the edges they look along, ``headings``.

    The edges of a vertex are counted counterclockwise.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.vertices, self.faces = random_hills(rng)
        self.normals = vertex_normals(self.vertices, self.faces)
        self.neighbors = sorted_neighbors(self.vertices, self.faces, self.normals)
        self.places = rng.choice(len(self.vertices), NUM_OBJECTS, replace=False)
        self.headings = np.array([rng.integers(len(self.neighbors[i])) for i in self.places])

    def facing(self) -> np.ndarray:
        """The vertex that each object looks at."""
        pairs = zip(self.places, self.headings, strict=True)
        return np.array([self.neighbors[place][heading] for place, heading in pairs])

    def act(self, action: int) -> None:
        """One object turns or goes forward."""
        number, move = divmod(action, 3)
        place = self.places[number]
        num_edges = len(self.neighbors[place])
        if move == LEFT:
            self.headings[number] = (self.headings[number] + 1) % num_edges
        elif move == RIGHT:
            self.headings[number] = (self.headings[number] - 1) % num_edges
        else:
            self._advance(number, place, self.neighbors[place][self.headings[number]])

    def _advance(self, number: int, place: int, ahead: int) -> None:
        """Go forward, if the rules allow it."""
        rise = abs(self.vertices[ahead, 2] - self.vertices[place, 2])
        cosine = self.normals[place] @ self.normals[ahead]
        if ahead in self.places or rise > MAX_RISE or cosine < np.cos(MAX_BEND):
            return
        direction = tangent_directions(self.vertices, self.normals, place, ahead)
        carried = transport(direction, self.normals[place], self.normals[ahead])
        edges = self.vertices[self.neighbors[ahead]] - self.vertices[ahead]
        self.places[number] = ahead
        self.headings[number] = np.argmin(((unit(edges) - carried) ** 2).sum(-1))


def sorted_neighbors(
    vertices: np.ndarray, faces: np.ndarray, normals: np.ndarray
) -> list[np.ndarray]:
    """The neighbours of every vertex, counterclockwise seen from above."""
    pairs = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    pairs = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    lists = []
    for vertex in range(len(vertices)):
        others = pairs[pairs[:, 0] == vertex, 1]
        directions = tangent_directions(vertices, normals, np.full(len(others), vertex), others)
        first = directions[0]
        second = np.cross(normals[vertex], first)
        lists.append(others[np.argsort(np.arctan2(directions @ second, directions @ first))])
    return lists


def simulate(rng: np.random.Generator, steps: int) -> Episode:
    """An episode of random actions on hills of its own."""
    world = World(rng)
    places = [world.places.copy()]
    facing = [world.facing()]
    actions = []
    for _ in range(steps):
        action = 3 * rng.integers(NUM_OBJECTS) + rng.choice(3, p=SHARES)
        world.act(int(action))
        actions.append(action)
        places.append(world.places.copy())
        facing.append(world.facing())
    return Episode(
        world.vertices, world.faces, np.array(places), np.array(facing), np.array(actions)
    )


def write_episodes(folder: Path) -> None:
    """The episodes of training and test, as ``train.npz`` and ``test.npz``."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, (count, steps, seed) in EPISODES.items():
        arrays = {}
        for number in range(count):
            episode = simulate(np.random.default_rng([seed, number]), steps)
            for name, array in vars(episode).items():
                single = np.float32 if array.dtype.kind == "f" else np.int16
                arrays[f"{number}.{name}"] = array.astype(single)
        np.savez_compressed(folder / f"{split}.npz", **arrays)


def read_episodes(path: Path) -> list[Episode]:
    """The episodes of a file."""
    names = ("vertices", "faces", "places", "facing", "actions")
    with np.load(path) as stored:
        count = len(stored.files) // len(names)
        episodes = []
        for number in range(count):
            arrays = [stored[f"{number}.{name}"] for name in names]
            vertices, *others = arrays
            integers = [array.astype(np.int64) for array in others]
            episodes.append(Episode(vertices.astype(float), *integers))
    return episodes


# What networks see.


@dataclass(frozen=True, eq=False)
class Scene:
    """An episode as tensors: T steps on a mesh of n vertices.

    ``functions`` (T, n, 6): taken, told to turn left, go forward, turn right, height, slope.
    ``fields`` (T, n, 3, 7), in space: directions of all objects; of those told to turn left, go
    forward, turn right; the first and third of these turned by a right angle; the upward slope.
    ``occupancy`` and ``actor`` are classes, 0 for none; ``directions`` (T + 1, n, 3).
    """

    positions: Tensor
    normals: Tensor
    edges: Tensor
    frames: Tensor
    functions: Tensor
    fields: Tensor
    occupancy: Tensor
    actor: Tensor
    directions: Tensor
    operators: MixedOperators

    NUM_FUNCTIONS = 6
    NUM_FIELDS = 7

    @classmethod
    def of(cls, episode: Episode, device: str) -> Scene:
        """The tensors of an episode, in float32 on a device."""
        vertices = episode.vertices
        normals = vertex_normals(vertices, episode.faces)
        steps = len(episode.actions)
        times = np.arange(steps + 1)[:, None]
        occupancy = np.zeros((steps + 1, len(vertices)), dtype=np.int64)
        occupancy[times, episode.places] = np.arange(1, NUM_OBJECTS + 1)
        directions = np.zeros((steps + 1, len(vertices), 3))
        toward = tangent_directions(vertices, normals, episode.places, episode.facing)
        directions[times, episode.places] = toward
        number, move = np.divmod(episode.actions, 3)
        acts = occupancy[:-1] == number[:, None] + 1
        commands = np.stack([acts & (move == kind)[:, None] for kind in range(3)], axis=-1)
        height = vertices[:, 2] - vertices[:, 2].mean()
        still = np.stack([height / 5, normals[:, 2]], axis=-1)
        functions = [
            occupancy[:-1, :, None] > 0,
            commands,
            np.broadcast_to(still, (steps, *still.shape)),
        ]
        slope = np.array([0.0, 0.0, 1.0]) - normals[:, 2:] * normals
        own = directions[:-1, :, :, None]
        acting_fields = own * commands[:, :, None, :]
        turning = np.moveaxis(acting_fields[..., [LEFT, RIGHT]], -1, 0)
        turned = np.moveaxis(np.cross(normals, turning), 0, -1)
        slopes = np.broadcast_to(slope[:, :, None], own.shape)
        fields = np.concatenate([own, acting_fields, turned, slopes], axis=-1)
        bundle = TangentBundle.from_mesh(vertices, episode.faces)
        single_precision = partial(torch.tensor, device=device, dtype=torch.float32)
        return cls(
            positions=single_precision(vertices),
            normals=single_precision(normals),
            edges=torch.tensor(_directed_edges(episode.faces).T.copy(), device=device),
            frames=single_precision(np.asarray(bundle.frames)),
            functions=single_precision(np.concatenate(functions, axis=-1)),
            fields=single_precision(fields),
            occupancy=torch.tensor(occupancy, device=device),
            actor=torch.tensor(number + 1, device=device),
            directions=single_precision(directions),
            operators=MixedOperators.of(bundle, oriented=True).to(device, torch.float32),
        )

    @property
    def steps(self) -> int:
        return len(self.actor)


def _directed_edges(faces: np.ndarray) -> np.ndarray:
    """The edges ``(e, 2)`` of triangles, each in both directions."""
    pairs = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)


class Head(torch.nn.Module):
    """From two numbers at each vertex to the logits of 51 classes: all stays as it is, but the
    object may leave (first number), and the one that acts may arrive (second)."""

    def __init__(self) -> None:
        super().__init__()
        self.confidence = torch.nn.Parameter(torch.tensor(8.0))
        self.shift = torch.nn.Parameter(torch.tensor([-4.0, -4.0]))

    def forward(self, numbers: Tensor, occupancy: Tensor, actor: Tensor) -> Tensor:
        logits = self.confidence * F.one_hot(occupancy, NUM_OBJECTS + 1).to(numbers.dtype)
        leave, arrive = (numbers + self.shift + self.confidence / 2).unbind(-1)
        empty = torch.zeros_like(logits)
        empty[..., 0] = leave * (occupancy == actor[:, None])
        arriving = F.one_hot(actor, NUM_OBJECTS + 1)[:, None, :] * arrive[..., None]
        return logits + empty + arriving * (occupancy == 0)[..., None]


# Networks: from a scene and steps to two numbers and a change of direction at each vertex.


class MixedNetwork(Configured):
    """A network of this library on functions and fields, exchanged by products and derivatives."""

    def __init__(self, net: MixedTNN | ResidualMixedTNN) -> None:
        super().__init__()
        self.net = net

    def forward(self, scene: Scene, steps: Tensor) -> tuple[Tensor, Tensor]:
        coordinates = torch.einsum("nia,tnic->tnac", scene.frames, scene.fields[steps])
        functions = scene.functions[steps][..., None, :]
        numbers, change = self.net(functions, coordinates, scene.operators)
        return numbers[..., 0, :], torch.einsum("nia,tna->tni", scene.frames, change[..., 0])


def mixed_tnn(seed: int) -> MixedNetwork:
    """Layers one after another."""
    functions = [Scene.NUM_FUNCTIONS, 52, 52, 52, 2]
    fields = [Scene.NUM_FIELDS, 52, 52, 52, 1]
    return MixedNetwork(MixedTNN(functions, fields, step=STEP, oriented=True, seed=seed))


def residual_mixed_tnn(seed: int) -> MixedNetwork:
    """Blocks that add to their inputs."""
    functions = [Scene.NUM_FUNCTIONS, 38, 2]
    fields = [Scene.NUM_FIELDS, 38, 1]
    return MixedNetwork(
        ResidualMixedTNN(functions, fields, layers=4, step=STEP, oriented=True, seed=seed)
    )


class GraphConvolutions(torch.nn.Module):
    """``GCNConv`` of PyTorch Geometric on functions, positions and components of fields."""

    def __init__(self, seed: int, width: int = 220, layers: int = 4) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        torch.manual_seed(seed)
        first = Scene.NUM_FUNCTIONS + 3 * Scene.NUM_FIELDS + 3
        widths = [first, *[width] * layers, 5]
        self.layers = torch.nn.ModuleList(
            GCNConv(width_in, width_out) for width_in, width_out in pairwise(widths)
        )

    def forward(self, scene: Scene, steps: Tensor) -> tuple[Tensor, Tensor]:
        functions = scene.functions[steps]
        places = scene.positions.expand(len(steps), -1, -1) / 10
        x = torch.cat([functions, scene.fields[steps].flatten(-2), places], dim=-1)
        for layer in self.layers[:-1]:
            x = F.silu(layer(x, scene.edges))
        outputs = self.layers[-1](x, scene.edges)
        return outputs[..., :2], _tangent(outputs[..., 2:], scene)


class EquivariantMessages(torch.nn.Module):
    """Messages of functions, lengths and inner products of fields with the edge, as in EGNN, with
    vectors that are carried as they are in space."""

    def __init__(self, seed: int, width: int = 76, layers: int = 4, vectors: int = 8) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.encode = torch.nn.Linear(Scene.NUM_FUNCTIONS, width)
        self.mix = torch.nn.Linear(Scene.NUM_FIELDS, vectors, bias=False)
        self.messages = torch.nn.ModuleList()
        self.updates = torch.nn.ModuleList()
        self.weights = torch.nn.ModuleList()
        for _ in range(layers):
            inputs = 2 * width + 2 * vectors + 2
            self.messages.append(_perceptron(inputs, width, width))
            self.updates.append(_perceptron(2 * width + vectors, width, width))
            self.weights.append(torch.nn.Linear(width, 2 * vectors))
        self.decode = torch.nn.Linear(width, 2)
        self.last = torch.nn.Linear(vectors, 1, bias=False)

    def forward(self, scene: Scene, steps: Tensor) -> tuple[Tensor, Tensor]:
        source, target = scene.edges
        h = self.encode(scene.functions[steps])
        v = self.mix(scene.fields[steps])
        edge = scene.positions[target] - scene.positions[source]
        length = edge.norm(dim=-1, keepdim=True)
        direction = (edge / length)[:, :, None]
        bend = (scene.normals[source] * scene.normals[target]).sum(-1, keepdim=True)
        fixed = torch.cat([length, bend], dim=-1).expand(len(steps), -1, -1)
        for message, update, weight in zip(self.messages, self.updates, self.weights, strict=True):
            along = [(v[:, end] * direction).sum(-2) for end in (source, target)]
            m = message(torch.cat([h[:, source], h[:, target], *along, fixed], dim=-1))
            of_edge, of_vectors = weight(m)[..., None, :].chunk(2, dim=-1)
            received = direction * of_edge + v[:, target] * of_vectors
            v = v + torch.zeros_like(v).index_add(1, source, received) / 6
            total = torch.zeros_like(h).index_add(1, source, m) / 6
            sizes = v.square().sum(-2)
            h = h + update(torch.cat([h, total, sizes], dim=-1))
        return self.decode(h), _tangent(self.last(v)[..., 0], scene)


def _perceptron(inputs: int, hidden: int, outputs: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, hidden),
        torch.nn.SiLU(),
        torch.nn.Linear(hidden, outputs),
        torch.nn.SiLU(),
    )


def _tangent(vectors: Tensor, scene: Scene) -> Tensor:
    """Vectors ``(t, n, 3)`` without their normal parts."""
    heights = (vectors * scene.normals).sum(-1, keepdim=True)
    return vectors - heights * scene.normals


NETWORKS: dict[str, tuple[str, Callable[[int], torch.nn.Module]]] = {
    "GCN": ("network", GraphConvolutions),
    "EGNN-like": ("network", EquivariantMessages),
    "MixedTNN": ("ours", mixed_tnn),
    "ResidualMixedTNN": ("ours", residual_mixed_tnn),
}
"""The networks of the table, with their kinds, from a seed; each has about 155 000 parameters."""


class Predictor(Configured):
    """A network and a head: logits ``(t, n, 51)`` and directions ``(t, n, 3)`` after the action."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network
        self.head = Head()

    def forward(self, scene: Scene, steps: Tensor) -> tuple[Tensor, Tensor]:
        numbers, change = self.network(scene, steps)
        logits = self.head(numbers, scene.occupancy[steps], scene.actor[steps])
        return logits, scene.directions[steps] + change


def train(net: Predictor, scenes: list[Scene], epochs: int, seed: int) -> Predictor:
    """Adam with a cosine schedule, on batches of steps of one episode."""
    rng = np.random.default_rng(seed)
    device = scenes[0].positions.device
    batches = []
    for scene in scenes:
        batches += [(scene, start) for start in range(0, scene.steps, BATCH)]
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    total = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=total)
    for _ in range(epochs):
        for index in rng.permutation(len(batches)):
            scene, start = batches[index]
            steps = torch.arange(start, min(start + BATCH, scene.steps), device=device)
            logits, directions = net(scene, steps)
            likelihood = F.cross_entropy(logits.flatten(0, 1), scene.occupancy[steps + 1].flatten())
            errors = (directions - scene.directions[steps + 1]).square().sum((-2, -1)).mean()
            loss = NUM_VERTICES * likelihood + errors
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    return net.eval()


# The table.


Prediction = tuple[Tensor, Tensor]
Method = Callable[[Scene, Tensor], Prediction]


def nothing_moves(change_rate: float) -> Method:
    """All stays as it is; another class has its share of the changes of the training episodes."""

    def predict(scene: Scene, steps: Tensor) -> Prediction:
        occupancy = F.one_hot(scene.occupancy[steps], NUM_OBJECTS + 1)
        probabilities = torch.where(occupancy > 0, 1 - change_rate, change_rate / NUM_OBJECTS)
        return probabilities.log(), scene.directions[steps]

    return predict


def changes(scenes: list[Scene]) -> float:
    """The share of vertices whose class changes in a step."""
    shares = [(scene.occupancy[1:] != scene.occupancy[:-1]).float().mean() for scene in scenes]
    return float(torch.stack(shares).mean())


def scores_of(method: Method, scenes: list[Scene]) -> Row:
    """Accuracy and negative log-likelihood of the classes of all vertices, the accuracy of those
    that change, and the root mean square error of the components of the directions."""
    correct = []
    correct_changes = []
    likelihoods = []
    squares = []
    with torch.no_grad():
        for scene in scenes:
            steps = torch.arange(scene.steps, device=scene.actor.device)
            logits, directions = method(scene, steps)
            truth = scene.occupancy[steps + 1]
            hits = (logits.argmax(-1) == truth).float()
            correct.append(hits.mean())
            correct_changes.append(hits[truth != scene.occupancy[steps]])
            log_shares = F.log_softmax(logits, dim=-1)
            likelihoods.append(F.nll_loss(log_shares.flatten(0, 1), truth.flatten()))
            errors = directions - scene.directions[steps + 1]
            squares.append(errors.square().sum(-1).mean() / 2)
    return {
        "accuracy": 100 * float(torch.stack(correct).mean()),
        "changes": 100 * float(torch.cat(correct_changes).mean()),
        "nll": 1000 * float(torch.stack(likelihoods).mean()),
        "rmse": float(torch.stack(squares).mean().sqrt()),
    }


@cache
def load_scenes(path: Path, device: str, count: int | None) -> list[Scene]:
    """The episodes of a file as tensors."""
    return [Scene.of(episode, device) for episode in read_episodes(path)[:count]]


class ObjectsOnHills(Benchmark):
    """Objects that move on hills that were not seen in training."""

    name = "hills"
    title = "Objects on hills: the next step on unseen hills"
    scores = (
        Score("accuracy", "accuracy, %", 5),
        Score("changes", "accuracy where it changes, %"),
        Score("nll", "NLL, thousandths"),
        Score("rmse", "RMSE of directions"),
    )
    data_source = (
        "Make them with python -m experiments.published.make hills FOLDER (needs pyvista)."
    )

    @classmethod
    def make_data(cls, folder: Path, source: Path | None) -> None:
        write_episodes(folder)

    def tasks(self, full: bool) -> list[Task]:
        limits = {} if full else {"episodes": 2}
        tasks: list[Task] = [{"method": "nothing moves", **limits}]
        for seed in SEEDS:
            tasks += [{"method": method, "seed": seed, **limits} for method in NETWORKS]
        return tasks

    def run(self, task: Task) -> list[Row]:
        count = task.get("episodes")
        training = load_scenes(self.file("train.npz"), self.device, count)
        test = load_scenes(self.file("test.npz"), self.device, count)
        if task["method"] == "nothing moves":
            scores = scores_of(nothing_moves(changes(training)), test)
            return [{"method": task["method"], "kind": "trivial", **scores}]
        kind, build = NETWORKS[task["method"]]
        net = Predictor(build(task["seed"])).to(self.device)
        start = time.perf_counter()
        train(net, training, EPOCHS if count is None else QUICK_EPOCHS, task["seed"])
        seconds = time.perf_counter() - start
        if isinstance(net.network, MixedNetwork):
            self.keep(net, task)
        row = {
            "method": task["method"],
            "kind": kind,
            **scores_of(net, test),
            "training_changes": scores_of(net, training)["changes"],
            "seed": task["seed"],
            "parameters": sum(parameter.numel() for parameter in net.parameters()),
            "seconds": seconds,
        }
        return [row]
