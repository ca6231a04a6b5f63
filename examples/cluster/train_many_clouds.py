"""Train one network on many clouds with several processes:
``torchrun --nproc-per-node 2 train_many_clouds.py``.

Each cloud is a torus of its own shape with a noisy field; the network learns to take the noise
away, on all of them. A step uses ``--batch`` clouds, shared among the processes, whose gradients
are averaged: the losses are those of a single process (plain ``python train_many_clouds.py``) up to
rounding. On several machines give torchrun ``--nnodes`` and ``--rdzv-endpoint``; with GPUs add
``--accelerator cuda``.
"""

from __future__ import annotations

import argparse
import json
import os

import torch
from lightning_fabric import Fabric

import tangentbundle as tb


def clouds(count: int, points: int, device: torch.device) -> list[tuple]:
    """Batches (noisy field, Laplacian, field), each on its own cloud."""
    found = []
    for seed in range(count):
        torus = tb.manifolds.Torus(R=1.0, r=0.3 + 0.3 * seed / max(count - 1, 1))
        bundle = tb.TangentBundle.from_points(
            torch.from_numpy(torus.sample(points, seed=seed)), dim=2
        )
        clean = bundle.to_coordinates(torch.from_numpy(torus.tangent_field(bundle.points.numpy())))
        noise = torch.randn(
            clean.shape, generator=torch.Generator().manual_seed(seed), dtype=clean.dtype
        )
        lap = bundle.laplacian().to(device)
        found.append(((clean + 0.5 * noise).to(device), lap, clean.to(device)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clouds", type=int, default=8)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4, help="clouds of a step, over all processes")
    parser.add_argument("--accelerator", default="cpu")
    parser.add_argument("--checkpoint", help="a folder; what is there is resumed")
    parser.add_argument("--out", help="a JSON file for the losses")
    options = parser.parse_args()

    local, world = (int(os.environ.get(name, 1)) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    strategy = "ddp" if world > 1 else "auto"
    fabric = Fabric(
        accelerator=options.accelerator, devices=local, num_nodes=world // local, strategy=strategy
    )
    fabric.launch()
    torch.manual_seed(0)
    net = tb.nn.TNN([1, 8, 1]).double().to(fabric.device)
    result = tb.fit(
        net,
        clouds(options.clouds, options.points, fabric.device),
        epochs=options.epochs,
        accumulate=options.batch // world,
        checkpoint=options.checkpoint,
        fabric=fabric,
    )
    if fabric.is_global_zero:
        losses = result.history["training loss"]
        print(
            f"{world} process(es): loss {losses[0]:.4f} at first, {losses[-1]:.4f} after "
            f"{len(losses)} epochs"
        )
        if options.out:
            with open(options.out, "w") as file:  # noqa: PTH123
                json.dump(losses, file)
    if world > 1:
        # a process that ends with its threads at work may be aborted
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
