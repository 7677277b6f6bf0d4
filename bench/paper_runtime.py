#!/usr/bin/env python3
"""Forward passes of the paper's character table in drnn and in PyTorch, in turn, for the paper's campaign.

    python bench/paper_runtime.py --json runtime.json                   # this CPU
    python bench/paper_runtime.py --device cuda --json runtime.json
    drnn reproduce all --out results/paper --import runtime.json

A pass is one batch: 128 windows of 180 characters and the look-ahead of the delay, from tokens to logits. Times
are wall-clock times on the CPU and device events on a GPU. In every round each network runs in both, one directly
after the other, and the order turns round from one round to the next; each runs once to warm up before that. On
the CPU both have the same number of threads. On a GPU both are replayed from CUDA graphs; drnn computes products
in f16, and PyTorch in TF32 or f16, whichever is faster for the network; the least of five times is a measurement
there, in both.

On a machine that others use too, --calm SHARE measures a pair of neighbours again if other processes took more
than that share of all cores' time meanwhile (Linux), and prints how often: for `--note` of the import.
"""

import argparse
import datetime
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time

import torch

from gpu_contenders import captured, once_ms
from provenance import command_line

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAUSE_S = 0.1  # idle thread pools spin and would take time from the next contender
PASSES_ON_GPU = 5
MAX_TRIES = 200  # of a pair with --calm

# (size, net, layers): units per direction, and the parameters that the paper prints
NETWORKS = {
    ("large", "lstm", 1): (1024, 4271411),
    ("large", "lstm", 2): (594, 4283641),
    ("large", "lstm", 5): (343, 4272372),
    ("large", "bilstm", 1): (722, 4278879),
    ("large", "bilstm", 2): (363, 4277173),
    ("large", "bilstm", 5): (202, 4287151),
    ("small", "lstm", 1): (512, 1087283),
    ("small", "lstm", 2): (298, 1090689),
    ("small", "lstm", 5): (172, 1083735),
    ("small", "bilstm", 1): (360, 1091107),
    ("small", "bilstm", 2): (182, 1090487),
    ("small", "bilstm", 5): (102, 1104151),
}
DELAYS = {"large": [1, 5, 8, 10], "small": [1, 2, 3, 5, 8, 10, 15]}


def rows():
    """Name, (size, net, layers) and delay of each row of the table, in its order."""
    found = []
    for size, delays in DELAYS.items():
        for net in ["lstm", "bilstm"]:
            for layers in [1, 2, 5]:
                name = f"{size}-{net}" + (f"-{layers}" if layers > 1 else "")
                found.append((name, (size, net, layers), 0))
        found += [(f"{size}-dlstm-{delay}", (size, "lstm", 1), delay) for delay in delays]
    return found


class Network(torch.nn.Module):
    """28 symbols -> 10 -> LSTM -> 27 classes, of the outputs that are not dropped."""

    def __init__(self, key, delay):
        super().__init__()
        (_, net, layers), (units, parameters) = key, NETWORKS[key]
        both = net == "bilstm"
        self.delay = delay
        self.embedding = torch.nn.Embedding(28, 10)
        self.rnn = torch.nn.LSTM(10, units, layers, bidirectional=both)
        self.output = torch.nn.Linear(units * (2 if both else 1), 27)
        count = sum(p.numel() for p in self.parameters())
        assert count == parameters, f"{key}: {count} parameters, expected {parameters}"

    def forward(self, x):
        return self.output(self.rnn(self.embedding(x))[0][self.delay :])


class Torch:
    """A network in PyTorch on a device; on a GPU in the faster of two precisions."""

    def __init__(self, key, delay, device):
        torch.manual_seed(1)
        self.device = device
        tokens = torch.randint(0, 28, (180 + delay, 128), device=device)
        nets = [Network(key, delay).to(device).eval()]
        if device == "cuda":
            nets.append(Network(key, delay).to(device).eval().half())
        calls = [captured(self.call_of(net, tokens), device) for net in nets]
        times = [once_ms(call, device) for call in calls for _ in range(2)][1::2]
        self.call = calls[times.index(min(times))]

    @staticmethod
    def call_of(net, tokens):
        def call():
            with torch.inference_mode():
                net(tokens)

        return call

    def warm_up(self):
        self.call()

    def measure(self):
        passes = PASSES_ON_GPU if self.device == "cuda" else 1
        return min(once_ms(self.call, self.device) for _ in range(passes)) / 1e3


class Ours:
    """`drnn reproduce runtime` for some networks: one measured pass of each, after one to warm up."""

    def __init__(self, options):
        self.command = [options.drnn, "reproduce", "runtime", "--rounds", "1", "--json", "--quiet"]
        self.command += ["--device", options.device]
        if options.threads:
            self.command += ["--threads", str(options.threads)]
        self.provenance = None

    def measure(self, names):
        with tempfile.TemporaryDirectory() as folder:
            command = self.command + ["--rows", ",".join(names), "--out", folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit(f"drnn exited with {done.returncode}: {shlex.join(command)}")
        found = json.loads(done.stdout)
        self.provenance = self.provenance or found["provenance"]
        return {time["row"]: time["seconds"][-1] for time in found["times"]}


class Others:
    """The share of all cores' time that other processes take."""

    def __init__(self):
        self.before = self.read()

    def read(self):
        with open("/proc/stat") as file:
            user, nice, system, idle, wait, *more = map(int, file.readline().split()[1:9])
        busy = (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return time.monotonic(), busy - sum(usage.ru_utime + usage.ru_stime for usage in own)

    def share(self):
        (begin, before), (end, after) = self.before, self.read()
        return (after - before) / (end - begin) / os.cpu_count()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--drnn", metavar="PATH", default=os.path.join(ROOT, "target", "release", "drnn"))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, help="of both, on the CPU (default: all cores)")
    parser.add_argument("--rounds", type=int, help="default 10")
    parser.add_argument("--calm", type=float, metavar="SHARE", help="repeat pairs that others disturbed: 0.05")
    parser.add_argument("--quick", action="store_true", help="2 rounds, to try it out")
    parser.add_argument("--json", metavar="FILE", required=True, help="the results, for drnn reproduce all --import")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 10)
    if not os.access(options.drnn, os.X_OK):
        parser.error(f"{options.drnn} is not a program; build it, or name it with --drnn")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: this PyTorch finds no GPU")
    return options


def shown(times, others):
    ratios = sorted(b / a for a, b in zip(times, others))
    middle = lambda values: sorted(values)[len(values) // 2]
    return f"{1e3 * middle(times):8.2f} {1e3 * middle(others):8.2f} {middle(ratios):6.2f}"


def measure(names, in_drnn, ours, peers):
    """Seconds of a pass of these networks, by name."""
    time.sleep(PAUSE_S)
    if in_drnn:
        return ours.measure(names)
    for name in names:
        peers[name].warm_up()  # as warm as ours
    return {name: peers[name].measure() for name in names}


def main():
    options = arguments()
    started = datetime.datetime.now(datetime.timezone.utc)
    threads = options.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    table, ours = rows(), Ours(options)
    # Every start of drnn compiles its kernels for a GPU anew: one for all networks of a round.
    groups = [table] if options.device == "cuda" else [[row] for row in table]
    times, others = ({name: [] for name, _, _ in table} for _ in range(2))
    peers, repeated, disturbed = {}, 0, 0
    for round_number in range(options.rounds):
        for group in groups:
            names = [name for name, _, _ in group]
            for name, key, delay in group:
                if name not in peers:
                    peers[name] = Torch(key, delay, options.device)
            order = [True, False] if round_number % 2 == 0 else [False, True]
            for attempt in range(MAX_TRIES if options.calm else 1):
                disturbance = Others() if options.calm else None
                pair = {drnn_is_next: measure(names, drnn_is_next, ours, peers) for drnn_is_next in order}
                if not options.calm or disturbance.share() <= options.calm:
                    break
                repeated += 1
                time.sleep(3 * PAUSE_S)
            else:
                disturbed += 1
            for name in names:
                times[name].append(pair[True][name])
                others[name].append(pair[False][name])
        print(f"round {round_number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print(f"{'network':16} {'drnn, ms':>8} {'PyTorch':>8}  ratio")
    for name in times:
        print(f"{name:16} {shown(times[name], others[name])}")
    if options.calm:
        print(f"pairs that others disturbed: {repeated} measured again, {disturbed} of them without success")
    provenance = ours.provenance | {
        "command": command_line(),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": (datetime.datetime.now(datetime.timezone.utc) - started).total_seconds(),
    }
    listed = lambda of: [{"row": name, "seconds": seconds} for name, seconds in of.items()]
    peer = {"name": f"PyTorch {torch.__version__}", "times": listed(others)}
    found = {"kind": "runtime", "format": 1, "provenance": provenance, "times": listed(times), "peer": peer}
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(os.path.abspath(options.json)), delete=False) as file:
        json.dump(found, file)
    os.chmod(file.name, 0o644)
    os.replace(file.name, options.json)


if __name__ == "__main__":
    main()
