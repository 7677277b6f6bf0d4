"""Recurrences as functions that autograd differentiates and ``torch.func`` transforms.

`recurrence` is what modules call. Where torch records what is called (``torch.compile``, export), it
calls the operators of `_ops`. Otherwise it calls the same passes through an ``autograd.Function``,
which costs a third of the time of an operator written in Python.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from . import _cuda, _cuda_lanes, _ops, _vmap
from ._config import Config, Inputs
from ._cuda_passes import NO_SECOND_DERIVATIVES
from ._passes import backward_pass, forward_pass, shape_of
from ._reference import reference_second_gradients

_PLAIN = (Tensor, torch.nn.Parameter)


def recurrence(config: Config, inputs: Inputs, save: bool):
    """Outputs, h_n and c_n (empty if there is none)."""
    if is_recorded(inputs.differentiable()):
        *tensors, dropout = inputs
        return _ops.forward(*tensors, config.encode(), dropout, save)[:3]
    transformed = is_transformed()
    if not save and not transformed:
        return forward_pass(shape_of(config), inputs, False)[:3]
    function = _Forward if transformed else DrnnRecurrence
    return function.apply(config, *inputs[2:], inputs.x, *inputs.weights)[:3]


def is_recorded(tensors: list[Tensor]) -> bool:
    """Whether somebody else than autograd and ``torch.func`` has to see the operator."""
    if torch.compiler.is_compiling() or _get_current_dispatch_mode() is not None:
        return True
    return any(type(tensor) not in _PLAIN for tensor in tensors)


def is_transformed() -> bool:
    """Whether a call stands in a transform of ``torch.func``."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def _forward_pass(config: Config, inputs: Inputs):
    if _cuda.is_on_gpu(inputs.x):
        return _cuda_lanes.forward_pass(config, inputs)
    return forward_pass(shape_of(config), inputs, True)


def _backward_pass(config: Config, inputs: Inputs, ticket: Tensor, upstream, needs_x: bool):
    if _cuda.is_on_gpu(inputs.x):
        return _cuda_lanes.backward_pass(config, inputs, ticket, upstream, needs_x)
    return backward_pass(shape_of(config), inputs, ticket, upstream, needs_x)


class _Forward(torch.autograd.Function):
    """Arguments: a `Config` and the fields of `Inputs`, x and the weights last."""

    @staticmethod
    def forward(config, h0, c0, batch_sizes, seed, dropout, x, *weights):
        inputs = Inputs(x, list(weights), h0, c0, batch_sizes, seed, dropout)
        return _forward_pass(config, inputs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.config, h0, c0, batch_sizes, seed, ctx.dropout, x, *weights = inputs
        ctx.mark_non_differentiable(output[3])
        ctx.save_for_backward(h0, c0, batch_sizes, seed, output[3], x, *weights)

    @staticmethod
    def backward(ctx, d_outputs, d_h, d_c, _):
        h0, c0, batch_sizes, seed, ticket, x, *weights = ctx.saved_tensors
        _, needs_h0, needs_c0, _, _, _, needs_x, *needs_weights = ctx.needs_input_grad
        upstream = d_outputs, d_h, d_c
        if torch.is_grad_enabled() or is_transformed():
            given = h0, c0, batch_sizes, seed, ctx.dropout, x, *weights
            found = _Backward.apply(ctx.config, ticket, needs_x, *upstream, *given)
        else:
            inputs = Inputs(x, weights, h0, c0, batch_sizes, seed, ctx.dropout)
            found = _backward_pass(ctx.config, inputs, ticket, upstream, needs_x)
        d_x, d_params, d_h0, d_c0 = found
        split = ctx.config.split(d_params)
        d_weights = (d if needs else None for needs, d in zip(needs_weights, split))
        d_h0, d_c0 = d_h0 if needs_h0 else None, d_c0 if needs_c0 else None
        return None, d_h0, d_c0, None, None, None, d_x if needs_x else None, *d_weights

    @staticmethod
    def vmap(info, in_dims, config, h0, c0, batch_sizes, seed, dropout, x, *weights):
        inputs = Inputs(x, list(weights), h0, c0, batch_sizes, seed, dropout)
        dims = Inputs(in_dims[6], list(in_dims[7:]), *in_dims[1:6])

        def run(lanes):
            return _Forward.apply(config, *lanes[2:], lanes.x, *lanes.weights)

        return _vmap.forward(info.batch_size, dims, inputs, run)


class DrnnRecurrence(torch.autograd.Function):
    """The same without transforms, under the name that profilers show. For a function with
    `setup_context`, torch inspects the signature at every call, which takes longer than a short
    pass."""

    @staticmethod
    def forward(ctx, *arguments):
        output = _Forward.forward(*arguments)
        _Forward.setup_context(ctx, arguments, output)
        return output

    backward = _Forward.backward


class _Backward(torch.autograd.Function):
    """The backward pass, where it is itself differentiated or transformed."""

    @staticmethod
    def forward(config, ticket, needs_x, d_outputs, d_h, d_c, *given):
        h0, c0, batch_sizes, seed, dropout, x, *weights = given
        inputs = Inputs(x, weights, h0, c0, batch_sizes, seed, dropout)
        return _backward_pass(config, inputs, ticket, (d_outputs, d_h, d_c), needs_x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.config, _, ctx.needs_x, *rest = inputs
        d_outputs, d_h, d_c, h0, c0, batch_sizes, _, ctx.dropout, x, *weights = rest
        ctx.save_for_backward(d_outputs, d_h, d_c, h0, c0, batch_sizes, x, *weights)

    @staticmethod
    def backward(ctx, *gradients):
        d_outputs, d_h, d_c, h0, c0, batch_sizes, x, *weights = ctx.saved_tensors
        if _cuda.is_on_gpu(x):
            raise RuntimeError(NO_SECOND_DERIVATIVES)
        inputs = Inputs(x, weights, h0, c0, batch_sizes, None, ctx.dropout)
        given = ctx.config, inputs, (d_outputs, d_h, d_c), ctx.needs_x, gradients
        upstream, d = reference_second_gradients(*given)
        return None, None, None, *upstream, d.h0, d.c0, None, None, None, d.x, *d.weights

    @staticmethod
    def vmap(info, in_dims, config, ticket, needs_x, d_outputs, d_h, d_c, *given):
        h0, c0, batch_sizes, seed, dropout, x, *weights = given
        inputs = Inputs(x, weights, h0, c0, batch_sizes, seed, dropout)
        dims = Inputs(in_dims[11], list(in_dims[12:]), *in_dims[6:11])

        def run(upstream, lanes, ticket):
            given = *lanes[2:], lanes.x, *lanes.weights
            return _Backward.apply(config, ticket, needs_x, *upstream, *given)

        upstream = list(zip((d_outputs, d_h, d_c), in_dims[3:6]))
        return _vmap.backward(info.batch_size, dims, inputs, upstream, ticket, needs_x, run)
