"""Training steps of `drnn bench --device cuda` in PyTorch, eager and from a CUDA graph, beside ours in the same run.

    python3 bench/peers_gpu.py [--drnn target/release/drnn] [--case NAME ...] [--precision f32|tf32|f16]

A step is forward, backward, clipping at norm 1 and fused Adam; times are milliseconds, medians by device events (ours by
the clock, with the gathering and copying of batches, which PyTorch's are spared). PyTorch has TF32 unless ours has f32.
"""

import argparse
import json
import subprocess

import torch

# name: layers, units, both ways, delay
LARGE = {
    "dlstm-1024": (1, 1024, False, 8),
    "dlstm-512": (1, 512, False, 8),
    "lstm-2x594": (2, 594, False, 0),
    "lstm-5x343": (5, 343, False, 0),
    "bilstm-1x722": (1, 722, True, 0),
    "bilstm-2x363": (2, 363, True, 0),
    "bilstm-5x202": (5, 202, True, 0),
}
SMALL = {"lstm-100": 1, "lstm-100-lanes8": 8, "lstm-100-lanes32": 32, "lstm-100-lanes128": 128}


class Tokens(torch.nn.Module):
    """28 symbols -> 10 -> LSTM -> 27 classes."""

    def __init__(self, layers, units, both_ways):
        super().__init__()
        self.embedding = torch.nn.Embedding(28, 10)
        self.rnn = torch.nn.LSTM(10, units, layers, bidirectional=both_ways)
        self.output = torch.nn.Linear(units * (2 if both_ways else 1), 27)

    def forward(self, x):
        return self.output(self.rnn(self.embedding(x))[0])


class Numbers(torch.nn.Module):
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
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[rounds // 2]


def training_step(name):
    """A step of the case, on random data."""
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

    return step


def captured(step):
    """The same step, replayed from a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drnn", default="target/release/drnn")
    parser.add_argument("--case", action="append", choices=[*LARGE, *SMALL])
    parser.add_argument("--precision", default="tf32", choices=["f32", "tf32", "f16"])
    arguments = parser.parse_args()
    names = arguments.case or [*LARGE, *SMALL]
    tf32 = arguments.precision != "f32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    command = [arguments.drnn, "bench", "--device", "cuda", "--json", "--precision", arguments.precision]
    for name in names:
        command += ["--case", name]
    ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ours = {case["name"]: case for case in ours["cases"]}
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, drnn {arguments.precision}")
    print(f"{'case':18} {'drnn':>9} {'eager':>9} {'graph':>9}   steps/s: drnn, graph")
    for name in names:
        step = training_step(name)
        eager, graph = median(step), median(captured(step))
        rate = ours[name]["steps_per_second"]
        print(
            f"{name:18} {ours[name]['median_s'] * 1e3:9.3f} {eager:9.3f} {graph:9.3f}   {rate:.0f}, {1e3 / graph:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
