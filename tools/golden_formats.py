#!/usr/bin/env python3
"""Makes crates/drnn/tests/golden/formats_*: weights in the formats of other programs.

    python tools/golden_formats.py     needs torch, safetensors and numpy

Each `formats_NAME.EXT` comes with the same weights as `formats_NAME.safetensors`, under the names
that drnn gives them.
"""

import argparse
import zipfile
from pathlib import Path
from unittest import mock

import numpy
import torch
from safetensors.torch import save_file
from torch import nn

FOLDER = Path(__file__).resolve().parent.parent / "crates/drnn/tests/golden"
OLD = dict(_use_new_zipfile_serialization=False)


class Tagger(nn.Module):
    """A network around an LSTM, to be saved whole."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(2, 3, batch_first=True)
        self.head = nn.ModuleList([nn.Linear(3, 2)])
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x):
        return self.head[0](self.rnn(x * self.scale)[0])


def weights(name, state):
    """Copies, because those of safetensors may share no memory."""
    save_file({k: v.detach().clone().contiguous() for k, v in state.items()}, FOLDER / f"formats_{name}.safetensors")


def old_checkpoint():
    """A training script's of 2019: the model in a dictionary with everything else."""
    net = nn.GRU(2, 3)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(3, 1, 2))[0].square().sum().backward()
    optimizer.step()
    saved = {
        "epoch": 3,
        "args": argparse.Namespace(lr=0.1, layers=[3]),
        "best": numpy.float64(0.5),
        "history": numpy.zeros(3),
        "state_dict": net.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    torch.save(saved, FOLDER / "formats_old_checkpoint.pt", **OLD)
    weights("old_checkpoint", {f"state_dict.{k}": v for k, v in net.state_dict().items()})


def old_views():
    """All weights in one storage, one of them transposed."""
    net = nn.LSTM(2, 3).double()
    flat = torch.cat([v.t().reshape(-1) for v in net.state_dict().values()])
    saved, at = {}, 0
    for name, value in net.state_dict().items():
        part = flat[at : at + value.numel()]
        saved[name] = part.view(value.t().shape).t()
        at += value.numel()
    torch.save(saved, FOLDER / "formats_old_views.pt", **OLD)
    weights("old_views", saved)


def old_parameters():
    """Parameters as PyTorch 0.3 pickled them: a call of their class, then flags and hooks."""
    net = nn.RNN(2, 3)

    def reduced(parameter, _):
        return nn.Parameter, (parameter.detach(),), (True, False, None)

    with mock.patch.object(nn.Parameter, "__reduce_ex__", reduced):
        torch.save(dict(net.named_parameters()), FOLDER / "formats_old_parameters.pt", **OLD)
    weights("old_parameters", net.state_dict())


def script(net):
    """TorchScript without the program, most of which is PyTorch's and none of which is read."""
    path = FOLDER / "formats_script.pt"
    torch.jit.script(net).save(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if "/code/" not in name}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name), data)
        archive.writestr(zipfile.ZipInfo("formats_script/code/__torch__.py"), b"")


def main():
    torch.manual_seed(2)
    net = nn.LSTM(2, 3, num_layers=2, bidirectional=True).half()
    torch.save(net.state_dict(), FOLDER / "formats_old_lstm.pt", **OLD)
    weights("old_lstm", net.state_dict())
    old_checkpoint()
    old_views()

    net = Tagger()
    with mock.patch("torch.serialization.get_source_lines_and_file", side_effect=OSError):  # PyTorch's own
        torch.save(net, FOLDER / "formats_old_module.pt", **OLD)
    weights("old_module", net.state_dict())
    script(net)
    weights("script", net.state_dict())

    net = nn.GRU(2, 3, num_layers=2)
    arrays = {k: v.detach().numpy() for k, v in net.state_dict().items()}
    arrays["weight_hh_l0"] = numpy.asfortranarray(arrays["weight_hh_l0"].astype(numpy.float64))
    more = dict(words=numpy.array(["a", "b"]), config=numpy.array({"units": 3}, dtype=object))
    numpy.savez(FOLDER / "formats_gru.npz", **arrays, **more)
    weights("gru", net.state_dict())
    numpy.savez_compressed(FOLDER / "formats_compressed.npz", **arrays)
    weights("compressed", net.state_dict())
    old_parameters()


if __name__ == "__main__":
    main()
