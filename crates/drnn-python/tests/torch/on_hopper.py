"""What tests on a GPU of the Hopper generation share: they count the passes of drnn's kernels, and
compare with torch.nn in float64 on the CPU.

Networks are small and few, because each kernel takes the compiler some seconds: widths of up to 32
units share their kernels.
"""

import warnings

import pytest
import torch
from cases import OURS, THEIRS, difference
from torch.nn.utils.rnn import PackedSequence

from drnn.torch import _cuda, _modules

KINDS = list(OURS)
HALF, BRAIN = torch.float16, torch.bfloat16
TOLERANCE = {HALF: 1e-2, BRAIN: 4e-2}


class Passes:
    """Counts the passes that drnn's kernels run."""

    def __init__(self, monkeypatch):
        self.count, stream = 0, _cuda.raw_stream

        def counted(device):
            self.count += 1
            return stream(device)

        monkeypatch.setattr(_cuda, "raw_stream", counted)

    def since(self):
        count, self.count = self.count, 0
        return count


@pytest.fixture
def passes(hopper, monkeypatch):
    monkeypatch.setattr(_cuda, "_ENABLED", True)
    monkeypatch.setattr(_cuda, "_FEWEST_STEPS", 0)
    _modules._WARNED.clear()
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="drnn.torch")
        yield Passes(monkeypatch)
    torch.cuda.synchronize()


def pair(kind, *sizes, dtype=torch.float32, **options):
    """Ours on the GPU, and torch.nn's in float64 on the CPU with the same numbers."""
    ours = OURS[kind](*sizes, **options).cuda().to(dtype)
    delay = {"delay", "padding"}
    theirs = THEIRS[kind](*sizes, **{k: v for k, v in options.items() if k not in delay}).double()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def gradients(results, tensors, seed=3, retain_graph=False):
    generator = torch.Generator().manual_seed(seed)
    upstream = [torch.randn(r.shape, generator=generator).to(r) for r in results]
    return torch.autograd.grad(results, tensors, upstream, retain_graph=retain_graph)


def states(last):
    return list(last) if isinstance(last, tuple) else [last]


def assert_close(found, expected, tolerance, what=""):
    for number, (a, b) in enumerate(zip(found, expected)):
        assert a.shape == b.shape, f"{what} {number}: {a.shape}, expected {b.shape}"
        error = difference(a.cpu(), b.cpu())
        assert error < tolerance, f"{what} {number}: {error:.2e}"


def training_step(module, x):
    output, last = module(x)
    output = output.data if isinstance(output, PackedSequence) else output
    loss = output.float().square().sum() + sum(s.float().sum() for s in states(last))
    grads = torch.autograd.grad(loss, list(module.parameters()))
    return [output.detach(), *grads]
