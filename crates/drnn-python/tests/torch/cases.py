"""Random modules and data, and torch.nn's results in float64."""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import drnn.torch

OURS = {"LSTM": drnn.torch.LSTM, "GRU": drnn.torch.GRU, "RNN": drnn.torch.RNN}
THEIRS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}


class Case:
    """A module of torch's in float64, ours with the same parameters, and an input."""

    def __init__(self, seed, delays=False):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        self.kind = rng.choice(list(OURS))
        self.q, self.n = rng.randint(1, 9), rng.randint(2, 20)
        options = dict(
            num_layers=rng.randint(1, 3),
            bias=rng.random() < 0.7,
            batch_first=rng.random() < 0.5,
            bidirectional=not delays and rng.random() < 0.4,
        )
        if self.kind == "RNN":
            options["nonlinearity"] = rng.choice(["tanh", "relu"])
        if self.kind == "LSTM" and rng.random() < 0.4:
            options["proj_size"] = rng.randint(1, self.n - 1)
        self.options = options
        self.delay = rng.randint(1, 4) if delays else 0
        self.look_ahead = delays and rng.random() < 0.5
        self.theirs = THEIRS[self.kind](self.q, self.n, **options).double()
        delay = dict(delay=self.delay, padding="look-ahead" if self.look_ahead else "null")
        self.ours = OURS[self.kind](self.q, self.n, **options, **delay)
        self.ours.load_state_dict(self.theirs.state_dict())
        # torch's in float64 with the very same numbers
        self.theirs.load_state_dict(self.ours.state_dict())

        ahead = self.delay if self.look_ahead else 0
        self.steps, self.rows = rng.randint(1, 12) + ahead, rng.randint(1, 9)
        self.form = rng.choice(["padded", "padded", "unbatched", "packed", "packed unsorted"])
        if self.form == "unbatched":
            self.rows = 1
        lengths = [rng.randint(1 + ahead, self.steps) for _ in range(self.rows)]
        lengths[rng.randrange(self.rows)] = self.steps
        self.sorted = self.form == "packed"
        self.lengths = sorted(lengths, reverse=True) if self.sorted else lengths
        shape = [self.steps, self.rows, self.q]
        if self.form == "unbatched":
            shape = [self.steps, self.q]
        elif options["batch_first"]:
            shape = [self.rows, self.steps, self.q]
        self.x = torch.randn(shape)
        self.needs_x = rng.random() < 0.7
        self.hx = None
        if rng.random() < 0.6:
            directions = 2 if options["bidirectional"] else 1
            count = options["num_layers"] * directions
            widths = [options.get("proj_size") or self.n] + [self.n] * (self.kind == "LSTM")
            batch = [] if self.form == "unbatched" else [self.rows]
            self.hx = [torch.randn(count, *batch, width) for width in widths]

    def __str__(self):
        return f"{self.ours}, {self.form}, T {self.steps}, B {self.rows}"

    def run(self, module, dtype, seed, device="cpu"):
        """Everything that a module computes: outputs, states and all gradients, by name."""
        x = self.x.to(device, dtype).requires_grad_(self.needs_x)
        hx = self.hx
        if hx is not None:
            hx = [h.to(device, dtype).requires_grad_() for h in hx]
        given = hx if hx is None else (tuple(hx) if self.kind == "LSTM" else hx[0])
        first = self.options["batch_first"]
        if not self.form.startswith("packed"):
            if module is self.theirs:
                output, last = self.shifted(x, None, given)
            else:
                output, last = module(x, given)
        else:
            packed = pack_padded_sequence(x, self.lengths, first, enforce_sorted=self.sorted)
            if module is self.theirs:
                output, last = self.shifted(packed, self.lengths, given)
            else:
                output, last = module(packed, given)
                assert isinstance(output, PackedSequence)
            output, lengths = pad_packed_sequence(output, first)
            ahead = self.delay if self.look_ahead else 0
            assert lengths.tolist() == [length - ahead for length in self.lengths]
        last = list(last) if self.kind == "LSTM" else [last]
        generator = torch.Generator().manual_seed(seed)
        results = [output, *last]
        upstream = [torch.randn(r.shape, generator=generator).to(r) for r in results]
        loss = sum((r * u).sum() for r, u in zip(results, upstream))
        names, inputs = zip(*module.named_parameters())
        names += ("x",) * self.needs_x + tuple(f"h0[{i}]" for i in range(len(hx or [])))
        inputs += ((x,) if self.needs_x else ()) + tuple(hx or [])
        gradients = torch.autograd.grad(loss, inputs)
        found = {f"gradient of {name}": g for name, g in zip(names, gradients)}
        found.update({f"result {i}": r.detach() for i, r in enumerate(results)})
        return found

    def shifted(self, input, lengths, hx):
        """torch.nn's module with a delay by hand: zeros after the end, the first d outputs cut."""
        module, first = self.theirs, self.options["batch_first"]
        if not self.delay:
            return module(input, hx)
        time = 1 if first and self.form != "unbatched" else 0
        if lengths is None:
            if not self.look_ahead:
                shape = list(input.shape)
                shape[time] = self.delay
                input = torch.cat([input, input.new_zeros(shape)], time)
            output, last = module(input, hx)
            return output.narrow(time, self.delay, output.size(time) - self.delay), last
        x, lengths = pad_packed_sequence(input, first)
        if not self.look_ahead:
            shape = list(x.shape)
            shape[time] = self.delay
            x, lengths = torch.cat([x, x.new_zeros(shape)], time), lengths + self.delay
        output, last = module(pack_padded_sequence(x, lengths, first, enforce_sorted=False), hx)
        output, _ = pad_packed_sequence(output, first)
        output = output.narrow(time, self.delay, output.size(time) - self.delay)
        return pack_padded_sequence(output, lengths - self.delay, first, enforce_sorted=False), last


def difference(found, expected):
    """The largest, relative to the largest value of the tensor."""
    found, expected = found.detach(), expected.detach()
    if expected.numel() == 0:
        return 0.0
    scale = max(float(expected.abs().max()), 1e-2)
    return float((found.double() - expected.double()).abs().max()) / scale
