"""The examples in examples/pytorch that need nothing but PyTorch run, and their losses fall."""

import pathlib
import re
import subprocess
import sys

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch.distributed as dist

FOLDER = pathlib.Path(__file__).parents[4] / "examples" / "pytorch"


def run(*command, may_abort_at_exit=False):
    command = [sys.executable, *map(str, command)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    aborted = "terminate called without an active exception" in done.stderr
    assert done.returncode == 0 or (may_abort_at_exit and aborted), done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("options", [[], ["--shard"]], ids=["ddp", "fsdp2"])
def test_distributed(options):
    if not dist.is_available():
        pytest.skip("this torch has no torch.distributed")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [FOLDER / "distributed.py", "--epochs", "2", *options]
    # Its processes sometimes abort while they end, with torch.nn's modules too: threads of torch's
    # are not joined. What they print before is complete.
    printed = run(*launch, *script, may_abort_at_exit=True)
    first, last = (float(loss) for loss in re.findall(r"loss ([\d.]+)", printed))
    assert last < 0.5 * first
    assert "2 processes, drnn.torch.LSTM" in printed, "it came to its end"


def test_ensemble():
    printed = run(FOLDER / "ensemble.py", "--networks", "4", "--steps", "20")
    losses = re.findall(r"loss ([\d.]+), torch.nn ([\d.]+)", printed)
    assert len(losses) == 4
    for found, expected in losses:
        assert abs(float(found) - float(expected)) < 2e-3
