"""Races drnn's Python package against torch.nn: training steps through autograd, ensembles, streams.

Both have the same parameters and data, in one process and with the same number of threads. Rounds
alternate, each contender first in every other one, and the ratio is that of the medians ("best": of
the fastest rounds). A row whose rounds differ by more than a quarter is marked as noisy: the
machine had other work, which slows torch's threads down far more than drnn's.

    python bench/torch_modules.py [--case NAME] [--threads 2] [--rounds 7] [--json FILE]
    python bench/torch_modules.py --grid 60 [--seed 1]

`--grid` races modules of random shapes instead, in training and in inference.
"""

import argparse
import copy
import datetime
import json
import math
import os
import platform
import random
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import drnn
import drnn.torch
from provenance import command_line, commit


class Trained(nn.Module):
    """A recurrent module and a linear layer on every output."""

    def __init__(self, recurrent, hidden, outputs):
        super().__init__()
        directions = 2 if recurrent.bidirectional else 1
        self.recurrent, self.linear = recurrent, nn.Linear(hidden * directions, outputs)

    def forward(self, x):
        output, _ = self.recurrent(x)
        return self.linear(output if isinstance(output, torch.Tensor) else output.data)


def step(model, loss_of):
    """A training step without the optimizer, or a forward pass where nothing has a gradient."""
    loss = loss_of(model)
    if loss.requires_grad:
        model.zero_grad(set_to_none=True)
        loss.backward()
    return loss


def replaced(theirs, loss_of):
    """Two contenders, torch.nn's model and the same with drnn's modules, after a step of each that
    compares losses and gradients."""
    ours = drnn.torch.replace(copy.deepcopy(theirs))
    losses = [step(model, loss_of).item() for model in (theirs, ours)]
    assert abs(losses[1] / losses[0] - 1) < 1e-4, losses
    for expected, found in zip(theirs.parameters(), ours.parameters()):
        if expected.grad is not None:
            scale = max(float(expected.grad.abs().max()), 1e-9)
            difference = float((found.grad - expected.grad).abs().max()) / scale
            assert difference < 1e-3, difference
    return {"torch": lambda: step(theirs, loss_of), "drnn": lambda: step(ours, loss_of)}


def dense(kind, steps, rows, q, n, **options):
    """A training step on padded sequences; the input needs no gradient."""
    x = torch.randn(steps, rows, q)
    model = Trained(kind(q, n, **options), n, 1)
    return replaced(model, lambda model: model(x).square().mean())


def packed(kind, rows, q, n, shortest, longest, **options):
    """A training step on sequences of many lengths, as after an embedding: x has a gradient."""
    lengths = torch.linspace(longest, shortest, rows).round().long()
    x = torch.randn(longest, rows, q, requires_grad=True)
    model = Trained(kind(q, n, **options), n, 1)
    return replaced(model, lambda model: model(pack_padded_sequence(x, lengths)).square().mean())


def inference(kind, steps, rows, q, n, **options):
    """Outputs alone."""
    model = Trained(kind(q, n, **options), n, 1).eval().requires_grad_(False)
    x = torch.randn(steps, rows, q)
    return replaced(model, lambda model: model(x).square().mean())


def ensemble(count, steps, rows, q, n):
    """A training step of `count` networks: one after another, and together."""
    models = [Trained(nn.LSTM(q, n), n, 1) for _ in range(count)]
    together = drnn.torch.Ensemble(models)
    x = torch.randn(steps, rows, q)

    def one_by_one():
        for model in models:
            step(model, lambda model: model(x).square().mean())

    def at_once():
        return step(together, lambda model: model(x).square().flatten(1).mean(1).sum())

    return {"torch": one_by_one, "drnn": at_once}


def stream(n, q):
    """One step of one sequence, as live data arrive."""
    cell = nn.LSTMCell(q, n).requires_grad_(False)
    weights = {f"{name}_l0": p.numpy() for name, p in cell.named_parameters()}
    live = drnn.Stream(drnn.Model.from_state_dict(weights))
    row, element = torch.randn(1, q), np.random.default_rng(1).standard_normal(q, np.float32)
    state = [torch.zeros(1, n), torch.zeros(1, n)]

    def theirs():
        state[:] = cell(row, tuple(state))

    return {"torch": theirs, "drnn": lambda: live.push(element)}


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
    "train-rnn-n64": ("RNN n=64 B=16 T=50 q=16", None, lambda: dense(nn.RNN, 50, 16, 16, 64)),
    "train-n64": ("LSTM n=64 B=16 T=50 q=64", None, lambda: dense(nn.LSTM, 50, 16, 64, 64)),
    "train-small": ("LSTM n=16 B=4 T=20 q=8", None, lambda: dense(nn.LSTM, 20, 4, 8, 16)),
    "ensemble-8": ("8 LSTMs n=100 B=100 T=50 q=1", None, lambda: ensemble(8, 50, 100, 1, 100)),
    "ensemble-32": ("32 LSTMs n=32 B=32 T=50 q=8", None, lambda: ensemble(32, 50, 32, 8, 32)),
    "ensemble-128": ("128 LSTMs n=16 B=8 T=20 q=4", None, lambda: ensemble(128, 20, 8, 4, 16)),
    "infer-n256": (
        "LSTM n=256 B=1 T=100 q=64, no_grad",
        None,
        lambda: inference(nn.LSTM, 100, 1, 64, 256),
    ),
    "stream-n256": ("Stream.push, nn.LSTMCell; n=256 q=64", 4.0, lambda: stream(256, 64)),
}


# Multiply-adds of a forward pass, at most, so that a cell of the grid takes seconds.
LARGEST = 3e9


def random_cases(count, seed):
    """Shapes that nobody chose: sizes are even on a logarithmic scale. A quarter has both directions, a
    quarter two layers, a quarter is packed."""
    rng = random.Random(seed)

    def size(least, most):
        return round(math.exp(rng.uniform(math.log(least), math.log(most))))

    cases = {}
    while len(cases) < 2 * count:
        kind = rng.choice([nn.LSTM, nn.LSTM, nn.GRU, nn.RNN])
        n, rows, steps, q = size(8, 1024), size(1, 256), size(5, 200), size(1, 512)
        both, layers = rng.random() < 0.25, 1 + (rng.random() < 0.25)
        is_packed = rows > 1 and rng.random() < 0.25
        gates = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}[kind]
        if steps * rows * n * (n + q) * gates * layers * (1 + both) > LARGEST:
            continue
        options = {"num_layers": layers, "bidirectional": both}
        text = f"{'Bi-' if both else ''}{kind.__name__}{', 2 layers,' if layers == 2 else ''}"
        text += f" n={n} B={rows} T={steps} q={q}{', packed lengths from 3' if is_packed else ''}"
        shape = kind, steps, rows, q, n
        train = lambda shape=shape, options=options: dense(*shape, **options)
        if is_packed:
            shape = kind, rows, q, n, min(3, steps), steps
            train = lambda shape=shape, options=options: packed(*shape, **options)
        cases[f"train-{len(cases) // 2}"] = (text, None, train)
        shape = kind, steps, rows, q, n
        infer = lambda shape=shape, options=options: inference(*shape, **options)
        text = text.split(", packed")[0]
        cases[f"infer-{len(cases) // 2}"] = (text, None, infer)
    return cases


def summary(results):
    """Geometric mean, smallest and largest ratio of a grid, and how many are below 1."""
    found = {}
    for what in ("train", "infer"):
        for kind in ("LSTM", "GRU", "RNN"):
            cells = [
                result["ratio"]
                for name, result in results.items()
                if name.startswith(what) and f"{kind} n=" in result["case"].replace(", 2 layers,", "")
            ]
            if cells:
                found[f"{what} {kind}"] = {
                    "shapes": len(cells),
                    "geometric_mean": math.exp(statistics.mean(map(math.log, cells))),
                    "smallest": min(cells),
                    "largest": max(cells),
                    "below_1": sum(ratio < 1 for ratio in cells),
                }
    return found


def measure(run, times):
    begin = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - begin) / times


def race(make, rounds, seconds):
    torch.manual_seed(1)
    contenders = make()
    times = {}
    for name, run in contenders.items():
        run()
        times[name] = max(1, round(seconds / measure(run, 1)))
    found = {name: [] for name in contenders}
    for number in range(rounds):
        order = list(contenders.items())
        for name, run in order if number % 2 == 0 else reversed(order):
            found[name].append(measure(run, times[name]))
    medians = {name: statistics.median(values) for name, values in found.items()}
    spread = max((max(values) - min(values)) / medians[name] for name, values in found.items())
    return {
        "spread": spread,
        "ratio_of_best_rounds": min(found["torch"]) / min(found["drnn"]),
        "torch_ms": medians["torch"] * 1e3,
        "drnn_ms": medians["drnn"] * 1e3,
        "ratio": medians["torch"] / medians["drnn"],
        "rounds_ms": {name: [value * 1e3 for value in values] for name, values in found.items()},
    }


def machine():
    """The processor, and how many of its cores there are."""
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return {"processor": names[0] if names else platform.processor(), "cores": os.cpu_count()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", choices=list(CASES), help="all if not given")
    parser.add_argument("--grid", type=int, metavar="COUNT", help="as many random shapes instead")
    parser.add_argument("--seed", type=int, default=1, help="of --grid")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="time of a contender per round")
    parser.add_argument("--json", help="also write the results to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"drnn {drnn.__version__}, torch {torch.__version__}, {arguments.threads} threads")
    print(f"{'case':15} {'torch':>10} {'drnn':>10} {'ratio':>6} {'best':>6} {'goal':>5}  f32")
    results = {}
    cases = random_cases(arguments.grid, arguments.seed) if arguments.grid else CASES
    for name in arguments.case or cases:
        text, goal, make = cases[name]
        result = race(make, arguments.rounds, arguments.seconds)
        results[name] = {"case": text, "goal": goal, **result}
        goal = "" if goal is None else f"{goal:.1f}x"
        best = f"{result['ratio_of_best_rounds']:>5.2f}x"
        times = f"{result['torch_ms']:>7.3g} ms {result['drnn_ms']:>7.3g} ms"
        noisy = f" (noisy: {result['spread']:.0%})" if result["spread"] > 0.25 else ""
        ratio = f"{result['ratio']:>5.2f}x {best:>6} {goal:>5}"
        print(f"{name:15} {times} {ratio}  {text}{noisy}", flush=True)
    grid = summary(results) if arguments.grid else {}
    for name, cells in grid.items():
        mean, ends = cells["geometric_mean"], f"{cells['smallest']:.2f} to {cells['largest']:.2f}"
        below = f"{cells['below_1']} of {cells['shapes']} below 1"
        print(f"{name:10} {mean:.2f}x ({ends}), {below}")
    if arguments.json:
        head = {
            "command": command_line(),
            "date": datetime.date.today().isoformat(),
            "commit": commit(),
            **machine(),
            "threads": arguments.threads,
            "torch": torch.__version__,
            "drnn": drnn.__version__,
        }
        with open(arguments.json, "w") as file:
            grid = {"grid": grid} if grid else {}
            json.dump({**head, **grid, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
