"""The same networks by torch's own operators, for what drnn's kernels do not compute."""

from __future__ import annotations

import threading
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from drnn._drnn import Recurrence

from ._config import Config, Inputs, flat

_OPERATORS = {
    "LSTM": torch.lstm,
    "GRU": torch.gru,
    "RNN_TANH": torch.rnn_tanh,
    "RNN_RELU": torch.rnn_relu,
}


def reference(
    config: Config,
    x: Tensor,
    weights: list[Tensor],
    has_biases: bool,
    h0: Tensor,
    c0: Tensor | None,
    batch_sizes: Tensor | None,
    dropout: float,
    train: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Outputs, h_n and c_n of x (T, B, q), or (N, q) where `batch_sizes` says it is packed."""
    if config.connections:
        return _flattened(config, x, weights, has_biases, h0, c0, batch_sizes)
    hx = h0 if c0 is None else (h0, c0)
    operator = _OPERATORS[config.mode]
    how = (has_biases, config.num_layers, dropout, train, config.bidirectional)
    delay = config.delay
    if batch_sizes is None:
        if delay and not config.look_ahead:
            x = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, delay))
        if delay >= x.size(0):
            raise RuntimeError(
                f"{x.size(0)} elements, expected more than {delay}: the last are only looked at"
            )
        output, *last = operator(x, hx, weights, *how, False)
        return output[delay:], last[0], last[1] if c0 is not None else None
    lengths = None
    if delay:
        padded, lengths = pad_packed_sequence(PackedSequence(x, batch_sizes))
        if config.look_ahead and int(lengths.min()) <= delay:
            raise RuntimeError(
                f"every sequence needs more than {delay} elements: the last {delay} are only "
                "looked at"
            )
        if not config.look_ahead:
            padded = torch.nn.functional.pad(padded, (0, 0, 0, 0, 0, delay))
            lengths = lengths + delay
        x, batch_sizes = pack_padded_sequence(padded, lengths)[:2]
    output, *last = operator(x, batch_sizes, hx, weights, *how)
    if lengths is not None:
        padded, _ = pad_packed_sequence(PackedSequence(output, batch_sizes))
        output = pack_padded_sequence(padded[delay:], lengths - delay).data
    return output, last[0], last[1] if c0 is not None else None


@lru_cache(maxsize=16)
def _free(config: Config) -> dict[str, Tensor]:
    """By name, which weights are not zero because of the connections between blocks."""
    mask = torch.from_numpy(Recurrence(*config).free_mask())
    return dict(zip(config.names(True), config.split(mask)))


def _flattened(config: Config, x, weights, has_biases, h0, c0, batch_sizes):
    """A flattened stack, step by step: block i begins i steps late and ends as late."""
    free = _free(config)
    weights = [w * free[name].to(w) for name, w in zip(config.names(has_biases), weights)]
    lengths = torch.full([h0.size(1)], x.size(0), device=x.device)
    if batch_sizes is not None:
        x, lengths = pad_packed_sequence(PackedSequence(x, batch_sizes))
    blocks, rows, n = h0.shape
    runs = lengths.to(x.device) + (config.delay - config.lag - config.ahead)
    if int(lengths.min()) <= config.ahead:
        raise RuntimeError(
            f"every sequence needs more than {config.ahead} elements: the last {config.ahead} are "
            "only looked at"
        )
    states = [None if s is None else s.transpose(0, 1).reshape(rows, -1) for s in (h0, c0)]
    begin = torch.arange(blocks, device=x.device)
    outputs = []
    for t in range(int(runs.max()) + config.lag):
        x_t = x[t] if t < x.size(0) else torch.zeros_like(x[0])
        active = (begin <= t) & (t < runs.unsqueeze(1) + begin)
        active = active.repeat_interleave(n, dim=1)
        new = _cell(config, x_t, weights, has_biases, *states)
        states = [None if s is None else torch.where(active, a, s) for a, s in zip(new, states)]
        if t >= config.delay:
            outputs.append(states[0][:, -n:])
    h, c = (None if s is None else s.view(rows, blocks, n).transpose(0, 1) for s in states)
    output = torch.stack(outputs)
    if batch_sizes is not None:
        output = pack_padded_sequence(output, lengths.cpu() - config.ahead).data
    return output, h, c


def _cell(config: Config, x, weights, has_biases, h, c):
    """h and c (of an LSTM) after a step. `weight_hu` of a flattened GRU is last."""
    biases = weights[2:4] if has_biases else (None, None)
    from_x = torch.nn.functional.linear(x, weights[0], biases[0]).chunk(config.gates, dim=1)
    from_h = torch.nn.functional.linear(h, weights[1], biases[1]).chunk(config.gates, dim=1)
    if config.mode == "LSTM":
        i, f, g, o = (a + b for a, b in zip(from_x, from_h))
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    if config.mode == "GRU":
        r, z = (torch.sigmoid(a + b) for a, b in zip(from_x[:2], from_h[:2]))
        candidate = torch.tanh(from_x[2] + h @ weights[-1].t() + r * from_h[2])
        return (1 - z) * candidate + z * h, None
    activation = torch.tanh if config.mode == "RNN_TANH" else torch.relu
    return activation(from_x[0] + from_h[0]), None


def reference_outputs(config: Config, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor | None]:
    """A forward pass by torch's operator, which computes with NaN and infinity too."""
    if inputs.lanes:
        lanes = range(inputs.lanes[0])
        found = [reference_outputs(config, inputs.lane(lane)) for lane in lanes]
        return tuple(None if each[0] is None else torch.stack(each) for each in zip(*found))
    x, weights, h0, c0, batch_sizes, seed, dropout = inputs
    given = config, x, weights, True, h0, c0, batch_sizes, dropout, dropout > 0
    if seed is None:
        return reference(*given)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seed))
        return reference(*given)


def reference_gradients(config: Config, inputs: Inputs, upstream: tuple[Tensor, ...]):
    """Gradients of x, of the weights as one vector, of h_0 and of c_0 (None without), from those of
    outputs, h_n and c_n. In a thread of its own, because autograd is switched off for the thread
    that computes an operator."""
    found, failed = [], []

    def work():
        try:
            variables = [t.detach().clone().requires_grad_() for t in inputs.differentiable()]
            results = reference_outputs(config, inputs.with_differentiable(variables))
            pairs = [(r, d) for r, d in zip(results, upstream) if r is not None]
            results, gradients = zip(*pairs)
            found.extend(torch.autograd.grad(results, variables, gradients))
        except Exception as error:  # raised again below
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    d = inputs.with_differentiable([gradient.contiguous() for gradient in found])
    return d.x, flat(inputs.lanes, d.weights), d.h0, d.c0


def reference_second_gradients(
    config: Config, inputs: Inputs, upstream: tuple[Tensor, ...], needs_x: bool, gradients
) -> tuple[list[Tensor | None], Inputs]:
    """Gradients of `upstream` (of outputs, h_n and c_n) and of `inputs`, from `gradients`, those of
    what a backward pass returns: the gradients of x, of the weights as one vector, of h_0 and c_0."""
    if torch.is_grad_enabled():
        raise RuntimeError("drnn.torch has no third derivatives; use torch.nn's module instead")
    if inputs.dropout > 0:
        raise RuntimeError(
            "drnn.torch has no second derivatives with dropout; use torch.nn's module instead"
        )
    count = 2 if inputs.c0 is None else 3
    with torch.enable_grad():
        variables = [t.detach().requires_grad_() for t in inputs.differentiable()]
        upstream = [t.detach().requires_grad_() for t in upstream[:count]]
        inputs = inputs.with_differentiable(variables)
        results = reference_outputs(config, inputs)[:count]
        found = torch.autograd.grad(results, variables, upstream, create_graph=True)
        first = inputs.with_differentiable(list(found))
        first = [first.x, flat(inputs.lanes, first.weights), first.h0, first.c0][: count + 1]
    skip = 0 if needs_x else 1
    wanted = gradients[skip : count + 1]
    found = torch.autograd.grad(first[skip:], upstream + variables, wanted, allow_unused=True)
    d_upstream = [*found[:count], *[None] * (3 - count)]
    return d_upstream, inputs.with_differentiable(list(found[count:]))
