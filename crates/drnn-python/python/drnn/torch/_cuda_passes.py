"""Forward and backward passes on a GPU: drnn's kernels on memory of torch's, on its current stream.

Kernels get addresses, so everything they read is made contiguous here, and everything they write is
allocated here, in the current stream: torch reuses such memory for work that is submitted later.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from . import _cuda
from ._config import Config
from ._cuda_packing import Packing, packing_of

_F32 = torch.float32
NO_SECOND_DERIVATIVES = (
    "drnn.torch has no second derivatives on a GPU; run the module within "
    "torch.backends.cudnn.flags(enabled=False), which uses torch's own operator"
)


class Call(NamedTuple):
    """What a pass computes: an undelayed network, in a type of 16 bits, of sequences that may be
    packed."""

    config: Config
    dtype: torch.dtype
    packing: Packing | None


def call_of(config: Config, dtype: torch.dtype, x: Tensor, batch_sizes: Tensor | None) -> Call:
    """A delay of padded sequences is the caller's, that of packed ones lies in their places."""
    if batch_sizes is None:
        return Call(config, dtype, None)
    packing = packing_of(config, x, batch_sizes)
    return Call(_cuda.undelayed(config) if config.delay else config, dtype, packing)


def _bytes(count: int, device: torch.device) -> Tensor:
    return torch.empty(count, dtype=torch.uint8, device=device)


def _contiguous(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if tensor is None:
        return None
    return tensor.to(dtype).contiguous()


def _parameters(weights) -> list[Tensor]:
    """The parameters in float32, converted together."""
    if all(weight.dtype == _F32 for weight in weights):
        return [weight if weight.is_contiguous() else weight.contiguous() for weight in weights]
    device = weights[0].device
    converted = [torch.empty(w.shape, dtype=_F32, device=device) for w in weights]
    torch._foreach_copy_(converted, list(weights))
    return converted


def check(config: Config, rows: int, x: Tensor, weights, states, lanes: int = 0) -> None:
    """Kernels get addresses, so no size is taken on trust: parameters may have been replaced since
    the module was made. The first `lanes` axes are not looked at."""
    expected = shapes_of(config, biases_in(config, weights))
    found = tuple(weight.shape[lanes:] for weight in weights)
    if found != expected:
        sizes = [[list(shape) for shape in shapes] for shapes in (expected, found)]
        raise RuntimeError(f"Expected parameters of sizes {sizes[0]}, got {sizes[1]}")
    size = config.num_layers * config.directions, rows, config.hidden_size
    for state in states:
        if state is not None and state.shape[lanes:] != size:
            raise RuntimeError(f"Expected hidden size {size}, got {list(state.shape[lanes:])}")
    if x.size(-1) != config.input_size:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {config.input_size}, got "
            f"{x.size(-1)}"
        )


def batch_of(call: Call, x: Tensor) -> tuple[int, int]:
    return x.shape[:2] if call.packing is None else (call.packing.steps, call.packing.rows)


def plan_of(call: Call, x: Tensor, training: bool):
    steps, rows = batch_of(call, x)
    return _cuda.loaded_plan(x.device.index, call.config, steps, rows, call.dtype, training)


def forward_pass(call: Call, x: Tensor, weights, h0, c0, training: bool):
    """Outputs, h_n and c_n (None if there is none), contiguous, states in float32; and what the
    backward pass needs. h_0 and c_0 may be None, which are zeros."""
    config, dtype, packing = call
    device, (steps, rows) = x.device, batch_of(call, x)
    check(config, rows, x, weights, (h0, c0))
    plan = plan_of(call, x, training)
    x = _contiguous(x, dtype) if packing is None else packing.padded(x, dtype)
    weights = _parameters(weights)
    h0, c0 = _contiguous(h0, _F32), _contiguous(c0, _F32)
    size = config.num_layers * config.directions, rows, config.hidden_size
    y = torch.empty((steps, rows, config.output_size), dtype=dtype, device=device)
    h_n = torch.empty(size, dtype=_F32, device=device)
    c_n = torch.empty(size, dtype=_F32, device=device) if config.has_cell_state else None
    saved = _bytes(plan.saved_bytes, device) if training else None
    workspace = _bytes(plan.workspace_bytes, device)
    lengths = None if packing is None else packing.lengths
    arrays = x, h0, c0, lengths, y, h_n, c_n, saved, workspace
    addresses = [0 if tensor is None else tensor.data_ptr() for tensor in arrays]
    with _cuda.device_guard(device.index):
        stream = _cuda.raw_stream(device.index)
        plan.forward(stream, [weight.data_ptr() for weight in weights], addresses)
    return y if packing is None else packing.packed_outputs(y), h_n, c_n, saved


def backward_pass(call: Call, x: Tensor, weights, saved: Tensor, upstream, d_states, needs_x, into):
    """Overwrites `d_states`, the gradients of h_0 and c_0 (None if not needed), and those of the
    weights at the addresses `into`, in float32; returns that of x, or None. `upstream` are the
    gradients of outputs, h_n and c_n; None for zeros. What is saved is used up."""
    dtype, packing, device = call.dtype, call.packing, x.device
    plan, (steps, rows) = plan_of(call, x, True), batch_of(call, x)
    check(call.config, rows, x, weights, ())
    d_y, d_h, d_c = upstream
    if d_y is not None:
        d_y = _contiguous(d_y, dtype) if packing is None else packing.padded_outputs(d_y.to(dtype))
    d_h, d_c = _contiguous(d_h, _F32), _contiguous(d_c, _F32)
    d_x = None
    if needs_x:
        d_x = torch.empty((steps, rows, x.size(-1)), dtype=dtype, device=device)
    weights = _parameters(weights)
    workspace = _bytes(plan.workspace_bytes, device)
    arrays = d_y, d_h, d_c, d_x, *d_states, saved, workspace
    addresses = [0 if tensor is None else tensor.data_ptr() for tensor in arrays]
    with _cuda.device_guard(device.index):
        stream = _cuda.raw_stream(device.index)
        plan.backward(stream, [weight.data_ptr() for weight in weights], into, addresses)
    return d_x if d_x is None or packing is None else packing.packed(d_x)


@lru_cache(maxsize=256)
def shapes_of(config: Config, biases: bool) -> tuple[tuple[int, ...], ...]:
    """Of the parameters."""
    shapes = config.shapes()
    return tuple(s for i, s in enumerate(shapes) if biases or i % 4 < 2)


@lru_cache(maxsize=256)
def sizes_of(config: Config, biases: bool) -> tuple[int, ...]:
    return tuple(math.prod(shape) for shape in shapes_of(config, biases))


def addresses_of(flat: Tensor, sizes) -> list[int]:
    """Addresses of the parts of a vector in float32."""
    starts = itertools.accumulate(sizes[:-1], initial=0)
    return [flat.data_ptr() + flat.element_size() * start for start in starts]


def biases_in(config: Config, weights) -> bool:
    return len(weights) == 4 * config.num_layers * config.directions
