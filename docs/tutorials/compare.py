# %% [markdown]
# # TNN, MNN or MLP: which network for vectors on surfaces?
#
# **The question.** We have many small clouds of points with noisy arrows, in PyTorch Geometric, and want one network that removes the noise from
# clouds it has never seen. Three candidates:
#
# * **MLP**: the same small perceptron at every point. It sees one arrow at a time.
# * **MNN**: filters on functions. It sees the x, y and z components as three functions on the surface.
# * **TNN**: filters on tangent vectors. It sees arrows, and carries them along the surface.
#
# You should know what a neural network is. Reading takes about ten minutes.

# %%
# On Colab or Binder, first run: %pip install "tangentbundle[plot,pyg]"
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

import tangentbundle as tb
from tangentbundle.interop import AttachBundle, laplacian_of

# %% [markdown]
# ## Many clouds
#
# Each cloud has 200 points of an ellipsoid with axes of its own. The true arrows circle around the z-axis; the measured ones have noise. `AttachBundle`
# is a transform of PyTorch Geometric: it estimates the tangent planes, neighbours and [transport](../concepts.md#transport)
# of a cloud from `pos`.

# %%
attach = AttachBundle(dim=2, neighbors=20)


def make_cloud(seed, n=200, rotation=None):
    """A cloud with noisy arrows, perhaps rotated in space."""
    rng = np.random.default_rng(seed)
    ellipsoid = tb.manifolds.Ellipsoid(tuple(rng.uniform(0.7, 1.3, 3)))
    points = ellipsoid.sample(n, seed=rng)
    arrows = np.cross([0.0, 0.0, 1.0], points)
    if rotation is not None:
        points, arrows = points @ rotation.T, arrows @ rotation.T
    noisy = arrows + 0.5 * rng.standard_normal(points.shape)
    data = attach(Data(pos=torch.from_numpy(points).float()))
    frames = data.frames
    data.target = torch.einsum("nda,nd->na", frames, torch.from_numpy(arrows).float())[..., None]
    data.x = torch.einsum("nda,nd->na", frames, torch.from_numpy(noisy).float())[..., None]
    return data


train = [make_cloud(seed) for seed in range(24)]
test = [make_cloud(seed) for seed in range(100, 112)]
print(train[0])

# %% alt="A cloud with its true arrows and with the noisy ones"
first = test[0]
figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.4), layout="constrained")
for axis, signal, title in zip(axes, (first.target, first.x), ("true", "measured"), strict=True):
    arrows = first.bundle.to_ambient(signal).numpy()
    tb.plot.field(first.pos.numpy(), arrows, title=title, scale=0.25, colorbar=False, axes=axis)
plt.show()

# %% [markdown]
# ## One class, three networks
#
# A layer of a `TNN` is a sum of filters, a matrix that mixes channels, and a nonlinearity. The points come in only through the operator, an argument of
# `forward`. So the same class gives all three networks; only the operator and the channels differ:
#
# | network | signal | operator |
# |---|---|---|
# | MLP | three components | `Identity`: nothing flows between points |
# | MNN | three components | the Laplacian of functions, `bundle.scalar().laplacian()` |
# | TNN | one arrow | the [connection Laplacian](../concepts.md#connection-laplacian) |


# %%
class Network(torch.nn.Module):
    """One of the three networks, for batches of clouds; returns tangent coordinates."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        width = 1 if kind == "TNN" else 3
        self.net = tb.nn.TNN([width, 8, 8, width], taps=3, step=0.05, seed=0)

    def forward(self, batch):
        if self.kind == "TNN":
            return self.net(batch.x, laplacian_of(batch))
        arrows = torch.einsum("nda,nac->ncd", batch.frames, batch.x)
        if self.kind == "MLP":
            operator = tb.operators.Identity.of(len(arrows), 1)
        else:
            clouds = batch.to_data_list() if hasattr(batch, "to_data_list") else [batch]
            operator = tb.join([cloud.scalar for cloud in clouds])
        return torch.einsum("nda,ncd->nac", batch.frames, self.net(arrows, operator))


for data in train + test:
    data.scalar = data.bundle.scalar().laplacian()
for kind in ("MLP", "MNN", "TNN"):
    print(kind, sum(weight.numel() for weight in Network(kind).parameters()), "weights")

# %% [markdown]
# ## Training
#
# Nothing here is special: batches from a `DataLoader`, a loss, Adam.


# %%
def error(model, clouds):
    """Mean relative error of the networks' arrows."""
    with torch.no_grad():
        errors = [(model(cloud) - cloud.target).norm() / cloud.target.norm() for cloud in clouds]
    return float(torch.stack(errors).mean())


models, curves = {}, {}
for kind in ("MLP", "MNN", "TNN"):
    torch.manual_seed(0)
    model = Network(kind)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    curve = []
    for _ in range(40):
        for batch in DataLoader(train, batch_size=8, shuffle=True):
            adam.zero_grad()
            loss = (model(batch) - batch.target).square().mean()
            loss.backward()
            adam.step()
        curve.append(error(model, test))
    models[kind], curves[kind] = model, curve
    print(f"{kind}: error on new clouds {curve[-1]:.0%}")

# %% alt="Error on new clouds against epochs for the three networks: MLP stays high, MNN and TNN fall"
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
for kind, curve in curves.items():
    axis.plot(curve, label=kind)
axis.set(xlabel="epoch", ylabel="error on new clouds", ylim=(0, None))
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# The MLP sees no neighbours and cannot tell noise from arrows. The other two can, and they seem to be close.
#
# ## The surprise: turn the clouds
#
# Now the same test clouds, turned in space. Nothing about the problem has changed.

# %%
turns = [np.linalg.qr(np.random.default_rng(k).standard_normal((3, 3)))[0] for k in range(12)]
turned = [make_cloud(100 + k, rotation=turn) for k, turn in enumerate(turns)]
dense = [make_cloud(100 + k, n=800) for k in range(6)]
for data in turned + dense:
    data.scalar = data.bundle.scalar().laplacian()
print("network   as trained   turned   four times the points")
for kind, model in models.items():
    print(
        f"{kind:8s}  {error(model, test):10.0%}   {error(model, turned):6.0%}   {error(model, dense):10.0%}"
    )

# %% alt="Bars: error of the three networks on clouds as trained and on turned clouds"
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for shift, (name, clouds) in zip(
    (-0.2, 0.2), {"as trained": test, "turned": turned}.items(), strict=True
):
    axis.bar(
        np.arange(3) + shift, [error(model, clouds) for model in models.values()], 0.36, label=name
    )
axis.set(ylabel="error")
axis.set_xticks(range(3), list(models))
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# **The MNN has learned where up is.** Its channels are x, y and z, and the training arrows never pointed along z. It has learned to erase z, which is right for
# the training clouds and wrong for turned ones. The TNN knows no x, y and z. It gives the same answer for turned
# clouds, because it cannot do otherwise: its error does not depend on the [gauge](../concepts.md#gauge) or on the position in space.
#
# The last column shows another property. The weights do not depend on the number of points: trained on 200, they run on 800.
#
# ## Which one to choose
#
# | if | choose |
# |---|---|
# | directions in space have a meaning (up is up), and all data have the same orientation | MNN, it may use that |
# | the orientation is arbitrary, or differs between training and use | TNN |
# | neighbours carry no information | MLP |
#
# ## Exercise
#
# 1. Train the MNN on randomly turned clouds (data augmentation). How close does it come to the TNN, and with how many epochs?
# 2. Replace `TNN([...], taps=3)` by `filters=[tb.Heat(0.0), tb.Heat(0.2)]`. What does a longer time do?
# 3. Use `InvariantReadout` to tell which clouds are long and which are flat.
#
# ## What you have seen
#
# * `AttachBundle` and `laplacian_of(batch)` are all that a PyTorch Geometric project needs.
# * One class, three operators: MLP, MNN, TNN.
# * Test on turned data before you trust a network on vectors.
#
# Next: [networks](../networks.md), [in a PyTorch Geometric project](../howto/pyg.md).
