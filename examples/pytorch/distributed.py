"""Trains an ordinary PyTorch model on drnn's kernels in several processes.

    torchrun --standalone --nproc-per-node 2 examples/pytorch/distributed.py              # DDP
    torchrun --standalone --nproc-per-node 2 examples/pytorch/distributed.py --shard      # FSDP2

With DistributedDataParallel every process has all parameters and averages gradients; with
fully_shard each has a part of every parameter and gathers the rest when a module needs it.
"""

import argparse

import torch
import torch.distributed as dist
from smoothing import Smoother, make_data
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import drnn.torch


def wrap(model, shard):
    if not shard:
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model.recurrent, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def mean_over_processes(loss, batches):
    total = torch.tensor([loss, float(batches)])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shard", action="store_true", help="FSDP2 instead of DDP")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16, help="sequences per process and step")
    parser.add_argument("--units", type=int, default=32)
    arguments = parser.parse_args()

    # By default torchrun gives each process one thread, which drnn keeps to as well.
    dist.init_process_group("gloo")
    torch.manual_seed(1)  # the same initial parameters everywhere
    model = Smoother(nn.LSTM(1, arguments.units, bidirectional=True, batch_first=True))
    drnn.torch.replace(model)  # before it is wrapped, and before the optimizer is made
    wrapped = wrap(model, arguments.shard)
    optimizer = torch.optim.Adam(wrapped.parameters(), lr=0.01)

    data = make_data()
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, arguments.batch, sampler=sampler)
    for epoch in range(1, arguments.epochs + 1):
        sampler.set_epoch(epoch)
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(wrapped(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        mean = mean_over_processes(total, len(loader))
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {mean:.4f}", flush=True)
    if dist.get_rank() == 0:
        kind = "FSDP2" if arguments.shard else "DDP"
        assert isinstance(model.recurrent, drnn.torch.LSTM)
        print(f"{kind}, {dist.get_world_size()} processes, drnn.torch.LSTM")
    dist.barrier()  # nobody leaves while others still talk
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
