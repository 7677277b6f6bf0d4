#!/usr/bin/env python3
"""Makes crates/drnn/tests/golden/pt_*: files of torch.save, for drnn to import or to reject.

    python tools/golden_pt.py          needs torch and safetensors

Most `pt_NAME.pt` that hold weights come with the same weights as `pt_NAME.safetensors`.
Other formats are made by golden_formats.py.
"""

from collections import OrderedDict
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.utils.serialization import config

FOLDER = Path(__file__).resolve().parent.parent / "crates/drnn/tests/golden"


def write(name, weights, saved, **options):
    """`saved` by torch.save, `weights` as safetensors: copies, because those may share no memory."""
    torch.save(saved, FOLDER / f"pt_{name}.pt", **options)
    save_file({k: v.detach().clone().contiguous() for k, v in weights.items()}, FOLDER / f"pt_{name}.safetensors")


def encoder(net):
    return nn.ModuleDict({"encoder": nn.ModuleDict({"rnn": net}), "norm": nn.BatchNorm1d(2)})


def checkpoint(net):
    """A training script's: the model after two steps of Adam, in a dictionary with everything else."""
    optimizer = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3])
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.randn(3, 1, 2))[0].square().sum().backward()
        optimizer.step()
        schedule.step()
    return {
        "epoch": 3,
        "loss": [0.5, 0.25],
        "seed": 2**64 - 1,
        "device": torch.device("cpu"),
        "commit": b"bytes",
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "rng": torch.get_rng_state()[:8].clone(),
    }


def views(net):
    """The same weights, all in one storage: one of them transposed, one with every second element."""
    state = net.state_dict()
    flat = torch.zeros(sum(2 * v.numel() for v in state.values()) + 3, dtype=torch.float64)
    found, at = OrderedDict(), 3
    for i, (name, value) in enumerate(state.items()):
        if value.dim() == 2 and i % 2 == 0:
            view = flat[at : at + value.numel()].view(value.shape[1], value.shape[0]).t()
            at += value.numel()
        elif value.dim() == 2:
            view = flat[at : at + value.numel()].view(value.shape)
            at += value.numel()
        else:
            view = flat[at : at + 2 * value.numel() : 2]
            at += 2 * value.numel()
        view.copy_(value)
        found[name] = view
    return found


def main():
    torch.manual_seed(1)
    net = nn.LSTM(2, 3, num_layers=2)
    write("lstm", net.state_dict(), net.state_dict())
    net = nn.GRU(2, 3, bidirectional=True).bfloat16()
    write("gru_bf16", net.state_dict(), net.state_dict())
    net = encoder(nn.RNN(2, 3, bias=False))
    write("rnn_prefix", net.state_dict(), net.state_dict())
    net = nn.LSTM(2, 3)
    saved = checkpoint(net)
    write("checkpoint", {f"model.{k}": v for k, v in net.state_dict().items()}, saved)
    net = nn.GRU(2, 3).half()
    write("parameters", net.state_dict(), dict(net.named_parameters()))
    net = nn.LSTM(2, 3)
    write("views", net.state_dict(), views(net))
    config.save.compute_crc32 = False
    net = nn.RNN(2, 3)
    write("protocol5", net.state_dict(), net.state_dict(), pickle_protocol=5)
    config.save.compute_crc32 = True

    net = nn.RNN(1, 1)
    torch.save(net, FOLDER / "pt_module.pt")
    torch.save(net.state_dict(), FOLDER / "pt_old.pt", _use_new_zipfile_serialization=False)
    # Rejected, with an error that says what to do instead.
    torch.jit.script(nn.Identity()).save(FOLDER / "pt_refused_script.pt")


if __name__ == "__main__":
    main()
