# %% [markdown]
# # What is in the paper? All of it in one notebook
#
# **The question.** *Tangent Bundle Convolutional Learning: from Manifolds to Cellular Sheaves and Back*
# ([Battiloro, Wang, Riess, Di Lorenzo, Ribeiro, 2024](https://doi.org/10.1109/TSP.2024.3379862)) goes from manifolds to sheaves, and back.
# What does each step mean for numbers?
#
# Every section below is one section of the paper, in code that runs. [Every equation of the paper and where it is](../theory/paper.md)
# is the complete list. Reading takes about fifteen minutes.

# %%
# On Colab or Binder, first run: %pip install "tangentbundle[plot]"
import matplotlib.pyplot as plt
import numpy as np
import torch

import tangentbundle as tb

# %% [markdown]
# ## 1. Manifold, tangent bundle, signal (Section II)
#
# A [manifold](../concepts.md#manifold) $M$ is a smooth surface in $\mathbb{R}^D$. At each point $x$ it has a
# [tangent space](../concepts.md#tangent-space) $T_xM$. A *tangent bundle signal* $F$ gives each point a vector of its tangent space. On the computer there are
# $n$ sampled points.

# %% alt="A smooth tangent field on a sphere, drawn as arrows at sampled points"
sphere = tb.manifolds.Sphere(2)
points = sphere.sample(2000, seed=0)
field = sphere.gradient_field(points, 2)
tb.plot.field(points, field, arrows=400, title="a tangent bundle signal on a sphere")
plt.show()

# %% [markdown]
# ## 2. From points to a sheaf (Section IV, Algorithms 1 and 2)
#
# The manifold itself is unknown. Local PCA estimates a [frame](../concepts.md#frame) $O_i$ of each tangent plane: $D \times d$, with orthonormal columns. For neighbours $i$ and $j$ the
# closest orthogonal matrix to $O_i^TO_j$ is the [transport](../concepts.md#transport) $O_{ij}$. Points, edges and these matrices form an
# *orthogonal cellular sheaf*.

# %%
bundle = tb.TangentBundle.from_points(points)
print(bundle)
print("dimension found:", bundle.dim)
print("frames:", bundle.frames.shape)
normals = np.cross(bundle.frames[:, :, 0], bundle.frames[:, :, 1])
cosine = np.abs((normals * points).sum(axis=1))
print(f"median angle to the true planes: {np.degrees(np.arccos(np.median(cosine))):.1f} degrees")

# %% [markdown]
# The *sampling operator* $\Omega_n$ takes a field to coordinates, $f_i = O_i^T F(x_i)$ (Equation 19). The result has the shape
# $(n, d, c)$ with $c$ channels.

# %%
x = bundle.to_coordinates(field)
print("ambient", field.shape, "-> coordinates", x.shape)

# %% [markdown]
# ## 3. The Laplacian (Definition 12, Proposition 3)
#
# The [connection Laplacian](../concepts.md#connection-laplacian) compares the vector at a point with the mean of its neighbours, carried
# to the point. Its eigenvalues are frequencies. On the sphere they are known: $\ell(\ell+1) - 1$, each $2(2\ell + 1)$ times. The estimate comes from nothing but 2 000 points:

# %% alt="Estimated eigenvalues of the sphere's connection Laplacian follow the exact staircase 1, 5, 11"
lap = bundle.laplacian()
estimated = lap.spectrum(30)[0]
exact = sphere.vector_spectrum(30)
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.step(range(1, 31), exact, where="mid", color="0.6", label="exact")
axis.plot(range(1, 31), estimated, "o", ms=4, label="from 2 000 points")
axis.set(xlabel="number", ylabel="eigenvalue")
axis.legend(frameon=False)
plt.show()
print(f"largest error: {np.abs(estimated / exact - 1).max():.1%}")

# %% [markdown]
# With the paper's constant $c = 1$ they would all be wrong by one factor, which the library computes from the kernel and the sample. This is one of
# [the corrections](../theory/index.md#all-corrections-at-a-glance).
#
# ## 4. Filters (Section III, Propositions 1 and 2)
#
# A [filter](../concepts.md#filter) multiplies each frequency $\lambda$ by its [response](../concepts.md#response) $\hat h(\lambda)$. Heat flow
# $e^{t\Delta}$ has the response $e^{-t\lambda}$. Our field is an eigenfield of eigenvalue 5, so heat shrinks it by $e^{-5t}$:

# %%
for time in (0.05, 0.1, 0.2):
    shrunk = np.linalg.norm(tb.Heat(time)(lap, x)) / np.linalg.norm(x)
    print(f"t = {time}: {shrunk:.4f}, exact {np.exp(-5 * time):.4f}")

# %% [markdown]
# A FIR filter is a sum of [taps](../concepts.md#tap), heat flows for times $0, T_s, 2T_s, \dots$ with weights $h_k$ (Equation 24):

# %% alt="Response of a FIR filter with three taps at the eigenvalues of the sphere"
fir = tb.FIR([0.2, 1.4, -0.8], step=0.1)
line = np.linspace(0, estimated[-1], 300)
figure, axis = plt.subplots(figsize=(6, 2.6), layout="constrained")
axis.plot(line, fir.response(line))
axis.plot(estimated, fir.response(estimated), "o", ms=4)
axis.set(xlabel="frequency", ylabel="response", title="h = (0.2, 1.4, -0.8), steps of 0.1")
plt.show()

# %% [markdown]
# ## 5. The network (Definition 10, Equations 26 and 27)
#
# A tangent bundle network stacks such filters, with matrices that mix channels, and nonlinearities:
# $X_{l+1} = \sigma\big(\sum_k e^{kT_s\Delta} X_l H_{l,k}\big)$. The weights $H_{l,k}$ know nothing of the points.

# %%
net = tb.nn.TNN([1, 8, 4, 1], taps=2, step=0.1, seed=0).double()
y = net(torch.from_numpy(x), lap)
print(net.num_parameters, "weights; output", tuple(y.shape))

# %% [markdown]
# ## 6. The theorem (Theorem 1)
#
# *And back*: with more points, the output of the same network converges to that of the network on the manifold. We run the same weights on samples of growing size and compare with a reference of 6 000 points,
# at the nearest points of it.

# %% alt="Difference between outputs of the same network on n points and on the reference, falling with n in a log-log plot"
from scipy.spatial import cKDTree


def output(n, seed):
    """Points, and the ambient output of the network on a sample."""
    sample = sphere.sample(n, seed=seed)
    on_sample = tb.TangentBundle.from_points(sample, dim=2)
    signal = torch.from_numpy(on_sample.to_coordinates(sphere.gradient_field(sample, 2)))
    with torch.no_grad():
        return sample, on_sample.to_ambient(net(signal, on_sample.laplacian()).numpy())


reference_points, reference = output(6000, seed=99)
tree = cKDTree(reference_points)
sizes = (150, 300, 600, 1200, 2400)
errors = []
for n in sizes:
    differences = []
    for seed in range(3):
        sample, answer = output(n, seed)
        expected = reference[tree.query(sample)[1]]
        differences.append(np.linalg.norm(answer - expected) / np.linalg.norm(expected))
    errors.append(np.mean(differences))
    print(f"n = {n:4d}: difference {errors[-1]:.1%}")
figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
axis.loglog(sizes, errors, "o-")
axis.set(xlabel="points", ylabel="difference")
axis.set_xticks(sizes, [str(n) for n in sizes])
axis.set_yticks([0.05, 0.07, 0.1], ["5 %", "7 %", "10 %"])
axis.minorticks_off()
plt.show()

# %% [markdown]
# ## 7. The table, in small (Section V)
#
# The paper denoises a field on a torus with a trained network, and compares with a network on functions (MNN). The small version: 200 points, noise of 0.3, one draw. The networks are trained with the clean vectors of
# half of the points, and tested at the other half.

# %%
torus = tb.manifolds.Torus()
cloud = torus.sample(200, seed=1)
clean = torus.tangent_field(cloud)
noisy = clean + 0.3 * np.random.default_rng(0).standard_normal(clean.shape)
on_torus = tb.TangentBundle.from_points(cloud, dim=2, neighbors=24)
known = torch.rand(200, generator=torch.Generator().manual_seed(0)) < 0.5


def as_channels(vectors):
    """Components as three functions ``(n, 1, 3)``."""
    return vectors[:, None, :]


def from_channels(signal):
    """The vectors ``(n, 3)`` of three functions."""
    return signal[:, 0, :]


def train(kind):
    """Error of a network at the points whose clean vectors it has not seen."""
    if kind == "TNN":
        operator, width = on_torus.laplacian(), 1
        to_signal, to_field = on_torus.to_coordinates, on_torus.to_ambient
    else:
        operator, width = on_torus.scalar().laplacian(), 3
        to_signal, to_field = as_channels, from_channels
    inputs = torch.from_numpy(to_signal(noisy))
    target = torch.from_numpy(to_signal(clean))
    network = tb.nn.TNN([width, 8, 4, width], taps=3, step=0.002, seed=0).double()
    adam = torch.optim.Adam(network.parameters(), lr=0.03)
    for _ in range(300):
        adam.zero_grad()
        (network(inputs, operator) - target)[known].square().mean().backward()
        adam.step()
    with torch.no_grad():
        answer = to_field(network(inputs, operator).numpy())
    return ((answer - clean)[~known.numpy()] ** 2).sum(axis=1).mean()


print(f"noisy              {((noisy - clean) ** 2).sum(axis=1).mean():.3f}")
print(f"MNN                {train('MNN'):.3f}")
print(f"TNN                {train('TNN'):.3f}")
denoiser = tb.FieldDenoiser().fit(cloud, noisy)
print(f"FieldDenoiser      {((denoiser.predict(cloud) - clean) ** 2).sum(axis=1).mean():.3f}")

# %% [markdown]
# **The surprise.** The paper's network does not win its own table. The MNN is better here, although the paper prints the opposite,
# and `FieldDenoiser`, a Gaussian process that has never seen a clean vector, is close to it. All points share one cloud in one position, so x, y and z are useful channels for an MNN.
# [The full tables](../results/README.md), with all draws, say the same. The tutorial [TNN, MNN or MLP](compare.md) shows
# when the order turns round: with many clouds, whose positions differ.
#
# ## Exercise
#
# 1. Turn all frames at random (`TangentBundle.from_frames(points, bundle.frames @ turns)`). Which printed numbers change?
# 2. Replace `NormTanh` by `activation=tb.nn.Coordinatewise(torch.tanh)`, as in the paper's experiments, and repeat 1.
# 3. Which assumption of Theorem 1 does the tap $k = 0$ violate? `tb.Heat(0.0).properties()` tells.
#
# ## What you have seen
#
# | paper | here |
# |---|---|
# | manifold, signal | `points (n, D)`, `vectors (n, D)` |
# | sheaf | `TangentBundle` |
# | sheaf Laplacian | `bundle.laplacian()` |
# | filter, response | `Heat`, `FIR`; `filter.response` |
# | DD-TNN | `nn.TNN` |
# | Theorem 1 | the same weights on more points |
#
# Next: [every equation of the paper and where it is](../theory/paper.md), [theory](../theory/index.md).
