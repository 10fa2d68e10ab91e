"""A process that is killed in the middle of training goes on from its checkpoint to the identical result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
import torch
from safetensors.torch import save_file
from tabgnm.nn import GNMShape
from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import Fleet, FleetSettings, Member, Table

torch.manual_seed(0)
x = torch.randn(400, 5)
table = Table(x, (x[:, 0] * x[:, 1] > 0).long())
members = [Member(train=torch.arange(320 - 10 * i), val=torch.arange(320, 400), seed=i, dropout=0.1) for i in range(6)]
settings = FleetSettings(loss=CrossEntropy(), max_epochs=400, batch_size=32)
fleet = Fleet(GNMShape(5, 2, n_nodes=30, n_layers=2), members, settings, chunk_size=3)
result = fleet.fit(table, checkpoint=sys.argv[1], checkpoint_every=5)
weights = {f"{i}.{name}": value for i, model in enumerate(result.models) for name, value in model.parameters.items()}
save_file(weights, sys.argv[2])
"""


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_identical_models(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def start(name: str) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / f"{name}.ckpt"), str(tmp_path / f"{name}.weights")]
        return subprocess.Popen(arguments, env=environment)

    assert start("whole").wait(timeout=300) == 0
    checkpoint = tmp_path / "killed.ckpt"
    for _ in range(3):  # each time a little further: the file has changed since the process began
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        process = start("killed")
        while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before):
            time.sleep(0.01)
        assert process.poll() is None, "it ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start("killed").wait(timeout=300) == 0
    whole, killed = (load_file(tmp_path / f"{name}.weights") for name in ("whole", "killed"))
    assert whole.keys() == killed.keys()
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
