"""Networks of `drnn bench --device cuda` in drnn and in PyTorch, eager and from a CUDA graph, in the same run.

    python3 bench/peers_gpu.py [--drnn target/release/drnn] [--case NAME ...] [--precision f32|tf32|f16] [--out FILE]
    python3 bench/peers_gpu.py --grid [--minutes M] [--cells N:B:T,..] [--out FILE] [--map FILE.svg]
    python3 bench/peers_gpu.py --show FILE .. [--map FILE.svg]  prints such files as Markdown tables

Forward is from tokens to logits, states is the same without the output layer; a step is forward, loss,
backward, clipping at norm 1 and fused Adam. Times are milliseconds, medians by device events; where several
networks train at once, by wall clock and for all together, compared with one in PyTorch. PyTorch uses TF32
unless drnn uses f32.

--grid races one LSTM layer over units n and batches B instead, against PyTorch in TF32 and in f16;
`gpu_contenders.py` says how. Options for it: --cells, --cell-type, --layers, --bidirectional,
--inputs, --minutes, --map.
"""

import argparse
import importlib.util
import json
import subprocess
import sys

import gpu_grid
from gpu_contenders import captured, once_ms
from provenance import command_line

try:
    import torch
except ImportError:  # not needed to show a file
    torch = None

# name: layers, units, bidirectional, delay
LARGE = {
    "dlstm-1024": (1, 1024, False, 8),
    "dlstm-512": (1, 512, False, 8),
    "lstm-2x594": (2, 594, False, 0),
    "lstm-5x343": (5, 343, False, 0),
    "bilstm-1x722": (1, 722, True, 0),
    "bilstm-2x363": (2, 363, True, 0),
    "bilstm-5x202": (5, 202, True, 0),
}
SMALL = ["lstm-100", "lstm-100-lanes8", "lstm-100-lanes32", "lstm-100-lanes128", "lstm-100-group8", "lstm-100-group132"]


def own_times(ours):
    """States, forward and step of drnn; None where it was not measured."""
    states, forward, step = (ours.get(key) for key in ("states_device_s", "forward_device_s", "step_device_s"))
    times = states, forward or ours.get("forward_s"), step or ours["median_s"]
    return [1e3 * time if time else None for time in times]


def show(paths, map_path=None):
    reports = []
    for path in paths:
        with open(path) as file:
            reports.append(json.load(file))
    if all("left_out" in report for report in reports):  # of --grid
        return gpu_grid.show(gpu_grid.joined(reports), map_path)
    if len(reports) > 1:
        raise SystemExit("--show takes several files of --grid, or one other file")
    found = reports[0]
    print(f"{found['device']}, PyTorch {found['torch']}, drnn {found['precision']}, milliseconds:\n")
    print("| network | states | forward | PyTorch eager | graph | step | PyTorch eager | graph |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for case in found["cases"]:
        states, forward, step = own_times(case["drnn"])
        columns = [states, forward, *case["forward"].values(), step, *case["step"].values()]
        print(f"| {case['name']} | " + " | ".join(f"{ms:.2f}" if ms else "" for ms in columns) + " |")


class Tokens(torch.nn.Module if torch else object):
    """28 symbols -> 10 -> LSTM -> 27 classes."""

    def __init__(self, layers, units, both_ways):
        super().__init__()
        self.embedding = torch.nn.Embedding(28, 10)
        self.rnn = torch.nn.LSTM(10, units, layers, bidirectional=both_ways)
        self.output = torch.nn.Linear(units * (2 if both_ways else 1), 27)

    def forward(self, x):
        return self.output(self.rnn(self.embedding(x))[0])


class Numbers(torch.nn.Module if torch else object):
    """1 -> LSTM of 100 -> 1."""

    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(1, 100)
        self.output = torch.nn.Linear(100, 1)

    def forward(self, x):
        return self.output(self.rnn(x)[0])


def median(call, rounds=21):
    for _ in range(5):
        call()
    times = sorted(once_ms(call) for _ in range(rounds))
    return times[rounds // 2]


def forward_and_step(name):
    """The forward pass and a training step of the case, on random data."""
    if name in LARGE:
        layers, units, both_ways, delay = LARGE[name]
        net = Tokens(layers, units, both_ways).cuda()
        x = torch.randint(0, 28, (180 + delay, 128), device="cuda")
        y = torch.randint(0, 27, (180 * 128,), device="cuda")

        def loss():
            return torch.nn.functional.cross_entropy(net(x)[delay:].reshape(-1, 27), y)
    else:
        net = Numbers().cuda()
        x, y = torch.rand(50, 100, 1, device="cuda"), torch.rand(50, 100, 1, device="cuda")

        def loss():
            return torch.nn.functional.mse_loss(net(x), y)

    parameters = list(net.parameters())
    adam = torch.optim.Adam(parameters, fused=True, capturable=True)

    def step():
        adam.zero_grad(set_to_none=False)
        loss().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        adam.step()

    def forward():
        with torch.no_grad():
            net(x)

    return forward, step


def cells(text):
    """`N:B:T,..`, checked."""
    for cell in text.split(","):
        numbers = cell.split(":")
        if len(numbers) != 3 or not all(number.isdecimal() and int(number) for number in numbers):
            raise argparse.ArgumentTypeError(f"`{cell}` is not N:B:T, units, sequences and steps")
    return text


def grid_arguments(parser):
    grid = parser.add_argument_group("grid")
    grid.add_argument("--grid", action="store_true", help="race networks over n and B")
    grid.add_argument("--cells", type=cells, metavar="N:B:T,..", help="only these")
    grid.add_argument("--cell-type", default="lstm", choices=gpu_grid.MODULES)
    grid.add_argument("--layers", type=int, default=1)
    grid.add_argument("--bidirectional", action="store_true")
    grid.add_argument("--inputs", type=int, default=128, help="floats per input vector, q")
    grid.add_argument("--minutes", type=float, help="leave out cells that would take longer")
    grid.add_argument("--rounds", type=int, default=3, help="of drnn bench")
    grid.add_argument("--seconds", type=float, default=0.05, help="of each measurement")
    grid.add_argument("--patience", type=float, default=45, help="seconds to wait for drnn")
    grid.add_argument("--map", metavar="FILE.svg", help="draw the ratios; needs matplotlib")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drnn", default="target/release/drnn")
    parser.add_argument("--case", action="append", choices=[*LARGE, *SMALL])
    parser.add_argument("--precision", default="f16", choices=["f32", "tf32", "f16"])
    parser.add_argument("--out", help="a JSON file for the results")
    parser.add_argument("--show", metavar="FILE", nargs="+", help="print files written by --out")
    grid_arguments(parser)
    arguments = parser.parse_args()
    if arguments.show:
        return show(arguments.show, arguments.map)
    if arguments.grid:
        if torch is None or not torch.cuda.is_available():
            parser.error("--grid needs PyTorch and a GPU that it finds")
        if arguments.map and importlib.util.find_spec("matplotlib") is None:
            parser.error("--map needs matplotlib; without it, use --show FILE --map FILE.svg later")
        return gpu_grid.run(arguments)
    names = arguments.case or [*LARGE, *SMALL]
    tf32 = arguments.precision != "f32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    command = [arguments.drnn, "bench", "--device", "cuda", "--json", "--precision", arguments.precision]
    for name in names:
        command += ["--case", name]
    ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    commit, ours = ours.get("commit"), {case["name"]: case for case in ours["cases"]}
    device = torch.cuda.get_device_name()
    print(f"{device}, PyTorch {torch.__version__}, drnn {arguments.precision}")
    columns = ["states", "forward", "eager", "graph", "step", "eager", "graph"]
    print(f"{'case':18} {' '.join(f'{column:>8}' for column in columns)}   steps/s: drnn, graph")
    found = []
    for name in names:
        forward, step = forward_and_step(name)
        row = {"name": name, "drnn": ours[name]}
        row["forward"] = {"eager": median(forward), "graph": median(captured(forward))}
        row["step"] = {"eager": median(step), "graph": median(captured(step))}
        found.append(row)
        states, forward, step = own_times(ours[name])
        times = [states, forward, *row["forward"].values(), step, *row["step"].values()]
        times = " ".join(f"{ms:8.3f}" if ms else " " * 8 for ms in times)
        rates = f"{ours[name]['steps_per_second']:.0f}, {1e3 / row['step']['graph']:.0f}"
        print(f"{name:18} {times}   {rates}", flush=True)
    if arguments.out:
        facts = {"command": command_line(), "device": device, "torch": torch.__version__}
        with open(arguments.out, "w") as file:
            json.dump({**facts, "precision": arguments.precision, "commit": commit, "cases": found}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
