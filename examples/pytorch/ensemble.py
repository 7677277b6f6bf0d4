"""Trains many small LSTMs at once, each with its own seed and learning rate.

    python examples/pytorch/ensemble.py

The same networks are also trained one after another by torch.nn, with the same initial parameters
and batches, to compare losses and time.
"""

import argparse
import time

import torch
from smoothing import Smoother, make_data
from torch import nn

import drnn.torch

MOMENTUM = 0.9
MAX_NORM = 1.0


def networks(count, units):
    found = []
    for seed in range(count):
        torch.manual_seed(seed)
        found.append(Smoother(nn.LSTM(1, units, bidirectional=True, batch_first=True)))
    return found


def train_together(models, rates, batches):
    """The loss of every network in the last step."""
    ensemble = drnn.torch.Ensemble(models)
    # SGD is linear in the gradient: scaling it by a network's rate is a learning rate of its own.
    optimizer = torch.optim.SGD(ensemble.parameters(), lr=1.0, momentum=MOMENTUM)
    for x, y in batches:
        optimizer.zero_grad()
        errors = (ensemble(x) - y).square().flatten(1).mean(1)
        errors.sum().backward()
        ensemble.clip_grad_norm_(MAX_NORM)
        for parameter in ensemble.parameters():
            parameter.grad.mul_(rates.view(-1, *[1] * (parameter.dim() - 1)))
        optimizer.step()
    return errors.detach()


def train_one_by_one(models, rates, batches):
    last = []
    for model, rate in zip(models, rates.tolist()):
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
        for x, y in batches:
            optimizer.zero_grad()
            error = nn.functional.mse_loss(model(x), y)
            error.backward()
            nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
            optimizer.step()
        last.append(error.detach())
    return torch.stack(last)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", type=int, default=16)
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # such networks are too small for more

    x, y = make_data(sequences=1024).tensors
    order = torch.Generator().manual_seed(3)
    chosen = torch.randint(len(x), (arguments.steps, arguments.batch), generator=order)
    batches = [(x[rows], y[rows]) for rows in chosen]
    rates = torch.logspace(-2, -0.5, arguments.networks)
    models = networks(arguments.networks, arguments.units)
    for train in (train_together, train_one_by_one):  # the first call loads what it needs
        train(networks(arguments.networks, arguments.units), rates, batches[:2])

    begin = time.process_time()
    together = train_together(models, rates, batches)  # the ensemble trains copies
    middle = time.process_time()
    alone = train_one_by_one(models, rates, batches)
    end = time.process_time()

    for number, (rate, loss, other) in enumerate(zip(rates, together, alone)):
        print(f"network {number:2}, rate {rate:.3f}: loss {loss:.4f}, torch.nn {other:.4f}")
    seconds = f"{middle - begin:.2f} s of CPU time together, {end - middle:.2f} s one by one"
    print(f"{seconds}: {(end - middle) / (middle - begin):.1f} times as fast")


if __name__ == "__main__":
    main()
