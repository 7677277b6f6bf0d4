"""Checks whole trainings against PyTorch.

    cargo build --release -p drnn-train --example training_curve
    python tools/check_training.py target/release/examples/training_curve        (torch, numpy, safetensors)

The example trains LSTM, GRU, d-LSTM and Bi-LSTM on values and on classes and writes down everything. Here PyTorch does
the same from the same initial weights, data and orders: torch.nn, its losses, clip_grad_norm_, Adam, CosineAnnealingLR.

Rounding grows from step to step, so the first epochs must agree closely and the rest is measured: PyTorch trains twice,
in single and in double precision, and drnn may be as far from the double one as PyTorch's own single precision is, a few
times over. In the end losses differ by 2e-5 at most, norms, which are small then, by 4e-4; weights are
3e-6 from double precision, PyTorch's 5e-6.

Exit code 1 if in the first epochs any loss or norm differs by more than 1e-5 of it or after the first a weight by more
than 1e-4; if a last weight is further off than that and 10 times PyTorch's; or if clipping was never or always at work.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

FIRST_EPOCHS = 3
CURVE_TOLERANCE = 1e-5
WEIGHT_TOLERANCE = 1e-4
DRIFT = 10
IGNORE = -100


class Net(torch.nn.Module):
    """Embedding (of tokens), recurrence with a delay, output layer."""

    def __init__(self, training, weights):
        super().__init__()
        self.delay, units = training["delay"], training["units"]
        directions = 2 if training["bidirectional"] else 1
        self.embedding = None
        if "embedding.weight" in weights:
            self.embedding = torch.nn.Embedding(*weights["embedding.weight"].shape)
        kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[training["cell"]]
        inputs = weights["weight_ih_l0"].shape[1]
        self.recurrence = kind(inputs, units, bidirectional=directions == 2)
        self.output = torch.nn.Linear(units * directions, weights["output.weight"].shape[0])
        own = {name if "." in name else f"recurrence.{name}": value for name, value in weights.items()}
        self.load_state_dict(own, strict=True)

    def forward(self, x):
        x = x if self.embedding is None else self.embedding(x)
        x = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, self.delay))  # after the end, (T, B, q)
        return self.output(self.recurrence(x)[0][self.delay :])

    def weights(self):
        return {name.removeprefix("recurrence."): value for name, value in self.state_dict().items()}


def data_of(part, steps, outputs, dtype):
    """Inputs and targets, (N, T, ..)."""
    y = np.array(part["y"], dtype=float)  # NaN does not count
    if isinstance(part["x"][0], int):
        x = torch.tensor(part["x"]).view(-1, steps)
        return x, torch.tensor(np.nan_to_num(y, nan=IGNORE)).long().view(-1, steps)
    x = torch.tensor(np.array(part["x"], dtype=np.float32)).to(dtype)
    y = torch.tensor(y.astype(np.float32)).to(dtype)
    return x.view(len(y) // steps // outputs, steps, -1), y.view(-1, steps, outputs)


def loss_of(net, x, y):
    """The mean loss, and how many positions or values counted."""
    outputs = net(x.transpose(0, 1)).transpose(0, 1)
    if y.dtype == torch.long:
        loss = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), y.flatten(), ignore_index=IGNORE)
        return loss, (y != IGNORE).sum().item()
    counted = ~torch.isnan(y)
    return torch.nn.functional.mse_loss(outputs[counted], y[counted]), counted.sum().item()


def train(folder, training, dtype):
    """The curve, how many steps were clipped of how many, weights after the first epoch and in the end."""
    weights = load_file(folder / "initial.safetensors")
    net = Net(training, weights).to(dtype)
    options = training["options"]
    plain = lambda value: float(f"{value:.6g}")  # options are single precision
    adam = torch.optim.Adam(
        net.parameters(), plain(options["rate"]), (plain(options["adam"]["beta1"]), plain(options["adam"]["beta2"])),
        plain(options["adam"]["eps"]),
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, options["epochs"])
    outputs, count = weights["output.weight"].shape[0], len(training["orders"][0])
    steps = len(training["train"]["x"]) // count
    if "embedding.weight" not in weights:
        steps //= weights["weight_ih_l0"].shape[1]
    x, y = data_of(training["train"], steps, outputs, dtype)
    valid = data_of(training["valid"], steps, outputs, dtype)
    curve, clipped, all_steps, first = [], 0, 0, None
    for order in training["orders"]:
        total, counted, norms = 0.0, 0, []
        for chosen in torch.tensor(order).split(options["batch"]):
            adam.zero_grad()
            loss, positions = loss_of(net, x[chosen], y[chosen])
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), options["clip"]).item())
            adam.step()
            total, counted = total + loss.item() * positions, counted + positions
        clipped, all_steps = clipped + sum(norm > options["clip"] for norm in norms), all_steps + len(norms)
        with torch.no_grad():
            curve.append((total / counted, loss_of(net, *valid)[0].item(), np.mean(norms)))
        schedule.step()
        if first is None:
            first = {name: value.clone() for name, value in net.weights().items()}
    return np.array(curve), (clipped, all_steps), first, net.weights()


def apart(a, b):
    """The largest difference of a weight."""
    return max((a[name].double() - b[name].double()).abs().max().item() for name in a)


def check(folder):
    """Whether drnn's training in this folder equals PyTorch's; prints the differences."""
    training = json.loads((folder / "training.json").read_text())
    ours = np.array([[e["train_loss"], e["valid_loss"], e["norm"]] for e in training["curve"]])
    first, last = (load_file(folder / f"{name}.safetensors") for name in ("first", "last"))
    single = train(folder, training, torch.float32)
    double = train(folder, training, torch.float64)
    curve = np.abs(ours / single[0] - 1)
    early, losses, norms = curve[:FIRST_EPOCHS].max(), curve[:, :2].max(), curve[:, 2].max()
    first_apart = apart(first, single[2])
    drift, its_drift = apart(last, double[3]), apart(single[3], double[3])
    clipped, steps = single[1]
    good = early <= CURVE_TOLERANCE and first_apart <= WEIGHT_TOLERANCE
    good = good and drift <= max(WEIGHT_TOLERANCE, DRIFT * its_drift) and 0 < clipped < steps
    print(
        f"{folder.name:15} curve {early:.0e} in {FIRST_EPOCHS} epochs; in {len(curve)} losses {losses:.0e}, norms {norms:.0e}   "
        f"weights {first_apart:.0e} after one   from double precision in the end: drnn {drift:.0e}, "
        f"PyTorch {its_drift:.0e}   clipped {clipped} of {steps}   loss {ours[0, 0]:.3f} to {ours[-1, 0]:.3f}"
        f"{'' if good else '   NOT THE SAME'}"
    )
    return good


def main():
    torch.set_num_threads(1)  # more threads do not help such small networks
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        return int(not all([check(training) for training in sorted(Path(folder).iterdir())]))


if __name__ == "__main__":
    sys.exit(main())
