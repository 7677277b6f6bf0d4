"""Shapes drawn by a seed, for `peers.py --grid`: whole sequences forward and in training, one layer of LSTM, GRU or RNN.

Nobody chose the shapes: cell, n, B, q and T come from a generator, n, B and q evenly on a logarithmic scale. A
few that were once lost are added by name. A cell of the grid is one pass of one shape; what counts is the ratio
to the fastest peer.
"""

import math
import os
import random
import statistics
from dataclasses import dataclass

import numpy as np
import onnx
import torch
from contenders import InProcess, check, call_json, ort_session, bind
from onnx import TensorProto, helper, numpy_helper
from torch import nn
import onnxruntime

MODULES = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
ONNX_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}  # PyTorch's i f g o, r z n in ONNX's order
MAX_FLOP = 6e9  # of a forward pass: T is cut to this, or a few shapes would take most of the time
PASSES = ("infer", "train")


@dataclass(frozen=True)
class Shape:
    """One layer of `n` units on `B` sequences of `T` vectors of `q` floats; `name` also for the ONNX file."""

    cell: str
    n: int
    B: int
    T: int
    q: int

    @property
    def name(self):
        return f"{self.cell} n={self.n} B={self.B} T={self.T} q={self.q}"

    @property
    def flop(self):
        return 2.0 * self.T * self.B * GATES[self.cell] * self.n * (self.n + self.q)


NAMED = [
    Shape("lstm", 512, 8, 50, 512),
    Shape("lstm", 1024, 32, 30, 256),
    Shape("gru", 512, 8, 50, 512),
    Shape("lstm", 512, 128, 40, 10),  # the recurrence of infer-n512
]


def draw(seed, count):
    """`count` shapes, half of them LSTMs."""
    source = random.Random(seed)

    def scaled(low, high):
        return round(math.exp(source.uniform(math.log(low), math.log(high))))

    shapes = []
    for _ in range(count):
        cell = source.choice(["lstm", "lstm", "gru", "rnn"])
        n, B, q, T = scaled(16, 2048), scaled(1, 64), scaled(8, 512), scaled(20, 200)
        step = Shape(cell, n, B, 1, q).flop
        shapes.append(Shape(cell, n, B, max(8, min(T, int(MAX_FLOP / step))), q))
    return shapes


class Ours:
    """`drnn bench --net ..` in a subprocess."""

    name = "ours"

    def __init__(self, program, shape, kind, threads):
        sizes = {"net": shape.cell, "units": shape.n, "batch": shape.B, "steps": shape.T, "inputs": shape.q}
        sizes |= {"pass": kind, "threads": threads, "rounds": 1}
        options = [text for key, value in sizes.items() for text in (f"--{key}", str(value))]
        self.command, self.facts = [program, "bench", *options, "--no-peak", "--json"], {}

    def warm_up(self, seconds):
        self.measure(seconds)

    def measure(self, seconds):
        reply = call_json([*self.command, "--seconds", str(seconds)])
        self.facts = {k: reply[k] for k in ("version", "isa")}
        return reply["cases"][0]["median_s"]


def write_onnx(path, shape, net):
    """The network as one ONNX operator, with PyTorch's weights."""
    part = {}
    for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        gates = np.split(getattr(net, f"{key}_l0").detach().numpy(), GATES[shape.cell])
        part[key] = np.concatenate([gates[i] for i in ONNX_GATES[shape.cell]])
    bias = np.concatenate([part["bias_ih"], part["bias_hh"]])
    weights = {"W": part["weight_ih"][None], "R": part["weight_hh"][None], "B": bias[None]}
    extra = {"linear_before_reset": 1} if shape.cell == "gru" else {}
    node = helper.make_node(shape.cell.upper(), ["x", "W", "R", "B"], ["y"], hidden_size=shape.n, **extra)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [shape.T, shape.B, shape.q])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape.T, 1, shape.B, shape.n])
    initializers = [numpy_helper.from_array(np.ascontiguousarray(w), k) for k, w in weights.items()]
    graph = helper.make_graph([node], shape.cell, [x], [y], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def torch_peer(net, x, kind):
    if kind == "infer":

        def unit():
            with torch.inference_mode():
                net(x)
    else:
        dy = torch.randn(x.shape[0], x.shape[1], net.hidden_size)

        def unit():
            net.zero_grad(set_to_none=True)
            net(x)[0].backward(dy)

    return InProcess("torch", {"plain": unit})


def ort_peer(shape, net, x, folder, threads):
    path = os.path.join(folder, "shape.onnx")
    write_onnx(path, shape, net)
    session, feed = ort_session(path, threads), {"x": x.numpy()}
    with torch.inference_mode():
        expected = net(x)[0].numpy()
    check("onnxruntime", shape, session.run(None, feed)[0], expected)
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    y = value(np.zeros((shape.T, 1, shape.B, shape.n), np.float32))
    return InProcess("ort", {"bound": bind(session, {"x": value(feed["x"])}, {"y": y})})


def make_contenders(shape, kind, options, folder):
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    net = MODULES[shape.cell](shape.q, shape.n)
    x = torch.randn(shape.T, shape.B, shape.q)
    ours = [] if options.peers_only else [Ours(options.drnn, shape, kind, options.threads)]
    peers = [torch_peer(net, x, kind)]
    if kind == "infer":
        peers.append(ort_peer(shape, net, x, folder, options.threads))
    for peer in peers:
        peer.min_repeats = 1  # some peers take seconds for some shapes
    return ours + peers


def summarise(shape, kind, times):
    """Medians, and the median ratio to the peer that is fastest."""
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    result = {"shape": vars(shape), "pass": kind, "median_s": medians, "seconds": times}
    peers = [name for name in times if name != "ours"]
    result["fastest_peer"] = min(peers, key=medians.get)
    if "ours" in times:
        ratio = {p: [a / b for a, b in zip(times[p], times["ours"])] for p in peers}
        result["ratio"] = {p: statistics.median(ratio[p]) for p in peers}
        best = ratio[result["fastest_peer"]]
        result |= {"ratio_min": min(best), "ratio_max": max(best)}
        result["gflops"] = shape.flop / medians["ours"] / 1e9 if kind == "infer" else None
    return result


def best(result):
    """Ratio to the fastest peer."""
    return result["ratio"][result["fastest_peer"]]


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def summary(results):
    """What the goals are about: cells below 1, and geometric means, by cell and pass."""
    results = [r for r in results if "ratio" in r]
    lines = []
    for cell in MODULES:
        for kind in PASSES:
            ratios = [best(r) for r in results if r["shape"]["cell"] == cell and r["pass"] == kind]
            if ratios:
                mean = f"{geometric_mean(ratios):.2f}x geometric mean"
                lines.append(f"{cell:5} {kind:6} {mean}, {min(ratios):.2f}x to {max(ratios):.1f}x, {len(ratios)} shapes")
    lost = [r for r in results if best(r) < 1]
    lines.append(f"{len(lost)} of {len(results)} cells below 1" + "".join(f"; {line(r)}" for r in lost))
    return "\n".join(lines)


def line(result):
    shape = Shape(**result["shape"])
    times = ", ".join(f"{name} {seconds * 1e3:.3g} ms" for name, seconds in result["median_s"].items())
    ratio = f" {best(result):.2f}x" if "ratio" in result else ""
    return f"{result['pass']} {shape.name}:{ratio} ({times})"


def draw_map(report, path):
    """The ratios over n and B, one panel per pass. Needs matplotlib."""
    from matplotlib import colors, pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "drnn", "font.size": 9})
    figure, panels = pyplot.subplots(1, 2, figsize=(13, 6), sharey=True, layout="constrained")
    scale = colors.TwoSlopeNorm(vmin=math.log2(0.5), vcenter=0, vmax=math.log2(16))
    markers = {"lstm": "o", "gru": "s", "rnn": "^"}
    for panel, kind in zip(panels, PASSES):
        for cell, marker in markers.items():
            some = [r for r in report["results"] if r["pass"] == kind and r["shape"]["cell"] == cell]
            if not some:
                continue
            n, B = ([r["shape"][letter] for r in some] for letter in "nB")
            ratios = [math.log2(best(r)) for r in some]
            dots = panel.scatter(
                n, B, c=ratios, marker=marker, s=330, cmap="RdYlGn", norm=scale, edgecolors="grey", label=cell.upper()
            )
            for x, y, ratio in zip(n, B, ratios):
                panel.annotate(f"{2**ratio:.2g}", (x, y), ha="center", va="center", fontsize=7)
        panel.set(xscale="log", yscale="log", xlabel="units n", title={"infer": "forward", "train": "training"}[kind])
        for axis, ticks in ((panel.xaxis, (16, 64, 256, 1024)), (panel.yaxis, (1, 4, 16, 64))):
            axis.set_major_locator(pyplot.FixedLocator(ticks))
            axis.set_major_formatter("{x:.0f}")
            axis.set_minor_locator(pyplot.NullLocator())
    panels[0].set_ylabel("sequences B")
    panels[0].legend(loc="upper left", markerscale=0.5)
    bar = figure.colorbar(dots, ax=panels, label="fastest peer's time / drnn's", ticks=[-1, 0, 1, 2, 3, 4])
    bar.ax.set_yticklabels(["0.5", "1", "2", "4", "8", "16"])
    figure.savefig(path, metadata={"Date": None})
