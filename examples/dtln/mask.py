#!/usr/bin/env python3
"""DTLN's first stage in drnn: the noise mask of every 8 ms of a 16 kHz WAV file.

    python examples/dtln/mask.py model_1.onnx audio.wav [--compare]
                                     needs numpy (--compare: onnxruntime); drnn on the PATH or in DRNN
"""

import argparse
import os
import subprocess
import tempfile
import wave

import numpy as np

LENGTH, SHIFT = 512, 128  # samples of a frame, and between frames
DRNN = os.environ.get("DRNN", "drnn")


def magnitudes(audio):
    frames = np.lib.stride_tricks.sliding_window_view(audio, LENGTH)[::SHIFT]
    return np.abs(np.fft.rfft(frames)).astype(np.float32)  # T, 257


def masks(model, spectrum):
    """Two LSTMs and a linear layer, one model to drnn; the sigmoid is left."""
    with tempfile.TemporaryDirectory() as folder:
        x, y = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
        np.save(x, spectrum[:, None])
        subprocess.run([DRNN, "-q", "run", model, x, "-o", y], check=True)
        return 1 / (1 + np.exp(-np.load(y)[:, 0]))


def by_onnxruntime(model, spectrum):
    """The same by the graph itself, frame after frame."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model)
    x, state = (value.name for value in session.get_inputs())
    states, found = np.zeros((1, 2, 128, 2), np.float32), []
    for frame in spectrum:
        mask, states = session.run(None, {x: frame[None, None], state: states})
        found.append(mask.reshape(-1))
    return np.array(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("audio")
    parser.add_argument("--compare", action="store_true", help="compare with ONNX Runtime's masks")
    arguments = parser.parse_args()
    with wave.open(arguments.audio) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        audio = np.frombuffer(file.readframes(file.getnframes()), np.int16) / np.float32(32768)
    spectrum = magnitudes(audio)
    found = masks(arguments.model, spectrum)
    print(f"{len(found)} frames, mean mask {found.mean():.4f}")
    if arguments.compare:
        difference = abs(found - by_onnxruntime(arguments.model, spectrum)).max()
        print(f"largest difference of masks: {difference:.1e}")
        raise SystemExit(not difference < 1e-4)


main()
