"""The task and the model that the examples in this folder share.

A series of noise is smoothed: the target at step t is the mean of the five values from t - 2 to
t + 2. A network must therefore see two steps of the future, by a second direction or by a delay.
"""

import torch
from torch import nn
from torch.utils.data import TensorDataset

AHEAD = 2


def make_data(sequences=512, steps=60, seed=1):
    """Inputs and targets, [sequences, steps, 1] each."""
    x = torch.randn(sequences, steps, 1, generator=torch.Generator().manual_seed(seed))
    window = torch.full((1, 1, 2 * AHEAD + 1), 1 / (2 * AHEAD + 1))
    y = nn.functional.conv1d(x.transpose(1, 2), window, padding=AHEAD).transpose(1, 2)
    return TensorDataset(x, 2 * y)  # about the variance of the input


class Smoother(nn.Module):
    """A recurrent network (batch_first) and a linear layer on each of its outputs."""

    def __init__(self, recurrent):
        super().__init__()
        self.recurrent = recurrent
        directions = 2 if recurrent.bidirectional else 1
        self.linear = nn.Linear(directions * recurrent.hidden_size, 1)

    def forward(self, x):
        output, _ = self.recurrent(x)
        return self.linear(output)
