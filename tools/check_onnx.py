#!/usr/bin/env python3
"""Checks `drnn export` against ONNX Runtime and PyTorch.

    python tools/check_onnx.py target/release/drnn          needs torch, onnx, onnxruntime, safetensors

PyTorch's networks: the outputs of nn.RNN, nn.LSTM and nn.GRU in float64, against ONNX Runtime on the graph that
drnn made of their state dict. Networks of ours (delays, tokens, layers of different widths): `drnn run`
against ONNX Runtime. Trained series: `drnn predict` against graphs in own units. Every graph, of whole
sequences and of one step, passes ONNX's own checker, is loaded once and runs at several T and B, from
states that are not zero and, where they are optional, without them. Prints the largest absolute difference of
outputs and final states, group by group; the exit code is 1 if one is above 1e-5.
"""

import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors.numpy import save_file
from torch import nn

SIZES = [(7, 4), (1, 1), (33, 3)]  # T, B; one shorter than the delay
TOLERANCE = 1e-5
Q, N, M = 3, 20, 5  # width of dense input, units, outputs
V, E, D = 7, 4, 3  # symbols, width of their embedding, delay
GATES = {"rnn-tanh": 1, "rnn-relu": 1, "lstm": 4, "gru": 3, "gru-reset-before": 3}
MODULES = {
    "rnn-tanh": nn.RNN,
    "rnn-relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
    "lstm": nn.LSTM,
    "gru": nn.GRU,
}
LARGEST = {}  # group -> largest difference
RUNS = {}  # group -> graphs, runs


class Graph:
    """An exported graph in ONNX Runtime."""

    def __init__(self, drnn, folder, options=()):
        file = folder / "model.onnx"
        subprocess.run([drnn, "export", folder / "model.safetensors", "--onnx", file, *options],
                       check=True, stdout=subprocess.DEVNULL)
        onnx.checker.check_model(str(file), full_check=True)
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 3  # it warns of inputs with a default: optional states
        self.session = onnxruntime.InferenceSession(file, quiet, providers=["CPUExecutionProvider"])
        self.metadata = self.session.get_modelmeta().custom_metadata_map
        optional = [port.name for port in self.session.get_overridable_initializers()]
        self.inputs = [port.name for port in self.session.get_inputs()] + optional
        self.optional = bool(optional)
        self.outputs = [port.name for port in self.session.get_outputs()]

    def __call__(self, x, states):
        """y and states by name, where `states` has h0 and c0, or h0_l0, .. for each layer; None for none."""
        feed = {self.inputs[0]: x} | {name: states[name] for name in self.inputs[1:] if states}
        y, *last = self.session.run(self.outputs, feed)
        return y, dict(zip(self.outputs[1:], last))

    def steps(self, x, states, delay, pad):
        """The same by a graph of one step, driven as its documentation says."""
        outputs = []
        for element in [*x, *[pad] * delay]:
            y, last = self(element, states)
            outputs.append(y)
            states = {name.replace("h", "h0").replace("c", "c0"): value for name, value in last.items()}
        return np.stack(outputs)[int(self.metadata["delay"]):], last


def compare(group, found, expected):
    for name, value in expected.items():
        assert found[name].shape == value.shape, (group, name, found[name].shape, value.shape)
        difference = np.abs(found[name] - value).max(initial=0)
        LARGEST[group] = max(LARGEST.get(group, 0), difference if difference == difference else np.inf)


def count(group, graphs, runs):
    before = RUNS.get(group, (0, 0))
    RUNS[group] = before[0] + graphs, before[1] + runs


def check_pytorch(drnn, folder, cell, layers, both, bias):
    net = MODULES[cell](Q, N, layers, bidirectional=both, bias=bias)
    save_file({k: v.numpy() for k, v in net.state_dict().items()}, folder / "model.safetensors")
    net = net.double()
    options = ["--nonlinearity", "relu"] if cell == "rnn-relu" else []
    whole, required = Graph(drnn, folder, options), Graph(drnn, folder, [*options, "--states"])
    step = None if both else Graph(drnn, folder, [*options, "--step"])
    group = f"PyTorch's {cell}" + (", both ways" if both else "")
    count(group, 2 + (step is not None), len(SIZES) * (4 + (step is not None)))
    for T, B in SIZES:
        x = torch.randn(T, B, Q)
        h0, c0 = torch.randn(2, layers * (1 + both), B, N).clamp(-0.9, 0.9)
        start = (h0.double(), c0.double()) if cell == "lstm" else h0.double()
        with torch.no_grad():
            y, last = net(x.double(), start)
        h, c = last if cell == "lstm" else (last, None)
        expected = {"y": y.numpy(), "h": h.numpy()} | ({"c": c.numpy()} if c is not None else {})
        states = {"h0": h0.numpy(), "c0": c0.numpy()}
        y, last = whole(x.numpy(), states)
        compare(group, {"y": y, **last}, expected)
        # Without states a graph starts from zeros; --states makes them inputs that must be given.
        assert whole.optional and not required.optional
        y, last = required(x.numpy(), states)
        compare(group, {"y": y, **last}, expected)
        zeros = {name: np.zeros_like(state) for name, state in states.items()}
        y, last = whole(x.numpy(), zeros)
        found, found_last = whole(x.numpy(), None)
        compare(group, {"y": found, **found_last}, {"y": y, **last})
        if step:
            y, last = step.steps(x.numpy(), states, 0, None)
            compare(group, {"y": y, **last}, expected)


def write_model(folder, cell, units, input, padding, outputs):
    """Writes a model file of drnn with a delay."""
    rng = np.random.default_rng(len(units))
    values = lambda *shape: rng.uniform(-0.4, 0.4, shape).astype(np.float32)
    spec = dict(cell=cell, input=input, units=units, direction="forward", delay=D, padding=padding,
                outputs=outputs)
    tensors = {}
    width = Q
    if "tokens" in input:
        tensors["embedding.weight"], width = values(V, E), E
    for layer, n in enumerate(units):
        rows = GATES[cell] * n
        tensors[f"weight_ih_l{layer}"] = values(rows, width)
        tensors[f"weight_hh_l{layer}"] = values(rows, n)
        tensors[f"bias_ih_l{layer}"], tensors[f"bias_hh_l{layer}"] = values(rows), values(rows)
        width = n
    if outputs:
        tensors["output.weight"], tensors["output.bias"] = values(outputs, width), values(outputs)
    header = json.dumps({"format": 1, "spec": spec})
    save_file(tensors, folder / "model.safetensors", metadata={"drnn": header})


def check_ours(drnn, folder, cell, units, input, padding, outputs):
    write_model(folder, cell, units, input, padding, outputs)
    whole, step = Graph(drnn, folder), Graph(drnn, folder, ["--step"])
    equal = len(set(units)) == 1  # `drnn run` takes states only of one width
    kind = padding if isinstance(padding, str) else "symbol"
    group = f"ours, {'tokens' if 'tokens' in input else 'dense'}, delay {D}, {kind}"
    count(group, 2, 2 * len(SIZES))
    rng = np.random.default_rng(1)
    names = ["h", "c"] if cell == "lstm" else ["h"]
    for T, B in SIZES:
        T += D * (padding == "look-ahead")
        x = rng.integers(0, V, (T, B)) if "tokens" in input else rng.normal(size=(T, B, Q))
        x = x.astype(np.int64 if "tokens" in input else np.float32)
        states, options = {}, []
        for name in names:
            if equal:
                state = rng.uniform(-0.9, 0.9, (len(units), B, units[0])).astype(np.float32)
                states[f"{name}0"] = state
                np.save(folder / f"{name}0.npy", state)
                options += [f"--{name}0", folder / f"{name}0.npy"]
            for layer, n in enumerate(units):
                states[f"{name}0_l{layer}"] = np.zeros((1, B, n), np.float32)
        np.save(folder / "x.npy", x)
        options += ["--states", folder] if equal else []
        subprocess.run([drnn, "run", folder / "model.safetensors", folder / "x.npy", "-o",
                        folder / "y.npy", *options], check=True)
        expected = {name: np.load(folder / f"{name}.npy") for name in ["y", *(names if equal else [])]}
        y, last = whole(x, states)
        compare(group, {"y": y, **last}, expected)
        token = step.metadata.get("padding_token")
        pad = np.zeros_like(x[0]) if token is None else np.full_like(x[0], int(token))
        y, last = step.steps(x, states, 0 if padding == "look-ahead" else D, pad)
        compare(group, {"y": y, **last}, expected)


def check_series(drnn, folder):
    """A trained series: its graphs take and give own units, as `drnn predict` does."""
    rng = np.random.default_rng(3)
    x = np.column_stack([1000 + rng.normal(size=400), rng.normal(size=400) * 0.01])
    y = 50 + 3 * np.roll(x[:, 0] - 1000, -2)
    kind = np.where(y > 50, "high", "low")
    table = folder / "table.csv"
    rows = [f"{a},{b},{c},{k}" for (a, b), c, k in zip(x, y, kind)]
    table.write_text("\n".join(["a,b,y,kind", *rows]) + "\n")
    for target, net in itertools.product(["y", "kind"], [["dlstm", "--delay", "2"], ["bigru"]]):
        subprocess.run([drnn, "-q", "train", "series", "--csv", table, "--inputs", "a,b", "--target", target,
                        "--net", *net, "--units", "6", "--epochs", "3", "--out", folder / "out" / target / net[0]],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (folder / "model.safetensors").write_bytes(
            (folder / "out" / target / net[0] / "model.safetensors").read_bytes())
        extra = ["--probabilities"] if target == "kind" else []
        found = subprocess.run([drnn, "-q", "predict", folder / "model.safetensors", table, "-o", "-", "--columns",
                                "none", *extra], check=True, capture_output=True, text=True).stdout
        fields = [line.split(",") for line in found.splitlines()]
        graph = Graph(drnn, folder)
        classes = json.loads(graph.metadata.get("classes", "null"))
        columns = [fields[0].index(f"probability_{c}") for c in classes] if classes else [0]
        expected = np.array([[float(row[c]) for c in columns] for row in fields[1:]])
        assert json.loads(graph.metadata["inputs"]) == ["a", "b"] and graph.metadata["units"] == "own"
        elements = x[:, None, :].astype(np.float32)
        group = f"series, {'classes' if classes else 'values'}, own units"
        count(group, 1, 1)
        # Single precision has 7 digits of values around 50.
        scale = 1 if classes else 10
        compare(group, {"y": graph(elements, None)[0][:, 0] / scale}, {"y": expected / scale})
        if net[0] == "bigru":
            continue
        step = Graph(drnn, folder, ["--step"])
        count(group, 1, 1)
        states = {name: np.zeros((1, 1, 6), np.float32) for name in step.inputs[1:]}
        pad = np.full_like(elements[0], np.nan)
        compare(group, {"y": step.steps(elements, states, 2, pad)[0][:, 0] / scale}, {"y": expected / scale})


def main():
    drnn = Path(sys.argv[1]).resolve()
    torch.manual_seed(1)
    dense, tokens = {"dense": Q}, {"tokens": {"symbols": V, "embedding": E}}
    paddings = [(dense, "null"), (dense, "look-ahead"), (tokens, "null"), (tokens, "look-ahead"),
                (tokens, {"symbol": V - 1})]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for cell, layers, both in itertools.product(MODULES, (1, 2, 3), (False, True)):
            check_pytorch(drnn, folder, cell, layers, both, bias=layers != 3)
        for cell, units, (input, padding), outputs in itertools.product(
                GATES, ([N], [N, N], [N, 9]), paddings, (None, M)):
            check_ours(drnn, folder, cell, units, input, padding, outputs)
        check_series(drnn, folder)
    print(f"torch {torch.__version__}, onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
    print(f"{'':36} graphs  runs  largest difference")
    for group, largest in LARGEST.items():
        graphs, runs = RUNS[group]
        print(f"{group:36} {graphs:6} {runs:5}  {largest:.1e}")
    if max(LARGEST.values()) > TOLERANCE:
        sys.exit(f"a difference is above {TOLERANCE}")


if __name__ == "__main__":
    main()
