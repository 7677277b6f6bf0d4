#!/usr/bin/env python3
"""Silero VAD with its LSTM in drnn: a speech probability for every 32 ms of a 16 kHz WAV file.

    python examples/silero-vad/vad.py silero_vad.jit audio.wav [--compare silero_vad.onnx]
                               needs torch (--compare: onnxruntime), and drnn on the PATH or in DRNN
"""

import argparse
import os
import subprocess
import tempfile
import wave

import numpy as np
import torch

CHUNK, CONTEXT = 512, 64  # samples that are new in a frame, and samples that it shares with the last
DRNN = os.environ.get("DRNN", "drnn")


def frames(audio):
    """Frames of CONTEXT + CHUNK samples, one for each chunk."""
    audio = np.pad(audio, (CONTEXT, -len(audio) % CHUNK))
    return np.lib.stride_tricks.sliding_window_view(audio, CONTEXT + CHUNK)[::CHUNK]


def probabilities(path, audio):
    model = torch.jit.load(path, map_location="cpu")._model  # the one for 16 kHz
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        x, h = os.path.join(folder, "x.npy"), os.path.join(folder, "h.npy")
        # Spectrum and convolutions of every frame, by PyTorch: what the LSTM reads, (T, 1, 128).
        features = model.encoder(model.run_extractors(torch.from_numpy(frames(audio).copy())))
        np.save(x, features.permute(0, 2, 1).numpy())
        # All frames through the LSTM, which drnn finds in the same file.
        command = [DRNN, "-q", "run", path, x, "-o", h, "--prefix", "_model.decoder.rnn"]
        subprocess.run(command, check=True)
        h = torch.from_numpy(np.load(h)).permute(0, 2, 1)
        return model.decoder.decoder(h)[:, 0, 0].numpy()


def by_onnxruntime(model, audio):
    """The same by Silero's own graph, frame after frame."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model)
    state, rate, found = np.zeros((2, 1, 128), np.float32), np.array(16000), []
    for frame in frames(audio):
        feed = {"input": frame[None].astype(np.float32), "state": state, "sr": rate}
        probability, state = session.run(None, feed)
        found.append(probability[0, 0])
    return np.array(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("audio")
    parser.add_argument("--compare", metavar="ONNX", help="compare with ONNX Runtime's probabilities")
    arguments = parser.parse_args()
    with wave.open(arguments.audio) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        audio = np.frombuffer(file.readframes(file.getnframes()), np.int16) / np.float32(32768)
    found = probabilities(arguments.model, audio)
    if not arguments.compare:
        for index, probability in enumerate(found):
            print(f"{index * CHUNK / 16000:.3f}\t{probability:.4f}")
        return
    expected = by_onnxruntime(arguments.compare, audio)
    different = int(((found > 0.5) != (expected > 0.5)).sum())
    print(f"{len(found)} frames, {len(audio) / 16000:.0f} s, speech in {(expected > 0.5).sum()}")
    print(f"decisions that differ: {different}")
    print(f"largest difference of probabilities: {abs(found - expected).max():.1e}")
    raise SystemExit(different > 0)


main()
