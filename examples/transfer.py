"""Train on 300 points, run on 4 800: a network's weights belong to no cloud.

The network learns to undo noise on fields of a torus, from pairs of noisy and clean fields on 300
points. The operator is an argument of `forward`, so the same weights then run on other and larger
samples of the torus, with new fields and new noise. They do better there than at home: with more
neighbours in reach there is more to average.
"""

import torch

import tangentbundle as tb

torus = tb.manifolds.Torus()


def problem(points: int, fields: int, seed: int):
    """A Laplacian, and ``fields`` noisy and clean fields: waves of random direction along the two
    circles."""
    cloud = torus.sample(points, seed=seed)
    bundle = tb.TangentBundle.from_points(torch.from_numpy(cloud).float(), dim=2)
    frames = torch.from_numpy(torus.frames(cloud)).float()
    theta, phi = (torch.from_numpy(angle).float() for angle in torus.angles(cloud))
    draw = torch.Generator().manual_seed(seed)
    waves = torch.stack([phi, theta, phi - theta, 2 * phi])[torch.arange(fields) % 4]
    turn = 6.28 * torch.rand(fields, 1, generator=draw) + waves
    ambient = turn.cos()[..., None] * frames[:, :, 0] + turn.sin()[..., None] * frames[:, :, 1]
    clean = bundle.to_coordinates(ambient[..., None])
    return bundle.laplacian(), clean + 0.7 * torch.randn(clean.shape, generator=draw), clean


@torch.no_grad()
def error(out: torch.Tensor, clean: torch.Tensor) -> float:
    return float(((out - clean) ** 2).mean() / (clean**2).mean()) ** 0.5


@torch.no_grad()
def denoised(net: tb.nn.TNN, lap: tb.Laplacian, noisy: torch.Tensor) -> torch.Tensor:
    return net(noisy, lap)


lap, noisy, clean = problem(300, 16, seed=0)
net = tb.nn.TNN([1, 8, 1], taps=4, step=0.01, seed=0)
untrained = error(denoised(net, lap, noisy), clean)
tb.fit(net, [(noisy, lap, clean)], epochs=200, lr=0.02, progress=False)
print(f"{net.num_parameters} weights, relative error on their own 300 points:")
print(f"      {untrained:.2f} before training, {error(denoised(net, lap, noisy), clean):.2f} after")

sizes, rows = (300, 600, 1200, 2400, 4800), []
for n in sizes:
    lap, noisy, clean = problem(n, 4, seed=n)
    rows.append((error(noisy, clean), error(denoised(net, lap, noisy), clean)))
    print(f"{n:5d} other points: noisy {rows[-1][0]:.2f}, denoised {rows[-1][1]:.2f}")

figure, ((axis,),) = tb.plot.canvas(size=(7.4, 4.2))
axis.semilogx(sizes, [row[0] for row in rows], "o--", color="0.6", label="noisy")
axis.semilogx(
    sizes,
    [row[1] for row in rows],
    "o-",
    color="tab:blue",
    label="by the network trained on 300 points",
)
axis.set(xlabel="points", ylabel="relative error", ylim=(0, None), xticks=sizes, xticklabels=sizes)
axis.minorticks_off()
axis.legend(frameon=False)
tb.plot.save(figure, "out/transfer.png")
