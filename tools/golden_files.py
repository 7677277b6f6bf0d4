#!/usr/bin/env python3
"""Makes crates/drnn/tests/golden/*.safetensors: state dicts as PyTorch saves them, for drnn to import.

    python tools/golden_files.py          needs torch and safetensors

Each file holds a network's state dict under the prefix `net.`, and a batch `x` [T, B, q] with
PyTorch's outputs `y` [T, B, n * directions] from zero states, computed in float64 and rounded to float32.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

FOLDER = Path(__file__).resolve().parent.parent / "crates/drnn/tests/golden"
CASES = {
    "lstm_2x5_both_ways": (nn.LSTM, dict(num_layers=2, bidirectional=True), torch.float32),
    "gru_no_bias": (nn.GRU, dict(bias=False), torch.float32),
    "rnn_relu": (nn.RNN, dict(nonlinearity="relu"), torch.float64),
    "lstm_f16": (nn.LSTM, dict(), torch.float16),
    "gru_bf16": (nn.GRU, dict(num_layers=2), torch.bfloat16),
}


def main():
    torch.manual_seed(1)
    for name, (kind, options, dtype) in CASES.items():
        net = kind(3, 5, **options).to(dtype)
        x = torch.randn(4, 2, 3)
        exact = kind(3, 5, **options).double()
        exact.load_state_dict(net.state_dict())
        with torch.no_grad():
            y = exact(x.double())[0].float()
        tensors = {f"net.{k}": v.contiguous() for k, v in net.state_dict().items()}
        save_file({**tensors, "x": x, "y": y.contiguous()}, FOLDER / f"{name}.safetensors")


if __name__ == "__main__":
    main()
