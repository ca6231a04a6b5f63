"""Training by several processes that torchrun starts: the same losses as one, and one Ctrl-C stops all."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("lightning_fabric")
EXAMPLE = Path(__file__).parents[1] / "examples" / "cluster" / "train_many_clouds.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def losses(tmp_path, name, *command):
    size = ("--clouds", "5", "--points", "60", "--epochs", "6", "--batch", "2", "--out", str(tmp_path / name))
    done = subprocess.run(
        [*command, str(EXAMPLE), *size], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
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
import sys, torch, tangentbundle as tb
from pathlib import Path
from lightning_fabric import Fabric
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
lap = tb.TangentBundle.from_points(torch.from_numpy(tb.manifolds.Torus().sample(50, seed=1)), dim=2).laplacian()
x = torch.randn(4, 50, 2, 1, generator=torch.Generator().manual_seed(0), dtype=lap.dtype)
def loss(net, batch):
    Path(sys.argv[1], f"rank-{fabric.global_rank}").touch()
    return tb.training.squared_error(net, batch)
net = tb.nn.TNN([1, 2, 1]).double()
options = dict(checkpoint=tb.training.Checkpoint(sys.argv[1], every=1e9), progress=False, fabric=fabric)
tb.fit(net, [(s, lap, s) for s in x], loss, epochs=10**6, **options)
"""


def test_an_interrupt_of_one_process_stops_all(tmp_path):
    """The other would wait for ever for gradients that never come."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
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
        assert (tmp_path / "checkpoint.safetensors").exists()
    finally:
        for process in processes:
            process.kill()
