"""Two processes with Gloo: the gradients are those of one process with the double batch."""

import socket

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from cases import difference
from two_processes import WORLD, data_parallel, fully_sharded, make, train, worker


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("wrap", [data_parallel, fully_sharded])
def test_two_processes_equal_one_with_the_double_batch(wrap):
    if not dist.is_available():
        pytest.skip("this torch has no torch.distributed")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if wrap is fully_sharded and version < (2, 9):
        pytest.skip("FSDP2 of torch 2.8 adds gradients up with Gloo, whatever the module")
    context = mp.get_context("spawn")
    queue = context.Queue()
    processes = [
        context.Process(target=worker, args=(rank, port, wrap, queue))
        for port in [free_port()]
        for rank in range(WORLD)
    ]
    [process.start() for process in processes]
    found = queue.get(timeout=120)
    assert isinstance(found, dict), found
    [process.join(60) for process in processes]
    assert [process.exitcode for process in processes] == [0] * WORLD
    model, tokens = make()
    train(model, tokens)
    assert set(found) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        value, gradient = (torch.from_numpy(array) for array in found[name])
        assert difference(gradient, parameter.grad) < 1e-4, name
        assert difference(value, parameter) < 1e-4, name
