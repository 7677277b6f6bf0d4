#!/usr/bin/env python3
"""GTCRN, a speech enhancer, with all of its GRUs in drnn.

    python examples/gtcrn/enhance.py FOLDER [--checkpoint F] [--audio F] [--output F]
                                            needs torch and einops; drnn on the PATH or in DRNN

FOLDER is a clone of GTCRN's repository. Everything but the GRUs runs in PyTorch; each GRU is run by
`drnn run`, which finds it in the checkpoint by its prefix. Prints how far the result is from
PyTorch's.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np
import torch

DRNN = os.environ.get("DRNN", "drnn")


def in_drnn(module, checkpoint, prefix):
    """The module's forward pass, computed by drnn with the weights of the checkpoint."""

    def forward(x, h0=None):
        with tempfile.TemporaryDirectory() as folder:
            at = lambda name: os.path.join(folder, name)
            np.save(at("x.npy"), (x.transpose(0, 1) if module.batch_first else x).contiguous().numpy())
            command = [DRNN, "-q", "run", checkpoint, at("x.npy"), "-o", at("y.npy"), "--states", folder]
            command += ["--prefix", prefix, "--output-layer", "none"]
            if h0 is not None:
                np.save(at("h0.npy"), h0.contiguous().numpy())
                command += ["--h0", at("h0.npy")]
            subprocess.run(command, check=True)
            y, h = (torch.from_numpy(np.load(at(name))) for name in ("y.npy", "h.npy"))
        return (y.transpose(0, 1) if module.batch_first else y), h

    return forward


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--audio", type=Path, help="16 kHz, one channel, 16 bits")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.folder))
    from gtcrn import GTCRN

    checkpoint = arguments.checkpoint or arguments.folder / "checkpoints/model_trained_on_dns3.tar"
    model = GTCRN().eval()
    model.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=True)["model"])
    with wave.open(str(arguments.audio or arguments.folder / "test_wavs/mix.wav")) as file:
        audio = np.frombuffer(file.readframes(file.getnframes()), np.int16) / np.float32(32768)
    window = torch.hann_window(512).pow(0.5)
    spectrum = torch.stft(torch.from_numpy(audio), 512, 256, 512, window, return_complex=True)
    spectrum = torch.view_as_real(spectrum)[None]
    with torch.no_grad():
        expected = model(spectrum)
        grus = [(n, m) for n, m in model.named_modules() if isinstance(m, torch.nn.GRU)]
        for name, module in grus:
            module.forward = in_drnn(module, str(checkpoint), f"model.{name}")
        found = model(spectrum)
    difference = float((found - expected).abs().max())
    print(f"{len(grus)} GRUs in drnn, {spectrum.shape[2]} frames, largest difference {difference:.1e}")
    if arguments.output:
        enhanced = torch.istft(torch.view_as_complex(found[0].contiguous()), 512, 256, 512, window)
        with wave.open(str(arguments.output), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes((enhanced.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes())
    raise SystemExit(not difference < 1e-4)


main()
