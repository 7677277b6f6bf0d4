"""Checks flattened stacks against PyTorch.

    cargo build --release
    python tools/check_flatten.py target/release/drnn        (torch, numpy, safetensors)

Two ways, for nn.RNN, nn.LSTM and nn.GRU of 1 to 6 layers, from random states:

run     `drnn flatten`, then `drnn run` on the flattened file: outputs and last states equal those of PyTorch's stack.
torch   The flattened LSTM (RNN) goes into one nn.LSTM(hidden_size=k*n) with load_state_dict(strict=True) and starts from
        the solved state that `drnn flatten --start solved --states` wrote, where there is one: its last n outputs
        are those of the stack, k-1 steps later.

Exit code 1 if any difference is above 1e-5.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

TOLERANCE = 1e-5
Q, N, T, B = 7, 24, 60, 3


def drnn(*arguments):
    """Runs the program; returns its stderr if it fails."""
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


def network(kind, k):
    if kind == "relu":
        return torch.nn.RNN(Q, N, k, nonlinearity="relu")
    return {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](Q, N, k)


def states_of(kind, stack, real):
    """Random states, or states that the network has been in."""
    if real:
        return stack(torch.randn(20, B, Q))[1]
    h = torch.rand(stack.num_layers, B, N) * 2 - 1
    return (h, torch.rand(stack.num_layers, B, N) * 2 - 1) if kind == "lstm" else h


def save_states(folder, states):
    states = states if isinstance(states, tuple) else (states,)
    names = ["h0", "c0"][: len(states)]
    for name, value in zip(names, states):
        np.save(folder / f"{name}.npy", value.detach().numpy())
    return [part for name in names for part in (f"--{name}", folder / f"{name}.npy")]


def by_run(folder, kind, k):
    stack = network(kind, k)
    save_file(stack.state_dict(), folder / "stack.safetensors")
    relu = ["--nonlinearity", "relu"] if kind == "relu" else []
    error = drnn("flatten", folder / "stack.safetensors", "-o", folder / "flat.safetensors", *relu)
    assert error is None, error
    x = torch.randn(T, B, Q)
    start = states_of(kind, stack, real=False)
    np.save(folder / "x.npy", x.numpy())
    error = drnn(
        "run", folder / "flat.safetensors", folder / "x.npy", "-o", folder / "y.npy",
        "--states", folder, *save_states(folder, start),
    )
    assert error is None, error
    y, last = stack(x, start)
    last = last if isinstance(last, tuple) else (last,)
    found = [np.load(folder / f"{name}.npy") for name in ["y", "h", "c"][: 1 + len(last)]]
    return max(np.abs(a - b.detach().numpy()).max() for a, b in zip(found, (y, *last)))


def by_torch(folder, kind, k):
    """The largest difference, or why there is no solved start."""
    stack = network(kind, k)
    save_file(stack.state_dict(), folder / "stack.safetensors")
    start = states_of(kind, stack, real=True)
    error = drnn(
        "flatten", folder / "stack.safetensors", "-o", folder / "flat.safetensors",
        "--start", "solved", "--states", folder / "solved", *save_states(folder, start),
    )
    if error is not None:
        return error
    flat = torch.nn.LSTM(Q, k * N) if kind == "lstm" else torch.nn.RNN(Q, k * N)
    flat.load_state_dict(load_file(folder / "flat.safetensors"), strict=True)
    solved = [torch.tensor(np.load(folder / "solved" / f"{name}.npy")) for name in ("h0", "c0") if kind == "lstm" or name == "h0"]
    x = torch.randn(T, B, Q)
    late = flat(torch.cat([x, torch.zeros(k - 1, B, Q)]), tuple(solved) if kind == "lstm" else solved[0])[0]
    return np.abs((late[k - 1 :, :, -N:] - stack(x, start)[0]).detach().numpy()).max()


def main():
    torch.manual_seed(1)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "solved").mkdir()
        for kind in ["rnn", "relu", "lstm", "gru"]:
            for k in range(1, 7):
                difference = by_run(folder, kind, k)
                worst = max(worst, difference)
                line = f"{kind:5} k={k}   drnn run on the flattened file {difference:.1e}"
                if kind in ("rnn", "lstm"):
                    found = by_torch(folder, kind, k)
                    if isinstance(found, str):
                        line += f"   PyTorch's one layer: {found.removeprefix('error: ')}"
                    else:
                        worst = max(worst, found)
                        line += f"   PyTorch's one layer {found:.1e}"
                print(line)
    print(f"largest difference {worst:.1e}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
