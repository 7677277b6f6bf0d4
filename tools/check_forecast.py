#!/usr/bin/env python3
"""Compares `drnn train series --ahead` with the same LSTM in PyTorch, on any table.

    python tools/check_forecast.py target/release/drnn ETTh1.csv --target OT --ahead 24
                                                      needs torch and pandas

Both train an LSTM and a linear layer from several seeds, with the same data and the same protocol:
all columns of numbers as inputs, standardised with the first 80 % of the rows; windows of 100 steps
from zero states; the mean squared error of the target H steps ahead; Adam with a cosine schedule,
gradients clipped at norm 1; the epoch with the lowest error on the next 10 %, as the network runs
through the whole series; the error of that epoch's model on the last 10 %, in own units.
Initial parameters are drawn from the same distribution; random numbers differ.

Prints a row for each, with drnn's baselines, and writes them with --json. The exit code is 1 if
drnn's mean is above PyTorch's by more than two standard errors of their difference.
"""

import argparse
import copy
import json
import math
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import torch
from torch import nn

WINDOW = 100


class Net(nn.Module):
    def __init__(self, inputs, units):
        super().__init__()
        self.lstm, self.output = nn.LSTM(inputs, units), nn.Linear(units, 1)

    def forward(self, x):
        return self.output(self.lstm(x)[0])[..., 0]


def torch_training(x, y, parts, options, seed):
    """The lowest validation error and the test error of that epoch's model, scaled."""
    torch.manual_seed(seed)
    train, valid, test = parts
    net = Net(x.shape[1], options.units)
    adam = torch.optim.Adam(net.parameters(), lr=options.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, options.epochs)
    count = math.ceil(train / WINDOW)
    length = math.ceil(train / count)
    starts = list(range(0, train, length))
    best, kept = math.inf, None
    for _ in range(options.epochs):
        order = torch.randperm(len(starts)).tolist()
        for first in range(0, len(order), options.batch):
            rows = [starts[i] for i in order[first : first + options.batch]]
            spans = [(start, min(start + length, train)) for start in rows]
            inputs = nn.utils.rnn.pad_sequence([x[a:b] for a, b in spans])
            targets = nn.utils.rnn.pad_sequence([y[a:b] for a, b in spans], padding_value=math.nan)
            known = ~targets.isnan()
            loss = ((net(inputs) - targets)[known] ** 2).mean()
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            adam.step()
        schedule.step()
        error = torch_error(net, x, y, train, train + valid)
        if error < best:
            best, kept = error, copy.deepcopy(net.state_dict())
    net.load_state_dict(kept)
    return best, torch_error(net, x, y, train + valid, train + valid + test)


def torch_error(net, x, y, first, last):
    """The error on rows first to last of the series, read from its beginning."""
    with torch.no_grad():
        outputs = net(x[:last, None])[first:, 0]
    targets = y[first:last]
    known = ~targets.isnan()
    return ((outputs - targets)[known] ** 2).mean().item()


def of_torch(options):
    table = pd.read_csv(options.table).select_dtypes("number")
    rows = len(table)
    valid = test = round(0.1 * rows)
    parts = (rows - valid - test, valid, test)
    ahead = table[options.target].shift(-options.ahead)
    mean, sd = table[: parts[0]].mean(), table[: parts[0]].std(ddof=0)
    x = torch.tensor(((table - mean) / sd).to_numpy(), dtype=torch.float32)
    known = ahead[: parts[0]]
    shift, scale = known.mean(), known.std(ddof=0)
    y = torch.tensor(((ahead - shift) / scale).to_numpy(), dtype=torch.float32)
    runs = [torch_training(x, y, parts, options, seed + 1) for seed in range(options.repeats)]
    return [[error * scale**2 for error in run] for run in runs]


def of_drnn(options):
    """Errors of each training, and the baselines."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(options.drnn).resolve()), "train", "series", "--csv", options.table]
        command += ["--target", options.target, "--ahead", options.ahead, "--net", "lstm"]
        command += ["--units", options.units, "--rate", options.rate, "--epochs", options.epochs]
        command += ["--batch", options.batch, "--window", WINDOW, "--repeats", options.repeats]
        command += ["--out", f"{folder}/out", "--quiet", "--json"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        results = json.loads(done.stdout)
    tables = [part["table"] for part in results["judged"] if "table" in part]
    rows = next(t["rows"] for t in tables if t["head"][0] == "training")
    runs = [[float(row[1]), float(row[2])] for row in rows if row[0].isdigit()]
    return runs, results["baselines"], results["provenance"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("drnn")
    parser.add_argument("table")
    parser.add_argument("--target", required=True)
    parser.add_argument("--ahead", type=int, required=True)
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    started = time.time()
    drnn, baselines, provenance = of_drnn(options)
    drnn_seconds = time.time() - started
    torch_runs = of_torch(options)
    torch_seconds = time.time() - started - drnn_seconds

    def line(name, runs):
        shown = []
        for part in zip(*runs):
            shown.append(f"{statistics.mean(part):.3f} ± {statistics.stdev(part):.3f}")
        print(f"{name:12} valid {shown[0]}  test {shown[1]}")

    line("drnn", drnn)
    line("PyTorch", torch_runs)
    for baseline in baselines:
        print(f"{baseline['name']:12} valid {baseline['valid']:.3f}  test {baseline['test']:.3f}")
    tests = [[run[1] for run in runs] for runs in (drnn, torch_runs)]
    gap = statistics.mean(tests[0]) - statistics.mean(tests[1])
    error = math.sqrt(sum(statistics.variance(part) / len(part) for part in tests))
    print(f"drnn - PyTorch on the test set: {gap:+.3f}, standard error {error:.3f}")
    print(f"seconds: drnn {drnn_seconds:.1f}, PyTorch {torch_seconds:.1f}")
    if options.json:
        record = {
            "command": " ".join(["python", *sys.argv]),
            "data": {"file": Path(options.table).name, "bytes": Path(options.table).stat().st_size},
            "measure": "mean squared error in own units, [validation, test] of each training",
            "drnn": drnn,
            "pytorch": torch_runs,
            "baselines": baselines,
            "seconds": {"drnn": drnn_seconds, "pytorch": torch_seconds},
            "torch": torch.__version__,
            "machine": provenance["cpu"] or platform.processor(),
            "commit": provenance["commit"],
            "started": provenance["started"],
        }
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(1 if gap > 2 * error else 0)


if __name__ == "__main__":
    main()
