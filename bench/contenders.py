"""What is measured: the cases (shapes, unit of work, goal) and the peers that run them.

A contender has a name and `measure(seconds)`, which returns the time of one unit of work in seconds: the
median of repeats that together last at least `seconds`. Where a peer can be called in several ways (plain
or with bound buffers, one thread or all) every way is a variant, and the fastest one is raced.
"""

import json
import os
import statistics
import subprocess
import time
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

MIN_REPEATS = 3
TOLERANCE = 1e-4
FACTS = ("version", "isa", "peak_gflops", "gflops", "share_of_peak")


@dataclass(frozen=True)
class Case:
    """One row of the table. `layers` of `n` LSTM units read `q` floats, or tokens embedded in `q` dimensions if `vocab`."""

    name: str
    B: int
    q: int
    n: int
    T: int = 1
    layers: int = 1
    out: int = 0  # width of the output layer, 0: none
    vocab: int = 0
    skip: int = 0  # the output layer reads only the steps after these
    lanes: int = 1  # independent models per unit of work
    lengths: tuple = ()  # of each row; empty: all T
    block: int = 1  # units timed together, so that a clock reading does not weigh on microseconds
    goals: dict = field(default_factory=dict)  # peer -> peer's time / our time to reach

    @property
    def kind(self):
        return self.name.split("-")[0]  # train, infer, stream, streams64


def ragged_lengths():
    """32 lengths spread evenly from 3 to 60, shuffled."""
    lengths = np.linspace(3, 60, 32).round().astype(int)
    return tuple(int(n) for n in np.random.default_rng(0).permutation(lengths))


N100 = dict(B=100, T=50, q=1, n=100, out=1)
N512 = dict(B=128, T=188, q=10, n=512, out=27, vocab=28, skip=8)
STACK = dict(B=1, T=200, q=10, n=128, out=10, layers=5)
CASES = [
    Case("train-n100", **N100, goals={"torch": 1.5}),
    Case("train-n100-lanes8", **N100, lanes=8, goals={"torch": 1.8}),
    Case("fit-n100-lanes8", **N100, lanes=8, goals={"torch": 1.5}),
    Case("train-n512-tokens", **N512, goals={"torch": 1.05}),
    Case("fit-n128-masked", **(N512 | dict(n=128)), goals={"torch": 0.95}),
    Case("train-n300-ragged", B=32, T=60, q=264, n=300, out=17, lengths=ragged_lengths(), goals={"torch": 1.5}),
    Case("infer-n100", **N100, goals={"ort": 1.2}),
    Case("infer-n512", **N512, goals={"ort": 1.1}),
    Case("infer-5x128", **STACK, goals={"layer by layer": 1.5}),
    Case("train-5x128", **STACK),
    Case("stream-n256", B=1, q=10, n=256, block=2000, goals={"torch": 3.5, "ort": 2.0}),
    Case("streams64-n256", B=64, q=10, n=256, block=200, goals={"ort": 1.3, "torch 64x1": 15.0}),
]


class InProcess:
    """A peer called from this process: `variants` maps a label to a function that does one unit of work."""

    def __init__(self, name, variants, block=1):
        self.name, self.variants, self.block = name, variants, block
        self.variant = next(iter(variants))
        self.min_repeats = MIN_REPEATS

    def warm_up(self, seconds):
        """Run every variant twice (the first run allocates and tunes) and select the fastest."""
        times = {}
        for label in self.variants:
            self.variant = label
            self.measure(seconds / 2)
            times[label] = self.measure(seconds / 2)
        self.variant = min(times, key=times.get)

    def measure(self, seconds):
        unit, times, spent = self.variants[self.variant], [], 0.0
        while spent < seconds or len(times) < self.min_repeats:
            start = time.perf_counter()
            for _ in range(self.block):
                unit()
            elapsed = time.perf_counter() - start
            spent += elapsed
            times.append(elapsed / self.block)
        return statistics.median(times)


def call_json(command):
    """Run a program that prints one JSON object. The time it needs to start is not in what it reports."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{os.path.basename(command[0])} exited with {done.returncode}: {' '.join(command[1:])}")
    return json.loads(done.stdout)


class Ours:
    """`drnn bench` in a subprocess: one round of at least `seconds`, whose time is the median of its repeats."""

    def __init__(self, program, case, threads, name="ours", suffix=""):
        self.name, self.program, self.case, self.threads = name, program, case.name + suffix, threads
        self.variant, self.facts = f"{threads} threads", {}

    def run(self, seconds, *options):
        command = [self.program, "bench", "--case", self.case, "--rounds", "1", "--seconds", str(seconds)]
        reply = call_json(command + ["--threads", str(self.threads), "--json", *options])
        result = reply.pop("cases")[0]
        for facts in (reply, result):
            self.facts.update({k: facts[k] for k in FACTS if facts.get(k) is not None})
        return result["median_s"]

    def warm_up(self, seconds):
        self.run(seconds)  # the machine's limit too, which the rounds leave out

    def measure(self, seconds):
        return self.run(seconds, "--no-peak")


class RustPeer:
    """tract or candle through the `rust-peers` program, which checks its output against torch's before timing."""

    def __init__(self, name, program, case, threads, files):
        self.name, self.program, self.case, self.files = name, program, case, files
        self.options = {f"{n} threads": n for n in sorted({1, threads})}
        self.variant, self.version = f"{threads} threads", None

    def warm_up(self, seconds):
        times = {}
        for self.variant in self.options:
            times[self.variant] = self.measure(seconds)
        self.variant = min(times, key=times.get)

    def measure(self, seconds):
        command = [self.program, self.name, *self.files, "--seconds", str(seconds), "--block", str(self.case.block)]
        reply = call_json(command + ["--threads", str(self.options[self.variant])])
        self.version = reply["version"]
        return statistics.median(reply["seconds"])


class Net(nn.Module):
    """[embedding ->] LSTM [-> linear], time-major, the peer of every case that reads whole sequences."""

    def __init__(self, case):
        super().__init__()
        self.case = case
        self.embedding = nn.Embedding(case.vocab, case.q) if case.vocab else None
        self.lstm = nn.LSTM(case.q, case.n, case.layers)
        self.linear = nn.Linear(case.n, case.out) if case.out else None

    def forward(self, x, lengths=None):
        if self.embedding:
            x = self.embedding(x)
        if lengths is not None:
            x = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        h, _ = self.lstm(x)
        if lengths is not None:
            h, _ = nn.utils.rnn.pad_packed_sequence(h)
        return self.linear(h[self.case.skip :]) if self.linear else h


def make_input(case):
    if case.vocab:
        return torch.randint(case.vocab, (case.T, case.B))
    return torch.randn(case.T, case.B, case.q)


def torch_training(case):
    """Forward and backward from a given output gradient; padding has gradient zero."""
    models = [(Net(case), make_input(case)) for _ in range(case.lanes)]
    dy = torch.randn(case.T - case.skip, case.B, case.out)
    lengths = torch.tensor(case.lengths) if case.lengths else None
    if case.lengths:
        dy *= (torch.arange(case.T)[:, None] < lengths).unsqueeze(2)

    def unit(lengths):
        for net, x in models:
            net.zero_grad(set_to_none=True)
            net(x, lengths).backward(dy)

    peers = [InProcess("torch", {"packed" if case.lengths else "plain": lambda: unit(lengths)})]
    if case.lengths:  # twice the steps, but on the fast path: a careful user would try it
        peers.append(InProcess("torch padded", {"plain": lambda: unit(None)}))
    return peers


def torch_fit(case):
    """The loop that users write: batch, loss, backward, clipping, Adam; the models one after another."""
    batches = 10
    x = torch.randn(case.T, batches * case.B, case.q)
    y = torch.randn(case.T, batches * case.B, case.out)
    models = [Net(case) for _ in range(case.lanes)]
    optimisers = [torch.optim.Adam(net.parameters(), lr=1e-3) for net in models]
    order = iter(())

    def unit():
        nonlocal order
        rows = next(order, None)
        if rows is None:
            order = iter(torch.randperm(x.shape[1]).split(case.B))
            rows = next(order)
        for net, optimiser in zip(models, optimisers):
            optimiser.zero_grad(set_to_none=True)
            nn.functional.mse_loss(net(x[:, rows]), y[:, rows]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()

    return [InProcess("torch", {"plain": unit})]


def torch_masked(case):
    """The same loop for masked characters: a fifth is masked, and only those go through the output layer."""
    batches, window, mask = 10, case.T - case.skip, case.out
    text = torch.randint(case.out, (case.T, batches * case.B))
    net = Net(case)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    order = iter(())

    def unit():
        nonlocal order
        rows = next(order, None)
        if rows is None:
            order = iter(torch.randperm(text.shape[1]).split(case.B))
            rows = next(order)
        truth = text[:, rows]
        hidden = torch.rand(truth.shape) < 0.2
        optimiser.zero_grad(set_to_none=True)
        h, _ = net.lstm(net.embedding(truth.masked_fill(hidden, mask)))
        masked = hidden[:window]
        logits = net.linear(h[case.skip :][masked])
        nn.functional.cross_entropy(logits, truth[:window][masked]).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()

    return [InProcess("torch", {"plain": unit})]


def torch_inference(case, net, x):
    def unit():
        with torch.inference_mode():
            return net(x)

    return InProcess("torch", {"plain": unit})


def torch_stream(name, case, net, x, streams, threads):
    """`streams` LSTMCell calls of B/streams rows each, the state carried over from call to call."""
    cell = nn.LSTMCell(case.q, case.n).eval()
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in net.lstm.state_dict().items()})
    rows = case.B // streams
    inputs = [part.contiguous() for part in x[0].split(rows)]
    state = [(torch.zeros(rows, case.n), torch.zeros(rows, case.n)) for _ in inputs]

    def unit(n_threads):
        if torch.get_num_threads() != n_threads:
            torch.set_num_threads(n_threads)
        with torch.inference_mode():
            for i, part in enumerate(inputs):
                state[i] = cell(part, state[i])

    variants = {f"{n} threads": lambda n=n: unit(n) for n in sorted({1, threads})}
    return InProcess(name, variants, max(1, case.block // streams))


def onnx_order(w):
    """PyTorch's gates i,f,g,o along the first axis in ONNX's order i,o,f,c (its c is PyTorch's g)."""
    i, f, g, o = np.split(w.detach().numpy(), 4)
    return np.concatenate([i, o, f, g])


def write_onnx(path, case, net):
    """The same network as ONNX operators; a streaming case gets one step with its state as input and output."""
    lstm, weights, nodes = net.lstm, {}, []
    for layer in range(case.layers):
        part = {k: onnx_order(getattr(lstm, f"{k}_l{layer}")) for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        weights[f"W{layer}"], weights[f"R{layer}"] = part["weight_ih"][None], part["weight_hh"][None]
        weights[f"B{layer}"] = np.concatenate([part["bias_ih"], part["bias_hh"]])[None]
    stream = case.kind.startswith("stream")
    x_type, x_shape = TensorProto.FLOAT, [case.T, case.B, case.q]
    lstm_input = "x"
    if case.vocab:
        weights["E"], lstm_input = net.embedding.weight.detach().numpy(), "embedded"
        nodes.append(helper.make_node("Gather", ["E", "x"], [lstm_input]))
        x_type, x_shape = TensorProto.INT64, [case.T, case.B]
    inputs = [helper.make_tensor_value_info("x", x_type, x_shape)]
    if stream:
        state = [1, case.B, case.n]
        inputs += [helper.make_tensor_value_info(s, TensorProto.FLOAT, state) for s in ("h", "c")]
        outputs = [helper.make_tensor_value_info(s, TensorProto.FLOAT, state) for s in ("h_next", "c_next")]
        names = [lstm_input, "W0", "R0", "B0", "", "h", "c"], ["", "h_next", "c_next"]
        nodes.append(helper.make_node("LSTM", *names, hidden_size=case.n))
    else:
        weights["direction"] = np.array([1])
        for layer in range(case.layers):
            names = [lstm_input, f"W{layer}", f"R{layer}", f"B{layer}"]
            nodes.append(helper.make_node("LSTM", names, [f"Y{layer}"], hidden_size=case.n))
            rows = lstm_input = f"Y{layer}"
            if layer + 1 < case.layers:  # [T, 1, B, n] to [T, B, n]
                lstm_input = f"X{layer + 1}"
                nodes.append(helper.make_node("Squeeze", [rows, "direction"], [lstm_input]))
        if case.skip:
            weights["from"], weights["to"] = np.array([case.skip]), np.array([case.T])
            weights["axis"], rows = np.array([0]), "kept"
            nodes.append(helper.make_node("Slice", [f"Y{case.layers - 1}", "from", "to", "axis"], [rows]))
        # Flat rows and one Gemm: faster for the peer than MatMul and Add on three axes.
        weights["flat"] = np.array([-1, case.n])
        weights["V"], weights["b"] = net.linear.weight.detach().numpy(), net.linear.bias.detach().numpy()
        nodes.append(helper.make_node("Reshape", [rows, "flat"], ["rows"]))
        nodes.append(helper.make_node("Gemm", ["rows", "V", "b"], ["y"], transB=1))
        shape = [(case.T - case.skip) * case.B, case.out]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    initializers = [numpy_helper.from_array(np.ascontiguousarray(w), k) for k, w in weights.items()]
    graph = helper.make_graph(nodes, case.name, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def ort_session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def bind(session, inputs, outputs):
    """A call on fixed buffers. On the CPU an OrtValue only borrows its array: the default argument keeps them alive."""
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value)
    return lambda keep=(inputs, outputs): session.run_with_iobinding(binding)


def ort_inference(case, path, x, expected, threads):
    session = ort_session(path, threads)
    feed = {"x": x.numpy()}
    check("onnxruntime", case, session.run(None, feed)[0], expected)
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    y = value(np.zeros(expected.shape, np.float32))
    bound = bind(session, {"x": value(feed["x"])}, {"y": y})
    bound()
    check("onnxruntime (bound)", case, y.numpy(), expected)
    return InProcess("ort", {"plain": lambda: session.run(None, feed), "bound": bound})


def ort_stream(case, path, x, expected, threads):
    """One step of the graph per unit, either through numpy or between two bound sets of state buffers."""
    variants = {}
    for n in sorted({1, threads}):
        session = ort_session(path, n)
        zeros = [np.zeros((1, case.B, case.n), np.float32) for _ in range(4)]
        state, feed_x = zeros[:2], x.numpy()
        check("onnxruntime", case, session.run(None, {"x": feed_x, "h": state[0], "c": state[1]})[0], expected)

        def plain(session=session, state=state):
            state[:] = session.run(None, {"x": feed_x, "h": state[0], "c": state[1]})

        value = onnxruntime.OrtValue.ortvalue_from_numpy
        a_h, a_c, b_h, b_c = (value(z) for z in zeros)
        there = bind(session, {"x": value(feed_x), "h": a_h, "c": a_c}, {"h_next": b_h, "c_next": b_c})
        back = bind(session, {"x": value(feed_x), "h": b_h, "c": b_c}, {"h_next": a_h, "c_next": a_c})
        there()
        check("onnxruntime (bound)", case, b_h.numpy(), expected)
        turn = [back, there]

        def bound(turn=turn):
            turn[0]()
            turn.reverse()

        variants |= {f"plain, {n} threads": plain, f"bound, {n} threads": bound}
    return InProcess("ort", variants, case.block)


def check(peer, case, output, expected):
    """A peer that computes something else must not be measured."""
    error = float(np.abs(output.reshape(-1) - expected.reshape(-1)).max())
    assert error < TOLERANCE, f"{peer} differs from torch by {error} in {case.name}"


def make_contenders(case, options, folder):
    """All contenders of a case, drnn first."""
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    ours = [] if options.peers_only else [Ours(options.drnn, case, options.threads)]
    if ours and case.layers > 1:
        ours.append(Ours(options.drnn, case, options.threads, "layer by layer", "-layers"))
    if case.kind == "train":
        return ours + torch_training(case)
    if case.kind == "fit":
        return ours + (torch_masked(case) if case.vocab else torch_fit(case))
    net, x = Net(case).eval(), make_input(case)
    with torch.inference_mode():
        expected = net(x).numpy()
    expected = expected.reshape(-1, expected.shape[-1])
    model, data = (os.path.join(folder, f"{case.name}.{ext}") for ext in ("onnx", "npz"))
    write_onnx(model, case, net)
    if case.kind == "infer":
        peers = [torch_inference(case, net, x), ort_inference(case, model, x, expected, options.threads)]
    else:
        peers = [torch_stream("torch", case, net, x, 1, options.threads)]
        if case.B > 1:
            peers.append(torch_stream(f"torch {case.B}x1", case, net, x, case.B, options.threads))
        peers.append(ort_stream(case, model, x, expected, options.threads))
    if options.rust_peers and case.layers == 1:
        np.savez(data, x=x.numpy(), expected=expected, **{k: v.numpy() for k, v in net.state_dict().items()})
        for name in ("tract", "candle"):
            peers.append(RustPeer(name, options.rust_peers, case, options.threads, [model, data]))
    return ours + peers
