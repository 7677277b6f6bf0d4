"""The operators ``drnn::cuda_forward`` and ``drnn::cuda_backward``, which ``torch.compile`` and
exports record. x is of 16 bits; parameters, states and gradients of both are float32. What a forward
pass saves is returned as a ticket.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._config import Config
from ._cuda_passes import (
    NO_SECOND_DERIVATIVES,
    addresses_of,
    backward_pass,
    biases_in,
    call_of,
    forward_pass,
    plan_of,
    shapes_of,
    sizes_of,
)
from ._cuda_tickets import no_ticket, saved_by, ticket_of


_F32 = torch.float32


def _check_types(*tensors: Tensor | None) -> None:
    for tensor in tensors:
        if tensor is not None and tensor.dtype != _F32:
            raise RuntimeError(
                f"Expected parameters and states of torch.float32, got {tensor.dtype}"
            )


def _forward(x, weights, h0, c0, batch_sizes, text, save):
    _check_types(*weights, h0, c0)
    call = call_of(Config.decode(text), x.dtype, x, batch_sizes)
    y, h, c, saved = forward_pass(call, x, weights, h0, c0, save)
    c = h.new_empty(0) if c is None else c
    return y, h, c, no_ticket(x) if saved is None else ticket_of(saved)


def _forward_fake(x, weights, h0, c0, batch_sizes, text, save):
    size = Config.decode(text).output_shape(x, batch_sizes, h0.size(-2))
    c = h0.new_empty(0) if c0 is None else c0.new_empty(c0.shape)
    return x.new_empty(size), h0.new_empty(h0.shape), c, no_ticket(x)


def _forward_save(ctx, inputs, output):
    x, weights, h0, c0, batch_sizes, ctx.text, _ = inputs
    ctx.save_for_backward(x, h0, c0, batch_sizes, output[3], *weights)


def _forward_differentiate(ctx, d_outputs, d_h, d_c, _):
    x, h0, c0, batch_sizes, ticket, *weights = ctx.saved_tensors
    needs_x, needs_weights, needs_h0, needs_c0 = ctx.needs_input_grad[:4]
    given = x, weights, h0, c0, batch_sizes, ticket, ctx.text, needs_x
    d_x, d_params, d_h0, d_c0 = backward(d_outputs, d_h, d_c, *given)
    config = Config.decode(ctx.text)
    biases = biases_in(config, weights)
    parts = d_params.split(list(sizes_of(config, biases)))
    split = [part.view(shape) for part, shape in zip(parts, shapes_of(config, biases))]
    d_weights = [d if needs else None for needs, d in zip(needs_weights, split)]
    d_c0 = d_c0 if c0 is not None and needs_c0 else None
    return d_x if needs_x else None, d_weights, d_h0 if needs_h0 else None, d_c0, None, None, None


def _backward(d_outputs, d_h, d_c, x, weights, h0, c0, batch_sizes, ticket, text, needs_x):
    _check_types(*weights, h0, c0, d_h, d_c)
    config = Config.decode(text)
    call = call_of(config, x.dtype, x, batch_sizes)
    saved = saved_by(ticket, plan_of(call, x, True).saved_bytes)
    if saved is None:
        *_, saved = forward_pass(call, x, weights, h0, c0, True)
    sizes = sizes_of(config, biases_in(config, weights))
    d_params = h0.new_empty(sum(sizes))
    into = addresses_of(d_params, sizes)
    d_h0 = h0.new_empty(h0.shape)
    d_c0 = None if c0 is None else h0.new_empty(h0.shape)
    upstream = d_outputs, d_h, None if c0 is None else d_c
    d_x = backward_pass(call, x, weights, saved, upstream, (d_h0, d_c0), needs_x, into)
    empty = x.new_empty(0) if d_x is None else d_x
    return empty, d_params, d_h0, h0.new_empty(0) if d_c0 is None else d_c0


def _backward_fake(d_outputs, d_h, d_c, x, weights, h0, c0, batch_sizes, ticket, text, needs_x):
    config = Config.decode(text)
    d_params = h0.new_empty(sum(sizes_of(config, biases_in(config, weights))))
    d_c0 = h0.new_empty(0) if c0 is None else c0.new_empty(c0.shape)
    return x.new_empty(x.shape if needs_x else 0), d_params, h0.new_empty(h0.shape), d_c0


def _backward_save(ctx, inputs, output):
    pass


def _backward_differentiate(ctx, *_):
    raise RuntimeError(NO_SECOND_DERIVATIVES)


LIBRARY = torch.library.Library("drnn", "FRAGMENT")
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
LIBRARY.define(
    "cuda_forward(Tensor x, Tensor[] weights, Tensor h0, Tensor? c0, Tensor? batch_sizes, "
    "str shape, bool save) -> (Tensor, Tensor, Tensor, Tensor)",
    tags=_TAGS,
)
LIBRARY.define(
    "cuda_backward(Tensor d_outputs, Tensor d_h, Tensor d_c, Tensor x, Tensor[] weights, "
    "Tensor h0, Tensor? c0, Tensor? batch_sizes, Tensor ticket, str shape, bool needs_x) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    tags=_TAGS,
)
PASSES = {"cuda_forward": _forward, "cuda_backward": _backward}
for _name, _pass in PASSES.items():
    LIBRARY.impl(_name, _pass, "CUDA")
torch.library.register_fake("drnn::cuda_forward", _forward_fake, lib=LIBRARY)
torch.library.register_fake("drnn::cuda_backward", _backward_fake, lib=LIBRARY)
torch.library.register_autograd(
    "drnn::cuda_forward", _forward_differentiate, setup_context=_forward_save, lib=LIBRARY
)
torch.library.register_autograd(
    "drnn::cuda_backward", _backward_differentiate, setup_context=_backward_save, lib=LIBRARY
)

forward = torch.ops.drnn.cuda_forward
backward = torch.ops.drnn.cuda_backward


def run(config: Config, dtype: torch.dtype, x, weights, h0, c0, batch_sizes):
    """Outputs, h_n and c_n (None if there is none) of any tensors, by the operators."""
    count = config.num_layers * config.directions
    rows = x.size(1) if batch_sizes is None else int(batch_sizes[0])
    size = count, rows, config.hidden_size
    tensors = [x, *weights, *(state for state in (h0, c0) if state is not None)]
    save = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    zeros = [
        torch.zeros(size, dtype=_F32, device=x.device) for _ in range(1 + config.has_cell_state)
    ]
    h0 = zeros[0] if h0 is None else h0.float()
    if config.has_cell_state:
        c0 = zeros[1] if c0 is None else c0.float()
    weights = [weight.float() for weight in weights]
    y, h, c, _ = forward(x.to(dtype), weights, h0, c0, batch_sizes, config.encode(), save)
    return y, h.to(dtype), c.to(dtype) if config.has_cell_state else None
