"""A training in two processes. In a module of its own, which the processes import by name."""

import os

import torch
import torch.distributed as dist
from torch import nn

import drnn.torch

WORLD = 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.recurrent = nn.LSTM(8, 16, 2, batch_first=True)
        self.output = nn.Linear(16, 11)

    def forward(self, tokens):
        return self.output(self.recurrent(self.embedding(tokens))[0])


def make():
    torch.manual_seed(3)
    model = drnn.torch.replace(Model())
    tokens = torch.randint(11, (2 * WORLD, 9), generator=torch.Generator().manual_seed(5))
    return model, tokens


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def train(model, tokens, steps=3):
    """Parameters and gradients after a few steps."""
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, tokens).backward()
        optimizer.step()


def data_parallel(model):
    return nn.parallel.DistributedDataParallel(model)


def fully_sharded(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (WORLD,))
    for part in (model.recurrent, model):
        fully_shard(part, mesh=mesh)
    return model


def whole(tensor):
    """All of a tensor that may be spread over processes."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def worker(rank, port, wrap, queue):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD
    )
    try:
        model, tokens = make()
        wrapped = wrap(model)
        train(wrapped, tokens[rank * 2 : rank * 2 + 2])
        found = {
            name.removeprefix("module."): (
                whole(p.detach()).numpy().copy(),
                whole(p.grad).numpy().copy(),
            )
            for name, p in wrapped.named_parameters()
        }
        dist.barrier()
    except Exception as error:
        found = repr(error)
    if rank == 0:
        queue.put(found)
        queue.close()
        queue.join_thread()
    dist.destroy_process_group()
    # Threads that torch has not joined sometimes abort a process while it ends ("terminate called
    # without an active exception"), when all is done.
    os._exit(0 if isinstance(found, dict) else 1)
