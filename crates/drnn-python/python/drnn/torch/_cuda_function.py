"""Recurrences on a GPU as functions that autograd differentiates.

What a forward pass saves is a tensor like any other, which autograd keeps. A backward pass
overwrites it, so a second one repeats the forward pass.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from . import _cuda, _cuda_ops
from ._config import Config, Inputs
from ._cuda_passes import NO_SECOND_DERIVATIVES, Call, backward_pass, call_of, forward_pass
from ._function import is_recorded, is_transformed, recurrence


class CudaRecurrenceFunction(torch.autograd.Function):
    """Arguments: a `Call`, h_0 and c_0 or None for zeros, x and the weights."""

    @staticmethod
    def forward(ctx, call: Call, h0, c0, x, *weights):
        y, h_n, c_n, saved = forward_pass(call, x, weights, h0, c0, True)
        ctx.call, ctx.has_gone_back = call, False
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(h0, c0, saved, x, *weights)
        return y, h_n.to(call.dtype), None if c_n is None else c_n.to(call.dtype)

    @staticmethod
    def backward(ctx, *upstream):
        if torch.is_grad_enabled():
            return _Once.apply(lambda: _gradients(ctx, upstream), *ctx.saved_tensors, *upstream)
        return _gradients(ctx, upstream)


class _Once(torch.autograd.Function):
    """The gradients that `work` returns, which depend on `tensors` and are not differentiated again:
    trying to is an error, also where only weights and input need gradients."""

    @staticmethod
    def forward(ctx, work, *tensors):
        return work()

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(NO_SECOND_DERIVATIVES)


def _gradients(ctx, upstream):
    """Of all arguments of a `CudaRecurrenceFunction`."""
    h0, c0, saved, x, *weights = ctx.saved_tensors
    call = ctx.call
    if ctx.has_gone_back:
        *_, saved = forward_pass(call, x, weights, h0, c0, True)
    ctx.has_gone_back = True
    _, needs_h0, needs_c0, needs_x, *needs_weights = ctx.needs_input_grad

    def gradient(of: Tensor) -> Tensor:
        return torch.empty(of.shape, dtype=torch.float32, device=x.device)

    d_h0, d_c0 = gradient(h0) if needs_h0 else None, gradient(c0) if needs_c0 else None
    d_weights = [gradient(weight) for weight in weights]
    into = [d.data_ptr() for d in d_weights]
    given = call, x, weights, saved, upstream, (d_h0, d_c0)
    d_x = backward_pass(*given, needs_x, into)
    d_weights = _as_weights(d_weights, weights)
    d_weights = (d if needs else None for needs, d in zip(needs_weights, d_weights))
    d_x, d_h0, d_c0 = _of_types((d_x, d_h0, d_c0), (x, h0, c0))
    return None, d_h0, d_c0, d_x, *d_weights


def _as_weights(gradients: list[Tensor], weights) -> list[Tensor]:
    """In the types of the weights, converted together."""
    if all(weight.dtype == torch.float32 for weight in weights):
        return gradients
    converted = [torch.empty(w.shape, dtype=w.dtype, device=w.device) for w in weights]
    torch._foreach_copy_(converted, gradients)
    return converted


def _of_types(gradients, tensors) -> list[Tensor | None]:
    pairs = zip(gradients, tensors)
    return [None if d is None else d.to(tensor.dtype) for d, tensor in pairs]


def _stack(config: Config, dtype: torch.dtype, x, weights, h0, c0, batch_sizes):
    """All layers at once, without dropout."""
    given = [tensor for tensor in (x, h0, c0, *weights) if tensor is not None]
    if is_recorded(given):
        return _cuda_ops.run(config, dtype, x, weights, h0, c0, batch_sizes)
    if is_transformed():
        return _transformed(config, dtype, x, weights, h0, c0, batch_sizes)
    call = call_of(config, dtype, x, batch_sizes)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
        return CudaRecurrenceFunction.apply(call, h0, c0, x, *weights)
    y, h_n, c_n, _ = forward_pass(call, x, weights, h0, c0, False)
    return y, h_n.to(dtype), None if c_n is None else c_n.to(dtype)


def _transformed(config: Config, dtype: torch.dtype, x, weights, h0, c0, batch_sizes):
    """The same where ``torch.func`` maps it or differentiates it. There are start states and biases."""
    weights = [weight.float() for weight in weights]
    h0, c0 = h0.float(), None if c0 is None else c0.float()
    inputs = Inputs(x.to(dtype), weights, h0, c0, batch_sizes, None, 0.0)
    y, h, c = recurrence(config, inputs, True)
    return y, h.to(dtype), None if c0 is None else c.to(dtype)


def _layer_by_layer(config: Config, dtype, x, weights, h0, c0, batch_sizes, dropout: float):
    """The same with dropout between layers, and without a delay."""
    k, each = config.directions, len(weights) // config.num_layers
    last = []
    for layer in range(config.num_layers):
        own = config._replace(input_size=x.size(-1), num_layers=1)
        states = (None if s is None else s[layer * k : (layer + 1) * k] for s in (h0, c0))
        of_layer = weights[layer * each : (layer + 1) * each]
        x, *states = _stack(own, dtype, x, of_layer, *states, batch_sizes)
        last.append(states)
        if layer + 1 < config.num_layers:
            x = torch.nn.functional.dropout(x, dropout)
    h, c = zip(*last)
    return x, torch.cat(h), torch.cat(c) if config.has_cell_state else None


def _with_null_steps(config: Config, x, batch_sizes):
    """The elements that an undelayed network reads: zeros after the end of each sequence."""
    delay = config.delay
    if config.look_ahead:
        return x, batch_sizes
    if batch_sizes is None:
        return torch.nn.functional.pad(x, (0, 0, 0, 0, 0, delay)), None
    x, lengths = pad_packed_sequence(PackedSequence(x, batch_sizes))
    x = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, delay))
    return pack_padded_sequence(x, lengths + delay)[:2]


def _check_look_ahead(config: Config, x, batch_sizes) -> None:
    if not config.look_ahead:
        return
    delay, shortest = config.delay, x.size(0)
    if batch_sizes is not None:
        shortest = int((batch_sizes == batch_sizes[0]).sum())
    if shortest <= delay:
        raise RuntimeError(
            f"every sequence needs more than {delay} elements: the last {delay} are only looked at"
        )


def run(config: Config, x, weights, h0, c0, batch_sizes, dtype: torch.dtype, dropout: float):
    """Outputs, h_n and c_n (None if there is none), all of `dtype`. h_0 and c_0 may be None.
    Parameters and states are computed as float32."""
    delay, layered = config.delay, dropout > 0
    if delay and (batch_sizes is None or layered):
        _check_look_ahead(config, x, batch_sizes)
        x, batch_sizes = _with_null_steps(config, x, batch_sizes)
        config = _cuda.undelayed(config)
    given = config, dtype, x, weights, h0, c0, batch_sizes
    y, h, c = _layer_by_layer(*given, dropout) if layered else _stack(*given)
    if delay and batch_sizes is None:
        y = y[delay:]
    elif delay and layered:
        y = y[int(batch_sizes[:delay].sum()) :]
    return y, h, c
