"""The operators ``drnn::rnn_forward`` and ``drnn::rnn_backward``, which ``torch.compile`` and exports
record. Both take the fields of `Inputs`, and a `Config` as text."""

from __future__ import annotations

import torch

from . import _vmap
from ._config import Config, Inputs
from ._passes import backward_pass, forward_pass, shape_of
from ._reference import reference_second_gradients


def _forward(x, weights, h0, c0, batch_sizes, seed, text, dropout, save):
    inputs = Inputs(x, weights, h0, c0, batch_sizes, seed, dropout)
    return forward_pass(shape_of(Config.decode(text)), inputs, save)


def _forward_fake(x, weights, h0, c0, batch_sizes, seed, text, dropout, save):
    lanes = Inputs(x, weights, h0, c0, batch_sizes, seed, dropout).lanes
    size = Config.decode(text).output_shape(x, batch_sizes, h0.size(-2))
    c = x.new_empty(0) if c0 is None else c0.new_empty(c0.shape)
    ticket = x.new_empty(1, dtype=torch.uint8)
    return x.new_empty(lanes + size), h0.new_empty(h0.shape), c, ticket


def _forward_save(ctx, inputs, output):
    x, weights, h0, c0, batch_sizes, seed, ctx.text, ctx.dropout, _ = inputs
    ctx.save_for_backward(x, h0, c0, batch_sizes, seed, output[3], *weights)


def _forward_differentiate(ctx, d_outputs, d_h, d_c, _):
    x, h0, c0, batch_sizes, seed, ticket, *weights = ctx.saved_tensors
    needs_x, needs_weights, needs_h0, needs_c0 = ctx.needs_input_grad[:4]
    given = x, weights, h0, c0, batch_sizes, seed, ticket, ctx.text, ctx.dropout, needs_x
    d_x, d_params, d_h0, d_c0 = backward(d_outputs, d_h, d_c, *given)
    split = Config.decode(ctx.text).split(d_params)
    d_weights = [d if needs else None for needs, d in zip(needs_weights, split)]
    d_c0 = d_c0 if c0 is not None and needs_c0 else None
    rest = None, None, None, None, None
    return d_x if needs_x else None, d_weights, d_h0 if needs_h0 else None, d_c0, *rest


def _forward_vmap(info, in_dims, x, weights, h0, c0, batch_sizes, seed, text, dropout, save):
    inputs = Inputs(x, weights, h0, c0, batch_sizes, seed, dropout)

    def run(lanes):
        return forward(*lanes[:6], text, dropout, save)

    return _vmap.forward(info.batch_size, Inputs(*in_dims[:6], None), inputs, run)


def _backward(
    d_outputs, d_h, d_c, x, weights, h0, c0, batch_sizes, seed, ticket, text, dropout, needs_x
):
    inputs = Inputs(x, weights, h0, c0, batch_sizes, seed, dropout)
    upstream = d_outputs, d_h, d_c
    return backward_pass(shape_of(Config.decode(text)), inputs, ticket, upstream, needs_x)


def _backward_fake(
    d_outputs, d_h, d_c, x, weights, h0, c0, batch_sizes, seed, ticket, text, dropout, needs_x
):
    lanes = Inputs(x, weights, h0, c0, batch_sizes, seed, dropout).lanes
    d_params = x.new_empty(*lanes, Config.decode(text).parameters())
    d_x = x.new_empty(x.shape if needs_x else 0)
    d_c0 = x.new_empty(0) if c0 is None else c0.new_empty(c0.shape)
    return d_x, d_params, h0.new_empty(h0.shape), d_c0


def _backward_save(ctx, inputs, output):
    d_outputs, d_h, d_c, x, weights, h0, c0, batch_sizes, _, _, *rest = inputs
    ctx.text, ctx.dropout, ctx.needs_x = rest
    ctx.save_for_backward(d_outputs, d_h, d_c, x, h0, c0, batch_sizes, *weights)


def _backward_differentiate(ctx, *gradients):
    d_outputs, d_h, d_c, x, h0, c0, batch_sizes, *weights = ctx.saved_tensors
    inputs = Inputs(x, weights, h0, c0, batch_sizes, None, ctx.dropout)
    given = Config.decode(ctx.text), inputs, (d_outputs, d_h, d_c), ctx.needs_x, gradients
    upstream, d = reference_second_gradients(*given)
    return *upstream, d.x, d.weights, d.h0, d.c0, None, None, None, None, None, None


def _backward_vmap(
    info, in_dims, d_outputs, d_h, d_c, x, weights, h0, c0, batch_sizes, seed, ticket, *rest
):
    text, dropout, needs_x = rest
    inputs = Inputs(x, weights, h0, c0, batch_sizes, seed, dropout)

    def run(upstream, lanes, ticket):
        return backward(*upstream, *lanes[:6], ticket, text, dropout, needs_x)

    upstream, dims = list(zip((d_outputs, d_h, d_c), in_dims[:3])), Inputs(*in_dims[3:9], None)
    return _vmap.backward(info.batch_size, dims, inputs, upstream, ticket, needs_x, run)


_LIBRARY = torch.library.Library("drnn", "FRAGMENT")
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
_LIBRARY.define(
    "rnn_forward(Tensor x, Tensor[] weights, Tensor h0, Tensor? c0, Tensor? batch_sizes, "
    "Tensor? seed, str shape, float dropout, bool save) -> (Tensor, Tensor, Tensor, Tensor)",
    tags=_TAGS,
)
_LIBRARY.define(
    "rnn_backward(Tensor d_outputs, Tensor d_h, Tensor d_c, Tensor x, Tensor[] weights, "
    "Tensor h0, Tensor? c0, Tensor? batch_sizes, Tensor? seed, Tensor ticket, str shape, "
    "float dropout, bool needs_x) -> (Tensor, Tensor, Tensor, Tensor)",
    tags=_TAGS,
)
_LIBRARY.impl("rnn_forward", _forward, "CPU")
_LIBRARY.impl("rnn_backward", _backward, "CPU")
_RULES = {
    "drnn::rnn_forward": (_forward_fake, _forward_differentiate, _forward_save, _forward_vmap),
    "drnn::rnn_backward": (_backward_fake, _backward_differentiate, _backward_save, _backward_vmap),
}
for _name, (_fake, _differentiate, _save, _map) in _RULES.items():
    torch.library.register_fake(_name, _fake, lib=_LIBRARY)
    torch.library.register_autograd(_name, _differentiate, setup_context=_save, lib=_LIBRARY)
    torch.library.register_vmap(_name, _map, lib=_LIBRARY)

forward = torch.ops.drnn.rnn_forward
backward = torch.ops.drnn.rnn_backward
