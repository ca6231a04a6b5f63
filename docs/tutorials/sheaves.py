# %% [markdown]
# # What if neighbours in a graph disagree?
#
# **The question.** A graph network assumes that neighbours are similar. In many graphs they are not: people who date, predators and prey,
# neighbouring squares of a chessboard. What can a network do then?
#
# You will see a network fail because of its graph, and then learn a better geometry for the same graph: a
# [sheaf](../concepts.md#sheaf). You should know what a graph network is. Reading takes about ten minutes.

# %%
# On Colab or Binder, first run: %pip install "tangentbundle[plot]"
import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F

import tangentbundle as tb

# %% [markdown]
# ## A graph with a knob
#
# We make a graph with 240 nodes in two classes, and turn one knob: the *share of edges that join equal classes*. At 1 neighbours always agree, at 0
# they never do. Every node has six features; two of them tell the class, under much noise.


# %%
def make_graph(agree, n=240, degree=5, seed=0):
    """Features ``(n, 6)``, edges ``(2, e)`` and classes ``(n,)``."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    source = np.repeat(np.arange(n), degree)
    wanted = np.where(rng.random(len(source)) < agree, y[source], 1 - y[source])
    members = [np.flatnonzero(y == label) for label in (0, 1)]
    target = np.array([rng.choice(members[label]) for label in wanted])
    pairs = np.unique(np.sort(np.stack([source, target]), axis=0)[:, source != target], axis=1)
    x = rng.standard_normal((n, 6))
    x[:, :2] += 0.75 * (2 * y[:, None] - 1)
    return torch.tensor(x).float(), torch.tensor(pairs), torch.tensor(y)


x, edges, y = make_graph(agree=0.1)
share = (y[edges[0]] == y[edges[1]]).float().mean()
print(f"{len(x)} nodes, {edges.shape[1]} edges, {share:.0%} of them between equal classes")

# %% [markdown]
# ## What heat does to the signal
#
# Take the first feature as a temperature at every node, and let heat flow along the edges for a moment. On this graph every node has neighbours
# of the other class, so the two classes cancel.

# %% alt="Histograms of a signal for both classes: raw, after heat flow on the graph, after heat flow with signs"
signal = x[:, None, :1]
plain = tb.Sheaf.from_edges(edges, torch.ones(edges.shape[1], 1, 1))
signs = torch.where(y[edges[0]] == y[edges[1]], 1.0, -1.0)
signed = tb.Sheaf.from_edges(edges, signs[:, None, None])
heat = {"raw": signal}
for name, sheaf in {"heat on the graph": plain, "heat with signs": signed}.items():
    lap = sheaf.laplacian(tb.operators.ScalarDegrees())
    heat[name] = tb.Heat(1.0)(lap, signal)
figure, axes = plt.subplots(1, 3, figsize=(8.5, 2.6), layout="constrained")
for axis, (name, values) in zip(axes, heat.items(), strict=True):
    right = ((values[:, 0, 0] > 0).long() == y).float().mean()
    for label in (0, 1):
        axis.hist(values[y == label, 0, 0].numpy(), bins=25, alpha=0.6)
    axis.set(title=f"{name}: {right:.0%} right", yticks=[])
plt.show()

# %% [markdown]
# The third picture used the answer: an edge between different classes got the sign -1, so that a vector is turned round before
# it is averaged. With these signs neighbours agree again, and heat removes noise instead of classes.
#
# A number with a sign is the simplest *restriction map*. In general every edge carries a matrix. A graph with a vector
# space at each node and such matrices is a [sheaf](../concepts.md#sheaf). A tangent bundle is a sheaf whose matrices come from geometry.
# Here there is no geometry, so the matrices are **learned**: gradients of the loss flow into them.
#
# ## Three networks, and the knob
#
# * the perceptron ignores the graph,
# * the graph network (`TNN` on the graph Laplacian) averages over neighbours,
# * `SheafDiffusion` learns a rotation for each end of each edge from the features of the two nodes.
#
# All are trained on half of the nodes and tested on the other half.


# %%
def accuracy(model, inputs, y, known, epochs=60):
    """Train a network, and return the share of the other nodes that it gets right."""
    torch.manual_seed(0)
    adam = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-3)
    for _ in range(epochs):
        adam.zero_grad()
        F.cross_entropy(model(*inputs).squeeze(1)[known], y[known]).backward()
        adam.step()
    with torch.no_grad():
        right = model.eval()(*inputs).squeeze(1).argmax(1) == y
    return float(right[~known].float().mean())


def try_all(agree, seed):
    """Accuracies of the three networks on one graph."""
    x, edges, y = make_graph(agree, seed=seed)
    known = torch.rand(len(y), generator=torch.Generator().manual_seed(seed)) < 0.5
    one = torch.ones(edges.shape[1], 1, 1)
    graph = tb.Sheaf.from_edges(edges, one).laplacian(tb.operators.ScalarDegrees())
    perceptron = torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
    )
    network = tb.nn.TNN([6, 16, 2], taps=2, step=1.0, seed=seed)
    learner = tb.nn.SheafLearner(2, tb.nn.Cayley())
    sheaf = tb.nn.SheafDiffusion(6, 8, 2, learner, layers=2, dropout=0.3)
    return {
        "perceptron": accuracy(perceptron, (x,), y, known),
        "graph network": accuracy(network, (x[:, None, :], graph), y, known),
        "learned sheaf": accuracy(sheaf, (x, edges), y, known),
    }


knob = (0.05, 0.25, 0.5, 0.75, 0.95)
rows = [[try_all(agree, seed) for seed in range(3)] for agree in knob]
means = {name: [np.mean([r[name] for r in row]) for row in rows] for name in rows[0][0]}
for name, values in means.items():
    print(f"{name:18s}", " ".join(f"{value:.0%}" for value in values))

# %% alt="Accuracy of three networks against the share of agreeing edges: the sheaf is good at both ends, all meet in the middle"
figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for name, values in means.items():
    axis.plot(knob, values, "o-", label=name)
axis.set(xlabel="share of edges between equal classes", ylabel="right on other nodes")
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# ## The surprise
#
# **Disagreement is as informative as agreement.** A graph whose neighbours *never* agree is as useful as one whose neighbours always do. Useless is the
# graph in the middle, where an edge says nothing about the classes. There no network is better than the perceptron, which does not look at edges.
#
# A second surprise is the graph network: at the left end it is not lost, either. One of its filters leaves the node as it is, another averages, and the
# difference of the two is a filter that sharpens. It is the same for all edges, though. Only the learned sheaf can treat each edge differently, which matters in graphs that agree
# in some parts and not in others.
#
# ## What the maps have learned

# %% alt="Histogram of the angle of the learned rotation for edges between equal and between different classes"
x, edges, y = make_graph(agree=0.5, seed=0)
learner = tb.nn.SheafLearner(2, tb.nn.Cayley(), in_channels=6)
embed = torch.nn.Linear(6, 2)
torch.manual_seed(0)
adam = torch.optim.Adam([*learner.parameters(), *embed.parameters()], lr=0.02)
for _ in range(120):
    adam.zero_grad()
    lap = learner(x, edges).laplacian(tb.operators.ScalarDegrees())
    flowed = tb.Heat(1.0)(lap, embed(x)[:, :, None], method=tb.Chebyshev(1e-4))[:, 0, 0]
    F.binary_cross_entropy_with_logits(4 * flowed, y.float()).backward()
    adam.step()
maps = learner(x, edges).maps.detach()
turn = maps[:, 0].transpose(1, 2) @ maps[:, 1]
angle = torch.rad2deg(torch.atan2(turn[:, 1, 0], turn[:, 0, 0])).abs()
same = y[edges[0]] == y[edges[1]]
figure, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
axis.hist(
    [angle[same].numpy(), angle[~same].numpy()],
    bins=18,
    label=["equal classes", "different classes"],
)
axis.set(xlabel="rotation along the edge, degrees", yticks=[])
axis.legend(frameon=False)
plt.show()
print(
    f"mean rotation: equal classes {angle[same].mean():.0f}, different classes {angle[~same].mean():.0f} degrees"
)

# %% [markdown]
# In this last graph half of the edges agree, so no single filter can be right for all. The sheaf turns vectors more on edges between different classes than on edges between equal
# ones: it has learned which edges to believe, from the features of their ends.
#
# ## Exercise
#
# 1. Replace `Cayley()` (rotations) by `Diagonal()` (signs and weights) or `General()`. Which needs fewer epochs?
# 2. Raise the noise: `0.75` in `make_graph` to `0.4`. Which network loses most?
# 3. Let one half of the graph agree and the other not. How large is the gap between graph network and sheaf now?
#
# ## What you have seen
#
# * Averages over neighbours help only if neighbours agree, or if you know how they disagree.
# * A sheaf says how, edge by edge, and can be learned.
# * Always run the perceptron: where edges mean nothing, it is as good, and it costs less.
#
# Next: [learned sheaves](../sheaves.md), [results on public graphs](../benchmarks.md#sheaves).
