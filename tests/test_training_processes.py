"""Training by several processes that torchrun starts: the same losses as one, and one Ctrl-C stops
all."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import tangentbundle as tb

pytest.importorskip("lightning_fabric")
EXAMPLE = Path(__file__).parents[1] / "examples" / "cluster" / "train_many_clouds.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def losses(tmp_path, name, *command):
    size = (
        "--clouds",
        "5",
        "--points",
        "60",
        "--epochs",
        "6",
        "--batch",
        "2",
        "--out",
        str(tmp_path / name),
    )
    done = subprocess.run(
        [*command, str(EXAMPLE), *size],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((tmp_path / name).read_text())


@pytest.mark.slow
def test_torchrun_with_two_processes_has_the_losses_of_one(tmp_path):
    """Five clouds in steps of two: one is left over, and its step belongs to one process alone."""
    run = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    two, one = losses(tmp_path, "two", *run), losses(tmp_path, "one", sys.executable)
    assert two == pytest.approx(one, rel=1e-12) and one[-1] < 0.9 * one[0]


SCRIPT = """
import json, sys, torch, tangentbundle as tb
from pathlib import Path
from lightning_fabric import Fabric
torch.set_num_threads(1)
folder = Path(sys.argv[1])
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
points = torch.from_numpy(tb.manifolds.Torus().sample(60, seed=1))
lap = tb.TangentBundle.from_points(points).laplacian()
signals = torch.randn(5, 60, 2, 1, generator=torch.Generator().manual_seed(5), dtype=lap.dtype)
batches = [(x, lap, tb.Heat(0.3)(lap, x)) for x in signals]
options = dict(progress=False, fabric=fabric)

net = tb.nn.TNN([1, 4, 1]).double()
result = tb.fit(net, batches, epochs=8, checkpoint=folder / "short", **options)
if fabric.is_global_zero:
    tb.save(net, folder / "final.safetensors")
    (folder / "losses").write_text(json.dumps(result.history["training loss"]))

def loss(prediction, target):
    (folder / f"rank-{fabric.global_rank}").touch()
    return tb.training.squared_error(prediction, target)

net = tb.nn.TNN([1, 4, 1]).double()
checkpoint = tb.training.Checkpoint(folder / "long", every=1e9)
tb.fit(net, batches, loss, epochs=10**6, checkpoint=checkpoint, **options)
"""


def test_two_processes_equal_one_and_an_interrupt_of_one_stops_both(tmp_path):
    """Two processes with one batch each do the steps of one that accumulates two; of 5 batches one
    is left over.

    Interrupted is one of them: the other would wait for ever for gradients that never come.
    """
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
    }
    shared |= {"GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "test"}
    command = [sys.executable, str(script), str(tmp_path)]
    processes = [
        subprocess.Popen(
            command,
            env={**ENVIRONMENT, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        for rank in range(2)
    ]
    try:
        deadline = time.monotonic() + 240
        while not all((tmp_path / f"rank-{rank}").exists() for rank in range(2)):
            assert time.monotonic() < deadline and all(p.poll() is None for p in processes)
            time.sleep(0.05)
        processes[1].send_signal(signal.SIGINT)
        errors = [process.communicate(timeout=120)[1] for process in processes]
        assert all("training was interrupted" in error for error in errors), errors
        assert (tmp_path / "long/checkpoint.safetensors").exists()
    finally:
        for process in processes:
            process.kill()
    points = torch.from_numpy(tb.manifolds.Torus().sample(60, seed=1))
    lap = tb.TangentBundle.from_points(points).laplacian()
    signals = torch.randn(5, 60, 2, 1, generator=torch.Generator().manual_seed(5), dtype=lap.dtype)
    batches, net = [(x, lap, tb.Heat(0.3)(lap, x)) for x in signals], tb.nn.TNN([1, 4, 1]).double()
    alone = tb.fit(net, batches, epochs=8, accumulate=2, progress=False)
    assert json.loads((tmp_path / "losses").read_text()) == pytest.approx(
        alone.history["training loss"], rel=1e-10
    )
    for found, expected in zip(
        tb.load(tmp_path / "final.safetensors").parameters(), net.parameters(), strict=True
    ):
        assert torch.allclose(found, expected, atol=1e-10)
