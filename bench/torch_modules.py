"""Races the modules of drnn.torch against torch.nn's: training steps through autograd.

Both have the same parameters and data, in one process and with the same number of threads. Rounds
alternate, each contender first in every other one, and the ratio is that of the medians ("best": of
the fastest rounds). A row whose rounds differ by more than a quarter is marked as noisy: the
machine had other work, which slows torch's threads down far more than drnn's.

    python bench/torch_modules.py [--case NAME] [--threads 2] [--rounds 7] [--json FILE]
"""

import argparse
import copy
import json
import statistics
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import drnn
import drnn.torch


class Trained(nn.Module):
    """A recurrent module and a linear layer on every output."""

    def __init__(self, recurrent, hidden, outputs):
        super().__init__()
        directions = 2 if recurrent.bidirectional else 1
        self.recurrent, self.linear = recurrent, nn.Linear(hidden * directions, outputs)

    def forward(self, x):
        output, _ = self.recurrent(x)
        return self.linear(output if isinstance(output, torch.Tensor) else output.data)


def dense(kind, steps, rows, q, n, **options):
    """A training step on padded sequences; the input needs no gradient."""
    model = Trained(kind(q, n, **options), n, 1)
    x = torch.randn(steps, rows, q)
    return model, lambda model: model(x).square().mean()


def packed(kind, rows, q, n, shortest, longest, **options):
    """A training step on sequences of many lengths, as after an embedding: x has a gradient."""
    model = Trained(kind(q, n, **options), n, 1)
    lengths = torch.linspace(longest, shortest, rows).round().long()
    x = torch.randn(longest, rows, q, requires_grad=True)
    return model, lambda model: model(pack_padded_sequence(x, lengths)).square().mean()


def inference(kind, steps, rows, q, n, **options):
    """Outputs alone."""
    model = Trained(kind(q, n, **options), n, 1).eval().requires_grad_(False)
    x = torch.randn(steps, rows, q)
    return model, lambda model: model(x).square().mean()


CASES = {
    "train-n100": ("LSTM n=100 B=100 T=50 q=1", 1.5, lambda: dense(nn.LSTM, 50, 100, 1, 100)),
    "train-n512": ("LSTM n=512 B=128 T=188 q=10", 1.3, lambda: dense(nn.LSTM, 188, 128, 10, 512)),
    "packed-n300": (
        "LSTM n=300 B=32 q=300, packed lengths 3 to 60",
        3.0,
        lambda: packed(nn.LSTM, 32, 300, 300, 3, 60),
    ),
    "packed-bi-gru": (
        "Bi-GRU, 2 layers, n=128 B=32 q=128, packed lengths 3 to 60",
        None,
        lambda: packed(nn.GRU, 32, 128, 128, 3, 60, num_layers=2, bidirectional=True),
    ),
    "train-gru-n256": ("GRU n=256 B=64 T=100 q=64", None, lambda: dense(nn.GRU, 100, 64, 64, 256)),
    "train-small": ("LSTM n=16 B=4 T=20 q=8", None, lambda: dense(nn.LSTM, 20, 4, 8, 16)),
    "infer-n256": (
        "LSTM n=256 B=1 T=100 q=64, no_grad",
        None,
        lambda: inference(nn.LSTM, 100, 1, 64, 256),
    ),
}


def step(model, loss_of):
    loss = loss_of(model)
    if loss.requires_grad:
        model.zero_grad(set_to_none=True)
        loss.backward()
    return loss


def measure(model, loss_of, times):
    begin = time.perf_counter()
    for _ in range(times):
        step(model, loss_of)
    return (time.perf_counter() - begin) / times


def race(make, rounds, seconds):
    torch.manual_seed(1)
    theirs, loss_of = make()
    ours = drnn.torch.replace(copy.deepcopy(theirs))
    contenders = {"torch": theirs, "drnn": ours}
    losses = {name: step(model, loss_of).item() for name, model in contenders.items()}
    gradients = [[p.grad for p in model.parameters()] for model in contenders.values()]
    difference = 0.0
    for expected, found in zip(*gradients):
        if expected is not None:
            scale = max(float(expected.abs().max()), 1e-9)
            difference = max(difference, float((found - expected).abs().max()) / scale)
    assert abs(losses["drnn"] / losses["torch"] - 1) < 1e-4, losses
    times = {}
    for name, model in contenders.items():
        times[name] = max(1, round(seconds / measure(model, loss_of, 1)))
    found = {name: [] for name in contenders}
    for number in range(rounds):
        order = list(contenders.items())
        for name, model in order if number % 2 == 0 else reversed(order):
            found[name].append(measure(model, loss_of, times[name]))
    medians = {name: statistics.median(values) for name, values in found.items()}
    spread = max((max(values) - min(values)) / medians[name] for name, values in found.items())
    return {
        "spread": spread,
        "ratio_of_best_rounds": min(found["torch"]) / min(found["drnn"]),
        "torch_ms": medians["torch"] * 1e3,
        "drnn_ms": medians["drnn"] * 1e3,
        "ratio": medians["torch"] / medians["drnn"],
        "gradients_differ_by": difference,
        "rounds_ms": {name: [value * 1e3 for value in values] for name, values in found.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", choices=list(CASES), help="all if not given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="time of a contender per round")
    parser.add_argument("--json", help="also write the results to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"drnn {drnn.__version__}, torch {torch.__version__}, {arguments.threads} threads")
    print(f"{'case':15} {'torch':>10} {'drnn':>10} {'ratio':>6} {'best':>6} {'goal':>5}  training step, f32")
    results = {}
    for name in arguments.case or CASES:
        text, goal, make = CASES[name]
        result = race(make, arguments.rounds, arguments.seconds)
        results[name] = {"case": text, "goal": goal, **result}
        goal = "" if goal is None else f"{goal:.1f}x"
        best = f"{result['ratio_of_best_rounds']:>5.2f}x"
        times = f"{result['torch_ms']:>7.2f} ms {result['drnn_ms']:>7.2f} ms"
        noisy = f" (noisy: {result['spread']:.0%})" if result["spread"] > 0.25 else ""
        print(f"{name:15} {times} {result['ratio']:>5.2f}x {best:>6} {goal:>5}  {text}{noisy}", flush=True)
    if arguments.json:
        head = {"threads": arguments.threads, "torch": torch.__version__, "drnn": drnn.__version__}
        with open(arguments.json, "w") as file:
            json.dump({**head, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
