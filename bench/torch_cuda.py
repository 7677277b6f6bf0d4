"""Races drnn's modules for PyTorch against torch.nn (cuDNN) on a GPU: training steps and inference.

Both have the same parameters and data, in one process. Rounds alternate; times are medians.
`device` is by events around calls that are submitted one after another, `host` by the clock around
submissions that wait for nothing: what Python and the driver need.

    python3 bench/torch_cuda.py [--case TEXT] [--rounds 9] [--json FILE]
"""

import argparse
import copy
import json
import os
import statistics
import time

os.environ.setdefault("DRNN_TORCH_CUDA", "1")

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import drnn.torch

# name: kind, T, B, q, n, options, type or autocast to it, packed
HALF, BRAIN = torch.float16, torch.bfloat16
CASES = {
    "LSTM n=1024 B=128 T=188 q=64": ("LSTM", 188, 128, 64, 1024, {}, BRAIN, "autocast", False),
    "LSTM n=512 B=128 T=188 q=64": ("LSTM", 188, 128, 64, 512, {}, BRAIN, "autocast", False),
    "LSTM n=512 B=128 T=188 q=64, float16": ("LSTM", 188, 128, 64, 512, {}, HALF, "module", False),
    "LSTM 2x512 B=64 T=100 q=128": (
        *("LSTM", 100, 64, 128, 512, dict(num_layers=2)),
        *(BRAIN, "autocast", False),
    ),
    "Bi-LSTM 2x300 B=32 T=60 q=300, packed": (
        *("LSTM", 60, 32, 300, 300, dict(num_layers=2, bidirectional=True)),
        *(BRAIN, "autocast", True),
    ),
    "GRU n=512 B=64 T=200 q=80": ("GRU", 200, 64, 80, 512, {}, BRAIN, "autocast", False),
    "RNN n=512 B=64 T=200 q=80": ("RNN", 200, 64, 80, 512, {}, BRAIN, "autocast", False),
    "LSTM n=128 B=32 T=100 q=32": ("LSTM", 100, 32, 32, 128, {}, BRAIN, "autocast", False),
    "LSTM n=32 B=8 T=10 q=8": ("LSTM", 10, 8, 8, 32, {}, HALF, "module", False),
}


def make(case):
    kind, steps, rows, q, n, options, dtype, how, packed = case
    theirs = getattr(nn, kind)(q, n, **options).cuda()
    theirs = theirs.to(dtype) if how == "module" else theirs
    ours = drnn.torch.replace(copy.deepcopy(theirs))
    x = torch.randn(steps, rows, q, device="cuda", dtype=theirs.weight_hh_l0.dtype)
    if packed:
        lengths = torch.randint(3, steps + 1, (rows,))
        lengths[0] = steps
        x = pack_padded_sequence(x, lengths, enforce_sorted=False)

    def step(module):
        with torch.autocast("cuda", dtype, enabled=how == "autocast"):
            output, _ = module(x)
        return output.data if isinstance(output, PackedSequence) else output

    return theirs, ours, step


def work_of(module, step, training):
    """A forward pass, and for training a backward pass from an equal gradient of all outputs."""
    if not training:
        return lambda: step(module)
    with torch.no_grad():
        upstream = torch.randn_like(step(module))
    parameters = list(module.parameters())
    return lambda: torch.autograd.grad(step(module), parameters, upstream)


def timed(work):
    """Milliseconds of a call on the device, and on the host before it waits."""
    calls = 5
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    started = time.perf_counter()
    for _ in range(calls):
        work()
    host = time.perf_counter() - started
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / calls, 1e3 * host / calls


def race(name, case, rounds):
    theirs, ours, step = make(case)
    with torch.no_grad():
        expected, found = step(theirs).float(), step(ours).float()
    far = float((found - expected).abs().max() / expected.abs().max())
    assert far < 0.05, f"{name}: {far}"
    for training in (True, False):
        contenders = {k: work_of(m, step, training) for k, m in (("torch", theirs), ("drnn", ours))}
        times = {k: [] for k in contenders}
        with torch.set_grad_enabled(training):
            for number in range(rounds + 1):
                order = list(contenders) if number % 2 else list(contenders)[::-1]
                for k in order:
                    times[k].append(timed(contenders[k]))
        times = {k: [statistics.median(t) for t in zip(*v[1:])] for k, v in times.items()}
        row = {"case": name, "what": "training" if training else "inference"}
        for k, (device, host) in times.items():
            row.update({f"{k}_device_ms": device, f"{k}_host_ms": host})
        row["times as fast"] = times["torch"][0] / times["drnn"][0]
        yield row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", default="", help="a part of the names of cases")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, drnn {drnn.__version__}")
    rows = []
    for name, case in CASES.items():
        if options.case not in name:
            continue
        for row in race(name, case, options.rounds):
            rows.append(row)
            print(
                f"{name:42} {row['what']:9}  torch {row['torch_device_ms']:7.3f} ms (host "
                f"{row['torch_host_ms']:6.3f})  drnn {row['drnn_device_ms']:7.3f} ms (host "
                f"{row['drnn_host_ms']:6.3f})  {row['times as fast']:5.2f} times as fast",
                flush=True,
            )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
