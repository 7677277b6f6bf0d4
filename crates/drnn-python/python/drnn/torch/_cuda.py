"""Passes on a GPU: drnn's kernels on arrays that torch allocates, on torch's current stream.

The kernels that run all time steps in one launch need a GPU of the Hopper generation and 16-bit input:
modules of that type, or autocast. They were compiled, executed in emulation and checked launch by launch,
but have not run on a GPU from here yet. So they are used only where DRNN_TORCH_CUDA=1.

What a forward pass saves is a tensor like any other, which autograd keeps. A backward pass overwrites it,
so a second one repeats the forward pass.
"""

from __future__ import annotations

import os
from functools import lru_cache

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from drnn._drnn import CudaRecurrence

from ._config import Config

_ENABLED = os.environ.get("DRNN_TORCH_CUDA") == "1"
_FORMATS = {torch.float16: "float16", torch.bfloat16: "bfloat16"}


def _new_plan(device: int, config: Config, steps: int, rows: int, format: str, training: bool):
    mode, q, n, layers, both, *_ = config
    return CudaRecurrence(device, mode, q, n, layers, both, steps, rows, format, training)


@lru_cache(maxsize=256)
def _loaded_plan(device: int, config: Config, steps: int, rows: int, format: str, training: bool):
    """The kernels for batches of one shape, loaded, so that calls may be captured in a CUDA graph."""
    plan = _new_plan(device, config, steps, rows, format, training)
    plan.warm_up()
    return plan


@lru_cache(maxsize=256)
def _refusal(device: int, config: Config, steps: int, rows: int, format: str) -> str | None:
    """Why there is no fast kernel for batches of one shape."""
    try:
        plan = _new_plan(device, config, steps, rows, format, True)
    except (RuntimeError, ValueError) as error:
        return str(error)
    if plan.is_persistent:
        return None
    return f"there is no kernel for this {config.mode} on this GPU"


def _stream(device: torch.device) -> int:
    return torch.cuda.current_stream(device).cuda_stream


def _guard(device: torch.device):
    """drnn makes the device current for the thread; this restores the one before."""
    return torch.cuda.device(device)


def _plan(config: Config, x: Tensor, training: bool):
    steps, rows = x.shape[:2]
    return _loaded_plan(x.device.index, config, steps, rows, _FORMATS[x.dtype], training)


def _undelayed(config: Config) -> Config:
    return config._replace(delay=0, look_ahead=False)


def obstacle(config: Config, x: Tensor, batch_sizes, tensors, dtype: torch.dtype) -> str | None:
    """Why these kernels cannot be used for `tensors`, x among them, computed as `dtype`."""
    if not _ENABLED:
        return "the kernels for CUDA are not switched on (DRNN_TORCH_CUDA=1)"
    if dtype not in _FORMATS:
        return f"there is no kernel for {dtype} on CUDA; use autocast"
    if config.proj_size or config.connections:
        return "there is no kernel for projections and connected blocks on CUDA"
    kinds = (torch.float32, *_FORMATS)
    if any(tensor.device != x.device or tensor.dtype not in kinds for tensor in tensors):
        return "there is no kernel for tensors of several devices or of other types"
    if x.numel() == 0:
        return None  # not for any kernel
    steps, rows = x.shape[:2] if batch_sizes is None else (len(batch_sizes), int(batch_sizes[0]))
    steps += 0 if config.look_ahead else config.delay
    return _refusal(x.device.index, _undelayed(config), steps, rows, _FORMATS[dtype])


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _layers(config: Config, tensors: list[Tensor]) -> list[list[int]]:
    """Addresses of w_ih, w_hh, b_ih and b_hh of every layer and direction; 0 without biases."""
    count = config.num_layers * config.directions
    each = len(tensors) // count
    addresses = [tensor.data_ptr() for tensor in tensors]
    layers = (addresses[i * each : (i + 1) * each] for i in range(count))
    return [layer + [0] * (4 - each) for layer in layers]


def _bytes(count: int, device: torch.device) -> Tensor:
    return torch.empty(count, dtype=torch.uint8, device=device)


def _forward(config: Config, lengths, h0, c0, x, weights, training: bool):
    """Outputs, h_n, c_n (None if there is none) and what is saved, in contiguous memory."""
    with _guard(x.device):
        plan = _plan(config, x, training)
        y = x.new_empty(*x.shape[:2], config.output_size)
        h_n, c_n = torch.empty_like(h0), None if c0 is None else torch.empty_like(c0)
        saved = _bytes(plan.saved_bytes, x.device)
        workspace = _bytes(plan.workspace_bytes, x.device)
        arrays = {"x": x, "h0": h0, "c0": c0, "lengths": lengths, "y": y, "h_n": h_n, "c_n": c_n}
        arrays.update(saved=saved if training else None, workspace=workspace)
        addresses = {name: _address(tensor) for name, tensor in arrays.items()}
        plan.forward(_stream(x.device), {"parameters": _layers(config, weights), **addresses})
    return y, h_n, c_n, saved


class CudaRecurrenceFunction(torch.autograd.Function):
    """Arguments: a `Config`, lengths (B) or None, h_0, c_0 or None, x and the weights, contiguous."""

    @staticmethod
    def forward(ctx, config, lengths, h0, c0, x, *weights):
        y, h_n, c_n, saved = _forward(config, lengths, h0, c0, x, weights, True)
        ctx.config, ctx.has_gone_back = config, False
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(lengths, h0, c0, saved, x, *weights)
        return y, h_n, c_n

    @staticmethod
    @once_differentiable
    def backward(ctx, d_y, d_h_n, d_c_n):
        lengths, h0, c0, saved, x, *weights = ctx.saved_tensors
        config = ctx.config
        if ctx.has_gone_back:
            *_, saved = _forward(config, lengths, h0, c0, x, weights, True)
        ctx.has_gone_back = True
        _, _, needs_h0, needs_c0, needs_x, *_ = ctx.needs_input_grad
        upstream = {"d_y": d_y, "d_h_n": d_h_n, "d_c_n": d_c_n}
        given = {name: None if d is None else d.contiguous() for name, d in upstream.items()}
        with _guard(x.device):
            plan = _plan(config, x, True)
            d_x = torch.empty_like(x) if needs_x else None
            d_h0 = torch.empty_like(h0) if needs_h0 else None
            d_c0 = torch.empty_like(c0) if needs_c0 else None
            d_weights = [torch.empty_like(weight) for weight in weights]
            workspace = _bytes(plan.workspace_bytes, x.device)
            arrays = {**given, "d_x": d_x, "d_h0": d_h0, "d_c0": d_c0}
            arrays.update(saved=saved, workspace=workspace)
            addresses = {name: _address(tensor) for name, tensor in arrays.items()}
            layers = {
                "parameters": _layers(config, weights),
                "gradients": _layers(config, d_weights),
            }
            plan.backward(_stream(x.device), {**layers, **addresses})
        return None, None, d_h0, d_c0, d_x, *d_weights


def _stack(config: Config, lengths, h0, c0, x, weights):
    """All layers at once, without dropout."""
    tensors = (x, h0, *weights) if c0 is None else (x, h0, c0, *weights)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return CudaRecurrenceFunction.apply(config, lengths, h0, c0, x, *weights)
    return _forward(config, lengths, h0, c0, x, weights, False)[:3]


def _layer_by_layer(config: Config, lengths, h0, c0, x, weights, dropout: float):
    """The same with dropout between layers."""
    k, each = config.directions, len(weights) // config.num_layers
    last = []
    for layer in range(config.num_layers):
        own = config._replace(input_size=x.size(-1), num_layers=1)
        states = (None if s is None else s[layer * k : (layer + 1) * k] for s in (h0, c0))
        x, *states = _stack(own, lengths, *states, x, weights[layer * each : (layer + 1) * each])
        last.append(states)
        if layer + 1 < config.num_layers:
            x = torch.nn.functional.dropout(x, dropout)
    h, c = zip(*last)
    return x, torch.cat(h), None if c0 is None else torch.cat(c)


def run(config: Config, x, weights, h0, c0, batch_sizes, dtype: torch.dtype, dropout: float):
    """Outputs, h_n and c_n (None if there is none), all of `dtype`. Parameters and states are computed
    as float32."""
    lengths = None
    if batch_sizes is not None:
        x, lengths = pad_packed_sequence(PackedSequence(x, batch_sizes))
    delay = config.delay
    if delay:
        shortest = x.size(0) if lengths is None else int(lengths.min())
        if config.look_ahead and shortest <= delay:
            raise RuntimeError(
                f"every sequence needs more than {delay} elements: the last {delay} are only looked at"
            )
        if not config.look_ahead:
            x = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, delay))
            lengths = None if lengths is None else lengths + delay
    on_device = None if lengths is None else lengths.to(x.device)
    with torch.autocast(x.device.type, enabled=False):
        x = x.to(dtype).contiguous()
        weights = [weight.float().contiguous() for weight in weights]
        h0, c0 = (None if s is None else s.float().contiguous() for s in (h0, c0))
        stack = _undelayed(config)
        if dropout > 0:
            y, h, c = _layer_by_layer(stack, on_device, h0, c0, x, weights, dropout)
        else:
            y, h, c = _stack(stack, on_device, h0, c0, x, weights)
    y = y[delay:]
    if lengths is not None:
        y = pack_padded_sequence(y, lengths - delay).data
    return y, h.to(dtype), None if c is None else c.to(dtype)
