#!/usr/bin/env python3
"""Makes PyTorch's results, which drnn must reproduce, in crates/drnn/tests/golden:

    python tools/golden.py                 torch.json: nn.RNN, nn.LSTM, nn.GRU
    python tools/golden.py --variants      variants.json: the GRU with its reset gate before the product,
                                           written in PyTorch below, and nn.LSTM(proj_size=..)

Needs PyTorch; the committed files say which one made them.

One case is a network, a batch of unsorted sequences (B rows of different lengths), an upstream
gradient, and PyTorch's gradients, in float64, of

    L = sum(d_outputs * outputs) + sum(d_hn * hn) + sum(d_cn * cn)

Arrays are flat, row by row; their shapes follow from `spec` and `lengths`:

    lengths           [B]               outputs of each row; T is the largest
    inputs            [T, B, q]         dense input ([T + d, B, q] for look-ahead), else empty
    tokens            [T, B]            token input ([T + d, B] for look-ahead), else empty
    outputs           [T, B, m]         zero after a row's length, like d_outputs
    h0, c0, hn, cn    [layers * directions, B, n]    c0 and cn empty for cells without c; h0 and hn of
                                        a projected LSTM have its projection's width
    params            by name           d_x is the gradient of L with respect to x

Everything drnn is given is a multiple of 1/256, so float32 holds it exactly and the text is short;
results are rounded to 10 digits. The values after the end of a row must not matter.
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LENGTHS = [3, 5, 1, 4]  # unsorted; one row shorter than the delays below
Q, N, M = 3, 5, 2  # width of dense input, units, outputs
P = 3  # width of projected states
V, E = 7, 3  # symbols, width of their embedding


class GruResetBefore(nn.Module):
    """nn.GRU, but n = tanh(W_in x + b_in + W_hn (r h) + b_hn)."""

    def __init__(self, q, n, layers, bidirectional=False):
        super().__init__()
        self.layers, self.suffixes = layers, ["", "_reverse"][: 1 + bidirectional]
        for layer in range(layers):
            width = q if layer == 0 else n * len(self.suffixes)
            for suffix in self.suffixes:
                shapes = dict(weight_ih=(3 * n, width), weight_hh=(3 * n, n), bias_ih=(3 * n,), bias_hh=(3 * n,))
                for name, shape in shapes.items():
                    self.register_parameter(f"{name}_l{layer}{suffix}", nn.Parameter(torch.zeros(shape)))

    def step(self, name, x, h):
        w_ih, w_hh, b_ih, b_hh = (getattr(self, f"{p}_{name}") for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        n = h.shape[1]
        r, z = torch.sigmoid((x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)[:, : 2 * n]).chunk(2, 1)
        new = torch.tanh((x @ w_ih.T + b_ih)[:, 2 * n :] + (r * h) @ w_hh[2 * n :].T + b_hh[2 * n :])
        return (1 - z) * new + z * h

    def forward(self, packed, h0):
        x, lengths = pad_packed_sequence(packed)
        last = []
        for layer in range(self.layers):
            ways = []
            for way, suffix in enumerate(self.suffixes):
                h, states = h0[len(last)], [None] * len(x)
                for t in range(len(x)) if way == 0 else reversed(range(len(x))):
                    runs = (t < lengths)[:, None]
                    h = torch.where(runs, self.step(f"l{layer}{suffix}", x[t], h), h)
                    states[t] = h
                ways.append(torch.stack(states))
                last.append(h)
            x = torch.cat(ways, 2)
        return pack_padded_sequence(x, lengths, enforce_sorted=False), torch.stack(last)


MODULES = {
    "rnn-tanh": lambda *a, **k: nn.RNN(*a, nonlinearity="tanh", **k),
    "rnn-relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
    "lstm": nn.LSTM,
    "gru": nn.GRU,
}
VARIANTS = {"gru-reset-before": GruResetBefore}
DENSE = {"dense": Q}
TOKENS = {"tokens": {"symbols": V, "embedding": E}}


def spec(cell, layers=1, bidirectional=False, input=DENSE, delay=0, padding="null", outputs=M,
         projection=None):
    """A network, spelled as drnn's NetSpec reads it."""
    direction = "bidirectional" if bidirectional else "forward"
    spec = dict(cell=cell, input=input, units=[N] * layers, direction=direction, delay=delay,
                padding=padding, outputs=outputs)
    return spec | ({"projection": projection} if projection else {})


def specs():
    for cell in MODULES:
        for layers in 1, 2:
            for both in False, True:
                yield spec(cell, layers, both)
    for cell, layers, both in ("lstm", 1, False), ("gru", 1, True), ("rnn-tanh", 2, False):
        yield spec(cell, layers, both, outputs=None)
    for layers, both in (1, False), (2, True):
        yield spec("lstm", layers, both, TOKENS)
    for cell in MODULES:
        yield spec(cell, delay=2)
    yield spec("lstm", 2, delay=2)
    yield spec("lstm", delay=2, outputs=None)
    yield spec("lstm", delay=2, padding="look-ahead")
    yield spec("gru", 2, delay=2, padding="look-ahead")
    for padding in "null", {"symbol": V - 1}, "look-ahead":
        yield spec("lstm", input=TOKENS, delay=2, padding=padding)
    yield spec("gru", 2, input=TOKENS, delay=2, padding={"symbol": 0})


def variants():
    for of in dict(cell="gru-reset-before"), dict(cell="lstm", projection=P):
        for layers in 1, 2:
            for both in False, True:
                yield spec(layers=layers, bidirectional=both, **of)
        yield spec(outputs=None, bidirectional=True, **of)
        yield spec(input=TOKENS, delay=2, padding={"symbol": V - 1}, **of)
        yield spec(layers=2, delay=2, padding="look-ahead", **of)


def values(*shape, bound=0.75):
    """Multiples of 1/256 within the bound, none of them zero."""
    k = torch.randint(1, int(256 * bound) + 1, shape)
    sign = 2 * torch.randint(0, 2, shape) - 1
    return (k * sign).double() / 256


def run(spec, rnn, embedding, linear, x, h0, c0):
    """outputs, hn, cn of a batch: the meaning of NetSpec in PyTorch."""
    d, padding = spec["delay"], spec["padding"]
    lengths = torch.tensor(LENGTHS)
    T = max(LENGTHS)
    if padding != "look-ahead":  # d more elements, and padding after the end of each row
        x = torch.cat([x, torch.zeros(d, *x.shape[1:], dtype=x.dtype)])
        real = torch.arange(T + d)[:, None] < lengths  # [T + d, B]
        if padding != "null":
            x = torch.where(real, x, padding["symbol"])
        if embedding:
            x = embedding(x)
        if padding == "null":
            x = x * real[:, :, None]
    elif embedding:
        x = embedding(x)
    packed = pack_padded_sequence(x, lengths + d, enforce_sorted=False)
    state = h0 if c0 is None else (h0, c0)
    y, state = rnn(packed, state)
    y, _ = pad_packed_sequence(y, total_length=T + d)
    if linear:
        y = linear(y)
    counted = torch.arange(T)[:, None] < lengths  # [T, B]
    hn, cn = (state, None) if c0 is None else state
    return y[d:] * counted[:, :, None], hn, cn


def case(spec, seed):
    torch.manual_seed(seed)
    T, B = max(LENGTHS), len(LENGTHS)
    layers, both = len(spec["units"]), spec["direction"] == "bidirectional"
    projection = spec.get("projection")
    hidden = (projection or N) * (1 + both)
    width = E if "tokens" in spec["input"] else Q
    module = (MODULES | VARIANTS)[spec["cell"]]
    options = {"proj_size": projection} if projection else {}
    rnn = module(width, N, layers, bidirectional=both, **options)
    embedding = nn.Embedding(V, E) if "tokens" in spec["input"] else None
    linear = nn.Linear(hidden, spec["outputs"]) if spec["outputs"] else None

    params = dict(rnn.named_parameters())
    if embedding:
        params["embedding.weight"] = embedding.weight
    if linear:
        params |= {"output.weight": linear.weight, "output.bias": linear.bias}
    for p in params.values():
        p.data = values(*p.shape)

    elements = T + spec["delay"] * (spec["padding"] == "look-ahead")
    x = torch.randint(0, V, (elements, B)) if embedding else values(elements, B, Q).requires_grad_()
    state = lambda n=N: values(layers * (1 + both), B, n)
    lstm = spec["cell"] == "lstm"
    h0 = state(projection or N).requires_grad_()
    c0 = state().requires_grad_() if lstm else None
    outputs, hn, cn = run(spec, rnn, embedding, linear, x, h0, c0)

    live = torch.arange(T)[:, None, None] < torch.tensor(LENGTHS)[:, None]
    d_outputs = values(*outputs.shape) * live
    d_hn, d_cn = state(projection or N), state() if lstm else None
    loss = (d_outputs * outputs).sum() + (d_hn * hn).sum()
    if lstm:
        loss = loss + (d_cn * cn).sum()
    loss.backward()

    return {
        "name": name(spec),
        "spec": spec,
        "lengths": LENGTHS,
        "params": {k: flat(p) for k, p in params.items()},
        "inputs": [] if embedding else flat(x),
        "tokens": x.flatten().tolist() if embedding else [],
        "h0": flat(h0),
        "c0": flat(c0),
        "d_outputs": flat(d_outputs),
        "d_hn": flat(d_hn),
        "d_cn": flat(d_cn),
        "outputs": flat(outputs),
        "hn": flat(hn),
        "cn": flat(cn),
        "d_params": {k: flat(p.grad) for k, p in params.items()},
        "d_inputs": [] if embedding else flat(x.grad),
        "d_h0": flat(h0.grad),
        "d_c0": flat(c0.grad if lstm else None),
    }


def name(spec):
    kind, padding = next(iter(spec["input"])), spec["padding"]
    words = [spec["cell"], f"{len(spec['units'])} x {N}", spec["direction"], kind]
    if spec["delay"]:
        pad = padding if isinstance(padding, str) else f"symbol {padding['symbol']}"
        words.append(f"delay {spec['delay']} {pad}")
    if "projection" in spec:
        words.append(f"projection {spec['projection']}")
    if not spec["outputs"]:
        words.append("no output layer")
    return ", ".join(words)


def flat(tensor):
    if tensor is None:
        return []
    rounded = (float(f"{v:.10g}") for v in tensor.detach().flatten().tolist())
    return [int(v) if v.is_integer() else v for v in rounded]


def main():
    options = sys.argv[1:]
    if options not in ([], ["--variants"]):
        sys.exit(__doc__)
    folder = Path(__file__).resolve().parent.parent / "crates/drnn/tests/golden"
    file = folder / ("variants.json" if options else "torch.json")
    torch.set_num_threads(1)
    compact = lambda value: json.dumps(value, separators=(",", ":"))
    cases = [compact(case(s, seed)) for seed, s in enumerate(variants() if options else specs())]
    command = " ".join(["python tools/golden.py", *options])
    header = f'"made_by":"{command}","torch":{compact(torch.__version__)}'
    file.write_text("{" + header + ',"cases":[\n' + ",\n".join(cases) + "\n]}\n")
    print(f"{len(cases)} cases, {file.stat().st_size / 1000:.0f} kB -> {file}")


if __name__ == "__main__":
    main()
